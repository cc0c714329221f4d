"""``cohsim sweep``: many runs of one workload, on all host cores or a Dask cluster."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cohsim.cli.main import EXIT_FAILED
from cohsim.cli.options import MAX_NO_LOSS, STDOUT, CpuList, Duration, Load, check_output, write_json
from cohsim.cli.progress import progress_bar
from cohsim.errors import InputError, Problem
from cohsim.results.provenance import GOVERNORS, PERFORMANCE

if TYPE_CHECKING:
    from cohsim.sweep import Sweep

_COMMA = re.compile(r",(?![^\[{(]*[\]})])")  # outside brackets: a machine value may be a list


@click.command("sweep")
@click.argument("machine")
@click.argument("workload")
@click.option("--cpus", type=CpuList(), metavar="LIST", help="CPU counts: 1-24 or 1,2,4,8 (default: all CPUs of the machine).")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Seeds of every point: --seed and the following.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="First seed.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=A,B,C", help="Values of a machine key: caches.l2.hit=12cycles,14cycles; repeatable."
)
@click.option("--variant", "variants", multiple=True, metavar="A,B", help="Variants to compare; a+b is both, none is neither; repeatable.")
@click.option("--layout", "layouts", multiple=True, metavar="A,B", help="Layout rules to compare; a+b is both, none is neither; repeatable.")
@click.option("--lock", "locks", multiple=True, metavar="A,B", help="Lock replacements to compare: none,OBJECT.FIELD=mcs; repeatable.")
@click.option("--isa", "isa_options", multiple=True, metavar="A,B", help="Lowerings to compare: none,atomics=far; repeatable.")
@click.option("--kernel", metavar="VERSION", help="Kernel version, for workloads that describe several.")
@click.option("--warmup", "warmup_ns", type=Duration(), help="Simulated time before the measurement, 50us (default: the workload's).")
@click.option("--measure", "measure_ns", type=Duration(), help="Simulated time that is measured, 2ms (default: the workload's).")
@click.option("--load", type=Load(), metavar="RATE", help="Offered load, 1.4Mpps (default: the workload's).")
@click.option("--governor", type=click.Choice(GOVERNORS), default=PERFORMANCE, show_default=True,
              help="Who chooses the cores' clock at each point; ondemand: Linux's governor.")
@click.option("-o", "--output", type=click.Path(), required=True, metavar="SWEEP.h5", help="File of the sweep; one that exists is completed.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes on this host (default: one per core).")
@click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster of this scheduler, tcp://HOST:8786.")
@click.option("--json", "json_target", metavar="FILE", help="Write the table and the fits as JSON; - is stdout, and then nothing else is printed.")
@click.option("--progress/--no-progress", default=None, help="Progress bar on stderr (default: on a terminal).")
@click.pass_context
def sweep_command(
    ctx: click.Context, output: str, jobs: int | None, dask: str | None, json_target: str | None, progress: bool | None, **inputs: Any
) -> None:
    """Run WORKLOAD on MACHINE at every combination of the given values; a file that was begun is gone on with.

    Exit code 1: a simulated system failed at some point (the others are done); 130: interrupted, run the same command to go on.
    """
    from cohsim.report.sweep import render_sweep, sweep_document
    from cohsim.sweep import DaskBackend, LocalBackend, run_sweep
    from cohsim.sweep.point import FAILED

    check_output(output, "--output")
    check_output(json_target, "--json")
    if dask is not None and jobs is not None:
        raise InputError(Problem("--jobs", "is for this host, --dask for a cluster", "leave one out"))
    sweep = build_sweep(**inputs)
    with ExitStack() as stack:
        if dask is None:
            backend: Any = LocalBackend(jobs)
        else:
            backend = DaskBackend(dask)
            stack.callback(backend.close)
        advance = stack.enter_context(progress_bar(f"{inputs['workload']} on {inputs['machine']}, {len(sweep.points)} points", progress))
        result = run_sweep(sweep, Path(output), backend, None if advance is None else lambda done, points: advance(done / points))
    if json_target is not None:
        write_json(sweep_document(result), json_target)
    if json_target != STDOUT:
        click.echo(render_sweep(result), nl=False)
    failed = result.count(FAILED)
    if failed:
        click.echo(f"{failed} of {len(result.points)} points failed; {output} says why", err=True)
        ctx.exit(EXIT_FAILED)


def build_sweep(
    machine: str,
    workload: str,
    cpus: tuple[int, ...] | None,
    seeds: int,
    seed: int,
    settings: tuple[str, ...],
    **options: Any,
) -> Sweep:
    """The sweep of these options: one value is fixed, several are an axis. Raises InputError."""
    from cohsim.sweep import Point, Sweep
    from cohsim.sweep.definition import JOIN, LISTS, NONE

    load = options.pop("load")
    if load == MAX_NO_LOSS:
        raise InputError(Problem("--load", f"{MAX_NO_LOSS} is a search, each point of a sweep is one run", "give a rate such as 1.4Mpps"))
    options["load_pps"] = load
    axes: dict[str, tuple[int | str, ...]] = {}
    fixed: dict[str, Any] = {}
    for axis, field in LISTS.items():
        values = _split(options.pop(field), f"--{axis}")
        if len(values) > 1:
            axes[axis] = values
        elif values and values[0] != NONE:
            fixed[field] = tuple(values[0].split(JOIN))
    overrides: list[str] = []
    for setting in settings:
        key, equals, text = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InputError(Problem("--set", f"{setting!r} has no value", "write KEY=VALUE or KEY=A,B,C"))
        if key in axes or any(o.startswith(f"{key}=") for o in overrides):
            raise InputError(Problem("--set", f"{key} is given twice", f"write {key}=A,B,C once"))
        values = _split((text,), f"--set {key}")
        if len(values) > 1:
            axes[key] = values
        else:
            overrides.append(setting)
    if cpus is not None:
        repeated = sorted({n for n in cpus if cpus.count(n) > 1})
        if repeated:
            raise InputError(Problem("--cpus", f"{repeated[0]} is named twice", "name each CPU count once"))
        axes["cpus"] = cpus
    if seeds > 1:
        axes["seed"] = tuple(range(seed, seed + seeds))
    return Sweep(Point(machine, workload, seed=seed, overrides=tuple(overrides), **fixed, **options), axes)


def _split(texts: tuple[str, ...], option: str) -> tuple[str, ...]:
    values = [part.strip() for text in texts for part in _COMMA.split(text)]
    if "" in values:
        raise InputError(Problem(option, f"an empty value in {','.join(texts)!r}", "write A,B,C; none stands for no change"))
    for value in values:
        if values.count(value) > 1:
            raise InputError(Problem(option, f"{value} is named twice", "name each value once"))
    return tuple(values)
