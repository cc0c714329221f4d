"""What deeply inlined kernel code needs: pointers through calls, arrays, products, loops, registers by live range. Values are run, not read."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from workload_interpreter import Interpreter

from cohsim.errors import WorkloadError
from cohsim.uops import REGISTERS, Op
from cohsim.workload import registers
from cohsim.workload.compiled import CompiledWorkload
from cohsim.workload.load import compile_text

HEAD = """cohsim-trace 1
struct item size 96
    next 0 8
    half 8 2
    byte 10 1
    mac 12 6
    deep.lock 24 8
    deep.count 32 4
object out bytes 512 shared
object one item shared init next=0x1122334455667788 half=0xbeef byte=0x7f
object items item shared at one+128
object array bytes 960 per-cpu
object local item per-cpu
object pool item per-packet pool 5
object seen item per-flow
"""
ISAS = ("x86", "power")


def compiled(body: str, extra: str = "", *, isa: str = "x86", cpus: int = 2) -> CompiledWorkload:
    path = "path p\n" + "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return compile_text(HEAD + extra + path + "run\n    cpu 0.. runs p once\n", "t.trace", isa=isa, cpus=cpus).workload


def results(body: str, extra: str = "", count: int = 1) -> list[int]:
    """First words of ``out`` after one CPU has run the body once, checked to agree on both instruction sets."""
    found = []
    for isa in ISAS:
        m = Interpreter(compiled(body, extra, isa=isa, cpus=1))
        m.run(1)
        found.append([m.word("out", 8 * i) for i in range(count)])
    assert found[0] == found[1]
    return found[0]


def address(w: CompiledWorkload, name: str, instance: int = 0) -> int:
    item = next(o for o in w.objects if o.name == name)
    return item.base + instance * item.stride_bytes


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("a * 96", 7 * 96),
        ("a * 64", 7 * 64),
        ("b + a * 96", 3 + 7 * 96),
        ("a * 96 + b", 7 * 96 + 3),
        ("a + b * c - a * 2", 7 + 3 * 5 - 14),
        ("a * b * c", 105),
        ("a * 2 * b * 3", 7 * 3 * 6),
        ("sizeof item * a", 96 * 7),
        ("sizeof array", 960),
        ("64 - a", 57),
        ("a - b * -1", 10),
        ("a & b + c", (7 & 3) + 5),  # no precedence but that of *
        ("a << b + 1", (7 << 3) + 1),
        ("a & 0xffffffffffffffff", 7),
    ],
)
def test_products(value: str, wanted: int) -> None:
    assert results(f"a = 7\nb = 3\nc = 5\nr = {value}\nstore out+0:8 = r\nstore out+8:8 = {value}", count=2) == [wanted] * 2


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("5 - r", 2), ("a - r", 8), ("a + b + r", 17), ("a - b - r", 5), ("r - r * r", 3 - 9), ("b * a * r", 99), ("r * r * r", 27), ("7 + a - r", 15)],
)
def test_the_target_may_stand_anywhere(value: str, wanted: int) -> None:
    assert results(f"r = 3\na = 11\nb = 3\nr = {value}\nstore out+0:8 = r") == [wanted & (1 << 64) - 1]


def test_a_product_is_one_instruction_and_a_power_of_two_a_shift() -> None:
    ops = [(int(u["op"]), int(u["fn"]), int(u["imm"])) for u in compiled("a = 7\nr = a * 96\nr = a * 128").uops[2:4]]
    assert ops == [(Op.ALU, 9, 96), (Op.ALU, 7, 7)]


def test_fields_through_pointers_and_their_addresses() -> None:
    body = """
