"""T4240 paths inside one cluster: L1, the L2 that eight threads share, store-conditionals and reservations, fences, the store queue.

CPU numbers: siblings 0 and 1 are core 0; CPUs 0 to 7 are cluster 0, CPU 8 is in cluster 1.
"""

from __future__ import annotations

import pytest
from program import LINE, Program, Run, X, at, halts_exactly_at, machine, once, run, then_probe, tiny

from cohsim.machine.compiled import CompiledMachine
from cohsim.uops import Cond, Fence

T1, T2, T3 = (us * 1_000_000_000 for us in (1, 2, 3))
FAR = 8
"""A CPU of another cluster."""


@pytest.fixture
def m() -> CompiledMachine:
    return machine("t4240")


def ends_at(m: CompiledMachine, programs: list[Program], cpu: int, after_begin_fs: int, tail_fs: int | None = None, **options: object) -> Run:
    """The CPU halts exactly so long after its begin, and ``tail_fs`` (default: one dispatch slot, the probe's)."""
    r = run(m, programs, **options)  # type: ignore[arg-type]
    tail = m.issue_fs if tail_fs is None else tail_fs
    assert r.end_fs(cpu) - r.begin_fs[cpu] - tail == after_begin_fs
    assert halts_exactly_at(m, programs, cpu, r.end_fs(cpu), **options)
    return r


def store_fs(m: CompiledMachine, copies: bool = False) -> int:
    """A store on a line the cluster may write: to the L2, performed, acknowledgement back."""
    return 2 * m.l2_hop_fs + hold_fs(m, copies)


def hold_fs(m: CompiledMachine, copies: bool = False) -> int:
    return max(m.l2_store_line_fs, m.l1_invalidate_fs, 2 * m.l2_hop_fs) if copies else m.l2_store_line_fs


def miss_fs(m: CompiledMachine) -> int:
    """Nobody has the line: the broadcast home answers when the memory and the last snoop have."""
    return m.l2_hit_fs + m.hop_fs + m.home_lookup_fs + max(m.memory_fs, 2 * m.hop_fs + m.snoop_fs) + m.hop_fs + m.line_transfer_fs


def owner(time_fs: int = T1) -> Program:
    """Brings X into the cluster, writable, with no copy in any L1."""
    return once(time_fs, "store")


def test_how_long_is_an_l1_hit(m: CompiledMachine) -> None:
    p = at(T1)
    p.load(X)
    p.fence(Fence.LOAD)
    p.load(X)
    p.probe_end()
    r = ends_at(m, [p], 0, miss_fs(m) + m.fence_load_fs + m.issue_fs + m.l1_hit_fs)
    assert r.served(0, 3) == {"l1": 1}


def test_how_long_is_a_hit_in_the_clusters_l2(m: CompiledMachine) -> None:
    r = ends_at(m, [then_probe(T2, "load"), once(T1, "load")], 0, m.l2_hit_fs, pin=(0, 2))
    assert r.served(0, 1) == {"l2": 1}


def test_is_a_line_that_another_core_of_the_cluster_wrote_as_near_as_any(m: CompiledMachine) -> None:
    r = ends_at(m, [then_probe(T2, "load"), owner()], 0, m.l2_hit_fs, pin=(0, 2))
    assert r.served(0, 1) == {"cluster": 1} and r.line(X, "transfers_near") == 1


@pytest.mark.parametrize("contenders", range(2, 9))
def test_are_reads_of_one_line_served_one_at_a_time(m: CompiledMachine, contenders: int) -> None:
    """Load-and-reserve goes to the L2 always; each holds the line for the load occupancy. CPU 0 brings the line in before."""
    gap = (T2 - T1 - miss_fs(m) - m.fence_load_fs) // m.issue_fs
    programs = [at(T1)] + [then_probe(T2, "ll", cpu=i, dst=2) for i in range(1, contenders)]
    programs[0].ll(X)
    programs[0].fence(Fence.LOAD)
    programs[0].work(gap)
    programs[0].ll(X, dst=2)
    programs[0].probe_end()
    r = run(m, programs)
    r.begin_fs[0] += miss_fs(m) + m.fence_load_fs + m.issue_fs + gap * m.issue_fs
    free = 0
    for cpu in sorted(range(contenders), key=lambda i: r.begin_fs[i]):
        start = max(r.begin_fs[cpu] + m.l2_hop_fs, free)
        free = start + max(m.l2_load_line_fs, m.l2_hit_fs - 2 * m.l2_hop_fs)
        served = start + m.l2_hit_fs - m.l2_hop_fs
        assert r.end_fs(cpu) == served + m.issue_fs, f"CPU {cpu}"


