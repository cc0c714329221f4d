"""The L2's adjacent-line prefetcher: what comes with a missed line, and what does not?"""

from __future__ import annotations

import pytest
from program import LINE, Program, X, at, machine, run, tiny

from cohsim.machine.compiled import CompiledMachine
from cohsim.uops import Fence

T1 = 1_000_000_000
PAIR = X + LINE       # X is the even line of its aligned pair
BESIDE = X - LINE     # next to X, in another pair


@pytest.fixture(params=["xeon_x5550", "corei7"])
def m(request: pytest.FixtureRequest) -> CompiledMachine:
    return machine(request.param)


def two_accesses(first: str, address: int, second: int) -> Program:
    """An access, and when all is over a load of another line: index 2."""
    p = at(T1)
    getattr(p, first)(address)
    p.fence(Fence.FULL)
    p.work(2000)
    p.load(second)
    p.halt()
    return p


@pytest.mark.parametrize("first", ["load", "store", "rmw"])
def test_does_a_miss_bring_the_other_line_of_its_pair_into_the_l2(m: CompiledMachine, first: str) -> None:
    for on, served in ((True, "l2"), (False, "memory")):
        r = run(tiny(m, l2_adjacent_line=on), [two_accesses(first, X, PAIR)])
        assert r.served(0, 4) == {served: 1}
        assert r.sim.counters()["adjacent_fetches"] == int(on)
    back = run(tiny(m, l2_adjacent_line=True), [two_accesses(first, PAIR, X)])
    assert back.served(0, 4) == {"l2": 1}             # a pair is aligned, not "the next line"


def test_is_the_line_on_the_other_side_left_alone(m: CompiledMachine) -> None:
    assert run(tiny(m, l2_adjacent_line=True), [two_accesses("load", X, BESIDE)]).served(0, 4) == {"memory": 1}


def test_does_a_fetch_cause_no_fetch_and_a_hit_none(m: CompiledMachine) -> None:
    p = at(T1)
    for _ in range(3):
        p.load(X)
        p.fence(Fence.FULL)
        p.work(2000)
        p.load(PAIR)
        p.fence(Fence.FULL)
    p.halt()
    assert run(tiny(m, l2_adjacent_line=True), [p]).sim.counters()["adjacent_fetches"] == 1


def test_does_it_take_a_written_line_from_its_owner_to_read(m: CompiledMachine) -> None:
    """False sharing of a pair: another core's modified line is fetched beside the one that was asked for; its owner must ask to write again."""
    owner = at(T1 // 2)
    owner.store(PAIR)
    owner.fence(Fence.FULL)
    owner.work(20_000)
    again = owner.rmw(PAIR)
    owner.halt()
    for on, served in ((True, "upgrade"), (False, "l1")):
        r = run(tiny(m, l2_adjacent_line=on), [owner, two_accesses("load", X, BESIDE)])
        assert r.served(0, again) == {served: 1}
