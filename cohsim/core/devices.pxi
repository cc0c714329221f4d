# Network devices. A NIC's engines act in global time: frames arrive into its FIFO, the receive engine writes them to the buffers that the
# driver posted, the transmit engine reads descriptors behind the doorbell. What it writes takes the lines out of all caches (or
# puts them into the home's): a DMA write is a transaction of the line's home like a recall.
# What it reads of its descriptors is a snapshot at that moment: no core runs ahead of an event in which a device may read.

cdef inline int32_t src_nic(Sim* s, int32_t nic) noexcept nogil:
    return s.n_cores + s.nodes + s.slices + nic


cdef inline bint may_read(int32_t what) noexcept nogil:
    # Events in which an engine may look at memory, at once or in an event of the same instant.
    return what >= D_ARRIVE and what <= D_ENGINE


cdef inline void reads_done(Sim* s, int64_t t) noexcept nogil:
    cdef int32_t i
    cdef int64_t m = FOREVER
    for i in range(s.n_reads):
        if s.reads[i] == t:
            s.n_reads -= 1
            s.reads[i] = s.reads[s.n_reads]
            break
    for i in range(s.n_reads):
        if s.reads[i] < m:
            m = s.reads[i]
    s.read_min = m


cdef inline void device_event(Sim* s, int32_t nic, int64_t t, int32_t what, int32_t queue, int64_t value) noexcept nogil:
    # An engine's next look at memory is known well before it comes: it is set by an event that is one itself, or a trip to the device ahead.
    if may_read(what):
        if s.n_reads == MAXREADS:
            s.fault = X_POOL
            return
        s.reads[s.n_reads] = t
        s.n_reads += 1
        if t < s.read_min:
            s.read_min = t
    send(s, t, src_nic(s, nic), EV_DEV, nic, value, what, queue)


cdef inline void nic_count(Sim* s, int32_t nic, int32_t counter, int64_t amount, int64_t t) noexcept nogil:
    if measuring(s, t):
        s.nic_counters[nic * NNIC + counter] += amount


cdef inline void nic_span(Sim* s, int32_t nic, int32_t counter, int64_t t0, int64_t t1) noexcept nogil:
    # A stretch of time, clipped to the measured window.
    if t0 < s.from_:
        t0 = s.from_
    if t1 > s.until:
        t1 = s.until
    if t1 > t0:
        s.nic_counters[nic * NNIC + counter] += t1 - t0


# ---- DMA writes ------------------------------------------------------------------------------------------------------------------

cdef int32_t group_new(Sim* s, int64_t first) noexcept nogil:
    cdef int32_t g = s.free_group
    if g < 0:
        s.fault = X_POOL
        return 0
    s.free_group = s.groups[g].next_free
    s.groups[g].first = first
    s.groups[g].pending = 0
    return g


cdef void dma_line(Sim* s, int32_t nic, int32_t queue, int32_t kind, int32_t group, int64_t line, int64_t first, int32_t count,
                   int64_t value, int64_t t) noexcept nogil:
    cdef int32_t d = s.free_dma
    cdef Dma* p
    if d < 0:
        s.fault = X_POOL
        return
    p = &s.dmas[d]
    s.free_dma = p.next_free
    s.nics[nic].dma_out += 1
    p.nic, p.queue, p.kind, p.group, p.first, p.count, p.value = nic, queue, kind, group, first, count, value
    s.groups[group].pending += 1
    nic_count(s, nic, NC_DMA_WRITES, 1, t)
    send(s, t + s.dma, src_nic(s, nic), EV_DMA, <int32_t>(line % s.slices), line, 0, d)


cdef void dma_arrives(Sim* s, int64_t line, int32_t d, int64_t t) noexcept nogil:
    cdef int32_t x = txn_find(s, line), m
    if x < 0:
        x = txn_new(s, line)
        if not s.fault:
            dma_start(s, x, d, t)
        return
    m = s.free_msg
    if m < 0:
        s.fault = X_POOL
        return
    s.free_msg = s.msgs[m].next
    s.msgs[m].kind = H_RECALL
    s.msgs[m].src = d
    s.msgs[m].time = t
    s.msgs[m].next = -1
    if s.txns[x].qhead < 0:
        s.txns[x].qhead = m
    else:
        s.msgs[s.txns[x].qtail].next = m
    s.txns[x].qtail = m


