"""Check a workload file in every shape it can take: both instruction sets, every variant."""

from __future__ import annotations

from pathlib import Path

from cohsim.errors import Problem, WorkloadError
from cohsim.workload import syntax as s
from cohsim.workload.include import parse_whole
from cohsim.workload.load import ISAS, compile_text, library
from cohsim.workload.parse import read_text
from cohsim.workload.program import find_choices, resolve
from cohsim.workload.run_block import suits

CHECK_CPUS = 4  # enough for workloads that give CPUs different programs


def check_file(path: Path) -> str:
    """One line about a sound file. Raises WorkloadError with the problems of all variants together."""
    text = read_text(path)
    nodes = parse_whole(text, str(path)).nodes
    found = find_choices(nodes, [])
    problems: list[Problem] = []
    functions: set[str] = set()
    for variants in [(), *((name,) for name in sorted(found.names))]:
        for isa in ISAS:
            try:
                cpus = suitable_cpus(nodes, isa, variants)
                compiled = compile_text(text, str(path), isa=isa, cpus=cpus, variants=variants)
            except WorkloadError as error:
                problems += [p for p in error.problems if p not in problems]
            else:
                functions |= compiled.called
    if not problems:
        problems = never_called(nodes, str(path), functions)
    if problems:
        raise WorkloadError(problems)
    return f"{len(functions)} functions, {len(found.names)} variants, x86 and power"


def suitable_cpus(nodes: tuple[s.Statement, ...], isa: str, variants: tuple[str, ...]) -> int:
    """CHECK_CPUS, or what the run block asks for."""
    program = resolve(nodes, library(), isa=isa, cpus=CHECK_CPUS, variants=variants, kernel=None)
    asked = [line for line in program.run if isinstance(line, s.CpuCount) and not suits(line, CHECK_CPUS)]
    return asked[0].first if asked else CHECK_CPUS


def never_called(nodes: tuple[s.Statement, ...], file: str, called: set[str]) -> list[Problem]:
    """Functions and paths of ``file`` that no variant reaches: usually a misspelt call, and never checked inside."""
    problems = []
    for node in nodes:
        if isinstance(node, s.Function | s.Path) and node.pos.file == file and node.name not in called:
            kind = "function" if isinstance(node, s.Function) else "path"
            problems.append(Problem(str(node.pos), f"{kind} {node.name!r} is never used", "call it, or remove it"))
    return problems
