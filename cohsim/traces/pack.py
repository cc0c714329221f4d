"""Write MTC1: whole traces, and small cuts of them to ship."""
from __future__ import annotations

import json
import lzma
import struct
from pathlib import Path
from typing import Any

import numpy as np

from cohsim.traces.convert import Rules, convert
from cohsim.traces.instructions import class_with_fence
from cohsim.traces.load import RecordedTrace
from cohsim.traces.mtc import MAGIC, PcTable, fail
from cohsim.traces.objects import NamedRange, write_objects
from cohsim.traces.records import (
    KINDS_WITH_ADDRESS,
    OP_DEPENDENT,
    OP_EVENT_SHIFT,
    OP_INTERRUPT,
    OP_NEW_PAGE,
    OP_SIZE_SHIFT,
    PAGE_SHIFT,
    Kind,
    RecordFlag,
)
from cohsim.traces.symbols import SymbolTable, sidecar, write_symbols
from cohsim.traces.varint import encode_varints, zigzag

COUNTED = {"loads": Kind.LOAD, "stores": Kind.STORE, "rmw": Kind.RMW, "larx": Kind.LL, "stcx": Kind.SC, "barriers": Kind.BARRIER,
           "events": Kind.EVENT, "irqret": Kind.IRQ_RETURN}


def write_mtc(path: Path, meta: dict[str, Any], pcs: PcTable, order: np.ndarray, streams: dict[int, np.ndarray]) -> int:
    """Write a ``.mtc.xz`` file; return its size in bytes.

    ``order`` is the vCPU of each record in global order, ``streams`` the RAW records of each vCPU in program order. ``records``,
    ``vcpus`` and ``percpu`` of the header are made from the streams; the rest of ``meta`` is written as given.
    """
    meta = {**meta, "format": "MTC1", "vcpus": len(streams), "records": sum(map(len, streams.values())),
            "percpu": {str(v): _counts(s) for v, s in streams.items()}}
    head = bytearray(encode_varints(np.array([len(pcs)])))
    steps = np.diff(pcs.address, prepend=np.uint64(0))
    for step, cls, code in zip(steps, pcs.cls, pcs.code, strict=True):
        head += encode_varints(np.array([step])) + bytes([cls, len(code)]) + code
    start = np.flatnonzero(np.diff(order.astype(np.int64), prepend=-1))
    runs = np.empty(2 * len(start) + 1, np.uint64)
    runs[0], runs[1::2], runs[2::2] = len(start), order[start], np.diff(start, append=len(order))
    header = json.dumps(meta, indent=1).encode()
    body = MAGIC + _block(header) + _block(bytes(head)) + _block(encode_varints(runs)) + bytes([len(streams)])
    for vcpu, stream in streams.items():
        body += struct.pack("<BI", vcpu, len(stream)) + b"".join(map(_block, encode_stream(stream)))
    packed = lzma.compress(body, preset=6 | lzma.PRESET_EXTREME)
    path.write_bytes(packed)
    return len(packed)