cdef void dma_start(Sim* s, int32_t x, int32_t d, int64_t t) noexcept nogil:
    # The line is free: take it away from every node that may hold it.
    cdef Txn* p = &s.txns[x]
    cdef int64_t start = slice_start(s, p.line, t)
    cdef L3Way* w = l3_find(s, p.line)
    cdef int32_t idx = HS_FREE * H_EVENTS + H_RECALL
    p.kind = H_RECALL
    p.requester = -1
    p.parent = -2 - d
    p.data_from = -1
    p.sharer = 0
    p.begun = start
    p.way = <int32_t>(w - s.l3) if w != NULL and s.inclusive else -1
    if s.home_next[idx] == 255:
        home_fault(s, p.line, HS_FREE, H_RECALL)
        return
    s.home_fired[idx] += 1
    p.state = s.home_next[idx]
    if s.inclusive and (w == NULL or w.bits == 0):
        home_ready_at(s, x, start + s.lookup)          # nobody to ask
        return
    txn_go(s, x, s.home_ops[idx], True, start)


cdef void dma_store(Sim* s, int64_t line, int32_t way, int64_t t) noexcept nogil:
    # Where the written line lies now: in memory, or in the cache at the home.
    cdef L3Way* w
    cdef L3Way* set_
    cdef int32_t i
    if not s.inclusive:
        if s.dma_l3:
            l3_install(s, line, 1, t)
            return
        w = l3_find(s, line)
        if w != NULL:
            l3_tag(s, w, -1)
            w.dirty = 0
        memory_access(s, line, t, True)
        return
    w = &s.l3[way] if way >= 0 else NULL
    if not s.dma_l3:
        if w != NULL:
            l3_tag(s, w, -1)
            w.dirty = 0
            w.bits = 0
            w.owner = -1
        memory_access(s, line, t, True)
        return
    if w == NULL:
        # Only a way that no node's copy depends on: a device does not wait for recalls.
        set_ = &s.l3[(line % s.l3_sets) * s.l3_ways]
        for i in range(s.l3_ways):
            if set_[i].tag == -1:
                w = &set_[i]
                break
            if set_[i].bits == 0 and txn_find(s, set_[i].tag) < 0 and (w == NULL or set_[i].lru < w.lru):
                w = &set_[i]
        if w == NULL:
            memory_access(s, line, t, True)
            return
        if w.tag != -1 and w.dirty:
            memory_access(s, w.tag, t, True)
        l3_tag(s, w, line)
    w.bits = 0
    w.owner = -1
    w.dirty = 1
    s.l3_lru += 1
    w.lru = s.l3_lru


cdef void check_gone(Sim* s, int64_t line) noexcept nogil:
    # In checked runs: what a device writes, no cache of a core may still hold.
    cdef int32_t i, wi
    for i in range(s.nodes):
        wi = l2_find(s, &s.nodes_[i], line)
        if wi >= 0 and s.perm[s.nodes_[i].ways[wi].state] > 0:
            s.fault = X_SWMR
            s.fault_line = line
    for i in range(s.n_cores):
        if l1_index(s, &s.cores[i], line) >= 0:
            s.fault = X_SWMR
            s.fault_line = line


cdef void dma_done(Sim* s, int32_t x, int64_t t) noexcept nogil:
    # No node holds the line any more: the device's bytes take effect.
    cdef int32_t d = -2 - s.txns[x].parent, g
    cdef Dma* p = &s.dmas[d]
    cdef Nic* n = &s.nics[p.nic]
    cdef Half* h
    cdef int32_t dir_ = 1 if p.kind == 2 else 0
    cdef int64_t i, at
    if s.check:
        check_gone(s, s.txns[x].line)
    dma_store(s, s.txns[x].line, s.txns[x].way, t)
    if p.kind == 0:
        if p.count:
            dma_write(s, p.nic, p.first + n.flow_at, <uint64_t>p.value, t)
    else:
        h = &n.half[2 * p.queue + dir_]
        for i in range(p.first, p.first + p.count):
            at = h.base + (i % n.entries[dir_]) * n.descriptor[dir_]
            if dir_ == 0:
                dma_write(s, p.nic, at + n.done_at[0], 1, t)
                dma_write(s, p.nic, at + n.info_at, <uint64_t>h.info[i % n.entries[0]], t)
            elif h.info[i % n.entries[1]]:
                dma_write(s, p.nic, at + n.done_at[1], 1, t)
    g = p.group
    s.groups[g].pending -= 1
    if s.groups[g].pending == 0:
        group_done(s, p, g, t)
        s.groups[g].next_free = s.free_group
        s.free_group = g
    p.next_free = s.free_dma
    s.free_dma = d
    n.dma_out -= 1
    txn_next(s, x, t)


