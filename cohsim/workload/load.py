"""Load a workload: text to :class:`CompiledWorkload`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from cohsim.datafiles import find_data
from cohsim.errors import Problem, WorkloadError
from cohsim.workload import syntax as s
from cohsim.workload.build import Builder
from cohsim.workload.compiled import CompiledWorkload, LockWord
from cohsim.workload.devices import DevicePlan, finish_devices, plan_devices
from cohsim.workload.emit import Emitter
from cohsim.workload.include import parse_whole
from cohsim.workload.layout import Layouter, Placed, initial_memory
from cohsim.workload.locks import Locks
from cohsim.workload.lower import lowering, parse_isa_options
from cohsim.workload.operands import SELF_POINTER
from cohsim.workload.parse import parse_text, read_text
from cohsim.workload.program import Program, resolve, suggest
from cohsim.workload.run_block import RunPlan, plan
from cohsim.workload.statements import TooLarge

LIBRARY = Path(__file__).with_name("sync.trace")
ISAS = ("x86", "power")
SUFFIX = ".trace"


@dataclass
class Compilation:
    """A compiled workload with what `trace info` shows besides."""

    workload: CompiledWorkload
    program: Program
    objects: dict[str, Placed]
    plan: RunPlan
    called: set[str]  # functions and paths that the programs contain
    library_rows: dict[str, tuple[int, int]]  # micro-ops of the first use of each library entry
    included: list[str]  # files that the workload includes


@cache
def library() -> tuple[s.Statement, ...]:
    """The bundled synchronisation library."""
    return parse_text(read_text(LIBRARY), LIBRARY.name)


def load_workload(
    name_or_path: str,
    *,
    isa: str,
    cpus: int,
    variants: tuple[str, ...] = (),
    layouts: tuple[str, ...] = (),
    kernel: str | None = None,
    locks: tuple[str, ...] = (),
    isa_options: tuple[str, ...] = (),
) -> CompiledWorkload:
    """Read, place and lower a workload for ``cpus`` CPUs of instruction set ``isa`` ("x86" or "power").

    ``layouts``, ``locks`` and ``isa_options`` are options as in docs/workload-language.md; ``kernel`` overrides the file's kernel version.
    Raises WorkloadError with every problem found.
    """
    path = find_data("workloads", name_or_path, SUFFIX)
    return compile_text(
        read_text(path),
        str(path),
        isa=isa,
        cpus=cpus,
        variants=variants,
        layouts=layouts,
        kernel=kernel,
        locks=locks,
        isa_options=isa_options,
    ).workload


def compile_text(
    text: str,
    file: str,
    *,
    isa: str,
    cpus: int,
    variants: tuple[str, ...] = (),
    layouts: tuple[str, ...] = (),
    kernel: str | None = None,
    locks: tuple[str, ...] = (),
    isa_options: tuple[str, ...] = (),
) -> Compilation:
    """Compile workload text; ``file`` names it in messages. Raises WorkloadError."""
    check_arguments(isa, cpus, kernel)
    atomics = parse_isa_options(isa, isa_options)
    whole = parse_whole(text, file)
    program = resolve(whole.nodes, library(), isa=isa, cpus=cpus, variants=tuple(variants), kernel=kernel)
    layouter = lay_out(program, layouts)
    replaced = Locks.parse(program, layouter, locks)
    check_objects(program)
    run = plan(program)
    devices = plan_devices(program)
    emitter = Emitter(compare_costs=isa == "power")
    builder = Builder(program, layouter.structs, lowering(isa, program.env.kernel, atomics), emitter, devices, replaced, layouter.batches)
    entry = emit_programs(builder, run)
    entries = emit_interrupts(builder, run, devices)
    replaced.check(emitter)
    builder.check_batches()
    names = names_to_place(builder)
    counts = {"per-cpu": cpus, "per-queue": max(cpus, devices.queues), "per-flow": max(run.flows, devices.flows)}
    objects = layouter.place(names, counts, run.pool)
    memory = memory_words(builder, objects)
    finished = finish_devices(program, devices, objects, entries)
    if finished is not None and run.source is None:
        check_contexts(program, emitter)
    uops = emitter.finish(program, objects)
    if program.problems:
        raise WorkloadError(program.problems)
    workload = CompiledWorkload(
        name=Path(file).stem,
        text=whole.text,
        isa=isa,
        cpus=cpus,
        variants=tuple(variants),
        uops=uops,
        entry=np.array(entry, np.int32),
        func_names=emitter.func_names,
        prim_names=emitter.prim_names,
        fields=emitter.fields,
        objects=[o.compiled() for o in objects.values()],
        memory=memory,
        source=run.source,
        warmup_ns=run.warmup_ns,
        measure_ns=run.measure_ns,
        assumptions=[*program.assumptions, *builder.assumptions],
        lock_words=[
            LockWord(struct, name, *layouter.structs[struct].fields[name], tuple(sorted(kinds)))
            for (struct, name), kinds in sorted(builder.lock_words.items())
        ],
        devices=finished,
        programs=builder.programs,
        locks=emitter.locks,
        uop_lock=np.array([row.lock for row in emitter.rows], np.int32) if emitter.locks else None,
    )
    return Compilation(workload, program, objects, run, builder.called, builder.library_rows, whole.files)


def check_arguments(isa: str, cpus: int, kernel: str | None) -> None:
    """Raise WorkloadError for an unknown instruction set, CPU count or version."""
    problems = []
    if isa not in ISAS:
        problems.append(Problem("isa", f"unknown instruction set {isa!r}", "use " + " or ".join(ISAS)))
    if cpus < 1:
        problems.append(Problem("--cpus", f"{cpus} CPUs", "give at least 1"))
    if kernel is not None and not all(part.isdigit() for part in kernel.split(".")):
        problems.append(Problem("--kernel", f"{kernel!r} is not a version", "write it as 3.12"))
    if problems:
        raise WorkloadError(problems)


def lay_out(program: Program, layouts: tuple[str, ...]) -> Layouter:
    """Apply the workload's own layout lines, then the options; objects take the scopes that these give them."""
    layouter = Layouter(program)
    for line in program.layouts:
        layouter.apply(line.option, line.pos)
    for option in layouts:
        layouter.apply(option, "--layout")
    for name, scope in layouter.scopes.items():
        node = program.objects[name]
        program.objects[name] = s.Object(node.pos, name, node.struct, node.size, scope, node.options, node.at, node.init)
    return layouter


