"""A thread's time is booked once: its categories sum to the measured window, to the femtosecond."""

from __future__ import annotations

import numpy as np
import pytest
from program import Program, machine, run, workload
from random_programs import random_programs, tiny_machine
from tree_workloads import MACHINES, experiment, is_recorded, short_run, workload_files

from cohsim.results.rundata import CATEGORIES, SERVED
from cohsim.simulate import simulate
from cohsim.uops import Cond, Flag, Op
from cohsim.workload.compiled import Source

X = 0x10000


@pytest.mark.parametrize(("machine_name", "name"), workload_files())
@pytest.mark.parametrize("warmup_ns", [0.0, 1234.5])
def test_do_the_categories_of_every_thread_sum_to_the_window(machine_name: str, name: str, warmup_ns: float) -> None:
    d = short_run(machine_name, name, warmup_ns=warmup_ns, measure_ns=6_000.0)
    assert d.stop == "finished"
    assert d.measured_fs == round(warmup_ns * 1e6 + 6e9) - round(warmup_ns * 1e6)
    halted = idle_cpus(machine_name, name) if not is_recorded(name) else set()
    sums = d.time_fs.sum(axis=(1, 2))
    assert {cpu: int(s) for cpu, s in enumerate(sums) if s != d.measured_fs and cpu not in halted} == {}
    assert (sums <= d.measured_fs).all() and (d.time_fs >= 0).all()


def idle_cpus(machine_name: str, name: str) -> set[int]:
    """CPUs whose program is only HALT: they take part in nothing."""
    w = experiment(machine_name, name).workload
    return {cpu for cpu, first in enumerate(w.entry) if w.uops["op"][first] == Op.HALT}


def looped(programs: list[Program]) -> list[Program]:
    """The programs, for ever."""
    for p in programs:
        p.ops.pop()
        p.branch(Cond.ALWAYS, -1, 0, 0, flags=Flag.PRED_TAKEN)
    return programs


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(8))
def test_do_random_programs_on_tiny_caches_lose_no_time(name: str, seed: int) -> None:
    """Windows of odd lengths cut operations at every point: blocked, holding a lock, retrying, in a mispredict."""
    m = tiny_machine(name)
    cpus = 1 + seed % 8
    pin = tuple(i * 5 % len(m.cpu_core) for i in range(cpus))
    for cut in range(4):
        w = workload(m, looped(random_programs(seed, m.isa, cpus=cpus)), seed=seed + 1, warmup_ns=333.333 * cut, measure_ns=777.777 + 91 * cut)
        for lookahead in (True, False):
            d = simulate(m, w, pin=pin, seed=seed + 1, lookahead=lookahead)
            assert set(d.time_fs.sum(axis=(1, 2)).tolist()) == {d.measured_fs}


@pytest.mark.parametrize("name", MACHINES)
def test_is_a_thread_that_waits_at_the_end_booked_until_the_end(name: str) -> None:
    """Cut in the middle of a miss: the wait belongs to the load."""
    m = machine(name)
    p = Program()
    i = p.load(X, 0)
    p.branch(Cond.NE, 0, 1, 0)
    p.halt()
    end = 100 * m.core_period_fs + m.l2_hit_fs + m.hop_fs
    d = run(m, [p], until_fs=end)
    assert d.arrays["time_fs"].sum() == end
    assert d.time_fs(0, "home", i) == end - d.starts_fs[0] - m.issue_fs


@pytest.mark.parametrize("name", MACHINES)
def test_is_waiting_for_packets_idle_and_nothing_else(name: str) -> None:
    m = machine(name)
    p = Program()
    packet = p.add(Op.PACKET)
    p.work(100)
    p.add(Op.DONE)
    p.branch(Cond.ALWAYS, -1, 0, 0)
    s = Source(rate_pps=1.1e6, frame_bytes=64, overhead_bytes=20, ring=16, weights=(1.0,), flows=1, link_bps=0.0, arrivals="poisson", pool=0)
    for warmup in (0.0, 777.7):
        d = simulate(m, workload(m, [p], source=s, warmup_ns=warmup, measure_ns=20_123.4), seed=3)
        assert d.time_fs.sum() == d.measured_fs
        idle = d.time_fs[0, :, CATEGORIES.index("idle")]
        assert idle[packet] > 0 and (warmup == 0 or idle.sum() == idle[packet])


@pytest.mark.parametrize("name", MACHINES)
def test_is_time_in_wait_loops_booked_as_spin(name: str) -> None:
    m = machine(name)
    p = Program()
    p.load(X, 0)
    p.add(Op.PAUSE, flags=Flag.SPIN)
    p.branch(Cond.EQ, 0, 0, 1, flags=Flag.SPIN | Flag.PRED_TAKEN)
    p.halt()
    d = simulate(m, workload(m, [p], warmup_ns=1000, measure_ns=1000))
    assert d.time_fs[0, :, CATEGORIES.index("spin")].sum() == d.measured_fs


@pytest.mark.parametrize("machine_name", MACHINES)
@pytest.mark.parametrize("name", ["ipv6_fwd.trace", "micro/atomic_inc.trace", "micro/plain_inc.trace"])
def test_is_every_access_served_by_somebody_exactly_once(machine_name: str, name: str) -> None:
    """Accesses under way at the edges of the window are the only difference between executions and services."""
    d = short_run(machine_name, name)
    ops = experiment(machine_name, name).workload.uops["op"]
    memory = (ops >= Op.LOAD) & (ops <= Op.SC)
    served, executed = d.served.sum(axis=2)[:, memory], d.count[:, memory]
    slack = 64                                              # store buffer and outstanding loads of one thread
    assert (np.abs(served.sum(axis=1) - executed.sum(axis=1)) <= slack).all()
    assert not d.served.sum(axis=2)[:, ~memory].any()
    assert d.latency_hist.sum() == served.sum()
    assert d.latency_hist.shape[0] == len(SERVED)
