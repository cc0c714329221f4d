"""Reader of the MTC1 container (``*.mtc.xz``): header, PC table, interleave and the columns of each vCPU.

All integers are little endian; a *block* is ``u32 n`` and n bytes::

    "MTC1"  block JSON  block PC-table  block interleave  u8 streams
    per stream: u8 vcpu, u32 records, blocks OP G P A X          (the columns; see RAW and the OP_* bits in records.py)

Nothing is trusted: every length, count and index is checked, and a fault is one TraceError that names the place.
"""
from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from cohsim.errors import Problem, TraceError
from cohsim.traces.records import KINDS_WITH_ADDRESS, OP_EVENT_SHIFT, OP_KIND, OP_NEW_PAGE, OP_SIZE_SHIFT, PAGE_SHIFT, RAW, Kind
from cohsim.traces.varint import decode_varints, unzigzag

MAGIC = b"MTC1"
XZ_MAGIC = b"\xfd7zXZ\0"
COLUMNS = ("OP", "G", "P", "A", "X")
MAX_BODY_BYTES = 4 << 30       # some 500 M records; a file that unpacks to more is refused instead of filling the memory
MAX_VCPUS = 128                # a vCPU number is one byte, and one varint byte in the interleave
DAMAGED = "the file is damaged, copy or record it again"


@dataclass(frozen=True)
class PcTable:
    """The traced instructions, ascending by address."""

    address: np.ndarray        # uint64[n], virtual
    cls: np.ndarray            # uint8[n], CLASS_* bits
    code: list[bytes]          # instruction bytes as they lie in memory, b"" where the file has none

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True)
class StoredStream:
    """The columns of one vCPU, still packed (7-8 bytes per record)."""

    vcpu: int
    records: int
    columns: dict[str, np.ndarray]    # uint8 arrays by COLUMNS


@dataclass(frozen=True)
class Container:
    """A file taken apart, columns not yet decoded."""

    path: Path
    meta: dict[str, Any]
    pcs: PcTable
    run_vcpu: np.ndarray       # uint8[r], the observed global order: run i is ...
    run_records: np.ndarray    # int64[r], ... this many records of that vCPU
    streams: dict[int, StoredStream]


def fail(path: Path, what: str, remedy: str = DAMAGED) -> NoReturn:
    """Raise the TraceError of a whole file."""
    raise TraceError(Problem(str(path), what, remedy))


def unpack(path: Path) -> bytes:
    """The body of an ``.xz`` file. Raises TraceError if it cannot be read, is not xz, is cut off or unpacks to too much."""
    decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    parts: list[bytes] = []
    total = 0
    try:
        with open(path, "rb") as file:
            while not decoder.eof:
                chunk = file.read(1 << 20) if decoder.needs_input else b""
                if decoder.needs_input and not chunk:
                    fail(path, "the file ends in the middle of its compressed data" if file.tell() else "the file is empty")
                parts.append(decoder.decompress(chunk, max_length=64 << 20))
                total += len(parts[-1])
                if total > MAX_BODY_BYTES:
                    fail(path, f"the file unpacks to more than {MAX_BODY_BYTES >> 30} GiB", "record a shorter window")
            if decoder.unused_data or file.read(1):
                fail(path, "there is more data after the end of the compressed trace")
    except OSError as error:
        fail(path, f"cannot read the file ({error.strerror or error})", "check the name and the permissions")
    except lzma.LZMAError as error:
        if not total:
            fail(path, "this is not a recorded trace (not xz-compressed)", "give a .mtc.xz file made by the capture tools")
        fail(path, f"the compressed data is corrupt ({error})")
    return b"".join(parts)


def is_recorded(path: str | Path) -> bool:
    """Whether ``path`` is meant to be a recorded trace: named ``*.mtc.xz`` or ``*.mtc``, or xz-compressed whatever its name."""
    path = Path(path)
    if path.name.endswith((".mtc.xz", ".mtc")):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(len(XZ_MAGIC)) == XZ_MAGIC
    except OSError:
        return False                                         # whoever opens it says why it cannot be read


class _Body:
    """A cursor over the unpacked body."""

    def __init__(self, path: Path, data: bytes):
        self.path, self.data, self.at = path, data, 0

    def take(self, count: int, what: str) -> bytes:
        if count > len(self.data) - self.at:
            fail(self.path, f"the data ends inside {what} ({count} bytes wanted, {len(self.data) - self.at} left)")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, size: int, what: str) -> int:
        return int.from_bytes(self.take(size, what), "little")

    def block(self, what: str) -> bytes:
        return self.take(self.number(4, f"the length of {what}"), what)