def check_objects(program: Program) -> None:
    """Known structs and sensible options."""
    for node in program.objects.values():
        if node.struct is not None and node.struct not in program.structs:
            program.problem(
                node.pos, f"object {node.name!r} has unknown struct {node.struct!r}", suggest(node.struct, program.structs)
            )
        check_anchor(program, node)
        if "pool" in node.options and node.scope not in ("per-packet", "per-iteration"):
            program.problem(
                node.pos,
                f"object {node.name!r} is {node.scope} and has a pool",
                "a pool is for per-packet and per-iteration objects",
            )
        if "stride" in node.options and node.scope == "shared":
            program.problem(node.pos, f"object {node.name!r} is shared and has a stride", "a stride is the distance of instances")


def check_anchor(program: Program, node: s.Object) -> None:
    """``at`` leads to an object that is not placed at this one itself."""
    seen, here = [node.name], node
    while here.at is not None:
        name = here.at[0]
        if name not in program.objects:
            program.problem(
                here.pos, f"object {here.name!r} is placed at unknown object {name!r}", suggest(name, program.objects)
            )
            return
        if name in seen:
            program.problem(
                node.pos, f"object {node.name!r} is placed at itself: {' -> '.join([*seen, name])}", "place one of them freely"
            )
            return
        seen.append(name)
        here = program.objects[name]


def emit_programs(builder: Builder, run: RunPlan) -> list[int]:
    """Emit each different program once; returns the entry of every CPU."""
    entries: dict[tuple[str | None, bool], int] = {}
    for task in run.tasks:
        key = (task.path, task.once)
        if key not in entries:
            try:
                entries[key] = builder.idle() if task.path is None else builder.path(task.path, task.pos, once=task.once)
            except TooLarge:
                entries[key] = 0
    return [entries[task.path, task.once] for task in run.tasks]


def emit_interrupts(builder: Builder, run: RunPlan, devices: DevicePlan) -> dict[str, int]:
    """Emit the path of every vector once; returns their entries."""
    base = {task.path for task in run.tasks}
    entries: dict[str, int] = {}
    for plan_ in devices.vectors:
        if plan_.path in base:
            builder.program.problem(
                plan_.pos, f"path {plan_.path!r} is both a base program and an interrupt", "give the interrupt a path of its own"
            )
        if plan_.path in entries:
            continue
        try:
            entries[plan_.path] = builder.interrupt_path(plan_.path, plan_.pos)
        except TooLarge:
            entries[plan_.path] = 0
    return entries


def check_contexts(program: Program, emitter: Emitter) -> None:
    """Without a source no packet or flow is current: its objects are reached by number only."""
    for row in emitter.rows:
        if row.object is None or row.takes_address or row.takes_stride or row.object not in program.objects:
            continue
        scope = program.objects[row.object].scope
        if scope in ("per-packet", "per-flow"):
            name = row.object.removeprefix(SELF_POINTER).removesuffix(")")
            program.problem(
                row.pos or "",
                f"object {name!r} is {scope}, and there is no current {scope[4:]}: frames come from a NIC",
                f"take the address of one instance: p = addr {name}[reg]",
            )


def names_to_place(builder: Builder) -> set[str]:
    """The workload's own objects, what the programs use of the library's, and what both lead to."""
    program = builder.program
    own = {n for n in program.objects if n not in program.library}
    return with_neighbours(program, own | builder.e.used_objects() | set(builder.o.pointers.values()))


def with_neighbours(program: Program, names: Iterable[str]) -> set[str]:
    """The objects, and those they are placed at or point to."""
    result: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        node = program.objects.get(name)
        if name in result or node is None:
            continue
        result.add(name)
        todo += [node.at[0]] if node.at else []
        todo += [i.address.partition(".")[0] for i in node.init if i.address]
    return result


def memory_words(builder: Builder, objects: dict[str, Placed]) -> list[tuple[int, int, int]]:
    """Initial memory: what ``init`` says, hidden pointers, and lock words that start unlocked."""
    words = {address: (address, size, value) for address, size, value in initial_memory(builder.program, objects)}
    for hidden, target in builder.o.pointers.items():
        pointer, item = objects[hidden], objects[target]
        table = pointer.scope == "shared"
        for i in range(item.instances if table else pointer.instances):
            address = pointer.base + (8 * i if table else i * pointer.stride)
            words[address] = (address, 8, item.base + i * item.stride)
    for (name, offset, size), value in builder.initially.items():
        placed = objects.get(name)
        for i in range(placed.instances if placed else 0):
            assert placed is not None
            address = placed.base + i * placed.stride + offset
            if value:
                words.setdefault(address, (address, size, value))
    return list(words.values())
