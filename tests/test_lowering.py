"""Lowering, operation by operation, and what the lowered operations compute."""

from __future__ import annotations

import pytest
from workload_interpreter import Interpreter

from cohsim.errors import WorkloadError
from cohsim.uops import Alu, Cond, Fence, Flag, Op, Slot
from cohsim.workload.compiled import CompiledWorkload
from cohsim.workload.dry_run import DryRun
from cohsim.workload.load import compile_text

ISAS = ("x86", "power")
HEADER = """cohsim-trace 1
struct line size 64
    a 0 4
    b 4 4
    c 8 8
    wide 16 16
    e 32 2
object x line shared
object out line per-cpu
object mine line per-cpu
"""


def compiled(body: str, isa: str, *, cpus: int = 1, kernel: str | None = None, extra: str = "") -> CompiledWorkload:
    lines = "\n".join("    " + line for line in body.split("\n"))
    return compile_text(
        f"{HEADER}{extra}path p\n{lines}\nrun\n    loop p\n", "t.trace", isa=isa, cpus=cpus, kernel=kernel
    ).workload


def ops(w: CompiledWorkload) -> list[str]:
    """The path's micro-ops between ENTER and DONE: name, and what tells them apart."""
    words = []
    for u in w.uops[2:-2]:
        op = Op(int(u["op"]))
        word = op.name
        if op in (Op.RMW, Op.ALU):
            word += "." + Alu(int(u["fn"])).name
        elif op == Op.BR:
            word += "." + Cond(int(u["fn"])).name
        elif op == Op.FENCE:
            word += "." + Fence(int(u["imm"])).name
        elif op == Op.WORK:
            word += str(int(u["imm"]))
        words.append(word)
    return words


LOOP = ["LL", "ALU.ADD", "SC", "BR.EQ"]
DOWN = ["LL", "ALU.SUB", "SC", "BR.EQ"]


@pytest.mark.parametrize(
    ("statement", "x86", "power"),
    [
        ("atomic_inc x.a", ["RMW.ADD"], LOOP),
        ("atomic_dec x.a", ["RMW.SUB"], DOWN),
        ("atomic_add x.a, 5", ["RMW.ADD"], LOOP),
        ("atomic_sub x.a, 5", ["RMW.SUB"], DOWN),
        ("atomic_inc_return x.a", ["WORK1", "RMW.ADD", "ALU.ADD"], ["FENCE.LIGHT", *LOOP, "FENCE.FULL"]),
        ("atomic_dec_return x.a", ["WORK1", "RMW.SUB", "ALU.SUB"], ["FENCE.LIGHT", *DOWN, "FENCE.FULL"]),
        ("atomic_dec_and_test x.a", ["RMW.SUB"], ["FENCE.LIGHT", *DOWN, "FENCE.FULL"]),
        (
            "r = atomic_dec_and_test x.a",
            ["RMW.SUB", "ALU.XOR", "ALU.SUB", "ALU.SHR"],
            ["FENCE.LIGHT", *DOWN, "FENCE.FULL", "ALU.XOR", "ALU.SUB", "ALU.SHR"],
        ),
        (
            "cmpxchg x.a, 1, 2",
            ["ALU.XCHG", "RMW.CAS"],
            ["FENCE.LIGHT", "LL", "WORK1", "BR.NE", "SC", "BR.EQ", "FENCE.FULL"],
        ),
        ("xchg x.a, 3", ["RMW.XCHG"], ["FENCE.LIGHT", "LL", "SC", "BR.EQ", "FENCE.FULL"]),
        ("set_bit x.a, 3", ["RMW.OR"], ["LL", "ALU.OR", "SC", "BR.EQ"]),
        ("clear_bit x.a, 3", ["RMW.AND"], ["LL", "ALU.AND", "SC", "BR.EQ"]),
        ("test_and_set_bit x.a, 3", ["RMW.OR"], ["FENCE.LIGHT", "LL", "ALU.OR", "SC", "BR.EQ", "FENCE.FULL"]),
        (
            "r = test_and_clear_bit x.a, 3",
            ["RMW.AND", "ALU.AND"],
            ["FENCE.LIGHT", "LL", "ALU.AND", "SC", "BR.EQ", "FENCE.FULL", "ALU.AND"],
        ),
        ("smp_mb", ["FENCE.FULL"], ["FENCE.FULL"]),
        ("smp_rmb", [], ["FENCE.LIGHT"]),
        ("smp_wmb", [], ["FENCE.LIGHT"]),
        ("acquire", [], ["FENCE.INSTR"]),
        ("release", [], ["FENCE.LIGHT"]),
        ("fence store", ["FENCE.STORE"], ["FENCE.STORE"]),
        ("r = rmw add x.a, 1", ["RMW.ADD"], LOOP),
        ("rmw xchg x.a, 1", ["RMW.XCHG"], ["LL", "SC", "BR.EQ"]),
        ("load x.wide", ["LOAD", "LOAD"], ["LOAD", "LOAD"]),
        ("load x.a x 3 dep", ["LOAD"] * 3, ["LOAD"] * 3),
        ("store x.a = 1", ["STORE"], ["STORE"]),
        ("work 7", ["WORK7"], ["WORK7"]),
        ("work 0", [], []),
        ("pause low", ["PAUSE"], ["PAUSE"]),
    ],
)
def test_sequence(statement: str, x86: list[str], power: list[str]) -> None:
    assert ops(compiled(statement, "x86", kernel="3.12")) == x86
    assert ops(compiled(statement, "power", kernel="3.12")) == power


