"""Sweep files: an HDF5 table of all points, and a journal beside it while the sweep runs.

A point is appended to the journal (``sweep.h5.journal``, one JSON line each, synced) the moment it is done; the HDF5 file is made from it
when the sweep ends or is interrupted, whole or not at all. A kill at any moment therefore costs only the points that were running, and
:func:`load_sweep` sees what was done in either place.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np

import cohsim
from cohsim.errors import InputError, Problem
from cohsim.results.atomic import whole_file
from cohsim.sweep.definition import Sweep, difference
from cohsim.sweep.point import DONE, FAILED, MISSING, Outcome
from cohsim.sweep.statistics import HEADLINES, Estimate, estimate

FORMAT, JOURNAL_FORMAT = "cohsim-sweep", "cohsim-sweep-journal"
SCHEMA_VERSION = 1
STATUS = (MISSING, DONE, FAILED)  # its position is the number in /status
RATE = "iterations_per_second"


@dataclass(frozen=True)
class Curve:
    """Points along one axis: one entry per value, seeds combined."""

    at: dict[str, Any]  # values of the other axes
    values: list[Any]  # of the axis; only those with a finished point
    estimates: list[Estimate]


@dataclass(frozen=True)
class SweepResult:
    """A sweep as it is on disk, complete or not."""

    definition: dict[str, Any]
    outcomes: dict[int, Outcome] = field(default_factory=dict)  # by number of the point

    @cached_property
    def axes(self) -> dict[str, list[Any]]:
        """Axis name -> its values, in the order of the sweep."""
        return {name: list(values) for name, values in self.definition["axes"].items()}

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """Every point: ``inputs`` (axis values and everything fixed, by name), ``status`` (done, failed, missing), ``message``,
        ``digest``, ``host_seconds``, and ``summary`` as ``cohsim run --json`` writes it (None unless done).
        """
        fixed = {"machine": self.definition["machine"], "workload": self.definition["workload"], **self.definition["fixed"]}
        missing = Outcome(MISSING)
        return [
            {"inputs": {**fixed, **where}, **asdict(self.outcomes.get(number, missing))} for number, where in enumerate(coordinates(self.axes))
        ]

    def count(self, status: str) -> int:
        """Points with this status."""
        return sum(point["status"] == status for point in self.points)

    def curves(self, axis: str = "cpus", headline: str = RATE) -> list[Curve]:
        """The headline along ``axis`` for each combination of the other axes; points that differ in the seed only are combined."""
        others = [name for name in self.axes if name not in (axis, "seed")]
        groups: dict[tuple, dict[Any, list[float]]] = {}
        for point in self.points:
            if point["status"] == DONE and point["summary"][headline] is not None:
                along = groups.setdefault(tuple(point["inputs"][name] for name in others), {})
                along.setdefault(point["inputs"][axis], []).append(float(point["summary"][headline]))
        return [
            Curve(dict(zip(others, at, strict=True)), list(along), [estimate(values) for values in along.values()])
            for at, along in groups.items()
        ]


def coordinates(axes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Axis values of every point, the last axis fastest: the order of the numbers of points."""
    where: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        where = [{**before, name: value} for before in where for value in values]
    return where


def load_sweep(path: str | Path) -> SweepResult:
    """Read a sweep file, finished, interrupted or still running. Raises InputError if there is none or it is not a sweep."""
    path = Path(path)
    stored = _read_table(path) if path.exists() else None
    journal = journal_path(path)
    running = _read_journal(journal) if journal.exists() and journal.stat().st_size else None  # empty: somebody is just about to begin it
    if stored is None and running is None:
        raise InputError(Problem(str(path), "no such file", "name a file written by cohsim sweep -o"))
    if stored is None or running is None:
        return stored or running  # type: ignore[return-value]
    if difference(stored.definition, running.definition):
        raise InputError(Problem(str(journal), f"belongs to another sweep than {path.name}", "remove the one that is not wanted"))
    return SweepResult(stored.definition, {**stored.outcomes, **running.outcomes})


def journal_path(path: Path) -> Path:
    """The journal of a sweep file."""
    return path.with_name(path.name + ".journal")