cdef void group_done(Sim* s, Dma* p, int32_t g, int64_t t) noexcept nogil:
    cdef Nic* n = &s.nics[p.nic]
    cdef Half* h
    if p.kind == 0:
        h = &n.half[2 * p.queue]
        h.here[s.groups[g].first % n.entries[0]] = 1
        while h.ready < h.head and h.here[h.ready % n.entries[0]]:
            h.here[h.ready % n.entries[0]] = 0
            h.ready += 1
        write_back(s, p.nic, p.queue, 0, t, 0)
    else:
        h = &n.half[2 * p.queue + p.kind - 1]
        h.cause = 1
        try_irq(s, p.nic, p.queue, p.kind - 1, t)


cdef void write_back(Sim* s, int32_t nic, int32_t queue, int32_t dir_, int64_t t, int32_t flush) noexcept nogil:
    # Tell the driver about finished descriptors. Receive: a batch is full, or the oldest has waited long enough. Transmit: those that ask
    # for it, at once.
    cdef Nic* n = &s.nics[nic]
    cdef Half* h = &n.half[2 * queue + dir_]
    cdef int64_t i, at, line, first, asked
    cdef int32_t g = -1
    if h.ready == h.wb:
        return
    if dir_ == 0 and h.ready - h.wb < n.writeback and not flush:
        if not h.timer:
            h.timer = 1
            device_event(s, nic, t + n.wb_timeout, D_FLUSH, queue, h.batch)
        return
    h.timer = 0
    h.batch += 1                       # a timeout that is under way was the batch before's
    i = h.wb
    while i < h.ready:
        first = i
        asked = 0
        at = h.base + (i % n.entries[dir_]) * n.descriptor[dir_]
        line = at >> s.line_shift
        while i < h.ready and (h.base + (i % n.entries[dir_]) * n.descriptor[dir_]) >> s.line_shift == line:
            asked += 1 if dir_ == 0 else h.info[i % n.entries[1]]
            i += 1
        if not asked:
            continue
        if g < 0:
            g = group_new(s, h.wb)
            if s.fault:
                return
        dma_line(s, nic, queue, 1 + dir_, g, line, first, <int32_t>(i - first), 0, t)
        if s.fault:
            return
    h.wb = h.ready


# ---- interrupts ------------------------------------------------------------------------------------------------------------------

cdef void try_irq(Sim* s, int32_t nic, int32_t queue, int32_t dir_, int64_t t) noexcept nogil:
    # Raise the vector if its cause, its mask and its moderation time allow; it masks itself until the driver enables it.
    cdef Nic* n = &s.nics[nic]
    cdef Half* h = &n.half[2 * queue + dir_]
    if not h.cause or not h.armed or h.waiting:
        return
    if h.last_irq + h.moderation > t:
        h.waiting = 1
        device_event(s, nic, h.last_irq + h.moderation, D_IRQ_RX + dir_, queue, 0)
        return
    h.cause = 0
    h.armed = 0
    # The first interval is stretched by the vector's phase, which the seed decides: the vectors of a NIC do not tick in step.
    h.last_irq = t + h.phase
    h.phase = 0
    nic_count(s, nic, NC_RX_IRQS + dir_, 1, t)
    raise_vector(s, h.vector, src_nic(s, nic), t + s.irq_latency)


# ---- receive ---------------------------------------------------------------------------------------------------------------------

cdef inline int64_t traffic_gap(Traffic* f) noexcept nogil:
    cdef double u
    if not f.poisson:
        return f.period
    u = (<double>(next_random(&f.rng) >> 11) + 1.0) / 9007199254740993.0
    return <int64_t>(-log(u) * f.period) + 1


