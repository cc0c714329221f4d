"""Ctrl-C reaches a run whose only CPU never meets anybody: the core must not run ahead to the end in one go."""

from __future__ import annotations

from cohsim.machine import compile_machine, load_machine
from cohsim.simulate import simulate
from cohsim.workload import load_workload


def test_does_a_lone_cpu_let_an_interrupt_in() -> None:
    machine = compile_machine(load_machine("corei7"))
    workload = load_workload("micro/private_inc", isa=machine.isa, cpus=1)

    def interrupt(_fraction: float) -> None:
        raise KeyboardInterrupt

    run = simulate(machine, workload, measure_ns=1e9, progress=interrupt)     # a fraction of a second in, not ten seconds
    assert run.stop == "interrupted" and 0 < run.measured_fs < 1e15
    assert run.time_fs.sum() == run.measured_fs
