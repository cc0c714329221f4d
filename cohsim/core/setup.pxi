# The state of a simulation before its first event, from the compiled machine and the program. Called once, with the GIL.

cdef set_machine(Sim* s, m, int cpus):
    check_machine(m)
    s.nodes, s.cores_per_node, s.threads_per_core = m.nodes, m.cores_per_node, m.threads_per_core
    s.n_cores = m.nodes * m.cores_per_node
    s.n_threads = cpus
    s.l2_private, s.broadcast, s.write_through = m.l2_private, m.home_broadcast, m.l1_write_through
    s.in_order, s.gathering, s.smt_shared, s.snoop_first = m.store_in_order, m.store_gathering, m.smt_shared_dispatch, m.snoop_first
    s.inclusive = m.l3_inclusive
    s.adjacent = m.l2_private and m.l2_adjacent_line
    s.window, s.window_smt, s.sbq, s.sbq_smt, s.mshrs = m.window, m.window_smt, m.store_queue, m.store_queue_smt, m.mshrs
    s.l2_banks, s.slices, s.channels, s.l2_mshrs = m.l2_banks, m.home_slices, m.memory_channels, m.l2_mshrs
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


cdef set_tables(Sim* s, Storage storage, node, home):
    for table in (node, home):
        for array in (table.next, table.ops, table.perm):
            if not array.flags.c_contiguous:
                raise ValueError("protocol tables must be contiguous")
            storage.keep.append(array)
    s.node_next = <uint8_t*><size_t>node.next.ctypes.data
    s.node_ops = <uint32_t*><size_t>node.ops.ctypes.data
    s.perm = <uint8_t*><size_t>node.perm.ctypes.data
    s.home_next = <uint8_t*><size_t>home.next.ctypes.data
    s.home_ops = <uint32_t*><size_t>home.ops.ctypes.data
    s.node_fired = <int64_t*>storage.zeros("node_fired", (len(node.states), len(node.events)), np.int64)
    s.home_fired = <int64_t*>storage.zeros("home_fired", (len(home.states), len(home.events)), np.int64)


cdef make_schedule(Sim* s, Storage storage):
    cdef int64_t j
    s.run_quarter = (s.n_cores + 3) // 4
    s.read_min = FOREVER
    s.run_time = <int64_t*>storage.zeros("", 4 * s.run_quarter, np.int64)
    for j in range(4 * s.run_quarter):
        s.run_time[j] = FOREVER
    s.next_time = FOREVER
    s.next_core = -1
    s.margin = s.hop if s.l2_private else s.l2_hop


cdef make_cores(Sim* s, Storage storage):
    cdef int32_t i, k
    cdef int64_t j
    cdef Core* c
    s.cores = <Core*>storage.zeros("", s.n_cores * sizeof(Core), np.uint8)
    for i in range(s.n_cores):
        c = &s.cores[i]
        c.id, c.node, c.index = i, i // s.cores_per_node, i % s.cores_per_node
        c.dl_min = FOREVER
        c.dl = <int64_t*>storage.zeros("", MAXDL, np.int64)
        c.mshr = <int64_t*>storage.zeros("", s.mshrs + 1 + MAXSMT * MAXOUT, np.int64)
        c.l1 = <L1Way*>storage.zeros("", s.l1_sets * s.l1_ways * sizeof(L1Way), np.uint8)
        c.l1_hint = <int32_t*>storage.zeros("", L1_HINTS, np.int32)
        c.l1_tags = <int64_t*>storage.zeros("", s.l1_sets * s.l1_ways, np.int64)
        for j in range(s.l1_sets * s.l1_ways):
            c.l1_tags[j] = -1
        for k in range(MAXSMT):
            c.threads[k] = -1


cdef make_nodes(Sim* s, Storage storage):
    cdef int32_t i, k
    cdef int64_t j
    cdef Node* n
    s.nodes_ = <Node*>storage.zeros("", s.nodes * sizeof(Node), np.uint8)
    for i in range(s.nodes):
        n = &s.nodes_[i]
        n.id = i
        n.stall_head = n.stall_tail = -1
        for k in range(MAXNODE):
            n.reservation[k] = -1
        n.bank_free = <int64_t*>storage.zeros("", s.l2_banks, np.int64)
        n.ways = <Way*>storage.zeros("", <int64_t>s.l2_sets * s.l2_ways * sizeof(Way), np.uint8)
        n.hint = <int32_t*>storage.zeros("", L2_HINTS, np.int32)
        n.tags = <int64_t*>storage.zeros("", <int64_t>s.l2_sets * s.l2_ways, np.int64)
        for j in range(<int64_t>s.l2_sets * s.l2_ways):
            n.tags[j] = n.ways[j].tag = -1
            n.ways[j].qhead = n.ways[j].qtail = -1
            n.ways[j].served = -1
            n.ways[j].writer = -1
            n.ways[j].write_thread = n.ways[j].read_thread = n.ways[j].from_thread = -1


