"""Load a recorded trace: decode, convert, and name its data."""
from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cohsim.traces.convert import KEY_PCS, Rules, chunk_ends, convert
from cohsim.traces.instructions import ISA_OF_ARCH, fence_kind, primitive_name
from cohsim.traces.mtc import Container, decode_stream, fail, read_container
from cohsim.traces.names import TOUCH, Names, name_data
from cohsim.traces.objects import NamedRange, read_c2c, read_objects
from cohsim.traces.records import KINDS_WITH_ADDRESS, OP_NEW_PAGE, PAGE_SHIFT
from cohsim.traces.symbols import KERNEL, SymbolTable, read_symbols, sidecar
from cohsim.uops import UOP, Fence, Op

PACKET_FUNCTION = "ip6_forward"     # the capture window counts packets by its executions


@dataclass
class RecordedTrace:
    """A recorded trace ready for the core. Memory: 24 bytes per kept record, 7-8 bytes per stored one (columns, for
    :meth:`raw`)."""

    path: Path
    meta: dict[str, Any]
    isa: str                          # "x86" or "power": the instruction set it was recorded on
    container: Container
    symbols: SymbolTable
    given: list[list[NamedRange]]     # names from sidecars, best source first
    keep_interrupts: bool
    vcpus: tuple[int, ...]            # vCPU numbers; CPU i of a run is vcpus[i]
    streams: list[np.ndarray]         # RECORD arrays, by CPU of the run
    uops: np.ndarray                  # UOP[n], one per instruction, operation and size
    uop_pc: np.ndarray                # uint64[n], address of the instruction
    func_names: list[str]
    prim_names: list[str]
    pages: dict[int, int]             # physical page -> virtual page, kernel addresses preferred
    assumptions: list[str]
    _names: dict[int, Names] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Kept records of all vCPUs."""
        return sum(len(s) for s in self.streams)

    @property
    def stored_records(self) -> int:
        """Records in the file."""
        return sum(s.records for s in self.container.streams.values())

    @property
    def kernel(self) -> str:
        """Kernel release of the recording, "" if the header has none."""
        return str(self.meta.get("kernel", ""))

    @cached_property
    def sha256(self) -> str:
        """Checksum of the file, for provenance."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def stream(self, vcpu: int) -> np.ndarray:
        """Kept records of a vCPU (number as recorded) in program order."""
        if vcpu not in self.vcpus:
            fail(self.path, f"there is no vCPU {vcpu}", f"recorded are {', '.join(map(str, self.vcpus))}")
        return self.streams[self.vcpus.index(vcpu)]

    def raw(self, vcpu: int) -> np.ndarray:
        """Every stored record of a vCPU, as a RAW array; decoded anew at each call."""
        self.stream(vcpu)
        return decode_stream(self.container, vcpu)

    def chunks(self, vcpu: int, records: int) -> Iterator[np.ndarray]:
        """The stream in pieces (views) of at least ``records`` records, the last may be shorter.

        A piece is longer only to keep an LL and its SC together: no piece ends between them, so ``back`` never leaves its piece.
        """
        stream = self.stream(vcpu)
        start = 0
        for end in chunk_ends(stream, records).tolist():
            yield stream[start:end]
            start = end

    @cached_property
    def touch(self) -> np.ndarray:
        """TOUCH table of the kept records."""
        return np.concatenate([_touches(s, v) for v, s in zip(self.vcpus, self.streams, strict=True)])

    @property
    def names(self) -> Names:
        """Names of the data, for 64-byte lines (e6500 and x86)."""
        return self.names_for(64)

    def names_for(self, line_bytes: int) -> Names:
        """Names of the data of a machine with lines of ``line_bytes``."""
        if line_bytes not in self._names:
            functions = [self.func_names[f] for f in self.uops["func"]]
            self._names[line_bytes] = name_data(self.touch, self.uops["op"], self.uops["size"], functions, self.pages,
                                                self.symbols, self.given, self.kernel, line_bytes)
        return self._names[line_bytes]

    @property
    def line_names(self) -> dict[int, tuple[str, list[str]]]:
        """Line address -> (object, fields the trace touches in that line)."""
        return self.names.lines


