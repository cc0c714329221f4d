"""``cohsim run``: simulate a workload on a machine."""

from __future__ import annotations

from pathlib import Path

import click

from cohsim.cli.main import EXIT_INTERRUPTED
from cohsim.cli.options import STDOUT, CpuList, Duration, check_output, write_json
from cohsim.cli.progress import progress_bar


@click.command("run")
@click.argument("machine")
@click.argument("workload")
@click.option("--cpus", type=int, help="CPUs that run the workload (default: all of the machine).")
@click.option(
    "--pin", type=CpuList(), help="Machine CPUs to run on, in the order of the run's CPUs: 0,4,8-11 (default: 0,1,2...)."
)
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="Switch on a variant of the workload; repeatable.")
@click.option(
    "--layout",
    "layouts",
    multiple=True,
    metavar="RULE",
    help="Try another layout: 'struct.field@192', ':pad', ':own-line', ':per-cpu'; repeatable.",
)
@click.option("--kernel", metavar="VERSION", help="Kernel version, for workloads that describe several.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a value of the machine file: caches.l2.hit=14cycles; repeatable.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of arrivals and spreading.")
@click.option(
    "--warmup", "warmup_ns", type=Duration(), help="Simulated time before the measurement, 50us (default: the workload's)."
)
@click.option("--measure", "measure_ns", type=Duration(), help="Simulated time that is measured, 2ms (default: the workload's).")
@click.option("--no-lookahead", is_flag=True, help="Step one access at a time: slower, identical result.")
@click.option("--check", is_flag=True, help="Assert coherence and data values after every transition: slower, identical result.")
@click.option("-o", "--output", type=click.Path(), metavar="OUT.h5", help="Write the complete result (HDF5).")
@click.option(
    "--json", "json_target", metavar="FILE", help="Write the summary as JSON; - is stdout, and then nothing else is printed."
)
@click.option("--cpu", type=int, help="Report this CPU of the run alone.")
@click.option("--top", type=click.IntRange(min=1), default=12, show_default=True, help="Rows of each table.")
@click.option("--progress/--no-progress", default=None, help="Progress bar on stderr (default: on a terminal).")
@click.pass_context
def run_command(
    ctx: click.Context,
    machine: str,
    workload: str,
    cpus: int | None,
    pin: tuple[int, ...] | None,
    variants: tuple[str, ...],
    layouts: tuple[str, ...],
    kernel: str | None,
    overrides: tuple[str, ...],
    seed: int,
    warmup_ns: float | None,
    measure_ns: float | None,
    no_lookahead: bool,
    check: bool,
    output: str | None,
    json_target: str | None,
    cpu: int | None,
    top: int,
    progress: bool | None,
) -> None:
    """Simulate WORKLOAD on MACHINE (files, or names of those that come with cohsim) and report where the time goes."""
    from cohsim.experiment import prepare
    from cohsim.results.hdf5 import write_result
    from cohsim.results.summary import check_cpu, summarize

    check_output(output, "--output")
    check_output(json_target, "--json")
    experiment = prepare(
        machine,
        workload,
        cpus=cpus,
        pin=pin,
        variants=variants,
        layouts=layouts,
        kernel=kernel,
        overrides=overrides,
        seed=seed,
        warmup_ns=warmup_ns,
        measure_ns=measure_ns,
        lookahead=not no_lookahead,
        check=check,
    )
    check_cpu(cpu, experiment.settings.cpus)
    with progress_bar(f"{experiment.workload.name} on {experiment.machine.name}", progress) as advance:
        result = experiment.run(advance)
    if output is not None:
        write_result(result, Path(output))
    summary = summarize(result, cpu)
    if json_target is not None:
        write_json(summary, json_target)
    if json_target != STDOUT:
        from cohsim.report.text import render

        click.echo(render(summary, top), nl=False)
    if summary["stop"] == "interrupted":
        click.echo("interrupted: the figures cover what ran until then", err=True)
        ctx.exit(EXIT_INTERRUPTED)