def read_container(path: str | Path) -> Container:
    """Take a ``.mtc.xz`` file apart. Raises TraceError; any exception but that is a bug."""
    path = Path(path)
    body = _Body(path, unpack(path))
    if body.data[:4] != MAGIC:
        remedy = "give a .mtc.xz file made by the capture tools"
        found = body.data[:4].decode("latin-1").encode("unicode_escape").decode()
        fail(path, f'this is not a recorded trace (it starts with "{found}", not "MTC1")', remedy)
    body.at = 4
    meta = _read_meta(path, body.block("the header"))
    pcs = _read_pcs(path, body.block("the PC table"))
    runs = body.block("the interleave")
    streams: dict[int, StoredStream] = {}
    for _ in range(body.number(1, "the number of streams")):
        vcpu, records = body.number(1, "a stream's vCPU number"), body.number(4, "a stream's record count")
        if vcpu in streams or vcpu >= MAX_VCPUS:
            fail(path, f"vCPU {vcpu} " + ("has two streams" if vcpu in streams else f"is out of range (0 to {MAX_VCPUS - 1})"))
        columns = {c: np.frombuffer(body.block(f"vCPU {vcpu}, column {c}"), np.uint8) for c in COLUMNS}
        streams[vcpu] = StoredStream(vcpu, records, columns)
        if len(columns["OP"]) != 2 * records:
            fail(path, f"vCPU {vcpu}, column OP: {len(columns['OP'])} bytes for {records} records of 2 bytes")
    if body.at != len(body.data):
        fail(path, f"{len(body.data) - body.at} bytes follow the last stream")
    if not streams:
        fail(path, "the trace holds no vCPU", "record it again")
    run_vcpu, run_records = _read_runs(path, runs, streams)
    return Container(path, meta, pcs, run_vcpu, run_records, streams)


def _read_meta(path: Path, text: bytes) -> dict[str, Any]:
    try:
        meta = json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        fail(path, f"the header is not JSON ({error})")
    if not isinstance(meta, dict):
        fail(path, "the header is not a JSON object")
    if not isinstance(meta.get("arch"), str):
        fail(path, 'the header has no "arch"', "record it again with the capture tools")
    return meta


def _read_pcs(path: Path, data: bytes) -> PcTable:
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                fail(path, "the PC table: a number exceeds 64 bits")

    try:
        count = varint()
        if count > len(data):
            fail(path, f"the PC table claims {count} entries in {len(data)} bytes")
        addresses, classes, code = [], bytearray(), []
        pc = 0
        for _ in range(count):
            pc += varint()
            if pc >> 64:
                fail(path, "the PC table: an address exceeds 64 bits")
            addresses.append(pc)
            classes.append(data[at])
            length = data[at + 1]
            if length > len(data) - at - 2:
                fail(path, "the PC table ends inside an instruction")
            code.append(data[at + 2:at + 2 + length])
            at += 2 + length
    except IndexError:
        fail(path, "the PC table ends inside an entry")
    if at != len(data):
        fail(path, f"the PC table has {len(data) - at} bytes after its last entry")
    return PcTable(np.array(addresses, np.uint64), np.frombuffer(bytes(classes), np.uint8), code)


def _read_runs(path: Path, data: bytes, streams: dict[int, StoredStream]) -> tuple[np.ndarray, np.ndarray]:
    """vCPU numbers are below 128, so each is a one-byte varint too and the whole block is one varint column."""
    try:
        numbers = decode_varints(np.frombuffer(data, np.uint8))
    except ValueError as error:
        fail(path, f"the interleave: {error}")
    if not len(numbers) or len(numbers) != 2 * int(numbers[0]) + 1:
        fail(path, "the interleave does not hold the number of runs it claims")
    vcpu, records = numbers[1::2], numbers[2::2]
    if len(vcpu) and (int(vcpu.max()) >= MAX_VCPUS or int(records.max()) >> 32):
        fail(path, "the interleave names a vCPU or a run length that is out of range")
    total = np.bincount(vcpu.astype(np.int64), records.astype(np.float64), MAX_VCPUS)    # below 2**53: exact
    for number in range(MAX_VCPUS):
        stored = streams[number].records if number in streams else 0
        if total[number] != stored:
            fail(path, f"the interleave has {int(total[number])} records of vCPU {number}, its stream {stored}")
    return vcpu.astype(np.uint8), records.astype(np.int64)


