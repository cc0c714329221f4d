"""From ``.litmus`` text to :class:`LitmusTest`, with every fault of the file in one WorkloadError (``file:line:column``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from lark import Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from cohsim.datafiles import nearest
from cohsim.errors import Problem, WorkloadError
from cohsim.litmus import power, x86
from cohsim.litmus.assembly import Line, Operand, Rejected, ThreadSource
from cohsim.litmus.grammar import parser
from cohsim.litmus.test import ALLOWED, FORBIDDEN, Atom, Condition, Instruction, LitmusTest, Proposition

ARCHES = ("X86", "X86_64", "PPC")
MAX_THREADS = 8
_KEYWORD = re.compile(r"(?m)^[ \t]*(?:locations\b|exists\b|~\s*exists\b|forall\b)")
_UNSUPPORTED = re.compile(r"(?m)^[ \t]*(filter|final|observed|with)\b")


@dataclass
class _File:
    """The text with comments blanked out, and what was found wrong with it."""

    path: str
    text: str
    problems: list[Problem] = field(default_factory=list)

    def where(self, offset: int) -> str:
        before = self.text[:offset]
        return f"{self.path}:{before.count(chr(10)) + 1}:{offset - before.rfind(chr(10))}"

    def at(self, token: Token) -> str:
        return f"{self.path}:{token.line}:{token.column}"

    def reject(self, offset: int, what: str, remedy: str = "") -> None:
        self.problems.append(Problem(self.where(offset), what, remedy))

    def parse(self, start: str, begin: int, end: int) -> Tree[Any] | None:
        """A part of the text; a syntax error becomes a problem."""
        blank = re.sub(r"[^\n]", " ", self.text[:begin])
        try:
            return parser(start).parse(blank + self.text[begin:end])
        except UnexpectedInput as error:
            self.problems.append(self._syntax(error, end))
            return None

    def _syntax(self, error: UnexpectedInput, end: int) -> Problem:
        if isinstance(error, UnexpectedToken) and error.token.type != "$END":
            return Problem(self.at(error.token), f"unexpected {str(error.token)!r}", _expected(error.accepts or error.expected))
        if isinstance(error, UnexpectedCharacters):
            return Problem(f"{self.path}:{error.line}:{error.column}", f"unexpected {error.char!r}", _expected(error.allowed))
        return Problem(self.where(len(self.text[:end].rstrip())), "ends too early", _expected(getattr(error, "expected", None)))


_TERMINALS = {
    "INT": "a number",
    "NAME": "a name",
    "LPAR": "'('",
    "RPAR": "')'",
    "EQUAL": "'='",
    "COMMA": "','",
    "COLON": "':'",
    "SEMICOLON": "';'",
    "LSQB": "'['",
    "RSQB": "']'",
    "DOLLAR": "'$'",
    "PERCENT": "'%'",
    "TILDE": "'~'",
    "__ANON_0": "'\\/'",
    "__ANON_1": "'/\\'",
    "QUANTIFIER": "exists, ~exists or forall",
    "$END": "the end",
}


def _expected(names: Any) -> str:
    words = sorted({_TERMINALS[n] for n in names or () if n in _TERMINALS})
    return f"expected {' or '.join(words)}" if words else ""


def _token(tree: Tree[Any], index: int) -> Token:
    """A child that the grammar makes a token."""
    return cast(Token, tree.children[index])


def load_litmus(path: Path) -> LitmusTest:
    """Read a file. Raises WorkloadError with every problem."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise WorkloadError(Problem(str(path), f"cannot be read: {fault}", "give a readable UTF-8 text file")) from fault
    return parse_litmus(text, str(path))


def parse_litmus(text: str, path: str) -> LitmusTest:
    """Parse a test; ``path`` is for messages. Raises WorkloadError with every problem."""
    source = _File(path, text)
    expectation = _comments(source)
    test = _Reader(source).read(expectation)
    if source.problems or test is None:
        raise WorkloadError(sorted(source.problems, key=_position))
    return test


def _position(problem: Problem) -> tuple[int, ...]:
    return tuple(int(part) for part in problem.where.rsplit(":", 2)[1:] if part.isdigit())


