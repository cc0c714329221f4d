"""Placement: real addresses, no accidental sharing, layout options, initial memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohsim.errors import WorkloadError
from cohsim.uops import Op, Slot
from cohsim.workload.compiled import CompiledWorkload, PlacedObject
from cohsim.workload.layout import LINE_BYTES
from cohsim.workload.load import compile_text

HEADER = "cohsim-trace 1\nstruct s size 100\n    a 0 4\n    b 4 4\n    c 96 4\nstruct word size 8\n    w 0 8\n"
RUN = "path p\n    work 1\nrun\n    loop p\n"
PACKETS = "path p\n    work 1\nrun\n    source 1Mpps frame 64B pool 32 flows 3\n    on packet p\n"


def placed(objects: str, run: str = RUN, *, cpus: int = 4, layouts: tuple[str, ...] = ()) -> CompiledWorkload:
    return compile_text(HEADER + objects + "\n" + run, "t.trace", isa="x86", cpus=cpus, layouts=layouts).workload


def one(w: CompiledWorkload, name: str) -> PlacedObject:
    return next(o for o in w.objects if o.name == name)


def lines_of(o: PlacedObject) -> set[int]:
    starts = [o.base + i * o.stride_bytes for i in range(o.instances)]
    return {line for a in starts for line in range(a // LINE_BYTES, (a + o.size_bytes - 1) // LINE_BYTES + 1)}


def test_scopes_and_instances() -> None:
    w = placed("object a s shared\nobject b s per-cpu\nobject c s per-packet\nobject d s per-flow\nobject e s per-queue", PACKETS)
    assert [(o.name, o.instances) for o in w.objects] == [("a", 1), ("b", 4), ("c", 32), ("d", 3), ("e", 4)]
    assert one(w, "a").stride_bytes == 0
    assert one(w, "b").stride_bytes == 3 * 64            # 100 bytes are two lines; per-CPU strides are an odd number of lines
    assert one(w, "c").stride_bytes == 2 * 64
    assert all(o.base % 64 == 0 for o in w.objects)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["shared", "per-cpu", "per-packet", "per-flow", "per-queue"]), st.integers(1, 300),
                          st.sampled_from(["", "offset 32", "offset 8", "align 128", "align 16", "align 4096 offset 4"])),
                min_size=1, max_size=8), st.integers(1, 9))  # fmt: skip
def test_no_two_instances_share_a_line(objects: list[tuple[str, int, str]], cpus: int) -> None:
    text = "\n".join(f"object o{i} bytes {size} {scope} {options}" for i, (scope, size, options) in enumerate(objects))
    w = placed(text, PACKETS, cpus=cpus)
    owner: dict[int, tuple[str, int]] = {}
    for o in w.objects:
        for i in range(o.instances):
            start = o.base + i * o.stride_bytes
            for line in range(start // LINE_BYTES, (start + o.size_bytes - 1) // LINE_BYTES + 1):
                assert owner.setdefault(line, (o.name, i)) == (o.name, i)


def test_offset_and_align() -> None:
    w = placed("object a s shared offset 32\nobject b s shared align 256\nobject c s shared align 256 offset 96")
    assert one(w, "a").base % 64 == 32
    assert one(w, "b").base % 256 == 0
    assert one(w, "c").base % 256 == 96


def test_at_is_the_only_way_to_share_a_line() -> None:
    w = placed("object a word shared\nobject b word shared at a+8\nobject c word shared at b+8\nobject d word shared")
    assert [one(w, n).base - one(w, "a").base for n in "bc"] == [8, 16]
    assert len({o.base // 64 for o in w.objects}) == 2
    per_cpu = placed("object a s per-cpu\nobject b s per-cpu at a+104")
    assert one(per_cpu, "b").base == one(per_cpu, "a").base + 104
    assert one(per_cpu, "b").stride_bytes == one(per_cpu, "a").stride_bytes >= 204
    assert not lines_of(one(per_cpu, "b")) & {line + 3 for line in lines_of(one(per_cpu, "b"))} - lines_of(one(per_cpu, "b"))


def test_declaration_order_of_at_does_not_matter() -> None:
    w = placed("object b word shared at a+8\nobject a word shared")
    assert one(w, "b").base == one(w, "a").base + 8


@pytest.mark.parametrize("size", [8, 64, 100, 128, 512, 4096])
def test_per_cpu_instances_spread_over_sets(size: int) -> None:
    """24 CPUs under one cache of 64 sets: their first lines fall into 24 sets."""
    o = one(placed(f"object a bytes {size} per-cpu", cpus=24), "a")
    assert len({(o.base + i * o.stride_bytes) // 64 % 64 for i in range(24)}) == 24


def test_explicit_stride() -> None:
    assert one(placed("object a s per-packet stride 2048", PACKETS), "a").stride_bytes == 2048


def test_addresses_do_not_depend_on_cpus_or_later_objects() -> None:
    text = "object a s shared\nobject b s per-cpu"
    few, many = placed(text, cpus=2), placed(text + "\nobject c s shared", cpus=24)
    assert [one(few, n).base for n in "ab"] == [one(many, n).base for n in "ab"]


def test_library_objects_do_not_move_the_files_own() -> None:
    text = HEADER + "object a word shared\nobject m word per-cpu\npath p\n    spin_lock a.w+0:4\nrun\n    loop p\n"
    x86, power = (compile_text(text, "t.trace", isa=isa, cpus=2).workload for isa in ("x86", "power"))
    assert [o.name for o in x86.objects] == ["a", "m"]
    assert [o.name for o in power.objects] == ["a", "m", "this_cpu"]
    assert one(x86, "m") == one(power, "m")


# ---- layout options
ACCESS = "object x s shared\npath p\n    load x.a\n    load x.b\nrun\n    loop p\n"


def offsets(layouts: tuple[str, ...], objects: str = ACCESS) -> list[int]:
    w = compile_text(HEADER + objects, "t.trace", isa="x86", cpus=2, layouts=layouts).workload
    return [int(u["base"]) - one(w, "x").base for u in w.uops if u["op"] == Op.LOAD]


def test_move_a_field() -> None:
    assert offsets(()) == [0, 4]
    assert offsets(("s.b@64",)) == [0, 64]
    assert offsets(("s.b@0x40", "s.a@72")) == [72, 64]
    w = compile_text(HEADER + ACCESS, "t.trace", isa="x86", cpus=2, layouts=("s.b@200",)).workload
    assert one(w, "x").size_bytes == 208


def test_own_line() -> None:
    a, b = offsets(("s.b:own-line",))
    assert (a, b) == (0, 128)
    shifted = ACCESS.replace("object x s shared", "object x s shared offset 32")
    w = compile_text(HEADER + shifted, "t.trace", isa="x86", cpus=2, layouts=("s.b:own-line",)).workload
    address = [int(u["base"]) for u in w.uops if u["op"] == Op.LOAD][1]
    assert address % 64 == 0
    assert (one(w, "x").base + 99) // 64 < address // 64, "on no line of the other fields"


def test_pad_and_per_cpu_options() -> None:
    text = "object a word shared\nobject x s shared at a+8"
    assert one(placed(text), "x").base == one(placed(text), "a").base + 8
    assert lines_of(one(placed(text, layouts=("x:pad",)), "x")).isdisjoint(lines_of(one(placed(text, layouts=("x:pad",)), "a")))
    assert one(placed("object x s shared offset 32", layouts=("x:pad",)), "x").base % 64 == 0
    w = compile_text(HEADER + ACCESS, "t.trace", isa="x86", cpus=3, layouts=("x:per-cpu",)).workload
    assert (one(w, "x").scope, one(w, "x").instances) == ("per-cpu", 3)
    assert {int(u["slot"]) for u in w.uops if u["op"] == Op.LOAD} == {Slot.CPU}


def test_layout_lines_in_a_variant() -> None:
    text = HEADER + ACCESS.replace("path", "variant split\n    layout s.b@64\npath")
    for variants, expected in (((), 4), (("split",), 64)):
        w = compile_text(text, "t.trace", isa="x86", cpus=1, variants=variants).workload
        assert int(w.uops[3]["base"]) - one(w, "x").base == expected


def test_union_members_may_overlap() -> None:
    text = HEADER.replace("    c 96 4\n", "    c 96 4\n    u 0 8 overlaps\n")
    assert compile_text(text + ACCESS, "t.trace", isa="x86", cpus=1)


def test_atomic_across_lines_is_refused() -> None:
    text = HEADER + "object x s shared offset 62\npath p\n    atomic_inc x.a\nrun\n    loop p\n"
    with pytest.raises(WorkloadError, match="4 bytes at x\\+0 cross a cache line"):
        compile_text(text, "t.trace", isa="x86", cpus=1)


def test_fields_table() -> None:
    path = "path p\n    load x.a\n    load x.a\n    load x+8:8\n    store x.c\nrun\n    loop p\n"
    w = placed("object x s shared", path, cpus=1)
    fields = [(f.object, f.field, f.offset_bytes, f.size_bytes) for f in w.fields]
    assert fields == [("x", "a", 0, 4), ("x", "", 8, 8), ("x", "c", 96, 4)]
    assert [int(u["field"]) for u in w.uops if u["op"] in (Op.LOAD, Op.STORE)] == [0, 0, 1, 2]


# ---- initial memory
def test_initial_values() -> None:
    text = "object q s shared\nobject x s per-cpu init a=5 b=0x10+cpu c=cpu\nobject y word per-cpu init w=addr x.c\n"
    w = placed(text + "object z word shared init w=addr q")
    x, y, z = (one(w, n) for n in "xyz")
    memory = {address: (size, value) for address, size, value in w.memory}
    for cpu in range(4):
        start = x.base + cpu * x.stride_bytes
        assert (memory[start], memory[start + 4], memory[start + 96]) == ((4, 5), (4, 16 + cpu), (4, cpu))
        assert memory[y.base + cpu * y.stride_bytes] == (8, start + 96)
    assert memory[z.base] == (8, one(w, "q").base)


def test_lock_words_start_unlocked_by_themselves() -> None:
    text = HEADER + "object x s per-cpu{init}\npath p\n    read_lock x.b\n    read_unlock x.b\nrun\n    loop p\n"
    for isa, init, expected in (("x86", "", 0x01000000), ("power", "", None), ("x86", " init b=0x00ffffff", 0x00FFFFFF)):
        w = compile_text(text.format(init=init), "t.trace", isa=isa, cpus=2).workload
        x = one(w, "x")
        values = {address: value for address, _, value in w.memory}
        assert [values.get(x.base + cpu * x.stride_bytes + 4) for cpu in (0, 1)] == [expected] * 2


def test_chain_is_one_cycle_through_every_step() -> None:
    w = placed("object ring bytes 4096 per-cpu chain 128", cpus=2)
    ring = one(w, "ring")
    links = {address: value for address, _, value in w.memory}
    for cpu in range(2):
        start = at = ring.base + cpu * ring.stride_bytes
        seen = []
        for _ in range(4096 // 128):
            seen.append(at)
            at = links[at]
        assert at == start
        assert sorted(seen) == [start + i * 128 for i in range(32)]
        assert seen != sorted(seen), "not in order"
    assert links == {a: v for a, _, v in placed("object ring bytes 4096 per-cpu chain 128", cpus=2).memory}, "reproducible"


def test_pool_must_fit_the_source() -> None:
    with pytest.raises(WorkloadError, match="a pool of 16, the source hands out 32"):
        placed("object a s per-packet pool 16", PACKETS)
    assert one(placed("object a s per-packet pool 64", PACKETS), "a").instances == 64
