"""Speed gates: operations and events per second of CPU time, as ratios to a plain C loop that does only the unavoidable work.

An event is an action that the event loop takes from its schedule: a message from the queue or a core's own turn (``RunData.actions``).

    python -m pytest -m perf tests/perf

A gate is about 1/1.5 of the ratio measured when it was set (docs/performance.md has the figures and how they were taken), so half
as much time again per operation fails and the noise of a shared host does not. After an optimisation, raise it.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from cohsim.machine import compile_machine, load_machine
from cohsim.results.rundata import SERVED, RunData
from cohsim.simulate import simulate
from cohsim.uops import Op
from cohsim.workload import load_workload
from cohsim.workload.compiled import CompiledWorkload
from cohsim.workload.info import count_path

pytestmark = [pytest.mark.perf, pytest.mark.benchmark(timer=time.thread_time)]

HIT_GATES = {("t4240", 4): 1 / 4.9, ("t4240", 24): 1 / 6.2, ("corei7", 4): 1 / 4.3, ("corei7", 8): 1 / 7.7}
IPV6_GATE = 1 / 23
ATOMIC_GATE = 1 / 10
HIT_OPERATIONS = 4 * (256 + 2) + 2 + 2
"""Accesses of one iteration of micro/hit_stream: 1024 of the own array, 8 of settings, 2 of the board, 2 of the turn counter."""


class Case:
    """One workload on one machine, measured from the first instant; every run must give the same counts."""

    def __init__(self, machine: str, workload: str, cpus: int, measure_ns: float, pin: tuple[int, ...] | None = None):
        self.machine = compile_machine(load_machine(machine))
        self.workload: CompiledWorkload = load_workload(workload, isa=self.machine.isa, cpus=cpus)
        self.cpus = cpus
        self.measure_ns = measure_ns
        self.pin = pin
        self.data: RunData | None = None

    def run(self) -> RunData:
        data = simulate(self.machine, self.workload, pin=self.pin, warmup_ns=0.0, measure_ns=self.measure_ns)
        if self.data is not None:
            counts = [(d.events, d.local_turns, d.memory_operations) for d in (data, self.data)]
            assert counts[0] == counts[1]
        self.data = data
        return data


def by_op(case: Case, array: np.ndarray, *ops: Op) -> int:
    """Sum of a [T, U, ...] array over the micro-ops of some kinds."""
    return int(array[:, np.isin(case.workload.uops["op"], ops)].sum())


@pytest.mark.parametrize(("machine", "cpus"), list(HIT_GATES))
def test_hit_stream(machine: str, cpus: int, reference, compare) -> None:
    """Memory operations of threads that nearly always hit L1, against a set lookup and a counter."""
    pin = (0, 8, 16, 2) if (machine, cpus) == ("t4240", 4) else None     # CPUs 0-3 are one cluster: its lines never leave the L2
    case = Case(machine, "micro/hit_stream", cpus, 8_000_000 / cpus if machine == "t4240" else 3_200_000 / cpus, pin)
    speed = compare("memory_operations", reference.lookup_ns, case.run, HIT_GATES[machine, cpus])
    data = case.data
    assert data is not None
    served, iterations = data.served.sum(axis=(0, 1)), int(data.iterations.sum())
    assert iterations > 50 * cpus
    assert 0 <= served.sum() - HIT_OPERATIONS * iterations <= HIT_OPERATIONS * cpus     # the rest: iterations not finished
    assert 0 <= data.memory_operations - served.sum() <= 100 * cpus                     # completed beyond the end
    assert served[SERVED.index("l1")] > 0.99 * served.sum()
    assert data.counters["home_requests"] > iterations                                  # the shared lines do move
    assert 4 * iterations < data.events < 100 * iterations
    assert speed.ratio > HIT_GATES[machine, cpus]


def test_ipv6_forwarding(reference, compare) -> None:
    """Events of the whole forwarding path, all 24 CPUs, against a heap pop and push."""
    case = Case("t4240", "ipv6_fwd", 24, 400_000)
    speed = compare("actions", reference.heap_ns, case.run, IPV6_GATE)
    data = case.data
    assert data is not None
    alone = count_path(case.workload, 0).counts
    least = sum(alone.values())                       # of one packet without contention: an LL/SC pair counts once here
    packets = int(data.iterations.sum())
    assert packets > 300
    assert least * packets < data.served.sum() < 1.5 * least * (packets + 24)
    stores = by_op(case, data.served, Op.STORE)
    assert stores > sum(n for kind, n in alone.items() if kind.endswith("stores")) * packets
    check_cluster_events(data)
    assert data.counters["home_requests"] > 3 * packets     # route, table lock and device lines come from another cluster
    assert speed.ratio > IPV6_GATE


def test_atomic_increment(reference, compare) -> None:
    """Events of one counter that 24 CPUs increment, against a heap pop and push."""
    case = Case("t4240", "micro/atomic_inc", 24, 1_000_000)
    speed = compare("actions", reference.heap_ns, case.run, ATOMIC_GATE)
    data = case.data
    assert data is not None
    conditional = by_op(case, data.served, Op.SC)
    done, failed = int(data.iterations.sum()), int(data.sc_failures.sum())
    assert done > 1000
    assert 0 <= conditional - failed - done <= 24           # every success is an increment; the rest is not counted yet
    assert data.memory_operations == pytest.approx(conditional + by_op(case, data.served, Op.LL), abs=48)
    check_cluster_events(data)
    assert speed.ratio > ATOMIC_GATE


def check_cluster_events(data: RunData) -> None:
    """Under a cluster's L2, a request is one event at the L2 and its answer one at the core; queues, snoops, home add some."""
    requests = data.counters["l2_requests"]
    assert 1.98 * requests < data.events < 8 * requests
    assert data.local_turns < data.events                  # a turn begins with an answer or an instruction's own time, never for nothing
