"""Growing micro-operation programs: rows with symbolic objects and labels, made real at the end."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from cohsim.uops import REGISTERS, UOP, Alu, Cond, Fence, Flag, Op
from cohsim.workload.compiled import FieldRef, LockUse
from cohsim.workload.layout import LINE_BYTES, Placed, StructLayout
from cohsim.workload.program import Program
from cohsim.workload.registers import TooMany, assign
from cohsim.workload.syntax import Pos

LARGEST = (1 << 63) - 1
SPIN, PRED_TAKEN = int(Flag.SPIN), int(Flag.PRED_TAKEN)
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


class Operand(NamedTuple):
    """``imm + registers[reg]``; reg -1 for a constant."""

    imm: int = 0
    reg: int = -1


ZERO = Operand()


class Address(NamedTuple):
    """Where a memory operation goes, before placement. ``object`` is None for a pointer in a register."""

    object: str | None
    offset: int
    size: int | None  # None: not said yet (a whole object)
    ref: FieldRef | None = None
    areg: int = -1
    layout: StructLayout | None = None  # of a whole object, so that a field can still be chosen
    path: tuple[str, str] | None = None  # (struct, field) where a field was chosen, of a pointer too


@dataclass(slots=True)
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
    _field_index: dict[tuple[str, str, int, int], int] = field(default_factory=dict)
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
        key = ref.object, ref.field, ref.offset_bytes, ref.size_bytes
        index = self._field_index.get(key)
        if index is None:
            index = self._field_index[key] = len(self.fields)
            self.fields.append(ref)
        return index

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
    def add(
        self,
        op: Op,
        *,
        fn: int = 0,
        flags: int = 0,
        size: int = 0,
        dst: int = -1,
        a: int = -1,
        b: int = -1,
        areg: int = -1,
        field: int = -1,
        target: int = -1,
        imm: int = 0,
        object: str | None = None,
        offset: int = 0,
        takes_address: bool = False,
        has_value: bool = False,
    ) -> Row:
        pos = self.pos
        flags = flags | SPIN if self.spin else flags
        row = Row(
            op, fn, flags, size, dst, a, b, areg, self.func, self.prim, -1, field, target, pos.line, imm, object, offset, takes_address,
            has_value, False, pos,
        )  # by position: a program has 100 000 rows
        self.rows.append(row)
        return row

    def memory(
        self,
        op: Op,
        address: Address,
        *,
        dst: int = -1,
        value: Operand = ZERO,
        fn: int = 0,
        a: int = -1,
        size: int | None = None,
        shift: int = 0,
    ) -> Row:
        """A memory operation; ``shift`` and ``size`` choose a piece of the address. One in a register waits for that register only."""
        imm, reg = value
        return self.add(
            op,
            fn=fn,
            size=size or address.size or 8,
            dst=dst,
            a=a,
            b=reg,
            imm=imm,
            areg=address.areg,
            field=self.field_index(address.ref),
            object=address.object,
            offset=address.offset + shift,
            has_value=dst >= 0 or value != ZERO,
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
        self.add(Op.BR, fn=Cond.ALWAYS, target=label, flags=PRED_TAKEN)

    def branch(self, cond: Cond, a: int, value: Operand, label: int, *, taken: bool = False) -> None:
        """Conditional branch without a comparison of its own."""
        self.add(Op.BR, fn=cond, a=a, b=value.reg, imm=value.imm, target=label, flags=PRED_TAKEN if taken else 0)

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
        rows, count = self.rows, len(self.rows)
        table = np.zeros(count, UOP)
        for name in ("op", "flags", "size", "func", "prim", "field", "line_no"):
            table[name] = list(map(attrgetter(name), rows))
        register = [*self._registers(program), -1]  # no value is -1, and stays it
        for name in ("dst", "a", "b", "areg"):
            table[name] = list(map(register.__getitem__, map(attrgetter(name), rows)))
        table["target"] = list(map([*self.labels, -1].__getitem__, map(attrgetter("target"), rows)))
        base, stride, slot, imm, fn = [0] * count, [0] * count, [0] * count, [0] * count, [0] * count
        checked: set[tuple[str | None, int, int, bool]] = set()  # accesses that are known to lie in one line
        for i, r in enumerate(rows):
            base[i], imm[i], fn[i] = r.offset, r.imm, r.fn
            item = objects.get(r.object) if r.object else None
            if item is not None and r.takes_stride:
                imm[i] = item.stride
                if item.stride & (item.stride - 1) == 0:
                    fn[i], imm[i] = Alu.SHL, item.stride.bit_length() - 1
            elif item is not None and r.takes_address:
                base[i], imm[i] = 0, item.base + r.offset
            elif item is not None:
                base[i], stride[i], slot[i] = item.base + r.offset, item.stride, item.slot
                access = r.object, r.offset, r.size, r.has_value
                if r.areg < 0 and access not in checked and self._in_one_line(program, r, item):
                    checked.add(access)
            if imm[i] > LARGEST or imm[i] < -LARGEST or base[i] > LARGEST or base[i] < -LARGEST:
                imm[i], base[i] = self._number(program, r, imm[i]), self._number(program, r, base[i])
        for name, column in (("base", base), ("stride", stride), ("slot", slot), ("imm", imm), ("fn", fn)):
            table[name] = column
        return table

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

    def _in_one_line(self, program: Program, row: Row, item: Placed) -> bool:
        """Whether the access lies in one line, and in one word where its value matters; False after reporting."""
        for instance in range(min(2, item.instances)):
            start = (item.base + instance * item.stride + row.offset) % LINE_BYTES
            if start + row.size > LINE_BYTES:
                program.problem(
                    row.pos or "",
                    f"{row.size} bytes at {item.name}+{row.offset} cross a cache line",
                    "move the field, or access its parts",
                )
                return False
            if start % WORD_BYTES + row.size > WORD_BYTES and row.has_value:
                program.problem(
                    row.pos or "",
                    f"the value of {row.size} bytes at {item.name}+{row.offset} crosses an {WORD_BYTES}-byte boundary",
                    "move the field, or access its parts",
                )
                return False
        return True
