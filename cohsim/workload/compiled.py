"""What the workload compiler hands to the core: integers and tables, no syntax."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class PlacedObject:
    """An object with its real addresses: instance i starts at ``base + i * stride``."""

    name: str
    struct: str
    scope: str            # shared, per-cpu, per-packet, per-flow, per-queue
    base: int
    size_bytes: int       # of one instance
    stride_bytes: int     # 0 for shared
    instances: int


@dataclass(frozen=True)
class FieldRef:
    """A named byte range of an object that micro-ops refer to."""

    object: str
    field: str            # "" for an anonymous range
    offset_bytes: int     # in the object
    size_bytes: int


@dataclass(frozen=True)
class Source:
    """Where packets come from. ``rate_pps`` is the offered rate of all queues together."""

    rate_pps: float
    frame_bytes: int
    overhead_bytes: int            # preamble, gap: counts on the wire, not in throughput_bps
    ring: int                      # packets a receive queue holds; more are dropped
    weights: tuple[float, ...]     # share of the offered load of each CPU's queue, sums to 1
    flows: int
    link_bps: float                # of the egress link, 0 for no limit
    arrivals: str                  # "constant" or "poisson"
    pool: int                      # packet buffers; handed out first in first out, as a hardware buffer manager does


@dataclass
class CompiledWorkload:
    """Everything the core needs, and the names the report needs."""

    name: str
    text: str
    isa: str
    cpus: int
    variants: tuple[str, ...]
    uops: np.ndarray               # UOP[n]
    entry: np.ndarray              # int32[cpus], first micro-op of each CPU
    func_names: list[str]
    prim_names: list[str]          # portable names: atomic_inc, atomic_dec_return, ...
    fields: list[FieldRef]
    objects: list[PlacedObject]
    memory: list[tuple[int, int, int]] = field(default_factory=list)   # address, size, initial value
    source: Source | None = None   # None: iterations follow each other without waiting
    warmup_ns: float = 50_000.0    # excluded from every figure
    measure_ns: float = 500_000.0
    assumptions: list[str] = field(default_factory=list)