@pytest.mark.parametrize("cores", [2, 3, 4])
def test_are_loads_of_one_line_by_several_cores_served_one_at_a_time(m: CompiledMachine, cores: int) -> None:
    r = run(m, [*(then_probe(T2, "load", cpu=i) for i in range(cores)), owner()], pin=(*(2 * i for i in range(cores)), 1))
    free = 0
    for cpu in sorted(range(cores), key=lambda i: r.begin_fs[i]):
        start = max(r.begin_fs[cpu] + m.l2_hop_fs, free)
        free = start + max(m.l2_load_line_fs, m.l2_hit_fs - 2 * m.l2_hop_fs)
        assert r.end_fs(cpu) == start + m.l2_hit_fs - m.l2_hop_fs + m.issue_fs


@pytest.mark.parametrize("same_bank", [False, True])
def test_does_a_second_access_to_a_bank_wait_until_the_bank_is_free(m: CompiledMachine, same_bank: bool) -> None:
    m = tiny(m, l2_bank_fs=10 * m.core_period_fs)
    other = X + LINE * (m.l2_banks if same_bank else 1)
    warm = at(T1)
    warm.load(X)
    warm.load(other)
    warm.halt()
    programs = [then_probe(T2, "load", X, 0), then_probe(T2, "load", other, 1), warm]
    r = run(m, programs, pin=(0, 2, 4))
    first, second = sorted((0, 1), key=lambda i: r.begin_fs[i])
    gap = r.begin_fs[second] - r.begin_fs[first]
    assert 0 < gap < m.l2_bank_fs
    ends_at(m, programs, first, m.l2_hit_fs, pin=(0, 2, 4))
    ends_at(m, programs, second, m.l2_hit_fs + (m.l2_bank_fs - gap if same_bank else 0), pin=(0, 2, 4))


def test_how_long_is_a_store_until_its_acknowledgement(m: CompiledMachine) -> None:
    p = at(T2)
    p.store(X, 3)
    p.fence()
    p.halt()
    programs = [p, owner()]
    r = ends_at(m, programs, 0, store_fs(m), m.fence_full_fs + m.issue_fs, pin=(0, 2))
    assert r.time_fs(0, "fence") == store_fs(m) - m.issue_fs + m.fence_full_fs


def test_is_a_store_performed_only_when_the_other_l1_copies_are_gone(m: CompiledMachine) -> None:
    m = tiny(m, l1_invalidate_fs=50 * m.core_period_fs)
    writer = at(T2)
    writer.store(X, 3)
    writer.fence()
    writer.halt()
    holder = once(T1, "load")
    programs = [writer, holder]
    r = ends_at(m, programs, 0, store_fs(m, copies=True), m.fence_full_fs + m.issue_fs, pin=(0, 2))
    assert r.line(X, "invalidations") == 1
    performed = r.begin_fs[0] + m.l2_hop_fs + hold_fs(m, copies=True)
    assert run(m, programs, pin=(0, 2), until_fs=performed).sim.read_memory(X, 8) == 0
    assert run(m, programs, pin=(0, 2), until_fs=performed + 1).sim.read_memory(X, 8) == 3


