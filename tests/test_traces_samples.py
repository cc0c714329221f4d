"""The shipped recording, and the full captures where /work/shared (or ../shared) holds them."""
from __future__ import annotations

import hashlib
import importlib.util
import lzma
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from test_traces_names import check_disjoint

from cohsim.traces import RecordedTrace, RecordFlag, compile_recorded, load_recorded
from cohsim.traces.mtc import decode_stream, read_container
from cohsim.traces.pack import cut
from cohsim.traces.records import OP_ATOMIC, OP_HARDWARE, OP_INTERRUPT, OP_MMIO, Kind
from cohsim.uops import Fence, Op

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "workloads" / "recorded" / "e6500-vlan-pmtu-120.mtc.xz"
SHARED = next((p for p in (ROOT.parent / "shared", Path("/work/shared")) if (p / "traces").is_dir()), None)
NAMES = ("load", "store", "rmw", "larx", "stcx", "barrier", "event", "irqret")

needs_shared = pytest.mark.skipif(SHARED is None, reason="the full captures (shared/traces) are not here")


@pytest.fixture(scope="module")
def shipped() -> RecordedTrace:
    return load_recorded(SHIPPED)


def sample(name: str) -> Path:
    assert SHARED is not None
    return SHARED / "traces" / f"{name}.mtc.xz"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The reader that came with the captures."""
    assert SHARED is not None
    spec = importlib.util.spec_from_file_location("reference_mtc", SHARED / "examples" / "qemu_capture" / "tools" / "mtc.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference_mtc"] = module
    spec.loader.exec_module(module)
    return module


def rows(path: Path, first: int | None = None) -> dict[int, list[tuple]]:
    """Our decoding as tuples of the reference reader: vcpu, pc, va, pa, size, kind, gap, irq, io, hw, atomic."""
    container = read_container(path)
    out = {}
    for vcpu in container.streams:
        r = decode_stream(container, vcpu)[:first]
        flags = [((r["flags"] & bit) != 0).astype(int).tolist() for bit in (OP_INTERRUPT, OP_MMIO, OP_HARDWARE, OP_ATOMIC)]
        columns = [container.pcs.address[r["pc"]].tolist(), r["va"].tolist(), r["pa"].tolist(), r["size"].tolist(),
                   [NAMES[k] for k in r["kind"].tolist()], r["gap"].tolist(), *flags]
        out[vcpu] = [(vcpu, *row) for row in zip(*columns, strict=True)]
    return out


@needs_shared
@pytest.mark.parametrize("name", ["e6500-vlan-pmtu", "x86-vlan-rps", "ppc64le-vlan-pmtu"])
def test_slice_equals_the_reference_reader(reference: ModuleType, name: str) -> None:
    """Record by record, in the observed global order, on the first 30,000 records."""
    container = read_container(sample(name))
    mine = {v: iter(r) for v, r in rows(sample(name), 30_000).items()}
    order = np.repeat(container.run_vcpu, container.run_records)[:30_000].tolist()
    compared = 0
    for vcpu, theirs in zip(order, islice(reference.MTC(str(sample(name))), 30_000), strict=True):
        assert next(mine[vcpu]) == theirs
        compared += 1
    assert compared == 30_000


@needs_shared
@pytest.mark.slow
def test_whole_sample_equals_the_reference_reader(reference: ModuleType) -> None:
    """By checksum over every record of every vCPU."""
    theirs = reference.MTC(str(sample("x86-fwd")))
    records = 0
    for vcpu, mine in rows(sample("x86-fwd")).items():
        ours, other = hashlib.sha256(), hashlib.sha256()
        for a, b in zip(mine, theirs.cpu(vcpu), strict=True):
            ours.update(repr(a).encode())
            other.update(repr(b).encode())
        assert ours.digest() == other.digest()
        records += len(mine)
    assert records == 1_601_565


@needs_shared
@pytest.mark.slow
def test_cut_of_the_full_capture_is_the_shipped_file(tmp_path: Path) -> None:
    """The shipped file can be made again, and holds what the full capture begins with."""
    full = load_recorded(sample("e6500-vlan-pmtu"))
    again = tmp_path / SHIPPED.name
    cut(full, again, 120, "first 120 of 400 forwarded packets; instruction bytes left out")
    assert lzma.decompress(again.read_bytes()) == lzma.decompress(SHIPPED.read_bytes())
    for suffix in (".objects", ".syms.xz"):
        name = SHIPPED.name.replace(".mtc.xz", suffix)
        assert (tmp_path / name).read_bytes() == (SHIPPED.parent / name).read_bytes()
    small = load_recorded(again)
    for vcpu in full.vcpus:
        ours, theirs = small.stream(vcpu), full.stream(vcpu)[:len(small.stream(vcpu))]
        for column in ("kind", "size", "flags", "address", "gap"):
            np.testing.assert_array_equal(ours[column], theirs[column], err_msg=f"vCPU {vcpu}, {column}")
        same = ours["kind"] != Op.LL                       # the last LL of a vCPU may have lost its SC to the cut
        np.testing.assert_array_equal(ours["back"][same], theirs["back"][same])
        assert (small.uop_pc[ours["uop"]] == full.uop_pc[theirs["uop"]]).all()


@needs_shared
def test_the_full_capture_names_the_route() -> None:
    trace = load_recorded(sample("e6500-vlan-pmtu"))
    assert (trace.stored_records, trace.records) == (2_322_321, 1_749_720)
    assert trace.line_names[0x1A44A40] == ("rt6_info", ["dst.__refcnt", "dst.error", "from", "rt6i_dst"])
    assert sum(int(np.count_nonzero(s["flags"] & RecordFlag.PACKET)) for s in trace.streams) == 400
    check_disjoint(trace)


@needs_shared
def test_the_x86_capture_takes_names_from_its_c2c_report() -> None:
    trace = load_recorded(sample("x86-vlan-pmtu"))
    owner, fields = trace.line_names[0x1FEAFC40]
    assert owner == "rt6_info" and {"dst.__refcnt", "dst.lwtstate", "dst.error", "from"} <= set(fields)
    assert {"lock xadd", "lock cmpxchg", "xchg"} <= set(trace.prim_names)
    assert any(np.any(s["flags"] & RecordFlag.DEP) for s in trace.streams)
    check_disjoint(trace)


def test_shipped_recording(shipped: RecordedTrace) -> None:
    assert SHIPPED.stat().st_size < 200_000
    assert not any(shipped.container.pcs.code)                               # no kernel code in it
    assert shipped.vcpus == tuple(range(8)) and shipped.isa == "power" and shipped.kernel.startswith("6.1.192")
    kept = np.concatenate(shipped.streams)
    count = Counter(kept["kind"].tolist())
    assert count == {Op.LOAD: 315_730, Op.STORE: 199_359, Op.LL: 3_044, Op.SC: 3_043, Op.FENCE: 4_543}
    assert int(np.count_nonzero(kept["flags"] & RecordFlag.PACKET)) == 120
    fences = Counter(shipped.uops["imm"][shipped.uops["op"] == Op.FENCE].tolist())
    assert fences == {Fence.FULL: 12, Fence.LIGHT: 50, Fence.INSTR: 1}
    assert shipped.assumptions == []                                         # each barrier's kind is known without bytes
    assert shipped.prim_names == ["lwarx/stwcx.", "ldarx/stdcx."]
    assert 0.05 < np.count_nonzero(kept["flags"] & RecordFlag.DEP) / len(kept) < 0.1


def test_shipped_pairs_are_pairs(shipped: RecordedTrace) -> None:
    for stream in shipped.streams:
        sc = np.flatnonzero(stream["back"])
        ll = sc - stream["back"][sc]
        assert len(sc) > 300 and (stream["kind"][sc] == Op.SC).all() and (stream["kind"][ll] == Op.LL).all()
        assert (stream["address"][sc] == stream["address"][ll]).all()
        assert ((stream["flags"][sc] & stream["flags"][ll] & RecordFlag.ATOMIC) != 0).all()


def test_shipped_instructions_add_up(shipped: RecordedTrace) -> None:
    """Gaps count each instruction outside interrupts once, up to the last kept record."""
    for vcpu, stream in zip(shipped.vcpus, shipped.streams, strict=True):
        raw = shipped.raw(vcpu)
        outside = (raw["flags"] & OP_INTERRUPT) == 0
        last = np.flatnonzero(outside & (raw["kind"] <= Kind.BARRIER))[-1]
        assert stream["gap"].sum() == raw["gap"][:last + 1][outside[:last + 1]].sum(dtype=np.int64)


def test_the_route_is_the_line_all_vcpus_store_to(shipped: RecordedTrace) -> None:
    storers: dict[int, set[int]] = {}
    for cpu, stream in enumerate(shipped.streams):
        stores = stream[np.isin(stream["kind"], (Op.STORE, Op.SC))]
        for line in np.unique(stores["address"] // 64 * 64).tolist():
            storers.setdefault(line, set()).add(cpu)
    most = [line for line, cpus in storers.items() if len(cpus) == 8]
    assert [shipped.line_names[line] for line in most] == [("rt6_info", ["dst.__refcnt", "dst.error", "from", "rt6i_dst"])]


def test_shipped_names(shipped: RecordedTrace) -> None:
    check_disjoint(shipped)
    workload, streams = compile_recorded(shipped, "power")
    assert len(streams) == workload.cpus == 8 and {"dst_release", "ip6_forward", "__dev_queue_xmit"} <= set(workload.func_names)
    release = [i for i, u in enumerate(workload.uops) if workload.func_names[u["func"]] == "dst_release" and u["op"] == Op.SC]
    assert {workload.fields[workload.uops["field"][i]].field for i in release} == {"dst.__refcnt"}
    assert all(0 <= u["func"] < len(workload.func_names) and u["prim"] < len(workload.prim_names) for u in workload.uops)
    assert max(int(s["uop"].max()) for s in streams) == len(workload.uops) - 1


def test_without_sidecars_functions_are_addresses(tmp_path: Path) -> None:
    bare = tmp_path / "bare.mtc.xz"
    bare.write_bytes(SHIPPED.read_bytes())
    trace = load_recorded(bare)
    assert all(name.startswith("0xc0000000") for name in trace.func_names) and trace.records > 500_000
    assert trace.line_names[0x1A44A40][0].startswith("line 1a44a40 (0xc0000000")


def test_keep_interrupts() -> None:
    assert load_recorded(SHIPPED, keep_interrupts=True).records > load_recorded(SHIPPED).records + 150_000
