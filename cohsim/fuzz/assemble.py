"""A case as micro-ops. Every value a program loads goes to the thread's private log, one record of fixed slots per iteration.

Values wait in registers before they are logged, so that loads overlap as they would without the logging.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cohsim.fuzz import nic as drivers
from cohsim.fuzz.case import (
    ADD_CAS,
    ADD_LLSC,
    ADD_SUB,
    DEP_ADDRESS,
    DEP_FLAG,
    PUT_CAS,
    PUT_LLSC,
    PUT_STORE,
    Action,
    Case,
    NicCase,
    ThreadCase,
    Word,
)
from cohsim.uops import UOP, Alu, Cond, Flag, Op, Register

R_ITERATION, R_SERIAL, R_ADDRESS, R_HASH, R_NEW, R_GUARD, R_LOG = 0, 1, 2, 3, 13, 14, 15
VALUES = tuple(range(4, 13))
HASH_STEPS = ((Alu.SHL, 7), (Alu.SHR, 9), (Alu.SHL, 8))
SERIAL_BITS = 44
NARROW_SERIAL_BITS = 27

_FIELDS = UOP.names or ()
_BLANK = {"dst": -1, "a": -1, "b": -1, "areg": -1, "prim": -1, "field": -1}


def stored_value(area: int, word: Word, thread: int) -> int:
    """What a thread stores to a word, apart from serial or iteration: marks that no other thread's value of the word has."""
    if word.kind == "command":          # one ring's commands lie at several offsets of a line and have the same marks
        return (thread + 1) << 56 | area << 50 | drivers.SENT_FLAGS
    if word.counts_iterations:
        return 0 if word.kind == "flag" or word.size == 1 else (thread & 7) << 13
    if word.size == 4:
        return (thread + 1) << NARROW_SERIAL_BITS
    return (thread + 1) << 56 | (area << 6 | word.offset) << SERIAL_BITS


def is_stored(action: Action) -> bool:
    """Whether the action takes a serial."""
    return action.kind in ("store", "put", "send", "amend")


@dataclass
class Assembled:
    """Micro-ops of one thread and where its log is. ``slots[i]``: log slots of action i."""

    rows: list[dict[str, int]]
    slots: list[tuple[int, ...]]
    record_slots: int
    stores: int                 # serials used per iteration