cdef int32_t fifo_push(Sim* s, int32_t nic, int64_t value, int64_t bytes_, int32_t queue, int64_t t) noexcept nogil:
    # 0: no room.
    cdef Nic* n = &s.nics[nic]
    cdef int64_t* e
    if n.fifo_used + bytes_ > n.fifo_bytes:
        return 0
    e = &n.fifo[3 * (n.fifo_tail % n.fifo_cap)]
    e[0], e[1], e[2] = value, bytes_, queue
    n.fifo_tail += 1
    n.fifo_used += bytes_
    nic_count(s, nic, NC_ARRIVED, 1, t)
    if not n.rx_busy and n.blocked < 0:
        n.rx_busy = 1
        device_event(s, nic, t if t > n.rx_free else n.rx_free, D_RECEIVE, 0, 0)
    return 1


cdef inline void hold(Nic* n, int64_t t) noexcept nogil:
    # A pause frame: the peer waits with what did not fit.
    if not n.held:
        n.paused_since = t
    n.held += 1


cdef inline int64_t on_wire(Nic* n, int64_t bytes_) noexcept nogil:
    return <int64_t>(bytes_ * n.fs_per_byte)


cdef void arrive(Sim* s, int32_t source, int64_t t) noexcept nogil:
    # The next frame of a traffic source is at the port; frames that arrive through one port come one after the other.
    cdef Traffic* f = &s.traffic[source]
    cdef Nic* n = &s.nics[f.nic]
    if t < n.port_free:
        device_event(s, f.nic, n.port_free, D_ARRIVE, source, 0)
        return
    if f.flow < 0:
        if f.poisson:
            f.flow = <int64_t>(next_random(&f.rng) % <uint64_t>f.flows)
        else:
            f.flow = f.next_flow % f.flows
    if n.half[2 * f.queue[f.flow]].tail == 0:
        pass                           # the driver has not enabled the queue yet: the frame is nobody's loss
    elif not fifo_push(s, f.nic, f.flow, f.bytes, f.queue[f.flow], t):
        if n.pause:
            f.held = 1                 # the sender waits; its frame stays with it
            hold(n, t)
            return
        nic_count(s, f.nic, NC_MISSED, 1, t)
    n.port_free = t + on_wire(n, f.bytes + f.overhead)
    f.next_flow += 1
    f.flow = -1
    f.due += traffic_gap(f)
    device_event(s, f.nic, f.due if f.due > t else t, D_ARRIVE, source, 0)


cdef void acknowledge(Sim* s, int32_t nic, int64_t t) noexcept nogil:
    # The peer's next acknowledgement is at the port.
    cdef Nic* n = &s.nics[nic]
    if t < n.port_free:
        device_event(s, nic, n.port_free, D_ACK, 0, 0)
        return
    if not fifo_push(s, nic, n.acked + n.ack_every, n.ack_bytes, 0, t):
        if n.pause:
            n.acks_held += 1
            hold(n, t)
            return
        nic_count(s, nic, NC_MISSED, 1, t)
    n.acked += n.ack_every
    n.port_free = t + on_wire(n, n.ack_bytes + n.overhead)


cdef void resume(Sim* s, int32_t nic, int64_t t) noexcept nogil:
    # There is room again: those who were paused try once more.
    cdef Nic* n = &s.nics[nic]
    cdef int64_t since = n.paused_since
    cdef int32_t i, acks = n.acks_held
    if not n.held:
        return
    n.held = 0
    n.acks_held = 0
    for i in range(acks):
        acknowledge(s, nic, t)
    for i in range(s.n_traffic):
        if s.traffic[i].nic == nic and s.traffic[i].held:
            s.traffic[i].held = 0
            if s.traffic[i].due < t:
                s.traffic[i].due = t       # it does not make up for the time
            arrive(s, i, t)
    if n.held:
        n.paused_since = since
    else:
        nic_span(s, nic, NC_PAUSED, since, t)