def load_recorded(path: str | Path, *, keep_interrupts: bool = False, objects: str | Path | None = None) -> RecordedTrace:
    """Load ``path`` (``*.mtc.xz``) and the sidecars beside it: ``NAME.syms.xz``, ``NAME.objects``, ``NAME.c2c.txt``, each
    optional.

    ``keep_interrupts`` keeps records of interrupt context (over-represented in a QEMU capture, so left out otherwise).
    ``objects`` names an ``.objects`` file to use in place of the one beside the trace. Raises TraceError if a file is damaged or
    foreign.
    """
    path = Path(path)
    container = read_container(path)
    arch = container.meta["arch"]
    if arch not in ISA_OF_ARCH:
        fail(path, f'the trace was recorded on "{arch}", which is not known', f"known are {', '.join(ISA_OF_ARCH)}")
    if len(container.pcs) >= KEY_PCS:
        fail(path, f"{len(container.pcs)} instructions, at most {KEY_PCS - 1} are possible", "record a shorter window")
    symbols = read_symbols(sidecar(path, ".syms.xz")) if sidecar(path, ".syms.xz").exists() else SymbolTable()
    named = Path(objects) if objects is not None else sidecar(path, ".objects")
    given = [read_objects(named)] if objects is not None or named.exists() else []
    if sidecar(path, ".c2c.txt").exists():
        given.append(read_c2c(sidecar(path, ".c2c.txt")))
    functions = [symbols.function(pc) for pc in container.pcs.address.tolist()]
    rules = Rules.of(arch, container.pcs, keep_interrupts, _packet_pc(functions))
    vcpus = tuple(sorted(container.streams))
    streams = []
    pages: dict[int, int] = {}
    for vcpu in vcpus:
        raw = decode_stream(container, vcpu)
        _note_pages(pages, raw)
        try:
            streams.append(convert(raw, rules)[0])
        except ValueError as error:
            fail(path, f"vCPU {vcpu}: {error}")
    uops, uop_pc, func_names, prim_names, assumed = _make_uops(container, streams, functions)
    return RecordedTrace(path, container.meta, ISA_OF_ARCH[arch], container, symbols, given, keep_interrupts, vcpus, streams,
                         uops, uop_pc, func_names, prim_names, pages, assumed)


def _packet_pc(functions: list[str]) -> int:
    """Index of the first traced instruction of the packet function: the entry code saves registers, once per call."""
    return functions.index(PACKET_FUNCTION) if PACKET_FUNCTION in functions else -1


def _note_pages(pages: dict[int, int], raw: np.ndarray) -> None:
    """Add the stream's translations; the records that gave one are marked."""
    new = raw[(raw["kind"] < KINDS_WITH_ADDRESS) & ((raw["flags"] & OP_NEW_PAGE) != 0)]
    physical_pages, virtual_pages = new["pa"] >> np.uint64(PAGE_SHIFT), new["va"] >> np.uint64(PAGE_SHIFT)
    for physical, virtual in zip(physical_pages.tolist(), virtual_pages.tolist(), strict=True):
        if physical not in pages or pages[physical] << PAGE_SHIFT < KERNEL <= virtual << PAGE_SHIFT:
            pages[physical] = virtual


def _make_uops(container: Container, streams: list[np.ndarray], functions: list[str]) -> tuple[
        np.ndarray, np.ndarray, list[str], list[str], list[str]]:
    """One micro-op per key of :func:`convert`; the streams' keys become indexes."""
    keys = np.unique(np.concatenate([np.unique(s["uop"]) for s in streams]))
    for s in streams:
        s["uop"] = np.searchsorted(keys, s["uop"])
    arch, pcs = container.meta["arch"], container.pcs
    pc = keys >> 6
    uops = np.zeros(len(keys), UOP)
    for name in ("dst", "a", "b", "areg", "prim", "field"):
        uops[name] = -1
    uops["op"] = keys >> 3 & 7
    uops["size"] = np.where(uops["op"] == Op.FENCE, 0, 1 << (keys & 7))
    func_index: dict[str, int] = {}
    prim_index: dict[str, int] = {}
    unknown_fences = 0
    for u, i in zip(uops, pc.tolist(), strict=True):
        u["func"] = func_index.setdefault(functions[i], len(func_index))
        cls, code = int(pcs.cls[i]), pcs.code[i]
        if u["op"] == Op.FENCE:
            kind = fence_kind(arch, cls, code)
            unknown_fences += kind is None
            u["imm"] = Fence.FULL if kind is None else kind
        elif primitive := primitive_name(arch, cls, code, int(u["size"])):
            u["prim"] = prim_index.setdefault(primitive, len(prim_index))
    assumed = [f"{unknown_fences} barrier instructions of unknown kind are taken for full barriers"] if unknown_fences else []
    return uops, pcs.address[pc], list(func_index), list(prim_index), assumed


def _touches(stream: np.ndarray, vcpu: int) -> np.ndarray:
    memory = stream[stream["kind"] != Op.FENCE]
    addresses, at = np.unique(memory["address"], return_inverse=True)
    pairs, count = np.unique(at.astype(np.int64) << 32 | memory["uop"], return_counts=True)
    out = np.zeros(len(pairs), TOUCH)
    out["address"], out["uop"], out["vcpu"], out["count"] = addresses[pairs >> 32], pairs & 0xFFFFFFFF, vcpu, count
    return out
