"""Text of a workload file to its syntax tree, with every wrong line reported at once."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from cohsim.errors import Problem, WorkloadError
from cohsim.workload import syntax as s
from cohsim.workload.grammar import DESCRIPTIONS, line_parser
from cohsim.workload.nodes import NodeBuilder, OrElse

HEADER = "cohsim-trace 1"
MAX_BYTES = 8 << 20  # a workload is written by hand; anything larger is another kind of file
MAX_PROBLEMS = 50
BLOCK_TYPES = (s.Struct, s.Function, s.Path, s.Variant, s.When, s.Run, s.If, s.While, s.Repeat, s.Forever, s.Nic)


@dataclass
class Line:
    """One non-empty line and the lines indented below it."""

    number: int
    indent: int
    text: str
    children: list[Line]


class _Parser:
    """One file: reads lines, keeps all problems."""

    def __init__(self, file: str):
        self.file = file
        self.problems: list[Problem] = []
        self.builder = NodeBuilder()

    def problem(self, line: int, column: int, what: str, remedy: str = "") -> None:
        self.problems.append(Problem(f"{self.file}:{line}:{column}", what, remedy))

    # ---- lines and blocks
    def blocks(self, text: str) -> list[Line]:
        root = Line(0, -1, "", [])
        stack = [root]
        for number, raw in enumerate(text.split("\n"), 1):
            code = _strip_comment(raw).rstrip()
            if not code.strip() or number == 1:
                continue
            if "\t" in code:
                self.problem(number, code.index("\t") + 1, "a tab", "indent with spaces")
                code = code.expandtabs(8)
            indent = len(code) - len(code.lstrip(" "))
            while stack[-1].indent >= indent:
                stack.pop()
            parent = stack[-1]
            if parent.children and parent.children[0].indent != indent:
                self.problem(
                    number,
                    indent + 1,
                    f"indented by {indent}, its block by {parent.children[0].indent}",
                    "indent the lines of a block alike",
                )
            line = Line(number, indent, code, [])
            parent.children.append(line)
            stack.append(line)
        return root.children

    # ---- one line
    def one(self, line: Line, start: str) -> Any:
        """Node of one line, or None after reporting."""
        try:
            tree = line_parser().parse(line.text, start=start)
        except UnexpectedInput as error:
            self.syntax_error(line, error, start)
            return None
        self.builder.pos = s.Pos(self.file, line.number, line.indent + 1)
        try:
            return self.builder.transform(tree)
        except VisitError as error:
            if isinstance(error.orig_exc, WorkloadError):
                self.problems.extend(error.orig_exc.problems)
                return None
            raise

    def syntax_error(self, line: Line, error: UnexpectedInput, start: str) -> None:
        column = line.indent + 1 if error.column < 1 else error.column
        if isinstance(error, UnexpectedToken):
            names = error.accepts or error.expected
            found = "the line ends" if error.token.type == "$END" else repr(str(error.token))
            if error.token.type == "$END":
                column = len(line.text) + 1
        else:
            assert isinstance(error, UnexpectedCharacters)
            names = error.allowed or set()
            word = re.match(r"\S+", line.text[column - 1 :])
            found = repr(word.group() if word else "?")
        expected = sorted({DESCRIPTIONS.get(n, n.lower().replace("__", "")) for n in names})
        first = line.text.split()[0]
        close = difflib.get_close_matches(first, [e for e in expected if e.isidentifier()], 1)
        hint = f"did you mean {close[0]!r}?" if close and column == line.indent + 1 else "expected " + ", ".join(expected[:14])
        self.problem(line.number, column, f"unexpected {found}" if found != "the line ends" else found + " too early", hint)

    # ---- bodies
    def body(self, lines: list[Line], start: str) -> tuple[Any, ...]:
        """Nodes of a block; ``start`` is the grammar rule of its lines."""
        nodes: list[Any] = []
        for line in lines:
            node = self.one(line, start)
            if node is None:
                self.skipped(line, start)
                continue
            if isinstance(node, OrElse):
                self.join_else(nodes, line, node, start)
                continue
            nodes.append(self.with_children(node, line, start))
        return tuple(nodes)

    def skipped(self, line: Line, start: str) -> None:
        """Report what is wrong below a heading that could not be read."""
        word = line.text.split()[0]
        if word in ("function", "path", "replace"):
            self.body(line.children, "statement")
        elif word == "struct":
            for child in line.children:
                self.one(child, "field")
        elif word == "nic":
            self.body(line.children, "nicline")
        elif start != "top" or word in ("variant", "when", "unless"):
            self.body(line.children, start)

    def join_else(self, nodes: list[Any], line: Line, orelse: OrElse, start: str) -> None:
        """Hang an ``else`` block on the ``if`` before it, at the end of its ``else if`` chain."""
        chain = [nodes[-1]] if nodes else []
        while chain and isinstance(chain[-1], s.If) and chain[-1].orelse and _chained(chain[-1].orelse):
            chain.append(chain[-1].orelse[0])
        last = chain[-1] if chain else None
        wanted = s.If if orelse.condition else s.If | s.When
        if not isinstance(last, wanted) or last.orelse or (isinstance(last, s.If) and last.goto):
            self.problem(
                line.number,
                line.indent + 1,
                "'else if' without an 'if' block before it"
                if orelse.condition
                else "'else' without an 'if', 'when' or 'unless' block before it",
                "remove it or indent it like its 'if'",
            )
            return
        if not line.children:
            self.problem(line.number, line.indent + 1, "an empty 'else' block", "indent its lines deeper")
        body = self.body(line.children, start)
        if orelse.condition is not None:
            body = (s.If(orelse.pos, orelse.condition, None, orelse.hint, body, chained=True),)
        for node in reversed(chain):
            body = (replace(node, orelse=body),)
        nodes[-1] = body[0]

    def with_children(self, node: Any, line: Line, start: str) -> Any:
        takes = isinstance(node, BLOCK_TYPES) and not (isinstance(node, s.If) and node.goto)
        if not takes:
            if line.children:
                child = line.children[0]
                self.problem(
                    child.number,
                    child.indent + 1,
                    "indented deeper than its block",
                    f"'{line.text.split()[0]}' on line {line.number} takes no block",
                )
            return node
        if isinstance(node, s.Struct):
            fields = tuple(f for f in (self.one(c, "field") for c in line.children) if f)
            return replace(node, fields=fields)
        inner = start
        if isinstance(node, s.Function | s.Path):
            inner = "statement"
        elif isinstance(node, s.Run | s.Nic):
            inner = "runline" if isinstance(node, s.Run) else "nicline"
        if not line.children and not isinstance(node, s.Variant | s.Function | s.Path):
            self.problem(line.number, line.indent + 1, "a block without lines", "indent its lines deeper than its heading")
        return replace(node, body=self.body(line.children, inner))


def _chained(orelse: tuple[Any, ...]) -> bool:
    return isinstance(orelse[0], s.If) and orelse[0].chained


def _strip_comment(line: str) -> str:
    if "#" not in line:
        return line
    quoted = False
    for i, c in enumerate(line):
        if c == '"':
            quoted = not quoted
        elif c == "#" and not quoted:
            return line[:i]
    return line


def read_text(path: FilePath) -> str:
    """Text of a workload file. Raises WorkloadError, with one line, for whatever is not one."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise WorkloadError(
                Problem(
                    str(path),
                    f"{size} bytes is too large for a workload file",
                    f"the limit is {MAX_BYTES} bytes; recorded traces are read by 'cohsim trace import'",
                )
            )
        data = path.read_bytes()
    except OSError as error:
        raise WorkloadError(Problem(str(path), error.strerror or str(error), "give the path of a workload file")) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WorkloadError(
            Problem(
                str(path),
                f"not a text file (byte {error.start} is not UTF-8)",
                f"a workload file is text and starts with '{HEADER}'",
            )
        ) from None
    if "\0" in text:
        raise WorkloadError(
            Problem(str(path), "not a text file (it has NUL bytes)", f"a workload file is text and starts with '{HEADER}'")
        )
    return text.replace("\r\n", "\n")


@lru_cache(maxsize=32)
def parse_text(text: str, file: str) -> tuple[s.Statement, ...]:
    """Top-level nodes of a workload file. Raises WorkloadError with every wrong line."""
    first = text.split("\n", 1)[0].strip()
    if _strip_comment(first).split() != HEADER.split():
        what = "the file is empty" if not text.strip() else f"the first line is {first[:60]!r}"
        raise WorkloadError(Problem(f"{file}:1:1", what, f"a workload file starts with '{HEADER}'"))
    parser = _Parser(file)
    nodes = parser.body(parser.blocks(text), "top")
    if not nodes and not parser.problems:
        raise WorkloadError(Problem(f"{file}:1:1", "nothing after the first line", "the file is truncated or empty"))
    if parser.problems:
        problems = sorted(parser.problems, key=lambda p: [int(x) for x in p.where.rsplit(":", 2)[1:]])
        if len(problems) > MAX_PROBLEMS:
            problems = [
                *problems[:MAX_PROBLEMS],
                Problem(file, f"{len(problems) - MAX_PROBLEMS} more problems", "mend these first"),
            ]
        raise WorkloadError(problems)
    return nodes