cdef void receive(Sim* s, int32_t nic, int64_t t) noexcept nogil:
    # The frame at the head of the FIFO goes to its queue's next buffer.
    cdef Nic* n = &s.nics[nic]
    cdef int64_t* e
    cdef Half* h
    cdef int64_t buffer, line, last, bytes_, value
    cdef int32_t g, queue
    n.rx_busy = 0
    if n.fifo_head == n.fifo_tail:
        return
    e = &n.fifo[3 * (n.fifo_head % n.fifo_cap)]
    value, bytes_, queue = e[0], e[1], <int32_t>e[2]
    h = &n.half[2 * queue]
    if n.dma_out > DMA_LINES:
        n.rx_busy = 1
        device_event(s, nic, t + s.dma, D_RECEIVE, 0, 0)
        return
    if h.head == h.tail and not n.drop:
        n.blocked = queue
        n.blocked_since = t
        return
    n.fifo_head += 1
    n.fifo_used -= bytes_
    if h.head == h.tail:
        nic_count(s, nic, NC_MISSED, 1, t)
    else:
        buffer = <int64_t>dma_read(s, nic, h.base + (h.head % n.entries[0]) * n.descriptor[0] + n.address_at, t)
        if buffer <= 0:
            s.fault = X_DEVICE
            return
        h.info[h.head % n.entries[0]] = value
        g = group_new(s, h.head)
        if s.fault:
            return
        h.head += 1
        last = (buffer + bytes_ - 1) >> s.line_shift
        for line in range(buffer >> s.line_shift, last + 1):
            # The bytes that have a meaning lie in one of the lines: it writes them.
            dma_line(s, nic, queue, 0, g, line, buffer, 1 if line == (buffer + n.flow_at) >> s.line_shift else 0, value, t)
            if s.fault:
                return
        nic_count(s, nic, NC_RX_FRAMES, 1, t)
        nic_count(s, nic, NC_RX_BYTES, bytes_, t)
    n.rx_free = t + n.rx_service
    if n.fifo_head != n.fifo_tail:
        n.rx_busy = 1
        device_event(s, nic, n.rx_free, D_RECEIVE, 0, 0)
    resume(s, nic, t)


# ---- transmit --------------------------------------------------------------------------------------------------------------------

cdef void transmit(Sim* s, int32_t nic, int32_t queue, int64_t t) noexcept nogil:
    # One frame: its descriptors up to the end of packet, split into segments if that is asked for.
    cdef Nic* n = &s.nics[nic]
    cdef Half* h = &n.half[2 * queue + 1]
    cdef uint64_t word = 0, segment = 0
    cdef int64_t i = h.head, length = 0, frames = 1, wire, mss = 0, header = 0, fetched, begin, k, end
    while True:
        if i == h.tail:
            s.fault = X_DEVICE             # a frame without its end
            return
        word = dma_read(s, nic, h.base + (i % n.entries[1]) * n.descriptor[1] + n.command_at, t)
        length += <int64_t>(word & 0xFFFFFF)
        h.info[i % n.entries[1]] = 1 if word & 0x2000000 else 0
        slice_start(s, (h.base + (i % n.entries[1]) * n.descriptor[1]) >> s.line_shift, t)
        i += 1
        if word & 0x4000000:
            segment = word                 # in whichever of the frame's descriptors
        if word & 0x1000000:
            break
    wire = length
    if segment:
        mss, header = <int64_t>(segment >> 32 & 0xFFFF), <int64_t>(segment >> 48)
        if mss == 0 or header >= length:
            s.fault = X_DEVICE
            return
        frames = (length - header + mss - 1) // mss
        wire = length + (frames - 1) * header
    # The port's buffer holds what has been read and is not through the wire: the last byte is read when the rest fits.
    fetched = t + frames * n.tx_service
    begin = n.wire_free if n.wire_free > fetched else fetched
    n.wire_free = begin + on_wire(n, wire + frames * n.overhead)
    if fetched < n.wire_free - on_wire(n, n.fifo_bytes):
        fetched = n.wire_free - on_wire(n, n.fifo_bytes)
    n.tx_free = fetched
    nic_count(s, nic, NC_DMA_READS, (length + s.line_bytes - 1) >> s.line_shift, t)
    nic_count(s, nic, NC_TX_FRAMES, frames, n.wire_free)
    nic_count(s, nic, NC_TX_BYTES, wire, n.wire_free)
    if n.ack_every:
        for k in range(1, frames + 1):
            end = n.wire_free if k == frames else begin + on_wire(n, k * (header + mss + n.overhead))
            if end > n.peer_irq:               # otherwise the interrupt that is due then finds it, too
                n.peer_irq = end if end > n.peer_irq + n.peer_moderation else n.peer_irq + n.peer_moderation
            if (n.sent + k) % n.ack_every == 0:
                device_event(s, nic, n.peer_irq + n.ack_delay, D_ACK, 0, 0)
    n.sent += frames
    device_event(s, nic, fetched, D_FETCHED, queue, i - h.head)
    h.head = i


