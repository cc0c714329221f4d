"""A litmus test as a micro-op program: many rounds, each on words of its own, with random timing.

A helper is a thread that is not in the test: it only loads locations and meets the others, so that lines are shared
with, or on their way to, a third place. Loads whose values nobody looks at forbid and allow nothing.

A round of a thread: touch some locations (so that lines begin in different caches and states), meet the other
threads at a barrier of plain flags, random delay, the test's instructions with random work and private misses
between them, results to private memory. The timing is compiled in: a program holds several differently timed copies
of the round and goes round them. Words of a round are found by ``base + stride * iteration``, so no round sees another's values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cohsim.errors import Problem, WorkloadError
from cohsim.litmus.test import COMPARED, SUCCESS, Instruction, Kind, LitmusTest
from cohsim.uops import REGISTERS, UOP, Alu, Cond, Fence, Flag, Op, Slot

COPIES = 16
"""Differently timed copies of a round in one program."""

HELPER_LOADS = 3
"""Loads, at most, of a helper in a round."""

_NAMES = UOP.names or ()
_BLANK = {**dict.fromkeys(_NAMES, 0), **dict.fromkeys(("dst", "a", "b", "areg", "prim", "field"), -1)}
_COUNTER, _SEEN = REGISTERS - 1, REGISTERS - 2
_TEST_BASE, _RESULT_BASE, _FLAG_BASE, _NOISE_BASE = 0x1000_0000, 0x4000_0000, 0x7000_0000, 0x8000_0000
_REGION = 0x0100_0000
_NOISE_LINES = 64  # private lines that noise of one thread goes through; more than a round can hold, few enough to hit at times


@dataclass(frozen=True)
class Timing:
    """How the rounds of one simulation are timed and placed; drawn by :func:`draw`."""

    pins: tuple[int, ...]  # one CPU per thread of the test, then one per helper
    layout: str  # own: a line per location and round; warm: eight rounds share a line; one: all locations in one line
    start_work: int  # instructions, at most, before the test begins
    between_work: int  # instructions, at most, between two of its instructions
    touch: float  # probability that a location is touched before the round
    noise: float  # probability of a private access that misses, before each instruction
    prefetch: float  # probability that a thread loads a location it may not need, at the beginning and before each instruction


def draw(rng: np.random.Generator, pins: tuple[int, ...]) -> Timing:
    """A random timing."""
    return Timing(
        pins,
        str(rng.choice(("own", "own", "warm", "one"))),
        int(rng.choice((0, 8, 40, 160, 500))),
        int(rng.choice((0, 4, 30, 120))),
        float(rng.choice((0.0, 0.5, 0.8))),
        float(rng.choice((0.0, 0.0, 0.15, 0.4))),
        float(rng.choice((0.0, 0.0, 0.1, 0.5))),
    )


@dataclass(frozen=True)
class Program:
    """Micro-ops, entries, and where the outcomes are."""

    uops: np.ndarray
    entry: np.ndarray
    locations: dict[str, tuple[int, int]]  # location -> base, stride
    results: dict[tuple[int, str], tuple[int, int]]  # (thread, register) -> base, stride
    rounds: int


def _record(op: Op, **fields: int) -> tuple[int, ...]:
    values = dict(_BLANK, op=op, **fields)
    return tuple(values[name] for name in _NAMES)


@dataclass
class _Emitter:
    """Micro-ops of one thread."""

    offset: int
    ops: list[tuple[int, ...]] = field(default_factory=list)
    jumps: list[tuple[int, int]] = field(default_factory=list)

    def add(self, op: Op, **fields: int) -> int:
        self.ops.append(_record(op, **fields))
        return len(self.ops) - 1

    def branch(self, cond: Cond, a: int, target: int, *, imm: int = 0, b: int = -1, flags: int = 0) -> int:
        """``target`` is an index of this thread; -1 to be set by ``land``."""
        index = self.add(Op.BR, fn=cond, a=a, imm=imm, b=b, flags=flags)
        self.jumps.append((index, target))
        return len(self.jumps) - 1

    def land(self, jump: int, target: int) -> None:
        self.jumps[jump] = (self.jumps[jump][0], target)

    def array(self) -> np.ndarray:
        array = np.array(self.ops, UOP)
        for index, target in self.jumps:
            array["target"][index] = self.offset + target
        return array


def placement(test: LitmusTest, layout: str, line_bytes: int) -> dict[str, tuple[int, int]]:
    """Address of each location in round 0, and the distance to the next round."""
    places = {}
    for k, name in enumerate(test.memory):
        if layout == "one":
            places[name] = (_TEST_BASE + 8 * k, line_bytes * (1 + len(test.memory) * 8 // (line_bytes + 1)))
        else:  # odd distances: locations of a round are not in the same cache sets
            places[name] = (_TEST_BASE + k * (_REGION + 17 * line_bytes), line_bytes if layout == "own" else 8)
    return places


def build(test: LitmusTest, timing: Timing, rounds: int, line_bytes: int, rng: np.random.Generator) -> Program:
    """The program of all threads. ``rounds`` is rounded up to whole cycles of the copies."""
    cycles = -(-rounds // COPIES)
    places = placement(test, timing.layout, line_bytes)
    results: dict[tuple[int, str], tuple[int, int]] = {}
    for i in range(len(test.threads)):
        names = [a.name for a in test.atoms if a.thread == i]
        for k, name in enumerate(names):
            results[i, name] = (_RESULT_BASE + i * (_REGION + 17 * line_bytes) + 8 * k, 8 * len(names))
    touches = [_draw_touches(test, timing, rng) for _ in range(COPIES)]
    parts, entry, offset = [], [], 0
    for i in range(len(timing.pins)):
        emitter = _Thread(test, timing, i, offset, places, results, line_bytes, rng).emit(touches, cycles)
        part = emitter.array()
        parts.append(part)
        entry.append(offset)
        offset += len(part)
    return Program(np.concatenate(parts), np.array(entry, np.int32), places, results, cycles * COPIES)


def _draw_touches(test: LitmusTest, timing: Timing, rng: np.random.Generator) -> list[tuple[int, str, bool]]:
    """(thread, location, write) before one copy of the round: each location is untouched, read by everybody, by
    some, or by one, or
    written (its initial value, again) by one and perhaps read by others."""
    touches = []
    for name in test.memory:
        if rng.random() >= timing.touch:
            continue
        order = [int(i) for i in rng.permutation(len(timing.pins))]
        readers = int(rng.choice((0, 1, int(rng.integers(0, len(order) + 1)), len(order))))
        writes = readers == 0 or rng.random() < 0.3
        if writes:
            touches.append((order[-1], name, True))
        touches += [(i, name, False) for i in order[:readers]]
    return touches


class _Thread:
    """Lowers one thread."""

    def __init__(
        self,
        test: LitmusTest,
        timing: Timing,
        number: int,
        offset: int,
        places: dict[str, tuple[int, int]],
        results: dict[tuple[int, str], tuple[int, int]],
        line_bytes: int,
        rng: np.random.Generator,
    ):
        self.test, self.timing, self.number, self.places, self.results = test, timing, number, places, results
        self.line_bytes, self.rng = line_bytes, rng
        self.out = _Emitter(offset)
        self.helper = number >= len(test.threads)
        self.code = () if self.helper else test.threads[number]
        self.registers = {} if self.helper else _allocate(test, number)
        self.noise_at = 0

    def emit(self, touches: list[list[tuple[int, str, bool]]], cycles: int) -> _Emitter:
        out = self.out
        out.add(Op.ALU, dst=_COUNTER, fn=Alu.ADD)
        top = len(out.ops)
        for copy in touches:
            out.add(Op.PACKET)  # no source of packets: takes no time, makes the iteration count the context
            out.add(Op.ALU, dst=_COUNTER, a=_COUNTER, imm=1, fn=Alu.ADD)
            for register, number in self.registers.items():
                out.add(Op.ALU, dst=number, imm=self.test.registers[self.number].get(register, 0), fn=Alu.ADD)
            self._touch(copy)
            self._barrier()
            self._prefetch()
            self._work(self.timing.start_work, 0.0)
            self._body()
            for _ in range(HELPER_LOADS if self.helper else 0):
                self._prefetch()
                self._work(self.timing.start_work // HELPER_LOADS, 0.0)
            for (thread, register), (base, stride) in self.results.items():
                if thread == self.number:
                    out.add(Op.STORE, base=base, stride=stride, slot=Slot.ITERATION, size=8, b=self.registers[register])
            out.add(Op.DONE)
        out.branch(Cond.LT, _COUNTER, top, imm=cycles * COPIES, flags=Flag.PRED_TAKEN)
        out.add(Op.HALT)
        return out

    def _access(self, op: Op, location: str, **fields: int) -> None:
        base, stride = self.places[location]
        self.out.add(op, base=base, stride=stride, slot=Slot.ITERATION, size=self.test.sizes[location], **fields)

    def _touch(self, copy: list[tuple[int, str, bool]]) -> None:
        wrote = False
        for thread, location, write in copy:
            if thread == self.number:
                wrote |= write
                if write:
                    self._access(Op.STORE, location, imm=self.test.memory[location])
                else:
                    self._access(Op.LOAD, location)
        if wrote or self.rng.random() < 0.5:  # a write here must be over before anybody's round begins
            self.out.add(Op.FENCE, imm=Fence.FULL)

    def _barrier(self) -> None:
        """Every thread raises its own flag to the number of the round and waits for the others."""
        out, count = self.out, len(self.timing.pins)
        out.add(Op.STORE, base=_FLAG_BASE + self.number * self.line_bytes, size=8, b=_COUNTER)
        for other in range(count):
            if other != self.number:
                spin = out.add(Op.LOAD, base=_FLAG_BASE + other * self.line_bytes, size=8, dst=_SEEN, flags=Flag.SPIN)
                out.branch(Cond.LT, _SEEN, spin, b=_COUNTER, flags=Flag.SPIN)
        if self.test.isa == "power":
            out.add(Op.FENCE, imm=Fence.INSTR)  # the round's loads come after the flags

    def _work(self, most: int, none: float) -> None:
        if most and self.rng.random() >= none:
            self.out.add(Op.WORK, imm=1 + int(self.rng.integers(0, most)))

    def _noise(self) -> None:
        """A private access that usually misses: fills the store buffer or the window."""
        if self.rng.random() < self.timing.noise:
            self.noise_at = (self.noise_at + 1) % _NOISE_LINES
            base = _NOISE_BASE + self.number * _REGION + self.noise_at * self.line_bytes
            self.out.add(
                Op.STORE if self.rng.random() < 0.6 else Op.LOAD,
                base=base,
                stride=self.line_bytes * _NOISE_LINES,
                slot=Slot.ITERATION,
                size=8,
            )

    def _prefetch(self) -> None:
        """Load a random location and ignore its value: its line moves while others work on it."""
        if self.rng.random() < self.timing.prefetch:
            self._access(Op.LOAD, str(self.rng.choice(list(self.places))))

    def _body(self) -> None:
        starts, jumps = [], []
        for u in self.code:
            starts.append(len(self.out.ops))
            self._noise()
            self._prefetch()
            self._work(self.timing.between_work, 0.4)
            if u.kind is Kind.BRANCH:
                jumps.append((self.out.branch(u.cond, self._reg(u.a), -1, imm=u.imm), u.target))
            else:
                self._lower(u)
        starts.append(len(self.out.ops))
        for jump, target in jumps:
            self.out.land(jump, starts[target])

    def _reg(self, name: str | None) -> int:
        return -1 if name is None else self.registers[name]

    def _lower(self, u: Instruction) -> None:
        dst, a, b, index = (self._reg(r) for r in (u.dst, u.a, u.b, u.index))
        if u.kind is Kind.LOAD or u.kind is Kind.LL:
            self._access(Op.LOAD if u.kind is Kind.LOAD else Op.LL, u.location or "", dst=dst, areg=index)
        elif u.kind is Kind.STORE or u.kind is Kind.SC:
            self._access(Op.STORE if u.kind is Kind.STORE else Op.SC, u.location or "", dst=dst, b=b, imm=u.imm, areg=index)
        elif u.kind is Kind.RMW:
            self._access(Op.RMW, u.location or "", dst=dst, a=a, b=b, imm=u.imm, fn=u.alu)
        elif u.kind is Kind.FENCE:
            self.out.add(Op.FENCE, imm=u.fence)
        elif u.kind is Kind.ALU:
            self.out.add(Op.ALU, dst=dst, a=a, b=b, imm=u.imm, fn=u.alu)
        else:  # the sign of the 32-bit difference: loads zero-extend, so the high half goes first
            self.out.add(Op.ALU, dst=dst, a=a, b=b, imm=u.imm, fn=Alu.SUB)
            self.out.add(Op.ALU, dst=dst, a=dst, imm=32, fn=Alu.SHL)


def _allocate(test: LitmusTest, number: int) -> dict[str, int]:
    """A register of the core for each register of the thread."""
    names: dict[str, None] = dict.fromkeys(test.registers[number])
    for u in test.threads[number]:
        names.update(dict.fromkeys(r for r in (u.dst, u.a, u.b, u.index) if r))
    if len(names) > _SEEN:
        shown = sorted(names.keys() - {SUCCESS, COMPARED})
        raise WorkloadError(Problem(test.path, f"thread {number} uses {len(shown)} registers", f"use at most {_SEEN - 2}"))
    return {name: k for k, name in enumerate(names)}
