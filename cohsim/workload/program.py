"""Choose variants and guards: from a syntax tree with alternatives to one program without."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from cohsim.errors import Problem, WorkloadError
from cohsim.workload import syntax as s

DEFAULT_KERNEL = "3.12"
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def version(text: str) -> tuple[int, ...]:
    """``"2.6.31"`` as (2, 6, 31)."""
    return tuple(int(part) for part in text.split("."))


def suggest(name: str, known: Iterable[str]) -> str:
    """Remedy naming the nearest known name, or all of them when there are few."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + ", ".join(names) if 0 < len(names) <= 12 else "check the name"


@dataclass(frozen=True)
class Environment:
    """What compile-time conditions ask for."""

    isa: str
    cpus: int
    kernel: tuple[int, ...]
    active: frozenset[str]

    def holds(self, when: s.When) -> bool:
        test = when.test
        if test.subject == "variant":
            result = test.value in self.active
        elif test.subject == "isa":
            result = test.value == self.isa
        elif test.subject == "kernel":
            result = COMPARE[test.relation](self.kernel, version(test.value))
        else:
            result = COMPARE[test.relation](self.cpus, int(test.value))
        return result != when.negated


@dataclass
class Program:
    """Definitions by name after all choices, and the problems found so far."""

    env: Environment
    problems: list[Problem] = field(default_factory=list)
    structs: dict[str, s.Struct] = field(default_factory=dict)
    objects: dict[str, s.Object] = field(default_factory=dict)
    functions: dict[str, s.Function] = field(default_factory=dict)
    paths: dict[str, s.Path] = field(default_factory=dict)
    params: dict[str, s.Param] = field(default_factory=dict)
    nics: dict[str, s.Nic] = field(default_factory=dict)  # bodies: one NicLine of each key
    layouts: list[s.LayoutLine] = field(default_factory=list)
    run: list[s.Statement] = field(default_factory=list)
    run_pos: s.Pos | None = None
    assumptions: list[str] = field(default_factory=list)
    title: str = ""
    file: str = ""
    library: frozenset[str] = frozenset()  # names defined by the bundled library and not redefined

    def problem(self, pos: s.Pos | str, what: str, remedy: str = "") -> None:
        entry = Problem(str(pos), what, remedy)
        if entry not in self.problems:
            self.problems.append(entry)

    def int(self, value: s.Int, pos: s.Pos, seen: tuple[str, ...] = ()) -> int:
        """Value of a literal or a param; 1 after reporting an unknown name."""
        if isinstance(value, int):
            return value
        param = self.params.get(value)
        if param is None:
            self.problem(pos, f"unknown param {value!r}", suggest(value, self.params))
            return 1
        if value in seen:
            self.problem(pos, f"param {value!r} is defined by itself", "give it a number")
            return 1
        return self.int(param.value, param.pos, (*seen, value))


@dataclass(frozen=True)
class Choices:
    """Variants and choices a file declares."""

    variants: dict[str, s.Variant]
    choices: dict[str, s.Choice]

    @property
    def names(self) -> set[str]:
        return set(self.variants) | {v for c in self.choices.values() for v in c.variants}

    def siblings(self, name: str) -> set[str]:
        """Variants that cannot be on together with ``name``."""
        return {v for c in self.choices.values() if name in c.variants for v in c.variants} - {name}


def find_choices(nodes: tuple[s.Statement, ...], problems: list[Problem]) -> Choices:
    """Declared variants, with duplicates reported."""
    variants: dict[str, s.Variant] = {}
    choices: dict[str, s.Choice] = {}
    for node in nodes:
        if isinstance(node, s.Variant):
            if node.name in variants:
                problems.append(
                    Problem(
                        str(node.pos),
                        f"variant {node.name!r} is declared twice (first on line {variants[node.name].pos.line})",
                        "put all its lines in one block",
                    )
                )
            variants.setdefault(node.name, node)
        elif isinstance(node, s.Choice):
            if node.name in choices:
                problems.append(Problem(str(node.pos), f"choice {node.name!r} is declared twice", "rename one"))
            choices[node.name] = node
            for other in choices.values():
                twice = set(other.variants) & set(node.variants) if other is not node else set()
                if twice or len(set(node.variants)) != len(node.variants):
                    problems.append(
                        Problem(
                            str(node.pos),
                            f"a variant stands twice in choices: {', '.join(sorted(twice or node.variants))}",
                            "name each once",
                        )
                    )
    return Choices(variants, choices)


