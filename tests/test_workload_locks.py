"""The synchronisation library computes what it should: mutual exclusion, no lost update, no lost wake-up."""

from __future__ import annotations

import numpy as np
import pytest
from workload_interpreter import Interpreter

from cohsim.uops import Flag, Op
from cohsim.workload.load import compile_text

ISAS = ("x86", "power")
HEADER = """cohsim-trace 1
struct line size 64
    word 0 8
    half 8 4
object lock line shared
object counter line shared
object inside line shared
object node mcs_node per-cpu
object seen line per-cpu
"""

# enter the critical section, notice company, update a counter non-atomically, leave
SECTION = """
    {lock}
    n = load inside.word
    if n != 0 unlikely
        store seen.word = 1
    store inside.word = 1
    v = load counter.word
    v = v + 1
    store counter.word = v
    store inside.word = 0
    {unlock}
"""
LOCKS = {
    "ticket": ("ticket_lock lock.half", "ticket_unlock lock.half"),
    "tas": ("tas_lock lock.half", "tas_unlock lock.half"),
    "ttas": ("ttas_lock lock.half", "ttas_unlock lock.half"),
    "mcs": ("mcs_lock lock.word, node", "mcs_unlock lock.word, node"),
    "queued": ("queued_lock lock.half", "queued_unlock lock.half"),
    "spin": ("spin_lock lock.half", "spin_unlock lock.half"),
    "write": ("write_lock lock.half", "write_unlock lock.half"),
    "trylock": ("label again\n    ok = spin_trylock lock.half\n    if ok == 0 goto again", "spin_unlock lock.half"),
    "ticket_trylock": ("label again\n    ok = ticket_trylock lock.half\n    if ok == 0 goto again", "ticket_unlock lock.half"),
    "queued_trylock": ("label again\n    ok = queued_trylock lock.half\n    if ok == 0 goto again", "queued_unlock lock.half"),
    "write_trylock": ("label again\n    ok = write_trylock lock.half\n    if ok == 0 goto again", "write_unlock lock.half"),
    "seqlock": ("write_seqlock lock.word, lock.half", "write_sequnlock lock.word, lock.half"),
}


def workload(body: str, isa: str, cpus: int, run: str = "    loop p\n", kernel: str | None = None):
    return compile_text(f"{HEADER}path p\n{body}\nrun\n{run}", "locks.trace", isa=isa, cpus=cpus, kernel=kernel).workload


def overlaps(m: Interpreter) -> list[int]:
    return [m.word("seen", instance=cpu) for cpu in range(m.w.cpus)]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", LOCKS)
def test_mutual_exclusion(kind: str, isa: str) -> None:
    lock, unlock = LOCKS[kind]
    w = workload(SECTION.format(lock=lock, unlock=unlock), isa, 4)
    alone = Interpreter(w)
    alone.run(3)
    assert alone.word("counter") == 12
    for seed in range(15):
        m = Interpreter(w)
        m.run(6, seed=seed)
        assert m.word("counter") == 24, f"lost updates with seed {seed}"
        assert overlaps(m) == [0] * 4, f"two CPUs inside with seed {seed}"


def test_the_interpreter_notices_a_missing_lock() -> None:
    w = workload(SECTION.format(lock="work 1", unlock="work 1"), "x86", 4)
    results = []
    for seed in range(15):
        m = Interpreter(w)
        m.run(6, seed=seed)
        results.append(m.word("counter") == 24 and not any(overlaps(m)))
    assert not all(results)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kernel", ["2.6.31", "3.12", "4.4"])
def test_kernel_default_spinlock(isa: str, kernel: str) -> None:
    w = workload(SECTION.format(lock="spin_lock lock.half", unlock="spin_unlock lock.half"), isa, 3, kernel=kernel)
    for seed in range(6):
        m = Interpreter(w)
        m.run(5, seed=seed)
        assert m.word("counter") == 15
    pending_is_used = any(u["op"] == Op.RMW and u["imm"] == 0x100 and u["size"] == 4 for u in w.uops)
    assert pending_is_used == (isa == "x86" and kernel == "4.4")  # queued spinlock from 4.2


@pytest.mark.parametrize("isa", ISAS)
def test_ticket_wraps_around(isa: str) -> None:
    """The owner part wraps without carrying into the ticket part."""
    w = workload(SECTION.format(lock="ticket_lock lock.half", unlock="ticket_unlock lock.half"), isa, 2)
    m = Interpreter(w)
    item = next(o for o in w.objects if o.name == "lock")
    m.write(item.base + 8, 4, 0xFEFE if isa == "x86" else 0xFFFEFFFE, -1)
    m.run(300 if isa == "x86" else 8, seed=1)
    assert m.word("counter") == (600 if isa == "x86" else 16)
    assert overlaps(m) == [0, 0]


@pytest.mark.parametrize("isa", ISAS)
def test_readers_share_and_exclude_the_writer(isa: str) -> None:
    text = (
        HEADER
        + """
path reader
    read_lock lock.half
    n = atomic_inc_return inside.half
    if n >= 2
        store seen.half = 1
    n = load inside.word
    if n != 0
        store seen.word = 1
    work 3
    atomic_dec inside.half
    read_unlock lock.half
path writer
    write_lock lock.half
    store inside.word = 1
    n = load inside.half
    if n != 0
        store seen.word = 1
    store inside.word = 0
    write_unlock lock.half
run
    cpu 0..2 runs reader
    cpu 3 runs writer
"""
    )
    w = compile_text(text, "rw.trace", isa=isa, cpus=4).workload
    shared = 0
    for seed in range(20):
        m = Interpreter(w)
        m.run(6, seed=seed)
        assert overlaps(m) == [0] * 4, f"reader and writer together with seed {seed}"
        shared += sum(m.word("seen", 8, 4, cpu) for cpu in range(3))
        expected = 0x01000000 if isa == "x86" else 0
        assert m.word("lock", 8, 4) == expected, "the lock word is unlocked at the end"
    assert shared > 0, "readers are never inside together: the lock is too strong"


