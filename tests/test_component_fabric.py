"""Between the nodes: the broadcast home of the T4240, its cache, memory channels, occupancies, per-line blocking, fill buffers."""

from __future__ import annotations

import pytest
from program import LINE, Program, Run, X, at, halts_exactly_at, machine, once, run, then_probe, tiny

from cohsim.machine.compiled import CompiledMachine
from cohsim.uops import Fence

T1, T2, T3 = (us * 1_000_000_000 for us in (1, 2, 3))
CLUSTERS = (0, 8, 16)
"""One CPU of each cluster."""


@pytest.fixture
def m() -> CompiledMachine:
    return machine("t4240")


def ends_at(m: CompiledMachine, programs: list[Program], cpu: int, after_begin_fs: int, **options: object) -> Run:
    """The CPU halts exactly so long after its begin and the probe's dispatch slot."""
    r = run(m, programs, **options)  # type: ignore[arg-type]
    assert r.end_fs(cpu) - r.begin_fs[cpu] - m.issue_fs == after_begin_fs
    assert halts_exactly_at(m, programs, cpu, r.end_fs(cpu), **options)
    return r


def to_home_fs(m: CompiledMachine) -> int:
    """From dispatch until the request is at the home."""
    return m.l2_hit_fs + m.hop_fs - (0 if m.l2_private else m.l2_hop_fs)


def back_fs(m: CompiledMachine) -> int:
    return m.hop_fs + m.line_transfer_fs + m.l2_hop_fs


def snoops_fs(m: CompiledMachine) -> int:
    return 2 * m.hop_fs + m.snoop_fs


def memory_fs(m: CompiledMachine) -> int:
    return to_home_fs(m) + m.home_lookup_fs + max(m.memory_fs, snoops_fs(m) if m.home_broadcast else 0) + back_fs(m)


def evicted(time_fs: int, store: bool) -> Program:
    """Touches X and drops it from a one-line L2: it is in the home's cache then, and in no node."""
    p = at(time_fs)
    if store:
        p.store(X, 4)
        p.fence()
    else:
        p.load(X)
        p.fence(Fence.LOAD)
    p.load(X + LINE)
    p.halt()
    return p


@pytest.mark.parametrize("store", [False, True])
def test_how_long_is_a_hit_in_the_platform_cache(m: CompiledMachine, store: bool) -> None:
    m = tiny(m, l2_sets=1, l2_ways=1)
    r = ends_at(m, [then_probe(T3, "load"), evicted(T1, store)], 0,
                to_home_fs(m) + m.home_lookup_fs + max(m.l3_data_fs, snoops_fs(m)) + back_fs(m), pin=(0, 8))
    assert r.served(0, 1) == {"home": 1}
    assert r.sim.counters()["memory_writes"] == 0


@pytest.mark.parametrize("dirty", [False, True])
def test_how_long_is_a_line_of_another_cluster(m: CompiledMachine, dirty: bool) -> None:
    expected = to_home_fs(m) + m.home_lookup_fs + snoops_fs(m) + (m.snoop_dirty_fs if dirty else 0) + back_fs(m)
    r = ends_at(m, [then_probe(T2, "load"), once(T1, "store" if dirty else "load")], 0, expected, pin=(0, 8))
    assert r.served(0, 1) == {"remote_dirty" if dirty else "remote_clean": 1}
    assert r.arrays["node_transfers"][1, 0] == 1
    assert r.line(X, "transfers_far") == 1


def test_does_the_newest_reader_of_a_shared_line_forward_it(m: CompiledMachine) -> None:
    r = run(m, [once(T3, "load"), once(T1, "load"), once(T2, "load")], pin=(0, 8, 16))
    assert r.served(0, 1) == {"remote_clean": 1}
    assert (r.arrays["node_transfers"][2, 0], r.arrays["node_transfers"][1, 0]) == (1, 0)


def test_how_long_is_memory(m: CompiledMachine) -> None:
    r = ends_at(m, [then_probe(T1, "load")], 0, memory_fs(m))
    assert r.served(0, 1) == {"memory": 1}


