"""MTC1: varints, columns, container, and what happens to damaged files."""
from __future__ import annotations

import lzma
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces_building import BASE_VA, pc_table, raw, write

from cohsim.errors import TraceError
from cohsim.traces import is_recorded, load_recorded
from cohsim.traces.mtc import decode_stream, read_container
from cohsim.traces.pack import encode_stream
from cohsim.traces.records import OP_ATOMIC, OP_HARDWARE, OP_INTERRUPT, OP_MMIO, OP_NEW_PAGE, RAW, Kind
from cohsim.traces.symbols import read_symbols
from cohsim.traces.varint import decode_varints, encode_varints, unzigzag, zigzag

U64 = st.integers(0, 2**64 - 1) | st.integers(0, 300)


def slow_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@given(st.lists(U64, max_size=40))
def test_varints_are_leb128(values: list[int]) -> None:
    column = b"".join(map(slow_varint, values))
    assert encode_varints(np.array(values, np.uint64)) == column
    assert decode_varints(np.frombuffer(column, np.uint8)).tolist() == values


@pytest.mark.parametrize("column", [b"\x80", b"\x01\xff", b"\x80" * 10 + b"\x01", b"\xff" * 9 + b"\x02"])
def test_bad_varints_are_refused(column: bytes) -> None:
    with pytest.raises(ValueError, match="varint"):
        decode_varints(np.frombuffer(column, np.uint8))


@given(st.lists(st.integers(-2**63, 2**63 - 1) | st.integers(-5, 5), max_size=40))
def test_zigzag(values: list[int]) -> None:
    packed = zigzag(np.array(values, np.int64))
    assert packed.tolist() == [2 * v if v >= 0 else -2 * v - 1 for v in values]
    assert unzigzag(packed).tolist() == values


@st.composite
def stored_streams(draw: st.DrawFn, pcs: int = 6) -> np.ndarray:
    """Any valid RAW stream: few pages that change their translation, several chains of addresses, all kinds."""
    count = draw(st.integers(0, 30))
    out = np.zeros(count, RAW)
    frames = draw(st.lists(st.integers(0, 2**51 - 1), min_size=1, max_size=4))
    va_pages = draw(st.lists(st.integers(0, 2**52 - 1), min_size=1, max_size=3))
    for record in out:
        kind = draw(st.sampled_from(list(Kind)))
        flags = draw(st.sampled_from((0, OP_INTERRUPT, OP_MMIO, OP_HARDWARE, OP_ATOMIC, OP_INTERRUPT | OP_ATOMIC)))
        record["kind"], record["flags"], record["gap"] = kind, flags, draw(st.integers(0, 2**32 - 1) | st.integers(0, 9))
        record["pc"] = draw(st.integers(0, pcs - 1))
        if kind == Kind.EVENT:
            record["size"] = draw(st.integers(0, 3))
        elif kind < Kind.BARRIER:
            offset = draw(st.integers(0, 4095))
            record["size"] = 1 << draw(st.integers(0, 7))
            record["va"] = draw(st.sampled_from(va_pages)) << 12 | offset
            record["pa"] = draw(st.sampled_from(frames)) << 12 | offset
    return out


def without_page_and_event_bits(stream: np.ndarray) -> np.ndarray:
    out = stream.copy()
    out["flags"] &= ~np.uint16(OP_NEW_PAGE | 3 << 11)      # the writer decides where a translation is given; size has the event
    return out


