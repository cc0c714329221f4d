"""Run a case on the core and bring back what its threads saw."""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache

import numpy as np

from cohsim._core import Simulation
from cohsim.fuzz import nic as drivers
from cohsim.fuzz.assemble import Assembled, assemble, assemble_handlers, assemble_thread
from cohsim.fuzz.case import Case
from cohsim.machine import compile_machine, load_machine
from cohsim.machine.compiled import CompiledMachine
from cohsim.protocols import flat_tables
from cohsim.protocols.language import FlatTable
from cohsim.results.rundata import NIC_STATS

FS_PER_OPERATION = 400_000_000
"""Simulated time a case may take, per action executed: four memory accesses, as if nothing overlapped."""
LEAST_FS = 2_000_000_000_000
EVENTS_PER_ACTION = 3000
"""Events a case may take; LL/SC contention of 24 threads needs some hundreds per success."""

Tables = tuple[FlatTable, FlatTable]


@dataclass
class Outcome:
    """A finished run. ``logs[t]``: uint64[iterations, slots] of thread t; ``final``: address -> value of every word at the end;
    ``dma``: int64[n, 6], what the NIC read and wrote (``Simulation.devices``).
    """

    stop: str                   # "", or what went wrong: fault, deadlock, no progress
    report: str
    programs: list[Assembled]
    logs: list[np.ndarray]
    final: dict[int, int]
    operations: int             # memory operations without the logging
    events: int
    node_fired: np.ndarray
    home_fired: np.ndarray
    dma: np.ndarray
    nic_counters: np.ndarray    # int64[NICs, len(NIC_STATS)]


@cache
def base_machine(name: str) -> CompiledMachine:
    """A machine file, compiled."""
    return compile_machine(load_machine(name))


def machine_of(case: Case) -> CompiledMachine:
    """The effective machine of a case."""
    directory = case.home == "directory"
    return dataclasses.replace(base_machine(case.machine), protocol=case.protocol, home_broadcast=not directory,
                               l3_inclusive=directory, **case.geometry)  # type: ignore[arg-type]


@cache
def bundled_tables(protocol: str) -> Tables:
    """The protocol's tables as the core reads them."""
    return flat_tables(protocol)


def execute(case: Case, tables: Tables | None = None) -> Outcome:
    """Run the case; ``tables`` replaces the protocol's (planted errors)."""
    node, home = tables or bundled_tables(case.protocol)
    programs = [assemble_thread(case, thread) for thread in case.threads]
    uops, entry = assemble(programs + assemble_handlers(case))
    entry, handlers = entry[:len(programs)], entry[len(programs):]
    actions = case.iterations * sum(len(t.body) + 1 for t in case.threads)
    machine = machine_of(case)
    sim = Simulation(machine, node, home, uops, entry, tuple(t.cpu for t in case.threads), from_fs=0,
                     until_fs=LEAST_FS + actions * FS_PER_OPERATION, seed=case.run_seed, lookahead=case.lookahead, check=True,
                     line_table=1024)
    if case.nic is not None:
        sim.devices(drivers.devices(case, case.nic, tuple(handlers.tolist())), machine, drivers.log_rows(case, case.nic))
        for address, size, value in drivers.initial_memory(case, case.nic):
            sim.write_memory(address, size, value)
    sim.start()
    stop = sim.run(10_000 + actions * EVENTS_PER_ACTION)
    wrong = report = ""
    if stop == "fault":
        wrong, report = f"fault: {sim.fault}", sim.report()
    elif stop == "empty" and sim.halted < len(case.threads):
        wrong, report = "deadlock: no CPU can go on", sim.report()
    elif stop != "empty":
        wrong, report = "no progress: the program does not end", sim.report()
    operations, events, _ = sim.totals()
    logged = 0
    logs: list[np.ndarray] = []
    final: dict[int, int] = {}
    if not wrong:
        logs = [_read_log(sim, case, i, programs[i]) for i in range(len(programs))]
        logged = sum(log.size for log in logs)
        final = {a: sim.read_memory(a, size) for a, size in _words(case)}
    return Outcome(wrong, report, programs, logs, final, operations - logged, events, sim.arrays["node_fired"],
                   sim.arrays["home_fired"], _read_dma(sim), sim.arrays.get("nic_counters", np.zeros((0, len(NIC_STATS)), np.int64)))


def _read_dma(sim: Simulation) -> np.ndarray:
    log: np.ndarray = sim.arrays.get("dma_log", np.zeros((0, 6), np.int64))
    if sim.dma_logged > len(log):
        raise RuntimeError(f"a NIC read and wrote {sim.dma_logged} words, the log was made for {len(log)}")
    return log[:sim.dma_logged]


def _read_log(sim: Simulation, case: Case, index: int, program: Assembled) -> np.ndarray:
    first = case.log_address(case.threads[index])
    count = case.iterations * program.record_slots
    read = sim.read_memory
    words = np.fromiter((read(a, 8) for a in range(first, first + 8 * count, 8)), np.uint64, count)
    return words.reshape(case.iterations, program.record_slots)


def _words(case: Case) -> list[tuple[int, int]]:
    return [(case.line_address(k, line) + word.offset, word.size) for k, area in enumerate(case.areas) for line in range(area.lines)
            for word in area.words]
