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


NIC_STATS = ("rx_frames", "rx_bytes", "missed", "paused_fs", "blocked_fs", "tx_frames", "tx_bytes", "rx_interrupts", "tx_interrupts",
             "doorbells", "dma_writes", "dma_reads", "arrived")
"""Columns of ``RunData.nic_stats``, in the core's order (NicCounter). rx_frames, rx_bytes: given to the driver; missed: frames lost because
the FIFO was full or their ring had no descriptor; paused_fs: time a sender was held back; blocked_fs: time the frame at the FIFO's head
waited for a descriptor; tx_frames, tx_bytes: sent, by the time their last bit left (segments count one by one); interrupts raised; doorbells:
tail register writes; dma_writes, dma_reads: lines; arrived: frames that entered the FIFO."""

PAIR_COLUMNS = ("kind", "address", "first", "second", "count", "latency_fs", "first_offset", "first_size", "second_offset", "second_size")
"""Columns of ``RunData.pairs``; kind is a PAIR_* value. address: first byte of the line, that of instance 0 where the instances of an
object lie alike on their lines; first, second: micro-ops or threads, -1 unknown; latency_fs: of the takers' operations, from
leaving the thread to the answer; offset, size: the bytes of the line that the micro-op touched (the size rounded up to a power of two), -1
and 0 where there is none."""

PAIR_TAKE, PAIR_KILL, PAIR_CPU_TAKE, PAIR_CPU_KILL = 1, 16, 17, 18
"""PAIR_TAKE + level: micro-op ``first`` got the line that ``second`` had used last (written since it came there, else fetched), served
by the level: L2 (from a sibling), cluster, remote_clean, remote_dirty; upgrade, home, memory: others' copies had to go, ``second`` is the
one that went last. PAIR_KILL: a store of micro-op ``first`` (-1: eviction) ended the reservation of load-and-reserve ``second``.
PAIR_CPU_*: the same by thread."""

LATENCY_BINS = 30
"""The last bin of ``RunData.uop_latency`` holds everything beyond."""

LOG_COLUMNS = ("time_fs", "kind", "thread", "uop", "address", "by_thread", "by_uop", "level", "writable")
LOG_KINDS = ("issue", "answer", "grant", "store", "drop", "downgrade", "reservation_lost", "sc_failed")
"""Events of a logged line. issue, answer: an operation leaves the thread, its answer is back; grant: the line is at the
node of the thread and serves it, taken from ``by``; store: a store takes effect; drop, downgrade: the copy of a cluster L1
(thread: its first), or of a whole node (thread -1; level is the node), goes or may no longer be written, because of ``by``
(-1: eviction); reservation_lost: ``by`` stored; sc_failed. -1: does not apply."""

WAIT_COLUMNS = ("cpu", "branch", "read", "waited_fs", "address", "value")
"""Columns of ``RunData.waits``: waits that had not ended when the run did. branch: micro-op that may leave the loop; read: the one that reads
what it tests, -1 where the loop reads no such value; waited_fs: until the end of the run; address, value: of what is read, -1 and 0."""


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
    nic_stats: np.ndarray = field(default_factory=lambda: np.zeros((0, len(NIC_STATS)), np.int64))   # int64[NICs, NIC_STATS]
    workload_counters: np.ndarray | None = None   # int64[T, counters of the workload's devices]
    interrupts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))   # int64[vectors] raised
    counters: dict[str, int] = field(default_factory=dict)   # home_requests, home_snoops, home_blocked_fs, memory_reads, memory_writes, ...
    memory_operations: int = 0      # loads, stores and atomics executed, whole run
    events: int = 0                 # messages: events processed by the queue, whole run
    host_seconds: float = 0.0
    pairs: np.ndarray = field(default_factory=lambda: np.zeros((0, len(PAIR_COLUMNS)), np.int64))   # int64[P, len(PAIR_COLUMNS)], sorted
    pairs_lost: int = 0             # records of pairs that found the table full (counted, not attributed)
    uop_latency: np.ndarray | None = None   # int64[U, 2 + LATENCY_BINS]: sum, maximum (fs), operations by floor(log2(core cycles)), all
                                    # threads, of operations that neither the store buffer nor the L1 served; None: not recorded
    log: np.ndarray | None = None   # int64[E, len(LOG_COLUMNS)] by time; None: no line was to be logged
    log_lost: int = 0               # later events of these lines, beyond the bound
    waits: np.ndarray = field(default_factory=lambda: np.zeros((0, len(WAIT_COLUMNS)), np.int64))   # int64[W, len(WAIT_COLUMNS)]
    local_turns: int = 0            # cores' own actions that the event loop took, whole run; like host time, no result: depends on look-ahead

    @property
    def actions(self) -> int:
        """Everything the event loop took from its schedule: messages from the queue and cores' own turns."""
        return self.events + self.local_turns
