"""Every workload of the tree on every bundled machine, in windows short enough to run them all several times."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np

from cohsim.errors import WorkloadError
from cohsim.experiment import RECORDED_SUFFIX, Experiment, prepare
from cohsim.machine import compile_machine, load_machine
from cohsim.results.rundata import RunData
from cohsim.simulate import simulate
from cohsim.traces import load_recorded

ROOT = Path(__file__).resolve().parent.parent / "workloads"
MACHINES = ("corei7", "t4240")
CHUNK = 1 << 12

WARMUP_NS = 2_000.0
MEASURE_NS = 6_000.0


PIN = (0, 1, 2, 3, 4)
"""Core i7: all cores and one pair of siblings; T4240: two pairs of siblings and a core, all in one cluster."""


def workload_files() -> list[tuple[str, str]]:
    """(machine, path relative to ``workloads/``) of all that go together: a recorded trace runs on its own instruction set only."""
    texts = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.trace") if p.parent.name != "lib")
    recorded = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.rglob(f"*{RECORDED_SUFFIX}"))
    return [(m, t) for m in MACHINES for t in texts] + [
        (m, t) for m in MACHINES for t in recorded if load_recorded(ROOT / t).isa == compile_machine(load_machine(m)).isa
    ]


@cache
def experiment(machine: str, name: str) -> Experiment:
    """The workload on CPUs ``PIN``, or as many of them as it was written for; recorded: on as many as were recorded."""
    path = str(ROOT / name)
    if name.endswith(RECORDED_SUFFIX):
        return prepare(machine, path)
    for cpus in (5, 2, 3, 4):
        try:
            return prepare(machine, path, pin=PIN[:cpus])
        except WorkloadError as error:
            if "this workload is for" not in str(error):
                raise
    raise AssertionError(f"{name} does not run on 2 to 5 CPUs")


def is_recorded(name: str) -> bool:
    return name.endswith(RECORDED_SUFFIX)


def short_run(machine: str, name: str, **options: object) -> RunData:
    """Run it; ``options`` as for ``simulate``."""
    e = experiment(machine, name)
    streams = None if e.trace is None else [e.trace.chunks(vcpu, CHUNK) for vcpu in e.trace.vcpus]
    values: dict[str, object] = {"pin": e.settings.pin, "warmup_ns": WARMUP_NS, "measure_ns": MEASURE_NS, "streams": streams}
    return simulate(e.machine, e.workload, **(values | options))  # type: ignore[arg-type]


def differences(a: RunData, b: RunData) -> list[str]:
    """Names of all fields (host time and the turns of the schedule aside: they are how, not what) in which two runs differ by as much as a bit."""
    different = []
    for f in dataclasses.fields(RunData):
        x, y = getattr(a, f.name), getattr(b, f.name)
        if f.name in ("host_seconds", "local_turns"):
            continue
        if f.name == "transitions":
            equal = all(x[k][:2] == y[k][:2] and np.array_equal(x[k][2], y[k][2]) for k in (*x, *y))
        elif isinstance(x, np.ndarray):
            equal = np.array_equal(x, y)
        else:
            equal = x == y
        if not equal:
            different.append(f.name)
    return different