def select(found: Choices, wanted: tuple[str, ...]) -> frozenset[str]:
    """Variants that are on. Raises WorkloadError for an unknown one or two of one choice."""
    problems = []
    for name in wanted:
        if name not in found.names:
            remedy = suggest(name, found.names) if found.names else "this workload has no variants"
            problems.append(Problem("--variant", f"unknown variant {name!r}", remedy))
    active = {n for n in wanted if n in found.names}
    for choice in found.choices.values():
        on = [v for v in choice.variants if v in active]
        if len(on) > 1:
            problems.append(
                Problem("--variant", f"{' and '.join(on)} exclude each other (choice {choice.name})", "give one of them")
            )
        if not on:
            active.add(choice.variants[0])
    if problems:
        raise WorkloadError(problems)
    return frozenset(active)


def check_guards(nodes: tuple[Any, ...], found: Choices, problems: list[Problem]) -> None:
    """Every ``when`` names a declared variant and can hold; every variant does something."""
    used: set[str] = set()

    def walk(node: Any, on: frozenset[str], off: frozenset[str]) -> None:
        if isinstance(node, s.When):
            if node.test.subject == "variant":
                check_when(node, on, off)
                used.add(node.test.value)
                inside = frozenset({node.test.value})
                for branch, negated in ((node.body, node.negated), (node.orelse, not node.negated)):
                    for child in branch:
                        walk(child, on if negated else on | inside, off | inside if negated else off)
                return
        if isinstance(node, s.Variant):
            on = on | {node.name}
        if is_dataclass(node):
            for f in fields(node):
                value = getattr(node, f.name)
                if isinstance(value, tuple):
                    for child in value:
                        if isinstance(child, s.Statement):
                            walk(child, on, off)

    def check_when(node: s.When, on: frozenset[str], off: frozenset[str]) -> None:
        name = node.test.value
        if name not in found.names:
            problems.append(
                Problem(
                    str(node.pos),
                    f"unknown variant {name!r}",
                    suggest(name, found.names) if found.names else "declare it: variant " + name,
                )
            )
        elif (name in off or found.siblings(name) & on) if not node.negated else name in on:
            problems.append(
                Problem(str(node.pos), f"'{'unless' if node.negated else 'when'} {name}' can never hold here", "remove the block")
            )

    for node in nodes:
        walk(node, frozenset(), frozenset())
    for name, variant in found.variants.items():
        if not variant.body and name not in used:
            problems.append(
                Problem(str(variant.pos), f"variant {name!r} changes nothing", "give it a block, or use it in a 'when'")
            )
    for choice in found.choices.values():
        idle = [n for n in choice.variants if n not in used and not (n in found.variants and found.variants[n].body)]
        if len(idle) > 1:
            problems.append(
                Problem(
                    str(choice.pos),
                    f"variants {', '.join(idle)} of choice {choice.name!r} change nothing and are the same",
                    "use them in a 'when' or give them a block",
                )
            )


def flatten(nodes: Iterable[Any], env: Environment) -> list[Any]:
    """Nodes with the guards that hold opened."""
    result: list[Any] = []
    for node in nodes:
        if isinstance(node, s.When):
            result.extend(flatten(node.body if env.holds(node) else node.orelse, env))
        else:
            result.append(node)
    return result


def find_kernel(nodes: tuple[s.Statement, ...], found: Choices, active: frozenset[str]) -> str:
    """Kernel version of the file, or of a variant that is on."""
    kernel = DEFAULT_KERNEL
    bodies = [nodes] + [v.body for name, v in found.variants.items() if name in active]
    for body in bodies:
        for node in body:
            if isinstance(node, s.Kernel):
                kernel = node.version
    return kernel


