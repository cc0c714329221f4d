"""Which object and field a traced address belongs to."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from traces_building import BASE_PC, BASE_VA, pc_table, raw, write

from cohsim.errors import TraceError
from cohsim.traces import RecordedTrace, compile_recorded, load_recorded
from cohsim.traces.landmarks import LAYOUTS, RT6_INFO, find_objects
from cohsim.traces.objects import NamedRange, read_c2c, read_objects, write_objects
from cohsim.traces.records import Kind
from cohsim.traces.symbols import CODE_BLOCK_BYTES, LAST_SYMBOL_BYTES, SYMBOL_BYTES, SymbolTable, write_symbols

LOAD, STORE, RMW, LL, SC = Kind.LOAD, Kind.STORE, Kind.RMW, Kind.LL, Kind.SC


def check_disjoint(trace: RecordedTrace) -> None:
    """What every set of names must satisfy, whatever the sources were."""
    objects = sorted(trace.names.objects, key=lambda o: o.base)
    assert all(a.base + a.size_bytes <= b.base for a, b in zip(objects, objects[1:], strict=False))
    assert len({o.name for o in objects}) == len(objects)
    by_name = {o.name: o for o in objects}
    ends = []
    for ref, address in zip(trace.names.fields, trace.names.field_address.tolist(), strict=True):
        owner = by_name[ref.object]
        assert address == owner.base + ref.offset_bytes and ref.size_bytes > 0
        assert ref.offset_bytes + ref.size_bytes <= owner.size_bytes
        ends.append((address, address + ref.size_bytes))
    assert all(a[1] <= b[0] for a, b in zip(ends, ends[1:], strict=False))
    lines = np.unique(np.concatenate([s["address"][s["size"] > 0] for s in trace.streams]) // 64 * 64)
    assert sorted(trace.line_names) == lines.tolist()                  # every touched line has a name


def test_objects_file(tmp_path: Path) -> None:
    path = tmp_path / "t.objects"
    path.write_text("# names\n1000 128 route -   # all of it\n1040 4 route refcnt\n\n2000 64 runqueue[cpu3] -\n")
    assert read_objects(path) == [NamedRange(0x1000, 128, "route", ""), NamedRange(0x1040, 4, "route", "refcnt"),
                                  NamedRange(0x2000, 64, "runqueue[cpu3]", "", "per-cpu")]
    write_objects(path, read_objects(path), "written\nagain")
    assert len(read_objects(path)) == 3 and path.read_text().startswith("# written\n# again\n")


def test_every_wrong_line_of_an_objects_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.objects"
    path.write_text("1000 128 route -\nxyz 4 a b\n1000 four a b\n1000 0 a b\n1000 4 a\n-8 4 a b\n")
    with pytest.raises(TraceError) as caught:
        read_objects(path)
    assert [p.where for p in caught.value.problems] == [f"{path}:{n}" for n in (2, 3, 4, 5, 6)]
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TraceError, match="not a text file"):
        read_objects(path)
    with pytest.raises(TraceError, match="cannot read the file"):
        read_objects(tmp_path / "absent")


REPORT = """irq: records in interrupt context 5
LINE pa=1a00 acc 10 st 5 atomic 5 cpus 2 storers 2 xfer 3 inval 1
    +00 L400 S0 A801  slab:ip6_dst_cache@19c0+0x40 rt6_info.dst.__refcnt.counter   <- __dev_queue_xmit:800, dst_release:401
    +28 L4 S0 A0  slab:kmalloc-2k@1800+0x228 {rto_push_irq_work_func}   <- enqueue_task_fair:24
LINE pa=5000 acc 2 st 1 atomic 0 cpus 2 storers 1 xfer 3 inval 1
    +08 L2 S1 A0  percpu[0]:runqueues+0x48   <- schedule:3
    +10 L2 S1 A0  linear c000000000005010   <- schedule:3
LINE pa=7000 acc 2 st 1 atomic 0 cpus 2 storers 1 xfer 3 inval 1
    +08 L2 S1 A0  percpu[1]:runqueues+0x48   <- schedule:3
    +20 L2 S1 A0  percpu[1]:softnet+0x20   <- schedule:3
    +30 L2 S1 A0  data:jiffies+0x0   <- tick:1
