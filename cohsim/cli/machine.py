"""``cohsim machine``: show and check machine files."""

from __future__ import annotations

import json
import sys

import click

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
        _print_problems(error)
        sys.exit(2)
    if json_output:
        click.echo(json.dumps(as_json(spec), indent=1))
    else:
        click.echo(spec.dump() if yaml_output else as_text(spec), nl=False)


@machine_group.command("check")
@click.argument("machines", metavar="FILE...", nargs=-1, required=True)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Check with this override. Repeatable.")
def check(machines: tuple[str, ...], overrides: tuple[str, ...]) -> None:
    """List all problems of each FILE (or bundled name), or say ok."""
    failed = False
    for machine in machines:
        try:
            spec = load_machine(machine, overrides)
        except InputError as error:
            _print_problems(error)
            failed = True
        else:
            click.echo(f"{machine}: ok ({spec.name}, {len(spec.values)} values, {len(spec.sources)} sources)")
    if failed:
        sys.exit(2)


def _print_problems(error: InputError) -> None:
    for problem in error.problems:
        click.echo(str(problem), err=True)
