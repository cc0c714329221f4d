"""Same inputs, same bits: with and without look-ahead, run after run, and when two simulations share the process."""

from __future__ import annotations

import threading

import pytest
from program import Program, workload
from random_programs import random_programs, tiny_machine
from tree_workloads import MACHINES, differences, short_run, workload_files

from cohsim.machine.compiled import CompiledMachine
from cohsim.results.rundata import RunData
from cohsim.simulate import simulate
from cohsim.uops import Cond, Op
from cohsim.workload.compiled import Source

TINY: dict[str, dict[str, object]] = {
    "two-way L2": {},
    "larger L2, tiny L3": {"l2_sets": 4, "l2_ways": 4, "l3_sets": 1, "l3_ways": 3},
    "no sharing of dispatch": {"smt_shared_dispatch": False},
    "other order of snoops": {"snoop_first": False},
    "two slices, one channel": {"home_slices": 2, "memory_channels": 1},
}


@pytest.mark.parametrize(("machine", "name"), workload_files())
def test_is_a_workload_the_same_without_look_ahead_and_the_second_time(machine: str, name: str) -> None:
    first = short_run(machine, name)
    assert first.memory_operations > 0 and first.time_fs.any()
    assert differences(first, short_run(machine, name, lookahead=False)) == []
    assert differences(first, short_run(machine, name)) == []


@pytest.mark.parametrize("machine", MACHINES)
def test_are_two_runs_in_two_threads_at_once_the_same_as_alone(machine: str) -> None:
    names = ("ipv6_fwd.trace", "micro/atomic_inc.trace")
    alone = {name: short_run(machine, name, measure_ns=60_000) for name in names}
    both: dict[str, RunData] = {}
    gate = threading.Barrier(len(names))

    def work(name: str) -> None:
        gate.wait()
        both[name] = short_run(machine, name, measure_ns=60_000)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert {name: differences(alone[name], both[name]) for name in names} == {name: [] for name in names}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["ipv6_fwd.trace", "micro/cas_inc.trace"])
def test_does_another_seed_give_another_run(machine: str, name: str) -> None:
    assert "time_fs" in differences(short_run(machine, name, seed=1), short_run(machine, name, seed=2))


def random_run(m: CompiledMachine, seed: int, **options: object) -> RunData:
    """A random program on two to eight CPUs spread over cores, siblings and clusters. The seed is in the test's name."""
    cpus = 2 + seed % 7
    pin = tuple(i * 5 % len(m.cpu_core) for i in range(cpus))
    programs = random_programs(seed, m.isa, cpus=cpus, lines=3 + seed % 7)
    w = workload(m, programs, seed=seed + 1, warmup_ns=100.0 * (seed % 3))
    return simulate(m, w, pin=pin, seed=seed + 1, check=True, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("geometry", TINY)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(0, 50, 10))
def test_are_random_programs_the_same_without_look_ahead(name: str, geometry: str, seed: int) -> None:
    """Ten programs each; all of them end, in checked mode, and evict, upgrade and lose reservations on the way."""
    m = tiny_machine(name, **TINY[geometry])
    for s in range(seed, seed + 10):
        first = random_run(m, s)
        assert first.stop == "finished"
        assert differences(first, random_run(m, s, lookahead=False)) == [], f"seed {s}"


@pytest.mark.parametrize("name", MACHINES)
def test_do_the_random_programs_reach_the_rare_paths(name: str) -> None:
    """The comparison above is worth what its programs reach."""
    m = tiny_machine(name, l3_sets=1)
    total: dict[str, int] = {}
    failures = 0
    for seed in range(40):
        d = random_run(m, seed)
        failures += int(d.sc_failures.sum())
        for key, value in d.counters.items():
            total[key] = total.get(key, 0) + value
        for controller, (states, events, fired) in d.transitions.items():
            for s, e in zip(*fired.nonzero(), strict=True):
                total[f"{controller} {states[s]} {events[e]}"] = 1
    assert failures > 0
    for key in ("evictions", "writebacks", "memory_writes"):
        assert total[key] > 0, key
    for row in ("node MI SnpM", "node II PutAck", "node SM SnpM", "home Free PutMStale", "node IM SnpM"):
        assert row in total, row
    assert total["recalls" if m.l3_inclusive else "gathered_stores"] > 0


@pytest.mark.parametrize("lookahead", [True, False])
@pytest.mark.parametrize("name", MACHINES)
def test_does_a_run_end_when_the_last_thread_halts(name: str, lookahead: bool) -> None:
    """The only thread never waits: with look-ahead it is through before the queue has moved."""
    m = tiny_machine(name)
    p = Program()
    p.work(1000)
    p.halt()
    d = simulate(m, workload(m, [p]), lookahead=lookahead)
    assert d.measured_fs >= 1000 * m.issue_fs
    assert d.time_fs.sum() == d.measured_fs


@pytest.mark.parametrize("name", MACHINES)
def test_turns_of_the_schedule_are_counted(name: str) -> None:
    """Without look-ahead each micro-op is a turn of its own, and the start; a thread that is alone runs through in one."""
    m = tiny_machine(name)
    p = Program()
    for _ in range(20):
        p.alu(3, 3, 1)
    p.halt()
    w = workload(m, [p])
    stepped, ahead = simulate(m, w, lookahead=False), simulate(m, w)
    assert (stepped.local_turns, ahead.local_turns) == (21, 1)
    assert stepped.events == ahead.events == 0


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_are_packet_sources_the_same_without_look_ahead(name: str, arrivals: str) -> None:
    m = tiny_machine(name)
    programs = []
    for program in random_programs(5, m.isa, cpus=4, lines=5, operations=30):
        forwarder = Program()
        forwarder.add(Op.PACKET)
        for index, op in enumerate(program.ops[:-1]):
            forwarder.ops.append(op)
            if index in program.targets:
                forwarder.targets[index + 1] = program.targets[index] + 1
        forwarder.add(Op.DONE)
        forwarder.branch(Cond.ALWAYS, -1, 0, 0)
        programs.append(forwarder)
    source = Source(rate_pps=8e6, frame_bytes=64, overhead_bytes=20, ring=4, weights=(0.4, 0.3, 0.2, 0.1), flows=3, link_bps=4e9,
                    arrivals=arrivals, pool=7)
    w = workload(m, programs, source=source, warmup_ns=500, measure_ns=20_000)
    first = simulate(m, w, check=True)
    assert first.received.sum() > 20
    assert differences(first, simulate(m, w, lookahead=False)) == []
