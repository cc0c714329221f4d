"""Hardware threads and packets: window, dispatch shared by siblings, mispredicts, arrivals, receive rings, buffer pools."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cohsim._core import Simulation
from program import LINE, Program, X, at, machine, run, tiny, workload

from cohsim.machine.compiled import CompiledMachine
from cohsim.protocols import flat_tables
from cohsim.results.rundata import RunData
from cohsim.simulate import simulate
from cohsim.uops import Cond, Flag, Op, Slot
from cohsim.workload.compiled import Source

T1 = 1_000_000_000
NS = 1_000_000


@pytest.fixture(params=["t4240", "xeon_x5550"])
def m(request: pytest.FixtureRequest) -> CompiledMachine:
    return machine(request.param)


def memory_fs(m: CompiledMachine) -> int:
    snoops = 2 * m.hop_fs + m.snoop_fs if m.home_broadcast else 0
    return m.l2_hit_fs + 2 * m.hop_fs + m.home_lookup_fs + max(m.memory_fs, snoops) + m.line_transfer_fs


def test_does_a_thread_stop_when_the_window_behind_a_miss_is_full(m: CompiledMachine) -> None:
    """The load itself takes one place: window - 1 instructions more may dispatch."""
    for work, expected in ((m.window - 1, m.window * m.issue_fs), (m.window, memory_fs(m) + m.issue_fs)):
        p = at(T1)
        p.load(X)
        p.work(work)
        p.halt()
        assert m.window * m.issue_fs < memory_fs(m)
        r = run(m, [p])
        assert r.end_fs() - r.begin_fs[0] == expected


def test_is_the_window_smaller_while_the_sibling_works(m: CompiledMachine) -> None:
    m = tiny(m, smt_shared_dispatch=False, window=12, window_smt=8)
    neighbour = at(T1 - 100 * NS)
    neighbour.work(100_000)
    neighbour.halt()
    for work, expected in ((7, 8 * m.issue_fs), (8, memory_fs(m) + m.issue_fs)):
        p = at(T1)
        p.load(X)
        p.work(work)
        p.halt()
        sibling = m.cpu_core.index(0, 1)
        r = run(m, [p, neighbour], pin=(0, sibling), until_fs=T1 + 10 * memory_fs(m))
        assert r.end_fs() - r.begin_fs[0] == expected


def test_do_loads_behind_a_miss_overlap_unless_they_depend(m: CompiledMachine) -> None:
    m = tiny(m, memory_line_fs=0, home_occupancy_fs=0, line_transfer_fs=0, l2_bank_fs=0)
    step = max(m.issue_fs, m.l1_port_fs)
    for dep, expected in ((False, step + memory_fs(m)), (True, 2 * memory_fs(m))):
        p = at(T1)
        p.load(X)
        p.load(X + LINE, dep=dep)
        p.probe_end()
        r = run(m, [p])
        assert r.end_fs() - r.begin_fs[0] - m.issue_fs == expected


def test_do_siblings_that_dispatch_together_take_turns_where_the_machine_shares_dispatch(m: CompiledMachine) -> None:
    """Both run 20 000 instructions: twice as slow while both run (to the 16 instructions between two looks), or not at all."""
    n = 20_000
    both = [at(T1), at(T1)]
    for p in both:
        p.work(n)
        p.halt()
    sibling = m.cpu_core.index(0, 1)
    r = run(m, both, pin=(0, sibling))
    for cpu in (0, 1):
        took = r.time_fs(cpu, "issue", 1)
        if m.smt_shared_dispatch:
            assert abs(took - 2 * n * m.issue_fs) <= 3 * 16 * m.issue_fs
        else:
            assert took == n * m.issue_fs
    apart = run(m, both, pin=(0, m.cpu_core.index(1)))
    assert [apart.time_fs(cpu, "issue", 1) for cpu in (0, 1)] == [n * m.issue_fs] * 2


def test_does_a_sibling_that_waits_for_memory_leave_all_dispatch_slots(m: CompiledMachine) -> None:
    waiting = at(T1)
    waiting.load(X, 0)
    waiting.branch(Cond.NE, 0, 1)
    waiting.targets[2] = 3
    waiting.halt()
    p = at(T1 + 20 * NS)
    p.work(50)
    p.halt()
    m = tiny(m, memory_fs=1000 * NS)
    r = run(m, [p, waiting], pin=(0, m.cpu_core.index(0, 1)))
    assert r.time_fs(0, "issue", 1) == 50 * m.issue_fs


def test_what_does_a_mispredicted_branch_cost(m: CompiledMachine) -> None:
    """Its latency on average, spread evenly over half to one and a half of it; nothing when predicted."""
    times = 2000
    for flags in (0, Flag.PRED_TAKEN):
        p = at(T1)
        top = p.here
        branch = p.branch(Cond.EQ, 2, 0, flags=flags)
        p.land(branch)
        p.counted_loop(3, times, top)
        p.halt()
        r = run(m, [p])
        cost = r.time_fs(0, "issue", branch) - times * m.issue_fs
        if flags:
            assert cost == 0
        else:
            mean = cost / times
            sigma = m.mispredict_fs / math.sqrt(12 * times)
            assert abs(mean - m.mispredict_fs) < 4 * sigma
    lowest, highest = m.mispredict_fs, 0
    for seed in range(1, 60):
        p = at(T1)
        branch = p.branch(Cond.EQ, 2, 0)
        p.land(branch)
        p.halt()
        cost = run(m, [p], seed=seed).time_fs(0, "issue", branch) - m.issue_fs
        lowest, highest = min(lowest, cost), max(highest, cost)
    half = m.mispredict_fs // 2
    assert half <= lowest < half + half // 4 and half + m.mispredict_fs - half // 4 < highest <= half + m.mispredict_fs


def test_how_long_is_a_pause(m: CompiledMachine) -> None:
    p = at(T1)
    p.add(Op.PAUSE)
    p.halt()
    r = run(m, [p])
    assert r.end_fs() - r.begin_fs[0] == m.pause_fs


# Packets ------------------------------------------------------------------------------------------------------------------------


def source(rate_pps: float, cpus: int = 1, **fields: object) -> Source:
    values: dict[str, object] = {"rate_pps": rate_pps, "frame_bytes": 64, "overhead_bytes": 20, "ring": 512, "weights": (1 / cpus,) * cpus,
                                 "flows": 1, "link_bps": 0.0, "arrivals": "constant", "pool": 0}
    return Source(**(values | fields))  # type: ignore[arg-type]


def forwarder(work: int) -> Program:
    """Takes a packet, works, is done with it, for ever."""
    p = Program()
    p.add(Op.PACKET)
    p.work(work)
    p.add(Op.DONE)
    p.branch(Cond.ALWAYS, -1, 0, 0)
    return p


def forward(m: CompiledMachine, s: Source, programs: list[Program], measure_ns: float = 100_000, seed: int = 1) -> RunData:
    return simulate(m, workload(m, programs, source=s, warmup_ns=1000, measure_ns=measure_ns, seed=seed), check=True, seed=seed)


def test_does_a_thread_take_every_packet_and_idle_between_them(m: CompiledMachine) -> None:
    d = forward(m, source(1e6), [forwarder(100)])
    assert d.received[0] == d.iterations[0] == 100 and d.dropped[0] == 0
    busy = 100 * (100 * m.issue_fs + m.issue_fs)           # work and the branch back (predicted not taken, but unconditional)
    assert d.time_fs[0].sum() == d.measured_fs
    assert d.measured_fs - d.time_fs[0, :, -1].sum() == busy


def test_does_a_full_ring_drop_what_the_thread_cannot_take(m: CompiledMachine) -> None:
    service_fs = 1001 * m.issue_fs
    offered = 4e15 / service_fs                              # four times what it can do
    d = forward(m, source(offered, ring=8), [forwarder(1000)])
    arrived = d.measured_fs / 1e15 * offered
    assert abs(d.received[0] - d.measured_fs / service_fs) <= 1
    assert abs(d.received[0] + d.dropped[0] - arrived) <= 8 + 4 + 1       # in the ring, seen at the next look, one at the edge
    assert d.time_fs[0, :, -1].sum() == 0


def test_is_a_ring_long_enough_for_a_burst_enough(m: CompiledMachine) -> None:
    """Arrivals of a poisson process at half the load: with room for them nothing is lost."""
    service_fs = 1001 * m.issue_fs
    assert forward(m, source(0.5e15 / service_fs, arrivals="poisson", ring=64), [forwarder(1000)]).dropped[0] == 0
    assert forward(m, source(0.5e15 / service_fs, arrivals="poisson", ring=1), [forwarder(1000)]).dropped[0] > 0


def test_does_a_poisson_source_keep_its_mean_and_depend_on_the_seed(m: CompiledMachine) -> None:
    counts = []
    for seed in range(1, 21):
        d = forward(m, source(5e6, arrivals="poisson", ring=10_000), [forwarder(1)], seed=seed)
        counts.append(int(d.received[0]))
    expected = 5e6 * 100e-6
    assert abs(np.mean(counts) - expected) < 4 * math.sqrt(expected / len(counts))
    assert 0.3 < np.var(counts) / expected < 2.5             # a poisson count varies as much as its mean
    assert forward(m, source(5e6), [forwarder(1)]).received[0] == expected      # a constant source not at all


def test_are_buffers_handed_out_first_in_first_out(m: CompiledMachine) -> None:
    """Packet n (from 1) writes n into its buffer's line: with five buffers, buffer n mod 5."""
    pool = 5
    p = Program()
    p.add(Op.PACKET)
    p.alu(2, 2, 1)
    p.add(Op.STORE, base=X, stride=LINE, slot=Slot.PACKET, size=8, b=2)
    p.add(Op.DONE)
    p.branch(Cond.LT, 2, 23, 0)
    p.halt()
    w = workload(m, [p], source=source(1e6, pool=pool))
    sim = Simulation(m, *flat_tables(m.protocol), w.uops, w.entry, (0,), from_fs=0, until_fs=10**12, seed=1, check=True)
    sim.source([1000 * NS], 64, 1, pool, False, 0, 0)
    sim.start()
    sim.run(1 << 30)
    assert sim.halted == 1
    assert [sim.read_memory(X + LINE * i, 8) for i in range(pool)] == [21, 22, 23, 19, 20]


def test_does_a_slow_link_bound_what_leaves(m: CompiledMachine) -> None:
    """84 bytes a frame on a link of 1 Gbit/s are 672 ns; the backlog of 512 frames fills first."""
    d = forward(m, source(10e6, link_bps=1e9, ring=64), [forwarder(10)], measure_ns=1_000_000)
    assert d.received[0] == pytest.approx(10_000, abs=1)
    assert d.iterations[0] == pytest.approx(512 + 1_000_000 / 672, abs=12)
    assert d.iterations[0] + d.counters["tx_dropped"] == d.received[0]
