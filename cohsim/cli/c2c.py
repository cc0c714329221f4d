"""``cohsim c2c``: which lines CPUs take from each other, who takes them from whom, and what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cohsim.cli.options import STDOUT, check_output, write_json
from cohsim.errors import InputError, Problem

if TYPE_CHECKING:
    from cohsim.report.c2c import SharedLine


@click.command("c2c")
@click.argument("result", metavar="OUT.h5")
@click.option("--line", "wanted", metavar="OBJECT+OFF", help="Only this line, however little it matters: route+128.")
@click.option("--top", type=click.IntRange(min=1), default=12, show_default=True, help="Lines of the table; those that matter follow in detail.")
@click.option("--pairs", type=click.IntRange(min=1), default=8, show_default=True, help="Rows of the tables of who took a line from whom.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 100),
    default=1.0,
    show_default=True,
    help="A line does not matter below this percentage of busy time.",
)
@click.option("--json", "json_target", metavar="FILE", help="Write all lines as JSON; - is stdout, and then nothing else is printed.")
def c2c_command(result: str, wanted: str | None, top: int, pairs: int, threshold: float, json_target: str | None) -> None:
    """Print the lines that CPUs of OUT.h5 (written by cohsim run -o) share, by cost: fields, who took them from whom, and a verdict."""
    from cohsim.report.c2c import shared_lines
    from cohsim.report.c2c_text import as_json, render
    from cohsim.results.hdf5 import read_result

    check_output(json_target, "--json")
    read = read_result(Path(result))
    lines = shared_lines(read, threshold / 100, source=result)
    only = None if wanted is None else find_line(lines, wanted)
    if json_target is not None:
        write_json(as_json(read, lines if only is None else [only], threshold / 100), json_target)
    if json_target != STDOUT:
        click.echo(render(read, lines, top, pairs, only), nl=False)


def find_line(lines: list[SharedLine], wanted: str) -> SharedLine:
    """The line called ``wanted`` (``skb+64`` is ``skb[*]+64``). Raises InputError if the run never missed it."""
    name = wanted.strip()
    for line in lines:
        if name in (line.label, line.label.replace("[*]", "")):
            return line
    known = ", ".join(line.label for line in lines[:4])
    raise InputError(Problem("--line", f"no line {wanted!r} was missed or fought for", f"the run has, for example, {known}" if known else ""))
