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
class LockUse:
    """What a lock function of the synchronisation library does to a lock word."""

    kind: str             # ticket, tas, ttas, mcs, queued, spin, rwlock, seqlock
    field: int            # the lock word, index into CompiledWorkload.fields; -1: a pointer in a register leads to it
    acquires: bool        # False: it releases
    site: str = ""        # behind a pointer: the function that uses it


@dataclass(frozen=True)
class LockWord:
    """A field of a struct that lock functions of the synchronisation library are called on, by name or through a pointer."""

    struct: str
    field: str
    offset_bytes: int     # in the struct
    size_bytes: int
    kinds: tuple[str, ...]


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


@dataclass(frozen=True)
class Ring:
    """Descriptor ring of every queue of a NIC; offsets are bytes in a descriptor, -1 where they do not apply."""

    base: int             # of queue 0
    stride: int           # from queue to queue
    entries: int
    descriptor: int       # bytes of one
    address_at: int       # RX: the driver's buffer address (8 bytes)
    command_at: int       # TX: length, flags, MSS, header bytes (8 bytes)
    done_at: int          # the NIC writes 1 (4 bytes)
    info_at: int          # RX: the NIC writes the flow number (4 bytes)


@dataclass(frozen=True)
class Vector:
    """One interrupt vector. Those of one ``interrupt`` line are consecutive, one per CPU; timers have a period."""

    name: str
    cpu: int
    entry: int            # first micro-op of its path
    queue: int            # context slot QUEUE while the path runs
    period_ns: float = 0.0
    first_ns: float = 0.0


@dataclass(frozen=True)
class Nic:
    """A network adapter: one port, ``queues`` receive and transmit queues."""

    name: str
    port_bps: float
    overhead_bytes: int            # of a sent frame on the wire, beyond the length in its descriptors
    queues: int
    rx: Ring
    tx: Ring
    flow_at: int                   # where the NIC writes the flow number into the receive buffer
    fifo_bytes: int
    pause: bool                    # FIFO full: the sender pauses (else the frame is lost)
    drop: bool                     # no descriptor: the frame is dropped (else it blocks the port)
    rx_service_ns: float
    tx_service_ns: float
    writeback: int                 # RX descriptors written back together
    writeback_timeout_ns: float
    rx_moderation_ns: float
    tx_moderation_ns: float
    rx_vectors: tuple[int, ...]    # index into Devices.vectors, by queue
    tx_vectors: tuple[int, ...]
    ack_every: int = 0             # 0: the peer does not answer
    ack_delay_ns: float = 0.0
    ack_moderation_ns: float = 0.0     # least time between two interrupts of the peer, which acknowledges when it handles them
    ack_bytes: int = 0
    output: bool = True            # frames it sends are packets of the run


@dataclass(frozen=True)
class Traffic:
    """Frames that arrive at a NIC; flow i goes to queue ``queue_of_flow[i]``."""

    nic: int
    rate_pps: float
    frame_bytes: int
    overhead_bytes: int
    queue_of_flow: tuple[int, ...]
    arrivals: str                  # "constant" or "poisson"


@dataclass(frozen=True)
class Devices:
    """Everything beside the CPUs that acts on its own."""

    nics: tuple[Nic, ...]
    vectors: tuple[Vector, ...]
    traffic: tuple[Traffic, ...]
    counters: tuple[str, ...]      # the first is "dropped"


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
    lock_words: list[LockWord] = field(default_factory=list)
    devices: Devices | None = None
    programs: list[tuple[int, int, str]] = field(default_factory=list)   # micro-ops [first, last) of each program, and its path
    locks: list[LockUse] = field(default_factory=list)
    uop_lock: np.ndarray | None = None   # int32[n]: the LockUse a micro-op is part of, -1: none; None: there are no locks
