"""``cohsim litmus``: what a modelled machine does in litmus tests, against what its instruction set allows."""

from __future__ import annotations

from collections.abc import Callable

import click

from cohsim.cli.main import EXIT_FAILED
from cohsim.cli.options import STDOUT, check_output, write_json
from cohsim.cli.progress import progress_bar
from cohsim.datafiles import bundled_names, find_data
from cohsim.errors import InputError, Problem, of_all
from cohsim.litmus.parse import load_litmus
from cohsim.litmus.run import LitmusRun, run_litmus
from cohsim.litmus.show import as_json, as_text, document
from cohsim.litmus.test import LitmusTest
from cohsim.machine import compile_machine, load_machine
from cohsim.machine.compiled import CompiledMachine

SUFFIX = ".litmus"
MACHINES = ("t4240", "corei7", "xeon_x5550")


@click.command("litmus")
@click.argument("files", metavar="[FILE...]", nargs=-1)
@click.option(
    "--machine",
    "machines",
    multiple=True,
    metavar="MACHINE",
    help=f"Machine to run on; a test runs on those of its instruction set. Repeatable. Default: {', '.join(MACHINES)}.",
)
@click.option(
    "--rounds", type=click.IntRange(1, 100_000_000), default=10_000, show_default=True, help="Rounds per test and machine."
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1_000_000),
    default=16,
    show_default=True,
    help="Simulations per test and machine, each with its own placement, layout and timing.",
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="The same seed gives the same rounds.")
@click.option("--json", "json_target", metavar="FILE", help="Write every outcome as JSON; - is stdout.")
@click.option("--markdown", is_flag=True, help="Print docs/litmus.md.")
def litmus_command(
    files: tuple[str, ...], machines: tuple[str, ...], rounds: int, seeds: int, seed: int, json_target: str | None, markdown: bool
) -> None:
    """Run each FILE (herd's .litmus text, X86, X86_64 or PPC; default: the bundled suite) and compare what happens with what the
    instruction set allows. Exit code 1 if a forbidden outcome occurred."""
    if markdown and json_target == STDOUT:
        raise click.UsageError("--markdown and --json - exclude each other")
    check_output(json_target, "--json")
    tests = _load(files)
    pairs = _pairs(tests, [compile_machine(load_machine(name, ())) for name in machines or MACHINES])
    with progress_bar("litmus", None) as progress:
        runs = _run(pairs, rounds, seeds, seed, progress)
    if json_target:
        write_json(as_json(runs), json_target)
    if markdown:
        click.echo(document(runs, f"cohsim litmus --rounds {rounds} --seeds {seeds} --seed {seed} --markdown"), nl=False)
    elif json_target != STDOUT:
        click.echo("\n".join(as_text(runs)))
    if any(run.violations for run in runs):
        raise click.exceptions.Exit(EXIT_FAILED)


def _load(files: tuple[str, ...]) -> list[LitmusTest]:
    """The tests, with the problems of all files together."""
    return of_all(lambda name: load_litmus(find_data("workloads", name, SUFFIX)), files or bundled_names("workloads", SUFFIX))


def _pairs(tests: list[LitmusTest], machines: list[CompiledMachine]) -> list[tuple[LitmusTest, CompiledMachine]]:
    """Each test with each machine of its instruction set."""
    isas = {machine.isa for machine in machines}
    problems = [
        Problem("--machine", f"no {test.isa} machine for {test.name} ({test.arch})", "name one that has its instruction set")
        for test in tests
        if test.isa not in isas
    ]
    if problems:
        raise InputError(problems)
    return [(test, machine) for test in tests for machine in machines if machine.isa == test.isa]


def _run(
    pairs: list[tuple[LitmusTest, CompiledMachine]], rounds: int, seeds: int, seed: int, progress: Callable[[float], None] | None
) -> list[LitmusRun]:
    runs = []
    for done, (test, machine) in enumerate(pairs):
        if progress is not None:
            progress(done / len(pairs))
        runs.append(run_litmus(test, machine, rounds=rounds, simulations=seeds, seed=seed))
    return runs
