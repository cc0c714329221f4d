"""What ``cohsim trace info`` prints: where everything lies, who writes which line, counts per path, lowered primitives."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from cohsim.uops import Alu, Cond, Fence, Flag, Op
from cohsim.workload.compiled import CompiledWorkload, FieldRef, PlacedObject
from cohsim.workload.device_info import describe_devices
from cohsim.workload.dry_run import DryRun, instructions
from cohsim.workload.layout import LINE_BYTES
from cohsim.workload.load import Compilation

READS, WRITES = (Op.LOAD, Op.LL, Op.RMW), (Op.STORE, Op.SC, Op.RMW)
MEMORY = (Op.LOAD, Op.STORE, Op.RMW, Op.LL, Op.SC)


@dataclass
class LineUse:
    """Accesses to one line of an object, by field and function."""

    object: PlacedObject
    line: int  # address of the line of instance 0
    readers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    writers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    written: bool = False  # by anybody, through any object on this line


def line_uses(w: CompiledWorkload) -> dict[tuple[str, int], LineUse]:
    """Who touches which line, from the program text; pointer accesses are not resolved."""
    objects = {o.name: o for o in w.objects}
    uses: dict[tuple[str, int], LineUse] = {}
    for row in w.uops:
        if row["op"] not in MEMORY or row["field"] < 0:
            continue
        ref = w.fields[row["field"]]
        item = objects[ref.object]
        line = int(row["base"]) // LINE_BYTES * LINE_BYTES
        use = uses.setdefault((ref.object, line), LineUse(item, line))
        name, function = field_name(ref), w.func_names[row["func"]]
        if row["op"] in WRITES:
            use.writers[name].add(function)
        if row["op"] in READS:
            use.readers[name].add(function)
    written = {use.line for use in uses.values() if use.writers}
    for use in uses.values():
        use.written = use.line in written
    return uses


def field_name(ref: FieldRef) -> str:
    return ref.field or f"+{ref.offset_bytes}:{ref.size_bytes}"


def mnemonic(row: np.void, isa: str) -> str:
    """The instruction a micro-op stands for."""
    op, fn, size = int(row["op"]), int(row["fn"]), int(row["size"])
    if op == Op.WORK:
        return f"{int(row['imm'])} instructions" if row["imm"] > 1 else "1 instruction"
    if op == Op.BR:
        return "b" if fn == Cond.ALWAYS else f"b{Cond(fn).name.lower()}"
    if op == Op.FENCE:
        kind = Fence(int(row["imm"]))
        power = {Fence.FULL: "sync", Fence.LIGHT: "lwsync", Fence.INSTR: "isync", Fence.LOAD: "lwsync", Fence.STORE: "eieio"}
        x86 = {
            Fence.FULL: "mfence",
            Fence.LIGHT: "(none)",
            Fence.INSTR: "(serialize)",
            Fence.LOAD: "lfence",
            Fence.STORE: "sfence",
        }
        return (power if isa == "power" else x86)[kind]
    if op == Op.RMW:
        if fn == Alu.CAS:
            return "lock cmpxchg"
        return (
            "xchg"
            if fn == Alu.XCHG
            else f"lock xadd({Alu(fn).name.lower()})"
            if row["dst"] >= 0
            else f"lock {Alu(fn).name.lower()}"
        )
    if op in (Op.LL, Op.SC):
        width = {1: "b", 2: "h", 4: "w", 8: "d"}[size]
        return f"l{width}arx" if op == Op.LL else f"st{width}cx."
    if op == Op.PAUSE:
        return "pause" if isa == "x86" else "or 1,1,1" if row["flags"] & Flag.HINT_LOW else "nop"
    if op == Op.ALU:
        return "mov" if fn == Alu.XCHG else Alu(fn).name.lower()
    if op == Op.IRQ:
        return "sti" if row["imm"] else "cli"
    return Op(op).name.lower()


def sequence(rows: np.ndarray, isa: str) -> str:
    """Instructions of consecutive micro-ops; those of wait loops are marked."""
    words: list[str] = []
    stored = False
    for row in rows:
        if row["op"] == Op.ENTER:
            continue
        word = "bne-" if stored and row["op"] == Op.BR else mnemonic(row, isa)  # stwcx. failed: again
        stored = row["op"] == Op.SC
        words.append(f"[spin] {word}" if row["flags"] & Flag.SPIN else word)
    return "; ".join(words) or "(nothing)"


def sequences(c: Compilation) -> dict[str, str]:
    """Lowered sequence of every primitive and library entry used, at its first use."""
    w = c.workload
    result = {name: sequence(_first_use(w.uops, index), w.isa) for index, name in enumerate(w.prim_names)}
    result |= {name: sequence(w.uops[a:b], w.isa) for name, (a, b) in c.library_rows.items()}
    return result


def _first_use(uops: np.ndarray, prim: int) -> np.ndarray:
    """Micro-ops of the first use of a primitive: consecutive, of one source line."""
    first = int(np.flatnonzero(uops["prim"] == prim)[0])
    end = first
    while end < len(uops) and uops[end]["prim"] == prim and uops[end]["line_no"] == uops[first]["line_no"]:
        end += 1
    return uops[first:end]


@dataclass
class PathCount:
    """Executions in one uncontended iteration."""

    instructions: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    alone: bool = True  # False: the path waits for others; counts are of the program text

    def add(self, row: np.void, times: int, kind: str) -> None:
        self.instructions += times * instructions(row)
        op = row["op"]
        if op in (Op.RMW, Op.SC):
            self.counts[f"{kind} atomics"] += times
        elif op == Op.LOAD:
            self.counts[f"{kind} loads"] += times
        elif op == Op.STORE:
            self.counts[f"{kind} stores"] += times


def count_path(w: CompiledWorkload, cpu: int) -> PathCount:
    """Counts of the program of ``cpu``: its second iteration alone, or its text if it waits for others."""
    uses = line_uses(w)
    result = PathCount()
    ran = DryRun(w, cpu).iterations(2)
    if ran is None:
        result.alone = False
        end = next(i for i in range(int(w.entry[cpu]), len(w.uops)) if w.uops[i]["op"] in (Op.DONE, Op.HALT, Op.IRET))
        ran = Counter(range(int(w.entry[cpu]), end))
    for index, times in ran.items():
        result.add(w.uops[index], times, access_kind(w, w.uops[index], uses))
    return result


def access_kind(w: CompiledWorkload, row: np.void, uses: dict[tuple[str, int], LineUse]) -> str:
    """private, per-packet, shared read-only or contended."""
    if row["field"] < 0:
        return "pointer"
    ref = w.fields[row["field"]]
    use = uses.get((ref.object, int(row["base"]) // LINE_BYTES * LINE_BYTES))
    if use is None:
        return "private"
    if use.object.scope in ("shared", "per-flow", "per-iteration"):
        return "contended" if use.written else "shared read-only"
    return "per-packet" if use.object.scope == "per-packet" else "private"


def describe(c: Compilation) -> str:
    """The whole report as text."""
    w = c.workload
    variants = ", ".join(sorted(c.program.env.active)) or "none"
    kernel = ".".join(map(str, c.program.env.kernel))
    lines = [
        f"{w.name}: {c.program.title}" if c.program.title else w.name,
        f"isa {w.isa}, {w.cpus} CPUs, kernel {kernel}, variants: {variants}; {len(w.uops)} micro-operations",
        "",
        *_objects(w),
        "",
        *_lines(w),
        "",
        *_paths(c),
        "",
        *(describe_devices(w.devices, w.programs) if w.devices else []),
        "Lowered sequences (first use; uncontended and waiting parts together)",
    ]
    lines += [f"  {name:<22} {text}" for name, text in sequences(c).items()] or ["  none"]
    if w.assumptions:
        lines += ["", "Assumptions", *(f"  {text}" for text in w.assumptions)]
    return "\n".join(lines) + "\n"


def _objects(w: CompiledWorkload) -> list[str]:
    lines = [
        "Objects",
        f"  {'name':<22} {'struct':<18} {'scope':<13} {'address':>14} {'bytes':>9} {'stride':>8} {'instances':>9}",
    ]
    for o in w.objects:
        place = f"{o.base:>#14x} {o.size_bytes:>9} {o.stride_bytes:>8} {o.instances:>9}"
        lines.append(f"  {o.name:<22} {o.struct or '-':<18} {o.scope:<13} {place}")
    return lines


def _lines(w: CompiledWorkload) -> list[str]:
    """Lines that several CPUs can hold and somebody writes, with everything on them."""
    lines = ["Lines written by several CPUs"]
    for use in sorted(line_uses(w).values(), key=lambda u: (u.object.scope, u.line)):
        if not use.written or use.object.scope in ("per-cpu", "per-queue"):
            continue
        first = use.line - use.object.base
        last = min(first + LINE_BYTES, use.object.size_bytes) - 1
        lines.append(f"  {use.object.name}  bytes {max(first, 0)}..{last}  ({use.object.scope}, line {use.line:#x})")
        for name in sorted({*use.readers, *use.writers}):
            parts = [
                f"{verb} by {', '.join(sorted(who[name]))}"
                for verb, who in (("written", use.writers), ("read", use.readers))
                if name in who
            ]
            lines.append(f"      {name:<22} {'; '.join(parts)}")
    return lines if len(lines) > 1 else [lines[0], "  none"]


def _paths(c: Compilation) -> list[str]:
    w = c.workload
    lines = ["One iteration without contention (up to the first wait for an interrupt)" if w.devices else "One iteration without contention"]
    seen: set[str] = set()
    for cpu, task in enumerate(c.plan.tasks):
        if task.path is None or task.path in seen:
            continue
        seen.add(task.path)
        count = count_path(w, cpu)
        note = "" if count.alone else "  (waits for other CPUs: every micro-operation of the text counted once)"
        lines.append(f"  {task.path}: {count.instructions} instructions{note}")
        lines += [f"      {times:>6} {kind}" for kind, times in sorted(count.counts.items())]
    return lines
