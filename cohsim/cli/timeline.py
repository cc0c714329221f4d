"""``cohsim timeline``: who owned a line when, as a trace for Perfetto."""

from __future__ import annotations

from pathlib import Path

import click

from cohsim.cli.options import STDOUT, check_output, write_json


@click.command("timeline")
@click.argument("result", metavar="OUT.h5")
@click.option("--line", "wanted", multiple=True, metavar="OBJECT+OFF", help="Only this line; repeatable (default: all that were logged).")
@click.option("-o", "--output", required=True, metavar="FILE", help="Trace in Chrome's JSON format; - is stdout.")
def timeline_command(result: str, wanted: tuple[str, ...], output: str) -> None:
    """Write who owned a line when, who waited and who tried again, from a result of cohsim run --log-line OBJECT+OFF -o OUT.h5.

    Open the file at https://ui.perfetto.dev or in chrome://tracing.
    """
    from cohsim.report.timeline import chosen_lines, chrome_trace
    from cohsim.results.hdf5 import read_result

    check_output(output, "--output")
    read = read_result(Path(result))
    trace = chrome_trace(read, chosen_lines(read, wanted, result))
    write_json(trace, output, indent=None)
    if output != STDOUT:
        slices = sum(event["ph"] == "X" for event in trace["traceEvents"])
        click.echo(f"{output}: {slices:,} slices; open it at https://ui.perfetto.dev", err=True)
    if lost := trace["otherData"]["events_not_kept"]:
        click.echo(f"note: {lost:,} later events of the logged lines were not kept; run with a larger --log-events for more", err=True)
