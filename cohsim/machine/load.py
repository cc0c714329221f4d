"""Read and validate a machine file: every problem at once, each with file, line, key and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from cohsim.datafiles import find_data, nearest
from cohsim.errors import MachineError, Problem
from cohsim.machine.document import COMMAND_LINE, COMMAND_LINE_WHY, Document, Node, read_document
from cohsim.machine.rules import check_rules
from cohsim.machine.schema import (
    LAST_LEVEL,
    LEAVES,
    ROOT,
    SCHEMA_VERSION,
    SOURCE_KEYS,
    SOURCE_KINDS,
    Key,
    Number,
    Section,
    Text,
    Word,
)
from cohsim.machine.spec import MachineSpec, Source, Value
from cohsim.machine.units import (
    Dimension,
    Quantity,
    Range,
    ValueFault,
    decimal,
    example,
    parse_quantity,
    parse_range,
    shorten,
    split_source,
)

_NEEDED = {"documented": ("ref",), "measured": ("ref",), "calibrated": ("against", "range"), "assumed": ("why",)}
_SOURCE_NAME = re.compile(r"^[\w.-]+$", re.ASCII)


def load_machine(name_or_path: str, overrides: Sequence[str] = ()) -> MachineSpec:
    """The machine ``name_or_path`` (``t4240``, ``my/machine.yaml``) with ``overrides`` (``caches.l2.hit=14cycles``).

    Raises MachineError with all problems.
    """
    document = read_document(find_data("machines", name_or_path, ".yaml"), overrides)
    validator = _Validator(document, list(document.problems))
    spec = validator.run()
    spec = MachineSpec(spec.values, spec.sources, spec.files, tuple(overrides))
    problems = validator.problems + check_rules(spec, complete=not validator.problems)
    if problems:
        raise MachineError(sorted(problems, key=_order(document)))
    return spec


def _order(document: Document) -> Callable[[Problem], tuple[int, int]]:
    """Sort key of problems: by file in order of extension, then line; command line last."""
    files = {str(path): index for index, path in enumerate(document.files)}

    def key(problem: Problem) -> tuple[int, int]:
        file, _, line = problem.where.rpartition(":")
        return (files[file], int(line)) if file in files and line.isdigit() else (len(files), 0)

    return key


@dataclass
class _Validator:
    document: Document
    problems: list[Problem]
    values: dict[str, Value] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)  # keys given but not valid: not "missing", and conditions on them are open
    used: set[str] = field(default_factory=set)

    def run(self) -> MachineSpec:
        root = self.document.root
        self._read_sources(root)
        self._check_schema_version()
        self._section(root, ROOT, "")
        self._conditions()
        self._unused_sources()
        values = {path: self.values[path] for path in LEAVES if path in self.values}
        kept = {value.source for value in values.values()}
        return MachineSpec(
            values, {key: source for key, source in self.sources.items() if key in kept}, tuple(self.document.files)
        )

    def _say(self, where: str, what: str, remedy: str = "") -> None:
        self.problems.append(Problem(where, what, remedy))

    # ---- sources

    def _read_sources(self, root: Node) -> None:
        if any(layer_value.default_source for layer_value in _walk(root)):
            self.sources[COMMAND_LINE] = Source(COMMAND_LINE, "assumed", why=COMMAND_LINE_WHY)
        node = root.children.get("sources")
        if node is None:
            return
        if not node.is_section:
            self._say(node.where, "sources: needs keys, not a value", "write sources: {gcc: {kind: documented, ref: ...}}")
            return
        for key, child in node.children.items():
            source = self._source(key, child)
            self.sources[key] = source

    def _source(self, key: str, node: Node) -> Source:
        """The source, as far as it can be read; faults are noted."""
        path = f"sources.{key}"
        if not _SOURCE_NAME.match(key):
            self._say(node.where, f"{path}: not a source name", "use letters, digits, _ . -")
        if not node.is_section or node.broken:
            self._say(node.where, f"{path}: needs keys", f"write {key}: {{kind: documented, ref: ...}}")
            return Source(key, "", where=node.where)
        texts: dict[str, str] = {}
        for name, child in node.children.items():
            if name not in SOURCE_KEYS:
                self._unknown(child.where, f"{path}.{name}", name, SOURCE_KEYS)
            elif child.text is None or not child.text.strip():
                self._say(child.where, f"{path}.{name}: needs text")
            else:
                texts[name] = " ".join(child.text.split())
        kind = texts.get("kind", "")
        if kind not in SOURCE_KINDS:
            where = node.children["kind"].where if "kind" in node.children else node.where
            what = f"unknown kind {shorten(kind)}" if kind else "missing key 'kind'"
            self._say(where, f"{path}: {what}", f"kinds are {', '.join(SOURCE_KINDS)}")
        for name in _NEEDED.get(kind, ()):
            if name not in node.children:
                self._say(node.where, f"{path}: {kind} sources need {name!r}", f"add {name}: ...")
        bounds: Range | None = None
        if "range" in texts:
            try:
                bounds = parse_range(texts["range"])
            except ValueFault as fault:
                self._say(node.children["range"].where, f"{path}.range: {fault.what}", fault.remedy)
        return Source(key, kind, texts.get("ref", ""), texts.get("against", ""), texts.get("why", ""), bounds, node.where)

    def _unused_sources(self) -> None:
        """Sources of the file itself that no value of any of its layers names (a base's sources are the base's business)."""
        sources = self.document.layers[0].children.get("sources")
        if sources is None:
            return
        for layer in self.document.layers:
            for node in _walk(layer, skip=("sources", "name", "title")):
                if node.text is not None:
                    self.used.add(split_source(node.text)[1] or "")
        for key, node in sources.children.items():
            if key not in self.used and key != COMMAND_LINE:
                self._say(node.where, f"sources.{key}: is used by no value", f"remove it, or name it as [{key}] behind a value")

    # ---- keys and values

    def _check_schema_version(self) -> None:
        for layer in self.document.layers:
            node = layer.children.get("schema")
            if node is None:
                self._say(layer.where, "schema: missing", f"add schema: {SCHEMA_VERSION}")
            elif node.text != str(SCHEMA_VERSION):
                version = shorten(node.text or "")
                self._say(
                    node.where, f"schema: version {version} is not supported", f"this cohsim reads schema: {SCHEMA_VERSION}"
                )

    def _section(self, node: Node, section: Section, path: str) -> None:
        allowed = [*section.keys, *(["sources"] if not path else [])]
        for name, child in node.children.items():
            child_path = f"{path}.{name}" if path else name
            key = section.keys.get(name)
            if key is not None:
                self._key(child, key, child_path)
            elif name != "sources" or path:
                self._unknown(child.where, child_path, name, allowed)
        for name, key in section.keys.items():
            child_path = f"{path}.{name}" if path else name
            if name not in node.children and name != "schema":
                self._missing(node.where, key, child_path)

    def _key(self, node: Node, key: Key, path: str) -> None:
        if node.broken:
            self.bad.add(path)
        elif isinstance(key, Section):
            if node.is_section:
                self._section(node, key, path)
            else:
                self._say(node.where, f"{path}: needs keys, not a value", f"its keys are {', '.join(key.keys)}")
        elif node.text is None:
            self._say(node.where, f"{path}: needs one value, not keys", f"write {path.rpartition('.')[2]}: {_example(key)}")
            self.bad.add(path)
        elif path == "schema":
            pass
        else:
            value = self._value(node, node.text, key, path)
            if value is None:
                self.bad.add(path)
            else:
                self.values[path] = value

    def _missing(self, where: str, key: Key, path: str) -> None:
        if isinstance(key, Section):
            if not key.optional:
                self._say(where, f"{path}: missing section", f"its keys are {', '.join(key.keys)}")
        elif getattr(key, "required", True) and getattr(key, "only", None) is None:
            self._say(where, f"{path}: missing", f"add {path.rpartition('.')[2]}: {_example(key)}")

    def _unknown(self, where: str, path: str, name: str, allowed: Sequence[str]) -> None:
        elsewhere = [leaf for leaf in LEAVES if leaf.rpartition(".")[2] == name]
        close = nearest(name, allowed) or nearest(path, elsewhere, cutoff=0.0) or nearest(path, LEAVES)
        if "." in name:
            remedy = "nest the keys, a: {b: ...}, instead of a.b: ..."
        else:
            remedy = f"did you mean {close!r}?" if close else f"keys here are {', '.join(allowed)}"
        self._say(where, f"{path}: unknown key", remedy)

    def _value(self, node: Node, text: str, key: Number | Word | Text, path: str) -> Value | None:
        if isinstance(key, Text):
            word = " ".join(text.split())
            if not word:
                self._say(node.where, f"{path}: is empty", f"it is the {key.meaning}")
                return None
            return Value(path, node.where, word=word)
        body, source = split_source(text)
        source = source if source is not None else node.default_source
        quantity: Quantity | None = None
        if isinstance(key, Word):
            body = {"true": "yes", "false": "no"}.get(body.lower(), body) if "yes" in key.choices else body
            valid = body in key.choices
            if not valid:
                close = nearest(body, key.choices)
                remedy = f"did you mean {close!r}?" if close else f"choose from {', '.join(key.choices)}"
                self._say(node.where, f"{path}: {shorten(body)} is none of its words", remedy)
            valid = self._known_source(node, path, source, needed=False) and valid
            return Value(path, node.where, word=body, source=source) if valid else None
        try:
            quantity = parse_quantity(body, key.dimension)
        except ValueFault as fault:
            self._say(node.where, f"{path}: {fault.what}", fault.remedy)
        valid = quantity is not None and self._bounded(node, path, key, quantity)
        valid = self._known_source(node, path, source, needed=True) and valid
        return Value(path, node.where, quantity=quantity, source=source) if valid else None

    def _bounded(self, node: Node, path: str, key: Number, quantity: Quantity) -> bool:
        if key.positive and quantity.number == 0:
            self._say(node.where, f"{path}: must be more than 0", f"write {example(key.dimension)}")
            return False
        amount = quantity.number if key.dimension is Dimension.TIME else quantity.base
        if key.least <= amount <= key.most:
            return True
        unit = {
            Dimension.TIME: f" {quantity.unit}",
            Dimension.SIZE: " B",
            Dimension.FREQUENCY: " Hz",
            Dimension.BANDWIDTH: " B/s",
        }
        relation, limit = ("more", key.most) if amount > key.most else ("less", key.least)
        self._say(
            node.where,
            f"{path}: {quantity} is {relation} than {decimal(Fraction(limit))}{unit.get(key.dimension, '')}",
            f"it is: {key.meaning}",
        )
        return False

    def _known_source(self, node: Node, path: str, source: str | None, *, needed: bool) -> bool:
        if source is None:
            if needed:
                self._say(node.where, f"{path}: has no source", "add [source] behind it, and say under sources: where it is from")
            return not needed
        if source in self.sources:
            return True
        close = nearest(source, self.sources)
        remedy = f"did you mean {close!r}?" if close else "declare it under sources:"
        self._say(node.where, f"{path}: unknown source {shorten(source)}", remedy)
        return False

    # ---- keys that depend on others

    def _conditions(self) -> None:
        for path, key in LEAVES.items():
            only = getattr(key, "only", None)
            if only is None or only.needs not in self.values:
                continue
            holds = only.holds(self.values[only.needs].text)
            if holds and path not in self.values and path not in self.bad:
                section = self._where_section(path)
                if section is not None:
                    self._say(section, f"{path}: missing ({only.text})", f"add {path.rpartition('.')[2]}: {_example(key)}")
            elif not holds and path in self.values:
                self._say(self.values[path].where, f"{path}: has a meaning only where {only.text}", "remove it")
        given = [path for path in LAST_LEVEL if any(value.startswith(path + ".") for value in self.values)]
        if len(given) > 1:
            where = next(value.where for path, value in self.values.items() if path.startswith(given[1]))
            self._say(where, f"{given[1]}: {given[0]} is there too", "a home has one cache: keep l3 or cpc")

    def _where_section(self, path: str) -> str | None:
        """Where the section of ``path`` was written; None if it is not there (reported already)."""
        node = self.document.root
        for step in path.split(".")[:-1]:
            if step not in node.children:
                return None
            node = node.children[step]
        return node.where


def _walk(node: Node, skip: Sequence[str] = ()) -> list[Node]:
    """All nodes with a value below ``node``."""
    found: list[Node] = []
    for name, child in node.children.items():
        if name in skip:
            continue
        found.extend(_walk(child) if child.is_section else [child])
    return found


def _example(key: Key) -> str:
    """A value that could stand there."""
    if isinstance(key, Word):
        return " or ".join(key.choices)
    if isinstance(key, Number):
        unit = key.dimension.units[0]
        return f"{'N' if not unit else 'N ' + unit} [source]"
    return "..."
