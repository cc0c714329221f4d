"""Which object and field a traced address belongs to. Best source first:

1. ``NAME.objects`` beside the trace (or given),
2. ``NAME.c2c.txt`` beside the trace,
3. data symbols, and on x86 per-CPU symbols where 1 or 2 give away where a CPU's area starts,
4. landmarks (see landmarks.py),
5. for lines with atomics, or that several vCPUs use and at least one stores to: the functions that touch them most,
6. for the rest: the page.

A later source never overrides bytes an earlier one named.
"""
from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from cohsim.traces.landmarks import find_objects
from cohsim.traces.objects import PER_CPU, NamedRange
from cohsim.traces.records import PAGE_SHIFT
from cohsim.traces.symbols import SymbolTable
from cohsim.uops import Op
from cohsim.workload.compiled import FieldRef, PlacedObject

TOUCH = np.dtype([("address", "i8"), ("uop", "i4"), ("vcpu", "u1"), ("count", "i4")])
"""How often each micro-op of each vCPU touched each address."""

FUNCTIONS_IN_A_NAME = 2


@dataclass
class Names:
    """Named data of one trace. Objects are disjoint; ``fields`` ascend by address and are disjoint."""

    objects: list[PlacedObject] = field(default_factory=list)
    fields: list[FieldRef] = field(default_factory=list)
    field_address: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    lines: dict[int, tuple[str, list[str]]] = field(default_factory=dict)

    def field_at(self, address: np.ndarray) -> np.ndarray:
        """Index into ``fields`` of each address, -1 where there is none."""
        if not self.fields:
            return np.full(len(address), -1, np.int64)
        index = np.searchsorted(self.field_address, address, side="right") - 1
        size = np.array([f.size_bytes for f in self.fields])
        inside = (index >= 0) & (address < (self.field_address + size)[index])
        return np.where(inside, index, -1)


class _Placement:
    """Objects and fields collected so far; refuses overlaps."""

    def __init__(self) -> None:
        self.start: list[int] = []
        self.objects: list[PlacedObject] = []
        self.fields: dict[int, NamedRange] = {}       # by address
        self.names: set[str] = set()

    def covering(self, address: int) -> PlacedObject | None:
        i = bisect.bisect_right(self.start, address) - 1
        return self.objects[i] if i >= 0 and address < self.objects[i].base + self.objects[i].size_bytes else None

    def end_before(self, address: int) -> int:
        """End of the nearest object that starts at or below ``address``, 0 if there is none."""
        i = bisect.bisect_right(self.start, address) - 1
        return self.objects[i].base + self.objects[i].size_bytes if i >= 0 else 0

    def add_object(self, name: str, base: int, size: int, scope: str, struct: str = "") -> bool:
        """Place an object; cut it off where the next one starts. False if its first byte is taken or there is an object of that
        name."""
        i = bisect.bisect_right(self.start, base)
        if self.covering(base) or name in self.names:
            return False
        if i < len(self.start):
            size = min(size, self.start[i] - base)
        self.start.insert(i, base)
        self.objects.insert(i, PlacedObject(name, struct or name.partition("@")[0].partition("[")[0], scope, base, size, 0, 1))
        self.names.add(name)
        return True

    def add_field(self, name: NamedRange) -> None:
        owner = self.covering(name.address)
        if owner is not None and owner.name == name.object:
            self.fields.setdefault(name.address, name)


def name_data(touch: np.ndarray, uop_op: np.ndarray, uop_size: np.ndarray, uop_function: list[str], pages: dict[int, int],
              symbols: SymbolTable, given: list[list[NamedRange]], kernel: str, line_bytes: int = 64) -> Names:
    """Name everything ``touch`` mentions. ``given`` are the ranges of sources 1 and 2; ``pages`` maps physical to virtual page
    numbers."""
    address, at = np.unique(touch["address"], return_inverse=True)
    extent = np.zeros(len(address), np.int64)                     # largest access to the address
    np.maximum.at(extent, at, uop_size[touch["uop"]])
    place = _Placement()
    sources = [*given, _symbol_ranges(address, pages, symbols), _per_cpu_ranges(address, symbols, given),
               _landmark_ranges(touch, uop_op, uop_function, kernel)]
    for ranges in sources:
        _place_ranges(place, ranges, address, extent)
    _place_rest(place, touch, uop_op, uop_function, address, line_bytes)
    return _finish(place, address, extent, line_bytes)


