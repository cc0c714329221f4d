"""Lock replacement (--lock) and far atomics (--isa): what is lowered, that it is still a lock, where its word goes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from workload_interpreter import Interpreter

from cohsim.cli.main import main
from cohsim.errors import InputError, WorkloadError
from cohsim.experiment import prepare
from cohsim.uops import Fence, Op
from cohsim.workload.load import compile_text
from cohsim.workload.locks import KINDS

ISAS = ("x86", "power")
WORDS = {"mcs": 8, "ticket": {"x86": 2, "power": 4}, "queued": 4, "tas": 4, "ttas": 4}
HEADER = """cohsim-trace 1
struct shared_part size 64
    before 0 4
    lock 4 4
    after 8 8
    hot 16 4
    gap 24 8
struct line size 64
    word 0 8
struct counters size 64
    v 0 8
object s shared_part shared
object t shared_part shared
object counter counters shared
object inside line shared
object seen line per-cpu
object node mcs_node per-cpu
object bare bytes 4 shared
"""
SECTION = """
path p
    {lock}
    n = load inside.word
    if n != 0 unlikely
        store seen.word = 1
    store inside.word = 1
    v = load counter.v
    v = v + 1
    store counter.v = v
    store inside.word = 0
    {unlock}
run
    loop p
"""
PLAIN = ("spin_lock s.lock", "spin_unlock s.lock")
WRAPPED = ("take s.lock", "give s.lock")
FORMS = {
    "plain": PLAIN,
    "wrapped": WRAPPED,
    "trylock": ("label again\n    ok = spin_trylock s.lock\n    if ok == 0 goto again", "spin_unlock s.lock"),
    "ticket": ("ticket_lock s.lock", "ticket_unlock s.lock"),
    "seqlock": ("write_seqlock s.gap, s.lock", "write_sequnlock s.gap, s.lock"),
}
WRAPPERS = """
function take(lock)
    work 3
    inline spin_lock(lock)
function give(lock)
    inline spin_unlock(lock)
