"""``cohsim machine``: show and check machine files."""

from __future__ import annotations

import json
import sys

import click

from cohsim.cli.main import EXIT_INPUT
from cohsim.cli.options import check_each, complain
from cohsim.errors import InputError
from cohsim.machine import load_machine
from cohsim.machine.show import as_json, as_text


@click.group("machine")
def machine_group() -> None:
    """Show and check machine files."""


@machine_group.command("show")
@click.argument("machine")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a value, e.g. caches.l2.hit=14cycles. Repeatable."
)
@click.option("--json", "json_output", is_flag=True, help="Print JSON.")
@click.option("--yaml", "yaml_output", is_flag=True, help="Print the effective machine as one self-contained machine file.")
def show(machine: str, overrides: tuple[str, ...], json_output: bool, yaml_output: bool) -> None:
    """Every effective value of MACHINE (a bundled name or a file) with its source, and the latencies that follow."""
    if json_output and yaml_output:
        raise click.UsageError("--json and --yaml exclude each other")
    try:
        spec = load_machine(machine, overrides)
    except InputError as error:
        complain(error)
        sys.exit(EXIT_INPUT)
    if json_output:
        click.echo(json.dumps(as_json(spec), indent=1))
    else:
        click.echo(spec.dump() if yaml_output else as_text(spec), nl=False)


@machine_group.command("check")
@click.argument("machines", metavar="FILE...", nargs=-1, required=True)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Check with this override. Repeatable.")
def check(machines: tuple[str, ...], overrides: tuple[str, ...]) -> None:
    """List all problems of each FILE (or bundled name), or say ok."""


    def summary(machine: str) -> str:
        spec = load_machine(machine, overrides)
        return f"{spec.name}, {len(spec.values)} values, {len(spec.sources)} sources"

    check_each(machines, summary)
