# Sizes and structures of the native core; what their codes mean is in codes.pxd. Times are femtoseconds (int64). A line is an address
# divided by the line size.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    NREG = 32
    NCTX = 6
    NCAT = 15
    NLEVEL = 9
    NLSTAT = 14
    LSTRIDE = 16       # counters of a line lie in two host cache lines of their own
    MAXSMT = 4
    MAXNODE = 32       # hardware threads of one node: 8 cores of 4
    MAXOUT = 32        # outstanding loads, LL and SC of one thread
    MAXSB = 128        # store buffer ring (capacity is the machine's; the ring also holds acknowledged holes)
    MAXWB = 32         # write-backs of one node that wait for their PutAck
    MAXDL = 1024       # messages on their way to one core; a power of two
    L1_HINTS = 512     # powers of two
    L2_HINTS = 1024
    HISTBINS = 64
    MAXREADS = 4096    # pending events in which a device may read memory
    MAXVEC = 64        # interrupt vectors of one CPU
    MAXNEST = 8        # interrupts within interrupts
    NNIC = 13          # counters of a NIC
    DMAROW = 6         # of the device log: time, NIC, 0 read or 1 written, address, value before, value after
    WHEEL = 1024       # buckets of the event queue, 2^WHEEL_SHIFT femtoseconds each
    WHEEL_WORDS = 16   # WHEEL / 64
    WHEEL_SHIFT = 18
    HOT = 8            # int64 counters of the hot statistics record: one host cache line per (thread, micro-op)

ctypedef packed struct Uop:
    uint8_t op
    uint8_t fn
    uint8_t flags
    uint8_t size
    uint8_t slot
    int8_t dst
    int8_t a
    int8_t b
    int8_t areg
    uint8_t pad0
    uint16_t pad1
    int32_t func
    int32_t prim
    int32_t field
    int32_t target
    int32_t line_no
    int64_t imm
    int64_t base
    int64_t stride

ctypedef packed struct Record:
    # One operation of a recorded trace (cohsim/traces/records.py).
    uint8_t kind
    uint8_t size
    uint16_t flags
    int32_t uop
    int64_t address
    int32_t gap
    int32_t back

cdef struct Word:
    uint64_t key           # address / 8, NOWORD if free
    uint64_t value

cdef struct Event:
    int64_t time
    uint64_t key       # ties: messages before core steps, then by source and its own serial; never by order of insertion
    int64_t b
    int32_t a
    int32_t d
    int16_t kind
    int16_t c
    int32_t next       # in its bucket

cdef struct Req:
    # A memory operation on its way through node and queues, or a snoop that waits in a line's queue.
    int64_t line
    int64_t addr
    int64_t value      # store value, or the second operand of an RMW
    int64_t expect     # CAS
    int64_t issued     # when it left the core
    int64_t queued     # when it began to wait in a line queue
    int32_t kind       # OpCode, or 0 for a snoop
    int32_t thread
    int32_t uop
    int32_t index      # outstanding-load entry or store-buffer slot
    int32_t next
    int32_t level      # who served it
    int32_t txn        # snoops: N_SNPS or N_SNPM
    uint8_t size
    uint8_t fn
    uint8_t ok         # SC: succeeded
    uint8_t pad

cdef struct Out:
    # An outstanding load, LL or SC of a thread, oldest first.
    int64_t line
    int64_t addr
    int64_t seq
    int64_t issued
    int32_t uop
    int32_t level      # who served it, once its data is here
    int8_t dst
    uint8_t size
    uint8_t op
    uint8_t here       # in-order binding: the data is here, the value is taken when older loads have theirs

cdef struct Store:
    # A store buffer entry.
    int64_t line
    int64_t addr
    int64_t value
    int64_t seq        # instruction number: leaves only when older loads are complete
    int64_t ready      # when its data is there
    int32_t group      # gathered: ring index of the entry whose message carries it
    int32_t uop
    uint8_t size
    uint8_t state      # 0 waiting, 1 sent, 2 performed
    uint8_t barrier    # leaves only when all older stores are performed
    uint8_t pad

cdef struct Saved:
    # The interrupted program: everything that an interrupt's own program may change.
    int64_t reg[NREG]
    int64_t ready[NREG]
    int64_t ctx[NCTX]
    int64_t work_left
    int64_t spin_edge
    int32_t pc
    int32_t retrying

cdef struct Vector:
    int64_t period         # of a timer, else 0
    int64_t raised
    int32_t thread
    int32_t entry
    int32_t queue
    int32_t bit            # in Thread.irq_pending

