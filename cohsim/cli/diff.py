"""``cohsim diff``: what moved from one result to another, and conditions on it for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cohsim.cli.main import EXIT_FAILED
from cohsim.cli.options import STDOUT, check_output, write_json
from cohsim.errors import InputError, Problem, of_all

if TYPE_CHECKING:
    from cohsim.report.diff import Condition


class ConditionType(click.ParamType["Condition"]):
    """A bound on a change, ``throughput < -2%``."""

    name = "condition"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Condition:
        from cohsim.report.diff import Condition, parse_condition

        if isinstance(value, Condition):
            return value
        try:
            return parse_condition(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("diff")
@click.argument("before", metavar="A.h5")
@click.argument("after", metavar="B.h5")
@click.option(
    "--fail-if",
    "conditions",
    type=ConditionType(),
    multiple=True,
    metavar="CONDITION",
    help="Exit with 1 if this holds for the change from A to B: 'throughput < -2%', 'ns_per_iteration > +5%', 'cpu_utilization > +3pt', "
    "'retries > +10%', 'function:dst_release > +3pt', 'primitive:atomic_inc > +1pt'; repeatable.",
)
@click.option("--json", "json_target", metavar="FILE", help="Write the comparison as JSON; - is stdout, and then nothing else is printed.")
@click.option("--top", type=click.IntRange(min=1), default=12, show_default=True, help="Rows of each table.")
@click.option("--across-workloads", is_flag=True, help="Compare although the two runs executed different workloads.")
@click.pass_context
def diff_command(
    ctx: click.Context, before: str, after: str, conditions: tuple[Condition, ...], json_target: str | None, top: int, across_workloads: bool
) -> None:
    """Print what moved from A.h5 to B.h5, results written by cohsim run -o. Exit code 1: a --fail-if condition holds."""
    from cohsim.report.diff import compare, judge, render
    from cohsim.results.hdf5 import read_result

    check_output(json_target, "--json")
    a, b = of_all(read_result, (Path(before), Path(after)))
    workloads = a.text("/run/workload"), b.text("/run/workload")
    if workloads[0] != workloads[1] and not across_workloads:
        what = f"ran {workloads[1]}, {before} ran {workloads[0]}: an iteration of one is not an iteration of the other"
        raise InputError(Problem(after, what, "compare anyway with --across-workloads"))
    comparison = compare(a, b)
    verdicts = judge(comparison, conditions)
    if json_target is not None:
        write_json({**comparison.as_json(), "conditions": [verdict.as_json() for verdict in verdicts]}, json_target)
    if json_target != STDOUT:
        click.echo(render(comparison, top), nl=False)
    for verdict in verdicts:
        click.echo(f"--fail-if {verdict}", err=True)
    if any(verdict.holds for verdict in verdicts):
        ctx.exit(EXIT_FAILED)
