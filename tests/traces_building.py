"""Small recorded traces for the tests, written record by record, and a slow reader of our own to compare with."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cohsim.traces.mtc import PcTable
from cohsim.traces.pack import write_mtc
from cohsim.traces.records import OP_INTERRUPT, RAW, Kind

BASE_PC = 0xC000000000010000
BASE_VA = 0xC000000000000000


def raw(*records: tuple[Any, ...]) -> np.ndarray:
    """RAW records from (kind, address, gap=1, pc=0, flags=0, size=8); the virtual address is BASE_VA + the physical one."""
    out = np.zeros(len(records), RAW)
    for i, record in enumerate(records):
        kind, address, gap, pc, flags, size = (*record, *(None, 0, 1, 0, 0, 8)[len(record):])
        has_address = kind < Kind.BARRIER
        out[i] = (kind, size if has_address else 0, flags, gap, pc, BASE_VA + address if has_address else 0,
                  address if has_address else 0)
    return out


def pc_table(classes: list[int], code: list[bytes] | None = None) -> PcTable:
    """Instructions 4 bytes apart from BASE_PC."""
    addresses = BASE_PC + 4 * np.arange(len(classes), dtype=np.uint64)
    return PcTable(addresses.astype(np.uint64), np.array(classes, np.uint8), code or [b""] * len(classes))


def write(path: Path, streams: dict[int, np.ndarray], pcs: PcTable | None = None, arch: str = "ppcbe", **meta: Any) -> Path:
    """Write a trace whose vCPUs take turns record by record."""
    if pcs is None:
        pcs = pc_table([0] * (1 + max((int(s["pc"].max(initial=0)) for s in streams.values()), default=0)))
    longest = max((len(s) for s in streams.values()), default=0)
    order = [v for i in range(longest) for v, s in streams.items() if i < len(s)]
    write_mtc(path, {"arch": arch, **meta}, pcs, np.array(order, np.uint8), streams)
    return path


def irq(*records: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The same records in interrupt context."""
    return [(*r, *(None, 0, 1, 0)[len(r):])[:4] + (OP_INTERRUPT,) for r in records]