@pytest.mark.parametrize("isa", ISAS)
def test_read_trylock_fails_under_a_writer(isa: str) -> None:
    w = workload(
        "    write_lock lock.half\n    r = read_trylock lock.half\n    store counter.word = r\n    write_unlock lock.half\n"
        "    r = read_trylock lock.half\n    store counter.half = r\n    read_unlock lock.half",
        isa,
        1,
    )
    m = Interpreter(w)
    m.run(1)
    assert (m.word("counter"), m.word("counter", 8, 4)) == (0, 1)
    assert m.word("lock", 8, 4) == (0x01000000 if isa == "x86" else 0)


@pytest.mark.parametrize("isa", ISAS)
def test_seqlock_readers_never_use_a_torn_pair(isa: str) -> None:
    text = (
        HEADER
        + """
path reader
    label again
    s = read_seqbegin lock.word
    a = load counter.word
    b = load inside.word
    r = read_seqretry lock.word, s
    if r != 0 goto again
    if a != b
        store seen.word = 1
path writer
    write_seqlock lock.word, lock.half
    a = load counter.word
    a = a + 1
    store counter.word = a
    store inside.word = a
    write_sequnlock lock.word, lock.half
run
    cpu 0..1 runs reader
    cpu 2..3 runs writer
"""
    )
    w = compile_text(text, "seq.trace", isa=isa, cpus=4).workload
    for seed in range(15):
        m = Interpreter(w)
        m.run(6, seed=seed)
        assert overlaps(m) == [0] * 4
        assert m.word("counter") == 12
        assert m.word("lock") == 24  # two steps per writer section, even at rest


@pytest.mark.parametrize("isa", ISAS)
def test_rcu_read_side(isa: str) -> None:
    free = workload("    rcu_read_lock\n    rcu_read_unlock", isa, 1)
    assert not any(u["op"] in (Op.LOAD, Op.STORE, Op.RMW, Op.LL, Op.FENCE) for u in free.uops)
    counted = workload(
        "    rcu_read_lock_preempt\n    v = load this_cpu.rcu_nesting\n    store seen.word = v\n    rcu_read_unlock_preempt",
        isa,
        2,
    )
    m = Interpreter(counted)
    m.run(3, seed=1)
    assert overlaps(m) == [1, 1]
    assert [m.word("this_cpu", 8, 4, cpu) for cpu in (0, 1)] == [0, 0]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["ticket", "tas", "ttas", "mcs", "queued", "spin"])
def test_wait_loops_are_spin(kind: str, isa: str) -> None:
    """Only the waiting carries SPIN: an uncontended pass executes no such micro-op."""
    lock, unlock = LOCKS[kind]
    w = workload(f"    {lock}\n    {unlock}", isa, 2)
    assert any(u["flags"] & Flag.SPIN for u in w.uops)
    m = Interpreter(w)
    while not m.iterations[0]:
        assert not w.uops[m.pc[0]]["flags"] & Flag.SPIN
        m.step(0)


def test_tokens_differ_per_cpu_on_power() -> None:
    w = workload(
        "    spin_lock lock.half\n    v = load lock.half\n    store seen.word = v\n    spin_unlock lock.half", "power", 2
    )
    m = Interpreter(w)
    m.run(1)
    assert overlaps(m) == [0x80000000, 0x80000001]


KINDS = {"trylock": "spin", "ticket_trylock": "ticket", "queued_trylock": "queued", "write": "rwlock", "write_trylock": "rwlock"}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", LOCKS)
def test_the_micro_ops_of_a_lock_function_know_their_lock_word(name: str, isa: str) -> None:
    """For cohsim c2c. The default lock of a kernel is named by what it is made of, where it is made of another."""
    lock, unlock = LOCKS[name]
    w = workload(SECTION.format(lock=lock, unlock=unlock), isa, 2)
    kind = KINDS.get(name, name)
    if isa == "x86" and kind == "spin":
        kind = "ticket"
    assert w.uop_lock is not None and len(w.uop_lock) == len(w.uops)
    word = "word" if name == "mcs" else "half"
    uses = {(use.kind, w.fields[use.field].field, use.acquires) for use in w.locks if use.kind != "seqlock"}
    if name == "seqlock":
        inner = "ticket" if isa == "x86" else "spin"
        assert {(use.kind, w.fields[use.field].field) for use in w.locks} == {("seqlock", "word"), (inner, "half")}
    else:
        assert uses == {(kind, word, True), (kind, word, False)}
    touched = np.isin(w.uops["field"], [i for i, f in enumerate(w.fields) if f.object == "lock"])
    assert (w.uop_lock[touched] >= 0).all()                     # only lock functions use the lock's line
    section = np.isin(w.uops["field"], [i for i, f in enumerate(w.fields) if f.object in ("counter", "inside", "seen")])
    assert section.any() and (w.uop_lock[section] == -1).all()