def test_is_every_other_node_asked_by_a_broadcast(m: CompiledMachine) -> None:
    r = run(m, [once(T1, "load")])
    assert r.sim.counters()["home_snoops"] == m.nodes - 1
    assert r.fired("node", "I", "SnpS") == m.nodes - 1


def test_does_an_upgrade_wait_for_the_other_clusters_copies(m: CompiledMachine) -> None:
    p = at(T3)
    p.store(X, 2)
    p.fence()
    p.halt()
    r = run(m, [p, once(T1, "load"), once(T2, "load")], pin=(2, 0, 8))     # cluster 0 and 1 share, core 1 of cluster 0 stores
    granted = to_home_fs(m) + m.home_lookup_fs + snoops_fs(m) + m.hop_fs
    hold = max(m.l2_store_line_fs, m.l1_invalidate_fs, 2 * m.l2_hop_fs)     # core 0's L1 copy has to go as well
    copies = max(0, m.l1_invalidate_fs - m.snoop_fs)                        # cluster 1 answers when its L1 has dropped the line
    assert copies == 0 or m.l1_invalidate_fs > 0
    assert r.end_fs() - r.begin_fs[0] == granted + l1_answer_fs(m) + hold + m.l2_hop_fs + m.fence_full_fs + m.issue_fs
    assert r.served(0, 1) == {"upgrade": 1}


def l1_answer_fs(m: CompiledMachine) -> int:
    """An invalidating snoop answers when the L1s of its cluster have dropped the line."""
    return max(m.l1_invalidate_fs, 2 * m.l2_hop_fs)


@pytest.mark.parametrize("lines", [1, 3])
def test_does_a_second_read_wait_for_its_memory_channel(m: CompiledMachine, lines: int) -> None:
    """Line distance 3 is the same of three channels, 1 another one."""
    assert m.memory_channels == 3
    m = tiny(m, memory_line_fs=100 * m.core_period_fs)
    programs = [then_probe(T1, "load", X, 0), then_probe(T1, "load", X + lines * LINE, 1)]
    r = run(m, programs, pin=(0, 8))
    first, second = sorted((0, 1), key=lambda i: r.begin_fs[i])
    home_gap = max(r.begin_fs[second] - r.begin_fs[first], m.home_occupancy_fs)
    wait = m.memory_line_fs - home_gap if lines == 3 else 0
    ends_at(m, programs, first, memory_fs(m), pin=(0, 8))
    ends_at(m, programs, second, r.begin_fs[first] + home_gap + memory_fs(m) + wait - r.begin_fs[second], pin=(0, 8))


def test_does_the_home_take_one_request_per_occupancy(m: CompiledMachine) -> None:
    m = tiny(m, home_occupancy_fs=40 * m.core_period_fs)
    programs = [then_probe(T1, "load", X + i * LINE, i) for i in range(3)]
    r = run(m, programs, pin=CLUSTERS)
    free = 0
    for cpu in sorted(range(3), key=lambda i: r.begin_fs[i]):
        start = max(r.begin_fs[cpu] + to_home_fs(m), free)
        free = start + m.home_occupancy_fs
        ends_at(m, programs, cpu, start - to_home_fs(m) + memory_fs(m) - r.begin_fs[cpu], pin=CLUSTERS)


def test_do_two_slices_of_the_home_work_side_by_side(m: CompiledMachine) -> None:
    m = tiny(m, home_occupancy_fs=40 * m.core_period_fs, home_slices=2)
    programs = [then_probe(T1, "load", X + i * LINE, i) for i in range(2)]
    for cpu in range(2):
        ends_at(m, programs, cpu, memory_fs(m), pin=(0, 8))


def test_does_the_second_requester_of_a_line_start_after_the_firsts_acknowledgement(m: CompiledMachine) -> None:
    programs = [then_probe(T1, "load", X, i) for i in range(2)]
    r = run(m, programs, pin=(0, 8))
    first, second = sorted((0, 1), key=lambda i: r.begin_fs[i])
    acknowledged = r.begin_fs[first] + memory_fs(m) - m.l2_hop_fs + m.hop_fs
    served = acknowledged + m.home_lookup_fs + snoops_fs(m) + back_fs(m)     # exclusive in the first's cluster by then
    ends_at(m, programs, second, served - r.begin_fs[second], pin=(0, 8))
    assert r.line(X, "queue_fs") == acknowledged - r.begin_fs[second] - to_home_fs(m)