def _block(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _counts(stream: np.ndarray) -> dict[str, int]:
    kinds = np.bincount(stream["kind"], minlength=8)
    return {"records": len(stream), **{name: int(kinds[kind]) for name, kind in COUNTED.items()},
            "insns": int(stream["gap"].sum(dtype=np.int64)), "irq_records": int(np.count_nonzero(stream["flags"] & OP_INTERRUPT))}


def encode_stream(raw: np.ndarray) -> list[bytes]:
    """The columns OP, G, P, A, X of a RAW array: the inverse of :func:`cohsim.traces.mtc.decode_stream`."""
    kind = raw["kind"]
    at = np.flatnonzero(kind < KINDS_WITH_ADDRESS)
    memory = raw[at]
    op = (raw["flags"] & ~np.uint16(OP_NEW_PAGE | 3 << OP_EVENT_SHIFT)) | kind
    event = kind == Kind.EVENT
    op[event] |= (raw["size"][event].astype(np.uint16) & 3) << OP_EVENT_SHIFT
    op[at] |= np.round(np.log2(memory["size"])).astype(np.uint16) << OP_SIZE_SHIFT
    frame = memory["pa"] >> np.uint64(PAGE_SHIFT)
    new_page = _changes(memory["va"] >> np.uint64(PAGE_SHIFT), frame)
    op[at[new_page]] |= OP_NEW_PAGE
    pc = raw["pc"].astype(np.int64)
    return [op.astype("<u2").tobytes(), encode_varints(raw["gap"]), encode_varints(zigzag(np.diff(pc, prepend=0))),
            encode_varints(zigzag(_differences(memory["va"], memory["pc"]))), encode_varints(frame[new_page])]


def _differences(value: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Value minus the previous value of the same group, 0 before the first; int64, wrapping."""
    order = np.argsort(group, kind="stable")
    sorted_values, grouped = value[order].view(np.int64), group[order]
    previous = np.concatenate(([0], sorted_values[:-1])) if len(value) else sorted_values
    previous[np.diff(grouped, prepend=-1) != 0] = 0
    out = np.empty(len(value), np.int64)
    out[order] = sorted_values - previous
    return out


def _changes(page: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """True where a virtual page appears first or has another frame than at its previous use."""
    order = np.lexsort((np.arange(len(page)), page))
    changed = np.ones(len(page), bool)
    p, f = page[order], frame[order]
    changed[1:] = (p[1:] != p[:-1]) | (f[1:] != f[:-1])
    out = np.empty(len(page), bool)
    out[order] = changed
    return out


def cut(trace: RecordedTrace, target: Path, packets: int, note: str) -> int:
    """Write the first ``packets`` forwarded packets of ``trace`` to ``target`` with its sidecars, without instruction bytes.

    All vCPUs end at the same point of the observed order: where the packet after the last one starts. What the bytes told stays:
    the fence kind in the class, the dependence mark in OP. The header records the origin and ``note``. Returns the size in bytes
    of ``target``. Raises TraceError if there are not that many packets.
    """
    container = trace.container
    order = np.repeat(container.run_vcpu, container.run_records)
    position = {v: np.flatnonzero(order == v) for v in trace.vcpus}
    rules = Rules.of(container.meta["arch"], container.pcs, False, _packet_pc_index(trace))
    streams, starts = {}, []
    for vcpu in trace.vcpus:
        raw = trace.raw(vcpu)
        records, source = convert(raw, rules)
        raw["flags"][source[(records["flags"] & RecordFlag.DEP) != 0]] |= np.uint16(OP_DEPENDENT)
        starts.append(position[vcpu][source[(records["flags"] & RecordFlag.PACKET) != 0]])
        streams[vcpu] = raw
    marks = np.sort(np.concatenate(starts))
    if packets >= len(marks):
        fail(trace.path, f"the trace holds {len(marks)} packets, {packets} and the start of one more are wanted", "ask for fewer")
    end = int(marks[packets])
    streams = {v: raw[:np.searchsorted(position[v], end)] for v, raw in streams.items()}
    used = np.unique(np.concatenate([s["pc"] for s in streams.values()]))
    for s in streams.values():
        s["pc"] = np.searchsorted(used, s["pc"])
    cls = [class_with_fence(container.meta["arch"], int(container.pcs.cls[i]), container.pcs.code[i]) for i in used.tolist()]
    pcs = PcTable(container.pcs.address[used], np.array(cls, np.uint8), [b""] * len(used))
    meta = {k: v for k, v in container.meta.items() if k not in ("percpu", "records", "vcpus", "format")}
    meta["cut"] = {"from": trace.path.name, "sha256": trace.sha256, "packets": packets, "note": note}
    size = write_mtc(target, meta, pcs, order[:end], streams)
    _write_sidecars(trace, target, pcs, streams)
    return size


def _packet_pc_index(trace: RecordedTrace) -> int:
    marked = np.concatenate([s["uop"][(s["flags"] & RecordFlag.PACKET) != 0] for s in trace.streams])
    if not len(marked):
        fail(trace.path, "no forwarded packet is found in the trace", "keep its .syms.xz beside it")
    return int(np.searchsorted(trace.container.pcs.address, trace.uop_pc[marked[0]]))


def _write_sidecars(trace: RecordedTrace, target: Path, pcs: PcTable, streams: dict[int, np.ndarray]) -> None:
    """The symbols the cut uses, and every object the full trace could name that the cut touches."""
    memory = np.concatenate([s[s["kind"] < KINDS_WITH_ADDRESS] for s in streams.values()])
    symbols = trace.symbols
    text = {symbols.text_at(pc) for pc in pcs.address.tolist()}
    data = {symbols.data_at(va) for va in np.unique(memory["va"]).tolist()}
    write_symbols(sidecar(target, ".syms.xz"), SymbolTable(sorted(t for t in text if t), sorted(d for d in data if d), []))
    touched = np.unique(memory["pa"].view(np.int64))
    ranges = []
    kept = set()
    for o in trace.names.objects:
        first = int(np.searchsorted(touched, o.base))
        if o.struct not in ("line", "page") and first < len(touched) and touched[first] < o.base + o.size_bytes:
            ranges.append(NamedRange(o.base, o.size_bytes, o.name, ""))
            kept.add(o.name)
    ranges += [NamedRange(int(a), f.size_bytes, f.object, f.field)
               for a, f in zip(trace.names.field_address, trace.names.fields, strict=True) if f.object in kept]
    write_objects(sidecar(target, ".objects"), ranges,
                  "ADDRESS (physical, hexadecimal)  SIZE (bytes)  OBJECT  FIELD (-: extent of the object)")