def _place_ranges(place: _Placement, ranges: list[NamedRange], address: np.ndarray, extent: np.ndarray) -> None:
    """Objects first. One of unknown size reaches to the end of the last access to one of its named fields."""
    touched = {int(a): int(e) for a, e in zip(address, extent, strict=True)}
    reach: dict[str, int] = defaultdict(int)
    fields = []
    for r in ranges:
        if r.field:
            sized = r if r.size_bytes else NamedRange(r.address, touched.get(r.address, 1), r.object, r.field, r.scope)
            fields.append(sized)
            reach[r.object] = max(reach[r.object], sized.address + sized.size_bytes)
    for r in ranges:
        if not r.field:
            size = r.size_bytes or reach[r.object] - r.address
            if size > 0:
                place.add_object(r.object, r.address, size, r.scope)
    for sized in fields:
        if sized.object not in place.names:                      # a field without an extent is its own object
            place.add_object(sized.object, sized.address, sized.size_bytes, sized.scope)
        place.add_field(sized)


def _symbol_ranges(address: np.ndarray, pages: dict[int, int], symbols: SymbolTable) -> list[NamedRange]:
    if not symbols.data:
        return []
    ranges: dict[tuple[int, str], NamedRange] = {}
    fields = []
    for physical in address.tolist():
        page = pages.get(physical >> PAGE_SHIFT)
        virtual = page << PAGE_SHIFT | physical & (1 << PAGE_SHIFT) - 1 if page is not None else -1
        if (hit := symbols.data_at(virtual)) is not None:
            start, symbol = hit
            offset = virtual - start
            ranges.setdefault((physical - offset, symbol), NamedRange(physical - offset, 0, symbol, ""))
            fields.append(NamedRange(physical, 0, symbol, f"+0x{offset:x}"))
    return [*ranges.values(), *fields]


def _per_cpu_ranges(address: np.ndarray, symbols: SymbolTable, given: list[list[NamedRange]]) -> list[NamedRange]:
    """x86: symbols of type A are offsets in a CPU's area; one named variable of a CPU says where its area starts."""
    offset = {name: at for at, name in reversed(symbols.absolute)}
    start: dict[int, int] = {}
    for r in (r for ranges in given for r in ranges if not r.field):
        if (copy := PER_CPU.match(r.object)) and copy[1] in offset:
            start.setdefault(int(copy[2]), r.address - offset[copy[1]])
    if not start:
        return []
    at = [o for o, _ in symbols.absolute]
    ranges = {}
    fields = []
    for cpu, base in start.items():
        for physical in address[(address >= base) & (address < base + at[-1])].tolist():
            symbol_at, symbol = symbols.absolute[bisect.bisect_right(at, physical - base) - 1]
            name = f"{symbol}[cpu{cpu}]"
            ranges[name] = NamedRange(base + symbol_at, 0, name, "", "per-cpu")
            fields.append(NamedRange(physical, 0, name, f"+0x{physical - base - symbol_at:x}", "per-cpu"))
    return [*ranges.values(), *fields]


def _landmark_ranges(touch: np.ndarray, uop_op: np.ndarray, uop_function: list[str], kernel: str) -> list[NamedRange]:
    atomics: dict[str, set[int]] = defaultdict(set)
    loads: dict[str, set[int]] = defaultdict(set)
    plain = [name.partition(".")[0] for name in uop_function]
    tables = {int(Op.RMW): atomics, int(Op.SC): atomics, int(Op.LOAD): loads}
    wanted = touch[np.isin(uop_op[touch["uop"]], list(tables))]
    for address, uop in set(zip(wanted["address"].tolist(), wanted["uop"].tolist(), strict=True)):
        tables[int(uop_op[uop])][plain[uop]].add(address)
    return find_objects(kernel, atomics, loads)