"""


def test_c2c_report(tmp_path: Path) -> None:
    path = tmp_path / "t.c2c.txt"
    path.write_text(REPORT)
    found = {(r.address, r.object, r.field, r.scope) for r in read_c2c(path)}
    assert found == {
        (0x19C0, "rt6_info", "", "shared"), (0x1A00, "rt6_info", "dst.__refcnt", "shared"),
        (0x1800, "kmalloc-2k", "", "shared"), (0x1A28, "kmalloc-2k", "+0x228", "shared"),
        (0x4FC0, "runqueues[cpu0]", "", "per-cpu"), (0x5008, "runqueues[cpu0]", "+0x48", "per-cpu"),
        (0x6FC0, "runqueues[cpu1]", "", "per-cpu"), (0x7008, "runqueues[cpu1]", "+0x48", "per-cpu"),
        (0x7000, "softnet[cpu1]", "", "per-cpu"), (0x7020, "softnet[cpu1]", "+0x20", "per-cpu"),
        (0x5000, "softnet[cpu0]", "", "per-cpu"), (0x5020, "softnet[cpu0]", "+0x20", "per-cpu"),     # 0x2000 before CPU 1's
        (0x7030, "jiffies", "", "shared"), (0x7030, "jiffies", "+0x0", "shared")}


def test_two_objects_of_one_cache_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.c2c.txt"
    line = "LINE pa={0} acc 1\n    +00 L1 S0 A1  slab:ip6_dst_cache@{0}+0x0 rt6_info.dst.dev   <- f:1\n"
    path.write_text(line.format("1000") + line.format("2000"))
    assert {r.object for r in read_c2c(path)} == {"rt6_info@1000", "rt6_info@2000"}


def test_sources_in_order(tmp_path: Path) -> None:
    """The objects file wins over symbols, symbols over functions, functions over the page."""
    stream = raw((LOAD, 0x1000), (LOAD, 0x1040), (RMW, 0x3000, 1, 1), (LOAD, 0x4000), (LOAD, 0x4040), (LOAD, 0x4100))
    other = raw((STORE, 0x5000, 1, 1), (LOAD, 0x6000))
    more = raw((LOAD, 0x5000), (STORE, 0x6000, 1, 0, 0x40))                # the store to 6000 is interrupt context: left out
    path = write(tmp_path / "t.mtc.xz", {0: stream, 1: other, 2: more}, pc_table([0, 1]), arch="x86")
    write_symbols(tmp_path / "t.syms.xz", SymbolTable([(BASE_PC, "reader"), (BASE_PC + 4, "writer")],
                                                      [(BASE_VA + 0x1000, "first"), (BASE_VA + 0x1040, "second")]))
    (tmp_path / "t.objects").write_text("1000 8 mine -\n1000 8 mine word\n")
    trace = load_recorded(path)
    check_disjoint(trace)
    assert trace.line_names == {
        0x1000: ("mine", ["word"]), 0x1040: ("second", ["+0x0"]), 0x3000: ("line 3000 (writer)", []),
        0x4000: ("page 4+0x0", []), 0x4040: ("page 4+0x0", []), 0x4100: ("page 4+0x100", []),
        0x5000: ("line 5000 (reader, writer)", []), 0x6000: ("page 6+0x0", [])}
    assert {o.name: o.size_bytes for o in trace.names.objects}["page 4+0x0"] == 128


def test_given_objects_file_replaces_the_one_beside(tmp_path: Path) -> None:
    path = write(tmp_path / "t.mtc.xz", {0: raw((LOAD, 0x1000))})
    (tmp_path / "t.objects").write_text("1000 8 beside -\n")
    (tmp_path / "other").write_text("1000 8 given -\n")
    assert load_recorded(path).line_names[0x1000][0] == "beside"
    assert load_recorded(path, objects=tmp_path / "other").line_names[0x1000][0] == "given"
    with pytest.raises(TraceError, match="cannot read the file"):
        load_recorded(path, objects=tmp_path / "absent")


def test_two_symbols_in_one_line_are_both_listed(tmp_path: Path) -> None:
    path = write(tmp_path / "t.mtc.xz", {0: raw((LOAD, 0x1008), (LOAD, 0x1028))})
    write_symbols(tmp_path / "t.syms.xz", SymbolTable([], [(BASE_VA + 0x1000, "first"), (BASE_VA + 0x1020, "second")]))
    trace = load_recorded(path)
    check_disjoint(trace)
    assert trace.line_names == {0x1000: ("first", ["+0x8", "second.+0x8"])}


def test_bytes_between_named_objects_have_a_name(tmp_path: Path) -> None:
    path = write(tmp_path / "t.mtc.xz", {0: raw((LOAD, 0x1010), (LOAD, 0x1030), (LOAD, 0x1050))})
    (tmp_path / "t.objects").write_text("1000 8 before -\n1020 8 middle -\n1058 8 after -\n")
    trace = load_recorded(path)
    check_disjoint(trace)
    assert [(o.name, o.size_bytes) for o in trace.names.objects] == [
        ("before", 8), ("page 1+0x8", 24), ("middle", 8), ("page 1+0x28", 24), ("page 1+0x40", 24), ("after", 8)]
    assert trace.line_names == {0x1000: ("page 1+0x8", []), 0x1040: ("page 1+0x40", [])}


def test_per_cpu_symbols_of_x86(tmp_path: Path) -> None:
    """One named copy says where a CPU's area starts; the other variables of the area then have names too."""
    path = write(tmp_path / "t.mtc.xz", {0: raw((LOAD, 0x9108), (LOAD, 0x9250))}, arch="x86")
    write_symbols(tmp_path / "t.syms.xz", SymbolTable([], [], [(0x100, "known"), (0x200, "found"), (0x400, "__per_cpu_end")]))
    (tmp_path / "t.c2c.txt").write_text("LINE pa=9100 acc\n    +08 L1 S0 A0  percpu[2]:known+0x8   <- f:1\n")
    trace = load_recorded(path)
    check_disjoint(trace)
    assert trace.line_names == {0x9100: ("known[cpu2]", ["+0x8"]), 0x9240: ("found[cpu2]", ["+0x50"])}
    assert {o.scope for o in trace.names.objects} == {"per-cpu"}


