"""Every exception cohsim raises on purpose.

CohsimError
├── InputError          a file, option or value the user gave is wrong            exit code 2
│   ├── MachineError    machine file
│   ├── WorkloadError   workload file
│   └── TraceError      recorded trace
├── ProtocolTableError  a protocol table is malformed                            exit code 2
└── SimulationError     the simulated system failed: deadlock, livelock, a broken invariant   exit code 1
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Problem:
    """One fault in an input: where, what, and what to do about it."""

    where: str          # "file:line" or "file:line:column", or the option's name
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f"; {self.remedy}" if self.remedy else "")


class CohsimError(Exception):
    """Base of all cohsim errors."""


class InputError(CohsimError):
    """One or more problems in what the user gave; ``problems`` lists them all, one line each when printed."""

    def __init__(self, problems: Problem | list[Problem]):
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class MachineError(InputError):
    """A machine file is wrong."""


class WorkloadError(InputError):
    """A workload file is wrong."""


class TraceError(InputError):
    """A recorded trace is wrong."""


class ProtocolTableError(CohsimError):
    """A protocol table is malformed; the message names controller and row."""


class SimulationError(CohsimError):
    """The simulated system failed; ``report`` says who waits for what."""

    def __init__(self, message: str, report: str = ""):
        super().__init__(message)
        self.report = report


def of_all(function: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
    """``function`` of every item. Raises InputError with the problems of all of them at once."""
    made: list[Made] = []
    problems: list[Problem] = []
    for item in items:
        try:
            made.append(function(item))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return made
