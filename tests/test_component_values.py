"""Do programs compute the right values while their lines bounce? Oracles that know nothing of caches; checked mode; seeds in the names."""

from __future__ import annotations

import random

import pytest
from program import LINE, Program, X, machine, run
from random_programs import tiny_machine

from cohsim.machine.compiled import CompiledMachine
from cohsim.uops import Alu, Cond, Fence

MACHINES = ("corei7", "t4240")
GEOMETRY: dict[str, dict[str, object]] = {
    "two-way L2": {},
    "tiny L3": {"l3_sets": 1, "l3_ways": 2},
    "room for all": {"l1_sets": 4, "l1_ways": 4, "l2_sets": 4, "l2_ways": 8},
    "snoops last": {"snoop_first": False},
}
WAYS = ("rmw", "cas", "ll/sc")


def spread(m: CompiledMachine, rng: random.Random, cpus: int) -> tuple[int, ...]:
    """CPUs of one cluster with siblings, or of the whole machine."""
    near = [c for c in range(len(m.cpu_core)) if m.cpu_core[c] < 2]
    return tuple(rng.sample(near if rng.random() < 0.4 else range(len(m.cpu_core)), min(cpus, len(near))))


def compare_and_swap_loop(p: Program, address: int, size: int) -> None:
    """old = load; do { new = old + 1 } while cas fails."""
    p.load(address, 2, size=size)
    top = p.alu(3, 2, 1)
    p.alu(4, 2, 0)
    p.rmw(address, 0, fn=Alu.CAS, dst=2, a=4, b=3, size=size)
    p.branch(Cond.NE, 2, 0, top, b=4)


def increment(p: Program, way: str, address: int, size: int) -> None:
    if way == "cas":
        compare_and_swap_loop(p, address, size)
    else:
        p.atomic_add(address, "x86" if way == "rmw" else "power", size=size)


@pytest.mark.parametrize("geometry", GEOMETRY)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(12))
def test_is_no_atomic_increment_lost(name: str, geometry: str, seed: int) -> None:
    """Words of 2, 4 and 8 bytes, several in a line (false sharing); each thread uses a mix of ways to increment."""
    m = tiny_machine(name, **GEOMETRY[geometry])
    rng = random.Random(seed)
    words = [(X + LINE * line + offset, size) for line in range(4) for offset, size in ((0, 8), (8, 4), (12, 4), (16, 2))]
    pin = spread(m, rng, rng.randrange(2, 7))
    performed = dict.fromkeys(words, 0)
    programs = []
    for _ in pin:
        p = Program()
        mine = rng.sample(words, 5)
        ways = rng.sample(WAYS, 2)
        top = p.work(rng.randrange(1, 30))
        for address, size in mine:
            increment(p, rng.choice(ways), address, size)
            if rng.random() < 0.4:
                p.load(X + LINE * rng.randrange(6), 6)
            if rng.random() < 0.3:
                p.store(X + LINE * rng.randrange(6) + 32, rng.randrange(99))
        p.counted_loop(5, 12, top)
        p.halt()
        for word in mine:
            performed[word] += 12
        programs.append(p)
    r = run(m, programs, pin=pin, seed=seed + 1, until_fs=10**13)
    assert r.stop == "empty"
    assert {w: r.sim.read_memory(*w) for w in words} == performed


@pytest.mark.parametrize("gathering", [True, False])
@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("seed", range(0, 40, 10))
def test_do_stores_that_wait_for_a_way_of_the_l2_stay_in_order(seed: int, ways: int, gathering: bool) -> None:
    """A set of one or two ways: a store finds none free and waits, a younger one to the same line must not pass it. Ten programs each."""
    m = tiny_machine("t4240", l2_sets=1, l2_ways=ways, store_queue=7, store_queue_smt=7, store_gathering=gathering)
    for s in range(seed, seed + 10):
        rng = random.Random(s)
        pin = spread(m, rng, 5)
        programs, last = [], {}
        for cpu in range(len(pin)):
            p = Program()
            for i in range(60):
                address = X + LINE * rng.randrange(3) + 8 * cpu
                p.store(address, 1000 * cpu + i)
                last[address] = 1000 * cpu + i
                if rng.random() < 0.2:
                    p.work(rng.randrange(1, 60))
                if rng.random() < 0.1:
                    p.load(X + LINE * rng.randrange(5), 6)
            p.halt()
            programs.append(p)
        r = run(m, programs, pin=pin, seed=s + 1)
        assert {a: r.sim.read_memory(a, 8) for a in last} == last, f"seed {s}"