class _Collector:
    """Puts definitions into a Program, one layer after another."""

    def __init__(self, program: Program):
        self.program = program

    def layer(self, nodes: Iterable[Any], *, override: bool) -> None:
        """``override``: a known name is replaced; otherwise only names of this layer clash."""
        own: set[tuple[str, str]] = set()
        new_run: list[s.Statement] = []
        for node in flatten(nodes, self.program.env):
            if isinstance(node, s.Variant | s.Choice | s.Kernel):
                continue
            if isinstance(node, s.Run):
                new_run.extend(flatten(node.body, self.program.env))
                self.program.run_pos = node.pos
            elif isinstance(node, s.LayoutLine):
                self.program.layouts.append(node)
            elif isinstance(node, s.Assume):
                self.program.assumptions.append(node.text)
            elif isinstance(node, s.Title):
                self.program.title = node.text
            elif isinstance(node, s.Nic):
                self.merge_nic(node, own)
            else:
                self.define(node, own, override)
        self.merge_run(new_run)

    def define(self, node: Any, own: set[tuple[str, str]], override: bool) -> None:
        p = self.program
        tables: dict[type, tuple[str, dict[str, Any]]] = {
            s.Struct: ("struct", p.structs),
            s.Object: ("object", p.objects),
            s.Function: ("function", p.functions),
            s.Path: ("path", p.paths),
            s.Param: ("param", p.params),
        }
        kind, table = tables[type(node)]
        old = table.get(node.name)
        if (kind, node.name) in own and old is not None:
            p.problem(node.pos, f"{kind} {node.name!r} is defined twice (first on line {old.pos.line})", "rename or remove one")
            return
        if getattr(node, "replace", False):
            if old is None:
                p.problem(node.pos, f"'replace' finds no {kind} {node.name!r}", suggest(node.name, table))
            elif not override and node.name not in p.library:
                p.problem(node.pos, "'replace' outside a variant", f"define {kind} {node.name!r} once")
        own.add((kind, node.name))
        table[node.name] = node

    def merge_nic(self, node: s.Nic, own: set[tuple[str, str]]) -> None:
        """Lines of a later layer replace the earlier ones of the same key."""
        p, old = self.program, self.program.nics.get(node.name)
        if ("nic", node.name) in own and old is not None:
            p.problem(node.pos, f"nic {node.name!r} is defined twice (first on line {old.pos.line})", "rename or remove one")
            return
        own.add(("nic", node.name))
        lines = {line.key: line for line in old.body if isinstance(line, s.NicLine)} if old else {}
        new: dict[str, s.NicLine] = {}
        for line in flatten(node.body, p.env):
            if line.key in new:
                p.problem(line.pos, f"'{line.key}' is said twice (first on line {new[line.key].pos.line})", "keep one")
            new[line.key] = line
        p.nics[node.name] = s.Nic(old.pos if old else node.pos, node.name, tuple({**lines, **new}.values()))

    def merge_run(self, lines: list[s.Statement]) -> None:
        """A later layer's source, programs or times replace the earlier ones of the same sort."""

        def sort(line: s.Statement) -> tuple[type, str]:
            if isinstance(line, s.OnPacket | s.Loop):
                return s.CpuRuns, ""
            of = line.nic if isinstance(line, s.TrafficLine | s.AcksLine) else line.name if isinstance(line, s.InterruptLine) else ""
            return type(line), of

        replaced = {sort(line) for line in lines if not isinstance(line, s.Times)}
        self.program.run = [line for line in self.program.run if sort(line) not in replaced] + lines


def resolve(
    nodes: tuple[s.Statement, ...],
    library: tuple[s.Statement, ...],
    *,
    isa: str,
    cpus: int,
    variants: tuple[str, ...],
    kernel: str | None,
) -> Program:
    """One program for one instruction set, CPU count and set of variants."""
    problems: list[Problem] = []
    found = find_choices(nodes, problems)
    check_guards(nodes, found, problems)
    active = select(found, variants)
    env = Environment(isa, cpus, version(kernel or find_kernel(nodes, found, active)), active)
    program = Program(env, problems, file=nodes[0].pos.file)
    collector = _Collector(program)
    collector.layer(library, override=False)
    known = frozenset((*program.structs, *program.objects, *program.functions, *program.params))
    program.library = known
    before = {name: program.functions[name] for name in program.functions}
    collector.layer(nodes, override=False)
    program.library = frozenset(n for n in known if program.functions.get(n) is before.get(n))
    for name, variant in found.variants.items():
        if name in active:
            collector.layer(variant.body, override=True)
    return program
