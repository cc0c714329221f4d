"""Core i7 paths, one at a time: how long does an access take, by where the line is? Times follow from the machine's numbers.

Every expectation is arithmetic on the compiled machine; ``ends_at`` asserts both "not 1 fs earlier" and "then".
"""

from __future__ import annotations

import pytest
from program import LINE, Program, X, at, halts_exactly_at, machine, once, run, start_fs, then_probe, tiny

from cohsim.machine.compiled import CompiledMachine
from cohsim.uops import Alu, Cond, Fence, Op

T1, T2, T3, T4 = (us * 1_000_000_000 for us in (1, 2, 3, 4))
"""Times far enough apart for one access to be over before the next begins."""


@pytest.fixture(params=["xeon_x5550", "corei7"])
def m(request: pytest.FixtureRequest) -> CompiledMachine:
    return machine(request.param)


def to_home_fs(m: CompiledMachine) -> int:
    """From dispatch until the home has looked the line up."""
    return m.l2_hit_fs + m.hop_fs + m.home_lookup_fs


def data_back_fs(m: CompiledMachine) -> int:
    return m.hop_fs + m.line_transfer_fs


def snoop_round_fs(m: CompiledMachine) -> int:
    return 2 * m.hop_fs + m.snoop_fs


def l3_fs(m: CompiledMachine) -> int:
    return to_home_fs(m) + m.l3_data_fs + data_back_fs(m)


def memory_fs(m: CompiledMachine) -> int:
    return to_home_fs(m) + m.memory_fs + data_back_fs(m)


def remote_fs(m: CompiledMachine, dirty: bool) -> int:
    return to_home_fs(m) + snoop_round_fs(m) + (m.snoop_dirty_fs if dirty else 0) + data_back_fs(m)


def reader(time_fs: int, address: int = X) -> Program:
    """Loads, and ends when the value is there (one dispatch slot later): see ``latency``."""
    return then_probe(time_fs, "load", address)


def ends_at(m: CompiledMachine, programs: list[Program], cpu: int, after_begin_fs: int, **options: object) -> None:
    """The access of ``cpu`` takes exactly so long: not done 1 fs before, done then (the probe's own dispatch slot added)."""
    r = run(m, programs, **options)  # type: ignore[arg-type]
    assert r.end_fs(cpu) - r.begin_fs[cpu] - m.issue_fs == after_begin_fs
    assert halts_exactly_at(m, programs, cpu, r.begin_fs[cpu] + after_begin_fs + m.issue_fs, **options)


def test_does_a_thread_begin_when_the_seed_says(m: CompiledMachine) -> None:
    p = Program()
    p.halt()
    for seed in (1, 2):
        assert halts_exactly_at(m, [p], 0, start_fs(m, 1, seed)[0], seed=seed)


def test_how_long_is_an_l1_hit(m: CompiledMachine) -> None:
    p = at(T1)
    p.load(X)
    p.fence(Fence.LOAD)
    p.load(X)
    p.probe_end()
    first = memory_fs(m) + m.fence_load_fs + m.issue_fs      # fill, lfence
    ends_at(m, [p], 0, first + m.l1_hit_fs)


def evict_from_l1(m: CompiledMachine, p: Program, address: int = X) -> None:
    """Fill the L1 set of ``address`` with other lines, which fall into other sets of the L2."""
    for way in range(1, m.l1_ways + 1):
        p.load(address + way * m.l1_sets * LINE)
    p.fence(Fence.LOAD)


def test_how_long_is_an_l2_hit(m: CompiledMachine) -> None:
    p = at(T1)
    p.load(X)
    evict_from_l1(m, p)
    i = p.load(X)
    p.probe_end()
    r = run(m, [p])
    assert r.served(0, i) == {"l2": 1}
    without = Program(ops=p.ops[:i] + p.ops[i + 2 :], begin_fs=p.begin_fs)      # neither the load nor the probe
    assert r.end_fs() - run(m, [without]).end_fs() == m.l2_hit_fs + m.issue_fs
    assert halts_exactly_at(m, [p], 0, r.end_fs())


def test_how_long_is_a_read_from_memory(m: CompiledMachine) -> None:
    ends_at(m, [reader(T1)], 0, memory_fs(m))


