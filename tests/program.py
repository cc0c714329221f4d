"""A tiny assembler for tests: micro-op programs, one per CPU, run on the native core with times known to the femtosecond.

A :class:`Program` is a list of micro-ops. ``delay_until`` lets a thread begin at a chosen time, so that a test can put one thread's
access before, into or behind another's; :func:`run` resolves it, because a thread's first cycle depends on the seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from cohsim._core import Simulation

from cohsim.machine import compile_machine, load_machine
from cohsim.machine.compiled import CompiledMachine
from cohsim.protocols import flat_tables
from cohsim.results.rundata import CATEGORIES, LINE_STATS, SERVED
from cohsim.uops import UOP, Alu, Cond, Fence, Flag, Op, uop
from cohsim.workload.compiled import CompiledWorkload, Devices, Source

LINE = 64
X = 0x10000
FOREVER_FS = 10**15
"""One second: far beyond the end of every program of the tests."""

PROBE = 0x7F00_0000
"""Line of CPU 0's dependent probe load; CPU i probes its own line LINE * i further."""


@cache
def machine(name: str, *overrides: str) -> CompiledMachine:
    """A bundled machine, compiled; ``overrides`` as for ``--set``.

    Its L2 does not fetch adjacent lines unless asked to: a test of one path has no other line moving beside it.
    """
    spec = load_machine(name, overrides)
    quiet = ("caches.l2.adjacent_line=no",) if "caches.l2.adjacent_line" in spec.values else ()
    return compile_machine(load_machine(name, (*quiet, *overrides)))


def tiny(base: CompiledMachine, **geometry: object) -> CompiledMachine:
    """``base`` with other counts or times (fields of CompiledMachine): small caches make evictions quick to reach."""
    return dataclasses.replace(base, **geometry)  # type: ignore[arg-type]


@dataclass
class Program:
    """Micro-ops of one CPU. Each method appends one and returns its index in this program."""

    ops: list[np.void] = field(default_factory=list)
    targets: dict[int, int] = field(default_factory=dict)
    begin_fs: int | None = None

    def add(self, op: Op, **fields: int) -> int:
        """Append any micro-op."""
        self.ops.append(uop(op, **fields))
        return len(self.ops) - 1

    @property
    def here(self) -> int:
        """Index of the next micro-op: a branch target."""
        return len(self.ops)

    def delay_until(self, time_fs: int) -> int:
        """First micro-op only: instructions until ``time_fs``, to the next dispatch slot (see ``Run.begin_fs``)."""
        assert not self.ops
        self.begin_fs = time_fs
        return self.work(1)

    def work(self, instructions: int) -> int:
        return self.add(Op.WORK, imm=instructions)

    def load(self, address: int, dst: int = -1, *, size: int = 8, dep: bool = False, areg: int = -1) -> int:
        return self.add(Op.LOAD, base=address, size=size, dst=dst, areg=areg, flags=Flag.DEP if dep else 0)

    def store(self, address: int, value: int = 1, *, b: int = -1, size: int = 8) -> int:
        return self.add(Op.STORE, base=address, size=size, imm=value, b=b)

    def rmw(self, address: int, value: int = 1, *, fn: Alu = Alu.ADD, dst: int = -1, a: int = -1, b: int = -1, size: int = 8) -> int:
        return self.add(Op.RMW, base=address, size=size, imm=value, fn=fn, dst=dst, a=a, b=b)

    def ll(self, address: int, dst: int = 0, *, size: int = 8) -> int:
        return self.add(Op.LL, base=address, size=size, dst=dst)

    def sc(self, address: int, dst: int = 1, *, b: int = -1, value: int = 0, size: int = 8) -> int:
        return self.add(Op.SC, base=address, size=size, dst=dst, b=b, imm=value)

    def alu(self, dst: int, a: int, value: int = 0, *, fn: Alu = Alu.ADD, b: int = -1) -> int:
        return self.add(Op.ALU, dst=dst, a=a, imm=value, fn=fn, b=b)

    def fence(self, kind: Fence = Fence.FULL) -> int:
        return self.add(Op.FENCE, imm=kind)

    def branch(self, cond: Cond, a: int, value: int, target: int = -1, *, b: int = -1, flags: int = 0) -> int:
        """``target`` is an index of this program; leave it out and ``land`` the branch later."""
        index = self.add(Op.BR, fn=cond, a=a, b=b, imm=value, flags=flags)
        self.targets[index] = target
        return index

    def land(self, branch: int) -> None:
        """The branch goes here."""
        self.targets[branch] = self.here

    def atomic_add(self, address: int, isa: str, value: int = 1, *, size: int = 8) -> int:
        """An increment as compilers do it: a locked add, or load-and-reserve, add, store-conditional, branch back. Index of the op that
        performs it."""
        if isa == "x86":
            return self.rmw(address, value, size=size)
        top = self.ll(address, dst=0, size=size)
        self.alu(0, 0, value)
        sc = self.sc(address, dst=1, b=0, size=size)
        self.branch(Cond.EQ, 1, 0, top)
        return sc

    def counted_loop(self, register: int, times: int, body: int) -> None:
        """Close a loop that began at index ``body``; ``register`` counts and must be 0 before."""
        self.alu(register, register, 1)
        self.branch(Cond.LT, register, times, body, flags=Flag.PRED_TAKEN)

    def probe_end(self, cpu: int = 0) -> None:
        """End when the value of the latest load is there: a dependent load of a private line holds the thread until then."""
        self.load(PROBE + cpu * LINE, dep=True)
        self.halt()

    def halt(self) -> int:
        return self.add(Op.HALT)