def test_rt6_info_is_found_by_who_touches_it(tmp_path: Path) -> None:
    functions = ["dst_release", "__rt6_find_exception_rcu.constprop.0", "rt6_check_expired", "other"]
    stream = raw((LL, 0x1A40, 1, 0), (SC, 0x1A40, 1, 0), (LOAD, 0x1A7C, 1, 1), (LOAD, 0x1A70, 1, 2), (STORE, 0x1A48, 1, 3))
    path = write(tmp_path / "t.mtc.xz", {0: stream}, pc_table([3, 0, 0, 0]), kernel="6.1.192-corenet64-e6500")
    write_symbols(tmp_path / "t.syms.xz", SymbolTable([(BASE_PC + 4 * i, "." + f) for i, f in enumerate(functions)]))
    trace = load_recorded(path)
    check_disjoint(trace)
    assert trace.line_names == {0x1A40: ("rt6_info", ["dst.__refcnt", "dst.lastuse", "from", "rt6i_dst"])}
    assert [(o.base, o.size_bytes) for o in trace.names.objects] == [(0x1A00, 232)]
    workload, _ = compile_recorded(trace, "power")
    touched = {workload.func_names[u["func"]]: workload.fields[u["field"]].field for u in workload.uops}
    assert touched == {"dst_release": "dst.__refcnt", functions[1]: "rt6i_dst", "rt6_check_expired": "from",
                       "other": "dst.lastuse"}


@pytest.mark.parametrize(("kernel", "atomics", "loads"), [
    ("5.10.1", {"dst_release": {64}}, {"rt6_check_expired": {112}, "fib6_rule_lookup": {104}}),      # layout of another release
    ("6.1.1", {"dst_release": {64}}, {"rt6_check_expired": {112}}),                                  # one witness is not enough
    ("6.1.1", {"dst_release": {64}}, {"rt6_check_expired": {112}, "fib6_rule_lookup": {108}}),
    ("6.1.1", {}, {"rt6_check_expired": {112}, "fib6_rule_lookup": {104}}),
])
def test_landmarks_need_anchor_witnesses_and_release(kernel: str, atomics: dict, loads: dict) -> None:
    assert find_objects(kernel, atomics, loads) == []
    whole = find_objects("6.1.1", {"dst_release": {64}}, {"rt6_check_expired": {112}, "fib6_rule_lookup": {104}})
    assert whole[0] == NamedRange(0, 232, "rt6_info", "")


def test_layouts_are_consistent() -> None:
    for layout in LAYOUTS:
        ends = 0
        for offset, size, _ in layout.fields:
            assert offset >= ends
            ends = offset + size
        assert ends <= layout.size_bytes
        starts = {offset for offset, _, _ in layout.fields}
        assert {layout.anchor[1], *(o for _, o in layout.accesses)} <= starts
    assert {name: o for o, _, name in RT6_INFO.fields}["dst.__refcnt"] == 64


def test_symbol_lookup() -> None:
    table = SymbolTable([(BASE_PC, ".f"), (BASE_PC + 64, "g")], [(BASE_VA, "a"), (BASE_VA + (1 << 20), "z")])
    assert [table.function(BASE_PC + i) for i in (0, 63, 64)] == ["f", "f", "g"]
    assert table.function(0x10000) == "[user]"
    assert table.data_at(BASE_VA + SYMBOL_BYTES - 1) == (BASE_VA, "a") and table.data_at(BASE_VA + SYMBOL_BYTES) is None
    last = BASE_VA + (1 << 20)
    assert table.data_at(last + LAST_SYMBOL_BYTES - 1) == (last, "z") and table.data_at(last + LAST_SYMBOL_BYTES) is None
    assert table.data_at(BASE_VA - 1) is None
    assert SymbolTable().function(BASE_PC + CODE_BLOCK_BYTES + 3) == f"0x{BASE_PC + CODE_BLOCK_BYTES:x}"