@pytest.mark.parametrize(
    ("kernel", "before", "after"),
    [
        ("2.6.31", "LIGHT", "INSTR"),
        ("3.1", "LIGHT", "INSTR"),
        ("3.2", "LIGHT", "FULL"),
        ("4.3", "LIGHT", "FULL"),
        ("4.4", "FULL", "FULL"),
    ],
)
def test_power_barriers_follow_the_kernel(kernel: str, before: str, after: str) -> None:
    words = ops(compiled("atomic_dec_return x.a", "power", kernel=kernel))
    assert (words[0], words[-1]) == (f"FENCE.{before}", f"FENCE.{after}")


def test_llsc_loop_in_detail() -> None:
    w = compiled("atomic_add x.b, 5", "power")
    ll, add, sc, br = w.uops[2:6]
    assert ll["base"] == sc["base"] == w.objects[0].base + 4
    assert ll["size"] == sc["size"] == 4
    assert (add["a"], add["imm"], add["dst"]) == (ll["dst"], 5, sc["b"])
    assert sc["imm"] == 0
    assert (br["a"], br["imm"], br["target"]) == (sc["dst"], 0, 2)
    assert not br["flags"] & Flag.PRED_TAKEN, "the retry is predicted not to happen"
    assert len({int(ll["dst"]), int(add["dst"]), int(sc["dst"])}) == 3
    assert {w.prim_names[u["prim"]] for u in w.uops[2:6]} == {"atomic_add"}
    assert {w.fields[u["field"]].field for u in (ll, sc)} == {"b"}
    assert add["field"] == br["field"] == -1


def test_x86_atomic_in_detail() -> None:
    w = compiled("atomic_sub x.b, 5", "x86")
    rmw = w.uops[2]
    assert (rmw["imm"], rmw["b"], rmw["dst"], rmw["size"], rmw["base"]) == (5, -1, -1, 4, w.objects[0].base + 4)


def test_prim_only_on_atomics_func_everywhere() -> None:
    w = compiled("work 1\ncall f", "power", extra="function f\n    load x.c\n    atomic_inc x.a\n    read_lock x.b\n")
    prims = {w.func_names[u["func"]]: set() for u in w.uops}
    for u in w.uops:
        prims[w.func_names[u["func"]]].add(int(u["prim"]))
    assert prims == {"p": {-1}, "f": {-1, 0}, "read_lock": {-1}}
    assert w.prim_names == ["atomic_inc"]
    assert [w.func_names[u["func"]] for u in w.uops if u["op"] == Op.ENTER] == ["p", "f", "read_lock"]


