"""From stored records to the core's: what is kept, instruction counts, LL/SC pairs, dependences, chunks."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_traces_format import stored_streams
from traces_building import BASE_PC, irq, pc_table, raw, write

from cohsim.errors import TraceError
from cohsim.traces import RECORD, RecordFlag, compile_recorded, load_recorded
from cohsim.traces.convert import Rules, chunk_ends, convert
from cohsim.traces.instructions import (
    class_with_fence,
    fence_kind,
    power_registers,
    power_word,
    primitive_name,
    x86_registers,
)
from cohsim.traces.records import OP_ATOMIC, OP_DEPENDENT, OP_HARDWARE, OP_INTERRUPT, OP_MMIO, RAW, Kind
from cohsim.traces.symbols import SymbolTable, write_symbols
from cohsim.uops import UOP, Fence, Flag, Op

LOAD, STORE, RMW, LL, SC, BARRIER, EVENT, RETURN = Kind
PLAIN = Rules(False, -1, np.full(64, -1, np.int8), np.zeros(64, np.uint32))
OPS = {LOAD: Op.LOAD, STORE: Op.STORE, RMW: Op.RMW, LL: Op.LL, SC: Op.SC, BARRIER: Op.FENCE}


def kinds(records: np.ndarray) -> list[Op]:
    return [Op(k) for k in records["kind"].tolist()]


def converted(*records: tuple) -> np.ndarray:
    return convert(raw(*records), PLAIN)[0]


def test_records_are_24_bytes_and_bit_0_means_dep() -> None:
    assert RECORD.itemsize == 24 and RecordFlag.DEP == Flag.DEP == 1


def test_ll_and_sc_are_matched() -> None:
    out = converted((LL, 64), (LOAD, 8), (SC, 64), (LL, 72), (SC, 72))
    assert kinds(out) == [Op.LL, Op.LOAD, Op.SC, Op.LL, Op.SC]
    assert out["back"].tolist() == [0, 0, 2, 0, 1]


def test_a_lone_ll_stays_and_the_latest_one_counts() -> None:
    out = converted((LL, 64), (LOAD, 8), (LL, 64), (SC, 64))
    assert kinds(out)[0] == Op.LL and out["back"].tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("records", [
    [(SC, 64)],                                     # the window started between them
    [(LL, 64), (SC, 128)],                          # the latest reservation is of another line
    [*irq((LL, 64)), (SC, 64)],                     # the LL is left out
])
def test_an_sc_without_its_ll_is_a_store(records: list[tuple]) -> None:
    out = converted(*records)
    assert kinds(out)[-1] == Op.STORE and out["back"][-1] == 0


def test_a_reservation_serves_one_sc() -> None:
    out = converted((LL, 64), (SC, 64), (SC, 64))
    assert kinds(out) == [Op.LL, Op.SC, Op.STORE] and out["back"].tolist() == [0, 1, 0]


def test_interrupts_and_their_instructions_are_left_out() -> None:
    out = converted((LOAD, 0, 5), *irq((LOAD, 8, 100), (RETURN, None, 50)), (STORE, 16, 7), (STORE, 24, 2))
    assert out["gap"].tolist() == [5, 7, 2] and out["address"].tolist() == [0, 16, 24]
    assert [bool(f & RecordFlag.AFTER_DROP) for f in out["flags"].tolist()] == [False, True, False]


def test_interrupts_are_kept_on_request() -> None:
    rules = Rules(True, -1, PLAIN.loaded, PLAIN.address_mask)
    out = convert(raw((LOAD, 0, 5), *irq((LOAD, 8, 100), (RETURN, None, 50)), (STORE, 16, 7)), rules)[0]
    assert out["gap"].tolist() == [5, 100, 57] and not out["flags"].any()


def test_records_without_an_access_pass_their_instructions_on() -> None:
    out = converted((LOAD, 0, 1), (EVENT, None, 10), (RETURN, None, 20), (LOAD, 0xF000, 4, 0, OP_MMIO),
                    (STORE, 0x2000, 3, 0, OP_HARDWARE), (STORE, 8, 2))
    assert out["gap"].tolist() == [1, 39]


def test_barriers_carry_no_address() -> None:
    out = converted((LOAD, 4096), (BARRIER, None, 1, 1))
    assert kinds(out) == [Op.LOAD, Op.FENCE] and out[["size", "address"]][1].tolist() == (0, 0)


def test_a_locked_operation_reported_in_two_parts_is_one() -> None:
    both = (LOAD, 64, 3, 2, OP_ATOMIC), (STORE, 64, 0, 2, OP_ATOMIC)
    out = converted((LOAD, 0), *both, (STORE, 8))
    assert kinds(out) == [Op.LOAD, Op.RMW, Op.STORE] and out["gap"].tolist() == [1, 3, 1]
    assert out["flags"][1] == RecordFlag.ATOMIC
    plain = converted((LOAD, 64, 3, 2), (STORE, 64, 0, 2))      # add %eax,(%rbx) is two operations, and stays so
    assert kinds(plain) == [Op.LOAD, Op.STORE]


def test_gaps_beyond_31_bits_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.mtc.xz", {0: raw((LOAD, 0, 2**32 - 1))})
    with pytest.raises(TraceError, match=r"vCPU 0: more than 2\*\*31 instructions"):
        load_recorded(path)


def test_packets_are_marked(tmp_path: Path) -> None:
    path = write(tmp_path / "t.mtc.xz", {0: raw((LOAD, 0, 1, 0), (STORE, 8, 1, 1), (LOAD, 0, 1, 2), (STORE, 8, 1, 1))})
    write_symbols(tmp_path / "t.syms.xz", SymbolTable([(BASE_PC, ".caller"), (BASE_PC + 4, ".ip6_forward")]))
    trace = load_recorded(path)
    assert ((trace.streams[0]["flags"] & RecordFlag.PACKET) != 0).tolist() == [False, True, False, True]
    assert trace.func_names == ["caller", "ip6_forward"]


POWER = {"ld r3,16(r9)": 0xE8690010, "lwz r4,0(r3)": 0x80830000, "stw r5,4(r4)": 0x90A40004, "ldx r3,r4,r5": 0x7C64282A,
         "lwarx r10,0,r3": 0x7D401828, "stwcx. r10,0,r3": 0x7D40192D, "addi": 0x38630001}


@pytest.mark.parametrize(("name", "address", "loaded"), [
    ("ld r3,16(r9)", {9}, 3), ("lwz r4,0(r3)", {3}, 4), ("stw r5,4(r4)", {4}, -1), ("ldx r3,r4,r5", {4, 5}, 3),
    ("lwarx r10,0,r3", {3}, 10), ("stwcx. r10,0,r3", {3}, -1), ("addi", set(), -1)])
def test_power_registers(name: str, address: set[int], loaded: int) -> None:
    found = power_registers(POWER[name])
    assert found.address == address and found.loaded == loaded


@pytest.mark.parametrize(("code", "address", "loaded"), [
    ("488b4310", {3}, 0),             # mov 0x10(%rbx),%rax
    ("4c8b6cc808", {0, 1}, 13),       # mov 0x8(%rax,%rcx,8),%r13
    ("458b3424", {12}, 14),           # mov (%r12),%r14d
    ("488b0500000000", set(), 0),     # mov 0(%rip),%rax
    ("0fb64701", {7}, 0),             # movzbl 1(%rdi),%eax
    ("498901", {9}, -1),              # mov %rax,(%r9)
    ("f00fb117", {7}, -1),            # lock cmpxchg %edx,(%rdi)
    ("48034708", {7}, 0),             # add 8(%rdi),%rax
    ("8a23", {3}, -1),                # mov (%rbx),%ah
    ("4889c8", set(), -1),            # mov %rcx,%rax: no memory
    ("c5fa6f00", set(), -1),          # vector
    ("5b", set(), -1), ("", set(), -1), ("8b04", set(), -1),
])
def test_x86_registers(code: str, address: set[int], loaded: int) -> None:
    found = x86_registers(bytes.fromhex(code))
    assert found.address == address and found.loaded == loaded


def test_dependences_on_the_latest_load(tmp_path: Path) -> None:
    names = ["ld r3,16(r9)", "lwz r4,0(r3)", "stw r5,4(r4)"]
    pcs = pc_table([0, 0, 0], [POWER[n].to_bytes(4, "big") for n in names])
    rows = [(LOAD, 0, 1, 0), (LOAD, 8, 1, 1), (STORE, 16, 16, 2),       # r3 -> r4 -> store, 16 instructions later
            (LOAD, 0, 1, 0), (LOAD, 8, 17, 1),                          # too long ago
            (LOAD, 0, 1, 0), *irq((LOAD, 32, 1, 0)), (LOAD, 8, 1, 1),   # across an interrupt
            (STORE, 16, 1, 0, OP_DEPENDENT)]                            # the file says so
    trace = load_recorded(write(tmp_path / "t.mtc.xz", {0: raw(*rows)}, pcs))
    assert [bool(f & RecordFlag.DEP) for f in trace.streams[0]["flags"].tolist()] == [
        False, True, True, False, False, False, False, True]


@pytest.mark.parametrize(("arch", "code", "kind"), [
    ("ppcbe", "7c0004ac", Fence.FULL), ("ppcbe", "7c2004ac", Fence.LIGHT), ("ppcbe", "7c4004ac", Fence.FULL),
    ("ppcbe", "4c00012c", Fence.INSTR), ("ppcbe", "7c0006ac", Fence.STORE), ("ppc", "ac04207c", Fence.LIGHT),
    ("ppc", "2c01004c", Fence.INSTR), ("x86", "0faef0", Fence.FULL), ("x86", "0faee8", Fence.LOAD),
    ("x86", "0faef8", Fence.STORE),
    ("x86", "90", None), ("ppcbe", "60000000", None), ("ppcbe", "", None)])
def test_fence_kinds_survive_without_bytes(arch: str, code: str, kind: Fence | None) -> None:
    bytes_ = bytes.fromhex(code)
    assert fence_kind(arch, 4, bytes_) == kind
    cls = class_with_fence(arch, 4, bytes_)
    assert cls & 0xF == 4 and fence_kind(arch, cls, b"") == kind
    assert class_with_fence(arch, cls, b"") == cls
    assert class_with_fence(arch, 0, bytes_) == 0


def test_unknown_barriers_are_full_and_said_so(tmp_path: Path) -> None:
    stream = raw((BARRIER, None), (BARRIER, None, 1, 1))
    trace = load_recorded(write(tmp_path / "t.mtc.xz", {0: stream}, pc_table([4, 4 | 2 << 4])))
    assert trace.uops["imm"].tolist() == [Fence.FULL, Fence.LIGHT]
    assert trace.assumptions == ["1 barrier instructions of unknown kind are taken for full barriers"]


@pytest.mark.parametrize(("code", "name"), [
    ("f0834424fc00", "lock add"), ("f00fb117", "lock cmpxchg"), ("f00fc107", "lock xadd"), ("874218", "xchg"),
    ("f0480fab10", "lock bts"),
    ("f0480fba2e00", "lock bts"), ("f0ff4f40", "lock dec"), ("f0480fc70f", "lock cmpxchg16b"), ("f00fc70f", "lock cmpxchg8b"),
    ("f00fba3300", "lock btr"), ("f0f617", "lock not"), ("f00109", "lock add"), ("f0", "lock"), ("", "lock")])
def test_x86_atomic_names(code: str, name: str) -> None:
    assert primitive_name("x86", 1, bytes.fromhex(code), 4) == name
    assert primitive_name("x86", 0, bytes.fromhex(code), 4) == ""


def test_power_atomic_names() -> None:
    assert primitive_name("ppcbe", 3, b"", 4) == "lwarx/stwcx." and primitive_name("ppc", 3, b"", 8) == "ldarx/stdcx."
    assert primitive_name("ppc", 0, b"", 8) == "" and power_word("ppc", b"\x2d\x19\x40\x7d") == POWER["stwcx. r10,0,r3"]


def slow_convert(stream: np.ndarray) -> list[tuple[int, int, int, int, int]]:
    """(op, address, gap, back, after_drop) by the rules as the documentation words them, one record after the other."""
    merged = []
    for r in stream.tolist():
        kind, size, flags, gap, pc, va, pa = r
        last = merged[-1] if merged else None
        if (last and last["kind"] == LOAD and kind == STORE and last["flags"] & flags & OP_ATOMIC and gap == 0
                and last["pc"] == pc and last["pa"] == pa):
            last["kind"] = RMW
            continue
        merged.append({"kind": kind, "flags": flags, "gap": gap, "pc": pc, "pa": pa})
    out: list[tuple[int, int, int, int, int]] = []
    carried, dropped = 0, False
    reservation: tuple[int, int] | None = None          # address, index in out (-1 if not kept)
    for r in merged:
        inside = bool(r["flags"] & OP_INTERRUPT)
        keep = r["kind"] in OPS and not inside and not r["flags"] & (OP_MMIO | OP_HARDWARE)
        dropped |= inside
        op, back = OPS.get(r["kind"]), 0
        if r["kind"] == SC:
            if reservation and reservation[0] >> 6 == r["pa"] >> 6 and reservation[1] >= 0:
                back = len(out) - reservation[1]
            else:
                op = Op.STORE
            reservation = None
        if r["kind"] == LL:
            reservation = (r["pa"], len(out) if keep else -1)
        carried += 0 if inside else r["gap"]
        if keep:
            out.append((op, r["pa"], carried, back, dropped))
            carried, dropped = 0, False
    return out


@settings(max_examples=150, deadline=None)
@given(stored_streams(), st.integers(1, 7))
def test_against_the_slow_conversion(stream: np.ndarray, size: int) -> None:
    stream["gap"] %= 1 << 20
    out, source = convert(stream, PLAIN)
    after = (out["flags"] & RecordFlag.AFTER_DROP) != 0
    columns = (out["kind"], out["address"], out["gap"], out["back"], after)
    assert list(zip(*(c.tolist() for c in columns), strict=True)) == slow_convert(stream)
    assert (stream["pa"][source].view(np.int64) == out["address"]).all()
    check_chunks(out, size)


def check_chunks(out: np.ndarray, size: int) -> None:
    ends = chunk_ends(out, size).tolist()
    start = 0
    for end in ends:
        assert end - start >= min(size, len(out) - start)
        within = np.arange(start, end)
        assert (within - out["back"][start:end] >= start).all()
        start = end
    assert start == len(out)


def test_a_chunk_is_longer_rather_than_part_a_pair(tmp_path: Path) -> None:
    stream = raw((LOAD, 0), (LL, 64), (LOAD, 8), (SC, 64), (LOAD, 0), (LOAD, 8))
    trace = load_recorded(write(tmp_path / "t.mtc.xz", {2: stream}))
    assert [len(c) for c in trace.chunks(2, 2)] == [4, 2]
    assert np.concatenate(list(trace.chunks(2, 1))).tolist() == trace.stream(2).tolist()
    with pytest.raises(TraceError, match="there is no vCPU 0; recorded are 2"):
        list(trace.chunks(0, 2))
    with pytest.raises(ValueError, match="at least one"):
        chunk_ends(trace.stream(2), 0)


def test_vcpus_meet_in_physical_lines(tmp_path: Path) -> None:
    """Two vCPUs map one physical page at different virtual addresses: the core and the names see one line."""
    a, b = raw((RMW, 0x5000, 1, 0, OP_ATOMIC)), raw((RMW, 0x5008, 1, 0, OP_ATOMIC))
    b["va"] = 0xD000000000777008
    trace = load_recorded(write(tmp_path / "t.mtc.xz", {0: a, 1: b}, pc_table([1]), arch="x86"))
    assert [s["address"][0] & ~63 for s in trace.streams] == [0x5000, 0x5000]
    assert list(trace.line_names) == [0x5000]


def test_compiled_workload(tmp_path: Path) -> None:
    stream = raw((LOAD, 0, 1, 0), (LOAD, 0, 1, 0, 0, 4), (LL, 64, 1, 1), (SC, 64, 1, 2), (BARRIER, None, 1, 3))
    trace = load_recorded(write(tmp_path / "t.mtc.xz", {0: stream, 4: stream}, pc_table([0, 3, 3, 4]), scenario="s"))
    workload, streams = compile_recorded(trace, "power")
    assert (workload.name, workload.cpus, workload.isa, workload.source) == ("s", 2, "power", None)
    assert workload.uops.dtype == UOP and len(streams) == 2
    assert workload.uops["op"].tolist() == [Op.LOAD, Op.LOAD, Op.LL, Op.SC, Op.FENCE]
    assert workload.uops["size"].tolist() == [4, 8, 8, 8, 0]
    assert [workload.prim_names[p] for p in workload.uops["prim"] if p >= 0] == ["ldarx/stdcx."] * 2
    assert trace.uop_pc.tolist() == [BASE_PC, BASE_PC, BASE_PC + 4, BASE_PC + 8, BASE_PC + 12]
    assert streams[1]["uop"].tolist() == [1, 0, 2, 3, 4]
    with pytest.raises(TraceError, match='recorded on "power", the machine is "x86"; choose a machine'):
        compile_recorded(trace, "x86")


def test_empty_stream() -> None:
    out, source = convert(np.zeros(0, RAW), PLAIN)
    assert len(out) == len(source) == len(chunk_ends(out, 3)) == 0
