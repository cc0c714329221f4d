"""``cohsim protocol``: print, lint and exhaustively check the coherence protocols."""
from __future__ import annotations

import time
from collections import Counter
from typing import Any

import click

from cohsim.cli.main import EXIT_FAILED
from cohsim.cli.options import STDOUT, check_output, write_json
from cohsim.protocols import PROTOCOLS, tables
from cohsim.protocols.check import ProtocolReport, check_protocol, rows_of_one_home
from cohsim.protocols.cluster import check_cluster
from cohsim.protocols.lint import lint
from cohsim.protocols.mutants import judge, mutants
from cohsim.protocols.reference import HOMES
from cohsim.protocols.render import document, protocol_text

NAME = click.Choice(list(PROTOCOLS), case_sensitive=False)
HOME = click.option("--home", type=click.Choice(HOMES), help="Kind of home (default: both).")


@click.group("protocol")
def protocol_group() -> None:
    """Print and exhaustively check coherence protocols."""


@protocol_group.command("table")
@click.argument("name", type=NAME)
@click.option("--markdown", is_flag=True, help="As Markdown matrices.")
def table_command(name: str, markdown: bool) -> None:
    """Print the node and home tables of a protocol."""
    click.echo(protocol_text(name, markdown))


@protocol_group.command("lint")
def lint_command() -> None:
    """Check what can be seen in the rows without running them; exit code 1 if there are complaints."""
    complaints = {name: lint(*tables(name)) for name in PROTOCOLS}
    for name, lines in complaints.items():
        for line in lines:
            click.echo(f"{name}: {line}")
        if not lines:
            click.echo(f"{name}: clean")
    if any(complaints.values()):
        raise click.exceptions.Exit(EXIT_FAILED)


@protocol_group.command("docs")
def docs_command() -> None:
    """Print docs/protocols.md (runs the checks whose numbers it shows)."""
    click.echo(document([check_protocol(name) for name in PROTOCOLS]), nl=False)


@protocol_group.command("check")
@click.argument("names", nargs=-1, required=True, type=NAME)
@click.option("--caches", type=click.IntRange(2, 5), default=3, show_default=True, help="Nodes; all numbers from 2 are searched.")
@HOME
@click.option("--cluster", is_flag=True,
              help="Search clusters of two cores with write-through L1s and LL/SC instead (broadcast home, unless --home).")
@click.option("--mutants", "planted", is_flag=True, help="Plant every single-row error and report which are noticed (minutes).")
@click.option("--json", "json_target", metavar="FILE", help="Write the outcome as JSON; - is stdout.")
def check_command(names: tuple[str, ...], caches: int, home: str | None, cluster: bool, planted: bool,
                  json_target: str | None) -> None:
    """Search all reachable states of one line; print the shortest counterexample. Exit code 1 if a property fails."""
    if cluster and planted:
        raise click.UsageError("--cluster and --mutants exclude each other")
    check_output(json_target, "--json")
    homes = (home,) if home else HOMES
    quiet = json_target == STDOUT
    outcome: list[dict[str, Any]] = []
    for name in dict.fromkeys(names):
        if cluster:
            outcome += _cluster(name, home or "broadcast", quiet)
        elif planted:
            outcome.append(_mutants(name, caches, quiet))
        else:
            outcome.append(_search(name, caches, homes, quiet))
    if json_target:
        write_json(outcome, json_target)
    if not all(entry["holds"] for entry in outcome):
        raise click.exceptions.Exit(EXIT_FAILED)


def _search(name: str, caches: int, homes: tuple[str, ...], quiet: bool) -> dict[str, Any]:
    started = time.monotonic()
    report = check_protocol(name, caches, homes)
    if not quiet:
        _print_report(report, time.monotonic() - started)
    return {"protocol": name, "holds": report.holds, "unmet_rows": [list(row) for row in report.unmet],
            "searches": [{"home": mode, "caches": nodes, "states": r.states, "transitions": r.transitions, "problem": r.problem,
                          "trace": r.trace} for mode, nodes, r in report.searches]}


def _print_report(report: ProtocolReport, seconds: float) -> None:
    for mode, nodes, result in report.searches:
        click.echo(f"{report.name}, {mode} home, {nodes} caches: {result}")
    for row in report.unmet:
        click.echo(f"{report.name}: row never met: {' '.join(row)}")
    for mode, rows in sorted(rows_of_one_home(report).items()):
        click.echo(f"{report.name}: met with a {mode} home only: {', '.join(rows)}")
    click.echo(f"{report.name}: {'all properties hold' if report.holds else 'FAILS'} ({seconds:.1f} s)")


def _cluster(name: str, home: str, quiet: bool) -> list[dict[str, Any]]:
    outcome = []
    for contention in (True, False):
        what = "LL/SC loops only: some SC always succeeds" if contention else "loads, stores, LL/SC, evictions"
        result = check_cluster(*tables(name), home, contention=contention)
        if not quiet:
            click.echo(f"{name}, {home} home, 2 clusters of 2 cores, {what}: {result}")
        outcome.append({"protocol": name, "home": home, "model": what, "holds": not result.problem, "states": result.states,
                        "transitions": result.transitions, "problem": result.problem, "trace": result.trace})
    return outcome


def _mutants(name: str, caches: int, quiet: bool) -> dict[str, Any]:
    verdicts = [judge(name, mutant, caches) for mutant in mutants(name)]
    by = Counter((bool(v.lint), bool(v.search)) for v in verdicts)
    missed = [v.what for v in verdicts if not (v.lint or v.search)]
    if not quiet:
        click.echo(f"{name}: {len(verdicts)} planted errors, {len(verdicts) - len(missed)} noticed: {by[True, True]} by lint and "
                   f"search, {by[True, False]} by lint only, {by[False, True]} by search only")
        for what in missed:
            click.echo(f"{name}: not noticed: {what}")
    return {"protocol": name, "holds": not missed, "planted": len(verdicts), "missed": missed,
            "lint_only": [v.what for v in verdicts if v.lint and not v.search]}
