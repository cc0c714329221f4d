"""``cohsim report``: print the report of a result file again, or write it as a page."""

from __future__ import annotations

from pathlib import Path

import click

from cohsim.cli.options import STDOUT, check_output, write_json
from cohsim.results.atomic import whole_file


@click.command("report")
@click.argument("result_file", metavar="OUT.h5")
@click.option("--cpu", type=int, help="Report this CPU of the run alone.")
@click.option("--primitives", is_flag=True, help="Only the profile with atomics on their own.")
@click.option("--top", type=click.IntRange(min=1), default=12, show_default=True, help="Rows of each table.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON instead.")
@click.option("--html", "html_target", metavar="FILE", help="Write a self-contained page instead: the story, tables and plots of all CPUs.")
def report_command(result_file: str, cpu: int | None, primitives: bool, top: int, as_json: bool, html_target: str | None) -> None:
    """Print the report of OUT.h5, a result written by cohsim run -o."""
    from cohsim.report.text import render
    from cohsim.results.hdf5 import read_result
    from cohsim.results.summary import summarize

    if html_target is not None:
        if cpu is not None or primitives or as_json:
            raise click.UsageError("--html writes everything; leave --cpu, --primitives and --json out")
        _write_page(result_file, html_target)
        return
    summary = summarize(read_result(Path(result_file)), cpu)
    if as_json:
        write_json(summary, STDOUT)
    else:
        click.echo(render(summary, top, primitives), nl=False)


def _write_page(result_file: str, target: str) -> None:
    """To a file, whole or not at all, or to stdout for ``-``."""
    from cohsim.report.html import render_page
    from cohsim.results.hdf5 import read_result

    check_output(target, "--html")
    text = render_page(read_result(Path(result_file)))
    if target == STDOUT:
        click.echo(text, nl=False)
        return
    with whole_file(Path(target)) as temporary:
        temporary.write_text(text, encoding="utf-8")
    click.echo(target)
