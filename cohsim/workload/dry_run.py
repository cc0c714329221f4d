"""Execute one path alone on one CPU, without caches or time: its instructions and accesses when nobody contends."""

from __future__ import annotations

from collections import Counter

from cohsim.uops import REGISTERS, Alu, Cond, Op, Slot
from cohsim.workload.compiled import CompiledWorkload

MASK = (1 << 64) - 1
STEP_LIMIT = 300_000
_NO_TIME = (Op.ENTER, Op.PACKET, Op.DONE, Op.WAIT, Op.IRET, Op.COUNT)
_ENDS = (Op.HALT, Op.WAIT, Op.IRET)


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def apply_alu(fn: int, x: int, v: int) -> int:
    """Two-operand function of ALU and RMW on 64-bit values."""
    if fn == Alu.ADD:
        return (x + v) & MASK
    if fn == Alu.SUB:
        return (x - v) & MASK
    if fn == Alu.AND:
        return x & v
    if fn == Alu.OR:
        return x | v
    if fn == Alu.XOR:
        return x ^ v
    if fn == Alu.MUL:
        return (x * v) & MASK
    if fn == Alu.SHL:
        return (x << (v & 63)) & MASK
    return x >> (v & 63) if fn == Alu.SHR else v


def condition(fn: int, x: int, v: int) -> bool:
    """Whether a BR with operands x and v is taken."""
    if fn == Cond.ALWAYS:
        return True
    if fn in (Cond.EQ, Cond.NE):
        return (x == v) == (fn == Cond.EQ)
    if fn in (Cond.LT, Cond.GE):
        return (_signed(x) < _signed(v)) == (fn == Cond.LT)
    if fn in (Cond.LTU, Cond.GEU):
        return (x < v) == (fn == Cond.LTU)
    return ((x & v) != 0) == (fn == Cond.BITS)


class DryRun:
    """One CPU of a workload. Packet and flow are 0, the queue is the CPU's."""

    def __init__(self, workload: CompiledWorkload, cpu: int):
        self.workload = workload
        self.cpu = cpu
        self.code = [tuple(int(x) for x in row.tolist()) for row in workload.uops]
        self.memory: dict[int, int] = {}
        self.registers = [0] * REGISTERS
        self.iteration = 0
        for address, size, value in workload.memory:
            self.write(address, size, value)

    def read(self, address: int, size: int) -> int:
        get = self.memory.get
        return int.from_bytes(bytes(get(address + i, 0) for i in range(size)), "little")

    def write(self, address: int, size: int, value: int) -> None:
        for i in range(size):
            self.memory[address + i] = value >> 8 * i & 0xFF

    def iterations(self, count: int) -> Counter[int] | None:
        """How often each micro-op ran in the last of ``count`` iterations; None if the path does not finish alone.

        A program that waits for interrupts is counted up to its first wait.
        """
        names = self.workload.uops.dtype.names or ()
        at = {name: names.index(name) for name in names}
        ran: Counter[int] = Counter()
        pc = int(self.workload.entry[self.cpu])
        for _ in range(STEP_LIMIT):
            u = self.code[pc]
            op = u[at["op"]]
            ran[pc] += 1
            if op in _ENDS:
                return ran
            if op == Op.DONE:
                self.iteration += 1
                if self.iteration >= count:
                    return ran
                ran = Counter()
            a = self.registers[u[at["a"]]] if u[at["a"]] >= 0 else 0
            value = (u[at["imm"]] + (self.registers[u[at["b"]]] if u[at["b"]] >= 0 else 0)) & MASK
            pc += 1
            if op == Op.BR:
                if condition(u[at["fn"]], a, value):
                    pc = u[at["target"]]
                continue
            slot = {Slot.CPU: self.cpu, Slot.QUEUE: self.cpu, Slot.ITERATION: self.iteration}.get(Slot(u[at["slot"]]), 0)
            address = u[at["base"]] + u[at["stride"]] * slot + (self.registers[u[at["areg"]]] if u[at["areg"]] >= 0 else 0)
            result = self.execute(op, u[at["fn"]], a, value, address, u[at["size"]])
            if result is not None and u[at["dst"]] >= 0:
                self.registers[u[at["dst"]]] = result
        return None

    def execute(self, op: int, fn: int, a: int, value: int, address: int, size: int) -> int | None:
        """Effect of one micro-op that is not a branch; its result, if any."""
        if op == Op.ALU:
            return apply_alu(fn, a, value)
        if op in (Op.LOAD, Op.LL):
            return self.read(address, size)
        if op == Op.STORE:
            self.write(address, size, value)
        if op == Op.SC:
            self.write(address, size, value)
            return 1
        if op == Op.RMW:
            old = self.read(address, size)
            new = (value if old == a else old) if fn == Alu.CAS else apply_alu(fn, old, value)
            self.write(address, size, new)
            return old
        return None


def instructions(row: object) -> int:
    """Instructions a micro-op stands for."""
    op, imm = int(row["op"]), int(row["imm"])  # type: ignore[index]
    return imm if op == Op.WORK else 0 if op in _NO_TIME else 1