cdef struct Thread:
    # What nearly every action reads: the first three host cache lines.
    int64_t t              # local time: the next instruction dispatches here
    int64_t sb_time        # when the store buffer's head may act (in-order drain), else FOREVER
    int64_t icount
    int64_t work_left
    int64_t locked_until   # a locked operation holds back younger memory operations
    int32_t state
    int32_t pc
    int32_t n_out
    int32_t stream
    int32_t retrying
    int32_t sb_count       # not yet performed
    int64_t load_done      # when the latest load's value is there
    int64_t load_seq       # instruction number of the latest load
    int64_t sc_line        # line of the SC, or of the operation that a cluster's L2 performs, on its way; or -1
    uint64_t sb_words      # one bit per hashed word (line) in the store buffer: none set, none there
    uint64_t sb_lines
    int32_t id
    int32_t core
    int32_t node
    int32_t slot
    int32_t load_pending   # the latest load is still outstanding
    int32_t sb_barrier     # the next store carries a barrier
    int32_t sb_head
    int32_t sb_tail
    int32_t sb_unsent      # out of order: ring index from which on nothing has been sent
    int32_t sb_waiting     # in-order drain: the head's request is at the node
    int32_t block_kind
    int32_t block_uop
    int32_t block_cat
    int32_t locked_uop
    int64_t block_since
    int64_t block_seq      # instruction number of the load it waits for
    int64_t sb_next_free
    int64_t start
    int64_t iterations
    int64_t arrived        # packets that arrived at the queue until `arrival`
    int64_t arrival        # time of the next arrival
    int64_t queue_len
    int64_t period         # mean time between arrivals
    uint64_t rng
    int64_t reg[NREG]
    int64_t ready[NREG]    # when the register's value is there
    int64_t ctx[NCTX]
    int32_t regwait[NREG]  # 1: an outstanding operation will write it
    int32_t cpu
    int32_t op_pending     # a locked operation is at the node
    int32_t rec_fresh
    int32_t rec_part       # the second line of an access that crosses lines
    int32_t irq_ready      # an interrupt is pending and not masked
    int32_t irq_on
    int32_t n_vectors
    int32_t depth          # programs interrupted
    int32_t waking         # on its way out of the idle state until t
    int64_t spin_edge      # when it last entered or left a wait loop
    uint64_t irq_pending   # one bit per vector of this CPU, lowest first
    int32_t* vectors
    Saved* saved
    int64_t rec_pos
    int64_t rec_count
    Record* rec
    Uop cur
    Out out[MAXOUT]
    Store sb[MAXSB]

cdef struct L1Way:
    # Tags lie in Core.l1_tags, so that a look-up reads one host cache line.
    uint32_t lru
    uint8_t perm           # 1 read, 2 read and write
    uint8_t pad0
    uint16_t pad1
    int32_t l2             # way index in the private L2
    int32_t pad2

cdef struct Core:
    int64_t bound          # the acting thread may go on before this time without asking the schedule again
    int64_t port_free
    int64_t dl_min
    int32_t id
    int32_t node
    int32_t index          # in its node
    int32_t n_threads
    int32_t threads[MAXSMT]
    Thread* thread[MAXSMT]  # the same as pointers
    int32_t last           # slot of the thread that acted last: the other one wins a tie
    int32_t n_dl
    int32_t dl_head
    int32_t n_mshr
    uint32_t lru
    int64_t* dl            # ring of MAXDL times, earliest first: when messages under way arrive
    int64_t* l1_tags
    int32_t* l1_hint       # by the line's low bits: way in which such a line was found last
    int64_t* mshr          # lines with an outstanding fill
    L1Way* l1

cdef struct Way:
    int64_t tag
    int64_t busy_until     # occupancy of a cluster's line; a locked operation in a private cache
    uint32_t lru
    int32_t qhead
    int32_t qtail
    int32_t served         # level of the last fill, until its requester is served
    uint8_t state
    uint8_t l1mask
    int8_t writer          # core (in the node) that wrote last since the fill, -1 none
    uint8_t wake           # an EV_NODE_LINE is under way
    int32_t slot           # of its line in the line table, -1: not asked yet
    int32_t write_code     # access code of who wrote last since the fill, and who fetched or loaded last: what a taker takes the line from
    int32_t read_code
    int32_t from_code      # whose copy the home took for the request under way
    int16_t write_thread   # -1: nobody
    int16_t read_thread
    int16_t from_thread
    uint8_t from_data      # that copy supplies the data
    uint8_t pad[5]         # one host cache line

cdef struct WriteBack:
    int64_t line
    int32_t qhead
    int32_t qtail
    int32_t code           # access code of who used it last
    int16_t thread
    uint8_t state
    uint8_t used

