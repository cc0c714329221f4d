# cython: language_level=3, infer_types=False
# Bounds, division and overflow checks depend on the build flavour: setup.py sets them.
"""The native core: an event-driven model of hardware threads, caches, ordering points and memory.

Contents, in the order in which an access meets them. All parts are one translation unit, so calls inline.

core/types.pxd         structures and codes
core/queue.pxi         event queue, order of ties, messages under way
core/stats.pxi         where time and events are booked
core/image.pxi         values of memory words
core/cache.pxi         tag arrays and pools
core/store_buffer.pxi  stores on their way out of a thread
core/thread.pxi        hardware threads: one micro-op a step
core/operations.pxi    loads, stores, atomics and fences until they hit or leave the core
core/completion.pxi    answers: outstanding operations end, values bind, threads wake
core/recorded.pxi      operations of recorded traces
core/fast.pxi          the short way for L1 hits and work
core/source.pxi        packets, buffers, links
core/interrupts.pxi    interrupts, idle CPUs, device registers: the thread's side of devices
core/devices.pxi       NICs: FIFO, rings, DMA writes, interrupt moderation
core/sharing.pxi       who takes lines from whom, lost reservations, the event log
core/node.pxi          a private or cluster L2 under its protocol table
core/home.pxi          the ordering point, L3 or memory-side cache, memory
core/run.pxi           the event loop and conservative look-ahead
core/debug.pxi         reports on deadlocks and impossible events

Inside the loop there is no Python object, no allocation but rare growth, no exception: faults are codes, and ``Simulation.run``
turns them into one exception.
"""
from libc.math cimport log
from libc.stdlib cimport free, malloc, realloc
from cohsim.core.types cimport *

cdef extern from *:
    """
    #ifndef COHSIM_CHECKED
    #define COHSIM_CHECKED 0
    #endif
    """
    const int COHSIM_CHECKED        # build flavour `checked`: every run asserts the protocol's invariants
    int clzll "__builtin_clzll" (unsigned long long) nogil
    int clz "__builtin_clz" (unsigned int) nogil
    int ctzll "__builtin_ctzll" (unsigned long long) nogil
    void prefetch "__builtin_prefetch" (void*) nogil

import numpy as np

from cohsim.uops import UOP

cdef enum:
    TXN_HASH = 4096
    SMT_CHUNK = 16
    MAX_STEPS = 100000
    MAXNIC = 16
    MAXDMA = 16384
    MAX_MODERATION_NS = 1000000000
    DMA_LINES = 256       # a NIC begins nothing while more of its writes are under way: far beyond what a bus lets be

cdef int64_t FOREVER = 0x7FFFFFFFFFFFFFFF
cdef uint64_t NOWORD = 0xFFFFFFFFFFFFFFFF
cdef uint32_t STALL = 0x80000000
cdef uint64_t LATE = <uint64_t>1 << 60       # class bit of an event's key

include "core/queue.pxi"
include "core/stats.pxi"
include "core/image.pxi"
include "core/cache.pxi"
include "core/store_buffer.pxi"
include "core/thread.pxi"
include "core/operations.pxi"
include "core/completion.pxi"
include "core/recorded.pxi"
include "core/source.pxi"
include "core/interrupts.pxi"
include "core/sharing.pxi"
include "core/node.pxi"
include "core/home.pxi"
include "core/devices.pxi"
include "core/fast.pxi"
include "core/run.pxi"
include "core/debug.pxi"

if sizeof(Uop) != UOP.itemsize:
    raise ImportError(f"cohsim._core was built for micro-ops of {sizeof(Uop)} bytes, cohsim.uops has {UOP.itemsize}; rebuild")

STOPS = ("budget", "finished", "empty", "fault", "refill")
FAULTS = ("", "a node met an event its protocol table has no row for", "the home met an event its protocol table has no row for",
          "a pool of the core is exhausted", "too many messages on their way to one core", "two nodes may write the same line",
          "out of memory", "no packet buffer is free: the pool is smaller than the packets in progress", "inconsistent state in the core",
          "interrupts nest too deep: an interrupt path unmasks interrupts for too long", "an interrupt path's end without an interrupt",
          "a driver gave a device a queue, ring index, buffer or descriptor that cannot be")