def test_how_long_is_a_read_of_a_line_that_another_core_holds_exclusive(m: CompiledMachine) -> None:
    ends_at(m, [reader(T2), once(T1, "load")], 0, remote_fs(m, dirty=False))


def test_how_long_is_a_read_of_a_line_that_another_core_has_modified(m: CompiledMachine) -> None:
    ends_at(m, [reader(T2), once(T1, "store")], 0, remote_fs(m, dirty=True))


def test_how_long_is_a_read_of_a_line_that_two_cores_share(m: CompiledMachine) -> None:
    programs = [reader(T3), once(T1, "load"), once(T2, "load")]
    ends_at(m, programs, 0, l3_fs(m))
    assert run(m, programs).sim.counters()["home_snoops"] == 1      # only the second reader asked anybody


def test_how_long_is_a_read_of_a_line_whose_owner_has_written_it_back(m: CompiledMachine) -> None:
    m = tiny(m, l1_sets=1, l1_ways=1, l2_sets=1, l2_ways=1)
    writer = at(T1)
    writer.store(X)
    writer.fence()
    writer.load(X + LINE)
    writer.halt()
    programs = [reader(T3), writer]
    r = run(m, programs)
    assert (r.sim.counters()["writebacks"], r.served(0, 1)) == (1, {"home": 1})
    ends_at(m, programs, 0, l3_fs(m))


def test_does_an_exclusive_copy_dropped_silently_still_cost_a_snoop(m: CompiledMachine) -> None:
    m = tiny(m, l1_sets=1, l1_ways=1, l2_sets=1, l2_ways=1)
    owner = at(T1)
    owner.load(X)
    owner.fence(Fence.LOAD)
    owner.load(X + LINE)
    owner.halt()
    programs = [reader(T3), owner]
    r = run(m, programs)
    assert r.served(0, 1) == {"home": 1} and r.fired("node", "I", "SnpS") == 1
    ends_at(m, programs, 0, to_home_fs(m) + max(snoop_round_fs(m), m.l3_data_fs) + data_back_fs(m))


def test_does_the_core_that_dropped_its_exclusive_copy_read_it_again_without_a_snoop(m: CompiledMachine) -> None:
    m = tiny(m, l1_sets=1, l1_ways=1, l2_sets=1, l2_ways=1)
    p = at(T1)
    for address in (X, X + LINE):
        p.load(address)
        p.fence(Fence.LOAD)
    p.load(X)
    p.probe_end()
    r = run(m, [p])
    assert r.sim.counters()["home_snoops"] == 0 and r.served(0, 5) == {"home": 1}
    ends_at(m, [p], 0, 2 * (memory_fs(m) + m.fence_load_fs + m.issue_fs) + l3_fs(m))