p = addr one
q = addr p->item.deep.count
store q->item.next = 1
a = load p->item.half
b = load p->item.byte
store out+0:8 = a
store out+8:8 = b
store p->item.byte = 0x1ff
b = load p->item.byte
c = load p->item.next+2:1
store out+16:8 = b
store out+24:8 = c
d = load [q]:8
store out+32:8 = d
store p->item.mac
"""
    assert results(body, count=5) == [0xBEEF, 0x7F, 0xFF, 0x66, 1]
    w = compiled(body)
    last = [(int(u["base"]), int(u["size"])) for u in w.uops if u["op"] == Op.STORE][-2:]
    assert last == [(12, 4), (16, 2)]


def test_a_value_is_one_access_inside_eight_bytes() -> None:
    """An IPv4 address at byte 26 of a frame: not aligned to 4, but within one word."""
    body = "p = addr out\nstore out+26:4 = 0x11223344\na = load p->packet.source\nstore p->packet.source = a + 1\n"
    body += "b = load out+26:4\nstore out+0:8 = a\nstore out+8:8 = b"
    assert results(body, "struct packet size 64\n    source 26 4\n", count=2) == [0x11223344, 0x11223345]
    for line in ("a = load out+30:4", "store out+30:4 = 0", "xchg out+30:4, 1"):
        with pytest.raises(WorkloadError, match=r"4 bytes at out\+30 crosses an 8-byte boundary"):
            compiled(line)
    assert [(int(u["size"])) for u in compiled("load out+30:4\nstore out+30:4").uops[1:5]] == [2, 2, 2, 2]


def test_pointers_pass_through_levels() -> None:
    extra = """function outer(p)
    call middle(p, p->item.deep.lock)
function middle(p, lock)
    spin_lock lock
    inline inner(p->item, p)
    spin_unlock lock
function inner(whole, p)
    n = load whole.deep.count
    store p->item.deep.count = n + 1
    store whole.half = n
"""
    for isa in ISAS:
        w = compiled("q = addr one\ncall outer(q)\nrepeat 3\n    call outer(q)", extra, isa=isa)
        m = Interpreter(w)
        m.run(1, seed=3)
        assert m.word("one", 32, 4) == 8 and m.word("one", 8, 2) == 7


def test_indexed_addresses() -> None:
    body = """
i = 3
a = addr array[i * sizeof item]
store out+0:8 = a
a = addr items[i * 24]
store out+8:8 = a
a = addr pool[i]
store out+16:8 = a
a = addr local[j]
store out+24:8 = a
a = addr one[i * 8]
store out+32:8 = a
p = addr one
store out+40:8 = p
i = addr pool[i]
store out+48:8 = i
a = call element(p->item.deep.lock)
store out+56:8 = a
a = call element(one.deep.lock)
store out+64:8 = a
"""
    body = "j = 1\n" + body.strip("\n")
    extra = "function element(e)\n    k = 2\n    r = addr e[k * 4]\n    return r\n"
    w = compiled(body, extra, cpus=2)
    m = Interpreter(w)
    m.run(1)  # CPU 1 is last
    one = address(w, "one")
    assert [m.word("out", 8 * i) for i in range(9)] == [
        address(w, "array", 1) + 3 * 96, address(w, "items") + 72, address(w, "pool", 3), address(w, "local", 1),
        one + 24, one, address(w, "pool", 3), one + 24 + 8, one + 24 + 8,
    ]  # fmt: skip


def test_else_if_chain() -> None:
    chain = """
if x == 1
    r = 10
else if x == 2 unlikely
    r = 20
else if x == 3
    r = 30
else
    r = 40
"""
    body = "\n".join(f"x = {x}{chain}store out+{8 * i}:8 = r" for i, x in enumerate((1, 2, 3, 4)))
    assert results(body, count=4) == [10, 20, 30, 40]


def test_break_and_continue_in_every_loop() -> None:
    body = """
n = 0
sum = 0
while n < 10
    n = n + 1
    if n == 3
        continue
    if n & 8
        break
    sum = sum + n
store out+0:8 = sum
n = 0
forever
    n = n + 1
    if n < 5
        continue
    if n == 7
        n = n + 100
        break
store out+8:8 = n
n = 0
repeat 6
    if n == 4
        break
    n = n + 1
    repeat 2
        break
    if n < 100
        continue
    n = 1000
store out+16:8 = n
n = 0
unroll 4
    n = n + 1
    if n == 2
        continue
    if n == 3
        break
    n = n + 10