@pytest.mark.parametrize("slots", range(0, 60, 5))
def test_does_a_reader_in_the_cluster_see_the_old_value_until_its_copy_goes_and_the_new_one_after(m: CompiledMachine, slots: int) -> None:
    m = tiny(m, l1_invalidate_fs=40 * m.core_period_fs)
    writer = once(T2, "store", value=3)
    holder = at(T1)
    holder.load(X)
    holder.fence(Fence.LOAD)
    holder.work((T2 - T1 - miss_fs(m) - m.fence_load_fs) // m.issue_fs - 5 + slots)
    i = holder.load(X, 2)
    holder.store(X + LINE, b=2, value=0)
    holder.fence()
    holder.halt()
    r = run(m, [writer, holder], pin=(0, 2))
    reads = r.begin_fs[1] + miss_fs(m) + m.fence_load_fs + m.issue_fs + int(holder.ops[3]["imm"]) * m.issue_fs
    copy_goes = r.begin_fs[0] + 2 * m.l2_hop_fs
    if reads < copy_goes:
        assert (r.served(1, i), r.sim.read_memory(X + LINE, 8)) == ({"l1": 1}, 0)
    else:
        assert (r.served(1, i), r.sim.read_memory(X + LINE, 8)) == ({"cluster": 1}, 3)
        performed = copy_goes - m.l2_hop_fs + hold_fs(m, copies=True)
        if reads + m.l2_hop_fs < performed:
            assert r.time_fs(1, "cluster", i) >= performed - reads - m.l2_hop_fs


def increment(time_fs: int, dawdle: int = 0, between: str = "", extra: int = X + 8) -> tuple[Program, int]:
    """lwarx, addi, stwcx., bne- done (no retry); the index of the stwcx. ``between``: a store or a load the thread itself makes there."""
    p = at(time_fs)
    p.ll(X, 0)
    if between:
        getattr(p, between)(extra)
        p.fence()
    if dawdle:
        p.work(dawdle)
    p.alu(0, 0, 1)
    sc = p.sc(X, 1, b=0)
    p.branch(Cond.EQ, 1, 0)
    p.targets[p.here - 1] = p.here
    p.halt()
    return p, sc


def test_what_does_an_increment_by_reservation_cost_when_nobody_disturbs_it(m: CompiledMachine) -> None:
    p, sc = increment(T2)
    programs = [p, owner()]
    ll = m.l2_hit_fs
    r = ends_at(m, programs, 0, ll + max(m.issue_fs, m.core_period_fs) + store_fs(m), pin=(0, 2))
    assert r.sc_failures(0, sc) == 0 and r.sim.read_memory(X, 8) == 1 + 1


LOST = {
    "the sibling's store": (1, "store"),
    "another core's store": (2, "store"),
    "another cluster's store": (FAR, "store"),
    "another core's locked operation": (2, "rmw"),
    "another cluster's locked operation": (FAR, "rmw"),
}


@pytest.mark.parametrize("by", LOST)
def test_is_a_reservation_lost_to(m: CompiledMachine, by: str) -> None:
    cpu, op = LOST[by]
    p, sc = increment(T2, dawdle=1000)
    r = run(m, [p, once(T2 + 200_000_000, op, X + 16, value=1), once(T1, "load")], pin=(0, cpu, 4))
    assert r.sc_failures(0, sc) == 1 and r.sim.read_memory(X, 8) == 0
    assert r.line(X, "sc_failures") == 1


@pytest.mark.parametrize("cpu", [1, 2, FAR])
def test_is_a_reservation_kept_while_others_only_read_the_line(m: CompiledMachine, cpu: int) -> None:
    p, sc = increment(T2, dawdle=1000)
    r = run(m, [p, once(T2 + 200_000_000, "load"), owner()], pin=(0, cpu, 4))
    assert r.sc_failures(0, sc) == 0 and r.sim.read_memory(X, 8) == 2


def test_is_a_reservation_kept_when_the_thread_itself_stores_to_the_line(m: CompiledMachine) -> None:
    p, sc = increment(T2, between="store")
    r = run(m, [p, owner()], pin=(0, 2))
    assert r.sc_failures(0, sc) == 0 and (r.sim.read_memory(X, 8), r.sim.read_memory(X + 8, 8)) == (2, 1)


def test_is_a_reservation_lost_when_the_line_is_evicted(m: CompiledMachine) -> None:
    m = tiny(m, l2_sets=1, l2_ways=1)
    p, sc = increment(T2, between="load", extra=X + LINE)
    r = run(m, [p])
    assert r.sc_failures(0, sc) == 1


def test_does_a_store_conditional_without_reservation_fail_and_take_no_longer_than_a_load(m: CompiledMachine) -> None:
    p = at(T2)
    sc = p.sc(X, 1, value=9)
    p.branch(Cond.NE, 1, 0)
    p.targets[2] = 3
    p.halt()
    r = ends_at(m, [p, owner()], 0, m.l2_hit_fs, pin=(0, 2))
    assert r.sc_failures(0, sc) == 1 and r.sim.read_memory(X, 8) == 1
    assert m.l2_hit_fs < store_fs(m)


@pytest.mark.parametrize("snoop_first", [True, False])
def test_does_another_clusters_request_go_between_the_waiting_stores_of_this_one(m: CompiledMachine, snoop_first: bool) -> None:
    m = tiny(m, snoop_first=snoop_first, l2_store_line_fs=40 * m.core_period_fs)
    arrives = m.l2_hit_fs - m.l2_hop_fs + m.hop_fs + m.home_lookup_fs + m.hop_fs + m.snoop_fs    # the far CPU's snoop here
    begin = T2 - arrives + m.l2_hop_fs + m.l2_store_line_fs // 2                                 # in the middle of the first store
    programs = [*(once(T2, "store", X + 8 * i, value=1) for i in range(4)), then_probe(begin, "load", cpu=5), owner()]
    pin = (0, 2, 4, 6, FAR, 1)
    r = run(m, programs, pin=pin)
    first = min(r.begin_fs[:4]) + m.l2_hop_fs
    assert first < r.begin_fs[4] + arrives < first + hold_fs(m)
    leaves = first + hold_fs(m) * (1 if snoop_first else 4)
    ends_at(m, programs, 4, leaves + m.snoop_dirty_fs + 2 * m.hop_fs + m.line_transfer_fs + m.l2_hop_fs - r.begin_fs[4], pin=pin)
    assert r.line(X, "upgrades") == snoop_first      # the remaining three need the line back


def test_does_lwsync_go_on_while_sync_waits_for_acknowledgements(m: CompiledMachine) -> None:
    for kind, waits, cost in ((Fence.FULL, miss_fs(m) - m.l2_hit_fs + 2 * m.l2_hop_fs + m.l2_hit_fs - 2 * m.l2_hop_fs, m.fence_full_fs),
                              (Fence.LIGHT, 0, m.fence_light_fs)):
        p = at(T1)
        p.store(X)
        p.fence(kind)
        p.halt()
        performed = waits + m.l2_store_line_fs if waits else m.issue_fs
        ends_at(m, [p], 0, performed, cost + m.issue_fs)


@pytest.mark.parametrize("fence", [None, Fence.LIGHT, Fence.STORE])
def test_does_lwsync_or_eieio_keep_two_stores_in_order(m: CompiledMachine, fence: Fence | None) -> None:
    """X misses everything, Y hits the cluster's L2: without a fence Y is first."""
    y = X + LINE
    p = at(T2)
    p.store(X, 1)
    if fence is not None:
        p.fence(fence)
    p.store(y, 1)
    p.halt()
    r = run(m, [p, once(T1, "store", y, value=7)], pin=(0, 2))
    x_done = r.begin_fs[0] + miss_fs(m) + m.l2_store_line_fs
    early = run(m, [p, once(T1, "store", y, value=7)], pin=(0, 2), until_fs=x_done - m.l2_hop_fs + 1)
    assert early.sim.read_memory(X, 8) == 1
    assert early.sim.read_memory(y, 8) == (1 if fence is None else 7)
    assert r.sim.read_memory(y, 8) == 1


def test_does_lwsync_keep_an_older_store_before_a_store_conditional(m: CompiledMachine) -> None:
    p = at(T2)
    p.ll(X, 0)
    p.store(X + LINE, 1)
    p.fence(Fence.LIGHT)
    sc = p.sc(X, 1, value=9)
    p.halt()
    programs = [p, owner()]
    r = run(m, programs, pin=(0, 2))
    assert r.sc_failures(0, sc) == 0
    store_done = r.begin_fs[0] + m.l2_hit_fs + miss_fs(m) + m.l2_store_line_fs      # the store waits for the load-and-reserve
    late = run(m, programs, pin=(0, 2), until_fs=store_done)
    assert late.sim.read_memory(X, 8) == 1
    assert r.sim.read_memory(X, 8) == 9


@pytest.mark.parametrize("gathering", [True, False])
def test_do_stores_that_wait_together_travel_in_one_message(m: CompiledMachine, gathering: bool) -> None:
    """Three stores to a line of the cluster wait for an older load; they leave when it is complete."""
    m = tiny(m, store_gathering=gathering)
    p = at(T2)
    p.load(X + LINE)
    for i in range(3):
        p.store(X + 8 * i, i + 1)
    p.fence()
    p.halt()
    r = run(m, [p, owner()], pin=(0, 2))
    leaves = r.begin_fs[0] + miss_fs(m)
    performed = leaves + m.l2_hop_fs + m.l2_store_line_fs * (1 if gathering else 3)
    assert r.end_fs() == performed + m.l2_hop_fs + m.fence_full_fs + m.issue_fs
    assert r.sim.counters()["gathered_stores"] == (2 if gathering else 0)
    assert [r.sim.read_memory(X + 8 * i, 8) for i in range(3)] == [1, 2, 3]


def test_does_a_full_store_queue_stop_the_thread(m: CompiledMachine) -> None:
    for extra in (0, 1):
        p = at(T1)
        for i in range(m.store_queue + extra):
            p.store(X + LINE * i)
        p.halt()
        r = run(m, [p])
        first_ack = miss_fs(m) + m.l2_store_line_fs
        assert r.end_fs() - r.begin_fs[0] == (first_ack + m.issue_fs if extra else m.store_queue * m.issue_fs)


def test_does_a_load_read_its_own_store_that_is_still_on_its_way(m: CompiledMachine) -> None:
    p = at(T1)
    p.store(X, 0xAB)
    p.load(X, 2)
    p.store(X + LINE, b=2, value=0)
    p.fence()
    p.halt()
    r = run(m, [p])
    assert r.served(0, 2) == {"forward": 1} and r.sim.read_memory(X + LINE, 8) == 0xAB


def test_does_a_load_wait_for_the_siblings_store_that_is_on_its_way(m: CompiledMachine) -> None:
    """The sibling's store has left for the L2, the shared L1 has the old line: only the L2 knows the order."""
    first = at(T1)
    first.load(X)
    first.fence(Fence.LOAD)
    first.work((T2 - T1) // m.issue_fs)
    first.store(X, 5)
    first.halt()
    left = T1 + miss_fs(m) + m.fence_load_fs + m.issue_fs + (T2 - T1) // m.issue_fs * m.issue_fs
    second = at(left + 2 * m.core_period_fs)
    i = second.load(X, 2)
    second.store(X + LINE, b=2, value=0)
    second.halt()
    r = run(m, [first, second], pin=(0, 1))
    assert r.begin_fs[0] + left - T1 < r.begin_fs[1] < r.begin_fs[0] + left - T1 + m.l2_hop_fs
    assert r.served(1, i) == {"l2": 1} and r.sim.read_memory(X + LINE, 8) == 5


@pytest.mark.parametrize("between", [False, True])
def test_may_a_store_conditional_overtake_the_stores_before_a_light_barrier(between: bool) -> None:
    """Whether or not another store follows the barrier first: the word of the LL/SC changes only after the store that misses."""
    m = machine("t4240")
    p = at(1_000_000_000)
    p.atomic_add(X, m.isa)
    p.fence()
    p.store(X + 100 * LINE)
    p.fence(Fence.LIGHT)
    if between:
        p.store(X + LINE)
    p.atomic_add(X, m.isa)
    p.halt()
    low, high = 10**9, 3 * 10**9
    assert run(m, [p], until_fs=high).sim.read_memory(X, 8) == 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if run(m, [p], until_fs=middle).sim.read_memory(X, 8) == 2 else (middle, high)
    assert run(m, [p], until_fs=high).sim.read_memory(X + 100 * LINE, 8) == 1


def test_does_a_sibling_see_a_far_atomic_when_the_l2_performs_it_with_look_ahead_too() -> None:
    """A load of the line that hits the core's L1 while the sibling's operation is on its way must not be taken ahead of it."""
    m = machine("t4240")
    sibling = m.cpu_core.index(0, 1)
    values = []
    for work in range(40):
        reader, writer = at(T1), at(T1 + 400_000_000)
        reader.load(X)
        reader.work(460 + work)
        reader.load(X, 0)
        reader.store(X + 8 * LINE, b=0, value=0)
        reader.halt()
        writer.rmw(X)
        writer.halt()
        seen = {run(m, [reader, writer], pin=(0, sibling), lookahead=on).sim.read_memory(X + 8 * LINE, 8) for on in (True, False)}
        assert len(seen) == 1, work
        values += seen
    assert values == sorted(values) and set(values) == {0, 1}