def decode_stream(container: Container, vcpu: int) -> np.ndarray:
    """Every stored record of one vCPU as a RAW array, in program order.

    Addresses are chains of differences per PC: grouped by PC (a stable sort), a chain is a running sum. A page's physical number
    holds from the record that carries it until replaced: grouped by virtual page, it is a forward fill. Raises TraceError.
    """
    path, stream = container.path, container.streams[vcpu]
    where = f"vCPU {vcpu}, column "
    op = stream.columns["OP"].view("<u2").astype(np.uint16, copy=False)
    out = np.zeros(stream.records, RAW)
    kind = (op & OP_KIND).astype(np.uint8)
    memory = np.flatnonzero(kind < KINDS_WITH_ADDRESS)
    new_page = (op[memory] & OP_NEW_PAGE) != 0
    expected = {"G": stream.records, "P": stream.records, "A": len(memory), "X": int(new_page.sum())}
    column: dict[str, np.ndarray] = {}
    for name, count in expected.items():
        try:
            column[name] = decode_varints(stream.columns[name])
        except ValueError as error:
            fail(path, f"{where}{name}: {error}")
        if len(column[name]) != count:
            fail(path, f"{where}{name}: {len(column[name])} values, {count} expected")
    if stream.records and int(column["G"].max()) >> 32:
        fail(path, f"{where}G: a gap exceeds 32 bits")
    pc = np.cumsum(unzigzag(column["P"]))
    if stream.records and (int(pc.min()) < 0 or int(pc.max()) >= len(container.pcs)):
        fail(path, f"{where}P: an index lies outside the PC table ({len(container.pcs)} entries)")
    out["kind"], out["flags"], out["gap"], out["pc"] = kind, op & ~np.uint16((1 << 6) - 1), column["G"], pc
    out["size"] = np.where(kind == Kind.EVENT, (op >> OP_EVENT_SHIFT) & 3, 0)
    out["size"][memory] = 1 << ((op[memory] >> OP_SIZE_SHIFT) & 7)
    va = _running_sums(unzigzag(column["A"]), pc[memory])
    out["va"][memory] = va
    frame = _forward_fill(column["X"], new_page, va >> np.uint64(PAGE_SHIFT))
    if frame is None:
        fail(path, f"{where}X: a page is used before its physical address is given")
    if len(frame) and int(frame.max()) >> (63 - PAGE_SHIFT):
        fail(path, f"{where}X: a physical address exceeds 63 bits")
    out["pa"][memory] = (frame << np.uint64(PAGE_SHIFT)) | (va & np.uint64((1 << PAGE_SHIFT) - 1))
    return out


def _running_sums(differences: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Per group, the running sum in order of appearance, modulo 2**64."""
    if not len(group):
        return np.zeros(0, np.uint64)
    order = np.argsort(group.astype(np.uint16) if group.max() < 1 << 16 else group, kind="stable")    # 16 bits: radix sort
    total = np.cumsum(differences[order].view(np.uint64))
    grouped = group[order]
    start = np.flatnonzero(np.diff(grouped, prepend=-1))
    before = total[start - 1]
    before[0] = 0
    sums = np.empty(len(group), np.uint64)
    sums[order] = total - np.repeat(before, np.diff(start, append=len(group)))
    return sums


def _forward_fill(given: np.ndarray, is_given: np.ndarray, page: np.ndarray) -> np.ndarray | None:
    """The latest given value of each record's page; None if a page is used before one is given. ``given`` is in record order."""
    if not len(page):
        return np.zeros(0, np.uint64)
    unique, group = np.unique(page, return_inverse=True)
    order = np.argsort(group.astype(np.uint16) if len(unique) < 1 << 16 else group, kind="stable")
    given_sorted = is_given[order]
    if not given_sorted[np.flatnonzero(np.diff(group[order], prepend=-1))].all():
        return None
    value = np.zeros(len(page), np.uint64)
    value[is_given] = given
    latest = np.maximum.accumulate(np.where(given_sorted, np.arange(len(page)), 0))
    filled = np.empty(len(page), np.uint64)
    filled[order] = value[order][latest]
    return filled
