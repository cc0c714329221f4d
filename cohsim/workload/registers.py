"""Values to registers.

Every name and temporary of an inlined call is a *value* of its own. As long as the values whose names are in scope fit, each keeps the
lowest register that was free when it came into being. Deeply inlined programs have more names in scope than there are registers, but
few of them are read again: there, values share a register wherever no two of them are live together.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Protocol

from cohsim.uops import REGISTERS, Cond, Op

WRITES_DST = (Op.LOAD, Op.RMW, Op.LL, Op.SC, Op.ALU)
ENDS = (Op.HALT, Op.IRET)
Segment = tuple[int, int]


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
    used = [value for value, segments in enumerate(ranges) if segments]
    in_order = sorted(used, key=lambda v: ranges[v][0])
    try:
        return _pack(ranges, in_order)
    except TooMany:  # first come, first served is not always best: the longest have the least choice
        length = {v: sum(end - start for start, end in ranges[v]) for v in used}
        return _pack(ranges, sorted(in_order, key=lambda v: -length[v]))


def _pack(ranges: Sequence[list[Segment]], order: Sequence[int]) -> list[int]:
    """Lowest register whose other values are dead wherever this one is live."""
    result = [0] * len(ranges)
    taken: list[list[Segment]] = [[] for _ in range(REGISTERS)]  # sorted, disjoint
    for value in order:
        fits = (r for r, segments in enumerate(taken) if not any(_meets(segments, segment) for segment in ranges[value]))
        register = next(fits, None)
        if register is None:
            raise TooMany(ranges[value][0][0] // 2)
        result[value] = register
        for segment in ranges[value]:
            insort(taken[register], segment)
    return result


def _meets(segments: list[Segment], segment: Segment) -> bool:
    """Whether a segment shares a point with one of a sorted list."""
    after = bisect_right(segments, segment)
    before_meets = after > 0 and segments[after - 1][1] >= segment[0]
    return before_meets or (after < len(segments) and segments[after][0] <= segment[1])


def live_ranges(rows: Sequence[Instruction], labels: Sequence[int], values: int, born: Sequence[int]) -> list[list[Segment]]:
    """Where each value is live: inclusive (first, last) points in order. Row r reads at point 2r and writes at 2r + 1."""
    starts, before = _blocks(rows, labels)
    ends = [*starts[1:], len(rows)]
    touched: list[list[list[int]]] = [[] for _ in range(values)]  # [block, first point, last point] of the value there, in order
    defined: list[set[int]] = [set() for _ in range(values)]  # blocks that write the value
    exposed: list[list[int]] = [[] for _ in range(values)]  # blocks that read it before they write it
    for block, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for r in range(start, end):
            row = rows[r]
            for value in (row.a, row.b, row.areg):
                if value >= 0:
                    spans = touched[value]
                    if spans and spans[-1][0] == block:
                        spans[-1][2] = 2 * r
                    else:
                        exposed[value].append(block)
                        spans.append([block, 2 * r, 2 * r])
            value = row.dst
            if value >= 0 and row.op in WRITES_DST:
                spans = touched[value]
                if spans and spans[-1][0] == block:
                    spans[-1][2] = 2 * r + 1
                else:
                    spans.append([block, 2 * r + 1, 2 * r + 1])
                defined[value].add(block)
    result = []
    for value, spans in enumerate(touched):
        if exposed[value]:
            spans = _with_passed(spans, *_spread(exposed[value], defined[value], starts, before, born[value]), starts, ends, born[value])
        segments: list[Segment] = []
        for _, first, last in spans:
            if segments and segments[-1][1] + 1 == first:
                first = segments.pop()[0]
            segments.append((first, last))
        result.append(segments)
    return result


def _with_passed(
    spans: list[list[int]], live_in: set[int], live_out: set[int], starts: list[int], ends: list[int], born: int
) -> list[list[int]]:
    """The spans, with those of blocks that the value lives into, out of or through: to the block's start or end, but not before ``born``."""
    points = {block: (first, last) for block, first, last in spans}
    result = []
    for block in sorted(live_in | live_out | points.keys()):
        first, last = points.get(block) or (2 * starts[block], 2 * ends[block] - 1)
        first = max(2 * starts[block], 2 * born) if block in live_in else first
        last = 2 * ends[block] - 1 if block in live_out else last
        result.append([block, first, last])
    return result


def _spread(
    exposed: list[int], defined: set[int], starts: list[int], before: list[list[int]], born: int
) -> tuple[set[int], set[int]]:
    """Blocks at whose start, and at whose end, a value is live.

    Before its own function begins it is nobody's: a name that is not set on every way holds nothing that must be kept.
    """
    live_in, live_out, todo = set(exposed), set(), list(exposed)
    while todo:
        block = todo.pop()
        if starts[block] <= born:
            continue
        for other in before[block]:
            live_out.add(other)
            if other not in live_in and other not in defined:
                live_in.add(other)
                todo.append(other)
    return live_in, live_out


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
