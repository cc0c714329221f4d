"""Growing micro-operation programs: rows with symbolic objects and labels, made real at the end."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from cohsim.uops import REGISTERS, UOP, Alu, Cond, Fence, Flag, Op
from cohsim.workload.compiled import FieldRef, LockUse
from cohsim.workload.layout import LINE_BYTES, Placed, StructLayout
from cohsim.workload.program import Program
from cohsim.workload.registers import TooMany, assign
from cohsim.workload.syntax import Pos

WORD_BYTES = 8  # values are kept by words of this size; one access lies in one word
INVERSE = {
    Cond.EQ: Cond.NE,
    Cond.NE: Cond.EQ,
    Cond.LT: Cond.GE,
    Cond.GE: Cond.LT,
    Cond.LTU: Cond.GEU,
    Cond.GEU: Cond.LTU,
    Cond.BITS: Cond.NOBITS,
    Cond.NOBITS: Cond.BITS,
}


@dataclass(frozen=True)
class Operand:
    """``imm + registers[reg]``; reg -1 for a constant."""

    imm: int = 0
    reg: int = -1


@dataclass(frozen=True)
class Address:
    """Where a memory operation goes, before placement. ``object`` is None for a pointer in a register."""

    object: str | None
    offset: int
    size: int | None  # None: not said yet (a whole object)
    ref: FieldRef | None = None
    areg: int = -1
    layout: StructLayout | None = None  # of a whole object, so that a field can still be chosen
    path: tuple[str, str] | None = None  # (struct, field) where a field was chosen, of a pointer too


@dataclass
class Row:
    """One micro-op; ``target`` is a label, registers are values (:mod:`cohsim.workload.registers`), ``object`` is resolved by placement."""

    op: Op
    fn: int = 0
    flags: int = 0
    size: int = 0
    dst: int = -1
    a: int = -1
    b: int = -1
    areg: int = -1
    func: int = 0
    prim: int = -1
    lock: int = -1
    field: int = -1
    target: int = -1
    line_no: int = 0
    imm: int = 0
    object: str | None = None
    offset: int = 0
    takes_address: bool = False  # imm is the address of object + offset
    has_value: bool = False  # a memory operation whose value is used
    takes_stride: bool = False  # an ALU MUL by the distance of the object's instances
    pos: Pos | None = None


@dataclass
class Emitter:
    """Rows of all programs of a workload, with the tables they index."""

    rows: list[Row] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)  # label -> row, -1 while unbound
    func_names: list[str] = field(default_factory=list)
    prim_names: list[str] = field(default_factory=list)
    fields: list[FieldRef] = field(default_factory=list)
    locks: list[LockUse] = field(default_factory=list)
    free: list[int] = field(default_factory=list)  # numbers below len(numbers used) that no value in scope has
    scoped: list[int] = field(default_factory=list)  # value -> its number by scope
    born: list[int] = field(default_factory=list)  # value -> first row of the function it belongs to
    scope_start: int = 0  # first row of the innermost function
    func: int = 0
    prim: int = -1
    spin: bool = False
    pos: Pos = Pos("", 0, 0)
    compare_costs: bool = False  # a comparison is an instruction of its own (Power)
    _numbers: int = 0  # numbers by scope that are in use or were
    _bound: dict[int, list[int]] = field(default_factory=dict)  # row -> labels that point to it
    _label_at: int = -1  # latest row a label points to
    _field_index: dict[FieldRef, int] = field(default_factory=dict)
    _names: dict[tuple[str, str], int] = field(default_factory=dict)

    # ---- tables
    def function(self, name: str) -> int:
        return self._name("f", self.func_names, name)

    def primitive(self, name: str) -> int:
        return self._name("p", self.prim_names, name)

    def _name(self, kind: str, names: list[str], name: str) -> int:
        if (kind, name) not in self._names:
            self._names[kind, name] = len(names)
            names.append(name)
        return self._names[kind, name]

    def field_index(self, ref: FieldRef | None) -> int:
        if ref is None:
            return -1
        if ref not in self._field_index:
            self._field_index[ref] = len(self.fields)
            self.fields.append(ref)
        return self._field_index[ref]

    def mark_lock(self, kind: str, word: FieldRef | None, acquires: bool, start: int) -> None:
        """The rows from ``start`` on are a lock function's, but for those of another one that it is made of; all are if it has no accesses
        of its own."""
        own = [row for row in self.rows[start:] if row.lock < 0]
        if not any(Op.LOAD <= row.op <= Op.SC for row in own):
            return
        use = LockUse(kind, self.field_index(word), acquires, self.func_names[own[0].func] if word is None else "")
        if use not in self.locks:
            self.locks.append(use)
        for row in own:
            row.lock = self.locks.index(use)

    # ---- registers
    def register(self) -> int:
        """A new value."""
        number = heapq.heappop(self.free) if self.free else self._numbers
        self._numbers = max(self._numbers, number + 1)
        self.scoped.append(number)
        self.born.append(self.scope_start)
        return len(self.scoped) - 1

    def release(self, *values: int) -> None:
        """The names of these values are out of scope."""
        for value in values:
            if value >= 0:
                heapq.heappush(self.free, self.scoped[value])

    # ---- rows
    def add(self, op: Op, **values: object) -> Row:
        row = Row(op, func=self.func, prim=self.prim, line_no=self.pos.line, pos=self.pos)
        for name, value in values.items():
            setattr(row, name, value)
        if self.spin:
            row.flags |= Flag.SPIN
        self.rows.append(row)
        return row

    def memory(
        self,
        op: Op,
        address: Address,
        *,
        dst: int = -1,
        value: Operand = Operand(),
        fn: int = 0,
        a: int = -1,
        size: int | None = None,
        shift: int = 0,
    ) -> Row:
        """A memory operation; ``shift`` and ``size`` choose a piece of the address. One in a register waits for that register only."""
        return self.add(
            op,
            fn=fn,
            size=size or address.size or 8,
            dst=dst,
            a=a,
            b=value.reg,
            imm=value.imm,
            areg=address.areg,
            field=self.field_index(address.ref),
            object=address.object,
            offset=address.offset + shift,
            has_value=dst >= 0 or value != Operand(),
        )

    def work(self, instructions: int) -> None:
        if instructions > 0:
            self.add(Op.WORK, imm=instructions)

    def alu(self, fn: Alu, dst: int, a: int, value: Operand) -> None:
        self.add(Op.ALU, fn=fn, dst=dst, a=a, b=value.reg, imm=value.imm)

    def scale(self, dst: int, a: int, factor: int) -> None:
        """dst <- a * factor, by a shift where that is enough."""
        if factor > 0 and factor & (factor - 1) == 0:
            self.alu(Alu.SHL, dst, a, Operand(factor.bit_length() - 1))
        else:
            self.alu(Alu.MUL, dst, a, Operand(factor))

    def move(self, dst: int, value: Operand) -> None:
        self.alu(Alu.XCHG, dst, -1, value)

    def fence(self, kind: Fence) -> None:
        self.add(Op.FENCE, imm=kind)

    # ---- control flow
    def label(self) -> int:
        self.labels.append(-1)
        return len(self.labels) - 1

    def bind(self, label: int) -> None:
        self.labels[label] = self._label_at = len(self.rows)
        self._bound.setdefault(len(self.rows), []).append(label)

    def drop_last_jump(self, label: int) -> None:
        """Remove a last row that jumps to ``label``, which is bound right behind it."""
        last = len(self.rows) - 1
        row = self.rows[last] if self.rows else None
        if row is None or row.op != Op.BR or row.fn != Cond.ALWAYS or row.target != label or last in self._bound:
            return  # something jumps to the jump itself
        del self.rows[last]
        self._bound[last] = self._bound.pop(last + 1, [])
        for moved in self._bound[last]:
            self.labels[moved] = last

    def jump(self, label: int) -> None:
        self.add(Op.BR, fn=Cond.ALWAYS, target=label, flags=int(Flag.PRED_TAKEN))

    def branch(self, cond: Cond, a: int, value: Operand, label: int, *, taken: bool = False) -> None:
        """Conditional branch without a comparison of its own."""
        self.add(Op.BR, fn=cond, a=a, b=value.reg, imm=value.imm, target=label, flags=int(Flag.PRED_TAKEN) if taken else 0)

    def sets_condition(self, register: int) -> bool:
        """The instruction just before leaves the comparison of ``register`` with 0 behind (record form, flags, stwcx.)."""
        if not self.rows or self._label_at == len(self.rows):
            return False
        last = self.rows[-1]
        return last.op in (Op.ALU, Op.SC) and last.dst == register

    # ---- the end
    def used_objects(self) -> set[str]:
        return {row.object for row in self.rows if row.object}

    def finish(self, program: Program, objects: dict[str, Placed]) -> np.ndarray:
        """UOP array with real addresses and branch targets; accesses that cross a line are reported."""
        table = []
        register = [*self._registers(program), -1]  # no value is -1, and stays it
        for r in self.rows:
            target = self.labels[r.target] if r.target >= 0 else -1
            base, stride, slot, imm, fn = r.offset, 0, 0, r.imm, r.fn
            item = objects.get(r.object) if r.object else None
            if item is not None and r.takes_stride:
                imm = item.stride
                if imm & (imm - 1) == 0:
                    fn, imm = Alu.SHL, imm.bit_length() - 1
            elif item is not None and r.takes_address:
                base, imm = 0, item.base + r.offset
            elif item is not None:
                base, stride, slot = item.base + r.offset, item.stride, int(item.slot)
                self._check_line(program, r, item)
            imm, base = self._number(program, r, imm), self._number(program, r, base)
            table.append(
                (
                    r.op,
                    fn,
                    r.flags,
                    r.size,
                    slot,
                    register[r.dst],
                    register[r.a],
                    register[r.b],
                    register[r.areg],
                    0,
                    0,
                    r.func,
                    r.prim,
                    r.field,
                    target,
                    r.line_no,
                    imm,
                    base,
                    stride,
                )
            )
        return np.array(table, UOP)

    @staticmethod
    def _number(program: Program, row: Row, value: int) -> int:
        """A 64-bit value as the signed integer of a micro-op."""
        if not -(1 << 63) <= value < 1 << 64:
            program.problem(row.pos or "", f"{value} does not fit into 64 bits", "use a smaller number")
            return 0
        return value - (1 << 64) if value >> 63 > 0 else value

    def _registers(self, program: Program) -> list[int]:
        try:
            return assign(self.rows, self.labels, self.scoped, self.born)
        except TooMany as error:
            program.problem(
                self.rows[error.row].pos or "",
                f"more than {REGISTERS} registers are live here",
                "load values again where they are used, or pass fewer down",
            )
            return [0] * len(self.scoped)

    def _check_line(self, program: Program, row: Row, item: Placed) -> None:
        for instance in range(min(2, item.instances)):
            start = (item.base + instance * item.stride + row.offset) % LINE_BYTES
            if row.areg < 0 and start + row.size > LINE_BYTES:
                program.problem(
                    row.pos or "",
                    f"{row.size} bytes at {item.name}+{row.offset} cross a cache line",
                    "move the field, or access its parts",
                )
                return
            if row.areg < 0 and start % WORD_BYTES + row.size > WORD_BYTES and row.has_value:
                program.problem(
                    row.pos or "",
                    f"the value of {row.size} bytes at {item.name}+{row.offset} crosses an {WORD_BYTES}-byte boundary",
                    "move the field, or access its parts",
                )
                return
