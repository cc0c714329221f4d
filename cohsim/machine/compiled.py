"""What the machine compiler hands to the core: integers in femtoseconds, counts, flags.

One femtosecond is fine enough for any clock (1666.667 MHz is 599999.88 fs, error 2e-7) and 2^63 fs are 2.5 hours.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompiledMachine:
    """Effective machine. A *node* is a coherence agent: the private L2 of a core, or the L2 a cluster shares."""

    name: str
    isa: str                     # "x86" or "power"
    protocol: str                # msi, mesi, mesif, moesi

    # topology; the cpu_ tuples are indexed by CPU number
    nodes: int
    cores_per_node: int
    threads_per_core: int
    cpu_core: tuple[int, ...]    # global core number; node = core // cores_per_node
    cpu_thread: tuple[int, ...]  # hardware thread of the core
    core_period_fs: int
    fabric_period_fs: int

    # core
    issue_fs: int                # per instruction, one thread alone: core period / sustained instructions per cycle
    smt_shared_dispatch: bool    # two running siblings take twice issue_fs each
    window: int                  # instructions in flight per thread, sibling idle or absent
    window_smt: int              # the same with both siblings running
    store_queue: int
    store_queue_smt: int
    store_in_order: bool         # True: x86; False: any store that is not behind a barrier may leave
    store_gathering: bool        # a store joins a waiting one to the same line
    mshrs: int                   # outstanding line fills per core (line fill buffers)
    l1_port_fs: int              # time an access occupies the core's L1 port
    store_forward_fs: int
    mispredict_fs: int
    locked_fs: int               # a locked operation on a line held M or E in L1
    pause_fs: int
    fence_full_fs: int
    fence_light_fs: int
    fence_instr_fs: int
    fence_load_fs: int
    fence_store_fs: int

    # L1 data cache, one per core
    line_bytes: int
    l1_sets: int
    l1_ways: int
    l1_hit_fs: int               # load to use
    l1_write_through: bool

    # L2: private to its core (accessed without messages) or shared by a cluster (accessed by messages)
    l2_private: bool
    l2_sets: int
    l2_ways: int
    l2_banks: int
    l2_hit_fs: int               # load to use, from the core, unloaded
    l2_hop_fs: int               # core <-> cluster L2, one way (0 if private)
    l2_bank_fs: int              # a bank is busy this long per access
    l2_load_line_fs: int         # the line is busy this long per load (same-line serialisation)
    l2_store_line_fs: int        # the line is busy this long per store or store-conditional; then it is performed
    l1_invalidate_fs: int        # L2 tells the L1s of its cluster to drop the line and has their answer
    l2_mshrs: int
    snoop_fs: int                # snoop at the node until its answer leaves
    snoop_dirty_fs: int          # extra when modified data must be read out
    snoop_bank_fs: int           # a snoop occupies the node's tag port this long
    snoop_first: bool            # a waiting external snoop goes before waiting local requests to the same line

    # network and home
    hop_fs: int                  # node <-> home, one way
    home_broadcast: bool         # snoop every other node; False: those whose core-valid bit is set
    home_slices: int
    home_lookup_fs: int          # request at home until snoops leave or the L3/CPC lookup is done
    home_occupancy_fs: int       # a request occupies its slice this long
    line_transfer_fs: int        # a line of data occupies a node's link this long
    l3_sets: int                 # per system; 0: no cache at the home
    l3_ways: int
    l3_inclusive: bool           # True: holds every line of the nodes; False: memory-side
    l3_data_fs: int              # after the lookup, until the data leaves the home
    memory_fs: int               # L3/CPC miss known until the line is at the home
    memory_channels: int
    memory_line_fs: int          # a line occupies its channel this long

    # devices; 0 where the machine file has no such section
    has_devices: bool = False
    l2_adjacent_line: bool = False   # private L2: a miss fetches the other line of its aligned pair too
    dma_to_l3: bool = False      # a line that a device wrote lies in the cache at the home, not in memory
    dma_fs: int = 0              # device <-> home, core -> device register, one way
    mmio_fs: int = 0             # an uncached store holds up its thread
    interrupt_latency_fs: int = 0
    interrupt_entry_fs: int = 0
    interrupt_exit_fs: int = 0
    idle_exit_fs: int = 0