def _place_rest(place: _Placement, touch: np.ndarray, uop_op: np.ndarray, uop_function: list[str], address: np.ndarray,
                line_bytes: int) -> None:
    """Lines no source names: those that can be contended by their functions, runs of others by page."""
    lines = np.unique(address // line_bytes * line_bytes)
    for at in address.tolist():                                   # touched bytes in a line between named objects
        line = at // line_bytes * line_bytes
        if place.covering(at) is None and _overlaps(place, line, line_bytes):
            start = max(line, place.end_before(at))
            place.add_object(_page_name(start), start, line + line_bytes - start, "shared", "page")
    bare = {int(line) for line in lines if not _overlaps(place, int(line), line_bytes)}
    contended = _contended_functions(touch, uop_op, uop_function, bare, line_bytes)
    for line, functions in sorted(contended.items()):
        place.add_object(f"line {line:x} ({', '.join(functions)})", line, line_bytes, "shared", "line")
    for run in _runs(sorted(bare - contended.keys()), line_bytes):
        place.add_object(_page_name(run[0]), run[0], run[-1] + line_bytes - run[0], "shared", "page")


def _page_name(address: int) -> str:
    return f"page {address >> PAGE_SHIFT:x}+0x{address & ((1 << PAGE_SHIFT) - 1):x}"


def _overlaps(place: _Placement, line: int, line_bytes: int) -> bool:
    i = bisect.bisect_left(place.start, line)
    return (i < len(place.start) and place.start[i] < line + line_bytes) or place.covering(line) is not None


def _contended_functions(touch: np.ndarray, uop_op: np.ndarray, uop_function: list[str], bare: set[int],
                         line_bytes: int) -> dict[int, list[str]]:
    """Of the lines in ``bare``: those with an atomic, or with more than one vCPU and a store, and the functions that touch them
    most."""
    line = touch["address"] // line_bytes * line_bytes
    vcpus: dict[int, set[int]] = defaultdict(set)
    stored: set[int] = set()
    atomic: set[int] = set()
    use: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    stores, atomics = np.isin(uop_op[touch["uop"]], (Op.STORE, Op.RMW, Op.SC)), np.isin(uop_op[touch["uop"]], (Op.RMW, Op.SC))
    columns = (line, touch["vcpu"], touch["uop"], touch["count"], stores, atomics)
    for at, vcpu, uop, count, store, locked in zip(*(c.tolist() for c in columns), strict=True):
        if at in bare:
            vcpus[at].add(vcpu)
            use[at][uop_function[uop]] += count
            if store:
                stored.add(at)
            if locked:
                atomic.add(at)
    notable = atomic | {at for at in stored if len(vcpus[at]) > 1}
    return {at: sorted(use[at], key=lambda f: (-use[at][f], f))[:FUNCTIONS_IN_A_NAME] for at in notable}


def _runs(lines: list[int], line_bytes: int) -> Iterable[list[int]]:
    """Adjacent lines of one page together."""
    run: list[int] = []
    for line in lines:
        if run and (line != run[-1] + line_bytes or line >> PAGE_SHIFT != run[0] >> PAGE_SHIFT):
            yield run
            run = []
        run.append(line)
    if run:
        yield run


def _finish(place: _Placement, address: np.ndarray, extent: np.ndarray, line_bytes: int) -> Names:
    """Cut fields where the next one or their object ends, and list what lies in each touched line."""
    ordered = [place.fields[a] for a in sorted(place.fields)]
    fields, field_address = [], []
    for i, r in enumerate(ordered):
        owner = place.covering(r.address)
        assert owner is not None                                  # add_field saw to it, objects are never removed
        end = min(r.address + r.size_bytes, owner.base + owner.size_bytes)
        if i + 1 < len(ordered):
            end = min(end, ordered[i + 1].address)
        fields.append(FieldRef(owner.name, r.field, r.address - owner.base, end - r.address))
        field_address.append(r.address)
    names = Names(place.objects, fields, np.array(field_address, np.int64))
    touched_fields = np.unique(names.field_at(address))
    in_line: dict[int, list[int]] = defaultdict(list)
    for i in touched_fields[touched_fields >= 0].tolist():
        in_line[field_address[i] // line_bytes * line_bytes].append(i)
    for line in np.unique(address // line_bytes * line_bytes).tolist():
        here = in_line.get(line, [])
        owner = place.covering(field_address[here[0]]) if here else None
        if owner is None:
            first = int(address[np.searchsorted(address, line)])
            owner = place.covering(first)
        if owner is not None:
            names.lines[line] = (owner.name, [_shown(fields[i], owner.name) for i in here])
    return names


def _shown(ref: FieldRef, owner: str) -> str:
    return ref.field if ref.object == owner else f"{ref.object}.{ref.field}"
