"""What all pictures have in common: a figure without a display, and a file that appears whole or not at all."""

from __future__ import annotations

import textwrap
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from cohsim.errors import InputError, Problem
from cohsim.report.table import count
from cohsim.results.atomic import whole_file

TITLE_CHARACTERS = 11  # of the title's size in an inch, wide ones included
FORMATS = (".png", ".svg", ".pdf")
DPI = 110
_REPRODUCIBLE = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Metadata that would make two pictures of the same data differ."""


def check_format(path: Path) -> None:
    """Raise InputError unless the name ends in a format that can be written."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(Problem("--output", f"{path.name!r} does not say which kind of picture", f"end the name in {', '.join(FORMATS)}"))


def new_figure(width: float, height: float, title: str) -> Figure:
    """A figure of ``width`` x ``height`` inches: not pyplot's, so that no display and no global state is involved."""
    figure = Figure(figsize=(width, height), layout="constrained")
    wrapped = [textwrap.fill(line, int(width * TITLE_CHARACTERS), break_on_hyphens=False) for line in title.split("\n")]
    figure.suptitle("\n".join(wrapped), fontsize=11, x=0.01, ha="left")
    return figure


def bare(axes: Axes, grid: str | None = "y") -> None:
    """No frame on top and right, a faint grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    if grid is not None:
        axes.grid(axis=grid, alpha=0.3)  # type: ignore[arg-type]


def counts_on(axis: object) -> None:
    """Tick labels as the reports write numbers: 12.0 k, 3.1 M."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))  # type: ignore[attr-defined]


def save(figure: Figure, path: Path) -> None:
    """Write the picture, whole or not at all; the same data gives the same file. Raises InputError for an unknown format."""
    check_format(path)
    suffix = path.suffix.lower()
    with rc_context({"svg.hashsalt": "cohsim"}), whole_file(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], dpi=DPI, metadata=_REPRODUCIBLE[suffix])
