"""What all statements share: the dispatch, labels, and the names that results go to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cohsim.workload import syntax as s
from cohsim.workload.devices import DevicePlan
from cohsim.workload.emit import Emitter
from cohsim.workload.lower import Lowering
from cohsim.workload.operands import Bad, Frame, Operands
from cohsim.workload.program import Program, suggest

MAX_UOPS = 200_000  # an unrolled or deeply nested program beyond this is a mistake


class TooLarge(Exception):
    """The program grows beyond MAX_UOPS; reported."""


class Statements:
    """Base of the parts of :class:`cohsim.workload.build.Builder`, which sets the attributes. A statement ``s.X`` is emitted by ``do_X``."""

    program: Program
    devices: DevicePlan
    low: Lowering
    e: Emitter
    o: Operands
    interrupt: bool  # the program that is being emitted is an interrupt path
    handlers: dict[type, Callable[[Any, Frame], None]]  # of a class of statement
    labels: dict[int, list[s.Label]]  # of a function's body, by its id

    def body_of(self, body: tuple[s.Statement, ...], frame: Frame) -> None:
        """A whole function body: its labels, statements, and its end."""
        frame.end = self.e.label()
        outer, self.e.scope_start = self.e.scope_start, len(self.e.rows)
        self.collect_labels(body, frame)
        self.statements(body, frame)
        self.e.bind(frame.end)
        self.e.scope_start = outer
        self.e.release(*(r for n, r in frame.registers.items() if n not in frame.borrowed))

    def collect_labels(self, body: tuple[Any, ...], frame: Frame) -> None:
        labels = self.labels.get(id(body))
        if labels is None:
            labels = self.labels[id(body)] = list(self.labels_in(body))
        for node in labels:
            if node.name in frame.labels:
                self.program.problem(node.pos, f"label {node.name!r} is defined twice in {frame.name}", "rename one")
            frame.labels[node.name] = self.e.label()

    def labels_in(self, body: tuple[Any, ...]) -> Iterator[s.Label]:
        """Labels of a body, but for those in unrolled loops, which are new in each round."""
        for node in body:
            if isinstance(node, s.Label):
                yield node
            elif isinstance(node, s.When):
                yield from self.labels_in(node.body if self.program.env.holds(node) else node.orelse)
            elif isinstance(node, s.If):
                yield from self.labels_in(node.body + node.orelse)
            elif isinstance(node, (s.While, s.Forever)) or (isinstance(node, s.Repeat) and not node.unrolled):
                yield from self.labels_in(node.body)

    def statements(self, body: tuple[Any, ...], frame: Frame) -> None:
        for node in body:
            if not frame.library:
                self.e.pos = node.pos
            self.e.func = frame.func
            if len(self.e.rows) > MAX_UOPS:
                self.program.problem(
                    node.pos,
                    f"the program has more than {MAX_UOPS} micro-operations",
                    "use 'repeat' instead of 'unroll' or 'x K'",
                )
                raise TooLarge
            handler = self.handlers.get(type(node))
            if handler is None:
                handler = self.handlers[type(node)] = getattr(self, "do_" + type(node).__name__)
            try:
                handler(node, frame)
            except Bad:
                continue

    def target(self, frame: Frame, name: str, pos: s.Pos) -> int:
        """Register a result goes to."""
        taken = (
            not frame.library
            and (name in self.program.params or name in self.program.objects)
            and name not in self.program.library
        )
        if name in frame.bindings or taken:
            raise self.o.bad(pos, f"{name!r} is a parameter, param or object and cannot be assigned", "use another register name")
        if name not in frame.registers:
            frame.registers[name] = self.e.register()
        return frame.registers[name]

    def optional_target(self, frame: Frame, name: str | None, pos: s.Pos) -> int:
        return -1 if name is None else self.target(frame, name, pos)

    def label_of(self, frame: Frame, name: str, pos: s.Pos) -> int:
        if name not in frame.labels:
            raise self.o.bad(pos, f"unknown label {name!r} in {frame.name}", suggest(name, frame.labels))
        return frame.labels[name]

    def nic_named(self, name: str, frame: Frame) -> str | None:
        """The NIC that a name means where it means nothing else."""
        if name in frame.nics:
            return frame.nics[name]
        known = (frame.bindings, frame.registers, self.program.objects, self.program.params)
        return name if name in self.program.nics and not any(name in names for names in known) else None

    def times(self, value: s.Int, pos: s.Pos) -> int:
        n = self.program.int(value, pos)
        if n < 1 or n > 100_000:
            raise self.o.bad(pos, f"{n} times", "a count is 1..100000")
        return n