"""


def compiled(form=PLAIN, isa="x86", cpus=4, locks=(), layouts=(), extra="", header=HEADER):
    text = header + (WRAPPERS if form is WRAPPED else "") + extra + SECTION.format(lock=form[0], unlock=form[1])
    return compile_text(text, "t.trace", isa=isa, cpus=cpus, locks=tuple(locks), layouts=tuple(layouts))


def errors(*args, **kwargs) -> str:
    with pytest.raises(WorkloadError) as error:
        compiled(*args, **kwargs)
    return str(error.value)


# ---- it is still a lock, and another one


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_the_other_lock_excludes(form, kind, isa):
    w = compiled(FORMS[form], isa, 3, [f"s.lock={kind}"]).workload
    entries = {f"{kind}_lock", f"{kind}_trylock", f"{kind}_unlock"}
    if form in ("plain", "trylock", "ticket"):
        assert set(w.func_names) - {"p"} == ({f"{kind}_trylock", f"{kind}_unlock"} if form == "trylock" else entries - {f"{kind}_trylock"})
    for seed in range(6):
        m = Interpreter(w)
        m.run(5, seed=seed)
        assert m.word("counter") == 15 and [m.word("seen", instance=c) for c in range(3)] == [0, 0, 0]
    word = next(f for f in w.fields if (f.object, f.field) == ("s", "lock"))
    size = WORDS[kind] if isinstance(WORDS[kind], int) else WORDS[kind][isa]
    assert word.size_bytes == size and word.offset_bytes % size == 0


def test_the_same_kind_changes_no_operation():
    a = compiled(FORMS["ticket"]).workload.uops
    b = compiled(FORMS["ticket"], locks=["s.lock=ticket"]).workload.uops
    names = [n for n in a.dtype.names if n != "field"]
    assert np.array_equal(a[names], b[names])


def test_a_struct_means_all_its_objects_and_an_object_only_itself():
    both = ("spin_lock s.lock\n    spin_lock t.lock", "spin_unlock t.lock\n    spin_unlock s.lock")
    one = compiled(both, locks=["t.lock=tas"]).workload
    assert set(one.func_names) == {"p", "spin_lock", "tas_lock", "tas_unlock", "spin_unlock"}
    assert set(compiled(both, locks=["shared_part.lock=tas"]).workload.func_names) == {"p", "tas_lock", "tas_unlock"}


def test_two_mcs_locks_held_together_have_a_node_each():
    both = ("spin_lock s.lock\n    spin_lock t.lock", "spin_unlock t.lock\n    spin_unlock s.lock")
    w = compiled(both, locks=["shared_part.lock=mcs"], cpus=3).workload
    nodes = [o for o in w.objects if o.name.startswith("mcs_node(")]
    assert sorted(o.name for o in nodes) == ["mcs_node(s.lock)", "mcs_node(t.lock)"] and {o.instances for o in nodes} == {3}
    for seed in range(6):
        m = Interpreter(w)
        m.run(5, seed=seed)
        assert m.word("counter") == 15 and [m.word("seen", instance=c) for c in range(3)] == [0, 0, 0]


# ---- room


def test_a_larger_word_pushes_the_later_fields_as_a_compiler_would():
    """8 bytes at 4 go to 8; after (8 at 8) to 16; hot (4 at 16) to 24; the hole behind it takes 4 of the 8, gap goes from 24 to 32."""
    c = compiled(locks=["s.lock=mcs"])
    moves = "lock 4 -> 8, after 8 -> 16, hot 16 -> 24, gap 24 -> 32"
    assert f"--lock s.lock=mcs: the word has 8 bytes; struct shared_part makes room: {moves}" in c.workload.assumptions
    assert c.objects["s"].layout.fields == {"before": (0, 4), "lock": (8, 8), "after": (16, 8), "hot": (24, 4), "gap": (32, 8)}
    assert c.objects["s"].size == 64


def test_padding_behind_the_word_is_used_and_nothing_moves():
    header = HEADER.replace("    after 8 8\n    hot 16 4\n", "").replace("lock 4 4", "lock 8 4")
    c = compiled(locks=["s.lock=mcs"], header=header)
    assert c.objects["s"].layout.fields == {"before": (0, 4), "lock": (8, 8), "gap": (24, 8)}
    assert not [a for a in c.workload.assumptions if "mcs" in a]


def test_plain_bytes_grow():
    c = compiled(("spin_lock bare+0:4", "spin_unlock bare+0:4"), locks=["bare=mcs"])
    assert c.objects["bare"].size == 8


def test_layout_options_come_first():
    c = compiled(locks=["s.lock=mcs"], layouts=["shared_part.lock:own-line"])
    assert c.objects["s"].layout.fields["lock"] == (64, 8) and c.objects["s"].layout.fields["after"] == (8, 8)


# ---- refusals


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("s.lock", "is not understood"),
        ("s.lock=mks", "unknown lock 'mks'; did you mean 'mcs'?"),
        ("q.lock=mcs", "unknown object or struct 'q'"),
        ("s.look=mcs", "struct shared_part has no field 'look'; did you mean 'lock'?"),
        ("bare.lock=mcs", "object 'bare' is plain bytes; write bare=mcs"),
        ("s.gap=mcs", "no spinlock of the library is taken on it"),
    ],
)
def test_options_that_mean_nothing(option, message):
    assert message in errors(locks=[option]) and errors(locks=[option]).startswith("--lock: ")


def test_a_union_behind_the_word_cannot_be_moved():
    header = HEADER.replace("    hot 16 4\n", "    hot 16 4\n    low 16 2 overlaps\n")
    assert "has a union there or behind it; give it room first: --layout 'shared_part.lock:own-line'" in errors(locks=["s.lock=mcs"], header=header)
    assert compiled(locks=["s.lock=tas"], header=header)


def test_a_word_that_something_else_uses_is_refused():
    assert "is also used without the lock functions" in errors(("spin_lock s.lock\n    load s.lock", "spin_unlock s.lock"), locks=["s.lock=tas"])


def test_replaced_twice():
    assert "replaced twice" in errors(locks=["s.lock=tas", "s.lock=mcs"])


POINTER = ("q = addr s\n    spin_lock q->shared_part.lock", "q = addr s\n    spin_unlock q->shared_part.lock")


@pytest.mark.parametrize("kind", ["ticket", "ttas", "queued"])
def test_a_lock_behind_a_pointer_is_known_by_its_struct(kind):
    w = compiled(POINTER, locks=[f"shared_part.lock={kind}"], cpus=3).workload
    assert set(w.func_names) == {"p", f"{kind}_lock", f"{kind}_unlock"}
    assert [(x.struct, x.field, x.offset_bytes, x.kinds) for x in w.lock_words] == [("shared_part", "lock", 4, (kind,))]
    m = Interpreter(w)
    m.run(5, seed=1)
    assert m.word("counter") == 15 and [m.word("seen", instance=c) for c in range(3)] == [0, 0, 0]


def test_a_lock_behind_a_pointer_and_what_cannot_be_known_of_it():
    text = errors(POINTER, locks=["s.lock=tas"])
    assert "of which object is not known; replace it in all objects: --lock shared_part.lock=tas" in text
    assert "use queued, whose node is free again" in errors(POINTER, locks=["shared_part.lock=mcs"])
    nameless = ("q = addr s\n    spin_lock [q+4]:4\n    spin_lock t.lock", "q = addr s\n    spin_unlock [q+4]:4\n    spin_unlock t.lock")
    assert any("by an address without a struct keeps its kind" in a for a in compiled(nameless, locks=["t.lock=tas"]).workload.assumptions)


# ---- updates gathered per CPU


@pytest.mark.parametrize("isa", ISAS)
def test_gathered_updates_reach_the_counter_in_batches(isa):
    """Five increments of 2 with a batch of 6: 2, 4, 6 -> the counter; 2, 4 stay with the CPU. Decrements of 3 go at -6, at every second one."""
    cases = (("atomic_add counter.v, 2", 5, 6, 4), ("atomic_sub counter.v, 3", 3, -6, -3), ("atomic_inc_return counter.v", 13, 12, 1))
    for statement, runs, shared, own in cases:
        c = compile_text(HEADER + ATOMICS.format(body=statement), "t.trace", isa=isa, cpus=1, layouts=("counters.v:batch=6",))
        m = Interpreter(c.workload)
        m.run(runs)
        assert (m.word("counter"), m.word("batch(counter.v)")) == (shared % 2**64, own % 2**64), statement


def test_gathering_needs_updates_whose_value_nobody_wants():
    for body, message in (
        ("r = atomic_dec_return counter.v", "needs the value of counter.v"),
        ("cmpxchg counter.v, 0, 1", "needs the value of counter.v"),
        ("load counter.v", "counters.v:batch: no atomic of the workload updates it"),
    ):
        with pytest.raises(WorkloadError, match=message):
            compile_text(HEADER + ATOMICS.format(body=body), "t.trace", isa="x86", cpus=1, layouts=("counters.v:batch=8",))
    with pytest.raises(WorkloadError, match="a batch of 0 updates"):
        compile_text(HEADER + ATOMICS.format(body="atomic_inc counter.v"), "t.trace", isa="x86", cpus=1, layouts=("counters.v:batch=0",))


# ---- far atomics

ATOMICS = """
path p
    {body}