class Journal:
    """A sweep file while it is written: holds the lock, appends outcomes, makes the table in the end."""

    def __init__(self, path: Path, sweep: Sweep):
        """Open or continue ``path``. Raises InputError if another sweep is in it, or somebody is writing it now."""
        self.path, self.definition = path, sweep.describe()
        self._journal = journal_path(path)
        self._file: IO[str] = open(self._journal, "a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise InputError(Problem(str(path), "another cohsim sweep is writing it", "wait for it, or choose another name")) from error
        try:
            self.outcomes = self._earlier()
            self._begin()
        except BaseException:
            if not self._journal.stat().st_size:
                self._journal.unlink()
            self._file.close()
            raise

    def _earlier(self) -> dict[int, Outcome]:
        """Points that have an outcome already. A failed one is not tried again: the same inputs would fail the same way."""
        if not self.path.exists() and not self._journal.stat().st_size:
            return {}
        found = load_sweep(self.path) if self._journal.stat().st_size else _read_table(self.path)
        other = difference(found.definition, self.definition)
        if other:
            raise InputError(Problem(str(self.path), f"holds another sweep: {other}", "give another name with -o, or remove the file"))
        return dict(found.outcomes)

    def _begin(self) -> None:
        """A fresh journal that starts with the definition and what is known, so that a line cut short by a kill is gone."""
        with whole_file(self._journal) as temporary:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(json.dumps({"format": JOURNAL_FORMAT, "schema": SCHEMA_VERSION, "definition": self.definition}) + "\n")
                for number, outcome in self.outcomes.items():
                    file.write(_line(number, outcome))
                file.flush()
                os.fsync(file.fileno())
            fresh = open(temporary, "a", encoding="utf-8")
            fcntl.flock(fresh, fcntl.LOCK_EX)  # before it gets its name, so that nobody else can lock it first
        self._file.close()
        self._file = fresh

    def add(self, number: int, outcome: Outcome) -> None:
        """Keep one outcome; it survives a kill from here on."""
        self.outcomes[number] = outcome
        self._file.write(_line(number, outcome))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> SweepResult:
        """Make the table of what is there and remove the journal."""
        result = SweepResult(self.definition, dict(sorted(self.outcomes.items())))
        write_table(result, self.path)
        self._journal.unlink()
        self._file.close()
        return result


def _line(number: int, outcome: Outcome) -> str:
    return json.dumps({"point": number, **asdict(outcome)}, allow_nan=False) + "\n"


def _read_journal(path: Path) -> SweepResult:
    lines = path.read_text(encoding="utf-8").split("\n")
    try:
        head = json.loads(lines[0])
        if head["format"] != JOURNAL_FORMAT or head["schema"] != SCHEMA_VERSION:
            raise ValueError("another format")
        rows = [json.loads(line) for line in lines[1:-1]]  # what follows the last newline was cut short by a kill
        return SweepResult(head["definition"], {row.pop("point"): Outcome(**row) for row in rows})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(Problem(str(path), f"is not a journal of this cohsim ({error})", "remove it to start over")) from error


# ---- the table


def write_table(result: SweepResult, path: Path) -> None:
    """Write all points as HDF5, whole or not at all: one array per headline over the axes, opens with xarray; summaries under /points."""
    with whole_file(path) as temporary, h5py.File(temporary, "w", track_order=True) as file:
        file.attrs["format"] = FORMAT
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["cohsim_version"] = cohsim.__version__
        file.attrs["definition"] = json.dumps(result.definition)
        _coordinates(file, result.axes)
        names = list(result.axes)
        shape = tuple(len(values) for values in result.axes.values())
        points = result.points
        status = np.array([STATUS.index(point["status"]) for point in points], "i1").reshape(shape)
        _array(file, "status", status, names, "1", "; ".join(f"{i} {word}" for i, word in enumerate(STATUS)))
        for name, (unit, meaning) in HEADLINES.items():
            values = [np.nan if p["summary"] is None or p["summary"][name] is None else float(p["summary"][name]) for p in points]
            _array(file, name, np.array(values).reshape(shape), names, unit, meaning + "; NaN where the point is not done")
        _shares(file, result, shape, "function_share", "function", "functions", "share of busy time of a function, atomics in their callers")
        _shares(file, result, shape, "primitive_share", "primitive", "primitives", "share of busy time of an atomic, and of functions without")
        _details(file, points)


def _coordinates(file: h5py.File, axes: Mapping[str, list[Any]]) -> None:
    for name, values in axes.items():
        numbers = all(isinstance(value, int) for value in values)
        scale = file.create_dataset(name, data=values, dtype="i8" if numbers else h5py.string_dtype())
        scale.attrs["description"] = "axis of the sweep"
        scale.make_scale(name)


def _array(file: h5py.File, name: str, values: np.ndarray, axes: list[str], unit: str, description: str) -> None:
    dataset = file.create_dataset(name, data=values)
    dataset.attrs["unit"], dataset.attrs["description"] = unit, description
    dataset.attrs["axes"] = axes if axes else h5py.Empty(h5py.string_dtype())
    for dimension, axis in zip(dataset.dims, axes, strict=True):
        dimension.label = axis
        dimension.attach_scale(file[axis])


def _shares(file: h5py.File, result: SweepResult, shape: tuple[int, ...], name: str, axis: str, rows: str, meaning: str) -> None:
    names: dict[str, int] = {}
    for point in result.points:
        for row in point["summary"][rows] if point["summary"] else ():
            names.setdefault(row["name"], len(names))
    values = np.full((len(result.points), len(names)), np.nan)
    for number, point in enumerate(result.points):
        if point["summary"]:
            values[number] = 0.0
            for row in point["summary"][rows]:
                values[number, names[row["name"]]] = row["share"]
    if names:
        _coordinates(file, {axis: list(names)})
        _array(file, name, values.reshape((*shape, len(names))), [*result.axes, axis], "1", meaning)


def _details(file: h5py.File, points: list[dict[str, Any]]) -> None:
    group = file.create_group("points", track_order=True)
    group.attrs["description"] = "one row per point, the last axis fastest"
    for name, meaning in (
        ("message", "why the point failed"),
        ("digest", "SHA-256 of all datasets of the result"),
        ("summary", "JSON, as cohsim run --json"),
    ):
        texts = [("" if p[name] is None else p[name] if isinstance(p[name], str) else json.dumps(p[name])).encode() for p in points]
        width = max([1, *map(len, texts)])
        dataset = group.create_dataset(
            name, data=np.array(texts, h5py.string_dtype("utf-8", width)), chunks=(1,), compression="gzip"
        )
        dataset.attrs["description"] = meaning
    seconds = group.create_dataset("host_seconds", data=[float(p["host_seconds"]) for p in points])
    seconds.attrs["unit"], seconds.attrs["description"] = "s", "host time of the point"


def _read_table(path: Path) -> SweepResult:
    try:
        with h5py.File(path, "r") as file:
            if file.attrs.get("format") != FORMAT:
                raise InputError(Problem(str(path), "is an HDF5 file but not a cohsim sweep", "name a file written by cohsim sweep -o"))
            if int(file.attrs["schema_version"]) != SCHEMA_VERSION:
                what = f"has sweep schema {file.attrs['schema_version']}, this cohsim reads {SCHEMA_VERSION}"
                raise InputError(Problem(str(path), what, f"read it with cohsim {file.attrs.get('cohsim_version')}"))
            definition = json.loads(file.attrs["definition"])
            status = file["status"][()].ravel().tolist()
            columns = {name: file["points"][name].asstr()[:].tolist() for name in ("message", "digest", "summary")}
            seconds = file["points/host_seconds"][:].tolist()
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(Problem(str(path), f"cannot be read as a sweep ({reason})", "it may be cut short; remove it and run again")) from error
    outcomes = {}
    for number, code in enumerate(np.atleast_1d(status)):
        if STATUS[code] != MISSING:
            text = columns["summary"][number]
            outcomes[number] = Outcome(
                STATUS[code], columns["message"][number], columns["digest"][number], json.loads(text) if text else None, seconds[number]
            )
    return SweepResult(definition, outcomes)
