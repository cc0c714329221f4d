"""Option values that several commands read, and where their output goes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from cohsim.cli.main import EXIT_INPUT
from cohsim.errors import InputError
from cohsim.results.atomic import check_writable, whole_file

_NS_PER = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
STDOUT = "-"
MAX_NO_LOSS = "max-no-loss"
LOCK_HELP = "Another lock in place of OBJECT.FIELD or STRUCT.FIELD: tas, ttas, ticket, mcs or queued; repeatable."
ISA_HELP = "How atomics are lowered where the instruction set has a choice: atomics=far (performed by the cluster's L2) or atomics=llsc."


class Duration(click.ParamType[float]):
    """A simulated time with its unit, ``500us``; the value is in nanoseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(ns|us|ms|s)", value.strip())
        if match is None:
            self.fail(f"{value!r} is not a time; write a number with its unit: ns, us, ms or s (500us)", param, ctx)
        return float(match[1]) * _NS_PER[match[2]]


class Load(click.ParamType[float | str]):
    """An offered load, ``1.4Mpps`` (the value is in packets per second), or the word ``max-no-loss``."""

    name = "load"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        if isinstance(value, float) or value == MAX_NO_LOSS:
            return value
        match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(pps|kpps|Mpps)", str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a load; write a rate with its unit, pps, kpps or Mpps (1.4Mpps), or {MAX_NO_LOSS}", param, ctx)
        return float(match[1]) * {"pps": 1.0, "kpps": 1e3, "Mpps": 1e6}[match[2]]


class CpuList(click.ParamType[tuple[int, ...]]):
    """CPU numbers and ranges, ``0,4,8-11``."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        cpus: list[int] = []
        for part in value.split(","):
            match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
            if match is None or (match[2] and int(match[2]) < int(match[1])):
                self.fail(f"{value!r} is not a list of CPUs; write numbers and ranges: 0,4,8-11", param, ctx)
            cpus += range(int(match[1]), int(match[2] or match[1]) + 1)
        return tuple(cpus)


def complain(error: InputError) -> None:
    """Print an input's problems, one line each."""
    for problem in error.problems:
        click.echo(str(problem), err=True)


def check_each(names: Iterable[str], summary: Callable[[str], str]) -> None:
    """Print ok and the summary of each input, or its problems; exit with 2 if any has some."""
    failed = False
    for name in names:
        try:
            click.echo(f"{name}: ok ({summary(name)})")
        except InputError as error:
            complain(error)
            failed = True
    if failed:
        sys.exit(EXIT_INPUT)


def check_output(target: str | None, option: str) -> None:
    """Raise InputError now if the output of ``option`` cannot be written later."""
    if target is not None and target != STDOUT:
        check_writable(Path(target), option)


def write_json(document: Any, target: str, indent: int | None = 1) -> None:
    """Write JSON to a file (whole or not at all) or to stdout for ``-``."""
    text = json.dumps(document, indent=indent, allow_nan=False) + "\n"
    if target == STDOUT:
        click.echo(text, nl=False)
        return
    with whole_file(Path(target)) as temporary:
        temporary.write_text(text, encoding="utf-8")
