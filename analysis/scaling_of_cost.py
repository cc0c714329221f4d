"""Does the emulator's own cost stay linear, and its memory constant?

    python analysis/scaling_of_cost.py [--operations 1e7] [--stream 1e8]

One hot line touched by all 24 threads of a T4240 for ever longer runs (host time per operation must stay flat), then generated recorded streams of
ever more operations (resident memory must not grow). Prints a table; docs/performance.md shows one.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import click
import numpy as np

from cohsim.machine import compile_machine, load_machine
from cohsim.simulate import simulate
from cohsim.traces.records import RECORD
from cohsim.uops import UOP, Op, uop
from cohsim.workload import load_workload
from cohsim.workload.compiled import CompiledWorkload

CHUNK = 100_000


def hot_line(operations: int) -> tuple[int, float]:
    """(operations, host seconds) of 24 threads on one shared counter."""
    machine = compile_machine(load_machine("t4240"))
    workload = load_workload("micro/atomic_inc", isa=machine.isa, cpus=24)
    begun = time.process_time()
    data = simulate(machine, workload, warmup_ns=0, measure_ns=operations * 5.6)
    return data.memory_operations, time.process_time() - begun


def stream(cpu: int, operations: int) -> Iterator[np.ndarray]:
    """Loads and stores over 128 KiB of its own and 64 lines that all share, in chunks."""
    rng = np.random.default_rng(cpu)
    for _ in range(max(1, operations // CHUNK)):
        records = np.zeros(CHUNK, RECORD)
        records["kind"] = np.where(rng.random(CHUNK) < 0.3, int(Op.STORE), int(Op.LOAD))
        records["size"] = 8
        own = (cpu << 24) + 8 * rng.integers(0, 1 << 14, CHUNK)
        records["address"] = np.where(rng.random(CHUNK) < 0.01, 0x80000000 + 64 * rng.integers(0, 64, CHUNK), own)
        records["gap"] = 3
        yield records


def streams(operations: int, cpus: int = 8) -> tuple[int, float, float]:
    """(operations, host seconds, peak resident MiB) of generated streams on a T4240."""
    machine = compile_machine(load_machine("t4240"))
    uops = np.array([uop(Op.LOAD, size=8)], UOP)
    workload = CompiledWorkload("stream", "", machine.isa, cpus, (), uops, np.zeros(cpus, np.int32), ["stream"], [], [], [], warmup_ns=0.0)
    begun = time.process_time()
    data = simulate(machine, workload, streams=[stream(c, operations // cpus) for c in range(cpus)])
    return data.memory_operations, time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@click.command(help=__doc__)
@click.option("--operations", default=1e7, show_default=True, help="Longest run on one hot line.")
@click.option("--stream", "longest", default=1e8, show_default=True, help="Longest stream.")
def main(operations: float, longest: float) -> None:
    for part in (100, 10, 1):
        done, seconds = hot_line(int(operations / part))
        click.echo(f"hot line: {done:>11,} operations, {seconds:7.2f} s, {seconds / done * 1e9:6.0f} ns each")
    for part in (100, 10, 1):
        done, seconds, memory = streams(int(longest / part))
        click.echo(f"streams:  {done:>11,} operations, {seconds:7.2f} s, {seconds / done * 1e9:6.0f} ns each, {memory:.0f} MiB")


if __name__ == "__main__":
    main()