run
    loop p
"""


def far(body, isa="power", options=("atomics=far",)):
    return compile_text(HEADER + ATOMICS.format(body=body), "t.trace", isa=isa, cpus=2, isa_options=options).workload


def operations(w):
    return [(Op(int(u["op"])), int(u["imm"]) if u["op"] == Op.FENCE else 0) for u in w.uops[2:-2]]


def test_far_atomics_are_one_instruction_with_the_same_barriers():
    rmw, alu, light, full = (Op.RMW, 0), (Op.ALU, 0), (Op.FENCE, Fence.LIGHT), (Op.FENCE, Fence.FULL)
    assert operations(far("atomic_inc counter.v")) == [rmw]
    assert operations(far("r = atomic_dec_return counter.v")) == [light, rmw, alu, full]
    assert operations(far("r = cmpxchg counter.v, 1, 2")) == [light, alu, rmw, full]
    assert operations(far("r = xchg counter.v, 2")) == [light, rmw, full]
    assert Op.LL in [op for op, _ in operations(far("atomic_inc counter.v", options=("atomics=llsc",)))]


@pytest.mark.parametrize("statement", ["r = atomic_add_return counter.v, 3", "r = atomic_dec_return counter.v", "r = cmpxchg counter.v, 0, 9",
                                       "r = cmpxchg counter.v, 1, 9", "r = xchg counter.v, 7", "r = test_and_set_bit counter.v, 5"])
def test_far_atomics_compute_the_same(statement):
    words = []
    for options in ((), ("atomics=far",)):
        m = Interpreter(far(f"{statement}\n    store inside.word = r", options=options))
        m.run(3)
        words.append((m.word("counter"), m.word("inside")))
    assert words[0] == words[1]


def test_far_atomics_lose_no_update_in_the_core_and_look_ahead_changes_nothing():
    results = []
    for lookahead in (True, False):
        settings = {"cpus": 8, "lookahead": lookahead, "check": True, "warmup_ns": 0.0, "measure_ns": 20_000.0}
        results.append(prepare("t4240", "micro/atomic_inc", isa_options=("atomics=far",), **settings).run())
    a, b = results
    for path, value in a.data.items():
        if not path.startswith("/provenance"):
            assert np.array_equal(value, b.data[path]), path
    assert a.array("/primitives/sc_failures").sum() == 0 and a.array("/threads/iterations").sum() > 100


def test_far_increments_wait_for_the_line_once_each():
    """One core, one thread: hop to the L2, its lookup and store occupancy, hop back; LL/SC makes that way twice."""
    def each(options):
        result = prepare("t4240", "micro/atomic_inc", cpus=1, isa_options=options, warmup_ns=1_000.0, measure_ns=50_000.0).run()
        return 50_000.0 / int(result.array("/threads/iterations")[0])

    assert 0.4 < each(("atomics=far",)) / each(()) < 0.9


@pytest.mark.parametrize(
    ("machine", "options", "message"),
    [
        ("corei7", ("atomics=far",), "--isa: atomics=far: x86 has no atomics that another agent performs"),
        ("corei7", ("atomics=llsc",), "--isa: atomics=llsc: x86 has no load-linked / store-conditional"),
        ("t4240", ("atomics=near",), "--isa: 'atomics=near' is not known; write atomics=far or atomics=llsc"),
        ("t4240", ("atomics=far", "atomics=llsc"), "--isa: atomics=far and atomics=llsc contradict each other"),
    ],
)
def test_what_an_instruction_set_has_not(machine, options, message):
    with pytest.raises(InputError) as error:
        prepare(machine, "micro/atomic_inc", cpus=2, isa_options=options)
    assert str(error.value).startswith(message)


def test_options_reach_the_run_and_the_sweep(tmp_path, capsys):
    short = ["--cpus", "4", "--warmup", "1us", "--measure", "10us"]
    assert main(["run", "t4240", "micro/spinlock", *short, "--lock", "lock.word=mcs"]) == 0
    assert "mcs_lock" in capsys.readouterr().out
    choices = ["--lock", "none,lock.word=mcs", "--isa", "none,atomics=far"]
    assert main(["sweep", "t4240", "micro/spinlock", *short, *choices, "-o", str(tmp_path / "s.h5")]) == 0
    out = capsys.readouterr().out
    assert "4 points: 4 done" in out and "lock.word=mcs" in out
    assert main(["run", "t4240", "recorded/e6500-vlan-pmtu-120.mtc.xz", "--lock", "a.b=mcs"]) == 2
    assert "--lock: applies to .trace workloads" in capsys.readouterr().err
