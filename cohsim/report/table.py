"""Aligned plain-text tables: the same text on a terminal, in a pipe and in a mail."""

from __future__ import annotations

from collections.abc import Sequence

ELLIPSIS = "…"


def shorten(text: str, width: int) -> str:
    """``text`` in at most ``width`` characters."""
    return text if len(text) <= width else text[: width - 1] + ELLIPSIS


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: str) -> list[str]:
    """Lines of a table. ``right`` has one character per column, ``>`` for right-aligned and ``<`` for left-aligned."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(cells, right, widths, strict=True)).rstrip()

    return [line(header), "  ".join("-" * width for width in widths), *(line(row) for row in rows)]


def side_by_side(left: Sequence[str], right: Sequence[str], width: int, gap: str = "   ") -> list[str]:
    """Two blocks next to each other if ``width`` allows, one below the other if not."""
    left_width = max(map(len, left), default=0)
    if left_width + len(gap) + max(map(len, right), default=0) > width:
        return [*left, "", *right]
    height = max(len(left), len(right))
    padded = [*left, *[""] * (height - len(left))], [*right, *[""] * (height - len(right))]
    return [f"{a:<{left_width}}{gap}{b}".rstrip() for a, b in zip(*padded, strict=True)]


def percent(share: float) -> str:
    """A share as the profile prints it."""
    return f"{100 * share:.2f}%"


def count(number: float | None, unit: str = "") -> str:
    """A number in at most six characters with a decimal prefix, or with four digits in front of a unit; "-" for None."""
    if number is None:
        return "-"
    digits = 4 if unit else 3
    for smallest, factor, prefix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e3 if unit else 1e4, 1e3, "k")):
        if abs(number) >= smallest:
            scaled = number / factor
            return f"{scaled:.{digits - len(str(int(abs(scaled))))}f} {prefix}{unit}"
    return (f"{number:.0f}" if abs(number) >= 1000 else f"{number:.3g}") + (f" {unit}" if unit else "")


def plain(number: float | None, decimals: int = 0) -> str:
    """A number with thousands separators; "-" for None."""
    return "-" if number is None else f"{number:,.{decimals}f}"
