"""``cohsim advise``: what would help, simulated and ranked."""

from __future__ import annotations

import click

from cohsim.cli.options import ISA_HELP, LOCK_HELP, STDOUT, Duration, check_output, write_json
from cohsim.cli.progress import progress_bar


@click.command("advise")
@click.argument("machine")
@click.argument("workload")
@click.option("--cpus", type=int, help="CPUs that run the workload (default: all of the machine).")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Seeds of the best candidates: --seed and the following."
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="First seed.")
@click.option(
    "--rounds", type=click.IntRange(1, 4), default=2, show_default=True, help="Later rounds go on from the best candidate of each kind."
)
@click.option(
    "--threshold", type=click.FloatRange(0, 100), default=1.0, show_default=True, help="Percent of busy time below which a line is ignored."
)
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="Start with this variant; repeatable.")
@click.option("--layout", "layouts", multiple=True, metavar="RULE", help="Start with this layout; repeatable.")
@click.option("--lock", "locks", multiple=True, metavar="LOCK=KIND", help=LOCK_HELP)
@click.option("--isa", "isa_options", multiple=True, metavar="OPTION", help=ISA_HELP)
@click.option("--kernel", metavar="VERSION", help="Kernel version, for workloads that describe several.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a value of the machine file; repeatable.")
@click.option("--warmup", "warmup_ns", type=Duration(), help="Simulated time before the measurement, 50us (default: the workload's).")
@click.option("--measure", "measure_ns", type=Duration(), help="Simulated time that is measured, 2ms (default: the workload's).")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes on this host (default: one per core).")
@click.option("--json", "json_target", metavar="FILE", help="Write everything as JSON; - is stdout, and then nothing else is printed.")
@click.option("--top", type=click.IntRange(min=1), default=15, show_default=True, help="Rows of each table.")
@click.option("--progress/--no-progress", default=None, help="Progress bar on stderr (default: on a terminal).")
def advise_command(
    machine: str,
    workload: str,
    cpus: int | None,
    seeds: int,
    seed: int,
    rounds: int,
    threshold: float,
    variants: tuple[str, ...],
    layouts: tuple[str, ...],
    locks: tuple[str, ...],
    isa_options: tuple[str, ...],
    kernel: str | None,
    overrides: tuple[str, ...],
    warmup_ns: float | None,
    measure_ns: float | None,
    jobs: int | None,
    json_target: str | None,
    top: int,
    progress: bool | None,
) -> None:
    """Propose changes of WORKLOAD from the verdicts on its shared lines, simulate each on MACHINE and print them ranked."""
    from cohsim.advise import advise
    from cohsim.report.advice import advice_document, render_advice
    from cohsim.sweep import LocalBackend, Point

    check_output(json_target, "--json")
    point = Point(
        machine,
        workload,
        cpus=cpus,
        variants=variants,
        layouts=layouts,
        locks=locks,
        isa_options=isa_options,
        kernel=kernel,
        overrides=overrides,
        seed=seed,
        warmup_ns=warmup_ns,
        measure_ns=measure_ns,
    )
    with progress_bar(f"advise {workload} on {machine}", progress) as advance:
        steps = {"done": 0.0}

        def told(what: str, done: int, points: int) -> None:
            """Two batches a round, and the start: each an equal part of the bar."""
            if done == points:
                steps["done"] += 1
            if advance is not None:
                advance(min(1.0, (steps["done"] + (done / points if done < points else 0.0)) / (1 + 2 * rounds)))

        advice = advise(
            point, seeds=seeds, rounds=rounds, threshold=threshold / 100, backend=LocalBackend(jobs), progress=told if advance is not None else None
        )
    if json_target is not None:
        write_json(advice_document(advice), json_target)
    if json_target != STDOUT:
        click.echo(render_advice(advice, top), nl=False)