cdef struct Node:
    int32_t id
    int32_t stall_head
    int32_t stall_tail
    int32_t outstanding    # requests at the homes
    int32_t retry          # an EV_NODE_RETRY is under way
    int32_t n_wb
    uint32_t lru
    int64_t snoop_free
    int64_t link_free
    int64_t home_last      # messages to the homes stay in order
    int64_t* bank_free
    int64_t* tags          # copies of Way.tag, kept by set_tag: a look-up reads nothing else
    int32_t* hint          # as Core.l1_hint
    Way* ways
    int64_t reservation[MAXNODE]   # by hardware thread: line, or -1
    int32_t reservation_code[MAXNODE]   # access code of the load-and-reserve
    int64_t pairs          # rows of its pair table in use
    WriteBack wb[MAXWB]

cdef struct Txn:
    int64_t line
    int64_t data_ready     # when the home's own data is there
    int64_t begun
    int64_t queued
    int32_t qhead          # waiting messages of this line
    int32_t qtail
    int32_t next_free
    int32_t hash_next
    int32_t requester
    int32_t pending
    int32_t way            # L3 way, -1
    int32_t parent         # recall: the transaction that waits for the place
    int32_t data_from      # level of the noted data, -1
    int32_t supplier
    uint8_t state
    uint8_t kind           # H_GETS, H_GETM, H_UPG, H_RECALL
    uint8_t sharer         # another node keeps a copy
    uint8_t memory         # data_ready is the memory's

cdef struct HomeMsg:
    int64_t time
    int32_t kind
    int32_t src
    int32_t next

cdef struct Half:
    # One direction of a queue: descriptors [wb, ready) wait for their write-back, [ready, head) are with the device, [head, tail) are
    # offered by the driver. Counters grow without end; the ring index is the remainder.
    int64_t base
    int64_t head
    int64_t tail
    int64_t ready
    int64_t wb
    int64_t last_irq
    int64_t moderation     # least time between two interrupts
    int64_t phase          # of its interrupt moderation, until the first interrupt
    int64_t* info          # receive: the flow number; transmit: 1 where status is asked for
    uint8_t* here          # receive: the frame's data is written
    int32_t vector
    int32_t cause          # something was written back since the last interrupt
    int32_t armed
    int32_t waiting        # an interrupt waits for its moderation time
    int32_t timer          # a write-back timeout of this batch is under way
    int64_t batch          # write-backs so far
    int32_t busy           # transmit: 1 descriptors are on their way to the engine, 2 they are there

cdef struct Nic:
    int64_t fifo_bytes, fifo_used, fifo_head, fifo_tail, fifo_cap
    int64_t* fifo          # ring of (value, bytes, queue)
    int64_t rx_free, rx_service, tx_free, tx_service, wire_free, wb_timeout, paused_since, blocked_since
    int64_t entries[2]
    int64_t descriptor[2]
    int64_t done_at[2]
    int64_t address_at, info_at, command_at, flow_at, overhead
    int64_t sent, ack_every, ack_delay, ack_bytes, acked
    int64_t peer_moderation, peer_irq      # least time between two interrupts of the peer; its latest one
    int64_t port_free      # the frame before is through the port, inward
    double fs_per_byte
    int32_t queues, pause, drop, writeback, rx_busy, blocked
    int32_t tx_busy, tx_last       # the engine has an event under way; the queue that it served last
    int32_t dma_out        # writes under way, lines
    int32_t held, acks_held        # frames that wait at paused senders; those of them that are acknowledgements
    Half* half             # [queues, 2]: receive, transmit

cdef struct Traffic:
    int64_t period
    int64_t bytes
    int64_t next_flow, flow, due   # flow: of the frame that waits for its turn, -1: none; due: when it is offered
    uint64_t rng
    int32_t nic, flows, poisson, held, overhead
    int32_t* queue

cdef struct Dma:
    # One line of a DMA write.
    int64_t first          # descriptor (write-backs), or buffer address (data)
    int64_t value          # data: the flow number
    int32_t group
    int32_t nic
    int32_t queue
    int32_t kind           # 0 frame data, 1 receive write-back, 2 transmit write-back
    int32_t count          # descriptors
    int32_t next_free

cdef struct DmaGroup:
    # Lines that belong together: when all are written, the device goes on.
    int64_t first
    int32_t pending
    int32_t next_free

cdef struct L3Way:
    int64_t tag            # copied in Sim.l3_tags
    uint64_t bits          # core-valid bits
    uint32_t lru
    int16_t owner          # the node that may modify its copy without asking, -1
    uint8_t dirty
    uint8_t pad

