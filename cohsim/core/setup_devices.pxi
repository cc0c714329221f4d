# Packet sources, interrupt vectors and NICs before the first event. Called with the GIL.

cdef connect_source(Sim* s, Storage storage, periods_fs, int ring, int flows, int pool, bint poisson, long long frame_fs, long long backlog_fs):
    # See Simulation.source.
    cdef int32_t i
    s.has_source, s.ring, s.flows, s.pool, s.poisson = 1, ring, flows, pool, poisson
    s.frame_time, s.link_backlog = frame_fs, backlog_fs
    s.pool_fifo = <int32_t*>storage.zeros("", pool + 1, np.int32)
    for i in range(pool):
        s.pool_fifo[i] = i
    s.pool_head, s.pool_tail = 0, pool
    for i in range(s.n_threads):
        s.threads[i].period = periods_fs[i]
        if periods_fs[i] > 0:
            s.threads[i].arrival = <int64_t>(next_random(&s.threads[i].rng) % <uint64_t>periods_fs[i])


cdef connect_devices(Sim* s, Storage storage, d, m, int log_rows):
    # See Simulation.devices.
    cdef int32_t i
    cdef Thread* th
    if len(d.nics) > MAXNIC:
        raise ValueError(f"more than {MAXNIC} NICs")
    check_device_operations(s, d)
    s.has_devices, s.n_vectors, s.n_nics, s.n_traffic, s.n_counters = 1, len(d.vectors), len(d.nics), len(d.traffic), len(d.counters)
    s.dma_l3, s.dma, s.mmio, s.idle_exit = m.dma_to_l3, max(m.dma_fs, 2 * s.margin), m.mmio_fs, m.idle_exit_fs
    s.irq_latency, s.irq_entry, s.irq_exit = max(m.interrupt_latency_fs, 2 * s.margin), m.interrupt_entry_fs, m.interrupt_exit_fs
    s.counts = <int64_t*>storage.zeros("counts", (s.n_threads, max(1, s.n_counters)), np.int64)
    s.vectors = <Vector*>storage.zeros("", max(1, s.n_vectors) * sizeof(Vector), np.uint8)
    for i in range(s.n_threads):
        th = &s.threads[i]
        th.vectors = <int32_t*>storage.zeros("", MAXVEC, np.int32)
        th.saved = <Saved*>storage.zeros("", MAXNEST * sizeof(Saved), np.uint8)
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
    connect_nics(s, storage, d)
    s.dma_log_cap = log_rows
    s.dma_log = <int64_t*>storage.zeros("dma_log" if log_rows else "", (log_rows, DMAROW), np.int64)
    for i, v in enumerate(d.vectors):
        if v.period_ns > 0:
            s.vectors[i].period = round(v.period_ns * 1e6)
            device_event(s, 0, round(v.first_ns * 1e6), D_TIMER, 0, i)
    for i, f in enumerate(d.traffic):
        s.traffic[i].due = <int64_t>(next_random(&s.traffic[i].rng) % <uint64_t>s.traffic[i].period)
        device_event(s, f.nic, s.traffic[i].due, D_ARRIVE, i, 0)


cdef connect_nics(Sim* s, Storage storage, d):
    cdef int32_t i, q, k
    cdef Nic* n
    cdef Half* h
    s.nics = <Nic*>storage.zeros("", max(1, s.n_nics) * sizeof(Nic), np.uint8)
    s.nic_counters = <int64_t*>storage.zeros("nic_counters", (s.n_nics, NNIC), np.int64)
    s.traffic = <Traffic*>storage.zeros("", max(1, s.n_traffic) * sizeof(Traffic), np.uint8)
    rng = np.random.Generator(np.random.PCG64([int(s.threads[0].rng), 1]))
    for i, w in enumerate(d.nics):
        n = &s.nics[i]
        frames = [f.frame_bytes for f in d.traffic if f.nic == i] + ([w.ack_bytes] if w.ack_every else [])
        smallest = min(frames + [w.fifo_bytes])
        if smallest < 1 or max(frames + [0]) > w.fifo_bytes:
            raise ValueError(f"NIC {w.name}: a frame of no bytes, or one that does not fit into the FIFO")
        n.fifo_bytes, n.fifo_cap, n.blocked = w.fifo_bytes, w.fifo_bytes // smallest + 1, -1
        n.fifo = <int64_t*>storage.zeros("", 3 * n.fifo_cap, np.int64)
        n.rx_service, n.tx_service, n.wb_timeout = round(w.rx_service_ns * 1e6), round(w.tx_service_ns * 1e6), round(w.writeback_timeout_ns * 1e6)
        n.address_at, n.info_at, n.command_at, n.flow_at = w.rx.address_at, w.rx.info_at, w.tx.command_at, w.flow_at
        n.ack_every, n.ack_delay, n.ack_bytes = w.ack_every, round(w.ack_delay_ns * 1e6), w.ack_bytes
        n.peer_moderation, n.peer_irq = round(w.ack_moderation_ns * 1e6), -round(w.ack_moderation_ns * 1e6)
        n.overhead, n.fs_per_byte, n.queues = w.overhead_bytes, 8e15 / w.port_bps, w.queues
        n.pause, n.drop, n.writeback = w.pause, w.drop, w.writeback
        n.half = <Half*>storage.zeros("", 2 * n.queues * sizeof(Half), np.uint8)
        for k, ring in enumerate((w.rx, w.tx)):
            n.entries[k], n.descriptor[k], n.done_at[k] = ring.entries, ring.descriptor, ring.done_at
            for q in range(n.queues):
                h = &n.half[2 * q + k]
                h.base, h.vector, h.last_irq = ring.base + q * ring.stride, (w.rx_vectors, w.tx_vectors)[k][q], -FOREVER // 2
                h.moderation = round((w.rx_moderation_ns, w.tx_moderation_ns)[k] * 1e6)
                if h.moderation:
                    h.phase = rng.integers(0, h.moderation)
                h.info = <int64_t*>storage.zeros("", ring.entries, np.int64)
                h.here = <uint8_t*>storage.zeros("", ring.entries, np.uint8)
                if not 0 <= h.vector < s.n_vectors:
                    raise ValueError(f"NIC {w.name}: no such vector")
    for i, f in enumerate(d.traffic):
        s.traffic[i].period, s.traffic[i].bytes, s.traffic[i].nic = max(1, round(1e15 / f.rate_pps)), f.frame_bytes, f.nic
        s.traffic[i].overhead, s.traffic[i].flow = f.overhead_bytes, -1
        s.traffic[i].flows, s.traffic[i].poisson, s.traffic[i].rng = len(f.queue_of_flow), f.arrivals == "poisson", rng.integers(1, 2**63)
        queues = np.ascontiguousarray(f.queue_of_flow, np.int32)
        if (queues < 0).any() or (queues >= s.nics[f.nic].queues).any():
            raise ValueError("a flow goes to a queue that the NIC does not have")
        storage.keep.append(queues)
        s.traffic[i].queue = <int32_t*><size_t>queues.ctypes.data
    if s.n_nics:
        make_transactions(s, storage, s.nodes * 512 + MAXDMA)
    s.n_dmas = s.n_groups = MAXDMA
    s.dmas = <Dma*>storage.zeros("", MAXDMA * sizeof(Dma), np.uint8)
    s.groups = <DmaGroup*>storage.zeros("", MAXDMA * sizeof(DmaGroup), np.uint8)
    for i in range(MAXDMA):
        s.dmas[i].next_free = s.groups[i].next_free = i + 1 if i + 1 < MAXDMA else -1
