"""Struct layouts, and real addresses for every object.

Addresses depend only on the file, its variants, the layout options and the number of CPUs. Each scope has its own region, so
that adding a CPU moves no shared object. An object starts on a line of its own unless it is placed with ``at``.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from functools import lru_cache

from cohsim.uops import Slot
from cohsim.workload import syntax as s
from cohsim.workload.compiled import PlacedObject
from cohsim.workload.program import Program, suggest

LINE_BYTES = 64
DEFAULT_ITERATIONS = 1 << 20  # instances of a per-iteration object: its address grows with the iteration number, without end
MAX_CHAIN_WORDS = 1 << 21
MAX_BATCH = 1 << 30
SLOTS = {
    "shared": Slot.NONE,
    "per-cpu": Slot.CPU,
    "per-packet": Slot.PACKET,
    "per-flow": Slot.FLOW,
    "per-queue": Slot.QUEUE,
    "per-iteration": Slot.ITERATION,
}
REGION_BYTES = 1 << 32
# Regions are far apart and start at different line colours, as slabs and per-CPU areas do: their first objects do not fall
# into one set.
REGIONS = {
    "shared": 0x1_0000_0000,
    "per-cpu": 0x2_0000_0000 + 21 * LINE_BYTES,
    "per-packet": 0x3_0000_0000 + 37 * LINE_BYTES,
    "per-flow": 0x4_0000_0000 + 53 * LINE_BYTES,
    "per-queue": 0x5_0000_0000 + 11 * LINE_BYTES,
    "per-iteration": 0x6_0000_0000,
}


@dataclass
class StructLayout:
    """Fields of a struct: name to (offset, size)."""

    name: str
    size: int
    fields: dict[str, tuple[int, int]] = field(default_factory=dict)
    overlapping: frozenset[str] = frozenset()


@dataclass
class Placed:
    """An object with addresses; instance i is at ``base + i * stride``."""

    definition: s.Object
    scope: str
    size: int
    layout: StructLayout | None
    base: int = 0
    stride: int = 0
    instances: int = 1

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def slot(self) -> Slot:
        return SLOTS[self.scope]

    def compiled(self) -> PlacedObject:
        return PlacedObject(
            self.name, self.layout.name if self.layout else "", self.scope, self.base, self.size, self.stride, self.instances
        )


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def check_overlaps(program: Program, layout: StructLayout, pos: s.Pos | str) -> None:
    """Two fields share bytes only where one of them says so."""
    placed = sorted((off, size, name) for name, (off, size) in layout.fields.items() if name not in layout.overlapping)
    for (off, size, name), (off2, _, name2) in zip(placed, placed[1:], strict=False):
        if off + size > off2:
            program.problem(
                pos,
                f"{layout.name}.{name2} at {off2} overlaps {name} ({off}..{off + size - 1})",
                "mend the offset, or write 'overlaps' behind a union member",
            )


def build_structs(program: Program) -> dict[str, StructLayout]:
    """Layouts as written, checked."""
    result = {}
    for node in program.structs.values():
        layout = StructLayout(node.name, program.int(node.size, node.pos))
        if layout.size <= 0:
            program.problem(node.pos, f"struct {node.name} has size {layout.size}", "give its size in bytes")
        overlapping = set()
        for f in node.fields:
            offset, size = program.int(f.offset, f.pos), program.int(f.size, f.pos)
            if f.name in layout.fields:
                program.problem(f.pos, f"field {f.name!r} stands twice in struct {node.name}", "rename or remove one")
                continue
            sound = offset >= 0 and size > 0 and offset + size <= layout.size
            if not sound:
                where = f"field {f.name!r} ({offset}..{offset + size - 1})"
                program.problem(
                    f.pos, f"{where} is outside struct {node.name} of {layout.size} bytes", "a field is NAME OFFSET SIZE"
                )
                offset, size = 0, max(1, min(size, layout.size))  # so that its uses are not reported too
            layout.fields[f.name] = (offset, size)
            if f.overlaps or not sound:
                overlapping.add(f.name)
        layout.overlapping = frozenset(overlapping)
        check_overlaps(program, layout, node.pos)
        result[node.name] = layout
    return result


class Layouter:
    """Applies layout options and places the objects that are used."""

    def __init__(self, program: Program):
        self.program = program
        self.structs = build_structs(program)
        self.padded: set[str] = set()
        self.scopes: dict[str, str] = {}
        self.batches: dict[tuple[str, str], int] = {}  # (struct, field) -> updates that a CPU gathers

    # ---- layout options
    def apply(self, option: str, pos: s.Pos | str) -> None:
        """One option: STRUCT.FIELD@OFF, STRUCT.FIELD:own-line, STRUCT.FIELD:batch=N, OBJECT:pad or OBJECT:per-cpu."""
        program = self.program
        if match := re.fullmatch(r"(\w+)\.([\w.\[\]]+)(?:@(0x[0-9a-fA-F]+|\d+)|:own-line|:batch=(\d+))", option):
            struct, name, offset, batch = match.groups()
            layout = self.structs.get(struct)
            if layout is None:
                program.problem(pos, f"layout {option!r}: unknown struct {struct!r}", suggest(struct, self.structs))
            elif name not in layout.fields:
                program.problem(pos, f"layout {option!r}: struct {struct} has no field {name!r}", suggest(name, layout.fields))
            elif batch is not None and not 1 <= int(batch) <= MAX_BATCH:
                program.problem(pos, f"layout {option!r}: a batch of {batch} updates", f"use 1 to {MAX_BATCH}")
            elif batch is not None:
                self.batches[struct, name] = int(batch)
            elif offset is None:
                self.own_line(layout, name, pos)
            else:
                self.move(layout, name, int(offset, 0), pos)
        elif match := re.fullmatch(r"(\w+):(pad|per-cpu)", option):
            name, what = match.groups()
            if name not in program.objects:
                program.problem(pos, f"layout {option!r}: unknown object {name!r}", suggest(name, program.objects))
            elif what == "pad":
                self.padded.add(name)
            else:
                self.scopes[name] = "per-cpu"
        else:
            program.problem(
                pos,
                f"layout option {option!r} is not understood",
                "write STRUCT.FIELD@OFFSET, STRUCT.FIELD:own-line, STRUCT.FIELD:batch=N, OBJECT:pad or OBJECT:per-cpu",
            )

    def move(self, layout: StructLayout, name: str, offset: int, pos: s.Pos | str) -> None:
        size = layout.fields[name][1]
        layout.fields[name] = (offset, size)
        if offset + size > layout.size:
            layout.size = round_up(offset + size, 8)
        check_overlaps(self.program, layout, pos)

    def own_line(self, layout: StructLayout, name: str, pos: s.Pos | str) -> None:
        """Move a field behind the end, to a line boundary of the objects of this struct."""
        users = [o for o in self.program.objects.values() if o.struct == layout.name]
        starts = {
            self.program.int(o.options.get("offset", 0), o.pos) % LINE_BYTES for o in users if o.name not in self.padded
        } or {0}
        if len(starts) > 1:
            self.program.problem(
                pos,
                f"objects of struct {layout.name} start at different offsets in a line: {sorted(starts)}",
                "move the field to an explicit offset instead",
            )
        start = min(starts)
        size = layout.fields[name][1]
        offset = round_up(start + layout.size, LINE_BYTES) - start
        layout.fields[name] = (offset, size)
        layout.size = offset + round_up(size, LINE_BYTES)

    # ---- placement
    def place(self, names: set[str], counts: dict[str, int], pool: int) -> dict[str, Placed]:
        """Addresses of the objects ``names``; ``counts`` gives the instances per scope, ``pool`` those of packet buffers."""
        # library objects last: which of them exist depends on the instruction set, and must not move the file's own
        order = sorted((n for n in self.program.objects if n in names), key=lambda n: n in self.program.library)
        objects = {n: self.describe(self.program.objects[n], counts, pool) for n in order}
        anchored: dict[str, list[Placed]] = {}
        for item in objects.values():
            if item.definition.at and item.name not in self.padded:
                anchored.setdefault(self.anchor_of(item, objects), []).append(item)
        free = dict(REGIONS)
        for item in objects.values():
            if item.definition.at and item.name not in self.padded:
                continue
            self.place_group(item, anchored.get(item.name, []), objects, free)
        return objects

    def describe(self, node: s.Object, counts: dict[str, int], pool: int) -> Placed:
        layout = self.structs.get(node.struct) if node.struct else None
        size = self.program.int(node.size, node.pos) if node.size is not None else layout.size if layout else 1
        if size <= 0:
            self.program.problem(node.pos, f"object {node.name!r} has {size} bytes", "give a size above 0")
            size = 1
        scope = self.scopes.get(node.name, node.scope)
        instances = counts.get(scope, 1)
        if scope == "per-iteration":
            instances = self.program.int(node.options.get("pool", DEFAULT_ITERATIONS), node.pos)
        if scope == "per-packet":
            instances = self.program.int(node.options.get("pool", pool), node.pos)
            if instances < pool:
                self.program.problem(
                    node.pos,
                    f"object {node.name!r} has a pool of {instances}, the source hands out {pool} buffers",
                    "make them equal",
                )
        return Placed(node, scope, size, layout, instances=max(1, instances))

    def anchor_of(self, item: Placed, objects: dict[str, Placed]) -> str:
        """Name of the object at the end of the chain of ``at``."""
        seen = {item.name}
        while item.definition.at and item.name not in self.padded:
            other = objects.get(item.definition.at[0])
            if other is None or other.name in seen:
                return item.name
            seen.add(other.name)
            item = other
        return item.name

    def place_group(self, anchor: Placed, attached: list[Placed], objects: dict[str, Placed], free: dict[str, int]) -> None:
        options = anchor.definition.options
        pos = anchor.definition.pos
        align = self.program.int(options.get("align", LINE_BYTES), pos)
        if align <= 0 or align & (align - 1):
            self.program.problem(pos, f"align {align} of object {anchor.name!r} is not a power of two", "use 8, 16, 32, 64, …")
            align = LINE_BYTES
        offset = 0 if anchor.name in self.padded else self.program.int(options.get("offset", 0), pos)
        offsets = {anchor.name: 0}
        for item in attached:
            offsets[item.name] = self.offset_from(item, anchor, objects)
        low = min(offsets.values())
        extent = max(offsets[i.name] + i.size for i in [anchor, *attached]) - min(low, 0)
        # `align` below a line must not let two objects meet in one line: a fresh line is taken in any case
        base = round_up(free[anchor.scope], max(align, LINE_BYTES)) + offset - min(low, 0)
        stride = self.stride(anchor, extent, offset)
        for item in [anchor, *attached]:
            item.base = base + offsets[item.name]
            item.stride = 0 if anchor.scope == "shared" else stride
        self.check_group([anchor, *attached], offsets)
        count = max(i.instances for i in [anchor, *attached])
        free[anchor.scope] = round_up(base + min(low, 0) + stride * (count - 1) + extent, LINE_BYTES)
        if anchor.scope != "per-iteration" and free[anchor.scope] > REGIONS[anchor.scope] // REGION_BYTES * REGION_BYTES + REGION_BYTES:
            self.program.problem(
                pos,
                f"{anchor.scope} objects up to {anchor.name!r} take more than {REGION_BYTES >> 30} GiB",
                "make it smaller, or give it fewer instances",
            )
            free[anchor.scope] = REGIONS[anchor.scope]
            for item in [anchor, *attached]:
                item.stride, item.instances = 0, 1

    def stride(self, anchor: Placed, extent: int, offset: int) -> int:
        """Distance of instances: whole lines, an odd number of them per CPU so that instances spread over the sets."""
        options = anchor.definition.options
        # an object that starts inside a line needs that much more room, or the next instance would begin in its last line
        lines = round_up(offset % LINE_BYTES + extent, LINE_BYTES) // LINE_BYTES
        if "stride" in options and anchor.name not in self.padded:
            given = self.program.int(options["stride"], anchor.definition.pos)
            if given < extent:
                self.program.problem(
                    anchor.definition.pos,
                    f"stride {given} of object {anchor.name!r} is below its size {extent}",
                    "make it larger",
                )
            return max(given, extent)
        if anchor.scope in ("per-cpu", "per-queue"):
            lines |= 1
        return lines * LINE_BYTES

    def offset_from(self, item: Placed, anchor: Placed, objects: dict[str, Placed]) -> int:
        total = 0
        while item is not anchor and item.definition.at:
            name, offset = item.definition.at
            total += self.program.int(offset, item.definition.pos)
            other = objects.get(name)
            if other is None:
                return total  # reported by load.check_anchor
            if other.scope != item.scope:
                self.program.problem(
                    item.definition.pos,
                    f"object {item.name!r} is {item.scope}, {name!r} is {other.scope}",
                    "objects placed together have one scope",
                )
            item = other
        return total

    def check_group(self, items: list[Placed], offsets: dict[str, int]) -> None:
        """``at`` may share lines, not bytes."""
        items = sorted(items, key=lambda i: offsets[i.name])
        for a, b in zip(items, items[1:], strict=False):
            if offsets[a.name] + a.size > offsets[b.name]:
                later = b if b.definition.at else a
                self.program.problem(
                    later.definition.pos, f"objects {a.name!r} and {b.name!r} overlap", "place it behind the end of the other"
                )


def initial_memory(program: Program, objects: dict[str, Placed]) -> list[tuple[int, int, int]]:
    """(address, size, value) of every word that ``init`` and ``chain`` set."""
    memory: list[tuple[int, int, int]] = []
    for item in objects.values():
        node = item.definition
        for init in node.init:
            where = field_range(program, item, init.field, node.pos)
            if where is None:
                continue
            for i in range(item.instances):
                value = init_value(program, objects, item, init, i)
                memory.append(
                    (item.base + i * item.stride + where[0], min(where[1], 8), value & ((1 << 8 * min(where[1], 8)) - 1))
                )
        if "chain" in node.options:
            memory.extend(chain(program, item))
    return memory


def field_range(program: Program, item: Placed, name: str, pos: s.Pos) -> tuple[int, int] | None:
    """(offset, size) of a field of an object, reported when unknown."""
    if item.layout is not None and name in item.layout.fields:
        return item.layout.fields[name]
    known = item.layout.fields if item.layout else {}
    program.problem(
        pos,
        f"object {item.name!r} has no field {name!r}",
        suggest(name, known) if known else "it is plain bytes: give it a struct",
    )
    return None


def init_value(program: Program, objects: dict[str, Placed], item: Placed, init: s.Init, instance: int) -> int:
    if init.address is None:
        value = program.int(init.value if init.value is not None else 0, item.definition.pos)
        return value + instance if init.plus_instance else value
    name, _, path = init.address.partition(".")
    target = objects.get(name)
    if target is None:
        program.problem(item.definition.pos, f"init {init.field}: unknown object {name!r}", suggest(name, objects))
        return 0
    offset = 0
    if path:
        where = field_range(program, target, path, item.definition.pos)
        offset = where[0] if where else 0
    return target.base + target.stride * (instance if target.scope == item.scope else 0) + offset


def chain(program: Program, item: Placed) -> list[tuple[int, int, int]]:
    """A single cycle of pointers through the object in random, reproducible order, one every ``chain`` bytes."""
    step = program.int(item.definition.options["chain"], item.definition.pos)
    if step < 8 or item.size // max(step, 1) < 2:
        program.problem(
            item.definition.pos, f"chain {step} in an object of {item.size} bytes", "at least 8 bytes apart, and two of them"
        )
        return []
    words: list[tuple[int, int, int]] = []
    if item.instances * (item.size // step) > MAX_CHAIN_WORDS:
        program.problem(
            item.definition.pos,
            f"{item.instances} chains of {item.size // step} pointers",
            f"at most {MAX_CHAIN_WORDS} in all: use fewer CPUs or a smaller object",
        )
        return []
    count = item.size // step
    for i in range(item.instances):
        start = item.base + i * item.stride
        order = random_cycle(count, i)
        words.extend((start + order[k - 1] * step, 8, start + order[k] * step) for k in range(count))
    return words


@lru_cache(maxsize=8)
def random_cycle(count: int, seed: int) -> tuple[int, ...]:
    """0..count-1 in random order; the same for the same arguments on every host."""
    order = list(range(count))
    random.Random(0x5EED + seed).shuffle(order)
    return tuple(order)
