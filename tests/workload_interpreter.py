"""A sequential interpreter of micro-operations: what a program computes, without caches or time. Independent of the core."""
from __future__ import annotations

import random

from cohsim.uops import Alu, Cond, Flag, Op, Slot
from cohsim.workload.compiled import CompiledWorkload

MASK = (1 << 64) - 1
LINE = 64


def signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def alu(fn: int, x: int, v: int) -> int:
    return {Alu.ADD: x + v, Alu.SUB: x - v, Alu.AND: x & v, Alu.OR: x | v, Alu.XOR: x ^ v, Alu.XCHG: v,
            Alu.SHL: x << (v & 63), Alu.SHR: (x & MASK) >> (v & 63)}[Alu(fn)] & MASK


def holds(fn: int, x: int, v: int) -> bool:
    return {Cond.ALWAYS: True, Cond.EQ: x == v, Cond.NE: x != v, Cond.LT: signed(x) < signed(v), Cond.GE: signed(x) >= signed(v),
            Cond.LTU: x < v, Cond.GEU: x >= v, Cond.BITS: bool(x & v), Cond.NOBITS: not x & v}[Cond(fn)]


class Interpreter:
    """All CPUs of a workload, one micro-op at a time; memory is bytes, little-endian."""

    def __init__(self, workload: CompiledWorkload):
        self.w = workload
        self.memory: dict[int, int] = {}
        self.pc = [int(e) for e in workload.entry]
        self.registers = [[0xDEAD] * 16 for _ in range(workload.cpus)]      # garbage: a program must set what it reads
        self.iterations = [0] * workload.cpus
        self.reservation: list[int | None] = [None] * workload.cpus
        self.halted = [False] * workload.cpus
        self.steps = [0] * workload.cpus
        for address, size, value in workload.memory:
            self.write(address, size, value, -1)

    def read(self, address: int, size: int) -> int:
        return sum(self.memory.get(address + i, 0) << 8 * i for i in range(size))

    def write(self, address: int, size: int, value: int, cpu: int) -> None:
        for i in range(size):
            self.memory[address + i] = value >> 8 * i & 0xFF
        for other, line in enumerate(self.reservation):
            if other != cpu and line == address // LINE:
                self.reservation[other] = None

    def word(self, object_name: str, offset: int = 0, size: int = 8, instance: int = 0) -> int:
        item = next(o for o in self.w.objects if o.name == object_name)
        return self.read(item.base + instance * item.stride_bytes + offset, size)

    def step(self, cpu: int) -> Op:
        """Execute one micro-op of ``cpu``; returns its operation."""
        u = self.w.uops[self.pc[cpu]]
        r, op = self.registers[cpu], Op(int(u["op"]))
        value = (int(u["imm"]) + (r[u["b"]] if u["b"] >= 0 else 0)) & MASK
        context = {Slot.NONE: 0, Slot.CPU: cpu, Slot.ITERATION: self.iterations[cpu]}.get(Slot(int(u["slot"])), 0)
        at = int(u["base"]) + int(u["stride"]) * context + (r[u["areg"]] if u["areg"] >= 0 else 0)
        size, dst, self.pc[cpu] = int(u["size"]), int(u["dst"]), self.pc[cpu] + 1
        self.steps[cpu] += 1
        result = None
        if op in (Op.LOAD, Op.LL):
            result = self.read(at, size)
            if op == Op.LL:
                self.reservation[cpu] = at // LINE
        elif op == Op.STORE:
            self.write(at, size, value, cpu)
        elif op == Op.RMW:
            result = self.read(at, size)
            new = (value if result == r[u["a"]] else result) if u["fn"] == Alu.CAS else alu(int(u["fn"]), result, value)
            self.write(at, size, new, cpu)
        elif op == Op.SC:
            result = int(self.reservation[cpu] == at // LINE)
            self.reservation[cpu] = None
            if result:
                self.write(at, size, value, cpu)
        elif op == Op.ALU:
            result = alu(int(u["fn"]), r[u["a"]] if u["a"] >= 0 else 0, value)
        elif op == Op.BR and holds(int(u["fn"]), r[u["a"]] if u["a"] >= 0 else 0, value):
            self.pc[cpu] = int(u["target"])
        elif op == Op.DONE:
            self.iterations[cpu] += 1
        elif op == Op.HALT:
            self.halted[cpu] = True
            self.pc[cpu] -= 1
        if result is not None and dst >= 0:
            r[dst] = result
        return op

    def run(self, iterations: int, *, seed: int | None = None, limit: int = 400_000) -> None:
        """Every CPU completes ``iterations`` paths (or halts): one CPU after the other, or interleaved at random with a seed.

        Raises AssertionError after ``limit`` steps: no progress.
        """
        rng = random.Random(seed)
        waiting = list(range(self.w.cpus))
        for _ in range(limit):
            if not waiting:
                return
            cpu = waiting[0] if seed is None else rng.choice(waiting)
            for _ in range(1 if seed is None else rng.randint(1, 4)):
                self.step(cpu)
                if self.iterations[cpu] >= iterations or self.halted[cpu]:
                    waiting.remove(cpu)
                    break
        raise AssertionError(f"no progress: CPUs {waiting} at {[self.pc[c] for c in waiting]}")


def flags_of(workload: CompiledWorkload, op: Op) -> set[Flag]:
    """Flags of all micro-ops of an operation."""
    return {Flag(int(u["flags"])) for u in workload.uops if u["op"] == op}
