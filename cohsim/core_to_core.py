"""Latency between every two CPUs of a machine, found by running a workload on each pair: no figure is read out of the machine file."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from cohsim.errors import InputError, Problem
from cohsim.machine import compile_machine, load_machine
from cohsim.results.rundata import RunData
from cohsim.simulate import simulate
from cohsim.workload import load_workload
from cohsim.workload.compiled import CompiledWorkload

WARMUP_NS = 3_000.0
MEASURE_NS = 20_000.0  # a hundred hand-offs over the slowest path of the shipped machines


@dataclass(frozen=True)
class Load:
    """A way to measure: a workload of two CPUs, and what its run says."""

    title: str
    workload: str
    variants: tuple[str, ...]
    mutual: bool  # one run serves both directions
    one_way_ns: Callable[[CompiledWorkload, RunData], float]


def _hand_off_ns(_: CompiledWorkload, data: RunData) -> float:
    """An iteration is two hand-offs."""
    done = int(data.iterations[0])
    return data.measured_fs / 1e6 / done / 2 if done else float("nan")


def _load_ns(workload: CompiledWorkload, data: RunData) -> float:
    """Time the CPU spends per execution of the load in ``one_load``: dispatch, and waiting for the value. A sibling's line is in the shared
    L1, and an L1 hit is overlapped: it costs its dispatch alone.
    """
    inside = np.flatnonzero(workload.uops["func"] == workload.func_names.index("one_load"))
    load = next(int(i) for i in inside if workload.uops["field"][i] >= 0)
    calls = int(data.count[0, load])
    return float(data.time_fs[0, load].sum()) / 1e6 / calls if calls else float("nan")


LOADS = {
    "ping-pong": Load("hand-off of a word by compare-and-swap, one way", "micro/ping_pong", (), True, _hand_off_ns),
    "modified": Load("cost of a load of a line another CPU has modified (dispatch and wait)", "micro/load_latency", ("modified",), False, _load_ns),
}


def measure(
    machine: str, load: str = "ping-pong", overrides: tuple[str, ...] = (), progress: Callable[[float], None] | None = None
) -> np.ndarray:
    """Nanoseconds ``[i, j]``, NaN on the diagonal. ``ping-pong``: CPU i hands a word to CPU j, symmetric; ``modified``: CPU j loads what
    CPU i wrote.

    Raises InputError for a machine with one CPU or an unknown load. Pairs run on all host cores; the result does not depend on that.
    """
    if load not in LOADS:
        raise InputError(Problem("--load", f"{load!r} is not a way to measure", f"choose from {', '.join(LOADS)}"))
    how = LOADS[load]
    compiled = compile_machine(load_machine(machine, overrides))
    cpus = len(compiled.cpu_core)
    if cpus < 2:
        raise InputError(Problem(machine, "has one CPU, so there is nothing to measure between CPUs", "give a machine with two or more"))
    workload = load_workload(how.workload, isa=compiled.isa, cpus=2, variants=how.variants)
    pairs = list((combinations if how.mutual else permutations)(range(cpus), 2))
    found = np.full((cpus, cpus), np.nan)

    def one(pair: tuple[int, int]) -> float:
        pin = pair if how.mutual else pair[::-1]  # CPU 0 of load_latency is the one that loads
        return how.one_way_ns(workload, simulate(compiled, workload, pin=pin, warmup_ns=WARMUP_NS, measure_ns=MEASURE_NS))

    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        for number, (pair, ns) in enumerate(zip(pairs, pool.map(one, pairs), strict=True)):
            found[pair] = ns
            if how.mutual:
                found[pair[::-1]] = ns
            if progress is not None:
                progress((number + 1) / len(pairs))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C: do not wait for hundreds of pairs
    return found