def start_fs(m: CompiledMachine, cpus: int, seed: int = 1) -> list[int]:
    """When each CPU takes its first step (``Simulation`` staggers them by the seed: 0 to 100 core cycles)."""
    rng = np.random.Generator(np.random.PCG64(seed))
    starts = []
    for _ in range(cpus):
        rng.integers(1, 2**63)  # the thread's own random stream
        starts.append(int(rng.integers(0, 1000)) * m.core_period_fs // 10)
    return starts


def assemble(m: CompiledMachine, programs: Sequence[Program], seed: int = 1) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """(uops, entry, begin): ``begin`` is when each CPU is through its ``delay_until`` (or its first step, without)."""
    starts = start_fs(m, len(programs), seed)
    chunks, entry, begin, offset = [], [], [], 0
    for program, start in zip(programs, starts, strict=True):
        part = np.array(program.ops, UOP)
        for index, target in program.targets.items():
            assert 0 <= target <= len(part), f"branch {index} has not landed"
            part["target"][index] = offset + target
        if program.begin_fs is not None:
            assert program.begin_fs >= start, f"the thread starts at {start} fs, later than asked for"
            part["imm"][0] = -((start - program.begin_fs) // m.issue_fs)
            start += int(part["imm"][0]) * m.issue_fs
        chunks.append(part)
        entry.append(offset)
        begin.append(start)
        offset += len(part)
    return np.concatenate(chunks), np.array(entry, np.int32), begin


@dataclass
class Run:
    """What a scripted run left behind. Indices of micro-ops are those of the CPU's own program."""

    sim: Simulation
    machine: CompiledMachine
    entry: np.ndarray
    starts_fs: list[int]
    begin_fs: list[int]
    stop: str

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return self.sim.arrays

    def end_fs(self, cpu: int = 0) -> int:
        """When the thread halted: its first step and all its time. For programs that ran to their end within the window."""
        return self.starts_fs[cpu] + self.busy_fs(cpu)

    def busy_fs(self, cpu: int = 0) -> int:
        return int(self.arrays["time_fs"][cpu][:, : CATEGORIES.index("idle")].sum())

    def time_fs(self, cpu: int, category: str, index: int | None = None) -> int:
        """Time of a CPU in a category, of one micro-op or all."""
        time = self.arrays["time_fs"][cpu][:, CATEGORIES.index(category)]
        return int(time.sum() if index is None else time[self.entry[cpu] + index])

    def count(self, cpu: int, index: int) -> int:
        return int(self.arrays["count"][cpu, self.entry[cpu] + index])

    def sc_failures(self, cpu: int, index: int) -> int:
        return int(self.arrays["sc_failures"][cpu, self.entry[cpu] + index])

    def served(self, cpu: int, index: int) -> dict[str, int]:
        """Who served the micro-op's accesses, levels with none left out."""
        counts = self.arrays["served"][cpu, self.entry[cpu] + index]
        return {name: int(n) for name, n in zip(SERVED, counts, strict=True) if n}

    def line(self, address: int, statistic: str) -> int:
        """A statistic of the line of an address."""
        hit = self.arrays["line_stats"][self.arrays["line_key"] == address // self.machine.line_bytes]
        return int(hit[:, LINE_STATS.index(statistic)].sum())

    def fired(self, controller: str, state: str, event: str) -> int:
        """How often a row of the protocol table was used."""
        node, home = flat_tables(self.machine.protocol)
        table = node if controller == "node" else home
        return int(self.arrays[f"{controller}_fired"][list(table.states).index(state), list(table.events).index(event)])


def run(m: CompiledMachine, programs: Sequence[Program], *, pin: Sequence[int] | None = None, seed: int = 1, until_fs: int = FOREVER_FS,
        from_fs: int = 0, memory: Sequence[tuple[int, int, int]] = (), lookahead: bool = True, check: bool = True,
        devices: Devices | None = None, pair_table: int = 65536) -> Run:
    """Run the programs, CPU i on machine CPU ``pin[i]``. Fails on a fault or deadlock, with the core's report.

    ``devices``: the entry of a vector is an index of its CPU's own program; a thread that is idle at the end is no deadlock then.
    """
    uops, entry, begin = assemble(m, programs, seed)
    node, home = flat_tables(m.protocol)
    sim = Simulation(m, node, home, uops, entry, tuple(range(len(programs)) if pin is None else pin), from_fs=from_fs, until_fs=until_fs,
                     seed=seed, lookahead=lookahead, check=check, line_table=4096, pair_table=pair_table)
    for word in memory:
        sim.write_memory(*word)
    if devices is not None:
        sim.devices(placed(devices, entry), m)
    sim.start()
    stop = sim.run(1 << 40)
    assert stop in ("finished", "empty"), f"{stop}: {sim.fault}\n{sim.report()}"
    idle = sim.waiting_for_packets if devices is not None else 0
    assert stop == "finished" or sim.halted + idle == len(programs), f"deadlock\n{sim.report()}"
    sim.finish(until_fs)
    return Run(sim, m, entry, start_fs(m, len(programs), seed), begin, stop)


def placed(devices: Devices, entry: np.ndarray) -> Devices:
    """The devices with the entries of their vectors as indices of all micro-ops."""
    return dataclasses.replace(devices, vectors=tuple(dataclasses.replace(v, entry=int(entry[v.cpu]) + v.entry) for v in devices.vectors))


def halts_exactly_at(m: CompiledMachine, programs: Sequence[Program], cpu: int, time_fs: int, **options: object) -> bool:
    """Whether CPU ``cpu`` has not halted before ``time_fs`` and has halted at it: the run is cut there, and 1 fs later."""
    halt = [int(op["op"]) for op in programs[cpu].ops].index(Op.HALT)
    before = run(m, programs, until_fs=time_fs, **options)  # type: ignore[arg-type]
    after = run(m, programs, until_fs=time_fs + 1, **options)  # type: ignore[arg-type]
    return before.count(cpu, halt) == 0 and after.count(cpu, halt) == 1


def workload(m: CompiledMachine, programs: Sequence[Program], *, seed: int = 1, memory: Sequence[tuple[int, int, int]] = (),
             source: Source | None = None, warmup_ns: float = 0.0, measure_ns: float = 9e12) -> CompiledWorkload:
    """The programs as a workload for :func:`cohsim.simulate.simulate` (with the same ``seed``)."""
    uops, entry, _ = assemble(m, programs, seed)
    return CompiledWorkload(name="programs", text="", isa=m.isa, cpus=len(programs), variants=(), uops=uops, entry=entry, func_names=["f"],
                            prim_names=[], fields=[], objects=[], memory=list(memory), source=source, warmup_ns=warmup_ns,
                            measure_ns=measure_ns)

def at(time_fs: int) -> Program:
    """A program that begins at a time of the simulation."""
    p = Program()
    p.delay_until(time_fs)
    return p


def once(time_fs: int, op: str, address: int = X, **fields: int) -> Program:
    """A neighbour that makes one access at a time of its own."""
    p = at(time_fs)
    getattr(p, op)(address, **fields)
    p.halt()
    return p


def then_probe(time_fs: int, op: str, address: int = X, cpu: int = 0, **fields: int) -> Program:
    """One access, then the probe that shows when it was complete."""
    p = at(time_fs)
    getattr(p, op)(address, **fields)
    p.probe_end(cpu)
    return p