def _comments(source: _File) -> str | None:
    """Blank out ``(* ... *)`` and return the expectation that one of them states."""
    found: list[str] = []
    text, begin = source.text, 0
    while (begin := text.find("(*", begin)) >= 0:
        end = text.find("*)", begin)
        if end < 0:
            source.reject(begin, "a comment that does not end", "close it with *)")
            end = len(text) - 2
        body = text[begin + 2 : end]
        if match := re.match(r"\s*cohsim:\s*(\S+)\s*$", body):
            if match[1] in (FORBIDDEN, ALLOWED):
                found.append(match[1])
            else:
                source.reject(begin, f"unknown expectation {match[1]!r}", f"write {FORBIDDEN} or {ALLOWED}")
        text = text[:begin] + re.sub(r"[^\n]", " ", text[begin : end + 2]) + text[end + 2 :]
    source.text = text
    if len(set(found)) > 1:
        source.problems.append(Problem(source.path, "states both forbidden and allowed", "keep one of them"))
    return found[0] if found else None


class _Reader:
    """Cuts the frame and reads its parts."""

    def __init__(self, source: _File):
        self.source = source
        self.memory: dict[str, int] = {}
        self.initial: dict[tuple[int, str], int] = {}
        self.pointers: dict[tuple[int, str], tuple[str, str]] = {}  # -> location, where
        self.threads: list[ThreadSource] = []
        self.code: list[tuple[Instruction, ...]] = []
        self.isa: Any = x86

    def read(self, expectation: str | None) -> LitmusTest | None:
        source, text = self.source, self.source.text
        header = re.match(r"\s*(\S+)[ \t]+(\S+)[ \t]*(?:\n|$)", text)
        if header is None or header[1] not in ARCHES:
            offset = header.start(1) if header else len(text) - len(text.lstrip())
            source.reject(offset, "does not begin with an architecture and a name", f"begin with {', '.join(ARCHES)} and a name")
            return None
        self.isa = power if header[1] == "PPC" else x86
        opening, closing = text.find("{"), text.find("}")
        if opening < 0 or closing < opening:
            source.reject(len(text), "no init block", "write {} or { x=0; } after the header")
            return None
        title = self._title(header.end(), opening)
        self._init(opening + 1, closing)
        if match := _UNSUPPORTED.search(text, closing):
            source.reject(match.start(1), f"{match[1]!r} is not supported", "leave it out")
            return None
        condition_at = _KEYWORD.search(text, closing)
        if condition_at is None:
            source.reject(len(text.rstrip()), "no final condition", "end with exists, ~exists or forall")
            return None
        self._table(closing + 1, condition_at.start(), header[1])
        shown, final = self._final(condition_at.start())
        if source.problems or final is None:
            return None
        return self._finish(header, title, shown, final, expectation)

    def _title(self, begin: int, end: int) -> str:
        title = ""
        for match in re.finditer(r"[^\n]+", self.source.text[begin:end]):
            line = match[0].strip()
            if quoted := re.fullmatch(r'"([^"]*)"', line):
                title = quoted[1]
            elif line and not re.fullmatch(r"\w[\w.-]*\s*=.*", line):
                self.source.reject(
                    begin + match.start(), f"unexpected {line!r} before the init block", 'write a "title" or Key=value'
                )
        return title

    # ---- initial state

    def _init(self, begin: int, end: int) -> None:
        tree = self.source.parse("init", begin, end)
        for entry in cast(list[Tree[Any]], tree.children) if tree else ():
            cell = cast(Tree[Any], entry.children[-2 if entry.data == "assigned" else -1])
            value = cast(Tree[Any], entry.children[-1]) if entry.data == "assigned" else None
            self._initial(cell, value)

    def _initial(self, cell: Tree[Any], value: Tree[Any] | None) -> None:
        token = _token(cell, -1)
        where = self.source.at(token)
        pointed = str(value.children[0]) if value is not None and value.data == "address" else None
        number = int(_token(value, 0), 0) if value is not None and value.data == "number" else 0
        if cell.data == "memory":
            if pointed is not None:
                self.source.problems.append(
                    Problem(where, f"{token} would hold the address of {pointed}", "addresses in memory are not supported")
                )
            elif self.memory.setdefault(str(token), number) != number:
                self.source.problems.append(Problem(where, f"{token} is initialised twice", "keep one value"))
            return
        thread, name = int(_token(cell, 0), 0), self.isa.register(str(token))
        if name is None:
            self.source.problems.append(Problem(where, f"{token} is not a register", "use a register of the architecture"))
        elif pointed is not None:
            self.pointers[thread, name] = (pointed, where)
            self.memory.setdefault(pointed, 0)
        else:
            self.initial[thread, name] = number

    # ---- program

    def _table(self, begin: int, end: int, arch: str) -> None:
        rows = list(self._rows(begin, end))
        if not rows:
            self.source.reject(begin, "no program", "write P0 | P1 ; and a row of instructions for each line")
            return
        heads = [self.source.text[a:b].strip() for a, b in rows[0]]
        if heads != [f"P{i}" for i in range(len(heads))] or len(heads) > MAX_THREADS:
            self.source.reject(
                rows[0][0][0], f"the first row is {' | '.join(heads)!r}", f"write P0 | P1 ; ... up to P{MAX_THREADS - 1}"
            )
            return
        for (thread, name), (_, where) in self.pointers.items():
            if thread >= len(heads):
                self.source.problems.append(
                    Problem(where, f"{thread}:{name}: there is no thread {thread}", f"threads are 0 to {len(heads) - 1}")
                )
        for number in range(len(heads)):
            self.threads.append(ThreadSource({name: to for (t, name), (to, _) in self.pointers.items() if t == number}))
        for row in rows[1:]:
            if len(row) != len(heads):
                self.source.reject(
                    row[0][0],
                    f"{len(row)} cells in a row of a {len(heads)}-thread test",
                    "separate cells with | and end rows with ;",
                )
                continue
            for thread_source, (a, b) in zip(self.threads, row, strict=True):
                self._cell(thread_source, a, b, arch)
        self.code = [self._resolve(thread) for thread in self.threads]

    def _rows(self, begin: int, end: int) -> Iterator[list[tuple[int, int]]]:
        text = self.source.text
        while row := text[begin:end].lstrip():
            begin = end - len(row)
            stop = text.find(";", begin, end)
            if stop < 0:
                self.source.reject(begin, "a row without ; at its end", "end each row with ;")
                return
            cells, at = [], begin
            for part in text[begin:stop].split("|"):
                cells.append((at, at + len(part)))
                at += len(part) + 1
            yield cells
            begin = stop + 1

    def _cell(self, thread: ThreadSource, begin: int, end: int, arch: str) -> None:
        tree = self.source.parse("line", begin, end)
        if tree is None:
            return
        line = self._line(tree, begin, end)
        for label in line.labels:
            if thread.labels.setdefault(label, len(thread.code)) != len(thread.code):
                self.source.problems.append(Problem(line.where, f"label {label} is there twice", "rename one"))
            thread.flags_from = None  # another path may come in here with other flags
        if not line.mnemonic:
            return
        try:
            thread.code += self.isa.assemble(line, arch, thread)
        except Rejected as rejected:
            self.source.problems.append(rejected.problem)

    def _line(self, tree: Tree[Any], begin: int, end: int) -> Line:
        labels: list[str] = []
        mnemonic, lock, operands, where = "", False, [], self.source.where(begin)
        for child in cast(list[Tree[Any]], tree.children):
            if child.data == "label":
                labels.append(str(child.children[0]))
                continue
            for part in child.children:
                if isinstance(part, Token) and part.type == "LOCK":
                    lock = True
                elif isinstance(part, Token):
                    mnemonic, where = str(part).lower(), self.source.at(part)
                else:
                    operands.append(self._operand(part))
        return Line(tuple(labels), mnemonic, lock, tuple(operands), " ".join(self.source.text[begin:end].split()), where)

    def _operand(self, tree: Tree[Any]) -> Operand:
        form, where = str(tree.data), self.source.at(_token(tree, 0))
        if form == "immediate":
            return Operand(form, "", int(_token(tree, 0), 0), where)
        return Operand(form, str(tree.children[-1]), int(_token(tree, 0), 0) if form == "displaced" else 0, where)

    def _resolve(self, thread: ThreadSource) -> tuple[Instruction, ...]:
        code = list(thread.code)
        for index, label, where in thread.gotos:
            if label in thread.labels and index < len(code):
                code[index] = replace(code[index], target=thread.labels[label])
            elif label not in thread.labels:
                close = nearest(label, thread.labels)
                self.source.problems.append(
                    Problem(where, f"no label {label!r} in this thread", f"did you mean {close}?" if close else "")
                )
        return tuple(code)

    # ---- final condition

    def _final(self, begin: int) -> tuple[list[Tree[Any]], Tree[Any] | None]:
        """Syntax of what follows the program: the cells of ``locations``, and the condition."""
        text, shown = self.source.text, []
        if text[begin:].lstrip().startswith("locations"):
            begin = text.index("locations", begin) + len("locations")
            closing = text.find("]", begin)
            end = closing + 1 if closing >= 0 else len(text)
            tree = self.source.parse("locations", begin, end)
            for item in cast(list[Tree[Any]], tree.children) if tree else ():
                shown += [cell for cell in item.children if isinstance(cell, Tree)]
            begin = end
        return shown, self.source.parse("condition", begin, len(text))

    def _finish(
        self, header: re.Match[str], title: str, shown: list[Tree[Any]], final: Tree[Any], stated: str | None
    ) -> LitmusTest | None:
        source = self.source
        sizes = self._sizes()
        named = [self._atom(cell) for cell in shown]
        proposition = self._proposition(cast(Tree[Any], final.children[1]), named)
        quantifier_at = _token(final, 0)
        quantifier = re.sub(r"\s", "", str(quantifier_at))
        implied = {"exists": None, "~exists": FORBIDDEN, "forall": FORBIDDEN}[quantifier]
        if implied and stated and implied != stated:
            source.problems.append(
                Problem(source.at(quantifier_at), f"{quantifier} means {implied}, the comment says {stated}", "use exists")
            )
        expectation = stated or implied
        if expectation is None:
            source.problems.append(
                Problem(
                    source.at(quantifier_at),
                    "no expectation",
                    "add a comment (* cohsim: forbidden *) or (* cohsim: allowed *), or use ~exists",
                )
            )
        if source.problems or expectation is None:
            return None
        text = " ".join(source.text[cast(int, quantifier_at.start_pos) :].split())
        condition = Condition(quantifier, text, proposition, source.at(quantifier_at))
        registers = tuple({n: v for (t, n), v in self.initial.items() if t == i} for i in range(len(self.threads)))
        return LitmusTest(
            header[2],
            header[1],
            source.path,
            title,
            tuple(self.code),
            self.memory,
            registers,
            condition,
            expectation,
            tuple(sorted(set(named))),
            sizes,
        )

    def _sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for thread in self.threads:
            for name, size in thread.sizes.items():
                self.memory.setdefault(name, 0)
                if sizes.setdefault(name, size) != size:
                    self.source.problems.append(
                        Problem(
                            self.source.path,
                            f"{name} is accessed with {sizes[name]} and {size} bytes",
                            "use one size for each location",
                        )
                    )
        return {name: sizes.get(name, 4) for name in self.memory}

    def _atom(self, cell: Tree[Any]) -> Atom:
        token = _token(cell, -1)
        if cell.data == "memory":
            self._sizes()
            if str(token) not in self.memory:
                close = nearest(str(token), self.memory)
                self.source.problems.append(
                    Problem(self.source.at(token), f"no location {str(token)!r}", f"did you mean {close}?" if close else "")
                )
            return Atom(-1, str(token))
        thread, name = int(_token(cell, 0), 0), self.isa.register(str(token))
        if name is None or thread >= len(self.threads) or name not in self.threads[thread].used:
            self.source.problems.append(
                Problem(
                    self.source.at(token),
                    f"thread {thread} does not use a register {str(token)!r}",
                    "name a register that the thread writes",
                )
            )
        return Atom(thread, name or str(token))

    def _proposition(self, tree: Tree[Any], named: list[Atom]) -> Proposition:
        if tree.data == "true":
            return lambda state: True
        if tree.data == "equals":
            atom, value = self._atom(cast(Tree[Any], tree.children[0])), int(_token(tree, 1), 0)
            named.append(atom)
            return lambda state: state[atom] == value
        parts = [self._proposition(cast(Tree[Any], child), named) for child in tree.children]
        if tree.data == "negation":
            return lambda state: not parts[0](state)
        combine: Callable[[Iterator[bool]], bool] = all if tree.data == "conjunction" else any

        def holds(state: Mapping[Atom, int]) -> bool:
            return combine(part(state) for part in parts)

        return holds
