"""What one run of the core returns, still in integers and femtoseconds: the only input of results and reports."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

CATEGORIES = ("issue", "l1", "l2", "cluster", "home", "remote_clean", "remote_dirty", "upgrade", "memory",
              "store_buffer", "atomic", "retry", "fence", "spin", "idle")
"""Where a thread's time goes; exactly one per femtosecond. Axis C of ``RunData.time_fs``.

issue: dispatching instructions (including SMT sharing and mispredicts); l1: waiting for an L1 hit another operation depends on;
l2: private L2 or the cluster's L2, including waiting for the line there; cluster: the same when another core of the cluster wrote last;
home: L3 or memory-side cache; remote_clean / remote_dirty: another node supplied the line; upgrade: waiting for other
copies to go; memory: DRAM; store_buffer: it was full; atomic: the fixed cost of a locked operation or LL/SC; retry: everything from a
lost reservation to the next successful store-conditional; fence; spin: inside wait loops; idle: no packet to work on."""

SERVED = ("forward", "l1", "l2", "cluster", "home", "remote_clean", "remote_dirty", "upgrade", "memory")
"""Who served a memory operation. Axis L of ``RunData.served``."""

LINE_STATS = ("loads", "stores", "atomics", "fills", "upgrades", "transfers_near", "transfers_far", "remote_clean", "remote_dirty",
              "memory", "invalidations", "sc_failures", "stall_fs", "queue_fs")
"""Columns of ``RunData.line_stats``. loads/stores/atomics count operations that left the core (L1 hits are not seen
per line); fills: the line came to a node; transfers_near: from another core of the same cluster (the L2 moved it between L1s);
transfers_far: from another node; invalidations: copies dropped because of another's store; sc_failures: store-conditionals
that failed; stall_fs: thread time waiting for the line; queue_fs: time requests waited in line queues at L2 and home."""


@dataclass
class RunData:
    """Arrays of one run. T threads (CPUs of the run), U micro-ops, C categories, L levels, N nodes, K lines."""

    stop: str                       # finished (time or all threads halted), interrupted, deadlock, limit
    stop_report: str                # text of the deadlock report, "" otherwise
    measured_fs: int                # length of the measured window
    total_fs: int                   # simulated time including warm-up
    time_fs: np.ndarray             # int64[T, U, C]; sums over U and C to measured_fs for each thread that ran all the window
    count: np.ndarray               # int64[T, U] executions
    served: np.ndarray              # int64[T, U, L]
    sc_failures: np.ndarray         # int64[T, U]
    iterations: np.ndarray          # int64[T] paths (packets) completed
    received: np.ndarray            # int64[T] packets taken from the receive queue
    dropped: np.ndarray             # int64[T] packets that found the receive queue full
    line_address: np.ndarray        # int64[K] first byte of each line that was missed or fought for
    line_stats: np.ndarray          # int64[K, len(LINE_STATS)]
    line_overflow: int              # events of lines that found the line table full (counted, not attributed)
    node_transfers: np.ndarray      # int64[N, N]: lines moved from node i to node j
    latency_hist: np.ndarray        # int64[L, 64]: operations by level and floor(log2(core cycles)) (bin 0: under 2 cycles)
    transitions: dict[str, tuple[list[str], list[str], np.ndarray]]   # controller -> (states, events, int64[S, E])
    counters: dict[str, int] = field(default_factory=dict)   # home_requests, home_snoops, home_blocked_fs, memory_reads, memory_writes, ...
    memory_operations: int = 0      # loads, stores and atomics executed, whole run
    events: int = 0                 # messages: events processed by the queue, whole run
    host_seconds: float = 0.0
    local_turns: int = 0            # cores' own actions that the event loop took, whole run; like host time, no result: depends on look-ahead

    @property
    def actions(self) -> int:
        """Everything the event loop took from its schedule: messages from the queue and cores' own turns."""
        return self.events + self.local_turns
