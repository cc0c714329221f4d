"""The result of one run: named arrays as the registry declares them, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cohsim.results import registry

Value = np.ndarray | list[str] | str | int | float


@dataclass(frozen=True)
class Result:
    """``data`` maps dataset paths to values and depends on the inputs alone; ``host`` is everything that depends on where and
    when the run was made (host name, start time, durations, versions, command).

    Arrays for kind int and float (scalars are plain numbers), lists of str for text (scalars are str).
    """

    data: Mapping[str, Value]
    host: Mapping[str, str | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path, value in self.data.items():
            _check(registry.declaration(path), path, value)

    def has(self, path: str) -> bool:
        """Whether the result has the dataset: files of earlier versions lack what was declared later."""
        return path in self.data

    def array(self, path: str) -> np.ndarray:
        """A numeric dataset with at least one axis."""
        value = self.data[path]
        assert isinstance(value, np.ndarray), path
        return value

    def names(self, path: str) -> list[str]:
        """A text dataset with one axis."""
        value = self.data[path]
        assert isinstance(value, list), path
        return value

    def text(self, path: str) -> str:
        """A scalar text dataset."""
        value = self.data[path]
        assert isinstance(value, str), path
        return value

    def number(self, path: str) -> int:
        """A scalar integer dataset."""
        value = self.data[path]
        assert isinstance(value, int), path
        return value

    @property
    def settings(self) -> dict[str, Any]:
        """What the command line set."""
        return dict(json.loads(self.text("/provenance/settings")))

    @property
    def cpus(self) -> int:
        """CPUs of the run."""
        return len(self.array("/threads/machine_cpu"))


def _check(declared: registry.Dataset, path: str, value: Value) -> None:
    """A value of the wrong kind or rank is a programming error: fail here rather than in a reader years later."""
    axes = len(declared.axes)
    if declared.kind == "text":
        good = isinstance(value, str) if axes == 0 else isinstance(value, list)
    elif axes == 0:
        good = isinstance(value, int if declared.kind == "int" else float)
    else:
        good = (
            isinstance(value, np.ndarray) and value.ndim == axes and value.dtype.kind == ("i" if declared.kind == "int" else "f")
        )
    if not good:
        raise TypeError(f"{path}: {type(value).__name__} is not {declared.kind} with axes {declared.axes}")