cdef make_threads(Sim* s, Storage storage, m, pin, entry, unsigned long long seed):
    cdef int32_t i
    cdef Core* c
    cdef Thread* th
    s.threads = <Thread*>storage.zeros("", s.n_threads * sizeof(Thread), np.uint8)
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


cdef make_transactions(Sim* s, Storage storage, int count):
    # Lines that are busy at the homes, and messages that wait for them.
    cdef int32_t i
    s.free_txn = s.free_msg = 0
    s.n_txns = s.n_msgs = count
    s.txns = <Txn*>storage.zeros("", count * sizeof(Txn), np.uint8)
    s.msgs = <HomeMsg*>storage.zeros("", count * sizeof(HomeMsg), np.uint8)
    for i in range(count):
        s.txns[i].next_free = s.msgs[i].next = i + 1 if i + 1 < count else -1


cdef make_pools(Sim* s, Storage storage):
    cdef int32_t i
    s.n_reqs = s.n_threads * (MAXOUT + MAXSB) + s.nodes * 256
    s.reqs = <Req*>storage.zeros("", s.n_reqs * sizeof(Req), np.uint8)
    for i in range(s.n_reqs):
        s.reqs[i].next = i + 1 if i + 1 < s.n_reqs else -1
    make_transactions(s, storage, s.nodes * 512)
    s.txn_hash = <int32_t*>storage.zeros("", TXN_HASH, np.int32)
    for i in range(TXN_HASH):
        s.txn_hash[i] = -1


cdef make_homes(Sim* s, Storage storage):
    cdef int64_t j
    if s.l3_ways:
        s.l3 = <L3Way*>storage.zeros("", <int64_t>s.l3_sets * s.l3_ways * sizeof(L3Way), np.uint8)
        s.l3_tags = <int64_t*>storage.zeros("", <int64_t>s.l3_sets * s.l3_ways, np.int64)
        for j in range(<int64_t>s.l3_sets * s.l3_ways):
            s.l3_tags[j] = s.l3[j].tag = -1
            s.l3[j].owner = -1
    s.slice_free = <int64_t*>storage.zeros("", s.slices, np.int64)
    s.channel_free = <int64_t*>storage.zeros("", s.channels, np.int64)


cdef make_queue(Sim* s, Storage storage):
    # The event queue and the memory image grow, so they are no arrays: Simulation frees them.
    cdef int32_t i
    cdef int64_t j
    s.serial = <uint64_t*>storage.zeros("", s.n_cores + s.nodes + s.slices + MAXNIC, np.uint64)
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


cdef make_statistics(Sim* s, Storage storage, int line_table):
    cdef int64_t j
    t, u = s.n_threads, s.n_uops
    s.hot = <int64_t*>storage.zeros("hot", (t, u, HOT), np.int64)
    s.per_cycle = 1.0 / s.period
    s.l1_bin = latency_bin(s, s.l1_hit)
    s.time_fs = <int64_t*>storage.zeros("time_fs", (t, u, NCAT), np.int64)
    s.served = <int64_t*>storage.zeros("served", (t, u, NLEVEL), np.int64)
    s.scfail = <int64_t*>storage.zeros("sc_failures", (t, u), np.int64)
    s.iterations = <int64_t*>storage.zeros("iterations", t, np.int64)
    s.received = <int64_t*>storage.zeros("received", t, np.int64)
    s.dropped = <int64_t*>storage.zeros("dropped", t, np.int64)
    s.lcap = line_table
    s.lkey = <int64_t*>storage.zeros("line_key", line_table, np.int64)
    s.lstat = <int64_t*>storage.zeros("", (line_table, LSTRIDE), np.int64)
    storage.named["line_stats"] = storage.keep[len(storage.keep) - 1][:, :NLSTAT]
    s.lmemo_line = -1
    for j in range(s.lcap):
        s.lkey[j] = -1
    s.transfers = <int64_t*>storage.zeros("node_transfers", (s.nodes, s.nodes), np.int64)
    s.hist = <int64_t*>storage.zeros("latency_hist", (NLEVEL, HISTBINS), np.int64)


cdef make_sharing(Sim* s, Storage storage, int pair_table, log_lines, long long log_events):
    cdef int32_t i
    s.latency = <int64_t*>storage.zeros("latency", (s.n_uops, LAT), np.int64)
    s.pair_cap = pair_table
    while s.pair_cap * s.nodes > pair_table and s.pair_cap > 256:
        s.pair_cap //= 2
    s.pairs = <int64_t*>storage.zeros("pairs", (s.nodes, s.pair_cap, PAIR), np.int64)
    s.log_cap = log_events if log_lines else 0
    if log_lines and (len(log_lines) > MAXLOG or log_events < 1):
        raise ValueError(f"the event log takes up to {MAXLOG} lines and at least one event")
    for i, address in enumerate(log_lines):
        s.log_line[i] = address >> s.line_shift
    s.n_log = len(log_lines)
    s.log = <int64_t*>storage.zeros("log", (s.n_cores + s.nodes, s.log_cap, LOGROW), np.int64)
    s.log_count = <int64_t*>storage.zeros("log_count", s.n_cores + s.nodes, np.int64)