store out+24:8 = n
"""
    # while: 1+2+4+5+6+7 = 25; unroll: 1+10 = 11, 12+10, 23+10, 34+10
    assert results(body, count=4) == [25, 107, 4, 44]


def test_return_out_of_nested_loops_and_ten_levels_of_blocks() -> None:
    extra = "function find(limit)\n    n = 0\n"
    for depth in range(1, 11):
        extra += "    " * depth + ("forever\n" if depth % 3 == 0 else "repeat 3\n" if depth % 3 == 1 else "while n < 1000\n")
    extra += "    " * 11 + "n = n + 1\n" + "    " * 11 + "if n == limit\n" + "    " * 12 + "return n\n    return 0\n"
    assert results("r = call find(777)\nstore out+0:8 = r", extra) == [777]


@pytest.mark.parametrize(
    ("relation", "wanted"), [("<", 1), ("<u", 0), (">", 0), (">u", 1), ("<=", 1), ("<=u", 0), (">=", 0), (">=u", 1)]
)
def test_unsigned_comparisons(relation: str, wanted: int) -> None:
    body = "a = 0 - 1\nb = 1\nr = 0\nif a {0} b\n    r = 1\nstore out+0:8 = r\nr = 0\nif a {0} 1\n    r = 1\nstore out+8:8 = r"
    assert results(body.format(relation), count=2) == [wanted, wanted]
    equal = int("=" in relation)
    assert results(body.replace("0 - 1", "1").format(relation), count=2) == [equal, equal]


def test_a_symbol_for_two_definitions() -> None:
    extra = """function xmit(p)
    work 10
    call real_xmit(p)
function real_xmit as xmit(p)
    load p->item.next
"""
    w = compiled("p = addr one\ncall xmit(p)", extra)
    assert w.func_names == ["p", "xmit"]
    assert [w.func_names[u["func"]] for u in w.uops if u["op"] in (Op.ENTER, Op.LOAD)] == ["p", "xmit", "xmit", "xmit"]


def test_new_words_are_still_names() -> None:
    body = "count = 1\nwait = 2\ndrop = count + wait\nbreak = drop\nforever = break * 3\n"
    body += "mmio = forever\nipi = mmio\nprefetch = ipi\nstore out+0:8 = prefetch"
    assert results(body) == [9]


# ---- registers by live range ------------------------------------------------------------------------------------------------


def deep_program(rng: random.Random, levels: int) -> tuple[str, str]:
    """Functions that call each other ``levels`` deep; each has more names than it needs later."""
    functions = []
    for level in range(levels):
        names = [f"v{i}" for i in range(4)]
        lines = [f"function f{level}(p, x)"] + [f"    {n} = load out+{8 * rng.randrange(8)}:8" for n in names]
        lines += ["    n = 0", f"    while n < {rng.randint(1, 2)}", "        n = n + 1"]
        lines += [f"        {rng.choice(names)} = {rng.choice(names)} {rng.choice('+-^*')} n"]
        lines += [f"        if {rng.choice(names)} & {1 << rng.randrange(5)}", "            early = n + 1"]
        lines += [f"            store out+{8 * rng.randrange(8)}:8 = early"]
        if rng.random() < 0.3:
            lines += ["            continue"]
        if level + 1 < levels:
            deep = "    " if level % 4 == 3 else ""  # the call is in the loop: all the names live on around it
            lines += [f"    {deep}r = call f{level + 1}(p, {rng.choice(['x', 'v1', '5'])})", f"    {deep}v0 = r {rng.choice('+^-')} v0"]
        kept = rng.choice(names) if level % 2 else "x"
        lines += [f"    if v0 == {rng.randrange(4)}", "        return 1"]
        lines += [f"    v0 = v0 + {kept}", f"    store p->item.next+{8 * rng.randrange(2)}:8 = v0", "    return v0"]
        functions.append("\n".join(lines) + "\n")
    return "p = addr one\nx = load p->item.half\nr = call f0(p, x)\nstore out+0:8 = r", "".join(functions)


@pytest.mark.parametrize("seed", range(6))
def test_sharing_registers_changes_no_value(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    body, extra = deep_program(random.Random(seed), 10)

    def memory(wanted: int) -> tuple[dict[int, int], int]:
        w = compiled(body, extra, isa=ISAS[seed % 2], cpus=1)
        highest = max(int(w.uops[name].max()) for name in ("dst", "a", "b", "areg"))
        m = Interpreter(w)
        m.registers = [[0xDEAD] * wanted]
        m.run(1)
        return m.memory, highest

    packed, highest = memory(REGISTERS)
    assert highest < REGISTERS
    monkeypatch.setattr(registers, "REGISTERS", 128)
    plain, names = memory(128)
    assert names >= REGISTERS  # it would not have fitted by scope
    assert packed == plain


def test_too_many_live_values_name_the_place() -> None:
    extra = "".join(
        f"function f{i}(p)\n    a = load out+0:8\n    b = load out+8:8\n    call f{i + 1}(p)\n    store out+0:8 = a + b\n" for i in range(17)
    )
    extra += "function f17(p)\n    work 1\n"
    with pytest.raises(WorkloadError, match=r"t\.trace:\d+:5: more than 32 registers are live here; load values again"):
        compiled("call f0(out+0:8)", extra)
    assert compiled("call f1(out+0:8)", extra.replace("function f0", "function g0"))


def test_endless_nesting_is_told() -> None:
    extra = "".join(f"function f{i}()\n    call f{i + 1}()\n" for i in range(150)) + "function f150()\n    work 1\n"
    with pytest.raises(WorkloadError, match="calls nested deeper than 100"):
        compiled("call f0()", extra)


# ---- include ------------------------------------------------------------------------------------------------------------------

LIBRARY = """cohsim-trace 1
title "not the workload's"
struct page size 64
    a 0 8
