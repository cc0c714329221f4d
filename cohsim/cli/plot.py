"""``cohsim plot``: pictures of results, sweeps and machines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cohsim.cli.options import check_output
from cohsim.cli.progress import progress_bar
from cohsim.errors import of_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cohsim.results.result import Result

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group("plot")
def plot_group() -> None:
    """Draw a picture of a result, a sweep or a machine into a .png, .svg or .pdf file."""


def _output(function: Command) -> Command:
    option = click.option("-o", "--output", required=True, metavar="FILE", help="Picture to write; the name ends in .png, .svg or .pdf.")
    return option(function)


def _check(output: str) -> Path:
    """The output path, known to be writable and of a known format before anything is measured."""
    from cohsim.report.plots.canvas import check_format

    check_format(Path(output))
    check_output(output, "--output")
    return Path(output)


def _draw(output: str, draw: Callable[..., Figure], *arguments: Any) -> None:
    from cohsim.report.plots.canvas import save

    path = _check(output)
    save(draw(*arguments), path)
    click.echo(path)


def _results(paths: tuple[str, ...]) -> list[Result]:
    """All results; the problems of all files at once."""
    from cohsim.results.hdf5 import read_result

    return of_all(read_result, map(Path, paths))


@plot_group.command("profile")
@click.argument("results", nargs=-1, required=True, metavar="A.h5 [B.h5]")
@click.option("--inlined", is_flag=True, help="Atomics inside their callers (default: on their own).")
@click.option("--top", type=click.IntRange(min=1), default=12, show_default=True, help="Names to show.")
@_output
def profile_command(results: tuple[str, ...], inlined: bool, top: int, output: str) -> None:
    """Profile of one run, or of two side by side (two CPU counts, before and after)."""
    from cohsim.report.plots.runs import profiles

    if len(results) > 2:
        raise click.UsageError(f"{len(results)} results given, at most two fit side by side")
    _draw(output, profiles, _results(results), "functions" if inlined else "primitives", top)


def _of_one_run(name: str, drawing: str, text: str) -> None:
    @plot_group.command(name, help=text)
    @click.argument("result", metavar="OUT.h5")
    @_output
    def command(result: str, output: str) -> None:
        from cohsim.report.plots import runs

        _draw(output, getattr(runs, drawing), _results((result,))[0])


_of_one_run("utilization", "utilization", "Time of every CPU, stacked by category.")
_of_one_run("histogram", "histograms", "Latency histograms of memory operations, by the level that served them.")


@plot_group.command("transfers")
@click.argument("result", metavar="OUT.h5")
@click.option("--line", metavar="LINE", help="One line, CPU by CPU, by its name in the reports: route+128.")
@_output
def transfers_command(result: str, line: str | None, output: str) -> None:
    """Heat map of the lines that moved: which node had them, which took them; or who took one line."""
    from cohsim.report.plots.runs import takes, transfers

    one = _results((result,))[0]
    if line is None:
        _draw(output, transfers, one)
    else:
        _draw(output, takes, one, line)


@plot_group.command("scaling")
@click.argument("inputs", nargs=-1, required=True, metavar="SWEEP.h5 | A.h5 B.h5 ...")
@_output
def scaling_command(inputs: tuple[str, ...], output: str) -> None:
    """Rate over CPUs, of a sweep or of several results, with the fitted Universal Scalability Law."""
    from cohsim.report.plots.scaling import draw, of_results, of_sweep
    from cohsim.sweep import load_sweep

    scaling = of_sweep(load_sweep(inputs[0]), Path(inputs[0])) if len(inputs) == 1 else of_results(_results(inputs))
    _draw(output, draw, scaling)


@plot_group.command("latency")
@click.argument("machine")
@click.option(
    "--load",
    type=click.Choice(["ping-pong", "modified"]),
    default="ping-pong",
    show_default=True,
    help="What to measure: a compare-and-swap hand-off, or a load of a line the other CPU has modified.",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a value of the machine file; repeatable.")
@click.option("--progress/--no-progress", default=None, help="Progress bar on stderr (default: on a terminal).")
@_output
def latency_command(machine: str, load: str, overrides: tuple[str, ...], progress: bool | None, output: str) -> None:
    """Core-to-core latency of MACHINE, measured between all its CPUs in the emulator."""
    from cohsim.core_to_core import LOADS, measure
    from cohsim.report.plots.runs import core_to_core

    _check(output)
    with progress_bar(f"{load} between all CPUs of {machine}", progress) as advance:
        found = measure(machine, load, overrides, advance)
    _draw(output, core_to_core, found, machine, LOADS[load].title)
