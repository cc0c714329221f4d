"""What a sweep runs: fixed inputs and axes, expanded to points in a fixed order."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cohsim
from cohsim.datafiles import find_data
from cohsim.errors import InputError, Problem
from cohsim.experiment import RECORDED_SUFFIX
from cohsim.machine import load_machine
from cohsim.sweep.point import Point

NONE = "none"  # the alternative of an axis that changes nothing
JOIN = "+"  # between things that belong to one alternative: a+b
LISTS = {"variant": "variants", "layout": "layouts", "lock": "locks", "isa": "isa_options"}
"""Axes whose values are lists of options; axis name -> field of Point. ``none`` is the empty list, ``a+b`` has two."""

AxisValue = int | str


@dataclass(frozen=True)
class Sweep:
    """``base`` with each combination of the axes. Axis names: cpus, seed, variant, layout, lock, isa, or a machine key (``caches.l2.hit``)."""

    base: Point
    axes: Mapping[str, tuple[AxisValue, ...]]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Values on each axis."""
        return tuple(len(values) for values in self.axes.values())

    def coordinates(self) -> Iterator[dict[str, AxisValue]]:
        """Axis values of every point; the last axis varies fastest."""
        for values in itertools.product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))

    @cached_property
    def points(self) -> list[Point]:
        """Every point, in the order of :meth:`coordinates`."""
        return [self.at(where) for where in self.coordinates()]

    def at(self, where: Mapping[str, AxisValue]) -> Point:
        """The base with some axes set."""
        point = self.base
        for axis, value in where.items():
            if axis in ("cpus", "seed"):
                assert isinstance(value, int)
                point = replace(point, cpus=value) if axis == "cpus" else replace(point, seed=value)
            elif axis in LISTS:
                extra = () if value == NONE else tuple(str(value).split(JOIN))
                point = replace(point, **{LISTS[axis]: getattr(point, LISTS[axis]) + extra})
            else:
                point = replace(point, overrides=(*point.overrides, f"{axis}={value}"))
        return point

    def check(self) -> None:
        """Compile every axis value once, with the first values of the other axes, so that a slip is reported before hours of work.

        Raises InputError with all problems. A combination that only fails together is a failed point later.
        """
        first = {axis: values[0] for axis, values in self.axes.items()}
        others = [{axis: value} for axis, values in self.axes.items() if axis != "seed" for value in values[1:]]
        problems: list[Problem] = []
        for change in ({}, *others):
            try:
                self.at({**first, **change}).prepare()
            except InputError as error:
                problems += [problem for problem in error.problems if problem not in problems]
        if problems:
            raise InputError(problems)

    def describe(self) -> dict[str, Any]:
        """JSON-ready definition. Two sweeps with equal descriptions give equal results; paths are not part of it, contents are."""
        workload = find_data("workloads", self.base.workload, RECORDED_SUFFIX if self.base.workload.endswith(RECORDED_SUFFIX) else ".trace")
        fixed = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self.base).items()
            if name not in ("machine", "workload")
        }
        return {
            "cohsim": cohsim.__version__,
            "machine": self.base.machine,
            "machine_digest": _digest(b"".join(file.read_bytes() for file in load_machine(self.base.machine).files)),
            "workload": self.base.workload,
            "workload_digest": _digest(workload.read_bytes()),
            "fixed": fixed,
            "axes": {axis: list(values) for axis, values in self.axes.items()},
        }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """What differs between two definitions, in words; None if they are the same sweep. Names of files do not matter, contents do."""
    found = []
    for key in ("machine", "workload"):
        if old[f"{key}_digest"] != new[f"{key}_digest"]:
            same = old[key] == new[key]
            found.append(f"{key} {old[key]}" + (" with other contents" if same else f" instead of {new[key]}"))
    for group in ("axes", "fixed"):
        for name in dict.fromkeys([*new[group], *old[group]]):
            a, b = old[group].get(name), new[group].get(name)
            if a != b:
                found.append(f"{name} {_shown(a)} instead of {_shown(b)}")
    if old["cohsim"] != new["cohsim"]:
        found.append(f"cohsim {old['cohsim']} instead of {new['cohsim']}")
    return ", ".join(found) or None


def _shown(value: Any) -> str:
    if value is None or value == []:
        return NONE
    if isinstance(value, list):
        consecutive = all(isinstance(v, int) for v in value) and len(value) > 2 and value == list(range(value[0], value[-1] + 1))
        return f"{value[0]}-{value[-1]}" if consecutive else ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)