cdef struct Sim:
    # machine
    int32_t nodes, cores_per_node, threads_per_core, n_cores, n_threads
    int32_t adjacent, l2_private, broadcast, write_through, in_order, gathering, smt_shared, snoop_first, inclusive
    int32_t window, window_smt, sbq, sbq_smt, sb_mask, mshrs, l2_mshrs, l2_banks, slices, channels, line_shift, line_bytes
    int32_t l1_sets, l1_ways, l2_sets, l2_ways, l3_sets, l3_ways
    int64_t period, issue, port, forward, mispredict, locked, pause, f_full, f_light, f_instr, f_load, f_store
    int64_t l1_hit, l2_hit, l2_hop, l2_service, l2_bank, l2_load_line, l2_store_line, l1_inv, snoop, snoop_dirty, snoop_bank
    int64_t hop, lookup, home_occ, transfer, l3_data, memory, memory_line
    uint8_t* node_next
    uint32_t* node_ops
    uint8_t* perm
    uint8_t* home_next
    uint32_t* home_ops
    # program
    Uop* uops
    int32_t n_uops
    # packets
    int32_t has_source, ring, flows, pool, pool_head, pool_tail, poisson
    int32_t* pool_fifo
    int64_t frame_time     # on the egress link, 0 for no limit
    int64_t link_free
    int64_t link_backlog
    # devices and interrupts
    int32_t has_devices, n_vectors, n_nics, n_traffic, n_counters, dma_l3
    int64_t dma, mmio, irq_latency, irq_entry, irq_exit, idle_exit
    Vector* vectors
    Nic* nics
    Traffic* traffic
    Dma* dmas
    DmaGroup* groups
    int64_t reads[MAXREADS]    # times of the events in which a device may read memory
    int64_t read_min
    int32_t n_reads
    int32_t n_dmas, free_dma, n_groups, free_group
    int64_t* nic_counters  # [nics, NNIC]
    int64_t* dma_log       # [dma_log_cap, DMAROW]: see core/device_log.pxi
    int64_t dma_log_cap, dma_log_count
    int64_t* counts        # [T, counters]
    # agents
    Core* cores
    Node* nodes_
    Thread* threads
    # event queue
    Event* slots
    int64_t n_slots, n_far
    int32_t free_slot
    int32_t first          # the earliest event, -1: none
    int64_t queue_time     # its time, FOREVER if there is none
    int64_t hand           # place of the latest event taken: nothing lies before it
    int32_t* far           # heap of the events beyond the wheel
    uint64_t wheel_bits[WHEEL_WORDS]
    int32_t wheel[WHEEL]
    int64_t* run_time      # by core: when it acts next on its own, FOREVER if never; filled up to four quarters
    int64_t run_quarter
    int64_t steps          # local actions since the event loop looked: a core that is alone must let Ctrl-C in
    int64_t next_time      # the least of run_time
    int32_t next_core
    int32_t touched        # something the local schedule depends on has changed
    int32_t woken          # a message has given a thread or store buffer an earlier time to act
    int64_t margin         # shortest way of a message to a core
    int64_t now
    uint64_t* serial       # per source
    # pools
    Req* reqs
    int32_t n_reqs, free_req
    Txn* txns
    int32_t n_txns, free_txn
    HomeMsg* msgs
    int32_t n_msgs, free_msg
    int32_t* txn_hash
    L3Way* l3
    int64_t* l3_tags
    uint32_t l3_lru
    int64_t* slice_free
    int64_t* channel_free
    # memory image
    Word* words
    int64_t word_cap, word_used
    # control
    int64_t from_, until
    int32_t closed         # only words that somebody can read are kept, all of them are in the image already
    int32_t values         # the memory image is kept (recorded traces carry no values)
    int32_t lookahead, check, fault, fault_a, fault_b, fault_c
    int64_t fault_line
    int32_t halted, refill
    # statistics
    int64_t* hot           # [T, U, HOT]: what nearly every micro-op touches, see HOT_CATEGORY and HOT_LEVEL
    int64_t* time_fs       # [T, U, C], the other categories
    int64_t* served        # [T, U, L], the other levels
    double per_cycle       # 1 / period
    int32_t l1_bin         # histogram bin of an L1 hit
    int64_t* scfail        # [T, U]
    int64_t* iterations
    int64_t* received
    int64_t* dropped
    int64_t* lkey
    int64_t* lstat
    int64_t lcap, lused, loverflow
    int64_t lmemo_line, lmemo_slot     # the latest answer of line_slot
    int64_t* transfers     # [N, N]
    int64_t* latency       # [U, LAT]: operations beyond the L1, all threads
    int64_t* pairs         # [N, pair_cap, PAIR]
    int64_t pair_cap, pairs_lost
    int64_t* log           # [cores + N, log_cap, LOGROW]
    int64_t* log_count     # [cores + N]
    int64_t log_cap
    int64_t log_line[16]
    int32_t n_log
    int64_t* hist          # [L, 64]
    int64_t* node_fired
    int64_t* home_fired
    int64_t memops, events
    int64_t turns          # cores' own actions taken from run_time: the schedule's other half beside `events`
    int64_t home_requests, home_snoops, home_blocked, memory_reads, memory_writes, writebacks, evictions, recalls
    int64_t adjacent_fetches
    int64_t l2_queue_fs, home_queue_fs, l2_requests, tx_dropped, gathered