@dataclass
class Assembler:
    """Makes one thread's micro-ops."""

    case: Case
    thread: ThreadCase
    rows: list[dict[str, int]] = field(default_factory=list)
    slots: list[tuple[int, ...]] = field(default_factory=list)
    pending: list[tuple[int, int]] = field(default_factory=list)     # register, slot
    used: int = 0
    serial: int = 0
    latest: int = -1
    next_value: int = 0
    log: int = 0

    def emit(self, op: Op, **fields: int) -> int:
        self.rows.append({"op": op, **fields})
        return len(self.rows) - 1

    def alu(self, dst: int, a: int, fn: Alu, value: int = 0, b: int = -1) -> None:
        self.emit(Op.ALU, dst=dst, a=a, fn=fn, imm=value, b=b)

    def register(self) -> int:
        """A value register that waits for nothing. Logs what is pending when none is left."""
        if len(self.pending) >= len(VALUES) - 1:
            self.flush()
        taken = {r for r, _ in self.pending}
        while VALUES[self.next_value] in taken:
            self.next_value = (self.next_value + 1) % len(VALUES)
        register = VALUES[self.next_value]
        self.next_value = (self.next_value + 1) % len(VALUES)
        return register

    def keep(self, register: int) -> int:
        """The register's value is to be logged: its slot."""
        self.pending.append((register, self.used))
        self.used += 1
        return self.used - 1

    def flush(self, count: int | None = None) -> None:
        """Log pending values, or only the newest ``count``."""
        chosen = self.pending if count is None else self.pending[len(self.pending) - count:]
        self.pending = [] if count is None else self.pending[:len(self.pending) - count]
        for register, slot in chosen:
            self.emit(Op.STORE, base=self.log + 8 * slot, areg=R_LOG, b=register, size=8)

    def program(self) -> Assembled:
        stores = sum(map(is_stored, self.thread.body))
        self.log = self.case.log_address(self.thread)
        if self.case.nic is not None:
            drivers.prologue(self, self.case.nic)
        top = len(self.rows)
        self.alu(R_HASH, R_ITERATION, Alu.ADD, self.thread.salt)
        for fn, shift in HASH_STEPS:
            self.alu(R_ADDRESS, R_HASH, fn, shift)
            self.alu(R_HASH, R_HASH, Alu.XOR, b=R_ADDRESS)
        for action in self.thread.body:
            self.action(action)
        self.flush()
        self.alu(R_ITERATION, R_ITERATION, Alu.ADD, 1)
        self.alu(R_SERIAL, R_SERIAL, Alu.ADD, stores)
        self.alu(R_LOG, R_LOG, Alu.ADD, 8 * self.used)
        self.emit(Op.BR, fn=Cond.LTU, a=R_ITERATION, imm=self.case.iterations, target=top, flags=Flag.PRED_TAKEN)
        self.emit(Op.HALT)
        return Assembled(self.rows, self.slots, self.used, stores)

    def action(self, a: Action) -> None:
        skip = -1
        before = len(self.pending)
        if a.guard is not None:
            if len(self.pending) > 4:
                self.flush()
                before = 0
            flags = Flag.PRED_TAKEN if a.guard.predicted_taken else 0
            skip = self.emit(Op.BR, fn=a.guard.condition, a=R_GUARD, imm=a.guard.operand, flags=flags)
        first = self.used
        getattr(self, f"do_{a.kind}")(a)
        self.slots.append(tuple(range(first, self.used)))
        self.serial += is_stored(a)
        if skip >= 0:
            self.flush(len(self.pending) - before)
            self.rows[skip]["target"] = len(self.rows)
        elif a.flush:
            self.flush()

    def place(self, a: Action, offset: int) -> dict[str, int]:
        """Address fields; emits the computation of a changing line."""
        where = {"base": self.case.line_address(a.area, max(a.line, 0)) + offset}
        area = self.case.areas[a.area]
        if a.line < 0 and area.lines > 1:
            self.alu(R_ADDRESS, R_HASH, Alu.SHR, -1 - a.line)
            self.alu(R_ADDRESS, R_ADDRESS, Alu.AND, area.lines - 1)
            self.alu(R_ADDRESS, R_ADDRESS, Alu.SHL, area.shift)
            where["areg"] = R_ADDRESS
        if a.dep == DEP_ADDRESS and self.latest >= 0:
            zero = self.register()
            self.alu(zero, self.latest, Alu.XOR, b=self.latest)
            if "areg" in where:
                self.alu(R_ADDRESS, R_ADDRESS, Alu.ADD, b=zero)
            else:
                where["areg"] = zero
        if a.dep == DEP_FLAG:
            where["flags"] = Flag.DEP
        return where

    def do_work(self, a: Action) -> None:
        self.emit(Op.WORK, imm=a.value)

    def do_pause(self, a: Action) -> None:
        self.emit(Op.PAUSE)

    def do_fence(self, a: Action) -> None:
        self.emit(Op.FENCE, imm=a.way)

    def _load(self, a: Action, offset: int, size: int) -> int:
        where = self.place(a, offset)
        register = self.register()
        self.emit(Op.LOAD, dst=register, size=size, **where)
        self.latest = register
        self.keep(register)
        return register

    def do_load(self, a: Action) -> None:
        register = self._load(a, self.case.word(a).offset & ~(a.size - 1), a.size)
        if a.sets_guard:
            self.alu(R_GUARD, register, Alu.ADD)

    def do_get(self, a: Action) -> None:
        self._load(a, self.case.word(a).offset, self.case.word(a).size)

    do_look = do_get

    def do_store(self, a: Action) -> None:
        word = self.case.word(a)
        where = self.place(a, word.offset)
        mark = stored_value(a.area, word, self.thread.id)
        if word.counts_iterations:
            self.emit(Op.STORE, imm=mark + 1, b=R_ITERATION, size=word.size, **where)
        else:
            self.store_serial(mark, word.size, where)

    def store_serial(self, mark: int, size: int, where: dict[str, int]) -> None:
        """Store the action's serial."""
        self.emit(Op.STORE, imm=mark + self.serial + 1, b=R_SERIAL, size=size, **where)

    def do_set(self, a: Action) -> None:
        word = self.case.word(a)
        where = self.place(a, word.offset)
        self.emit(Op.STORE, imm=a.value, b=R_ITERATION, size=word.size, **where)

    def do_await(self, a: Action) -> None:
        word = self.case.word(a)
        where = self.place(a, word.offset)
        register = self.register()
        top = self.emit(Op.LOAD, dst=register, size=word.size, **where)
        self.alu(R_NEW, register, Alu.ADD, a.value)
        leave = self.emit(Op.BR, fn=Cond.GEU, a=R_NEW, b=R_ITERATION, flags=Flag.SPIN)
        self.emit(Op.PAUSE, flags=Flag.SPIN)
        self.emit(Op.BR, fn=Cond.ALWAYS, target=top, flags=Flag.SPIN | Flag.PRED_TAKEN)
        self.rows[leave]["target"] = len(self.rows)
        self.latest = register
        self.keep(register)

    def nic(self) -> NicCase:
        """The NIC that the thread drives."""
        assert self.case.nic is not None
        return self.case.nic

    def do_receive(self, a: Action) -> None:
        drivers.receive(self, self.nic(), a)

    def do_retarget(self, a: Action) -> None:
        drivers.retarget(self, self.nic(), a)

    def do_send(self, a: Action) -> None:
        drivers.send(self, self.nic(), stored_value(a.area, self.case.word(a), self.thread.id))

    def do_amend(self, a: Action) -> None:
        drivers.amend(self, self.nic(), a, stored_value(a.area, self.case.word(a), self.thread.id))

    def do_alter(self, a: Action) -> None:
        word = self.case.word(a)
        where = self.place(a, word.offset)
        register = self.register()
        self.emit(Op.RMW, fn=a.way, dst=register, imm=a.value, size=word.size, **where)
        self.keep(register)

    def do_add(self, a: Action) -> None:
        size = self.case.word(a).size
        where = self.place(a, self.case.word(a).offset)
        old, result = self.register(), self.register()
        if a.way in (ADD_LLSC, ADD_CAS):
            top = self.emit(Op.LL if a.way == ADD_LLSC else Op.LOAD, dst=old, size=size, **where)
            self.alu(R_NEW, old, Alu.ADD, 1)
            if a.way == ADD_LLSC:
                self.emit(Op.SC, dst=result, b=R_NEW, size=size, **where)
                self.emit(Op.BR, fn=Cond.EQ, a=result, imm=0, target=top)
            else:
                self.emit(Op.RMW, fn=Alu.CAS, dst=result, a=old, b=R_NEW, size=size, **where)
                self.emit(Op.BR, fn=Cond.NE, a=result, b=old, target=top)
        elif a.way == ADD_SUB:
            self.emit(Op.RMW, fn=Alu.SUB, dst=old, imm=-1, size=size, **where)
        else:
            self.emit(Op.RMW, fn=Alu.ADD, dst=old, imm=1, size=size, **where)
        self.keep(old)

    def do_put(self, a: Action) -> None:
        word = self.case.word(a)
        where = self.place(a, word.offset)
        new = {"imm": stored_value(a.area, word, self.thread.id) + self.serial + 1, "b": R_SERIAL, "size": word.size}
        if a.way == PUT_STORE:
            self.emit(Op.STORE, **new, **where)
            return
        old = self.register()
        if a.way == PUT_CAS:
            self.emit(Op.LOAD, dst=old, size=word.size, **where)
            self.keep(old)
            found = self.register()
            self.emit(Op.RMW, fn=Alu.CAS, dst=found, a=old, **new, **where)
            self.keep(found)
        elif a.way == PUT_LLSC:
            self.emit(Op.LL, dst=old, size=word.size, **where)
            self.keep(old)
            done = self.register()
            self.emit(Op.SC, dst=done, **new, **where)
            self.keep(done)
        else:
            self.emit(Op.RMW, fn=Alu.XCHG, dst=old, **new, **where)
            self.keep(old)


def assemble_thread(case: Case, thread: ThreadCase) -> Assembled:
    """One thread's micro-ops; branch targets count from its first."""
    return Assembler(case, thread).program()


def assemble_handlers(case: Case) -> list[Assembled]:
    """The NIC's receive and transmit interrupt; none without a NIC."""
    if case.nic is None:
        return []
    return [Assembled(drivers.handler(case, register), [], 0, 0) for register in (Register.RX_ENABLE, Register.TX_ENABLE)]


def assemble(parts: Sequence[Assembled]) -> tuple[np.ndarray, np.ndarray]:
    """(UOP[U], entry int32[threads]) of the threads' programs, one behind the other."""
    entry = np.cumsum([0] + [len(p.rows) for p in parts[:-1]]).astype(np.int32)
    rows = []
    for part, first in zip(parts, entry.tolist(), strict=True):
        for row in part.rows:
            full = {**_BLANK, **row}
            if row["op"] == Op.BR:
                full["target"] = row["target"] + first
            rows.append(tuple([full.get(name, 0) for name in _FIELDS]))
    return np.array(rows, UOP), entry
