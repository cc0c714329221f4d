"""A machine file as a tree of keys that remember their file and line: YAML, ``extends`` and ``--set``."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cohsim.datafiles import data_folders
from cohsim.errors import MachineError, Problem
from cohsim.machine.units import shorten

MAX_BYTES = 1 << 20
MAX_DEPTH = 8  # deepest key of the schema is at 4
MAX_EXTENDS = 8
_KEY = re.compile(r"^[\w.-]{1,64}$")  # also keeps a message on one line
COMMAND_LINE = "command-line"
COMMAND_LINE_WHY = "--set on the command line"


@dataclass
class Node:
    """A value (``text``) or a mapping (``children``) and where it was written."""

    where: str  # "file:line", or the --set option
    text: str | None = None
    children: dict[str, Node] = field(default_factory=dict)
    default_source: str | None = None  # where the text names no source (values of --set)
    broken: bool = False  # already reported; say no more about it

    @property
    def is_section(self) -> bool:
        return self.text is None


@dataclass
class Document:
    """The merged tree, what it was made from, and the problems met on the way."""

    root: Node
    files: list[Path]  # the file itself first, then what it extends
    layers: list[Node]  # trees before merging, the file itself first
    problems: list[Problem]


class _Loader(yaml.SafeLoader):
    """Composes nodes only: no alias (their cycles and bombs have no use here; ``extends`` shares pieces), bounded depth."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        peek: Any = self.peek_event  # untyped in the stubs
        event: Any = peek()
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not supported; use extends", mark)
        if self.depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", mark)
        self.depth += 1
        try:
            node: yaml.Node | None = super().compose_node(parent, index)
            return node
        finally:
            self.depth -= 1


def read_document(path: Path, overrides: Sequence[str] = ()) -> Document:
    """Read ``path``, merge what it extends below it and ``overrides`` (``key.path=value``) over it.

    Raises MachineError where there is no tree to speak of (missing, unreadable, binary, not YAML, not a mapping,
    circular extends); lesser faults are in ``problems`` of the result.
    """
    problems: list[Problem] = []
    files = [path]
    layers = [_read_tree(path, problems)]
    while (extends := layers[-1].children.get("extends")) is not None:
        layers[-1].children.pop("extends")
        base = _base_file(extends, files)
        if base is None:
            problems.append(Problem(extends.where, "extends: must be the name of one file", "write extends: other.yaml"))
            break
        files.append(base)
        layers.append(_read_tree(base, problems))
    root = layers[-1]
    for layer in reversed(layers[:-1]):
        root = _merge(root, layer)
    if overrides:
        root = copy.deepcopy(root)  # the layers keep what the files say
    seen: set[str] = set()
    for override in overrides:
        problem = _apply(root, override, seen)
        if problem:
            problems.append(problem)
    return Document(root, files, layers, problems)


def _base_file(extends: Node, files: list[Path]) -> Path | None:
    """The file ``extends`` names: beside the file that says so, else bundled."""
    if extends.text is None or not extends.text.strip():
        return None
    name = extends.text.strip()
    candidates = [files[-1].parent / name, *(folder / name for folder in data_folders("machines"))]
    try:
        found = next((candidate for candidate in candidates if candidate.is_file()), None)
        if found is None:
            remedy = f"looked beside {files[-1]} and in the bundled machines"
            raise MachineError(Problem(extends.where, f"extends: no such file {shorten(name)}", remedy))
        if any(found.samefile(file) for file in files):
            raise MachineError(Problem(extends.where, f"extends: {shorten(name)} extends itself", "break the circle"))
    except (OSError, ValueError) as fault:
        raise MachineError(
            Problem(extends.where, f"extends: {shorten(name)} cannot be used: {fault}", "check the path")
        ) from fault
    if len(files) >= MAX_EXTENDS:
        raise MachineError(Problem(extends.where, f"extends: more than {MAX_EXTENDS} files in a row", "flatten them"))
    return found


