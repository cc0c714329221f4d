"""Run a compiled workload on a compiled machine."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cohsim._core import Simulation
from cohsim.errors import InputError, Problem, SimulationError
from cohsim.machine.compiled import CompiledMachine
from cohsim.protocols import flat_tables
from cohsim.results.rundata import PAIR_CPU_TAKE, WAIT_COLUMNS, RunData
from cohsim.results.waits import find_waits, name_waits, sentence
from cohsim.uops import Op
from cohsim.workload.compiled import CompiledWorkload

BUDGET = 400_000
"""Events between two looks at progress and Ctrl-C: some tens of milliseconds."""

FS_PER_NS = 1_000_000
FOREVER_NS = 9.0e12
ACCESS_BITS = 10  # of core/sharing.pxi: an access code is a micro-op and the bytes of the line that it touched

LINK_BACKLOG_FRAMES = 512
"""Frames that may wait for the egress link before more are dropped: a common transmit ring."""


def simulate(machine: CompiledMachine, workload: CompiledWorkload, *, pin: tuple[int, ...] | None = None, seed: int = 1,
             lookahead: bool = True, check: bool = False, warmup_ns: float | None = None, measure_ns: float | None = None,
             progress: Callable[[float], None] | None = None, streams: Sequence[Iterator[np.ndarray]] | None = None,
             log_lines: Sequence[int] = (), log_events: int = 0) -> RunData:
    """Run ``workload`` on ``machine`` and return the measured arrays.

    ``pin`` maps CPU i of the run to a CPU number of the machine (default: 0..N-1). ``progress`` is called a few times a
    second with the fraction done. ``streams``: recorded operations of each CPU in chunks (RECORD arrays), instead of the program.
    ``log_lines``: addresses of lines whose first ``log_events`` events of the measured time are kept. A KeyboardInterrupt stops the
    run; what was measured until then is returned with ``stop == "interrupted"``. Raises
    :class:`cohsim.errors.InputError` for options that do not fit, :class:`cohsim.errors.SimulationError` on deadlock, with the report.
    """
    begun = time.perf_counter()
    pins = _pins(machine, workload, pin)
    warmup = workload.warmup_ns if warmup_ns is None else warmup_ns
    if measure_ns is not None:
        measure = measure_ns
    else:
        measure = workload.measure_ns if streams is None else FOREVER_NS     # a recorded trace runs to its end
    if warmup < 0 or measure <= 0:
        raise InputError(Problem("--measure", "the measured time must be positive", "give a time such as 500us"))
    start = round(warmup * FS_PER_NS)
    end = start + round(min(measure, FOREVER_NS) * FS_PER_NS)
    node, home = flat_tables(machine.protocol)
    sim = Simulation(machine, node, home, workload.uops, workload.entry, pins, from_fs=start, until_fs=end, seed=seed,
                     lookahead=lookahead, check=check, log_lines=tuple(log_lines), log_events=log_events)
    for address, size, value in workload.memory:
        sim.write_memory(address, size, value)
    if workload.source is not None:
        _source(sim, workload)
    if workload.devices is not None:
        if not machine.has_devices:
            raise InputError(Problem(machine.name, f"this machine has no devices, and {workload.name} needs some",
                                     "add a 'devices:' section to the machine file (machines/corei7.yaml has one)"))
        sim.devices(workload.devices, machine)
    source = workload.source
    queues = max([workload.cpus] + [v.queue + 1 for v in workload.devices.vectors] if workload.devices else [workload.cpus])
    sim.keep_read_words_only((1, workload.cpus, max(1, source.pool) if source else 1, source.flows if source else 1, queues, 0))
    feeds = list(streams) if streams is not None else []
    for cpu in range(len(feeds)):
        sim.feed(cpu, next(feeds[cpu], None))
    sim.start()
    stop = _loop(sim, feeds, end, progress)
    return _collect(sim, machine, workload, stop, start, end, time.perf_counter() - begun, recorded=streams is not None)


def _pins(machine: CompiledMachine, workload: CompiledWorkload, pin: tuple[int, ...] | None) -> tuple[int, ...]:
    cpus = len(machine.cpu_core)
    pins = tuple(range(workload.cpus)) if pin is None else pin
    if len(pins) != workload.cpus:
        raise InputError(Problem("--pin", f"{len(pins)} CPU numbers for {workload.cpus} CPUs", "give one number per CPU of the run"))
    bad = [p for p in pins if not 0 <= p < cpus]
    if bad:
        raise InputError(Problem("--cpus" if pin is None else "--pin", f"{machine.name} has CPUs 0 to {cpus - 1}, not {bad[0]}",
                                 f"use at most {cpus} CPUs"))
    if len(set(pins)) != len(pins):
        raise InputError(Problem("--pin", "a CPU number is given twice", "each CPU can run one program"))
    return pins


def _source(sim: Simulation, workload: CompiledWorkload) -> None:
    source = workload.source
    assert source is not None
    if source.pool and source.pool < workload.cpus + 1:
        raise InputError(Problem(workload.name, f"a pool of {source.pool} buffers is too small for {workload.cpus} CPUs", "enlarge the pool"))
    periods = [round(1e15 / (source.rate_pps * w)) if w > 0 else 0 for w in source.weights]
    frame_fs = round((source.frame_bytes + source.overhead_bytes) * 8 / source.link_bps * 1e15) if source.link_bps else 0
    sim.source(periods, source.ring, source.flows, source.pool, source.arrivals == "poisson", frame_fs, frame_fs * LINK_BACKLOG_FRAMES)


def _loop(sim: Simulation, feeds: list[Iterator[np.ndarray]], end: int, progress: Callable[[float], None] | None) -> str:
    try:
        while True:
            stop = sim.run(BUDGET)
            if stop == "refill":
                for cpu in sim.hungry():
                    sim.feed(cpu, next(feeds[cpu], None))
            elif stop != "budget":
                return stop
            if progress is not None:
                progress(min(1.0, sim.now / end))
    except KeyboardInterrupt:
        return "interrupted"


def _collect(sim: Simulation, machine: CompiledMachine, workload: CompiledWorkload, stop: str, start: int, end: int, host: float,
             *, recorded: bool) -> RunData:
    if stop == "fault":
        raise SimulationError(sim.fault, sim.report())
    if stop == "empty":
        if sim.halted + sim.waiting_for_packets < workload.cpus:
            raise SimulationError("deadlock: no CPU can go on", sim.report())
        if sim.blocked_devices:
            names = ", ".join(workload.devices.nics[i].name for i in sim.blocked_devices) if workload.devices else ""
            raise SimulationError(f"deadlock: every CPU is idle and {names} has frames but no receive descriptor", sim.report())
        if sim.halted == workload.cpus:
            end = max(start, min(end, sim.last_halt))        # else: idle until the end
    elif stop == "interrupted":
        end = max(start, min(end, sim.furthest))        # some threads had run ahead of the others
    sim.finish(end)
    a = sim.arrays
    waits = np.zeros((0, len(WAIT_COLUMNS)), np.int64) if recorded else _waits(sim, workload, a["count"], stop, start, end)
    memops, events, overflow = sim.totals()
    used = np.flatnonzero(a["line_key"] >= 0)
    used = used[a["line_stats"][used].any(axis=1)]        # of the used rows only: the table is mostly memory that nobody has touched
    used = used[np.argsort(a["line_key"][used], kind="stable")]
    node, home = flat_tables(machine.protocol)
    log = _log(a["log"], a["log_count"], machine.line_bytes)
    return RunData(
        stop="finished" if stop == "empty" else stop, stop_report="", measured_fs=end - start, total_fs=end,
        time_fs=a["time_fs"], count=a["count"], served=a["served"], sc_failures=a["sc_failures"], iterations=a["iterations"],
        received=a["received"], dropped=a["dropped"], line_address=a["line_key"][used] * machine.line_bytes,
        line_stats=a["line_stats"][used], line_overflow=overflow, node_transfers=a["node_transfers"], latency_hist=a["latency_hist"],
        transitions={"node": (node.states, node.events, a["node_fired"]), "home": (home.states, home.events, a["home_fired"])},
        **({"nic_stats": a["nic_counters"], "workload_counters": a["counts"], "interrupts": a["vector_raised"]} if workload.devices else {}),
        counters=sim.counters(), memory_operations=memops, events=events, host_seconds=host, local_turns=sim.local_turns,
        pairs=_pairs(a["pairs"], machine.line_bytes), pairs_lost=sim.pairs_lost, uop_latency=a["latency"], waits=waits,
        log=log, log_lost=int(a["log_count"].sum()) - (0 if log is None else len(log)))


def _waits(sim: Simulation, workload: CompiledWorkload, count: np.ndarray, stop: str, start: int, end: int) -> np.ndarray:
    """RunData.waits. Raises SimulationError if no CPU can ever go on and none has ended its program: then there is nothing to report."""
    waits, never = find_waits(sim, workload, count, start, end)
    ended = sim.halted - int((workload.uops["op"][workload.entry] == Op.HALT).sum())       # but for CPUs that have no program
    if never and not ended and stop == "finished":
        raise SimulationError(f"{workload.name}: no CPU can go on: {sentence(name_waits(workload, waits))}")
    return waits


def _pairs(tables: np.ndarray, line_bytes: int) -> np.ndarray:
    """The nodes' tables as one, RunData.pairs: equal pairs are added up."""
    rows = tables[tables[:, :, 0] != 0]
    key, both = rows[:, 0], rows[:, 1]
    kind = key & 0xFF
    first, second = ((code, np.full_like(code, -1), np.zeros_like(code)) for code in (both >> 32, both << 32 >> 32))
    by_uop = np.flatnonzero(kind < PAIR_CPU_TAKE)
    for code, offset, size in (first, second):
        known = by_uop[code[by_uop] >= 0]
        offset[known], size[known] = code[known] >> 3 & 127, 1 << (code[known] & 7)
        code[by_uop] >>= ACCESS_BITS
    named = np.stack([kind, (key >> 8) * line_bytes, first[0], second[0], *first[1:], *second[1:]], axis=1)
    keys, place = np.unique(named, axis=0, return_inverse=True)
    sums = np.zeros((len(keys), 2), np.int64)
    np.add.at(sums, place.reshape(-1), rows[:, 2:])
    return np.concatenate([keys[:, :4], sums, keys[:, 4:]], axis=1)


def _log(logs: np.ndarray, counts: np.ndarray, line_bytes: int) -> np.ndarray | None:
    """The agents' logs as one, RunData.log: as many of the earliest events as one agent's log holds. None without a log.

    Each log is in its agent's own order, which may put a grant that waits for its bank behind a later event: hence the sort.
    """
    capacity = logs.shape[1]
    if not capacity:
        return None
    # An agent whose log is full knows nothing of what came later.
    known = min((int(logs[i, -1, 0]) for i in np.flatnonzero(counts > capacity)), default=None)
    rows = np.concatenate([logs[i, : min(int(n), capacity)] for i, n in enumerate(counts)])
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    if known is not None:
        rows = rows[rows[:, 0] < known]
    rows = rows[:capacity]
    return np.column_stack([rows[:, :4], rows[:, 4] * line_bytes, rows[:, 5:7], rows[:, 7] & 0xFF, rows[:, 7] >> 8])
