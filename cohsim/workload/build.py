"""Statements to micro-operations: inlining, control flow, attribution."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from cohsim.uops import Alu, Cond, Flag, Op
from cohsim.workload import syntax as s
from cohsim.workload.compiled import FieldRef
from cohsim.workload.device_statements import DeviceStatements
from cohsim.workload.devices import DevicePlan
from cohsim.workload.emit import INVERSE, Address, Emitter, Operand
from cohsim.workload.layout import StructLayout
from cohsim.workload.locks import ENTRIES, Locks
from cohsim.workload.lower import BARRIERS, FENCES, FUNCTIONS, GATHERED, PRIMITIVES, Lowering, lower_gathered, lower_primitive
from cohsim.workload.operands import Bad, Frame, Loop, Operands
from cohsim.workload.program import Program, suggest

MAX_UOPS = 200_000  # an unrolled or deeply nested program beyond this is a mistake
MAX_DEPTH = 100  # calls inside calls; generated text beyond this is a mistake
RELATIONS = {
    "==": Cond.EQ,
    "!=": Cond.NE,
    "<": Cond.LT,
    ">=": Cond.GE,
    "<u": Cond.LTU,
    ">=u": Cond.GEU,
    "&": Cond.BITS,
}
TURNED = {">": (Cond.LT, Cond.GE), "<=": (Cond.GE, Cond.LT), ">u": (Cond.LTU, Cond.GEU), "<=u": (Cond.GEU, Cond.LTU)}


LOCK_FUNCTIONS = {
    "ticket": "ticket", "tas": "tas", "ttas": "ttas", "mcs": "mcs", "queued": "queued", "spin": "spin", "read": "rwlock", "write": "rwlock",
}
LOCK_NAME = re.compile(rf"({'|'.join(LOCK_FUNCTIONS)})_(?:lock|trylock|unlock|slowpath|seq(?:un)?lock|seqbegin|seqretry)")


def lock_kind(name: str) -> str:
    """Kind of the lock a function of the library belongs to, "" for other functions."""
    match = LOCK_NAME.fullmatch(name)
    return "" if match is None else "seqlock" if "_seq" in name else LOCK_FUNCTIONS[match[1]]


class TooLarge(Exception):
    """The program grows beyond MAX_UOPS; reported."""


class Builder(DeviceStatements):
    """Emits the programs of a workload."""

    def __init__(
        self,
        program: Program,
        structs: dict[str, StructLayout],
        low: Lowering,
        emitter: Emitter,
        devices: DevicePlan | None = None,
        locks: Locks | None = None,
        batches: dict[tuple[str, str], int] | None = None,
    ):
        self.program = program
        self.batches = batches or {}
        self.gathered: set[tuple[str, str]] = set()
        self.lock_words: dict[tuple[str, str], set[str]] = {}  # (struct, field) -> kinds of the locks it is the word of
        self.devices = devices or DevicePlan()
        self.locks = locks or Locks(program)
        self.interrupt = False  # the program that is being emitted is an interrupt path
        self.low = low
        self.e = emitter
        self.o = Operands(program, structs, emitter, self.devices.queues)
        self.stack: list[str] = []
        self.initially: dict[tuple[str, int, int], int] = {}  # lock words that start with a value: (object, offset, size)
        self.assumptions: list[str] = []
        self.called: set[str] = set()
        self.programs: list[tuple[int, int, str]] = []  # rows [first, last) of each program, and its path
        self.library_rows: dict[str, tuple[int, int]] = {}  # rows of the first use of each library entry
        # What the syntax tree says, once per node: functions are inlined many times. The nodes outlive the builder, so their ids are names.
        self._handlers: dict[type, Callable[[Any, Frame], None]] = {}
        self._labels: dict[int, list[s.Label]] = {}  # of a function's body
        self._returns: dict[int, tuple[bool, bool, frozenset[str | None]]] = {}  # of a function's body
        self._orders: dict[int, list[tuple[int, Op]]] = {}  # accesses of a `work` statement, as (traffic, load or store)

    # ---- programs
    def path(self, name: str, pos: s.Pos, *, once: bool) -> int:
        """Emit the program that runs path ``name``; returns its first row."""
        start = len(self.e.rows)
        path = self.begin(name, pos)
        if path is None:
            return start
        top = self.e.label()
        self.e.bind(top)
        if not once:
            self.e.add(Op.PACKET)
        self.e.add(Op.ENTER)
        self.body_of(path.body, Frame(name, False, self.e.func))
        self.e.pos, self.e.func = path.pos, self.e.function(name)
        if once:
            self.e.add(Op.HALT)
        else:
            self.e.add(Op.DONE)
            self.e.jump(top)
        self.programs.append((start, len(self.e.rows), name))
        return start

    def interrupt_path(self, name: str, pos: s.Pos) -> int:
        """Emit the program that interrupts run; returns its first row."""
        start = len(self.e.rows)
        path = self.begin(name, pos)
        if path is None:
            return start
        self.interrupt = True
        self.e.add(Op.ENTER)
        self.body_of(path.body, Frame(name, False, self.e.func))
        self.e.pos, self.e.func = path.pos, self.e.function(name)
        self.e.add(Op.IRET)
        self.interrupt = False
        self.programs.append((start, len(self.e.rows), name))
        return start

    def begin(self, name: str, pos: s.Pos) -> s.Path | None:
        """The path of a program, with position and attribution set to it; None after reporting."""
        path = self.program.paths.get(name)
        if path is None:
            self.program.problem(pos, f"unknown path {name!r}", suggest(name, self.program.paths))
            return None
        self.called.add(name)
        self.e.pos, self.e.func = path.pos, self.e.function(name)
        return path

    def idle(self) -> int:
        """Emit the program of a CPU that does nothing."""
        self.e.func = self.e.function("idle")
        self.e.add(Op.HALT)
        self.programs.append((len(self.e.rows) - 1, len(self.e.rows), "idle"))
        return len(self.e.rows) - 1

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
        labels = self._labels.get(id(body))
        if labels is None:
            labels = self._labels[id(body)] = list(self.labels_in(body))
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
            handler = self._handlers.get(type(node))
            if handler is None:
                handler = self._handlers[type(node)] = getattr(self, "do_" + type(node).__name__)
            try:
                handler(node, frame)
            except Bad:
                continue

    # ---- names
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

    # ---- plain statements
    def do_Work(self, node: s.Work, frame: Frame) -> None:
        total = self.program.int(node.instructions, node.pos)
        counts, ranges = [], []
        for t in node.traffic:
            counts.append((self.program.int(t.loads, node.pos), self.program.int(t.stores, node.pos)))
            ranges.append(self.range(self.o.address(frame, t.range), frame))
        order = self._orders.get(id(node))
        if order is None:
            order = self._orders[id(node)] = spread(counts)
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

    def times(self, value: s.Int, pos: s.Pos) -> int:
        n = self.program.int(value, pos)
        if n < 1 or n > 100_000:
            raise self.o.bad(pos, f"{n} times", "a count is 1..100000")
        return n

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

    def do_Halt(self, node: s.Halt, frame: Frame) -> None:
        if self.interrupt:
            raise self.o.bad(node.pos, "'halt' in an interrupt path", "return from it; only a base program ends")
        self.e.add(Op.HALT)

    def do_Assume(self, node: s.Assume, frame: Frame) -> None:
        if node.text not in self.assumptions:
            self.assumptions.append(node.text)

    # ---- control flow
    def condition(self, c: s.Condition, frame: Frame) -> tuple[Cond, int, Operand, tuple[int, ...]]:
        """(condition, left register, right operand, registers to release); emits the comparison where it costs an instruction."""
        left, temp = self.o.value(frame, c.left)
        right, temp2 = self.o.value(frame, c.right)
        relation = c.relation
        free: tuple[int, ...] = (temp, temp2)
        if left.reg < 0 or left.imm:
            register = self.e.register()
            self.e.move(register, left)
            left, free = Operand(0, register), (*free, register)
        by_flags = relation != "&" and right == Operand(0) and self.e.sets_condition(left.reg)
        if self.e.compare_costs and not by_flags:
            self.e.work(1)
        if relation in TURNED:
            swapped, next_up = TURNED[relation]  # a > b is b < a; a > 5 is a >= 6
            if right.reg < 0:
                return next_up, left.reg, Operand(right.imm + 1), free
            return swapped, right.reg, left, free
        cond = RELATIONS[relation]
        return (INVERSE[cond] if c.negated else cond), left.reg, right, free

    def do_If(self, node: s.If, frame: Frame) -> None:
        cond, left, right, free = self.condition(node.condition, frame)
        if node.goto is not None:
            self.e.branch(cond, left, right, self.label_of(frame, node.goto, node.pos), taken=node.hint == "likely")
            self.e.release(*free)
            return
        if node.body and isinstance(node.body[0], s.Return) and node.body[0].value is None and not node.orelse:
            self.e.branch(cond, left, right, frame.end, taken=node.hint != "unlikely")
            self.e.release(*free)
            return
        if len(node.body) == 1 and isinstance(node.body[0], s.Leave) and not node.orelse:
            self.e.branch(cond, left, right, self.loop_label(node.body[0], frame), taken=node.hint != "unlikely")
            self.e.release(*free)
            return
        after = self.e.label()
        self.e.branch(INVERSE[cond], left, right, after, taken=node.hint == "unlikely")
        self.e.release(*free)
        self.statements(node.body, frame)
        if node.orelse:
            end = self.e.label()
            self.e.func = frame.func
            self.e.jump(end)
            self.e.bind(after)
            self.statements(node.orelse, frame)
            after = end
        self.e.bind(after)

    def do_While(self, node: s.While, frame: Frame) -> None:
        end, top = self.e.label(), self.e.label()
        cond, left, right, free = self.condition(node.condition, frame)
        self.e.branch(INVERSE[cond], left, right, end)
        self.e.release(*free)
        self.e.bind(top)
        outer, self.e.spin = self.e.spin, self.e.spin or node.spin
        self.loop_body(node.body, frame, Loop(end=end))
        cond, left, right, free = self.condition(node.condition, frame)
        self.e.branch(cond, left, right, top, taken=True)
        self.e.release(*free)
        self.e.spin = outer
        self.e.bind(end)

    def do_Forever(self, node: s.Forever, frame: Frame) -> None:
        loop, top = Loop(), self.e.label()
        self.e.bind(top)
        self.loop_body(node.body, frame, loop)
        self.e.jump(top)
        self.bind_if_used(loop.end)

    def loop_body(self, body: tuple[Any, ...], frame: Frame, loop: Loop) -> None:
        """Body of a loop, up to where ``continue`` goes."""
        frame.loops.append(loop)
        self.statements(body, frame)
        frame.loops.pop()
        self.e.func = frame.func
        self.bind_if_used(loop.again)

    def bind_if_used(self, label: int) -> None:
        """A label that nothing jumps to would hide from the next branch that flags are set."""
        if label >= 0:
            self.e.bind(label)

    def loop_label(self, node: s.Leave, frame: Frame) -> int:
        if not frame.loops:
            word = "continue" if node.again else "break"
            raise self.o.bad(node.pos, f"'{word}' outside a loop", "it belongs into while, forever, repeat or unroll")
        loop = frame.loops[-1]
        if node.again:
            loop.again = self.e.label() if loop.again < 0 else loop.again
            return loop.again
        loop.end = self.e.label() if loop.end < 0 else loop.end
        return loop.end

    def do_Leave(self, node: s.Leave, frame: Frame) -> None:
        self.e.jump(self.loop_label(node, frame))

    def do_Repeat(self, node: s.Repeat, frame: Frame) -> None:
        times, loop = self.times(node.times, node.pos), Loop()
        if node.unrolled:
            for _ in range(times):
                labels = dict(frame.labels)
                self.collect_labels(node.body, frame)
                loop.again = -1
                self.loop_body(node.body, frame, loop)
                frame.labels = labels
            self.bind_if_used(loop.end)
            return
        counter, top = self.e.register(), self.e.label()
        self.e.move(counter, Operand(times))
        self.e.bind(top)
        self.loop_body(node.body, frame, loop)
        self.e.alu(Alu.SUB, counter, counter, Operand(1))
        self.e.branch(Cond.NE, counter, Operand(0), top, taken=True)
        self.e.release(counter)
        self.bind_if_used(loop.end)

    def do_Label(self, node: s.Label, frame: Frame) -> None:
        self.e.bind(frame.labels[node.name])

    def do_Goto(self, node: s.Goto, frame: Frame) -> None:
        self.e.jump(self.label_of(frame, node.name, node.pos))

    def do_When(self, node: s.When, frame: Frame) -> None:
        self.statements(node.body if self.program.env.holds(node) else node.orelse, frame)

    def do_Return(self, node: s.Return, frame: Frame) -> None:
        if node.value is not None and frame.dst >= 0:
            self.o.compute(frame, node.value, frame.dst)
        self.e.jump(frame.end)

    # ---- primitives and calls
    def do_Invoke(self, node: s.Invoke, frame: Frame) -> None:
        if node.mode == "plain" and node.name in BARRIERS:
            if node.args or node.dst:
                raise self.o.bad(node.pos, f"{node.name} has no operands and no result", f"write {node.name}")
            self.low.barrier(self.e, node.name)
        elif node.mode == "plain" and node.name in PRIMITIVES:
            self.primitive(node, frame)
        else:
            self.call(node, frame)

    def primitive(self, node: s.Invoke, frame: Frame) -> None:
        count, returns = PRIMITIVES[node.name]
        if len(node.args) != count + 1:
            raise self.o.bad(
                node.pos,
                f"{node.name} takes an address and {count} value(s), not {len(node.args)} operand(s)",
                "see docs/workload-language.md",
            )
        if node.dst and not returns:
            raise self.o.bad(
                node.pos,
                f"{node.name} has no result",
                f"use {node.name}_return" if node.name + "_return" in PRIMITIVES else "drop 'r ='",
            )
        at = self.o.sized(frame, node.args[0], atomic=True)
        values = [self.o.value(frame, v) for v in node.args[1:]]
        if node.name.endswith("_bit"):
            bit = values[0][0]
            if bit.reg >= 0 or not 0 <= bit.imm < 8 * (at.size or 8):
                raise self.o.bad(
                    node.pos, f"bit number outside 0..{8 * (at.size or 8) - 1}", "a bit number is a constant inside the word"
                )
        dst = self.optional_target(frame, node.dst, node.pos)
        batch = self.batch_of(at)
        if batch:
            own = self.gathering_word(node, at)
            lower_gathered(self.e, self.low, node.name, at, own, [v for v, _ in values], batch)
        else:
            lower_primitive(self.e, self.low, node.name, at, [v for v, _ in values], dst)
        self.e.release(*(temp for _, temp in values))

    def batch_of(self, at: Address) -> int:
        """How many updates of this word a CPU gathers; 0: each is made at once."""
        if not self.batches or at.object is None or at.ref is None:
            return 0
        key = self.program.objects[at.object].struct or "", at.ref.field
        if key in self.batches:
            self.gathered.add(key)
        return self.batches.get(key, 0)

    def gathering_word(self, node: s.Invoke, at: Address) -> Address:
        """The word in which a CPU gathers updates of ``at``. Raises Bad for an operation that needs the value."""
        assert at.object is not None and at.ref is not None
        if node.dst is not None or node.name.removesuffix("_return") not in GATHERED:
            raise self.o.bad(
                node.pos, f"{node.name} needs the value of {at.object}.{at.ref.field}, so updates cannot be gathered per CPU", "leave :batch out"
            )
        hidden = f"batch({at.object}.{at.ref.field})"
        if hidden not in self.program.objects:
            self.program.objects[hidden] = s.Object(node.pos, hidden, None, 8, "per-cpu", {})
        return Address(hidden, 0, 8, FieldRef(hidden, "", 0, 8))

    def check_batches(self) -> None:
        """After everything is emitted: each :batch was used."""
        for key in self.batches.keys() - self.gathered:
            what = f"{'.'.join(key)}:batch: no atomic of the workload updates it"
            self.program.problem("--layout", what, "name a field that is updated by atomic_…")

    def call(self, node: s.Invoke, frame: Frame) -> None:
        given: list[Address] = []
        if self.locks.choices and node.name in ENTRIES and node.args:
            node, given = self.locks.substitute(node, self.o.address(frame, node.args[0]))
        function = self.program.functions.get(node.name)
        if function is None:
            known = [*self.program.functions, *PRIMITIVES, *BARRIERS] if node.mode == "plain" else list(self.program.functions)
            what = "statement or function" if node.mode == "plain" else "function"
            raise self.o.bad(node.pos, f"unknown {what} {node.name!r}", suggest(node.name, known))
        if node.name in self.stack:
            cycle = " -> ".join([*self.stack[self.stack.index(node.name) :], node.name])
            raise self.o.bad(node.pos, f"functions call each other without end: {cycle}", "calls are inlined; break the cycle")
        if len(self.stack) >= MAX_DEPTH:
            raise self.o.bad(node.pos, f"calls nested deeper than {MAX_DEPTH}", "calls are inlined; flatten the functions")
        if len(given or node.args) != len(function.parameters):
            raise self.o.bad(
                node.pos, f"{node.name} takes {len(function.parameters)} argument(s), not {len(node.args)}", "see its definition"
            )
        inner = Frame(
            node.name,
            function.name in self.program.library,
            frame.func if node.mode == "inline" else self.e.function(function.symbol or node.name),
        )
        temps = [self.bind(inner, p, a, frame) for p, a in zip(function.parameters, node.args, strict=True)] if not given else []
        inner.bindings.update((p.name, a) for p, a in zip(function.parameters, given, strict=False))
        self.result_register(inner, node, function, frame)
        if node.mode != "inline":
            self.e.func = inner.func
            self.e.add(Op.ENTER)
        self.stack.append(node.name)
        self.called.add(node.name)
        position, spin, start = self.e.pos, self.e.spin, len(self.e.rows)
        returned = self.returns(function)[0]
        self.body_of(function.body, inner)
        if returned:
            self.e.drop_last_jump(inner.end)  # a `return` at the end of the body jumps to the next instruction
        self.stack.pop()
        if given:
            self.locks.emitted(start, len(self.e.rows))
        if inner.library:
            self.library_rows.setdefault(node.name, (start, len(self.e.rows)))
            self.mark_lock(node.name, function, inner, start)
        self.e.pos, self.e.spin = position, spin
        self.e.func = frame.func
        self.e.release(*temps)

    def mark_lock(self, name: str, function: s.Function, inner: Frame, start: int) -> None:
        """Note which lock word the rows of a library function act on. By convention it is its first argument."""
        kind = lock_kind(name)
        word = inner.bindings.get(function.parameters[0].name) if kind else None
        if isinstance(word, Address) and word.path is not None:
            self.lock_words.setdefault(word.path, set()).add(kind)
        if isinstance(word, Address):
            named = word.object is not None and word.areg < 0
            ref = (word.ref or FieldRef(str(word.object), "", word.offset, word.size or 8)) if named else None
            self.e.mark_lock(kind, ref, "unlock" not in name and "retry" not in name, start)

    def bind(self, inner: Frame, parameter: s.Parameter, arg: s.Expr, frame: Frame) -> int:
        """Give a parameter its meaning; returns a register to release or -1."""
        if isinstance(arg.first, s.Ref) and not arg.rest and (nic := self.nic_named(arg.first.name, frame)):
            inner.nics[parameter.name] = nic
            return -1
        is_address = isinstance(arg.first, s.Deref | s.Arrow)
        if isinstance(arg.first, s.Ref):
            is_address = isinstance(self.o.lookup(frame, arg.first.name, arg.pos), Address)
        if not is_address:
            value, temp = self.o.value(frame, arg)
            inner.bindings[parameter.name] = value
            return temp
        at = self.o.address(frame, arg)
        inner.bindings[parameter.name] = at
        if parameter.initially is not None and at.object and at.areg < 0 and at.size:
            self.initially.setdefault((at.object, at.offset, min(at.size, 8)), self.program.int(parameter.initially, arg.pos))
        return -1

    def result_register(self, inner: Frame, node: s.Invoke, function: s.Function, frame: Frame) -> None:
        """Let ``return r`` compute r where the caller wants it, so that returning costs no move."""
        if node.dst is None:
            return
        _, returns_value, names = self.returns(function)
        if not returns_value:
            raise self.o.bad(node.pos, f"{node.name} returns no value", f"add 'return VALUE' to it, or drop '{node.dst} ='")
        inner.dst = self.target(frame, node.dst, node.pos)
        used = {b.reg for b in inner.bindings.values() if isinstance(b, Operand)} | {
            b.areg for b in inner.bindings.values() if isinstance(b, Address)
        }
        if len(names) == 1 and inner.dst not in used:
            (name,) = names
            if name and name not in inner.bindings and name not in self.program.params:
                inner.registers[name] = inner.dst
                inner.borrowed.add(name)

    def returns(self, function: s.Function) -> tuple[bool, bool, frozenset[str | None]]:
        """(ends with a ``return``, returns a value, the names returned as :func:`_returned_names` gives them)."""
        body = function.body
        known = self._returns.get(id(body))
        if known is None:
            known = self._returns[id(body)] = _ends_with_return(body), _has_return_value(body), frozenset(_returned_names(body))
        return known


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


def _walk(body: tuple[Any, ...]) -> list[Any]:
    nodes: list[Any] = []
    for node in body:
        nodes.append(node)
        nodes.extend(_walk(getattr(node, "body", ())))
        nodes.extend(_walk(getattr(node, "orelse", ())))
    return nodes


def _ends_with_return(body: tuple[Any, ...]) -> bool:
    last = body[-1] if body else None
    if isinstance(last, s.When):
        return _ends_with_return(last.body) or _ends_with_return(last.orelse)
    return isinstance(last, s.Return)


def _has_return_value(body: tuple[Any, ...]) -> bool:
    return any(isinstance(n, s.Return) and n.value is not None for n in _walk(body))


def _returned_names(body: tuple[Any, ...]) -> set[str | None]:
    """Names that are returned as they are; None stands for any other returned value."""
    names: set[str | None] = set()
    for n in _walk(body):
        if isinstance(n, s.Return) and n.value is not None:
            plain = isinstance(n.value.first, s.Ref) and not n.value.rest and "." not in n.value.first.name
            names.add(n.value.first.name if plain and isinstance(n.value.first, s.Ref) else None)
    return names
