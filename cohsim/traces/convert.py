"""From stored records (RAW) to the core's records (RECORD): what is kept, instruction gaps, LL/SC pairs, dependences."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cohsim.traces.instructions import registers
from cohsim.traces.mtc import PcTable
from cohsim.traces.records import OP_ATOMIC, OP_DEPENDENT, OP_HARDWARE, OP_INTERRUPT, OP_MMIO, RECORD, Kind, RecordFlag
from cohsim.uops import Op

OP_OF_KIND = np.zeros(8, np.uint8)
OP_OF_KIND[[Kind.LOAD, Kind.STORE, Kind.RMW, Kind.LL, Kind.SC, Kind.BARRIER]] = (
    Op.LOAD, Op.STORE, Op.RMW, Op.LL, Op.SC, Op.FENCE)

RESERVATION_BYTES = 64      # an LL and its SC name the same word; the granule only guards against a damaged trace
DEP_INSTRUCTIONS = 16       # a register filled longer ago has probably been written again by an unrecorded instruction
KEY_PCS = 1 << 25           # PCs a 32-bit uop key can tell apart


@dataclass(frozen=True)
class Rules:
    """How records of one trace are converted; the arrays are indexed by PC."""

    keep_interrupts: bool
    packet_pc: int             # PC whose records start a packet, -1 for none
    loaded: np.ndarray         # int8: register a load fills, -1
    address_mask: np.ndarray   # uint32: registers the address is made from

    @staticmethod
    def of(arch: str, pcs: PcTable, keep_interrupts: bool, packet_pc: int) -> Rules:
        loaded, mask = np.full(len(pcs), -1, np.int8), np.zeros(len(pcs), np.uint32)
        for i, code in enumerate(pcs.code):
            found = registers(arch, code)
            loaded[i] = found.loaded
            mask[i] = sum(1 << r for r in found.address)
        return Rules(keep_interrupts, packet_pc, loaded, mask)


def convert(raw: np.ndarray, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
    """RAW to RECORD, and the index in ``raw`` of each record. ``uop`` holds a key, ``pc << 6 | op << 3 | log2(size)``, that the
    caller replaces by an index.

    Kept are memory accesses and barriers outside interrupt context. Instructions counted by a record that is not kept are passed
    on to the next kept one, unless the record is interrupt context that is left out: those instructions are left out with it.
    """
    raw, kind, source = _fold_split_atomics(raw)
    in_interrupt = (raw["flags"] & OP_INTERRUPT) != 0
    keep = (OP_OF_KIND[kind] != 0) & ((raw["flags"] & (OP_HARDWARE | OP_MMIO)) == 0)
    counted = np.ones(len(raw), bool)
    if not rules.keep_interrupts:
        keep &= ~in_interrupt
        counted = ~in_interrupt
    kept = np.flatnonzero(keep)
    out = np.zeros(len(kept), RECORD)
    stored = raw[kept]
    out["kind"], out["size"], out["address"] = OP_OF_KIND[kind[kept]], stored["size"], stored["pa"].view(np.int64)
    instructions = np.cumsum(np.where(counted, raw["gap"], 0).astype(np.int64))[kept]
    gap = np.diff(instructions, prepend=0)
    if len(gap) and int(gap.max()) >= 1 << 31:
        raise ValueError("more than 2**31 instructions between two accesses")
    out["gap"] = gap
    _match_reservations(raw, kind, kept, out)
    flags = np.where((stored["flags"] & OP_ATOMIC) != 0, RecordFlag.ATOMIC, 0).astype(np.uint16)
    if not rules.keep_interrupts:
        flags[np.diff(np.cumsum(in_interrupt)[kept], prepend=0) > 0] |= np.uint16(RecordFlag.AFTER_DROP)
    flags[stored["pc"] == rules.packet_pc] |= np.uint16(RecordFlag.PACKET)
    flags[_dependent(out, stored["pc"], flags, rules)] |= np.uint16(RecordFlag.DEP)
    flags[(stored["flags"] & OP_DEPENDENT) != 0] |= np.uint16(RecordFlag.DEP)
    out["flags"] = flags
    log2_size = np.zeros(256, np.int32)
    log2_size[[1 << k for k in range(8)]] = range(8)
    out["uop"] = stored["pc"] << 6 | out["kind"].astype(np.int32) << 3 | log2_size[out["size"]]
    return out, source[kept]


def _fold_split_atomics(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """QEMU 9 and later report an x86 locked operation as a load and a store of one instruction: make it one RMW again."""
    kind = raw["kind"].copy()
    atomic = (raw["flags"] & OP_ATOMIC) != 0
    first = np.flatnonzero((kind[:-1] == Kind.LOAD) & atomic[:-1] & (kind[1:] == Kind.STORE) & atomic[1:] & (raw["gap"][1:] == 0)
                           & (raw["pc"][:-1] == raw["pc"][1:]) & (raw["pa"][:-1] == raw["pa"][1:]))
    if not len(first):
        return raw, kind, np.arange(len(raw))
    kind[first] = Kind.RMW
    rest = np.ones(len(raw), bool)
    rest[first + 1] = False
    return raw[rest], kind[rest], np.flatnonzero(rest)


def _match_reservations(raw: np.ndarray, kind: np.ndarray, kept: np.ndarray, out: np.ndarray) -> None:
    """Set ``back`` of each SC. The reservation is the vCPU's latest LL, looked for among all records, kept or not.

    An SC whose LL is not in the trace (window start) or is left out cannot be tried again: it is a plain STORE, as it did store.
    """
    sc_at = np.flatnonzero(kind == Kind.SC)
    if not len(sc_at):
        return
    ll_at = np.maximum.accumulate(np.where(kind == Kind.LL, np.arange(len(raw)), -1))[sc_at]
    granule = np.uint64(RESERVATION_BYTES - 1)
    matched = (ll_at >= 0) & (raw["pa"][ll_at] | granule == raw["pa"][sc_at] | granule)
    matched[1:] &= ll_at[1:] != ll_at[:-1]                    # a reservation serves one SC
    new_index = np.full(len(raw), -1)
    new_index[kept] = np.arange(len(kept))
    sc, ll = new_index[sc_at], new_index[ll_at]
    matched &= ll >= 0
    out["back"][sc[matched & (sc >= 0)]] = (sc - ll)[matched & (sc >= 0)]
    out["kind"][sc[~matched & (sc >= 0)]] = Op.STORE


def _dependent(out: np.ndarray, pc: np.ndarray, flags: np.ndarray, rules: Rules) -> np.ndarray:
    """Positions whose address register was filled by the latest load, at most DEP_INSTRUCTIONS ago and not across an
    interrupt."""
    loads = (out["kind"] == Op.LOAD) | (out["kind"] == Op.LL)
    position = np.arange(len(out))
    latest = np.maximum.accumulate(np.where(loads, position, -1)) if len(out) else position
    latest = np.concatenate(([-1], latest[:-1])) if len(out) else latest
    some = np.flatnonzero((latest >= 0) & (rules.address_mask[pc] != 0))
    source = latest[some]
    register = rules.loaded[pc[source]]
    instructions = np.cumsum(out["gap"], dtype=np.int64)
    near = instructions[some] - instructions[source] <= DEP_INSTRUCTIONS
    breaks = np.cumsum((flags & RecordFlag.AFTER_DROP) != 0)
    same_context = breaks[some] == breaks[source]
    uses = (rules.address_mask[pc[some]] >> np.maximum(register, 0).astype(np.uint32)) & 1 != 0
    return some[near & same_context & (register >= 0) & uses]


def chunk_ends(records: np.ndarray, size: int) -> np.ndarray:
    """Ends of consecutive pieces of at least ``size`` records (the last may be shorter), none between an LL and its SC."""
    if size < 1:
        raise ValueError("a chunk holds at least one record")
    count = len(records)
    inside = np.zeros(count + 1, np.int32)                    # > 0: cutting before this record would part an LL and its SC
    sc = np.flatnonzero(records["back"])
    np.add.at(inside, sc - records["back"][sc] + 1, 1)
    np.add.at(inside, sc + 1, -1)
    allowed = np.flatnonzero(np.cumsum(inside) == 0)
    ends: list[int] = []
    at = 0
    while at < count:
        at = int(allowed[np.searchsorted(allowed, min(at + size, count))])
        ends.append(at)
    return np.array(ends, np.int64)

