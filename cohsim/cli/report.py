"""``cohsim report``: print the report of a result file again."""

from __future__ import annotations

from pathlib import Path

import click

from cohsim.cli.options import STDOUT, write_json


@click.command("report")
@click.argument("result_file", metavar="OUT.h5")
@click.option("--cpu", type=int, help="Report this CPU of the run alone.")
@click.option("--primitives", is_flag=True, help="Only the profile with atomics on their own.")
@click.option("--top", type=click.IntRange(min=1), default=12, show_default=True, help="Rows of each table.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead.")
def report_command(result_file: str, cpu: int | None, primitives: bool, top: int, as_json: bool) -> None:
    """Print the report of OUT.h5, a result written by cohsim run -o."""
    from cohsim.report.text import render
    from cohsim.results.hdf5 import read_result
    from cohsim.results.summary import summarize

    summary = summarize(read_result(Path(result_file)), cpu)
    if as_json:
        write_json(summary, STDOUT)
    else:
        click.echo(render(summary, top, primitives), nl=False)