@pytest.mark.parametrize("geometry", GEOMETRY)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(8))
def test_does_a_word_keep_the_last_store_of_its_only_writer(name: str, geometry: str, seed: int) -> None:
    """Every CPU has its words, all of them share the lines: stores of one thread to one word stay in order."""
    m = tiny_machine(name, **GEOMETRY[geometry])
    rng = random.Random(seed)
    pin = spread(m, rng, 5)
    programs, last = [], {}
    for cpu in range(len(pin)):
        p = Program()
        for i in range(60):
            address = X + LINE * rng.randrange(5) + 8 * cpu
            p.store(address, 1000 * cpu + i)
            last[address] = 1000 * cpu + i
            if rng.random() < 0.3:
                p.load(X + LINE * rng.randrange(7), 6)
            if rng.random() < 0.1:
                p.fence(rng.choice(tuple(Fence)))
            if rng.random() < 0.2:
                p.work(rng.randrange(1, 50))
        p.halt()
        programs.append(p)
    r = run(m, programs, pin=pin, seed=seed + 1)
    assert {a: r.sim.read_memory(a, 8) for a in last} == last


@pytest.mark.parametrize("geometry", GEOMETRY)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(8))
def test_does_nobody_see_a_growing_word_go_back(name: str, geometry: str, seed: int) -> None:
    """All CPUs increment one word and compare what two loads in program order return, and with what they saw before."""
    m = tiny_machine(name, **GEOMETRY[geometry])
    rng = random.Random(seed)
    pin = spread(m, rng, 5)
    programs, wrong = [], []
    for _ in pin:
        p = Program()
        backwards = []
        for _ in range(40):
            p.load(X, 2)
            if rng.random() < 0.5:
                p.work(rng.randrange(1, 20))
            p.load(X, 3)
            backwards += [p.branch(Cond.LTU, 3, 0, b=2), p.branch(Cond.LTU, 2, 0, b=7)]
            p.alu(7, 3, 0)
            what = rng.random()
            if what < 0.4:
                p.atomic_add(X, m.isa)
            elif what < 0.7:
                p.store(X + LINE * rng.randrange(3) + 8 * rng.randrange(1, 4), 1)
            else:
                p.load(X + LINE * rng.randrange(1, 4), 6)
        p.halt()
        for branch in backwards:
            p.land(branch)
        wrong.append(p.work(1))
        p.halt()
        programs.append(p)
    r = run(m, programs, pin=pin, seed=seed + 1)
    assert [r.count(cpu, index) for cpu, index in enumerate(wrong)] == [0] * len(pin)


def test_does_x86_keep_two_loads_in_order_when_the_older_one_misses() -> None:
    """Message passing: data, then flag are written; flag, then data are read. New flag and old data is forbidden on x86. The reader has
    an old copy of the data and none of the flag; the writer owns the flag. All offsets at which the two may meet are tried."""
    m = machine("xeon_x5550")
    data, flag = X, X + LINE
    begin = 1_000_000_000
    for slots in range(0, 160, 4):
        writer = Program()
        writer.delay_until(begin)
        writer.store(flag, 0)
        writer.fence()
        writer.work(3000 + slots + 180)
        writer.store(data, 1)
        writer.store(flag, 1)
        writer.halt()
        reader = Program()
        reader.delay_until(begin)
        reader.load(data, 2)
        reader.fence()
        reader.work(3300)
        reader.load(flag, 0)
        reader.load(data, 1)
        old_flag, new_data = reader.branch(Cond.EQ, 0, 0), reader.branch(Cond.NE, 1, 0)
        forbidden = reader.work(1)
        reader.land(old_flag)
        reader.land(new_data)
        reader.halt()
        assert run(m, [writer, reader]).count(1, forbidden) == 0, f"writer {slots} slots later"