@pytest.mark.parametrize("sharers", [1, 2, 3])
def test_does_an_upgrade_take_one_snoop_round_however_many_share(m: CompiledMachine, sharers: int) -> None:
    p = at(T1)
    p.load(X)
    p.fence(Fence.LOAD)
    p.work((T4 - T1) // m.issue_fs)
    p.rmw(X)
    p.probe_end()
    programs = [p] + [once(T2 + i * 200_000_000, "load") for i in range(sharers)]
    r = run(m, programs)
    assert r.served(0, 4) == {"upgrade": 1}
    before = memory_fs(m) + m.fence_load_fs + m.issue_fs + (T4 - T1) // m.issue_fs * m.issue_fs
    ends_at(m, programs, 0, before + to_home_fs(m) + snoop_round_fs(m) + m.hop_fs + m.locked_fs)
    assert r.line(X, "invalidations") == sharers


def test_how_long_is_a_locked_operation_on_a_line_of_the_own_l1(m: CompiledMachine) -> None:
    p = at(T1)
    p.rmw(X)
    p.rmw(X)
    p.probe_end()
    ends_at(m, [p], 0, memory_fs(m) + 2 * m.locked_fs)


def test_how_long_is_a_locked_operation_on_a_line_that_another_core_has_modified(m: CompiledMachine) -> None:
    programs = [then_probe(T2, "rmw", X), once(T1, "store")]
    ends_at(m, programs, 0, remote_fs(m, dirty=True) + m.locked_fs)


@pytest.mark.parametrize("into_fs", [1, 1_000_000, 5_000_000])
def test_does_a_locked_operation_hold_its_line_against_a_snoop_until_it_ends(m: CompiledMachine, into_fs: int) -> None:
    """The owner's second locked operation begins ``into_fs`` (to a slot) before the snoop arrives."""
    owner = at(T1)
    owner.rmw(X)
    owner.fence()
    arrives = T3 + to_home_fs(m) + m.hop_fs + m.snoop_fs
    gap = (arrives - into_fs - T1 - memory_fs(m) - m.locked_fs - m.fence_full_fs) // m.issue_fs - 2
    owner.work(gap)
    owner.rmw(X)
    owner.halt()
    programs = [reader(T3), owner]
    r = run(m, programs)
    holds = r.begin_fs[1] + memory_fs(m) + m.locked_fs + m.fence_full_fs + m.issue_fs + gap * m.issue_fs
    arrives += r.begin_fs[0] - T3
    assert holds < arrives < holds + m.locked_fs, "the test means the snoop to arrive inside"
    released = holds + m.locked_fs - r.begin_fs[0]
    ends_at(m, programs, 0, released + m.snoop_dirty_fs + m.hop_fs + data_back_fs(m))
    assert r.sim.read_memory(X, 8) == 2


def test_does_a_second_locked_operation_wait_while_a_snoop_takes_the_line(m: CompiledMachine) -> None:
    """After the hold the snoop goes first: the owner's next locked operation has to fetch the line back."""
    owner = at(T1)
    owner.rmw(X)
    owner.work((T2 - T1) // m.issue_fs)
    last = 0
    for _ in range(20):
        last = owner.rmw(X)
    owner.halt()
    r = run(m, [once(T2, "rmw"), owner])
    took = sum(r.served(1, i).get("remote_dirty", 0) for i in range(last - 19, last + 1))
    assert took == 1 and r.sim.read_memory(X, 8) == 22


@pytest.mark.parametrize("cycles", range(0, 80, 4))
def test_does_a_read_that_races_a_write_back_get_the_data_from_one_or_the_other(m: CompiledMachine, cycles: int) -> None:
    """The owner evicts its dirty line ``cycles`` after the reader has dispatched; the outcome follows from who is first at the home."""
    m = tiny(m, l1_sets=1, l1_ways=1, l2_sets=1, l2_ways=1)
    owner = at(T1)
    owner.store(X, 7)
    owner.fence()
    before = T1 + memory_fs(m) + m.fence_full_fs
    owner.work((T3 - before) // m.issue_fs + cycles * m.core_period_fs // m.issue_fs)
    evict = owner.load(X + LINE)
    owner.halt()
    p = at(T3)
    p.load(X, 2)
    p.branch(Cond.EQ, 2, 7, len(p.ops) + 2)
    wrong = p.work(1)
    p.halt()
    r = run(m, [p, owner])
    evicted = r.begin_fs[1] + memory_fs(m) + m.fence_full_fs + m.issue_fs + int(owner.ops[evict - 1]["imm"]) * m.issue_fs
    asked = r.begin_fs[0] + m.l2_hit_fs
    snooped = asked + m.hop_fs + m.home_lookup_fs + m.hop_fs + m.snoop_fs
    assert r.count(0, wrong) == 0
    raced = asked < evicted < snooped
    assert r.fired("node", "MI", "SnpS") == r.fired("node", "II", "PutAck") == r.fired("home", "Free", "PutMStale") == raced
    assert r.served(0, 1) == ({"home": 1} if evicted <= asked else {"remote_dirty": 1})


@pytest.mark.parametrize("dirty", [False, True])
def test_does_an_inclusive_l3_take_a_line_back_when_it_needs_the_place(m: CompiledMachine, dirty: bool) -> None:
    m = tiny(m, l3_sets=1, l3_ways=2)
    holder = at(T1)
    holder.store(X, 5) if dirty else holder.load(X)
    holder.fence()
    holder.work((T4 - T1) // m.issue_fs)
    again = holder.load(X, 2)
    holder.halt()
    other = at(T2)
    other.load(X + LINE)
    other.fence(Fence.LOAD)
    other.load(X + 2 * LINE)
    other.probe_end()
    ends_at(m, [holder, other], 1, memory_fs(m) + m.fence_load_fs + m.issue_fs + memory_fs(m)
            + m.home_lookup_fs + snoop_round_fs(m) + (m.snoop_dirty_fs if dirty else 0))
    other.ops[-2]["base"] = X + 2 * LINE     # the probe would recall another line: let it hit
    r = run(m, [holder, other], until_fs=T3)
    assert r.sim.counters()["recalls"] == 1 and r.sim.counters()["memory_writes"] == dirty
    r = run(m, [holder, other])
    assert r.served(0, again) == {"memory": 1} and r.sim.read_memory(X, 8) == (5 if dirty else 0)


def test_how_soon_does_a_load_see_the_store_before_it(m: CompiledMachine) -> None:
    p = at(T1)
    p.store(X, 0x1234)
    p.load(X + 1, 2, size=1)
    p.load(0x7F000000, dep=True)
    skip = p.branch(Cond.EQ, 2, 0x12)
    wrong = p.work(1)
    p.land(skip)
    p.halt()
    r = run(m, [p])
    assert r.served(0, 2) == {"forward": 1} and r.count(0, wrong) == 0
    cut = Program(ops=p.ops[:4], begin_fs=T1)
    cut.halt()
    ends_at(m, [cut], 0, m.issue_fs + m.store_forward_fs)


def test_does_a_load_that_a_store_covers_in_part_wait_for_the_store(m: CompiledMachine) -> None:
    p = at(T1)
    p.store(X, 0x55, size=1)
    p.load(X)
    p.probe_end()
    ends_at(m, [p], 0, memory_fs(m) + m.l1_hit_fs)


@pytest.mark.parametrize("sibling", [False, True])
def test_when_does_a_full_store_buffer_stop_the_thread(m: CompiledMachine, sibling: bool) -> None:
    """The first store misses; as many as fit go on dispatching, one more waits until the first has left."""
    m = tiny(m, smt_shared_dispatch=False)
    room = m.store_queue_smt if sibling else m.store_queue
    neighbour = at(T1 - 10 * m.core_period_fs)
    neighbour.load(X + 64 * LINE, 0)
    neighbour.branch(Cond.NE, 0, 1)       # blocked on its load: has work, but takes no dispatch slots
    neighbour.targets[2] = 3
    neighbour.halt()
    for extra in (0, 1):
        p = at(T1)
        for i in range(room + extra):
            p.store(X + 8 * (i % 8), i)
        p.halt()
        programs = [p, neighbour] if sibling else [p]
        r = run(m, programs, pin=(0, m.nodes) if sibling else (0,))
        expected = (memory_fs(m) + m.issue_fs) if extra else room * m.issue_fs
        assert r.end_fs() - r.begin_fs[0] == expected
        assert r.time_fs(0, "store_buffer") == (expected - room * m.issue_fs - m.issue_fs if extra else 0)


def test_does_a_full_store_buffer_behind_a_load_that_misses_stop_the_thread_until_it_is_done(m: CompiledMachine) -> None:
    """Stores that hit may leave when the load before them has its value, not at the time when they were ready: the thread gets no time back."""
    m = tiny(m, store_queue=2)
    p = at(T1)
    p.store(X, 0)
    p.fence()
    start = memory_fs(m) + m.fence_full_fs + m.issue_fs
    p.load(X + 64 * LINE, 0)
    for value in (1, 2, 3):
        p.store(X, value)
    p.halt()
    r = run(m, [p])
    done = r.begin_fs[0] + start + memory_fs(m)
    assert r.end_fs() == done + m.issue_fs
    assert r.time_fs(0, "store_buffer") == memory_fs(m) - 3 * m.issue_fs
    for cut, value in ((done, 0), (done + 1, 1), (done + m.core_period_fs + 1, 2)):
        assert run(m, [p], until_fs=cut).sim.read_memory(X, 8) == value, cut


def test_do_stores_leave_in_order_although_the_second_hits(m: CompiledMachine) -> None:
    y = X + LINE
    p = at(T1)
    p.store(y, 0)
    p.fence()
    start = memory_fs(m) + m.fence_full_fs + m.issue_fs
    p.store(X, 1)
    p.store(y, 2)
    p.fence()
    p.halt()
    r = run(m, [p])
    performed = r.begin_fs[0] + start + memory_fs(m)
    assert r.end_fs() == performed + m.core_period_fs + m.fence_full_fs + m.issue_fs
    for cut, values in ((performed, (0, 0)), (performed + 1, (1, 0)), (performed + m.core_period_fs, (1, 0)),
                        (performed + m.core_period_fs + 1, (1, 2))):
        r = run(m, [p], until_fs=cut)
        assert (r.sim.read_memory(X, 8), r.sim.read_memory(y, 8)) == values, cut


def test_what_does_a_full_fence_wait_for(m: CompiledMachine) -> None:
    idle = at(T1)
    idle.fence()
    idle.halt()
    r = run(m, [idle])
    assert r.end_fs() - r.begin_fs[0] == m.fence_full_fs + m.issue_fs
    p = at(T1)
    p.store(X)
    p.fence()
    p.halt()
    r = run(m, [p])
    assert r.end_fs() - r.begin_fs[0] == memory_fs(m) + m.fence_full_fs + m.issue_fs
    assert halts_exactly_at(m, [p], 0, r.end_fs())
    light = at(T1)
    light.store(X)
    light.fence(Fence.LIGHT)
    light.halt()
    r = run(m, [light])
    assert r.end_fs() - r.begin_fs[0] == 2 * m.issue_fs + m.fence_light_fs


def test_does_a_locked_operation_wait_for_the_stores_before_it(m: CompiledMachine) -> None:
    p = at(T1)
    p.store(X + LINE)
    p.rmw(X)
    p.probe_end()
    ends_at(m, [p], 0, memory_fs(m) + memory_fs(m) + m.locked_fs)


def test_does_compare_and_swap_write_only_what_it_expected(m: CompiledMachine) -> None:
    p = at(T1)
    p.alu(3, 2, 5)
    p.rmw(X, 9, fn=Alu.CAS, dst=4, a=3)          # expects 5
    p.rmw(X + 8, 9, fn=Alu.CAS, dst=5, a=3)
    p.halt()
    r = run(m, [p], memory=[(X, 8, 5), (X + 8, 8, 6)])
    assert (r.sim.read_memory(X, 8), r.sim.read_memory(X + 8, 8)) == (9, 6)


def test_can_the_sibling_use_the_l1_that_this_thread_filled(m: CompiledMachine) -> None:
    m = tiny(m, smt_shared_dispatch=False)       # dispatch sharing is another question: test_component_thread.py
    programs = [reader(T2), once(T1, "load")]
    ends_at(m, programs, 0, m.l1_hit_fs, pin=(0, m.nodes))


def test_does_the_sibling_wait_for_a_locked_operation_on_its_line(m: CompiledMachine) -> None:
    m = tiny(m, smt_shared_dispatch=False)
    first = at(T1)
    first.rmw(X)
    first.halt()
    second = Program()
    second.delay_until(T1 + memory_fs(m) + m.locked_fs // 2)
    second.load(X)
    second.probe_end(1)
    programs = [first, second]
    r = run(m, programs, pin=(0, m.nodes))
    held = r.begin_fs[0] + memory_fs(m) + m.locked_fs
    assert r.begin_fs[1] < held
    ends_at(m, programs, 1, held - r.begin_fs[1] + m.l1_hit_fs, pin=(0, m.nodes))


def test_is_an_evicted_dirty_line_read_back_with_its_value(m: CompiledMachine) -> None:
    m = tiny(m, l1_sets=1, l1_ways=1, l2_sets=1, l2_ways=1, l3_sets=1, l3_ways=1)
    p = at(T1)
    for i in range(4):
        p.store(X + LINE * i, i + 1)
    p.fence()
    total = p.add(Op.ALU, dst=3, a=3, fn=Alu.AND)
    for i in range(4):
        p.load(X + LINE * i, 2)
        p.alu(3, 3, b=2)
    p.store(X + 8, b=3, value=0)
    p.halt()
    r = run(m, [p])
    assert total and r.sim.read_memory(X + 8, 8) == 1 + 2 + 3 + 4
    assert r.sim.counters()["memory_writes"] >= 3