@settings(max_examples=60, deadline=None)
@given(first=stored_streams(), second=stored_streams())
def test_round_trip(first: np.ndarray, second: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.mtc.xz"
    pcs = pc_table([0, 1, 2, 4, 8, 7], [b"", b"\x01", b"\x90" * 14, b"", b"ab", b"\xff"])
    container = read_container(write(path, {0: first, 5: second}, pcs, kernel="k"))
    assert container.meta["kernel"] == "k" and container.meta["records"] == len(first) + len(second)
    assert container.pcs.address.tolist() == pcs.address.tolist() and container.pcs.code == pcs.code
    assert container.pcs.cls.tolist() == pcs.cls.tolist()
    for vcpu, stream in ((0, first), (5, second)):
        decoded = decode_stream(container, vcpu)
        np.testing.assert_array_equal(without_page_and_event_bits(decoded), without_page_and_event_bits(stream))
        assert [bytes(c) for c in container.streams[vcpu].columns.values()] == encode_stream(decoded)


def example(path: Path) -> bytes:
    """A file of a few records with every column filled; returns its body."""
    stream = raw((Kind.LOAD, 0x1000), (Kind.LL, 0x2040, 3, 1), (Kind.SC, 0x2040, 2, 2), (Kind.BARRIER, 0, 1, 3),
                 (Kind.STORE, 0x1008))
    write(path, {0: stream, 1: stream[:3]}, pc_table([0, 3, 3, 4], [b"abcd"] * 4))
    return lzma.decompress(path.read_bytes())


def refused(path: Path) -> str:
    """The one line the user sees; it names the file, and what to do."""
    with pytest.raises(TraceError) as caught:
        load_recorded(path)
    message = str(caught.value)
    assert re.fullmatch(rf"{re.escape(str(path))}: [^\n]+; [^\n]+", message), message
    return message


def test_truncated_at_every_byte_of_the_body(tmp_path: Path) -> None:
    path = tmp_path / "t.mtc.xz"
    body = example(path)
    assert load_recorded(path).records == 8
    for length in range(len(body)):
        path.write_bytes(lzma.compress(body[:length], preset=0))
        refused(path)


def test_truncated_at_every_byte_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.mtc.xz"
    example(path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert "ends in the middle" in refused(path) if length else "is empty" in refused(path)
    path.write_bytes(whole + b"x")
    assert "more data after the end" in refused(path)


def test_a_changed_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    """Single-byte damage of the body either loads (another address, another gap) or is one clear error."""
    path = tmp_path / "t.mtc.xz"
    body = example(path)
    outcomes = {"refused": 0, "loaded": 0}
    for at in range(len(body)):
        for change in (0x01, 0xFF):
            path.write_bytes(lzma.compress(body[:at] + bytes([body[at] ^ change]) + body[at + 1:], preset=0))
            try:
                load_recorded(path)
                outcomes["loaded"] += 1
            except TraceError as error:
                assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
                outcomes["refused"] += 1
    assert outcomes["refused"] > 150 and outcomes["loaded"] > 50


@pytest.mark.parametrize(("content", "expected"), [
    (b"", "the file is empty"),
    (b"hello, world\n", "not xz-compressed"),
    (b"\x1f\x8b\x08\0" + bytes(200), "not xz-compressed"),
    (b"\x7fELF" + bytes(range(256)) * 8, "not xz-compressed"),
    (lzma.compress(b""), 'it starts with ""'),
    (lzma.compress(b"PK\x03\x04 something else"), r'it starts with "PK\x03\x04"'),
    (lzma.compress(b"MTC1\x02\0\0\0{]"), "the header is not JSON"),
    (lzma.compress(b"MTC1\x02\0\0\0[]"), "not a JSON object"),
    (lzma.compress(b"MTC1\x02\0\0\0{}"), 'the header has no "arch"'),
    (lzma.compress(b"MTC1\xff\xff\xff\xff{}"), "the data ends inside the header"),
])
def test_foreign_files(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "foreign.mtc.xz"
    path.write_bytes(content)
    assert expected in refused(path)


def test_no_file_and_a_directory(tmp_path: Path) -> None:
    assert "cannot read the file (No such file" in refused(tmp_path / "absent.mtc.xz")
    assert "cannot read the file (Is a directory)" in refused(tmp_path)


def test_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "a.trace").write_text("cohsim-trace 1\n")
    (tmp_path / "renamed").write_bytes(lzma.compress(b"x"))
    assert is_recorded(tmp_path / "absent.mtc.xz") and is_recorded(tmp_path / "renamed")
    assert not is_recorded(tmp_path / "a.trace") and not is_recorded(tmp_path) and not is_recorded(tmp_path / "absent")


def test_unknown_architecture(tmp_path: Path) -> None:
    message = refused(write(tmp_path / "t.mtc.xz", {0: raw((Kind.LOAD, 0))}, arch="riscv"))
    assert 'recorded on "riscv"' in message and "known are x86, ppc, ppcbe" in message


def test_interleave_must_agree_with_the_streams(tmp_path: Path) -> None:
    path = tmp_path / "t.mtc.xz"
    write(path, {0: raw((Kind.LOAD, 0), (Kind.LOAD, 8))})
    body = lzma.decompress(path.read_bytes())
    at = body.index(b"\x03\0\0\0\x01\x00\x02") + 6               # one run: vCPU 0, two records
    path.write_bytes(lzma.compress(body[:at] + b"\x01" + body[at + 1:]))
    assert "the interleave has 1 records of vCPU 0, its stream 2" in refused(path)


def test_chains_and_translations(tmp_path: Path) -> None:
    """One page moves to another frame between two accesses of one instruction, and the address wraps below zero and back."""
    stream = raw((Kind.LOAD, 0x1000), (Kind.LOAD, 0x1040), (Kind.LOAD, 0x1048))
    stream["pa"][1:] = (0x99040, 0x99048)
    stream["va"][2] -= np.uint64(BASE_VA)
    container = read_container(write(tmp_path / "t.mtc.xz", {3: stream}))
    decoded = decode_stream(container, 3)
    assert decoded["pa"].tolist() == [0x1000, 0x99040, 0x99048]
    assert decoded["va"].tolist() == [BASE_VA + 0x1000, BASE_VA + 0x1040, 0x1048]
    assert [bool(f & OP_NEW_PAGE) for f in decoded["flags"].tolist()] == [True, True, True]


def test_damaged_symbols_are_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "t.syms.xz"
    path.write_bytes(lzma.compress(b"c000 T good\nnonsense\nzz T bad\n"))
    with pytest.raises(TraceError) as caught:
        read_symbols(path)
    assert [p.where for p in caught.value.problems] == [f"{path}:2", f"{path}:3"]
    path.write_bytes(b"c000 T not compressed\n")
    with pytest.raises(TraceError, match="not an xz-compressed symbol list"):
        read_symbols(path)
