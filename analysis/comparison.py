"""What every analysis hands back: figures measured by others beside figures of the emulator, as a table and a picture.

A script of this folder that compares has a function ``produce(out: Path) -> Comparison``: it runs the emulator and writes ``NAME.md`` and
``NAME.png`` into ``out``. ``all.py`` runs them all.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import click
from matplotlib.figure import Figure

EMULATED, MEASURED, RANGE = "#1f5fa8", "#d1701c", "#f0c9a3"
DPI = 110


@dataclass(frozen=True)
class Row:
    """One figure. ``measured`` is None where nobody published one; ``role``: calibrated, stated (the machine file has the total) or
    predicted.
    """

    what: str
    unit: str
    measured: float | None
    emulated: float
    role: str
    digits: int = 1

    @property
    def error(self) -> float | None:
        """Emulated relative to measured, less one."""
        return None if not self.measured else self.emulated / self.measured - 1

    def cells(self) -> list[str]:
        """Of a Markdown table."""
        measured = "" if self.measured is None else f"{self.measured:.{self.digits}f}"
        error = "" if self.error is None else f"{self.error:+.1%}"
        return [self.what, measured, f"{self.emulated:.{self.digits}f}", self.unit, error, self.role]


@dataclass(frozen=True)
class Comparison:
    """A published table or figure. ``headlines`` are the rows that the overview shows."""

    name: str
    title: str
    source: str
    rows: list[Row]
    headlines: list[Row]
    note: str = ""
    pictures: list[str] = field(default_factory=list)


HEADER = ["| | measured | emulated | unit | error | |", "|---|---:|---:|---|---:|---|"]


def table(rows: list[Row]) -> list[str]:
    """Lines of a Markdown table with the mean error of what was predicted."""
    lines = [*HEADER, *("| " + " | ".join(row.cells()) + " |" for row in rows)]
    errors = [abs(row.error) for row in rows if row.error is not None and row.role == "predicted"]
    return [*lines, "", f"Mean error of the {len(errors)} predicted figures: {sum(errors) / len(errors):.0%}."] if errors else lines


def write(comparison: Comparison, figure: Figure, out: Path) -> Comparison:
    """NAME.md and NAME.png."""
    out.mkdir(parents=True, exist_ok=True)
    picture = f"{comparison.name}.png"
    figure.savefig(out / picture, dpi=DPI, metadata={"Software": None})
    note = ["", comparison.note] if comparison.note else []
    lines = [f"# {comparison.title}", "", f"Measured: {comparison.source}.", *note, "", f"![]({picture})", ""]
    (out / f"{comparison.name}.md").write_text("\n".join([*lines, *table(comparison.rows)]) + "\n", encoding="utf-8")
    return Comparison(**{**vars(comparison), "pictures": [picture]})


def show(comparison: Comparison, out: Path) -> None:
    """Print what ``write`` wrote."""
    click.echo((out / f"{comparison.name}.md").read_text(encoding="utf-8"), nl=False)