cdef void engine(Sim* s, int32_t nic, int64_t t) noexcept nogil:
    # The transmit engine takes a frame of each queue in turn.
    cdef Nic* n = &s.nics[nic]
    cdef Half* h
    cdef int32_t k, queue = n.tx_last
    n.tx_busy = 1
    if n.tx_free > t or n.dma_out > DMA_LINES:
        device_event(s, nic, n.tx_free if n.tx_free > t else t + s.dma, D_ENGINE, 0, 0)
        return
    for k in range(n.queues):
        queue += 1
        if queue >= n.queues:
            queue = 0
        h = &n.half[2 * queue + 1]
        if h.busy == 2:
            n.tx_last = queue
            transmit(s, nic, queue, t)
            if h.head == h.tail:
                h.busy = 0
            device_event(s, nic, n.tx_free, D_ENGINE, 0, 0)
            return
    n.tx_busy = 0


# ---- events ----------------------------------------------------------------------------------------------------------------------

cdef void tail_written(Sim* s, int32_t nic, int32_t queue, int32_t dir_, int64_t value, int64_t t) noexcept nogil:
    cdef Nic* n = &s.nics[nic]
    cdef Half* h = &n.half[2 * queue + dir_]
    cdef int64_t more
    nic_count(s, nic, NC_DOORBELLS, 1, t)
    if value < 0 or value >= n.entries[dir_]:
        s.fault = X_DEVICE
        return
    more = (value - h.tail % n.entries[dir_] + n.entries[dir_]) % n.entries[dir_]
    h.tail += more
    if h.tail - h.wb > n.entries[dir_]:
        s.fault = X_DEVICE                 # the driver gave descriptors away that the device still has
        return
    if not more:
        return
    if dir_ == 1:
        if not h.busy:
            h.busy = 1
            device_event(s, nic, t + s.dma, D_TRANSMIT, queue, 0)
    elif n.blocked == queue:
        nic_span(s, nic, NC_BLOCKED, n.blocked_since, t)
        n.blocked = -1
        n.rx_busy = 1
        device_event(s, nic, t + s.dma, D_RECEIVE, 0, 0)


cdef void device_acts(Sim* s, int32_t nic, int32_t what, int32_t queue, int64_t value, int64_t t) noexcept nogil:
    cdef Half* h
    cdef int32_t dir_
    if may_read(what):
        reads_done(s, t)
    if what == D_RX_TAIL or what == D_TX_TAIL:
        tail_written(s, nic, queue, what - D_RX_TAIL, value, t)
    elif what == D_RX_ENABLE or what == D_TX_ENABLE:
        s.nics[nic].half[2 * queue + what - D_RX_ENABLE].armed = 1 if value else 0
        try_irq(s, nic, queue, what - D_RX_ENABLE, t)
    elif what == D_RX_MODERATION or what == D_TX_MODERATION:
        if value < 0 or value > MAX_MODERATION_NS:
            s.fault = X_DEVICE
            return
        s.nics[nic].half[2 * queue + what - D_RX_MODERATION].moderation = value * 1000000
    elif what == D_ARRIVE:
        arrive(s, queue, t)
    elif what == D_ACK:
        acknowledge(s, nic, t)
    elif what == D_RECEIVE:
        receive(s, nic, t)
    elif what == D_TRANSMIT:
        s.nics[nic].half[2 * queue + 1].busy = 2
        if not s.nics[nic].tx_busy:
            engine(s, nic, t)
    elif what == D_ENGINE:
        engine(s, nic, t)
    elif what == D_FETCHED:
        s.nics[nic].half[2 * queue + 1].ready += value
        write_back(s, nic, queue, 1, t, 0)
    elif what == D_FLUSH:
        if value == s.nics[nic].half[2 * queue].batch:
            write_back(s, nic, queue, 0, t, 1)
    elif what == D_IRQ_RX or what == D_IRQ_TX:
        dir_ = what - D_IRQ_RX
        h = &s.nics[nic].half[2 * queue + dir_]
        h.waiting = 0
        try_irq(s, nic, queue, dir_, t)
    else:
        raise_vector(s, <int32_t>value, src_nic(s, nic), t + s.irq_latency)
        device_event(s, nic, t + s.vectors[value].period, D_TIMER, 0, value)
