# Store buffers. In-order drain (x86): the head writes its line when the private cache holds it writable, one store a cycle. Out of
# order (Power): every store that is no longer speculative and not behind a barrier travels to the L2 and is performed there.

cdef inline int32_t sb_capacity(Sim* s, Thread* th) noexcept nogil:
    return s.sbq_smt if sibling_active(s, th) else s.sbq


cdef inline void sb_update(Sim* s, Thread* th, int64_t t) noexcept nogil:
    # When may the in-order drain act next? Not before t, when what the head may have waited for is done.
    cdef Store* e
    s.touched = 1
    th.sb_time = FOREVER
    if not s.in_order or th.sb_count == 0 or th.sb_waiting:
        return
    e = &th.sb[th.sb_head & s.sb_mask]
    if th.n_out > 0 and th.out[0].seq < e.seq:
        return
    th.sb_time = e.ready if e.ready > th.sb_next_free else th.sb_next_free
    if t > th.sb_time:
        th.sb_time = t
    s.woken = 1


cdef inline uint64_t word_bits(int64_t addr, uint8_t size) noexcept nogil:
    # Filter bits of the words that the bytes lie in.
    if size > 8:
        return NOWORD
    return (<uint64_t>1 << ((addr >> 3) & 63)) | (<uint64_t>1 << (((addr + size - 1) >> 3) & 63))


cdef inline uint64_t line_bit(int64_t line) noexcept nogil:
    return <uint64_t>1 << ((line ^ (line >> 6)) & 63)


cdef inline int32_t sb_overlap(Sim* s, Thread* th, int64_t addr, uint8_t size) noexcept nogil:
    # Newest entry that is not performed and touches the bytes: ring index, or -1.
    cdef int32_t i = th.sb_tail - 1
    cdef uint64_t words = 0, lines = 0
    cdef Store* e
    if th.sb_count == 0 or not th.sb_words & word_bits(addr, size):
        return -1
    while i - th.sb_head >= 0:
        e = &th.sb[i & s.sb_mask]
        if e.state != 2:
            if e.addr < addr + size and addr < e.addr + e.size:
                return i
            words |= word_bits(e.addr, e.size)
            lines |= line_bit(e.line)
        i -= 1
    th.sb_words = words                          # the filters forget performed stores: the next look-up is more often spared
    th.sb_lines = lines
    return -1


cdef inline bint sb_held(Sim* s, Thread* th) noexcept nogil:
    # A store waits for those before a barrier: they are not all performed.
    cdef int32_t i
    for i in range(th.sb_head, th.sb_tail):
        if th.sb[i & s.sb_mask].barrier and th.sb[i & s.sb_mask].state == 0:
            return True
    return False


cdef inline bint store_in_flight(Sim* s, Thread* th, int64_t line) noexcept nogil:
    # A store, SC or locked operation of this thread to the line is on its way to the cluster's L2.
    cdef int32_t i
    if th.sc_line == line:
        return True
    if th.sb_count == 0 or not th.sb_lines & line_bit(line):
        return False
    for i in range(th.sb_head, th.sb_tail):
        if th.sb[i & s.sb_mask].state == 1 and th.sb[i & s.sb_mask].line == line:
            return True
    return False


cdef inline void sb_release(Sim* s, Thread* th, int64_t line, int64_t t) noexcept nogil:
    # Entries became free: forget performed ones at the head and wake who waits for room or for the drain.
    while th.sb_head != th.sb_tail and th.sb[th.sb_head & s.sb_mask].state == 2:
        th.sb_head += 1
    if th.sb_head == th.sb_tail:
        th.sb_words = th.sb_lines = 0
    if th.state == T_BLOCKED and (th.block_kind == BK_SBFULL or (th.block_kind == BK_DRAIN and th.sb_count == 0)):
        line_stall(s, line, th.block_since, t)
        wake(s, th, th.block_cat, t)
    sb_update(s, th, t)