def _read_tree(path: Path, problems: list[Problem]) -> Node:
    text = _read_text(path)
    try:
        composed = _Loader(text).get_single_node()
    except yaml.YAMLError as fault:
        raise MachineError(_yaml_problem(path, fault)) from fault
    if composed is None:
        raise MachineError(Problem(str(path), "is empty", "a machine file starts with schema: 1"))
    if not isinstance(composed, yaml.MappingNode):
        where = f"{path}:{composed.start_mark.line + 1}"
        raise MachineError(Problem(where, "is not a machine file: no keys", "it starts with schema: 1"))
    return _tree(composed, path, "", problems)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as fault:
        raise MachineError(
            Problem(str(path), f"cannot be read: {fault.strerror or fault}", "check the path and its permissions")
        ) from fault
    if len(raw) > MAX_BYTES:
        raise MachineError(Problem(str(path), f"is larger than {MAX_BYTES // 1024} KiB", "this is no machine file"))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise MachineError(Problem(str(path), f"is not UTF-8 text (byte {fault.start})", "this is no machine file")) from fault
    if "\0" in text:
        raise MachineError(Problem(str(path), "is a binary file", "this is no machine file"))
    return text


def _yaml_problem(path: Path, fault: yaml.YAMLError) -> Problem:
    mark = getattr(fault, "problem_mark", None)
    what = getattr(fault, "problem", None) or getattr(fault, "reason", None) or "cannot be parsed"
    where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
    remedy = "correct the YAML"
    if "aliases" in what or "nested" in what:
        return Problem(where, f"not a machine file: {what}")
    if "'['" in what or "expected <block end>" in what or "',' or '}'" in what:
        remedy = 'in flow style { } quote values with a source: "3 cycles [gcc]"'
    return Problem(where, f"not valid YAML: {what}", remedy)


def _tree(composed: yaml.MappingNode, path: Path, prefix: str, problems: list[Problem]) -> Node:
    node = Node(f"{path}:{composed.start_mark.line + 1}")
    for key_node, value_node in composed.value:
        where = f"{path}:{key_node.start_mark.line + 1}"
        if not isinstance(key_node, yaml.ScalarNode) or not _KEY.match(key_node.value):
            problems.append(Problem(where, f"{prefix or 'top level'}: a key must be one word", "see machine show for the keys"))
            continue
        key = key_node.value
        key_path = f"{prefix}.{key}" if prefix else key
        if key in node.children:
            problems.append(Problem(where, f"{key_path}: duplicate key, first at {node.children[key].where}", "keep one of them"))
            continue
        if isinstance(value_node, yaml.MappingNode):
            child = _tree(value_node, path, key_path, problems)
            child.where = where
        elif isinstance(value_node, yaml.ScalarNode):
            child = Node(where, text=value_node.value)
        else:
            problems.append(Problem(where, f"{key_path}: a list has no meaning here", "write one value"))
            child = Node(where, broken=True)
        node.children[key] = child
    return node


def _merge(base: Node, over: Node) -> Node:
    """``over`` laid upon ``base``: mappings key by key, anything else replaces."""
    if not (base.is_section and over.is_section):
        return over
    merged = Node(over.where, children=dict(base.children))
    for key, child in over.children.items():
        merged.children[key] = _merge(base.children[key], child) if key in base.children else child
    return merged


def _apply(root: Node, override: str, seen: set[str]) -> Problem | None:
    """Put ``key.path=value`` into the tree; a value without a source gets the command line as its (assumed) source."""
    path, equals, value = override.partition("=")
    path, value = path.strip(), value.strip()
    shown = "".join(c if c.isprintable() else "?" for c in override[:80])
    where = f"--set {shown}{'...' if len(override) > 80 else ''}"
    if not equals or not path or not value:
        return Problem(where, "is not KEY=VALUE", "write for example --set caches.l2.hit=14cycles")
    if path in seen:
        return Problem(where, f"{path}: set twice", "keep one of them")
    seen.add(path)
    steps = path.split(".")
    if steps[0] in ("schema", "extends"):
        return Problem(where, f"{path}: cannot be set on the command line", "write a file that extends the machine")
    node = root
    for depth, step in enumerate(steps[:-1]):
        if step not in node.children:
            node.children[step] = Node(where)
        node = node.children[step]
        if not node.is_section:
            return Problem(where, f"{path}: {'.'.join(steps[: depth + 1])} holds a value, not keys", "shorten the key")
    present = node.children.get(steps[-1])
    if present is not None and present.is_section:
        return Problem(where, f"{path}: holds keys, not a value", f"set one of {', '.join(present.children)}")
    node.children[steps[-1]] = Node(where, text=value, default_source=COMMAND_LINE)
    return None
