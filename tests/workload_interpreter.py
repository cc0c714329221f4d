"""A sequential interpreter of micro-operations: what a program computes, without caches or time. Independent of the core."""

from __future__ import annotations

import random

from cohsim.uops import REGISTERS, Alu, Cond, Op, Slot
from cohsim.workload.compiled import CompiledWorkload

MASK = (1 << 64) - 1
LINE = 64


def signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


ALU = {
    Alu.ADD: lambda x, v: x + v,
    Alu.SUB: lambda x, v: x - v,
    Alu.AND: lambda x, v: x & v,
    Alu.OR: lambda x, v: x | v,
    Alu.XOR: lambda x, v: x ^ v,
    Alu.XCHG: lambda x, v: v,
    Alu.MUL: lambda x, v: x * v,
    Alu.SHL: lambda x, v: x << (v & 63),
    Alu.SHR: lambda x, v: x >> (v & 63),
}
COND = {
    Cond.ALWAYS: lambda x, v: True,
    Cond.EQ: lambda x, v: x == v,
    Cond.NE: lambda x, v: x != v,
    Cond.LT: lambda x, v: signed(x) < signed(v),
    Cond.GE: lambda x, v: signed(x) >= signed(v),
    Cond.LTU: lambda x, v: x < v,
    Cond.GEU: lambda x, v: x >= v,
    Cond.BITS: lambda x, v: x & v != 0,
    Cond.NOBITS: lambda x, v: x & v == 0,
}


class Interpreter:
    """All CPUs of a workload, one micro-op at a time; memory is bytes, little-endian."""

    def __init__(self, workload: CompiledWorkload):
        self.w = workload
        self.memory: dict[int, int] = {}
        self.pc = [int(e) for e in workload.entry]
        self.registers = [[0xDEAD] * REGISTERS for _ in range(workload.cpus)]  # garbage: a program must set what it reads
        self.iterations = [0] * workload.cpus
        self.reservation: list[int | None] = [None] * workload.cpus
        self.halted = [False] * workload.cpus
        self.queue = list(range(workload.cpus))
        self.written: list[tuple[int, int, int]] = []  # MMIO: NIC * 16 + register, queue, value
        self.counted = [0] * len(workload.devices.counters if workload.devices else ())
        self.steps = [0] * workload.cpus
        self.code = [{name: int(u[name]) for name in workload.uops.dtype.names} for u in workload.uops]
        for address, size, value in workload.memory:
            self.write(address, size, value, -1)

    def read(self, address: int, size: int) -> int:
        get = self.memory.get
        return int.from_bytes(bytes([get(address + i, 0) for i in range(size)]), "little")

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
        u = self.code[self.pc[cpu]]
        r, op = self.registers[cpu], u["op"]
        value = (u["imm"] + (r[u["b"]] if u["b"] >= 0 else 0)) & MASK
        context = {Slot.CPU: cpu, Slot.QUEUE: self.queue[cpu], Slot.ITERATION: self.iterations[cpu]}.get(u["slot"], 0)
        at = u["base"] + u["stride"] * context + (r[u["areg"]] if u["areg"] >= 0 else 0)
        size, dst, self.pc[cpu] = u["size"], u["dst"], self.pc[cpu] + 1
        self.steps[cpu] += 1
        result = None
        if op == Op.LOAD or op == Op.LL:
            result = self.read(at, size)
            if op == Op.LL:
                self.reservation[cpu] = at // LINE
        elif op == Op.STORE:
            self.write(at, size, value, cpu)
        elif op == Op.RMW:
            result = self.read(at, size)
            new = (value if result == r[u["a"]] else result) if u["fn"] == Alu.CAS else ALU[u["fn"]](result, value) & MASK
            self.write(at, size, new, cpu)
        elif op == Op.SC:
            result = int(self.reservation[cpu] == at // LINE)
            self.reservation[cpu] = None
            if result:
                self.write(at, size, value, cpu)
        elif op == Op.ALU:
            result = ALU[u["fn"]](r[u["a"]] if u["a"] >= 0 else 0, value) & MASK
        elif op == Op.BR and COND[u["fn"]](r[u["a"]] if u["a"] >= 0 else 0, value):
            self.pc[cpu] = u["target"]
        elif op == Op.DONE:
            self.iterations[cpu] += 1
        elif op == Op.MMIO:
            self.written.append((u["fn"], at, value))
        elif op == Op.COUNT:
            self.counted[u["base"]] += 1
        elif op in (Op.HALT, Op.WAIT, Op.IRET):  # nobody interrupts here
            self.halted[cpu] = True
            self.pc[cpu] -= 1
        if result is not None and dst >= 0:
            r[dst] = result
        return Op(op)

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
