"""``cohsim run``: simulate a workload on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cohsim.cli.main import EXIT_INTERRUPTED
from cohsim.cli.options import ISA_HELP, LOCK_HELP, MAX_NO_LOSS, STDOUT, CpuList, Duration, Load, check_output, write_json
from cohsim.cli.progress import progress_bar
from cohsim.errors import InputError, Problem, SimulationError
from cohsim.results.provenance import GOVERNORS, PERFORMANCE


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
@click.option("--lock", "locks", multiple=True, metavar="LOCK=KIND", help=LOCK_HELP)
@click.option("--isa", "isa_options", multiple=True, metavar="OPTION", help=ISA_HELP)
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
    "--seeds", type=click.IntRange(min=2), metavar="N", help="Run N seeds on all host cores and report means with 95 % confidence intervals."
)
@click.option(
    "--warmup", "warmup_ns", type=Duration(), help="Simulated time before the measurement, 50us (default: the workload's)."
)
@click.option("--measure", "measure_ns", type=Duration(), help="Simulated time that is measured, 2ms (default: the workload's).")
@click.option("--load", type=Load(), metavar="RATE|max-no-loss",
              help="Offered load, 1.4Mpps (default: the workload's); max-no-loss: search for the highest one without loss (RFC 2544).")
@click.option("--governor", type=click.Choice(GOVERNORS), default=PERFORMANCE, show_default=True,
              help="Who chooses the cores' clock; ondemand: Linux's governor (up to 3.11, and from 3.17 on), tried until it settles.")
@click.option("--no-lookahead", is_flag=True, help="Step one access at a time: slower, identical result.")
@click.option("--check", is_flag=True, help="Assert coherence and data values after every transition: slower, identical result.")
@click.option(
    "--log-line",
    "log_lines",
    multiple=True,
    metavar="OBJECT+OFF",
    help="Keep the events of this line for cohsim timeline: route+128; repeatable.",
)
@click.option(
    "--log-events", type=click.IntRange(1, 10_000_000), default=20_000, show_default=True, help="How many events of these lines, the first ones."
)
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
    locks: tuple[str, ...],
    isa_options: tuple[str, ...],
    kernel: str | None,
    overrides: tuple[str, ...],
    seed: int,
    seeds: int | None,
    warmup_ns: float | None,
    measure_ns: float | None,
    load: float | str | None,
    governor: str,
    no_lookahead: bool,
    check: bool,
    log_lines: tuple[str, ...],
    log_events: int,
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

    if log_lines and output is None:
        raise InputError(Problem("--log-line", "the events would go nowhere", "give the result file too: -o OUT.h5"))
    check_output(output, "--output")
    check_output(json_target, "--json")
    inputs: dict[str, Any] = {
        "cpus": cpus,
        "pin": pin,
        "variants": variants,
        "layouts": layouts,
        "locks": locks,
        "isa_options": isa_options,
        "kernel": kernel,
        "overrides": overrides,
        "warmup_ns": warmup_ns,
        "measure_ns": measure_ns,
        "lookahead": not no_lookahead,
        "check": check,
        "load_pps": None if load == MAX_NO_LOSS else load,
        "governor": governor,
        "log_lines": log_lines,
        "log_events": log_events,
    }
    if load == MAX_NO_LOSS and seeds is not None:
        raise InputError(Problem("--load", f"{MAX_NO_LOSS} searches with one seed", "leave --seeds out, or give the rate that was found"))
    if load == MAX_NO_LOSS and governor != PERFORMANCE:
        what = f"{governor} chooses the clock for one load, {MAX_NO_LOSS} tries many"
        raise InputError(Problem("--governor", what, "leave it out, or give the rate that was found"))
    if seeds is not None:
        if output is not None:
            raise InputError(Problem("--output", "holds one run, --seeds makes several", "use cohsim sweep --seeds N -o FILE for all of them"))
        _several(machine, workload, inputs, range(seed, seed + seeds), cpu, json_target, top, progress)
        return
    experiment = prepare(machine, workload, seed=seed, **inputs)
    check_cpu(cpu, experiment.settings.cpus)
    trials = None
    if load == MAX_NO_LOSS:
        result, trials = _search(experiment, machine, workload, seed, inputs)
    elif governor != PERFORMANCE:
        result = _governed(experiment)
    else:
        with progress_bar(f"{experiment.workload.name} on {experiment.machine.name}", progress) as advance:
            result = experiment.run(advance)
    if output is not None:
        write_result(result, Path(output))
    summary = summarize(result, cpu)
    if trials is not None:
        summary["load_search"] = trials
    if json_target is not None:
        write_json(summary, json_target)
    if json_target != STDOUT:
        from cohsim.report.text import render

        click.echo(render(summary, top), nl=False)
    if summary["stop"] == "interrupted":
        click.echo("interrupted: the figures cover what ran until then", err=True)
        ctx.exit(EXIT_INTERRUPTED)


def _search(experiment: Any, machine: str, workload: str, seed: int, inputs: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """``--load max-no-loss``: the run at the rate that was found, and all trials."""
    from dataclasses import asdict

    from cohsim.experiment import offered_pps, prepare
    from cohsim.loadsearch import Trial, max_no_loss
    from cohsim.results.summary import summarize

    most = offered_pps(experiment.workload)
    if not most:
        raise InputError(Problem("--load", f"{experiment.workload.name} has no packet source", "leave it out"))

    def run(rate: float) -> Any:
        result = prepare(machine, workload, seed=seed, **{**inputs, "load_pps": rate}).run()
        if result.text("/run/stop") == "interrupted":
            raise KeyboardInterrupt
        return result

    def told(trial: Trial) -> None:
        verdict = "no loss" if trial.lossless else f"{trial.dropped} dropped, paused {100 * trial.paused:.1f}%"
        click.echo(f"offered {trial.offered_pps / 1e6:.3f} Mpacket/s: forwarded {trial.forwarded_pps / 1e6:.3f}, {verdict}", err=True)

    found = max_no_loss(run, summarize, most, told)
    return found.best, [asdict(trial) for trial in found.trials]


def _governed(experiment: Any) -> Any:
    """A ``--governor`` that chooses: the run at the clock that it settles on. Raises KeyboardInterrupt: a part of a trial decides nothing."""
    from cohsim.governor import Trial, governed
    from cohsim.report.text import megahertz

    def told(trial: Trial) -> None:
        asked = "stays" if trial.next_hz == trial.clock_hz else f"asks for {megahertz(trial.next_hz)}"
        click.echo(f"{megahertz(trial.clock_hz)}: busiest CPU at {100 * trial.load:.1f}%, the governor {asked}", err=True)

    return governed(experiment, told)[0]


def _several(
    machine: str, workload: str, inputs: dict[str, Any], seeds: range, cpu: int | None, json_target: str | None, top: int, progress: bool | None
) -> None:
    """``--seeds``: the same run with several seeds."""
    from cohsim.report.sweep import render_seeds, seeds_document
    from cohsim.sweep import Point, run_points
    from cohsim.sweep.point import DONE

    decisive = {name: value for name, value in inputs.items() if not name.startswith("log_")}  # a log needs --output, which is refused
    points = [Point(machine, workload, seed=seed, cpu=cpu, **decisive) for seed in seeds]
    points[0].prepare()  # input errors, before any process is started
    with progress_bar(f"{workload} on {machine}, {len(points)} seeds", progress) as advance:
        outcomes = run_points(points, None, None if advance is None else lambda done, all_: advance(done / all_))
    for seed, outcome in zip(seeds, outcomes, strict=True):
        if outcome.status != DONE:
            what, _, report = outcome.message.partition("\n")
            raise SimulationError(f"seed {seed}: {what}", report)
    document = seeds_document([outcome.summary for outcome in outcomes if outcome.summary is not None])
    if json_target is not None:
        write_json(document, json_target)
    if json_target != STDOUT:
        click.echo(render_seeds(document, top), nl=False)
