"""Calls to micro-operations: every function is inlined where it is called."""

from __future__ import annotations

import re
from typing import Any

from cohsim.uops import Op
from cohsim.workload import syntax as s
from cohsim.workload.compiled import FieldRef
from cohsim.workload.emit import Address, Operand
from cohsim.workload.locks import ENTRIES, Locks
from cohsim.workload.lower import BARRIERS, PRIMITIVES
from cohsim.workload.operands import Frame
from cohsim.workload.primitive_statements import PrimitiveStatements
from cohsim.workload.program import suggest

MAX_DEPTH = 100  # calls inside calls; generated text beyond this is a mistake
LOCK_FUNCTIONS = {
    "ticket": "ticket", "tas": "tas", "ttas": "ttas", "mcs": "mcs", "queued": "queued", "spin": "spin", "read": "rwlock", "write": "rwlock",
}
LOCK_NAME = re.compile(rf"({'|'.join(LOCK_FUNCTIONS)})_(?:lock|trylock|unlock|slowpath|seq(?:un)?lock|seqbegin|seqretry)")


def lock_kind(name: str) -> str:
    """Kind of the lock a function of the library belongs to, "" for other functions."""
    match = LOCK_NAME.fullmatch(name)
    return "" if match is None else "seqlock" if "_seq" in name else LOCK_FUNCTIONS[match[1]]


class CallStatements(PrimitiveStatements):
    """A name with arguments: a barrier, a primitive or a function, and what its parameters mean inside."""

    locks: Locks
    stack: list[str]  # functions that are being inlined
    called: set[str]
    initially: dict[tuple[str, int, int], int]  # lock words that start with a value: (object, offset, size)
    lock_words: dict[tuple[str, str], set[str]]  # (struct, field) -> kinds of the locks it is the word of
    library_rows: dict[str, tuple[int, int]]  # rows of the first use of each library entry
    returned: dict[int, tuple[bool, bool, frozenset[str | None]]]  # what `returns` says of a function's body, by its id

    def do_Invoke(self, node: s.Invoke, frame: Frame) -> None:
        if node.mode == "plain" and node.name in BARRIERS:
            if node.args or node.dst:
                raise self.o.bad(node.pos, f"{node.name} has no operands and no result", f"write {node.name}")
            self.low.barrier(self.e, node.name)
        elif node.mode == "plain" and node.name in PRIMITIVES:
            self.primitive(node, frame)
        else:
            self.call(node, frame)

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
        known = self.returned.get(id(body))
        if known is None:
            known = self.returned[id(body)] = _ends_with_return(body), _has_return_value(body), frozenset(_returned_names(body))
        return known


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