def test_inline_attributes_to_the_caller() -> None:
    w = compiled("call f", "power", extra="function f\n    inline read_lock(x.b)\n    inline g\nfunction g\n    work 3\n")
    assert {w.func_names[u["func"]] for u in w.uops} == {"p", "f"}
    assert sum(u["op"] == Op.ENTER for u in w.uops) == 2


def test_library_lines_are_those_of_the_call() -> None:
    w = compiled("work 1\nread_lock x.a", "x86")
    call = HEADER.count("\n") + 3
    assert {int(u["line_no"]) for u in w.uops if w.func_names[u["func"]] == "read_lock"} == {call}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("body", "memory", "result"),
    [
        ("r = atomic_inc_return x.a", 8, 8),
        ("r = atomic_dec_return x.a", 6, 6),
        ("r = atomic_add_return x.a, 10", 17, 17),
        ("r = atomic_sub_return x.a, 3", 4, 4),
        ("r = atomic_dec_and_test x.a", 6, 0),
        ("store x.a = 1\nr = atomic_dec_and_test x.a", 0, 1),
        ("store x.a = 0\nr = atomic_dec_and_test x.a", 0xFFFFFFFF, 0),
        ("r = cmpxchg x.a, 7, 9", 9, 7),
        ("r = cmpxchg x.a, 8, 9", 7, 7),
        ("store x.a = -1\nr = cmpxchg x.a, -1, 9", 9, 0xFFFFFFFF),
        ("r = xchg x.a, 9", 9, 7),
        ("r = rmw and x.a, 6", 6, 7),
        ("r = rmw xor x.a, 1", 6, 7),
        ("r = rmw cas x.a, 7, 1", 1, 7),
        ("r = 5\natomic_add x.a, r", 12, 5),
        ("r = test_and_clear_bit x.a, 1", 5, 2),
        ("r = test_and_set_bit x.a, 3", 15, 0),
        ("set_bit x.a, 4\nr = 1", 23, 1),
        ("clear_bit x.a, 0\nr = 1", 6, 1),
        ("r = 3\nr = r << 4\nr = r - 1\nr = r & 0x2e\nr = r ^ 1\nr = r | 0x40\nr = r >> 1", 7, 0x37),
        ("r = 0\nrepeat 5\n    r = r + 3", 7, 15),
        ("n = 3\nr = 50 - n", 7, 47),
        ("n = 3\nr = 1\nif 2 < n goto done\nr = 2\nlabel done", 7, 1),
        ("r = 0\nunroll 4\n    r = r + 3", 7, 12),
        ("r = 0\nn = 4\nwhile n > 0\n    r = r + n\n    n = n - 1", 7, 10),
        ("r = 0\nn = 0\nwhile n != 0\n    r = 1", 7, 0),
        ("n = 3\nif n == 3\n    r = 1\nelse\n    r = 2", 7, 1),
        ("n = 4\nif n == 3\n    r = 1\nelse\n    r = 2", 7, 2),
        ("n = 4\nr = 1\nif n <= 4 goto done\nr = 2\nlabel done", 7, 1),
        ("n = -1\nr = 1\nif n < 0 goto done\nr = 2\nlabel done", 7, 1),
        ("n = 6\nm = 6\nr = 1\nif n > m\n    r = 2", 7, 1),
        ("n = 6\nr = 1\nif not n & 1\n    r = 2", 7, 2),
        ("p = addr x.a\nr = load [p]:4", 7, 7),
        ("p = addr x\nr = load p->line.a", 7, 7),
        ("i = 4\nstore x+4:4 = 77\nr = load x.a+i:4", 7, 77),
        ("r = load x+0:1", 7, 7),
        ("r = double x.a", 7, 14),
        ("r = 1\nr = sum r, 41", 7, 42),
        ("r = sum 40, 1", 7, 41),
        ("r = sign x.c", 7, 1),
    ],
)
def test_values(body: str, memory: int, result: int, isa: str) -> None:
    functions = """function double(a)
    v = load a
    v = v + v
    return v
function sum(n, m)
    s = n + m
    return s
function sign(a)
    v = load a
    if v < 0
        return 2
    return 1
"""
    w = compiled("store x.a = 7\n" + body + "\nstore out.c = r", isa, extra=functions)
    m = Interpreter(w)
    m.run(1)
    assert m.word("x", 0, 4) == memory
    assert m.word("out", 8, 8) == result
    assert DryRun(w, 0).iterations(1) is not None


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("start", [1, 2, 0, 1 << 63, (1 << 63) + 1])
def test_dec_and_test_of_eight_bytes(start: int, isa: str) -> None:
    w = compiled("r = atomic_dec_and_test x.c\nstore out.c = r", isa)
    m = Interpreter(w)
    m.write(w.objects[0].base + 8, 8, start, -1)
    m.run(1)
    assert m.word("out", 8, 8) == (1 if start == 1 else 0)


