"""Values to registers.

Every name and temporary of an inlined call is a *value* of its own. As long as the values whose names are in scope fit, each keeps the
lowest register that was free when it came into being. Deeply inlined programs have more names in scope than there are registers, but
few of them are read again: there, values share a register whenever their live ranges do not meet.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Protocol

from cohsim.uops import REGISTERS, Cond, Op

WRITES_DST = (Op.LOAD, Op.RMW, Op.LL, Op.SC, Op.ALU)
ENDS = (Op.HALT, Op.IRET)


class Instruction(Protocol):
    """The part of a row that matters here; registers are value numbers, ``target`` is a label."""

    op: Op
    fn: int
    dst: int
    a: int
    b: int
    areg: int
    target: int


class TooMany(Exception):
    """More values are live at ``row`` than there are registers."""

    def __init__(self, row: int):
        super().__init__(row)
        self.row = row


def assign(rows: Sequence[Instruction], labels: Sequence[int], scoped: Sequence[int], born: Sequence[int]) -> list[int]:
    """Register of every value. ``scoped``: its number by scope; ``born``: first row of the function it belongs to.

    Raises TooMany.
    """
    if max(scoped, default=-1) < REGISTERS:
        return list(scoped)
    ranges = live_ranges(rows, labels, len(scoped), born)
    result = [0] * len(scoped)
    free = list(range(REGISTERS))
    active: list[tuple[int, int]] = []  # end of the range, register
    for value in sorted((v for v in range(len(scoped)) if ranges[v]), key=lambda v: ranges[v]):
        first, last = ranges[value]
        while active and active[0][0] < first:
            heapq.heappush(free, heapq.heappop(active)[1])
        if not free:
            raise TooMany(first // 2)
        result[value] = heapq.heappop(free)
        heapq.heappush(active, (last, result[value]))
    return result


def live_ranges(rows: Sequence[Instruction], labels: Sequence[int], values: int, born: Sequence[int]) -> list[tuple[int, ...]]:
    """(first, last) point of each value, () where it is never used. Row r reads at point 2r and writes at 2r + 1."""
    starts, before = _blocks(rows, labels)
    ends = [*starts[1:], len(rows)]
    first, last = [1 << 60] * values, [-1] * values
    defines: list[set[int]] = [set() for _ in starts]
    exposed: dict[int, list[int]] = {}  # value -> blocks that read it before they write it
    for block, (start, end) in enumerate(zip(starts, ends, strict=True)):
        defined = defines[block]
        for r in range(start, end):
            row = rows[r]
            for value in {row.a, row.b, row.areg} - {-1}:
                first[value], last[value] = min(first[value], 2 * r), max(last[value], 2 * r)
                if value not in defined and (blocks := exposed.setdefault(value, [])) [-1:] != [block]:
                    blocks.append(block)
            if row.dst >= 0 and row.op in WRITES_DST:
                first[row.dst], last[row.dst] = min(first[row.dst], 2 * r + 1), max(last[row.dst], 2 * r + 1)
                defined.add(row.dst)
    for value, blocks in exposed.items():
        # The value is live at the start of these blocks, hence at the end of all that lead there, back to where it is written. Before its
        # own function begins it is nobody's: a name that is not set on every way holds nothing to keep.
        floor, todo, seen = born[value], list(blocks), set(blocks)
        while todo:
            block = todo.pop()
            first[value] = min(first[value], 2 * max(starts[block], floor))
            if starts[block] <= floor:
                continue
            for other in before[block]:
                if ends[other] <= floor:
                    continue
                last[value] = max(last[value], 2 * ends[other] - 1)
                if other not in seen and value not in defines[other]:
                    seen.add(other)
                    todo.append(other)
    return [(first[v], last[v]) if last[v] >= 0 else () for v in range(values)]


def _blocks(rows: Sequence[Instruction], labels: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    """First row of each basic block, and the blocks that lead to each."""
    leaders = {0}
    for r, row in enumerate(rows):
        if row.op == Op.BR:
            leaders.add(labels[row.target])
        if row.op == Op.BR or row.op in ENDS:
            leaders.add(r + 1)
    starts = sorted(r for r in leaders if r < len(rows))
    number = {start: i for i, start in enumerate(starts)}
    before: list[list[int]] = [[] for _ in starts]
    for block, end in enumerate([*starts[1:], len(rows)]):
        row = rows[end - 1]
        if row.op == Op.BR and labels[row.target] in number:
            before[number[labels[row.target]]].append(block)
        if end < len(rows) and row.op not in ENDS and not (row.op == Op.BR and row.fn == Cond.ALWAYS):
            before[number[end]].append(block)
    return starts, before