def test_does_a_line_of_data_occupy_the_link_into_its_node(m: CompiledMachine) -> None:
    """Two lines come back from memory together: the second waits until the first is through."""
    m = tiny(m, line_transfer_fs=30 * m.core_period_fs, home_slices=2)
    programs = [then_probe(T1, "load", X + i * LINE, i) for i in range(2)]
    r = run(m, programs, pin=(0, 2))
    first, second = sorted((0, 1), key=lambda i: r.begin_fs[i])
    ends_at(m, programs, first, memory_fs(m), pin=(0, 2))
    ends_at(m, programs, second, r.begin_fs[first] + memory_fs(m) + m.line_transfer_fs - r.begin_fs[second], pin=(0, 2))


@pytest.mark.parametrize("name", ["t4240", "xeon_x5550"])
def test_does_one_miss_more_than_there_are_fill_buffers_wait(name: str) -> None:
    m = tiny(machine(name), memory_line_fs=0, home_occupancy_fs=0, line_transfer_fs=0, l2_bank_fs=0)
    for extra in (0, 1):
        p = at(T1)
        for i in range(m.mshrs + extra):
            p.load(X + i * LINE)
        p.halt()
        r = run(m, [p])
        expected = memory_fs(m) + m.issue_fs if extra else m.mshrs * m.issue_fs
        assert m.mshrs * max(m.issue_fs, m.l1_port_fs) < memory_fs(m)
        if not extra:                                  # the port may hold back dispatch where it is slower
            expected = max(expected, (m.mshrs - 1) * m.l1_port_fs + m.issue_fs)
        assert r.end_fs() - r.begin_fs[0] == expected


@pytest.mark.parametrize("name", ["t4240", "xeon_x5550"])
def test_do_two_loads_of_a_missing_line_share_a_fill_buffer_and_its_arrival(name: str) -> None:
    m = tiny(machine(name), mshrs=1)
    p = at(T1)
    p.load(X)
    p.work(10)
    p.load(X + 8)
    p.probe_end()
    programs = [p]
    r = run(m, programs)
    ends_at(m, programs, 0, memory_fs(m))
    assert r.served(0, 1) == r.served(0, 3) == {"memory": 1}
    assert r.sim.counters()["memory_reads"] == 2        # X and the probe's line


def test_do_siblings_share_the_fill_buffers_of_their_core(m: CompiledMachine) -> None:
    m = tiny(m, mshrs=1)
    programs = [once(T1, "load", X), once(T1 + 10 * m.core_period_fs, "load", X + LINE)]
    r = run(m, programs, pin=(0, 1))
    assert r.end_fs(1) == r.begin_fs[0] + memory_fs(m) + m.issue_fs
    alone = run(m, programs, pin=(0, 2))
    assert alone.end_fs(1) == alone.begin_fs[1] + m.issue_fs


def test_do_requests_beyond_the_l2s_mshrs_wait_for_an_answer(m: CompiledMachine) -> None:
    """Two cores of a cluster miss different lines: with one MSHR the second asks when the first one's data is at the L2."""
    programs = [then_probe(T1, "load", X), then_probe(T1 + 10_000_000, "load", X + LINE, cpu=1)]
    enough = run(tiny(m, l2_mshrs=2), programs, pin=(0, 2))
    assert enough.end_fs(1) - enough.begin_fs[1] - m.issue_fs == memory_fs(m)
    one = run(tiny(m, l2_mshrs=1), programs, pin=(0, 2))
    answer_at_l2 = one.begin_fs[0] + memory_fs(m) - m.l2_hop_fs
    assert one.end_fs(1) - m.issue_fs == answer_at_l2 + memory_fs(m) - m.l2_hop_fs