@pytest.mark.parametrize("isa", ISAS)
def test_atomics_of_many_cpus_lose_nothing(isa: str) -> None:
    w = compiled("atomic_inc x.a\nr = atomic_add_return x.c, 2\natomic_dec_return x.b", isa, cpus=4)
    for seed in range(5):
        m = Interpreter(w)
        m.run(20, seed=seed)
        assert m.word("x", 0, 4) == 80
        assert m.word("x", 8, 8) == 160
        assert m.word("x", 4, 4) == (1 << 32) - 80


def test_comparison_costs_an_instruction_on_power_only_where_no_flags_are_set() -> None:
    assert ops(compiled("r = load x.a\nif r == 0 goto e\nlabel e", "power")) == ["LOAD", "WORK1", "BR.EQ"]
    assert ops(compiled("r = load x.a\nif r == 0 goto e\nlabel e", "x86")) == ["LOAD", "BR.EQ"]
    assert ops(compiled("r = load x.a\nr = r - 1\nif r == 0 goto e\nlabel e", "power")) == ["LOAD", "ALU.SUB", "BR.EQ"]
    assert ops(compiled("r = load x.a\nr = r - 1\nif r == 4 goto e\nlabel e", "power")) == ["LOAD", "ALU.SUB", "WORK1", "BR.EQ"]
    assert ops(compiled("r = load x.a\nr = r - 1\nlabel t\nif r == 0 goto t", "power")) == ["LOAD", "ALU.SUB", "WORK1", "BR.EQ"]


def test_branch_prediction() -> None:
    def taken(body: str) -> list[bool]:
        return [bool(u["flags"] & Flag.PRED_TAKEN) for u in compiled(body, "x86").uops[2:-2] if u["op"] == Op.BR]

    assert taken("r = 1\nif r == 0 goto e\nlabel e") == [False]
    assert taken("r = 1\nif r == 0 goto e likely\nlabel e") == [True]
    assert taken("r = 1\nif r == 0\n    work 1") == [False]
    assert taken("r = 1\nif r == 0 unlikely\n    work 1") == [True]
    assert taken("r = 1\nwhile r != 0\n    r = 0") == [False, True]
    assert taken("repeat 3\n    work 1") == [True]


def test_spin_covers_the_loop_and_nothing_else() -> None:
    w = compiled("r = load x.a\nspin while r != 0\n    pause\n    r = load x.a\nwork 1", "x86")
    assert [(Op(int(u["op"])).name, bool(u["flags"] & Flag.SPIN)) for u in w.uops[2:-2]] == [
        ("LOAD", False), ("BR", False), ("PAUSE", True), ("LOAD", True), ("BR", True), ("WORK", False),
    ]  # fmt: skip


def test_program_shape() -> None:
    w = compiled("work 1", "x86", cpus=3)
    assert [Op(int(u["op"])).name for u in w.uops] == ["PACKET", "ENTER", "WORK", "DONE", "BR"]
    assert (w.uops[4]["fn"], w.uops[4]["target"]) == (Cond.ALWAYS, 0)
    assert w.entry.tolist() == [0, 0, 0]


def test_dependence() -> None:
    w = compiled("load x.a\nload x.b dep\np = load x.c\nload [p]:8\nload [p+8]:4", "x86")
    assert [bool(u["flags"] & Flag.DEP) for u in w.uops if u["op"] == Op.LOAD] == [False, True, False, False, False]
    pointer, _, last = [u for u in w.uops if u["op"] == Op.LOAD][-3:]
    assert last["areg"] == pointer["dst"]  # the register carries the dependence: a load through another pointer does not wait
    assert (last["base"], last["slot"], last["size"]) == (8, Slot.NONE, 4)
    assert last["areg"] >= 0


