"""``include``: one workload out of several files, with positions of its own file for every line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cohsim.datafiles import INCLUDE_FOLDER, data_folders
from cohsim.errors import Problem, WorkloadError
from cohsim.workload import syntax as s
from cohsim.workload.parse import parse_text, read_text


@dataclass
class Whole:
    """A workload file and all it includes."""

    nodes: tuple[s.Statement, ...] = ()
    text: str = ""  # one self-contained text: each include line, then the lines of its file
    files: list[str] = field(default_factory=list)  # included ones, in order


def parse_whole(text: str, file: str) -> Whole:
    """Top-level nodes of ``text`` with every ``include`` replaced by the nodes of its file. Raises WorkloadError."""
    reader = _Reader()
    whole = Whole(files=reader.files)
    whole.nodes, whole.text = reader.expand(text, file)
    if reader.problems:
        raise WorkloadError(reader.problems)
    return whole


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.seen: set[Path] = set()
        self.files: list[str] = []

    def expand(self, text: str, file: str) -> tuple[tuple[s.Statement, ...], str]:
        self.seen.add(Path(file).resolve())
        nodes: list[s.Statement] = []
        lines = text.split("\n")
        try:
            parsed = parse_text(text, file)
        except WorkloadError as error:
            self.problems += error.problems
            return (), text
        for node in parsed:
            if isinstance(node, s.Include):
                inner, expanded = self.included(node, file)
                nodes += inner
                lines[node.pos.line - 1] = expanded
            else:
                self.nested(node)
                nodes.append(node)
        return tuple(nodes), "\n".join(lines)

    def included(self, node: s.Include, file: str) -> tuple[tuple[s.Statement, ...], str]:
        """Nodes of an included file, and what its include line becomes in the text of the whole."""
        path = self.find(node, file)
        if path is None:
            return (), ""
        if path.resolve() in self.seen:
            return (), f'# include "{node.file}" (above)'
        try:
            text = read_text(path)
        except WorkloadError as error:
            self.problems += [Problem(f"{node.pos}: {p.where}", p.what, p.remedy) for p in error.problems]
            return (), ""
        self.files.append(str(path))
        nodes, expanded = self.expand(text, str(path))
        body = expanded.partition("\n")[2].rstrip("\n")
        kept = tuple(n for n in nodes if not isinstance(n, s.Title))
        return kept, f'# include "{node.file}"\n{body}\n# end of "{node.file}"'

    def find(self, node: s.Include, file: str) -> Path | None:
        """Beside the including file, else in the bundled library folder; None after reporting."""
        places = [Path(file).parent, *(folder / INCLUDE_FOLDER for folder in data_folders("workloads"))]
        for place in places:
            try:
                if node.file and (place / node.file).is_file():
                    return place / node.file
            except (OSError, ValueError):  # name too long, an odd character
                break
        known = sorted({p.name for place in places for p in place.glob("*.trace")} - {Path(file).name})
        self.problems.append(
            Problem(
                str(node.pos),
                f"no file {node.file!r} to include",
                f"it is looked for beside this file and in workloads/{INCLUDE_FOLDER}"
                + (f", which have {', '.join(known[:12])}" if known else ""),
            )
        )
        return None

    def nested(self, node: Any) -> None:
        """An include stands at the top level only: what a file defines must not depend on a variant of another."""
        for child in (*getattr(node, "body", ()), *getattr(node, "orelse", ())):
            if isinstance(child, s.Include):
                self.problems.append(Problem(str(child.pos), "'include' inside a block", "write it at the top level"))
            elif isinstance(child, s.Statement):
                self.nested(child)
