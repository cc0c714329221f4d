"""Keys of a machine file, their meaning and what may stand there: the one list the validator, ``show`` and the docs read.

A value that is a number needs a unit (if its dimension has one) and a source; a word or a yes/no may have a source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from cohsim.machine.units import Dimension

SCHEMA_VERSION = 1
SOURCE_KINDS = ("documented", "measured", "calibrated", "assumed")
SOURCE_KEYS = ("kind", "ref", "against", "range", "why")
LAST_LEVEL = ("caches.l3", "caches.cpc")  # two names for the cache at the home; a machine has one of them or none


@dataclass(frozen=True)
class Only:
    """The key belongs to some machines only: required where ``holds``, an error elsewhere."""

    text: str
    needs: str  # path of the word it depends on
    holds: Callable[[str], bool]


@dataclass(frozen=True)
class Number:
    """A number between ``least`` and ``most``: in B, Hz, B/s; times in the unit they are written in."""

    dimension: Dimension
    meaning: str
    least: int | Fraction
    most: int
    positive: bool = True  # zero has a message of its own
    only: Only | None = None
    required: bool = True  # False: may be left out; the rules say with what


@dataclass(frozen=True)
class Word:
    """One of a few words."""

    choices: tuple[str, ...]
    meaning: str
    only: Only | None = None


@dataclass(frozen=True)
class Text:
    """Free text of one line."""

    meaning: str
    required: bool = True


@dataclass(frozen=True)
class Section:
    """Keys below a key. An optional section may be left out as a whole."""

    keys: Mapping[str, Key]
    optional: bool = False


Key = Number | Word | Text | Section

MAX_TIME = 10**6  # cycles or ns; sums of such times stay far below 2^63 fs
YES_NO = ("yes", "no")
CLUSTER = Only("caches.l2.scope is cluster", "caches.l2.scope", lambda word: word == "cluster")
PRIVATE = Only("caches.l2.scope is core", "caches.l2.scope", lambda word: word == "core")
X86 = Only("isa is x86", "isa", lambda word: word == "x86")
POWER = Only("isa is power", "isa", lambda word: word == "power")
SMT = Only("topology.threads_per_core is 2", "topology.threads_per_core", lambda word: word == "2")


def _time(meaning: str, *, zero: bool = False, only: Only | None = None) -> Number:
    return Number(Dimension.TIME, meaning, 0, MAX_TIME, positive=not zero, only=only)


def _count(meaning: str, most: int, only: Only | None = None) -> Number:
    return Number(Dimension.COUNT, meaning, 1, most, only=only)


_SIZE_AND_WAYS: dict[str, Key] = {
    "size": Number(Dimension.SIZE, "capacity; of all slices together", 64, 1 << 34),
    "ways": _count("associativity", 64),
}

_LAST_LEVEL = Section(
    optional=True,
    keys={
        **_SIZE_AND_WAYS,
        "slices": _count("slices the capacity is divided into; each has a power of two of sets", 64),
        "side": Word(
            ("inclusive", "memory"), "inclusive: holds every line its nodes hold; memory: caches memory, holds no promise"
        ),
        "hit": _time("load to use of a hit at the home that needs no other node's data: the total, from the core"),
    },
)

ROOT = Section(
    {
        "schema": Text("version of this format: 1"),
        "name": Text("short name, as in the file's name"),
        "title": Text("one line for people"),
        "extends": Text("file this one takes its other keys from, relative to it", required=False),
        "isa": Word(("x86", "power"), "instruction set: locked operations and TSO, or lwarx/stwcx. and a weak order"),
        "protocol": Word(("msi", "mesi", "mesif", "moesi"), "coherence protocol between nodes"),
        "clocks": Section(
            {
                "core": Number(Dimension.FREQUENCY, "clock of cores, L1, L2: the highest P-state; unit `cycles`", 10**6, 10**11),
                "lowest": Number(Dimension.FREQUENCY, "that clock in the lowest P-state", 10**6, 10**11, required=False),
                "step": Number(Dimension.FREQUENCY, "from one P-state to the next", 10**6, 10**11, required=False),
                "fabric": Number(Dimension.FREQUENCY, "clock of network and home; unit `fabric cycles`", 10**6, 10**11),
            }
        ),
        "topology": Section(
            {
                "sockets": _count("packages; the core models one", 1),
                "clusters": _count("clusters of cores that share an L2; 1 where each core has its own", 64),
                "cores_per_cluster": _count("cores of a cluster", 64),
                "threads_per_core": _count("hardware threads of a core", 2),
                "numbering": Word(
                    ("siblings-adjacent", "siblings-last"), "CPU numbers: core k has 2k, 2k+1; or all first threads first"
                ),
            }
        ),
        "cores": Section(
            {
                "width": _count("instructions a thread can dispatch per cycle", 16),
                "instructions_per_cycle": Number(
                    Dimension.RATIO,
                    "sustained by one thread alone in straight-line kernel code without misses",
                    Fraction(1, 100),
                    16,
                ),
                "dispatch": Word(("private", "shared"), "shared: two running siblings take turns"),
                "window": _count("instructions in flight, sibling idle or absent", 4096),
                "window_smt": _count("the same per thread with both siblings running", 4096, SMT),
                "store_queue": _count("stores waiting to leave, sibling idle or absent", 1024),
                "store_queue_smt": _count("the same per thread with both siblings running", 1024, SMT),
                "store_order": Word(("in-order", "out-of-order"), "order in which stores leave the store queue"),
                "store_gathering": Word(YES_NO, "a store joins a waiting one to the same line"),
                "mshrs": _count("outstanding line fills of a core (line fill buffers)", 1024),
                "store_forward": _time("load that takes its value from the store queue"),
                "mispredict": _time("mispredicted branch", zero=True),
                "locked": _time("locked operation on a line held M or E, store queue empty", only=X86),
                "pause": _time("spin-wait hint (`pause`; `or 1,1,1`)", zero=True),
                "fences": Section(
                    {
                        "mfence": _time("mfence, nothing outstanding", zero=True, only=X86),
                        "lfence": _time("lfence, nothing outstanding", zero=True, only=X86),
                        "sfence": _time("sfence, nothing outstanding", zero=True, only=X86),
                        "sync": _time("sync, nothing outstanding", zero=True, only=POWER),
                        "lwsync": _time("lwsync, nothing outstanding", zero=True, only=POWER),
                        "isync": _time("isync, nothing outstanding", zero=True, only=POWER),
                        "eieio": _time("eieio, nothing outstanding", zero=True, only=POWER),
                    }
                ),
            }
        ),
        "caches": Section(
            {
                "line": Number(Dimension.SIZE, "line size of all levels, and the reservation granule", 16, 256),
                "l1d": Section(
                    {
                        **_SIZE_AND_WAYS,
                        "hit": _time("load to use"),
                        "write": Word(("through", "back"), "write policy"),
                        "port": _time("an access occupies the core's L1 port"),
                    }
                ),
                "l2": Section(
                    {
                        "scope": Word(("core", "cluster"), "who shares it"),
                        **_SIZE_AND_WAYS,
                        "hit": _time("load to use from the core, unloaded: the total"),
                        "mshrs": _count("outstanding line fills", 1024),
                        "adjacent_line": Word(YES_NO, "a miss fetches the other line of its aligned pair too", only=PRIVATE),
                        "banks": _count("banks", 64, CLUSTER),
                        "hop": _time("core to L2, one way (part of hit)", only=CLUSTER),
                        "bank_occupancy": _time("a bank is busy per access", only=CLUSTER),
                        "load_occupancy": _time("a line is busy per load (same-line serialisation)", only=CLUSTER),
                        "store_occupancy": _time("a line is busy per store or store-conditional", only=CLUSTER),
                        "l1_invalidate": _time(
                            "drop the line from the cluster's other L1s and have their answer", only=CLUSTER, zero=True
                        ),
                    }
                ),
                "l3": _LAST_LEVEL,
                "cpc": _LAST_LEVEL,
            }
        ),
        "network": Section(
            {
                "hop": _time("node to home, one way"),
                "line_transfer": _time("a line of data occupies a node's link"),
            }
        ),
        "home": Section(
            {
                "snoops": Word(
                    ("broadcast", "directory"), "broadcast: every other node; directory: those whose core-valid bit is set"
                ),
                "slices": _count("ordering points the lines are spread over", 64),
                "lookup": _time("request at home until snoops leave or the cache lookup is done"),
                "occupancy": _time("a request occupies its slice"),
            }
        ),
        "snoop": Section(
            {
                "remote_clean": _time("load to use of a line another node supplies unmodified: the total, from the core"),
                "remote_dirty": _time("load to use of a line another node modified: the total, from the core"),
                "port": _time("a snoop occupies the node's tag port"),
                "first": Word(YES_NO, "a waiting snoop goes before waiting local requests to the same line"),
            }
        ),
        "memory": Section(
            {
                "channels": _count("channels, interleaved by line", 64),
                "latency": _time("load to use of a line from memory: the total, from the core"),
                "channel_bandwidth": Number(Dimension.BANDWIDTH, "peak of one channel", 10**6, 10**13),
            }
        ),
        "devices": Section(
            optional=True,  # a machine without it runs no workload with NICs, timers or interrupts
            keys={
                "dma_write": Word(("memory", "l3"), "where a line that a device wrote lies: in memory, or in the cache at the home"),
                "dma": _time("device to home, or core to device register, one way"),
                "mmio_write": _time("an uncached store holds up the thread until the fabric has taken it"),
                "interrupt": _time("device raises an interrupt until its core knows"),
                "interrupt_entry": _time("core knows until the first instruction of the handler"),
                "interrupt_exit": _time("end of the handler until the interrupted program goes on"),
                "idle_exit": _time("an idle hardware thread's way out of its sleep state", zero=True),
            },
        ),
    }
)


def leaves(section: Section = ROOT, prefix: str = "") -> dict[str, Number | Word | Text]:
    """Every key that holds a value, by path, in the order of the schema."""
    found: dict[str, Number | Word | Text] = {}
    for name, key in section.keys.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(key, Section):
            found.update(leaves(key, path))
        else:
            found[path] = key
    return found


LEAVES = leaves()