def test_work_spreads_its_accesses() -> None:
    w = compiled("work 20 loads 4 stores 2 in mine", "x86")
    body = w.uops[2:-2]
    assert sum(int(u["imm"]) if u["op"] == Op.WORK else 1 for u in body) == 20
    names = [Op(int(u["op"])).name for u in body if u["op"] != Op.WORK]
    assert sorted(names) == ["LOAD"] * 4 + ["STORE"] * 2
    assert names != sorted(names), "loads and stores are mixed"
    assert max(int(u["imm"]) for u in body if u["op"] == Op.WORK) == 2, "no lump of work"
    offsets = [int(u["base"]) - w.objects[2].base for u in body if u["op"] != Op.WORK]
    assert all(b == (a + 8) % 64 for a, b in zip(offsets, offsets[1:], strict=False))
    assert {int(u["slot"]) for u in body if u["op"] != Op.WORK} == {Slot.CPU}


def test_work_starts_elsewhere_in_each_function_and_again_in_each_call() -> None:
    extra = "".join(f"function f{i}\n    work 1 loads 1 in mine\n" for i in range(6))
    w = compiled("\n".join(f"call f{i}" for i in range(6)) + "\ncall f0", "x86", extra=extra)
    bases = [int(u["base"]) for u in w.uops if u["op"] == Op.LOAD]
    assert len(set(bases)) > 2
    assert bases[0] == bases[-1]


def test_work_in_two_ranges_and_in_a_field() -> None:
    w = compiled("work 9 loads 3 in mine.wide stores 2 in x+32:16", "x86")
    loads = {int(u["base"]) - w.objects[2].base for u in w.uops if u["op"] == Op.LOAD}
    stores = {int(u["base"]) - w.objects[0].base for u in w.uops if u["op"] == Op.STORE}
    assert loads <= {16, 24}
    assert stores == {32, 40}


def test_value_computed_for_a_store_is_an_instruction() -> None:
    assert ops(compiled("r = 1\nstore x.a = r + 1", "x86")) == ["ALU.XCHG", "ALU.ADD", "STORE"]


def test_registers_are_reused_between_calls() -> None:
    many = "".join(f"function f{i}\n    a = 1\n    b = 2\n    c = a + b\n    store x.c = c\n" for i in range(20))
    w = compiled("\n".join(f"call f{i}" for i in range(20)), "x86", extra=many)
    assert max(int(u["dst"]) for u in w.uops) < 4


def test_too_many_registers() -> None:
    with pytest.raises(WorkloadError, match="more than 32 registers"):
        compiled("\n".join([f"r{i} = {i}" for i in range(33)] + [f"store x.a = r{i}" for i in range(33)]), "x86")
    assert compiled("\n".join([f"r{i} = {i}" for i in range(32)] + [f"store x.a = r{i}" for i in range(32)]), "x86")


def test_ll_sc_in_the_language() -> None:
    body = "label again\nv = ll x.a\nv = v + 1\nok = sc x.a = v\nif ok == 0 goto again"
    w = compiled(body, "power", cpus=3)
    assert ops(w) == ["LL", "ALU.ADD", "SC", "BR.EQ"]
    m = Interpreter(w)
    m.run(20, seed=3)
    assert m.word("x", 0, 4) == 60
    with pytest.raises(WorkloadError, match="x86 has no load-linked"):
        compiled(body, "x86")


def test_finite_and_different_programs() -> None:
    text = (
        HEADER
        + "path p\n    store x.a = 5\npath q\n    load x.a\nrun\n    cpu 0 runs p once\n    cpu 1..2 runs q\n    cpu 3.. idle\n"
    )
    w = compile_text(text, "t.trace", isa="x86", cpus=5).workload
    assert w.entry[1] == w.entry[2] and w.entry[3] == w.entry[4] and len(set(w.entry.tolist())) == 3
    m = Interpreter(w)
    m.run(2)
    assert m.halted == [True, False, False, True, True]
    assert m.iterations == [0, 2, 2, 0, 0]
