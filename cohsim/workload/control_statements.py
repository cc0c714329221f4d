"""Branches, loops and labels to micro-operations."""

from __future__ import annotations

from typing import Any

from cohsim.uops import Alu, Cond, Op
from cohsim.workload import syntax as s
from cohsim.workload.emit import INVERSE, Operand
from cohsim.workload.operands import Frame, Loop
from cohsim.workload.statements import Statements

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


class ControlStatements(Statements):
    """Conditions, jumps, loops, ``when`` and the ends of programs."""

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

    def do_Halt(self, node: s.Halt, frame: Frame) -> None:
        if self.interrupt:
            raise self.o.bad(node.pos, "'halt' in an interrupt path", "return from it; only a base program ends")
        self.e.add(Op.HALT)