cdef void sb_act(Sim* s, Thread* th, int64_t t) noexcept nogil:
    # In-order drain: the head's turn at local time t.
    cdef Store* e = &th.sb[th.sb_head & s.sb_mask]
    cdef Core* c = &s.cores[th.core]
    cdef Node* n = &s.nodes_[th.node]
    cdef L1Way* l1 = l1_find(s, c, e.line)
    cdef int32_t wi = l1.l2 if l1 != NULL else l2_find(s, n, e.line)
    cdef int32_t idx, r
    cdef int64_t cost = s.period
    cdef Way* w
    if wi >= 0:
        w = &n.ways[wi]
        idx = w.state * N_EVENTS + N_STORE
        if w.qhead < 0 and s.node_next[idx] != 255 and s.node_ops[idx] & A_STORE:
            if w.busy_until > t:
                th.sb_time = w.busy_until
                return
            if l1 == NULL:
                cost += s.l2_hit - s.l1_hit
            if w.state != s.node_next[idx]:
                s.node_fired[idx] += 1
                w.state = s.node_next[idx]
            kill_reservations(s, n, e.line, th.id, access_code(s, e.uop, e.addr, e.size), t)
            used_by(w, True, th.id, access_code(s, e.uop, e.addr, e.size))
            if s.n_log:
                log_store(s, th.id, e.uop, e.line, t)
            l1_fill(s, c, e.line, 2, wi)
            image_write(s, e.addr, e.size, <uint64_t>e.value)
            count_served(s, th, e.uop, L_L1 if l1 != NULL else L_L2, t, t - e.ready + cost)
            e.state = 2
            th.sb_count -= 1
            th.sb_next_free = t + cost
            sb_release(s, th, e.line, t)
            return
    r = req_new(s)
    fill_request(s, th, r, OP_STORE, e.line, e.addr, e.size, e.uop, t)
    s.reqs[r].value = e.value
    s.reqs[r].index = th.sb_head & s.sb_mask
    e.state = 1
    th.sb_waiting = 1
    th.sb_time = FOREVER
    node_request(s, n, r, t)


cdef void sb_pump(Sim* s, Thread* th, int64_t t) noexcept nogil:
    # Out of order: send what may go. What has been sent is a prefix of the ring; all the rest counts in sb_count.
    cdef Core* c = &s.cores[th.core]
    cdef Store* e
    cdef Store* f
    cdef int32_t i, j, r
    cdef int64_t leave
    while th.sb_unsent != th.sb_tail:
        i = th.sb_unsent
        e = &th.sb[i & s.sb_mask]
        if th.n_out > 0 and th.out[0].seq < e.seq:
            return
        if e.barrier and th.sb_count > th.sb_tail - i:
            return
        leave = t
        if e.ready > leave:
            leave = e.ready
        if c.port_free > leave:
            leave = c.port_free
        c.port_free = leave + s.port
        r = req_new(s)
        fill_request(s, th, r, OP_STORE, e.line, e.addr, e.size, e.uop, t)
        s.reqs[r].value = e.value
        s.reqs[r].index = i & s.sb_mask
        e.state = 1
        e.group = i
        th.sb_unsent = i + 1
        if s.gathering:
            for j in range(i + 1, th.sb_tail):
                f = &th.sb[j & s.sb_mask]
                if f.barrier or f.line != e.line or f.ready > leave or (th.n_out > 0 and th.out[0].seq < f.seq):
                    break
                f.state = 1
                f.group = i
                th.sb_unsent = j + 1
                if measuring(s, t):
                    s.gathered += 1
        send(s, leave + s.l2_hop, src_core(s, c.id), EV_NODE_REQ, th.node, r, 0, 0)


cdef inline void perform_gathered(Sim* s, Req* q) noexcept nogil:
    # The other stores that travel in the same message take effect with it.
    cdef Thread* th = &s.threads[q.thread]
    cdef int32_t i
    cdef Store* e
    cdef int32_t lead = th.sb[q.index].group
    for i in range(lead + 1, th.sb_tail):
        e = &th.sb[i & s.sb_mask]
        if e.state != 1 or e.group != lead:
            return
        image_write(s, e.addr, e.size, <uint64_t>e.value)


cdef void store_done(Sim* s, Thread* th, int32_t r, int64_t t) noexcept nogil:
    # The acknowledgement of a store that was performed at the node (or filled into the private cache) at t.
    cdef Req* q = &s.reqs[r]
    cdef Store* e = &th.sb[q.index]
    cdef int32_t i, lead = e.group
    e.state = 2
    th.sb_count -= 1
    count_served(s, th, e.uop, q.level, t, t - q.issued)
    if s.in_order:
        th.sb_waiting = 0
        th.sb_next_free = t + s.period
    else:
        for i in range(lead + 1, th.sb_tail):
            e = &th.sb[i & s.sb_mask]
            if e.state != 1 or e.group != lead:
                break
            e.state = 2
            th.sb_count -= 1
            count_served(s, th, e.uop, q.level, t, t - q.issued)
        sb_pump(s, th, t)
    sb_release(s, th, q.line, t)
    req_free(s, r)
