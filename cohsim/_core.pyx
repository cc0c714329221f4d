# cython: language_level=3, infer_types=False
# Bounds, division and overflow checks depend on the build flavour: setup.py sets them.
"""The native core: an event-driven model of hardware threads, caches, ordering points and memory.

Contents, in the order in which an access meets them. All parts are one translation unit, so calls inline.

core/codes.pxd         what small integers mean: operations, states, events, statistics
core/types.pxd         sizes and structures
core/storage.pxi       arrays that live as long as a simulation
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
core/device_log.pxi    what devices read and write, for the random tester
core/devices.pxi       NICs: FIFO, rings, DMA writes, interrupt moderation
core/sharing.pxi       who takes lines from whom, lost reservations, the event log
core/node.pxi          a private or cluster L2 under its protocol table: requests of its cores, answers of the homes
core/node_place.pxi    where operations wait at a node, and how a way is made free
core/node_grant.pxi    the node has the line: loads and stores take effect
core/node_snoop.pxi    the homes ask for a line: copies go, the answer
core/home.pxi          the ordering point, L3 or memory-side cache, memory
core/run.pxi           the event loop and conservative look-ahead
core/debug.pxi         reports on deadlocks and impossible events

Around the loop, with Python objects:

core/inputs.pxi        checks of programs, machines and records
core/setup.pxi         the state before the first event
core/setup_devices.pxi packet source, interrupt vectors, NICs
core/read_words.pxi    which words of memory anything can read
core/results.pxi       what a run leaves behind

Inside the loop there is no Python object, no allocation but rare growth, no exception: faults are codes, and ``Simulation.run``
turns them into one exception.
"""
from libc.math cimport log
from libc.stdlib cimport free, malloc, realloc
from cohsim.core.codes cimport *
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

include "core/storage.pxi"
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
include "core/node_place.pxi"
include "core/node_grant.pxi"
include "core/node_snoop.pxi"
include "core/home.pxi"
include "core/device_log.pxi"
include "core/devices.pxi"
include "core/fast.pxi"
include "core/run.pxi"
include "core/debug.pxi"
include "core/inputs.pxi"
include "core/setup.pxi"
include "core/setup_devices.pxi"
include "core/read_words.pxi"
include "core/results.pxi"

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
    cdef Storage storage
    cdef object tables
    cdef readonly dict arrays

    def __cinit__(self):
        self.storage = Storage()
        self.arrays = self.storage.named

    def __init__(self, machine, node_table, home_table, uops, entry, pin, *, long long from_fs, long long until_fs,
                 unsigned long long seed=1, bint lookahead=True, bint check=False, int line_table=65536, int pair_table=65536, log_lines=(),
                 long long log_events=0):
        """Build the state.

        ``machine``: CompiledMachine; ``node_table``, ``home_table``: FlatTable; ``uops``: UOP[U]; ``entry``: first micro-op of each CPU;
        ``pin``: machine CPU number of each CPU of the run; ``line_table``, ``pair_table``: rows (powers of two) of the table of lines and
        of the tables of who took lines from whom; ``log_lines``: addresses whose first ``log_events`` events are kept.
        Raises ValueError for shapes that do not fit.
        """
        cdef Sim* s = &self.s
        check_program(uops, entry, pin)
        self.tables = (node_table, home_table)
        s.from_, s.until = from_fs, until_fs
        s.lookahead = lookahead
        s.check = check or COHSIM_CHECKED
        s.values = 1
        s.fault_line = -1
        set_machine(s, machine, len(pin))
        set_tables(s, self.storage, node_table, home_table)
        uops = np.array(uops, order="C")            # our own: mark_simple writes into it
        self.storage.keep.append(uops)
        s.uops = <Uop*><size_t>uops.ctypes.data
        s.n_uops = len(uops)
        mark_simple(s.uops, s.n_uops)
        make_schedule(s, self.storage)
        make_cores(s, self.storage)
        make_nodes(s, self.storage)
        make_threads(s, self.storage, machine, pin, entry, seed)
        make_pools(s, self.storage)
        make_homes(s, self.storage)
        make_queue(s, self.storage)
        make_statistics(s, self.storage, line_table)
        make_sharing(s, self.storage, pair_table, log_lines, log_events)

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
        return close_image(&self.s, instances, limit)

    def source(self, periods_fs, int ring, int flows, int pool, bint poisson, long long frame_fs, long long backlog_fs):
        """Packets arrive at CPU i every ``periods_fs[i]`` (0: never); buffers come from a FIFO pool."""
        connect_source(&self.s, self.storage, periods_fs, ring, flows, pool, poisson, frame_fs, backlog_fs)

    def devices(self, d, m, int log_rows=0):
        """NICs, interrupt vectors and traffic: ``d``: :class:`cohsim.workload.compiled.Devices`, ``m``: CompiledMachine.

        ``log_rows``: words that devices read and write are kept in ``arrays["dma_log"]``, int64[log_rows, 6]: time in fs, NIC, 0 read or
        1 written, address, value before, value after; ``dma_logged`` counts them all. Raises ValueError.
        """
        connect_devices(&self.s, self.storage, d, m, log_rows)

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
            check_records(&self.s, records)
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
        check_start(&self.s)
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
        finish_run(&self.s, self.storage, end_fs)

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
        return scalar_counters(&self.s)

    def totals(self):
        """(memory operations, events, line table overflow) of the whole run."""
        return self.s.memops, self.s.events, self.s.loverflow

    @property
    def dma_logged(self):
        """Words that devices have read and written since the start, if they are logged: beyond ``log_rows`` they are only counted."""
        return self.s.dma_log_count

    @property
    def pairs_lost(self):
        """Takes and lost reservations that found the pair table full."""
        return self.s.pairs_lost

    @property
    def local_turns(self):
        """Cores' own actions that the event loop took from the schedule: with messages (``totals``) all that it does. Depends on look-ahead."""
        return self.s.turns