cdef class Simulation:
    """One simulated machine with its programs; see :func:`cohsim.simulate.simulate` for the way to use it."""

    cdef Sim s
    cdef list keep
    cdef object tables
    cdef readonly dict arrays

    def __cinit__(self):
        self.keep = []
        self.arrays = {}

    def __init__(self, machine, node_table, home_table, uops, entry, pin, *, long long from_fs, long long until_fs,
                 unsigned long long seed=1, bint lookahead=True, bint check=False, int line_table=65536, int pair_table=65536, log_lines=(),
                 long long log_events=0):
        """Build the state.

        ``machine``: CompiledMachine; ``node_table``, ``home_table``: FlatTable; ``uops``: UOP[U]; ``entry``: first micro-op of each CPU;
        ``pin``: machine CPU number of each CPU of the run; ``line_table``, ``pair_table``: rows (powers of two) of the table of lines and
        of the tables of who took lines from whom; ``log_lines``: addresses whose first ``log_events`` events are kept.
        Raises ValueError for shapes that do not fit.
        """
        if uops.dtype != UOP or uops.ndim != 1 or not len(uops):
            raise ValueError("uops must be a non-empty one-dimensional UOP array")
        if len(uops) >= 1 << (31 - ACCESS_BITS):
            raise ValueError(f"the core supports fewer than {1 << (31 - ACCESS_BITS)} micro-ops")
        if len(entry) != len(pin):
            raise ValueError("entry and pin must have one element per CPU")
        targets = uops["target"][uops["op"] == OP_BR]
        if (entry < 0).any() or (entry >= len(uops)).any() or (targets < 0).any() or (targets >= len(uops)).any():
            raise ValueError("an entry or branch target lies outside the program")
        for name, low, high in (("dst", -1, NREG), ("a", -1, NREG), ("b", -1, NREG), ("areg", -1, NREG), ("slot", 0, NCTX), ("op", 1, OP_LAST + 1)):
            if (uops[name] < low).any() or (uops[name] >= high).any():
                raise ValueError(f"micro-op field {name} is out of range")
        if ((uops["op"] >= OP_LOAD) & (uops["op"] <= OP_SC) & ~np.isin(uops["size"], (1, 2, 4, 8))).any():
            raise ValueError("memory operations have 1, 2, 4 or 8 bytes")
        self.tables = (node_table, home_table)
        self.s.from_ = from_fs
        self.s.until = until_fs
        self.s.lookahead = lookahead
        self.s.check = check or COHSIM_CHECKED
        self.s.values = 1
        self.s.fault_line = -1
        self._machine(machine, len(pin))
        self._tables(node_table, home_table)
        uops = np.array(uops, order="C")            # our own: mark_simple writes into it
        self.keep.append(uops)
        self.s.uops = <Uop*><size_t>uops.ctypes.data
        self.s.n_uops = len(uops)
        mark_simple(self.s.uops, self.s.n_uops)
        self._agents(machine, pin, entry, seed)
        self._pools()
        self._statistics(line_table)
        self._sharing(pair_table, log_lines, log_events)

    cdef void* _zeros(self, str name, shape, dtype):
        # Zeroed memory on a host cache line boundary, kept by an array; a named one is a result.
        a = np.zeros(shape, dtype)
        raw = np.zeros(a.nbytes + 64, np.uint8)
        shift = -raw.ctypes.data % 64
        a = raw[shift:shift + a.nbytes].view(dtype).reshape(shape)
        self.keep.append(a)
        if name:
            self.arrays[name] = a
        return <void*><size_t>a.ctypes.data

    def _machine(self, m, int cpus):
        cdef Sim* s = &self.s
        s.nodes, s.cores_per_node, s.threads_per_core = m.nodes, m.cores_per_node, m.threads_per_core
        s.n_cores = m.nodes * m.cores_per_node
        s.n_threads = cpus
        if s.threads_per_core > MAXSMT or s.cores_per_node > 8 or s.nodes > 64:
            raise ValueError("the core supports up to 64 nodes of 8 cores with 4 hardware threads")
        if not m.home_broadcast and not m.l3_inclusive:
            raise ValueError("a home that does not broadcast needs an inclusive L3 for its core-valid bits")
        if m.l2_private and m.cores_per_node != 1:
            raise ValueError("a private L2 belongs to one core")
        if max(m.store_queue, m.store_queue_smt) > MAXSB // 2 or m.hop_fs <= 0 or (not m.l2_private and m.l2_hop_fs <= 0):
            raise ValueError("store queue beyond 64 entries, or a hop of no time")
        s.l2_private, s.broadcast, s.write_through = m.l2_private, m.home_broadcast, m.l1_write_through
        s.in_order, s.gathering, s.smt_shared, s.snoop_first = m.store_in_order, m.store_gathering, m.smt_shared_dispatch, m.snoop_first
        if s.l2_private == s.write_through or s.in_order != s.l2_private:
            raise ValueError("private L2 goes with write-back L1 and in-order stores, a cluster L2 with write-through L1 and out-of-order stores")
        s.inclusive = m.l3_inclusive
        s.adjacent = m.l2_private and m.l2_adjacent_line
        s.window, s.window_smt, s.sbq, s.sbq_smt, s.mshrs = m.window, m.window_smt, m.store_queue, m.store_queue_smt, m.mshrs
        s.l2_banks, s.slices, s.channels, s.l2_mshrs = m.l2_banks, m.home_slices, m.memory_channels, m.l2_mshrs
        if s.l2_mshrs < 1 or s.mshrs < 1:
            raise ValueError("a cache without MSHRs cannot miss")
        # The ring also holds performed entries behind an older one that waits: far longer than the queue, so that it is no limit.
        s.sb_mask = MAXSB - 1
        s.line_bytes = m.line_bytes
        s.line_shift = m.line_bytes.bit_length() - 1
        s.l1_sets, s.l1_ways, s.l2_sets, s.l2_ways, s.l3_sets, s.l3_ways = m.l1_sets, m.l1_ways, m.l2_sets, m.l2_ways, m.l3_sets, m.l3_ways
        s.period, s.issue, s.port, s.forward = m.core_period_fs, m.issue_fs, m.l1_port_fs, m.store_forward_fs
        s.mispredict, s.locked, s.pause = m.mispredict_fs, m.locked_fs, m.pause_fs
        s.f_full, s.f_light, s.f_instr, s.f_load, s.f_store = (m.fence_full_fs, m.fence_light_fs, m.fence_instr_fs, m.fence_load_fs,
                                                               m.fence_store_fs)
        s.l1_hit, s.l2_hit, s.l2_hop, s.l2_bank = m.l1_hit_fs, m.l2_hit_fs, m.l2_hop_fs, m.l2_bank_fs
        s.l2_service = 0 if m.l2_private else m.l2_hit_fs - 2 * m.l2_hop_fs
        s.l2_load_line, s.l2_store_line = (0, 0) if m.l2_private else (m.l2_load_line_fs, m.l2_store_line_fs)
        s.l1_inv = 0 if m.l2_private else max(m.l1_invalidate_fs, 2 * m.l2_hop_fs)
        s.snoop, s.snoop_dirty, s.snoop_bank = m.snoop_fs, m.snoop_dirty_fs, m.snoop_bank_fs
        s.hop, s.lookup, s.home_occ, s.transfer = m.hop_fs, m.home_lookup_fs, m.home_occupancy_fs, m.line_transfer_fs
        s.l3_data, s.memory, s.memory_line = m.l3_data_fs, m.memory_fs, m.memory_line_fs

    def _tables(self, node, home):
        for table in (node, home):
            for array in (table.next, table.ops, table.perm):
                if not array.flags.c_contiguous:
                    raise ValueError("protocol tables must be contiguous")
                self.keep.append(array)
        self.s.node_next = <uint8_t*><size_t>node.next.ctypes.data
        self.s.node_ops = <uint32_t*><size_t>node.ops.ctypes.data
        self.s.perm = <uint8_t*><size_t>node.perm.ctypes.data
        self.s.home_next = <uint8_t*><size_t>home.next.ctypes.data
        self.s.home_ops = <uint32_t*><size_t>home.ops.ctypes.data
        self.s.node_fired = <int64_t*>self._zeros("node_fired", (len(node.states), len(node.events)), np.int64)
        self.s.home_fired = <int64_t*>self._zeros("home_fired", (len(home.states), len(home.events)), np.int64)

    def _agents(self, m, pin, entry, unsigned long long seed):
        cdef Sim* s = &self.s
        cdef int32_t i, k
        cdef int64_t j
        cdef Core* c
        cdef Node* n
        cdef Thread* th
        s.cores = <Core*>self._zeros("", s.n_cores * sizeof(Core), np.uint8)
        s.nodes_ = <Node*>self._zeros("", s.nodes * sizeof(Node), np.uint8)
        s.threads = <Thread*>self._zeros("", s.n_threads * sizeof(Thread), np.uint8)
        s.run_quarter = (s.n_cores + 3) // 4
        s.read_min = FOREVER
        s.run_time = <int64_t*>self._zeros("", 4 * s.run_quarter, np.int64)
        for j in range(4 * s.run_quarter):
            s.run_time[j] = FOREVER
        s.next_time = FOREVER
        s.next_core = -1
        s.margin = s.hop if s.l2_private else s.l2_hop
        for i in range(s.n_cores):
            c = &s.cores[i]
            c.id, c.node, c.index = i, i // s.cores_per_node, i % s.cores_per_node
            c.dl_min = FOREVER
            c.dl = <int64_t*>self._zeros("", MAXDL, np.int64)
            c.mshr = <int64_t*>self._zeros("", s.mshrs + 1 + MAXSMT * MAXOUT, np.int64)
            c.l1 = <L1Way*>self._zeros("", s.l1_sets * s.l1_ways * sizeof(L1Way), np.uint8)
            c.l1_hint = <int32_t*>self._zeros("", L1_HINTS, np.int32)
            c.l1_tags = <int64_t*>self._zeros("", s.l1_sets * s.l1_ways, np.int64)
            for j in range(s.l1_sets * s.l1_ways):
                c.l1_tags[j] = -1
            for k in range(MAXSMT):
                c.threads[k] = -1
        for i in range(s.nodes):
            n = &s.nodes_[i]
            n.id = i
            n.stall_head = n.stall_tail = -1
            for k in range(MAXNODE):
                n.reservation[k] = -1
            n.bank_free = <int64_t*>self._zeros("", s.l2_banks, np.int64)
            n.ways = <Way*>self._zeros("", <int64_t>s.l2_sets * s.l2_ways * sizeof(Way), np.uint8)
            n.hint = <int32_t*>self._zeros("", L2_HINTS, np.int32)
            n.tags = <int64_t*>self._zeros("", <int64_t>s.l2_sets * s.l2_ways, np.int64)
            for j in range(<int64_t>s.l2_sets * s.l2_ways):
                n.tags[j] = n.ways[j].tag = -1
                n.ways[j].qhead = n.ways[j].qtail = -1
                n.ways[j].served = -1
                n.ways[j].writer = -1
                n.ways[j].write_thread = n.ways[j].read_thread = n.ways[j].from_thread = -1
        rng = np.random.Generator(np.random.PCG64(seed))
        for i in range(s.n_threads):
            th = &s.threads[i]
            th.id, th.cpu, th.core = i, pin[i], m.cpu_core[pin[i]]
            th.node = th.core // s.cores_per_node
            c = &s.cores[th.core]
            th.slot = c.n_threads
            c.threads[c.n_threads] = i
            c.thread[c.n_threads] = th
            c.n_threads += 1
            th.pc = entry[i]
            th.sb_time = FOREVER
            th.sc_line = -1
            th.load_seq = -1
            th.ctx[1] = i
            th.rng = rng.integers(1, 2**63)
            th.arrival = FOREVER
            # CPUs never start in the same cycle; the offset is part of what the seed decides.
            th.t = <int64_t>rng.integers(0, 1000) * s.period // 10

    def _transactions(self, int count):
        # Lines that are busy at the homes, and messages that wait for them.
        cdef Sim* s = &self.s
        cdef int32_t i
        s.free_txn = s.free_msg = 0
        s.n_txns = s.n_msgs = count
        s.txns = <Txn*>self._zeros("", count * sizeof(Txn), np.uint8)
        s.msgs = <HomeMsg*>self._zeros("", count * sizeof(HomeMsg), np.uint8)
        for i in range(count):
            s.txns[i].next_free = s.msgs[i].next = i + 1 if i + 1 < count else -1

    def _pools(self):
        cdef Sim* s = &self.s
        cdef int32_t i
        cdef int64_t j
        s.n_reqs = s.n_threads * (MAXOUT + MAXSB) + s.nodes * 256
        s.reqs = <Req*>self._zeros("", s.n_reqs * sizeof(Req), np.uint8)
        for i in range(s.n_reqs):
            s.reqs[i].next = i + 1 if i + 1 < s.n_reqs else -1
        self._transactions(s.nodes * 512)
        s.txn_hash = <int32_t*>self._zeros("", TXN_HASH, np.int32)
        for i in range(TXN_HASH):
            s.txn_hash[i] = -1
        if s.l3_ways:
            s.l3 = <L3Way*>self._zeros("", <int64_t>s.l3_sets * s.l3_ways * sizeof(L3Way), np.uint8)
            s.l3_tags = <int64_t*>self._zeros("", <int64_t>s.l3_sets * s.l3_ways, np.int64)
            for j in range(<int64_t>s.l3_sets * s.l3_ways):
                s.l3_tags[j] = s.l3[j].tag = -1
                s.l3[j].owner = -1
        s.slice_free = <int64_t*>self._zeros("", s.slices, np.int64)
        s.channel_free = <int64_t*>self._zeros("", s.channels, np.int64)
        s.serial = <uint64_t*>self._zeros("", s.n_cores + s.nodes + s.slices + MAXNIC, np.uint64)
        s.n_slots = 4096
        s.slots = <Event*>malloc(s.n_slots * sizeof(Event))
        s.far = <int32_t*>malloc(s.n_slots * sizeof(int32_t))
        s.word_cap = 1 << 10
        s.words = <Word*>malloc(s.word_cap * sizeof(Word))
        if s.slots == NULL or s.far == NULL or s.words == NULL:
            raise MemoryError
        for j in range(s.n_slots):
            s.slots[j].next = <int32_t>(j + 1) if j + 1 < s.n_slots else -1
        s.first = -1
        s.queue_time = FOREVER
        for i in range(WHEEL):
            s.wheel[i] = -1
        for j in range(s.word_cap):
            s.words[j].key = NOWORD

    def _statistics(self, int line_table):
        cdef Sim* s = &self.s
        cdef int64_t j
        t, u = s.n_threads, s.n_uops
        s.hot = <int64_t*>self._zeros("hot", (t, u, HOT), np.int64)
        s.per_cycle = 1.0 / s.period
        s.l1_bin = latency_bin(s, s.l1_hit)
        s.time_fs = <int64_t*>self._zeros("time_fs", (t, u, NCAT), np.int64)
        s.served = <int64_t*>self._zeros("served", (t, u, NLEVEL), np.int64)
        s.scfail = <int64_t*>self._zeros("sc_failures", (t, u), np.int64)
        s.iterations = <int64_t*>self._zeros("iterations", t, np.int64)
        s.received = <int64_t*>self._zeros("received", t, np.int64)
        s.dropped = <int64_t*>self._zeros("dropped", t, np.int64)
        s.lcap = line_table
        s.lkey = <int64_t*>self._zeros("line_key", line_table, np.int64)
        s.lstat = <int64_t*>self._zeros("", (line_table, LSTRIDE), np.int64)
        self.arrays["line_stats"] = self.keep[len(self.keep) - 1][:, :NLSTAT]
        s.lmemo_line = -1
        for j in range(s.lcap):
            s.lkey[j] = -1
        s.transfers = <int64_t*>self._zeros("node_transfers", (s.nodes, s.nodes), np.int64)
        s.hist = <int64_t*>self._zeros("latency_hist", (NLEVEL, HISTBINS), np.int64)

    def _sharing(self, int pair_table, log_lines, long long log_events):
        cdef Sim* s = &self.s
        cdef int32_t i
        s.latency = <int64_t*>self._zeros("latency", (s.n_uops, LAT), np.int64)
        s.pair_cap = pair_table
        while s.pair_cap * s.nodes > pair_table and s.pair_cap > 256:
            s.pair_cap //= 2
        s.pairs = <int64_t*>self._zeros("pairs", (s.nodes, s.pair_cap, PAIR), np.int64)
        s.log_cap = log_events if log_lines else 0
        if log_lines and (len(log_lines) > MAXLOG or log_events < 1):
            raise ValueError(f"the event log takes up to {MAXLOG} lines and at least one event")
        for i, address in enumerate(log_lines):
            s.log_line[i] = address >> s.line_shift
        s.n_log = len(log_lines)
        s.log = <int64_t*>self._zeros("log", (s.n_cores + s.nodes, s.log_cap, LOGROW), np.int64)
        s.log_count = <int64_t*>self._zeros("log_count", s.n_cores + s.nodes, np.int64)

    def __dealloc__(self):
        free(self.s.slots)
        free(self.s.far)
        free(self.s.words)

    def write_memory(self, long long address, int size, value):
        """Initial value of a word of 1, 2, 4 or 8 bytes."""
        image_write(&self.s, address, <uint8_t>size, <uint64_t>(int(value) & 0xFFFFFFFFFFFFFFFF))

    def read_memory(self, long long address, int size):
        """Current value of a word."""
        return image_read(&self.s, address, <uint8_t>size)

    def keep_read_words_only(self, instances, int limit=1_000_000):
        """Forget stores to words that no micro-op reads with a value: most of a kernel path's. ``read_memory`` then knows only the others.

        ``instances``: how many values each context slot can take, by Slot number. Does nothing (and returns False) when a value's address
        comes from a register or grows without bound, or when more than ``limit`` words can be read.
        """
        cdef Sim* s = &self.s
        cdef int64_t i, k, count
        cdef Uop* u
        count = sum(2 * s.nics[i].queues * (s.nics[i].entries[0] + s.nics[i].entries[1]) for i in range(s.n_nics))
        for i in range(s.n_uops):
            u = &s.uops[i]
            if u.op == OP_RMW or u.op == OP_LL or (u.op == OP_LOAD and u.dst >= 0):
                if u.areg >= 0 or u.slot == 5:
                    return False
                count += 2 * (instances[u.slot] if u.stride else 1)
        if count > limit:
            return False
        for i in range(s.n_uops):
            u = &s.uops[i]
            if u.op == OP_RMW or u.op == OP_LL or (u.op == OP_LOAD and u.dst >= 0):
                for k in range(instances[u.slot] if u.stride else 1):
                    for address in (u.base + u.stride * k, u.base + u.stride * k + u.size - 1):
                        image_write(s, address, 1, image_read(s, address, 1))
        for i in range(s.n_nics):
            for q in range(2 * s.nics[i].queues):           # what a device reads of its descriptors
                for k in range(s.nics[i].entries[q & 1]):
                    address = s.nics[i].half[q].base + k * s.nics[i].descriptor[q & 1] + (s.nics[i].command_at if q & 1 else s.nics[i].address_at)
                    for address in (address, address + 7):
                        image_write(s, address, 1, image_read(s, address, 1))
        s.closed = 1
        return True

    def source(self, periods_fs, int ring, int flows, int pool, bint poisson, long long frame_fs, long long backlog_fs):
        """Packets arrive at CPU i every ``periods_fs[i]`` (0: never); buffers come from a FIFO pool."""
        cdef Sim* s = &self.s
        cdef int32_t i
        s.has_source, s.ring, s.flows, s.pool, s.poisson = 1, ring, flows, pool, poisson
        s.frame_time, s.link_backlog = frame_fs, backlog_fs
        s.pool_fifo = <int32_t*>self._zeros("", pool + 1, np.int32)
        for i in range(pool):
            s.pool_fifo[i] = i
        s.pool_head, s.pool_tail = 0, pool
        for i in range(s.n_threads):
            s.threads[i].period = periods_fs[i]
            if periods_fs[i] > 0:
                s.threads[i].arrival = <int64_t>(next_random(&s.threads[i].rng) % <uint64_t>periods_fs[i])

    def devices(self, d, m):
        """NICs, interrupt vectors and traffic: ``d``: :class:`cohsim.workload.compiled.Devices`, ``m``: CompiledMachine. Raises ValueError."""
        cdef Sim* s = &self.s
        cdef int32_t i
        cdef Thread* th
        if len(d.nics) > MAXNIC:
            raise ValueError(f"more than {MAXNIC} NICs")
        self._device_operations(d)
        s.has_devices, s.n_vectors, s.n_nics, s.n_traffic, s.n_counters = 1, len(d.vectors), len(d.nics), len(d.traffic), len(d.counters)
        s.dma_l3, s.dma, s.mmio, s.idle_exit = m.dma_to_l3, max(m.dma_fs, 2 * s.margin), m.mmio_fs, m.idle_exit_fs
        s.irq_latency, s.irq_entry, s.irq_exit = max(m.interrupt_latency_fs, 2 * s.margin), m.interrupt_entry_fs, m.interrupt_exit_fs
        s.counts = <int64_t*>self._zeros("counts", (s.n_threads, max(1, s.n_counters)), np.int64)
        s.vectors = <Vector*>self._zeros("", max(1, s.n_vectors) * sizeof(Vector), np.uint8)
        for i in range(s.n_threads):
            th = &s.threads[i]
            th.vectors = <int32_t*>self._zeros("", MAXVEC, np.int32)
            th.saved = <Saved*>self._zeros("", MAXNEST * sizeof(Saved), np.uint8)
            th.irq_on = 1
            th.ctx[4] = i
        for i, v in enumerate(d.vectors):
            if not 0 <= v.cpu < s.n_threads or not 0 <= v.entry < s.n_uops:
                raise ValueError(f"vector {v.name}: no such CPU or micro-op")
            th = &s.threads[v.cpu]
            if th.n_vectors == MAXVEC:
                raise ValueError(f"more than {MAXVEC} interrupt vectors on one CPU")
            s.vectors[i].thread, s.vectors[i].entry, s.vectors[i].queue, s.vectors[i].bit = v.cpu, v.entry, v.queue, th.n_vectors
            th.vectors[th.n_vectors] = i
            th.n_vectors += 1
        self._nics(d)
        for i, v in enumerate(d.vectors):
            if v.period_ns > 0:
                s.vectors[i].period = round(v.period_ns * 1e6)
                device_event(s, 0, round(v.first_ns * 1e6), D_TIMER, 0, i)
        for i, f in enumerate(d.traffic):
            s.traffic[i].due = <int64_t>(next_random(&s.traffic[i].rng) % <uint64_t>s.traffic[i].period)
            device_event(s, f.nic, s.traffic[i].due, D_ARRIVE, i, 0)

    def _device_operations(self, d):
        # Micro-ops that name what is not there would reach beyond the tables.
        cdef Sim* s = &self.s
        cdef int32_t i
        cdef Uop* u
        for i in range(s.n_uops):
            u = &s.uops[i]
            if u.op == OP_MMIO and (u.fn >> 4 >= len(d.nics) or u.fn & 15 > D_TX_MODERATION):
                raise ValueError(f"micro-op {i}: there is no NIC {u.fn >> 4} with a register {u.fn & 15}")
            if u.op == OP_IPI and not 0 <= u.base < len(d.vectors):
                raise ValueError(f"micro-op {i}: there is no vector {u.base}")
            if u.op == OP_COUNT and not 0 <= u.base < len(d.counters):
                raise ValueError(f"micro-op {i}: there is no counter {u.base}")

    def _nics(self, d):
        cdef Sim* s = &self.s
        cdef int32_t i, q, k
        cdef Nic* n
        cdef Half* h
        s.nics = <Nic*>self._zeros("", max(1, s.n_nics) * sizeof(Nic), np.uint8)
        s.nic_counters = <int64_t*>self._zeros("nic_counters", (s.n_nics, NNIC), np.int64)
        s.traffic = <Traffic*>self._zeros("", max(1, s.n_traffic) * sizeof(Traffic), np.uint8)
        rng = np.random.Generator(np.random.PCG64([int(s.threads[0].rng), 1]))
        for i, w in enumerate(d.nics):
            n = &s.nics[i]
            smallest = min([f.frame_bytes for f in d.traffic if f.nic == i] + ([w.ack_bytes] if w.ack_every else []) + [w.fifo_bytes])
            if smallest < 1 or w.fifo_bytes < max([0] + [f.frame_bytes for f in d.traffic if f.nic == i] + ([w.ack_bytes] if w.ack_every else [])):
                raise ValueError(f"NIC {w.name}: a frame of no bytes, or one that does not fit into the FIFO")
            n.fifo_bytes, n.fifo_cap, n.blocked = w.fifo_bytes, w.fifo_bytes // smallest + 1, -1
            n.fifo = <int64_t*>self._zeros("", 3 * n.fifo_cap, np.int64)
            n.rx_service, n.tx_service, n.wb_timeout = round(w.rx_service_ns * 1e6), round(w.tx_service_ns * 1e6), round(w.writeback_timeout_ns * 1e6)
            n.address_at, n.info_at, n.command_at, n.flow_at = w.rx.address_at, w.rx.info_at, w.tx.command_at, w.flow_at
            n.ack_every, n.ack_delay, n.ack_bytes = w.ack_every, round(w.ack_delay_ns * 1e6), w.ack_bytes
            n.peer_moderation, n.peer_irq = round(w.ack_moderation_ns * 1e6), -round(w.ack_moderation_ns * 1e6)
            n.overhead, n.fs_per_byte, n.queues = w.overhead_bytes, 8e15 / w.port_bps, w.queues
            n.pause, n.drop, n.writeback = w.pause, w.drop, w.writeback
            n.half = <Half*>self._zeros("", 2 * n.queues * sizeof(Half), np.uint8)
            for k, ring in enumerate((w.rx, w.tx)):
                n.entries[k], n.descriptor[k], n.done_at[k] = ring.entries, ring.descriptor, ring.done_at
                for q in range(n.queues):
                    h = &n.half[2 * q + k]
                    h.base, h.vector, h.last_irq = ring.base + q * ring.stride, (w.rx_vectors, w.tx_vectors)[k][q], -FOREVER // 2
                    h.moderation = round((w.rx_moderation_ns, w.tx_moderation_ns)[k] * 1e6)
                    if h.moderation:
                        h.phase = rng.integers(0, h.moderation)
                    h.info = <int64_t*>self._zeros("", ring.entries, np.int64)
                    h.here = <uint8_t*>self._zeros("", ring.entries, np.uint8)
                    if not 0 <= h.vector < s.n_vectors:
                        raise ValueError(f"NIC {w.name}: no such vector")
        for i, f in enumerate(d.traffic):
            s.traffic[i].period, s.traffic[i].bytes, s.traffic[i].nic = max(1, round(1e15 / f.rate_pps)), f.frame_bytes, f.nic
            s.traffic[i].overhead, s.traffic[i].flow = f.overhead_bytes, -1
            s.traffic[i].flows, s.traffic[i].poisson, s.traffic[i].rng = len(f.queue_of_flow), f.arrivals == "poisson", rng.integers(1, 2**63)
            queues = np.ascontiguousarray(f.queue_of_flow, np.int32)
            if (queues < 0).any() or (queues >= s.nics[f.nic].queues).any():
                raise ValueError("a flow goes to a queue that the NIC does not have")
            self.keep.append(queues)
            s.traffic[i].queue = <int32_t*><size_t>queues.ctypes.data
        if s.n_nics:
            self._transactions(s.nodes * 512 + MAXDMA)
        s.n_dmas = s.n_groups = MAXDMA
        s.dmas = <Dma*>self._zeros("", MAXDMA * sizeof(Dma), np.uint8)
        s.groups = <DmaGroup*>self._zeros("", MAXDMA * sizeof(DmaGroup), np.uint8)
        for i in range(MAXDMA):
            s.dmas[i].next_free = s.groups[i].next_free = i + 1 if i + 1 < MAXDMA else -1

    def feed(self, int cpu, records):
        """The next chunk of a recorded stream (RECORD array), or None at its end."""
        cdef Thread* th = &self.s.threads[cpu]
        if th.stream and th.state == T_REFILL:
            self.s.refill -= 1
        th.stream = 1
        self.s.values = 0
        if records is None or not len(records):
            th.state = T_HALTED
            self.s.halted += 1
        else:
            if records.dtype.itemsize != sizeof(Record) or not records.flags.c_contiguous:
                raise ValueError("records must be a contiguous RECORD array")
            if (records["uop"] < 0).any() or (records["uop"] >= self.s.n_uops).any():
                raise ValueError("a record names a micro-op outside the table")
            if not np.isin(records["kind"], (OP_LOAD, OP_STORE, OP_RMW, OP_LL, OP_SC, OP_FENCE)).all():
                raise ValueError("a record is no memory operation or fence")
            if records["size"].max() > 2 * self.s.line_bytes or (records["gap"] < 0).any() or (records["address"] < 0).any():
                raise ValueError("a record is longer than two lines, or has a negative gap or address")
            if (records["back"] < 0).any() or (records["back"] > np.arange(len(records))).any():
                raise ValueError("a store-conditional's load-and-reserve lies outside its chunk")
            self.arrays[f"chunk{cpu}"] = records
            th.rec = <Record*><size_t>records.ctypes.data
            th.rec_pos, th.rec_count, th.rec_fresh = 0, len(records), 1
            th.state = T_RUN
        core_resched(&self.s, &self.s.cores[th.core])

    def hungry(self):
        """CPUs that wait for their next chunk."""
        return [i for i in range(self.s.n_threads) if self.s.threads[i].state == T_REFILL]

    def start(self):
        """Let every core begin; a thread is idle until its own first cycle."""
        cdef int32_t i
        for i in range(self.s.n_uops):
            if self.s.uops[i].op > OP_HALT and self.s.uops[i].op != OP_PREFETCH and not self.s.has_devices:
                raise ValueError(f"micro-op {i} needs an interrupt controller or a device: a run without devices has none")
        for i in range(self.s.n_threads):
            account(&self.s, &self.s.threads[i], self.s.threads[i].pc, C_IDLE, 0, self.s.threads[i].t)
        for i in range(self.s.n_cores):
            core_resched(&self.s, &self.s.cores[i])

    def run(self, long long budget):
        """Process up to ``budget`` events without the GIL. Returns one of STOPS."""
        cdef int32_t stop
        cdef Sim* s = &self.s
        with nogil:
            stop = run_events(s, budget)
        return STOPS[stop]

    def finish(self, long long end_fs):
        """Book what blocked threads have waited until the end and complete ``arrays``; to be called once, last."""
        cdef int32_t i
        cdef Thread* th
        if end_fs < self.s.until:
            self.s.until = end_fs
        for i in range(self.s.n_threads):
            th = &self.s.threads[i]
            if th.state == T_BLOCKED:
                account(&self.s, th, th.block_uop, th.block_cat, th.block_since, self.s.until)
            elif th.state == T_WAIT:
                account(&self.s, th, th.block_uop, C_IDLE, th.block_since, self.s.until)
            elif th.state == T_RUN:
                # Only in an interrupted run: others had run ahead.
                account(&self.s, th, th.pc, C_ISSUE, th.t, self.s.until)
        for i in range(self.s.n_nics):
            if self.s.nics[i].held:
                nic_span(&self.s, i, NC_PAUSED, self.s.nics[i].paused_since, self.s.until)
            if self.s.nics[i].blocked >= 0:
                nic_span(&self.s, i, NC_BLOCKED, self.s.nics[i].blocked_since, self.s.until)
        if self.s.has_devices:
            self.arrays["vector_raised"] = np.array([self.s.vectors[i].raised for i in range(self.s.n_vectors)], np.int64)
        hot = self.arrays.pop("hot")
        self.arrays["count"] = hot[:, :, 0].copy()
        for i in range(NCAT):
            if HOT_CATEGORY[i] > 0:
                self.arrays["time_fs"][:, :, i] += hot[:, :, HOT_CATEGORY[i]]
        for i in range(NLEVEL):
            if HOT_LEVEL[i] > 0:
                self.arrays["served"][:, :, i] += hot[:, :, HOT_LEVEL[i]]

    @property
    def now(self):
        """Current simulated time in femtoseconds."""
        return self.s.now

    @property
    def last_halt(self):
        """Local time of the last thread's end in femtoseconds, to be asked when all have halted."""
        cdef int32_t i
        cdef int64_t t = 0
        for i in range(self.s.n_threads):
            t = max(t, self.s.threads[i].t)
        return t

    @property
    def waiting_for_packets(self):
        """Number of threads that are idle."""
        return sum(self.s.threads[i].state in (T_IDLE, T_WAIT) for i in range(self.s.n_threads))

    @property
    def blocked_devices(self):
        """NICs whose receive engine waits for descriptors."""
        return [i for i in range(self.s.n_nics) if self.s.nics[i].blocked >= 0]

    @property
    def furthest(self):
        """Local time of the thread that is furthest ahead, in femtoseconds."""
        return max(self.s.now, max(self.s.threads[i].t for i in range(self.s.n_threads) if self.s.threads[i].t < FOREVER))

    @property
    def halted(self):
        """Number of threads that have ended."""
        return self.s.halted

    @property
    def fault(self):
        """Text of the fault, or ""."""
        return FAULTS[self.s.fault]

    def report(self):
        """Who waits for what: text for a deadlock or fault report."""
        node, home = self.tables
        return describe(&self.s, node.states, node.events, home.states, home.events)

    def places(self):
        """Where every CPU is in the programs it has begun and not ended: int64 rows (CPU, level, micro-op, fs at which it last entered or left
        a wait loop, state, stores not performed). Level 0 is its base program, level k the k-th interrupt in it; a CPU that has halted has none.
        """
        cdef int32_t i, k
        cdef Thread* th
        rows = []
        for i in range(self.s.n_threads):
            th = &self.s.threads[i]
            if th.state == T_HALTED:
                continue
            for k in range(th.depth):
                rows.append((i, k, th.saved[k].pc, th.saved[k].spin_edge, T_RUN, th.sb_count))
            rows.append((i, th.depth, th.pc, th.spin_edge, th.state, th.sb_count))
        return np.array(rows, np.int64).reshape(-1, 6)

    def operand_address(self, int cpu, int level, int uop):
        """Address of memory operation ``uop`` with the registers and context that program ``level`` of the CPU has now."""
        cdef Thread* th = &self.s.threads[cpu]
        cdef Uop* u = &self.s.uops[uop]
        if level < th.depth:
            return u.base + u.stride * th.saved[level].ctx[u.slot] + (th.saved[level].reg[u.areg] if u.areg >= 0 else 0)
        return u.base + u.stride * th.ctx[u.slot] + (th.reg[u.areg] if u.areg >= 0 else 0)

    def counters(self):
        """Scalar statistics by name."""
        cdef Sim* s = &self.s
        return {"home_requests": s.home_requests, "home_snoops": s.home_snoops, "home_blocked_fs": s.home_blocked,
                "home_queue_fs": s.home_queue_fs, "memory_reads": s.memory_reads, "memory_writes": s.memory_writes,
                "writebacks": s.writebacks, "evictions": s.evictions, "recalls": s.recalls, "l2_requests": s.l2_requests,
                "l2_queue_fs": s.l2_queue_fs, "tx_dropped": s.tx_dropped, "gathered_stores": s.gathered, "adjacent_fetches": s.adjacent_fetches}

    def totals(self):
        """(memory operations, events, line table overflow) of the whole run."""
        return self.s.memops, self.s.events, self.s.loverflow

    @property
    def pairs_lost(self):
        """Takes and lost reservations that found the pair table full."""
        return self.s.pairs_lost

    @property
    def local_turns(self):
        """Cores' own actions that the event loop took from the schedule: with messages (``totals``) all that it does. Depends on look-ahead."""
        return self.s.turns
