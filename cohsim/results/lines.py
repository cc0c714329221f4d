"""From a line address back to the object, instance and fields that lie on it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cohsim.errors import InputError, Problem


@dataclass(frozen=True)
class Placement:
    """One instance of an object on a line."""

    object: int  # position in the object table
    instance: int
    offset_bytes: int  # first byte of the instance that is on the line, counted from its start
    end_bytes: int  # one past the last byte of the instance that is on the line


class ObjectMap:
    """All instances of all objects, ordered by address.

    Objects of one per-CPU area interleave (same stride, different bases), so instances are kept one by one: memory grows with
    their number, a look-up costs two binary searches.
    """

    def __init__(
        self,
        base: Sequence[int] | np.ndarray,
        size_bytes: Sequence[int] | np.ndarray,
        stride_bytes: Sequence[int] | np.ndarray,
        instances: Sequence[int] | np.ndarray,
    ):
        counts = np.asarray(instances, np.int64)
        objects = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(objects)) - np.repeat(np.cumsum(counts) - counts, counts)
        start = np.asarray(base, np.int64)[objects] + np.asarray(stride_bytes, np.int64)[objects] * within
        order = np.argsort(start, kind="stable")
        self._object, self._instance, self._start = objects[order], within[order], start[order]
        self._end = self._start + np.asarray(size_bytes, np.int64)[self._object]
        # instances do not overlap in a placed workload; the running maximum keeps the search right even if they did
        self._reach = np.maximum.accumulate(self._end) if len(self._end) else self._end

    def on_line(self, address: int, line_bytes: int) -> list[Placement]:
        """The instances that have a byte in ``[address, address + line_bytes)``, by address."""
        first = int(np.searchsorted(self._reach, address, side="right"))
        last = int(np.searchsorted(self._start, address + line_bytes, side="left"))
        found = []
        for i in range(first, last):
            start, end = int(self._start[i]), int(self._end[i])
            if end > address:
                found.append(
                    Placement(
                        int(self._object[i]),
                        int(self._instance[i]),
                        max(0, address - start),
                        min(end, address + line_bytes) - start,
                    )
                )
        return found


class FieldTable:
    """Fields used in the run, by object: what lies on a byte range, busiest first."""

    def __init__(self, objects: np.ndarray, names: Sequence[str], offsets: np.ndarray, sizes: np.ndarray, weights: np.ndarray):
        self._by_object: dict[int, list[tuple[int, int, str, int]]] = {}
        for obj, name, offset, size, weight in zip(
            objects.tolist(), names, offsets.tolist(), sizes.tolist(), weights.tolist(), strict=True
        ):
            self._by_object.setdefault(obj, []).append((offset, offset + size, name, weight))

    def on(self, place: Placement) -> list[tuple[str, int]]:
        """(name, weight) of the fields of the object that overlap the placed bytes, heaviest first, each name once."""
        weight_of: dict[str, int] = {}
        for start, end, name, weight in self._by_object.get(place.object, ()):
            if start < place.end_bytes and end > place.offset_bytes:
                weight_of[name] = weight_of.get(name, 0) + weight
        return sorted(weight_of.items(), key=lambda item: (-item[1], item[0]))


def busiest(places: list[Placement], fields: FieldTable) -> Placement | None:
    """The instance a line is reported under: the one whose fields there cost most time; the first by address if none was used."""
    if not places:
        return None
    return max(places, key=lambda place: sum(weight for _, weight in fields.on(place)))


def object_map(data: Mapping[str, Any]) -> ObjectMap:
    """The address map of the objects of a result (``Result.data``)."""
    return ObjectMap(*(data[f"/objects/{column}"] for column in ("base", "size_bytes", "stride_bytes", "instances")))


def field_table(data: Mapping[str, Any]) -> FieldTable:
    """The fields used in a result (``Result.data``), weighted by the time spent at them."""
    return FieldTable(
        data["/fields/object"],
        data["/fields/field"],
        data["/fields/offset_bytes"],
        data["/fields/size_bytes"],
        data["/fields/time_fs"].sum(axis=1),
    )


class Named(Protocol):
    """What naming a line needs to know of an object."""

    @property
    def name(self) -> str: ...
    @property
    def base(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def stride_bytes(self) -> int: ...
    @property
    def instances(self) -> int: ...


LINE_NAME = re.compile(r"(0x[0-9a-fA-F]+)|([A-Za-z_][\w.]*)(?:\[(\d+|\*)\])?(?:\+(\d+))?")
MOST_LOGGED = 16


def line_address(name: str, objects: Iterable[Named], line_bytes: int, option: str) -> int:
    """Address of the line ``route+128``, ``skb[3]+64`` or ``0x1f40`` (the byte named lies on it; ``[*]`` is instance 0). Raises InputError.

    The offset is what reports print: the first byte of the object that is on the line, so 0 for an object that begins amid a line.
    """
    match = LINE_NAME.fullmatch(name.strip())
    if match is None:
        raise InputError(Problem(option, f"{name!r} does not name a line", "write OBJECT+OFFSET, such as route+128, or an address 0x…"))
    if match[1]:
        return int(match[1], 16) // line_bytes * line_bytes
    known = {o.name: o for o in objects}
    found = known.get(match[2])
    if found is None:
        near = difflib.get_close_matches(match[2], known, 3) or sorted(known)[:5]
        raise InputError(Problem(option, f"there is no object {match[2]!r}", "the workload has, for example, " + ", ".join(near)))
    instance, offset = 0 if match[3] in (None, "*") else int(match[3]), int(match[4] or 0)
    if instance >= found.instances:
        raise InputError(Problem(option, f"{name!r}: {found.name} has {found.instances} instance(s)", f"choose 0 to {found.instances - 1}"))
    if offset >= found.size_bytes:
        raise InputError(Problem(option, f"{name!r}: {found.name} has {found.size_bytes} bytes", "choose an offset inside it"))
    return (found.base + instance * found.stride_bytes + offset) // line_bytes * line_bytes


def log_addresses(names: Sequence[str], objects: Iterable[Named], line_bytes: int) -> tuple[int, ...]:
    """Addresses of the lines that ``--log-line`` names, each once. Raises InputError with every problem found."""
    found, problems = [], []
    objects = list(objects)
    for name in names:
        try:
            found.append(line_address(name, objects, line_bytes, "--log-line"))
        except InputError as error:
            problems += error.problems
    if len(set(found)) > MOST_LOGGED:
        problems.append(Problem("--log-line", f"{len(set(found))} lines", f"name at most {MOST_LOGGED}"))
    if problems:
        raise InputError(problems)
    return tuple(dict.fromkeys(found))
