"""Run a litmus test on a machine many times and judge what was seen."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from cohsim._core import Simulation
from cohsim.errors import InputError, Problem, SimulationError, WorkloadError
from cohsim.litmus import axiomatic, operational
from cohsim.litmus.rounds import Program, Timing, build, draw
from cohsim.litmus.test import ALLOWED, FORBIDDEN, LitmusTest, Outcome, signed
from cohsim.machine.compiled import CompiledMachine
from cohsim.protocols import flat_tables

BUDGET = 400_000
ROUND_LIMIT_FS = 1_000_000_000_000
"""One millisecond: no round takes that long unless the threads make no progress."""

LINE_TABLE = 1024
MAX_HELPERS = 2


@dataclass(frozen=True)
class Sighting:
    """How to see an outcome again: the simulation it was first seen in, and the round."""

    simulation: int  # number of the simulation in its run
    seed: int  # of the core
    timing: Timing
    round: int


@dataclass
class LitmusRun:
    """What one test did on one machine."""

    test: LitmusTest
    machine: str
    allowed: frozenset[Outcome]  # by the architecture
    sequential: frozenset[Outcome]  # of them, by sequential consistency
    histogram: Counter[Outcome] = field(default_factory=Counter)
    first: dict[Outcome, Sighting] = field(default_factory=dict)
    host_seconds: float = 0.0

    @property
    def rounds(self) -> int:
        return self.histogram.total()

    @property
    def hits(self) -> int:
        """Rounds that ended as the condition singles out."""
        return sum(n for outcome, n in self.histogram.items() if self.test.singled_out(outcome))

    @property
    def violations(self) -> list[Outcome]:
        """Outcomes seen that the architecture forbids."""
        return sorted(self.histogram.keys() - self.allowed)

    @property
    def unseen(self) -> list[Outcome]:
        """Outcomes that the architecture allows and that did not occur."""
        return sorted(self.allowed - self.histogram.keys())

    @property
    def verdict(self) -> str:
        if self.violations:
            return "VIOLATION"
        if self.test.expectation == FORBIDDEN:
            return "ok, never seen"
        return "ok, seen" if self.hits else "allowed, not seen"


def allowed_outcomes(test: LitmusTest) -> frozenset[Outcome]:
    """Outcomes the architecture allows, checked against the expectation in the file. Raises WorkloadError if the
    file is wrong.
    """
    if test.isa == "power":
        allowed = axiomatic.outcomes(test)
    else:
        allowed = operational.outcomes(test, buffered=True)
    singled_out = [outcome for outcome in sorted(allowed) if test.singled_out(outcome)]
    model = "Power (Herding cats)" if test.isa == "power" else "x86-TSO"
    if test.expectation == FORBIDDEN and singled_out:
        raise WorkloadError(
            Problem(
                test.condition.where,
                f"{test.name} says forbidden, but {model} allows {test.describe(singled_out[0])}",
                "correct the expectation or the test",
            )
        )
    if test.expectation == ALLOWED and not singled_out:
        raise WorkloadError(
            Problem(
                test.condition.where, f"{test.name} says allowed, but {model} forbids it", "correct the expectation or the test"
            )
        )
    return allowed


def placements(machine: CompiledMachine, threads: int, rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    """CPU numbers for the threads, without end: siblings of a core first, cores of one node first, one node each, at random;
    then those of up to MAX_HELPERS helpers."""
    cpus = len(machine.cpu_core)
    if threads > cpus:
        raise InputError(
            Problem("--machine", f"{machine.name} has {cpus} CPUs, the test has {threads} threads", "use another machine")
        )

    def key_core(cpu: int) -> tuple[int, int]:
        return machine.cpu_core[cpu], machine.cpu_thread[cpu]

    def key_near(cpu: int) -> tuple[int, int, int]:
        return machine.cpu_core[cpu] // machine.cores_per_node, machine.cpu_thread[cpu], machine.cpu_core[cpu]

    def key_far(cpu: int) -> tuple[int, int, int]:
        core = machine.cpu_core[cpu]
        return machine.cpu_thread[cpu], core % machine.cores_per_node, core // machine.cores_per_node

    while True:
        for key in (key_core, key_near, key_far, None):
            chosen = sorted(range(cpus), key=key)[:threads] if key else rng.choice(cpus, threads, replace=False)
            pins = [int(c) for c in rng.permutation(chosen)]
            spare = [c for c in range(cpus) if c not in pins]
            helpers = min(int(rng.integers(0, MAX_HELPERS + 1)), len(spare))
            yield (*pins, *(int(c) for c in rng.choice(spare, helpers, replace=False)))


def run_litmus(
    test: LitmusTest,
    machine: CompiledMachine,
    *,
    rounds: int = 10_000,
    simulations: int = 16,
    seed: int = 1,
    lookahead: bool = True,
) -> LitmusRun:
    """At least ``rounds`` rounds in ``simulations`` simulations of different timing and placement; the same seed
    gives the same rounds.

    Raises WorkloadError if the expectation in the file contradicts the architecture, InputError if the machine does not fit, and
    SimulationError if a simulation makes no progress.
    """
    if machine.isa != test.isa:
        raise InputError(
            Problem(
                "--machine",
                f"{machine.name} is a {machine.isa} machine, {test.name} is a test for {test.arch}",
                "name a machine of the same instruction set",
            )
        )
    begun = time.perf_counter()
    run = LitmusRun(test, machine.name, allowed_outcomes(test), operational.outcomes(test, buffered=False))
    rng = np.random.Generator(np.random.PCG64(seed))
    pins = placements(machine, len(test.threads), rng)
    for number in range(simulations):
        timing = draw(rng, next(pins))
        program = build(test, timing, -(-rounds // simulations), machine.line_bytes, rng)
        sim_seed = seed * 1_000_003 + number
        simulation = _simulate(test, machine, program, timing, sim_seed, lookahead)
        for index, outcome in enumerate(_outcomes(test, program, simulation)):
            run.histogram[outcome] += 1
            if outcome not in run.first:
                run.first[outcome] = Sighting(number, sim_seed, timing, index)
    run.host_seconds = time.perf_counter() - begun
    return run


def _simulate(
    test: LitmusTest, machine: CompiledMachine, program: Program, timing: Timing, seed: int, lookahead: bool
) -> Simulation:
    until = program.rounds * ROUND_LIMIT_FS
    node, home = flat_tables(machine.protocol)
    simulation = Simulation(
        machine,
        node,
        home,
        program.uops,
        program.entry,
        timing.pins,
        from_fs=until,
        until_fs=until,
        seed=seed,
        lookahead=lookahead,
        check=True,
        line_table=LINE_TABLE,
    )
    for name, value in test.memory.items():
        if value:
            base, stride = program.locations[name]
            for index in range(program.rounds):
                simulation.write_memory(base + stride * index, test.sizes[name], value)
    simulation.start()
    while (stop := simulation.run(BUDGET)) == "budget":
        pass
    if stop == "fault":
        raise SimulationError(f"{test.name} on {machine.name}: {simulation.fault}", simulation.report())
    if simulation.halted < len(timing.pins):
        raise SimulationError(f"{test.name} on {machine.name}: no progress", simulation.report())
    return simulation


def _outcomes(test: LitmusTest, program: Program, simulation: Simulation) -> Iterator[Outcome]:
    columns = []
    for atom in test.atoms:
        if atom.thread < 0:
            base, stride = program.locations[atom.name]
            size = test.sizes[atom.name]
        else:
            base, stride = program.results[atom.thread, atom.name]
            size = _register_bytes(test, atom.thread, atom.name)
        columns.append([signed(simulation.read_memory(base + stride * index, size), size) for index in range(program.rounds)])
    return zip(*columns, strict=True)


def _register_bytes(test: LitmusTest, thread: int, register: str) -> int:
    return max((u.size_bytes for u in test.threads[thread] if register in (u.dst, u.a, u.b)), default=4)
