"""Every dataset of a result, declared once: path, unit, axes, meaning.

The HDF5 writer, the reader and ``docs/results.md`` are driven by these declarations; a dataset that is not declared here
cannot be written. Times are integers in femtoseconds, so that sums are exact and two runs compare bit for bit;
``/run/core_period_fs`` turns them into cycles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cohsim.results.rundata import CATEGORIES, LATENCY_BINS, LINE_STATS, LOG_KINDS, NIC_STATS, SERVED

SCHEMA_VERSION = 1
"""Raised when a dataset changes its meaning, unit or axes, or is removed; added datasets do not raise it."""

Kind = Literal["int", "float", "text"]


@dataclass(frozen=True)
class Dataset:
    """Declaration of one dataset; ``{name}`` in the path stands for one path element that depends on the machine."""

    path: str
    kind: Kind
    unit: str  # "1" for counts and numbers, "" for names and text
    axes: tuple[str, ...]  # () is a scalar
    description: str
    optional: bool = False  # may be missing: files of an older cohsim, or an option of the run was not given


@dataclass(frozen=True)
class Axis:
    """What an axis runs over, and the dataset that names its positions (None where the position is the name)."""

    description: str
    coordinates: str | None


AXES: dict[str, Axis] = {
    "thread": Axis("CPU of the run, 0..N-1", "/threads/machine_cpu"),
    "category": Axis("where a thread's time goes: " + ", ".join(CATEGORIES), "/axes/category"),
    "level": Axis("who served a memory operation: " + ", ".join(SERVED), "/axes/level"),
    "line_stat": Axis("statistic of a line: " + ", ".join(LINE_STATS), "/axes/line_stat"),
    "function": Axis("function of the workload", "/functions/name"),
    "primitive": Axis("atomic primitive, then every function without its primitives", "/primitives/name"),
    "object": Axis("object of the workload", "/objects/name"),
    "line": Axis("cache line that was missed or fought for, by address", "/lines/address"),
    "field_use": Axis("a field used by a function (and primitive)", "/fields/field"),
    "from_node": Axis("node that had the line", None),
    "to_node": Axis("node that received the line", None),
    "bin": Axis("floor(log2(latency in core cycles)); bin 0 holds everything below 2 cycles", None),
    "take": Axis("a function that took a line from another, by what they wanted and who served", "/takes/address"),
    "cpu_take": Axis("a CPU that took a line from another", "/cpu_takes/address"),
    "kill": Axis("a function whose store ended another's reservation", "/kills/address"),
    "cpu_kill": Axis("a CPU whose store ended another's reservation", "/cpu_kills/address"),
    "latency_bin": Axis(f"floor(log2(latency in core cycles)); bin {LATENCY_BINS - 1} holds everything beyond", None),
    "lock_use": Axis("a lock word, by what the library's lock functions do to it", "/locks/kind"),
    "log_event": Axis("one event of a logged line, by time", "/log/time_fs"),
    "log_kind": Axis("kind of such an event: " + ", ".join(LOG_KINDS), "/axes/log_kind"),
    "trial": Axis("run at one clock, in the order in which the governor asked for it", "/clock/trial_hz"),
    "state": Axis("state of the controller", None),
    "event": Axis("event of the controller", None),
    "nic": Axis("network device of the workload", "/nics/name"),
    "nic_stat": Axis("statistic of a network device: " + ", ".join(NIC_STATS), "/axes/nic_stat"),
    "counter": Axis("event that the workload counts itself", "/counters/name"),
    "vector": Axis("interrupt vector", "/interrupts/name"),
    "wait": Axis("a CPU that was spinning when the run ended, for half of the measured time or longer", "/waits/cpu"),
    "program": Axis("program that CPUs run: a path of the workload, as process or as interrupt", "/programs/name"),
}


def _per_function(group: str, axis: str, whom: str, calls: str) -> list[Dataset]:
    """Datasets that the inlined and the de-inlined profile have in common."""
    return [
        Dataset(f"/{group}/name", "text", "", (axis,), f"Name of the {whom}."),
        Dataset(
            f"/{group}/time_fs", "int", "fs", ("thread", axis, "category"), f"Time of the thread in the {whom}, by category."
        ),
        Dataset(f"/{group}/calls", "int", "1", ("thread", axis), calls),
        Dataset(
            f"/{group}/served", "int", "1", ("thread", axis, "level"), f"Memory operations of the {whom}, by who served them."
        ),
        Dataset(f"/{group}/sc_failures", "int", "1", ("thread", axis), f"Store-conditionals of the {whom} that failed."),
    ]


_LINE_STAT_MEANING = (
    "loads, stores, atomics: operations that left the core; fills: the line came to a node; upgrades: a copy became writable; "
    "transfers_near: the cluster's L2 moved it from another core; transfers_far: it came from another node; "
    "remote_clean, remote_dirty: another node supplied it unmodified or modified; memory: DRAM supplied it; "
    "invalidations: copies dropped because of another's store; sc_failures: store-conditionals that failed; "
    "stall_fs: thread time waiting for the line; queue_fs: time requests waited in line queues at L2 and home."
)

_NIC_STAT_MEANING = (
    "rx_frames, rx_bytes: given to the driver; missed: lost because the FIFO was full or the ring had no descriptor; paused_fs: a sender was "
    "held back; blocked_fs: the frame at the FIFO's head waited for a descriptor; tx_frames, tx_bytes: sent (segments one by one); "
    "rx_interrupts, tx_interrupts: raised; doorbells: tail register writes; dma_writes, dma_reads: lines; arrived: entered the FIFO."
)


def _optional(path: str, unit: str, axes: tuple[str, ...], description: str) -> Dataset:
    return Dataset(path, "text" if unit == "" else "int", unit, axes, description, optional=True)


def _pair(group: str, axis: str, first: str, second: str, what: str, timed: bool) -> list[Dataset]:
    """Datasets of the pairs by function and of those by CPU."""
    line = "First byte of the line; that of instance 0 where the instances of an object lie alike on their lines."
    columns = [
        _optional(f"/{group}/address", "B", (axis,), line),
        _optional(f"/{group}/{first}_function", "1", (axis,), f"Function of the {first}, position in /functions; -1 unknown or none."),
        _optional(f"/{group}/{first}_use", "1", (axis,), f"What the {first} accessed, position in /fields; -1 unknown or none."),
        _optional(f"/{group}/{second}_function", "1", (axis,), f"Function of the {second}, position in /functions; -1 unknown."),
        _optional(f"/{group}/{second}_use", "1", (axis,), f"What the {second} accessed, position in /fields; -1 unknown."),
        *(
            _optional(f"/{group}/{who}_{column}_bytes", "B", (axis,), f"{meaning} of the {who}, in the line; {missing}.")
            for who in (first, second)
            for column, meaning, missing in (
                ("offset", "First byte of the access", "-1 unknown or none"),
                ("size", "Size of the access", "a power of two, 0 unknown or none"),
            )
        ),
        _optional(f"/{group}/count", "1", (axis,), what),
    ]
    cpus = [
        _optional(f"/cpu_{group}/address", "B", (f"cpu_{axis}",), line),
        _optional(f"/cpu_{group}/{first}", "1", (f"cpu_{axis}",), f"CPU of the run of the {first}; -1 none."),
        _optional(f"/cpu_{group}/{second}", "1", (f"cpu_{axis}",), f"CPU of the run of the {second}; -1 unknown."),
        _optional(f"/cpu_{group}/count", "1", (f"cpu_{axis}",), what),
    ]
    if timed:
        took = "Latency of these accesses of the takers, from leaving the thread to the answer."
        level = "Who served the taker, position in /axes/level: l2 is a sibling's line; upgrade, home and memory: copies had to go."
        columns += [_optional(f"/{group}/level", "1", (axis,), level), _optional(f"/{group}/latency_fs", "fs", (axis,), took)]
        columns.append(_optional(f"/{group}/taker_lock", "1", (axis,), "Lock function that the access is part of, position in /locks; -1 none."))
        cpus.append(_optional(f"/cpu_{group}/latency_fs", "fs", (f"cpu_{axis}",), took))
    return columns + cpus


_TAKE = (
    "Times the taker got the line that the holder had used last: written since it came there, or else fetched. Hits are not takes, nor "
    "are stores of a sibling that shares the L1."
)
_LOGGED = "Only with --log-line."

SHARING: tuple[Dataset, ...] = (
    _optional("/run/pairs_lost", "1", (), "Takes and lost reservations that found a pair table full: counted here, missing in /takes and /kills."),
    *_pair("takes", "take", "taker", "holder", _TAKE, True),
    *_pair("kills", "kill", "killer", "victim", "Times a store of the killer (none: eviction) ended a reservation of the victim.", False),
    _optional("/fields/reads_by_cpu", "1", ("field_use", "thread"), "Loads and load-and-reserves executed, by CPU of the run."),
    _optional(
        "/fields/writes_by_cpu", "1", ("field_use", "thread"), "Stores, read-modify-writes and store-conditionals executed, by CPU."
    ),
    _optional(
        "/fields/latency_fs",
        "fs",
        ("field_use",),
        "Latency of the operations that neither the store buffer nor the L1 served, from leaving the thread to the answer, all threads.",
    ),
    _optional("/fields/latency_max_fs", "fs", ("field_use",), "Longest of them."),
    _optional("/fields/latency_operations", "1", ("field_use", "latency_bin"), "Those operations by latency."),
    _optional("/locks/kind", "", ("lock_use",), "Kind of the lock: ticket, tas, ttas, mcs, queued, spin, rwlock, seqlock."),
    _optional("/locks/object", "1", ("lock_use",), "Object its word is in, position in /objects; -1: locks that one function reaches by pointer."),
    _optional("/locks/field", "", ("lock_use",), "Field of the lock word; empty for an anonymous byte range."),
    _optional("/locks/offset_bytes", "B", ("lock_use",), "First byte of the lock word in the object."),
    _optional("/locks/size_bytes", "B", ("lock_use",), "Size of the lock word."),
    _optional(
        "/locks/wait_fs", "fs", ("lock_use",), "Time of all threads in its acquiring functions but for executing instructions."
    ),
    _optional("/axes/log_kind", "", ("log_kind",), f"Names of the kinds of logged events. {_LOGGED}"),
    _optional("/log/lost", "1", (), f"Later events of the logged lines, beyond --log-events. {_LOGGED}"),
    _optional("/log/time_fs", "fs", ("log_event",), f"When, from the start of the simulation with its warm-up. {_LOGGED}"),
    _optional("/log/kind", "1", ("log_event",), "Kind, position in /axes/log_kind."),
    _optional("/log/address", "B", ("log_event",), "First byte of the line."),
    _optional("/log/cpu", "1", ("log_event",), "CPU of the run it happens to; drop, downgrade: first CPU of the cluster's core, -1 a whole node."),
    _optional("/log/function", "1", ("log_event",), "Function of the CPU, position in /functions; -1 none."),
    _optional("/log/use", "1", ("log_event",), "What it accesses, position in /fields; -1 none or unknown."),
    _optional("/log/operation", "1", ("log_event",), "2 load, 3 store, 4 read-modify-write, 5 load-and-reserve, 6 store-conditional, 0 none."),
    _optional("/log/by_cpu", "1", ("log_event",), "Whom a grant takes the line from, or whose access is the reason; -1 nobody."),
    _optional("/log/by_function", "1", ("log_event",), "Its function, position in /functions; -1 none."),
    _optional(
        "/log/level", "1", ("log_event",), "answer, grant: who served, position in /axes/level; drop, downgrade: the coherence node."
    ),
    _optional("/log/writable", "1", ("log_event",), "grant: 1 to write, 0 to read."),
)

_GOVERNED = "Only with a --governor that chooses."

CLOCK: tuple[Dataset, ...] = (
    Dataset("/clock/trial_hz", "float", "Hz", ("trial",), f"Clock of the cores in the trial. {_GOVERNED}", optional=True),
    Dataset("/clock/load", "float", "1", ("trial",), f"Busy share of the measured time of its busiest CPU. {_GOVERNED}", optional=True),
    Dataset("/clock/next_hz", "float", "Hz", ("trial",), f"Clock that the governor asks for after it. {_GOVERNED}", optional=True),
    Dataset(
        "/clock/chosen",
        "int",
        "1",
        (),
        f"Trial that this result is of, position in /clock/trial_hz: the clock that asks for itself, or the highest of those that follow each "
        f"other in a circle. {_GOVERNED}",
        optional=True,
    ),
)

_WAITED = "There only if a CPU had spun for half of the measured time when the run ended."

WAITS: tuple[Dataset, ...] = (
    _optional("/waits/cpu", "1", ("wait",), f"CPU of the run. {_WAITED}"),
    _optional("/waits/function", "", ("wait",), "Function whose wait loop it is in."),
    _optional("/waits/line", "1", ("wait",), "Line of the workload; that of the call, where the loop is the library's."),
    _optional("/waits/object", "", ("wait",), "Object of the value it waits for, with its instance; empty: the loop reads no value that it tests."),
    _optional("/waits/offset_bytes", "B", ("wait",), "Where the value is in the object; -1 unknown."),
    _optional("/waits/field", "", ("wait",), "Its field; empty for an anonymous byte range."),
    _optional("/waits/lock", "", ("wait",), "Kind and word of the lock, where the value is not that word but a queue node; else empty."),
    _optional("/waits/address", "B", ("wait",), "Its address; -1: the loop reads no value that it tests."),
    _optional("/waits/value", "1", ("wait",), "What it was when the run ended, as a signed number of 64 bits."),
    _optional("/waits/waited_fs", "fs", ("wait",), "How long the CPU had been in the loop, warm-up included."),
)

DATASETS: tuple[Dataset, ...] = (
    Dataset("/run/machine", "text", "", (), "Name of the machine."),
    Dataset("/run/workload", "text", "", (), "Name of the workload."),
    Dataset(
        "/run/stop",
        "text",
        "",
        (),
        "Why the run ended: finished, interrupted (the figures cover what ran), limit (event limit reached), deadlock.",
    ),
    Dataset("/run/stop_report", "text", "", (), "Who waits for what, after a deadlock; otherwise empty."),
    Dataset("/run/seed", "int", "1", (), "Seed of the random streams (packet arrivals, spreading)."),
    Dataset(
        "/run/measured_fs",
        "int",
        "fs",
        (),
        "Length of the measured window; every figure covers this window unless it says otherwise.",
    ),
    Dataset("/run/total_fs", "int", "fs", (), "Simulated time including the warm-up."),
    Dataset("/run/core_period_fs", "int", "fs", (), "One cycle of the cores' clock in this run."),
    Dataset("/run/line_bytes", "int", "B", (), "Size of a cache line."),
    Dataset("/run/memory_operations", "int", "1", (), "Loads, stores and atomics executed, whole run with warm-up."),
    Dataset("/run/events", "int", "1", (), "Messages that the engine processed, whole run with warm-up; cores' own turns: attribute local_turns."),
    Dataset("/run/line_overflow", "int", "1", (), "Line events that found the line table full: counted here, missing in /lines."),
    Dataset(
        "/run/frame_bytes", "int", "B", (), "Bytes of a frame that count as throughput; 0 if the workload has no packet source."
    ),
    Dataset(
        "/run/offered_pps", "float", "1/s", (), "Packets offered per second, all queues; 0 if the workload has no packet source."
    ),
    Dataset("/run/assumptions", "text", "", ("assumption",), "What the workload takes for granted."),
    Dataset("/axes/category", "text", "", ("category",), "Names of the time categories."),
    Dataset("/axes/level", "text", "", ("level",), "Names of the levels that serve memory operations."),
    Dataset("/axes/line_stat", "text", "", ("line_stat",), "Names of the line statistics."),
    Dataset("/threads/machine_cpu", "int", "1", ("thread",), "CPU number of the machine the thread ran on."),
    Dataset("/threads/core", "int", "1", ("thread",), "Core of that CPU."),
    Dataset("/threads/node", "int", "1", ("thread",), "Coherence node (private L2, or cluster) of that core."),
    Dataset(
        "/threads/time_fs",
        "int",
        "fs",
        ("thread", "category"),
        "Time of the thread by category, idle included; sums to the window.",
    ),
    Dataset("/threads/iterations", "int", "1", ("thread",), "Paths (packets) completed."),
    Dataset("/threads/received", "int", "1", ("thread",), "Packets taken from the receive queue."),
    Dataset("/threads/dropped", "int", "1", ("thread",), "Packets that found the receive queue full."),
    *_per_function("functions", "function", "function, atomics inlined in their callers", "Times the function was entered."),
    *_per_function(
        "primitives",
        "primitive",
        "atomic primitive, or of the function without its primitives",
        "Times the primitive was begun (a repeated LL/SC attempt is not a new one), or the function entered.",
    ),
    Dataset("/objects/name", "text", "", ("object",), "Name of the object."),
    Dataset("/objects/struct", "text", "", ("object",), "Its struct."),
    Dataset("/objects/scope", "text", "", ("object",), "shared, per-cpu, per-packet, per-flow or per-queue."),
    Dataset("/objects/base", "int", "B", ("object",), "Address of instance 0."),
    Dataset("/objects/size_bytes", "int", "B", ("object",), "Size of one instance."),
    Dataset("/objects/stride_bytes", "int", "B", ("object",), "Distance of two instances; 0 if there is one."),
    Dataset("/objects/instances", "int", "1", ("object",), "Number of instances."),
    Dataset("/lines/address", "int", "B", ("line",), "First byte of the line."),
    Dataset(
        "/lines/object",
        "int",
        "1",
        ("line",),
        "Object the line belongs to (position in /objects); the busiest one where several share it, -1 if none is known.",
    ),
    Dataset("/lines/instance", "int", "1", ("line",), "Instance of that object, -1 if none is known."),
    Dataset(
        "/lines/offset_bytes",
        "int",
        "B",
        ("line",),
        "First byte of that instance on the line, counted from the instance's start.",
    ),
    Dataset(
        "/lines/objects_on_line", "int", "1", ("line",), "Instances of objects on the line; more than one invites false sharing."
    ),
    Dataset(
        "/lines/stats", "int", "1", ("line", "line_stat"), f"Counts (columns ending in _fs: femtoseconds). {_LINE_STAT_MEANING}"
    ),
    Dataset("/fields/object", "int", "1", ("field_use",), "Object the field belongs to, position in /objects."),
    Dataset("/fields/field", "text", "", ("field_use",), "Field name; empty for an anonymous byte range."),
    Dataset("/fields/offset_bytes", "int", "B", ("field_use",), "First byte of the field in the object."),
    Dataset("/fields/size_bytes", "int", "B", ("field_use",), "Size of the field."),
    Dataset("/fields/function", "int", "1", ("field_use",), "Function that uses it, position in /functions."),
    Dataset(
        "/fields/primitive", "int", "1", ("field_use",), "Atomic primitive it is used by, position in /primitives; -1 outside."
    ),
    Dataset("/fields/loads", "int", "1", ("field_use",), "Loads and load-and-reserves executed, all threads."),
    Dataset("/fields/stores", "int", "1", ("field_use",), "Stores executed, all threads."),
    Dataset(
        "/fields/atomics", "int", "1", ("field_use",), "Atomic read-modify-writes and store-conditionals executed, all threads."
    ),
    Dataset("/fields/sc_failures", "int", "1", ("field_use",), "Store-conditionals that failed, all threads."),
    Dataset("/fields/served", "int", "1", ("field_use", "level"), "Those operations by who served them, all threads."),
    Dataset("/fields/time_fs", "int", "fs", ("field_use", "category"), "Time of all threads at those operations, by category."),
    Dataset("/axes/nic_stat", "text", "", ("nic_stat",), "Names of the statistics of network devices."),
    Dataset("/nics/name", "text", "", ("nic",), "Name of the network device."),
    Dataset("/nics/stats", "int", "1", ("nic", "nic_stat"), _NIC_STAT_MEANING),
    Dataset("/nics/output", "int", "1", ("nic",), "1 where the frames it sends are the packets of the run."),
    Dataset("/nics/offered_pps", "float", "1/s", ("nic",), "Frames offered to it per second."),
    Dataset("/counters/name", "text", "", ("counter",), "Name of the event; the first is dropped packets."),
    Dataset("/counters/count", "int", "1", ("thread", "counter"), "Times the thread counted it."),
    Dataset("/interrupts/name", "text", "", ("vector",), "Name of the interrupt vector."),
    Dataset("/interrupts/cpu", "int", "1", ("vector",), "CPU of the run that it interrupts."),
    Dataset("/interrupts/raised", "int", "1", ("vector",), "Times it was raised."),
    Dataset("/programs/name", "text", "", ("program",), "Path of the workload that the program runs."),
    Dataset("/programs/time_fs", "int", "fs", ("thread", "program", "category"), "Time of the thread in the program, by category."),
    Dataset("/transfers/nodes", "int", "1", ("from_node", "to_node"), "Lines moved from one coherence node to another."),
    Dataset("/caches/served", "int", "1", ("thread", "level"), "Memory operations of the thread, by who served them."),
    Dataset("/latency/operations", "int", "1", ("level", "bin"), "Memory operations by who served them and by latency."),
    Dataset("/transitions/{controller}/states", "text", "", ("state",), "States of the controller, in table order."),
    Dataset("/transitions/{controller}/events", "text", "", ("event",), "Events of the controller, in table order."),
    Dataset(
        "/transitions/{controller}/count", "int", "1", ("state", "event"), "Times the protocol row (state, event) was executed."
    ),
    Dataset("/provenance/machine_text", "text", "", (), "The machine file and the files it extends, as they were read."),
    Dataset(
        "/provenance/machine_effective", "text", "", (), "The effective machine as one machine file: every value with its source."
    ),
    Dataset("/provenance/machine_compiled", "text", "", (), "The values the core ran with, as JSON."),
    Dataset("/provenance/workload_text", "text", "", (), "The workload file as it was read."),
    Dataset(
        "/provenance/settings",
        "text",
        "",
        (),
        "What the command line set, as JSON: seed, pinning, variants, layouts, locks, lowering, kernel, overrides, governor.",
    ),
    *CLOCK,
    *SHARING,
    *WAITS,
)

AXES["assumption"] = Axis("one assumption", None)


def _counter(group: str, name: str, unit: str, description: str) -> Dataset:
    return Dataset(f"/{group}/{name}", "int", unit, (), description)



COUNTERS: dict[str, Dataset] = {
    "home_requests": _counter("home", "requests", "1", "Requests that reached a home."),
    "home_snoops": _counter("home", "snoops", "1", "Snoops the homes sent to nodes."),
    "home_blocked_fs": _counter(
        "home", "blocked_fs", "fs", "Time homes held a line blocked, from its request to the acknowledgement."
    ),
    "home_queue_fs": _counter("home", "queue_fs", "fs", "Time requests waited at a home for their blocked line."),
    "recalls": _counter("home", "recalls", "1", "Lines an inclusive home cache took back from nodes to make room."),
    "memory_reads": _counter("memory", "reads", "1", "Lines read from DRAM."),
    "memory_writes": _counter("memory", "writes", "1", "Lines written to DRAM."),
    "l2_requests": _counter(
        "caches", "l2_requests", "1", "Operations of cores that reached their node's L2 by message."
    ),
    "l2_queue_fs": _counter("caches", "l2_queue_fs", "fs", "Time they waited in the queue of their line at the L2."),
    "evictions": _counter("caches", "evictions", "1", "Lines a node evicted to make room."),
    "writebacks": _counter("caches", "writebacks", "1", "Evicted lines that were modified and went to their home."),
    "adjacent_fetches": _counter("caches", "adjacent_fetches", "1", "Lines that an L2 fetched because the other line of their pair was missed."),
    "gathered_stores": _counter("caches", "gathered_stores", "1", "Stores that left the store buffer with another."),
    "tx_dropped": _counter("network", "tx_dropped", "1", "Packets dropped because the egress link was too far behind."),
}
"""Counter of ``RunData.counters`` -> its dataset. A counter of the core without an entry here is an error of the developer."""


def declaration(path: str) -> Dataset:
    """The declaration of a concrete dataset path. Raises KeyError if there is none."""
    found = _BY_PATH.get(path) or _BY_PATH.get(_template(path))
    if found is None:
        raise KeyError(f"{path} is not declared in cohsim/results/registry.py")
    return found


def all_datasets() -> tuple[Dataset, ...]:
    """Every declaration, counters included, in file order."""
    return DATASETS + tuple(COUNTERS.values())


def _template(path: str) -> str:
    parts = path.split("/")
    if len(parts) == 4 and parts[1] == "transitions":
        parts[2] = "{controller}"
    return "/".join(parts)


_BY_PATH = {d.path: d for d in all_datasets()}
