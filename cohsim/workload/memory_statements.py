"""Statements that compute, access memory or order it, to micro-operations."""

from __future__ import annotations

import zlib

from cohsim.uops import Flag, Op
from cohsim.workload import syntax as s
from cohsim.workload.compiled import FieldRef
from cohsim.workload.emit import Address, Operand
from cohsim.workload.lower import FENCES, FUNCTIONS
from cohsim.workload.operands import Frame
from cohsim.workload.program import suggest
from cohsim.workload.statements import Statements


class MemoryStatements(Statements):
    """Work, loads, stores, atomics, assignments and fences."""

    orders: dict[int, list[tuple[int, Op]]]  # accesses of a `work` statement, by its id, as (traffic, load or store)

    def do_Work(self, node: s.Work, frame: Frame) -> None:
        total = self.program.int(node.instructions, node.pos)
        counts, ranges = [], []
        for t in node.traffic:
            counts.append((self.program.int(t.loads, node.pos), self.program.int(t.stores, node.pos)))
            ranges.append(self.range(self.o.address(frame, t.range), frame))
        order = self.orders.get(id(node))
        if order is None:
            order = self.orders[id(node)] = spread(counts)
        rest = total - len(order)
        if total < 0 or rest < 0:
            raise self.o.bad(
                node.pos,
                f"work {total} has {len(order)} loads and stores",
                "N counts all instructions, loads and stores included",
            )
        done = 0
        for i, (number, op) in enumerate(order, 1):
            until = rest * i // (len(order) + 1)
            self.e.work(until - done)
            done = until
            self.traffic(op, ranges[number], frame)
        self.e.work(rest - done)

    def range(self, where: Address, frame: Frame) -> tuple[str, int, Address]:
        """(its name in ``frame.walk``, words, the access to its first word) of a range that is walked."""
        assert where.object is not None or where.areg >= 0
        size = where.size or (self.o.object_size(where.object) - where.offset if where.object else 8)
        words = max(1, size // 8)
        key = f"{where.object}+{where.offset}:{size}"
        if key not in frame.walk:
            frame.walk[key] = zlib.crc32(f"{frame.name}/{where.object}".encode()) % words
        ref = where.ref or (FieldRef(where.object, "", where.offset, size) if where.object else None)
        return key, words, Address(where.object, where.offset, min(8, size), ref, where.areg)

    def traffic(self, op: Op, where: tuple[str, int, Address], frame: Frame) -> None:
        """The next 8 bytes of a range, cyclically, from a start of the function's own."""
        key, words, first = where
        word = frame.walk[key]
        frame.walk[key] = (word + 1) % words
        self.e.memory(op, first, shift=8 * word)

    def do_Load(self, node: s.Load, frame: Frame) -> None:
        at = self.o.sized(frame, node.address, atomic=node.dst is not None)
        dst = self.optional_target(frame, node.dst, node.pos)
        parts = [(0, at.size or 8)] if node.dst is not None else pieces(at.offset, at.size or 8)
        for _ in range(self.times(node.times, node.pos)):
            for shift, size in parts:
                row = self.e.memory(Op.LOAD, at, dst=dst, size=size, shift=shift)
                if node.dependent:
                    row.flags |= int(Flag.DEP)

    def do_Store(self, node: s.Store, frame: Frame) -> None:
        at = self.o.sized(frame, node.address, atomic=node.value is not None)
        value, temp = (Operand(0), -1) if node.value is None else self.o.value(frame, node.value)
        parts = [(0, at.size or 8)] if node.value is not None else pieces(at.offset, at.size or 8)
        for _ in range(self.times(node.times, node.pos)):
            for shift, size in parts:
                self.e.memory(Op.STORE, at, value=value, size=size, shift=shift).has_value = node.value is not None
        self.e.release(temp)

    def do_Rmw(self, node: s.Rmw, frame: Frame) -> None:
        at = self.o.sized(frame, node.address, atomic=True)
        wanted = 2 if node.function == "cas" else 1
        if node.function not in FUNCTIONS and node.function != "cas":
            raise self.o.bad(node.pos, f"unknown rmw function {node.function!r}", suggest(node.function, [*FUNCTIONS, "cas"]))
        if len(node.operands) != wanted:
            raise self.o.bad(
                node.pos,
                f"rmw {node.function} takes {wanted} value(s) after the address, not {len(node.operands)}",
                "see docs/workload-language.md",
            )
        values = [self.o.value(frame, v) for v in node.operands]
        dst = self.optional_target(frame, node.dst, node.pos)
        if node.function == "cas":
            self.low.cas(self.e, at, values[0][0], values[1][0], dst)
        else:
            self.low.rmw(self.e, FUNCTIONS[node.function], at, values[0][0], dst)
        self.e.release(*(temp for _, temp in values))

    def do_LoadLinked(self, node: s.LoadLinked, frame: Frame) -> None:
        at = self.power_only(node, node.address, frame)
        self.e.memory(Op.LL, at, dst=self.target(frame, node.dst, node.pos))

    def do_StoreConditional(self, node: s.StoreConditional, frame: Frame) -> None:
        at = self.power_only(node, node.address, frame)
        value, temp = self.o.value(frame, node.value)
        self.e.memory(Op.SC, at, value=value, dst=self.target(frame, node.dst, node.pos))
        self.e.release(temp)

    def power_only(self, node: s.Statement, address: s.Expr, frame: Frame) -> Address:
        if self.low.name == "x86":
            raise self.o.bad(node.pos, "x86 has no load-linked / store-conditional", "guard it with 'when isa power', or use rmw")
        return self.o.sized(frame, address, atomic=True)

    def do_Assign(self, node: s.Assign, frame: Frame) -> None:
        self.o.compute(frame, node.value, self.target(frame, node.dst, node.pos))

    def do_FenceStatement(self, node: s.FenceStatement, frame: Frame) -> None:
        if node.kind not in FENCES:
            raise self.o.bad(node.pos, f"unknown fence {node.kind!r}", suggest(node.kind, FENCES))
        self.e.fence(FENCES[node.kind])

    def do_Pause(self, node: s.Pause, frame: Frame) -> None:
        self.e.add(Op.PAUSE, flags=int(Flag.HINT_LOW) if node.low else 0)


def spread(counts: list[tuple[int, int]]) -> list[tuple[int, Op]]:
    """Loads and stores of several ranges, ``(loads, stores)`` each, evenly among each other: (number of the range, what) in order."""
    accesses: list[tuple[float, int, int, Op]] = []  # position, tie-breaker
    for n, (loads, stores) in enumerate(counts):
        for k, (op, count) in enumerate(((Op.LOAD, loads), (Op.STORE, stores))):
            accesses.extend(((i + 0.5) / count, 2 * n + k, n, op) for i in range(count))
    accesses.sort(key=lambda access: access[:2])
    return [access[2:] for access in accesses]


def pieces(offset: int, size: int) -> list[tuple[int, int]]:
    """(shift, size) of the naturally aligned accesses of at most 8 bytes that cover a range."""
    result, at = [], 0
    while at < size:
        width = 8
        while width > size - at or (offset + at) % width:
            width //= 2
        result.append((at, width))
        at += width
    return result