include "deeper.trace"
function slab(x)
    load x
"""
MAIN = """cohsim-trace 1
title "mine"
include "slab.trace"
include "deeper.trace"          # a second time: nothing
object o page shared
path p
    call slab(o.a)
    call deeper()
run
    loop p
"""


def write_files(folder: Path, **changed: str) -> Path:
    files = {"main": MAIN, "slab": LIBRARY, "deeper": "cohsim-trace 1\nfunction deeper()\n    work 3\n", **changed}
    for name, text in files.items():
        (folder / f"{name}.trace").write_text(text)
    return folder / "main.trace"


def compile_file(path: Path) -> CompiledWorkload:
    return compile_text(path.read_text(), str(path), isa="x86", cpus=1).workload


def test_include(tmp_path: Path) -> None:
    w = compile_file(write_files(tmp_path))
    assert w.func_names == ["p", "slab", "deeper"]
    assert [int(u["imm"]) for u in w.uops if u["op"] == Op.WORK] == [3]
    assert "function slab(x)" in w.text and w.text.count("function deeper()") == 1
    again = compile_text(w.text, "main.trace", isa="x86", cpus=1).workload  # the recorded text is a whole workload
    names = [n for n in w.uops.dtype.names or () if n != "line_no"]
    assert np.array_equal(again.uops[names], w.uops[names])
    assert compile_text(MAIN, str(tmp_path / "main.trace"), isa="x86", cpus=1).program.title == "mine"


def test_include_that_includes_each_other(tmp_path: Path) -> None:
    path = write_files(tmp_path, deeper='cohsim-trace 1\ninclude "main.trace"\nfunction deeper()\n    work 3\n')
    assert compile_file(path).func_names == ["p", "slab", "deeper"]


@pytest.mark.parametrize(
    ("changed", "where", "what"),
    [
        ({"slab": LIBRARY.replace("load x", "laod x")}, "slab.trace:7:5", "unknown statement or function 'laod'"),
        ({"slab": LIBRARY.replace("struct", "strut")}, "slab.trace:3:1", "did you mean 'struct'"),
        ({"slab": LIBRARY.replace("cohsim-trace 1", "trace")}, "slab.trace:1:1", "a workload file starts with"),
        ({"slab": LIBRARY + "function deeper()\n    work 1\n"}, "slab.trace:8:10", "function 'deeper' is defined twice"),
        ({"main": MAIN.replace("slab.trace", "slap.trace")}, "main.trace:3:9", "no file 'slap.trace' to include.*slab.trace"),
        ({"main": MAIN.replace("slab.trace", "")}, "main.trace:3:9", "no file '' to include"),
        ({"main": MAIN + 'variant v\n    include "deeper.trace"\n'}, "main.trace:12:13", "'include' inside a block"),
    ],
)
def test_wrong_includes(tmp_path: Path, changed: dict[str, str], where: str, what: str) -> None:
    with pytest.raises(WorkloadError, match=what) as caught:
        compile_file(write_files(tmp_path, **changed))
    assert any(str(p).startswith(str(tmp_path / where)) for p in caught.value.problems), str(caught.value)
