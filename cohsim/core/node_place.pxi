# Where a node's operations wait - for their line, for a way in its set, for an MSHR - and how a way is made free.

cdef inline void queue_tail(Sim* s, int32_t* head, int32_t* tail, int32_t r, int64_t t) noexcept nogil:
    s.reqs[r].next = -1
    if s.reqs[r].queued < 0:
        s.reqs[r].queued = t
    if head[0] < 0:
        head[0] = r
    else:
        s.reqs[tail[0]].next = r
    tail[0] = r


cdef inline void queue_front(Sim* s, int32_t* head, int32_t* tail, int32_t r, int64_t t) noexcept nogil:
    s.reqs[r].next = head[0]
    if s.reqs[r].queued < 0:
        s.reqs[r].queued = t
    if head[0] < 0:
        tail[0] = r
    head[0] = r


cdef inline void wake_line(Sim* s, Node* n, int32_t wi, int64_t time) noexcept nogil:
    if not n.ways[wi].wake:
        n.ways[wi].wake = 1
        send(s, time, src_node(s, n.id), EV_NODE_LINE, n.id, wi, 0, 0)


cdef int32_t l2_victim(Sim* s, Node* n, int64_t line, int64_t t) noexcept nogil:
    # A free way for the line, evicting if need be; -1: none can be freed now.
    cdef int32_t first = <int32_t>(line & (s.l2_sets - 1)) * s.l2_ways
    cdef int32_t i, v = -1, k, idx
    cdef Way* w
    cdef uint32_t ops
    for i in range(s.l2_ways):
        w = &n.ways[first + i]
        if w.tag == -1 or (w.state == S_I and w.qhead < 0):
            return first + i
        if transient(w.state) or w.qhead >= 0 or w.wake or w.busy_until > t:
            continue
        if v < 0 or w.lru < n.ways[v].lru:
            v = first + i
    if v < 0:
        return -1
    w = &n.ways[v]
    idx = w.state * N_EVENTS + N_EVICT
    if s.node_next[idx] == 255:
        node_fault(s, n, w.tag, w.state, N_EVICT)
        return -1
    ops = s.node_ops[idx]
    if ops & A_PUTM:
        for k in range(MAXWB):
            if not n.wb[k].used:
                break
        else:
            return -1
        n.wb[k].used = 1
        n.wb[k].line = w.tag
        n.wb[k].state = s.node_next[idx]
        n.wb[k].qhead = -1
        n.wb[k].qtail = -1
        n.wb[k].thread = w.write_thread if w.write_thread >= 0 else w.read_thread
        n.wb[k].code = w.write_code if w.write_thread >= 0 else w.read_code
        n.n_wb += 1
        if measuring(s, t):
            s.writebacks += 1
        to_home(s, n, w.tag, H_PUTM, 0, t)
    s.node_fired[idx] += 1
    if measuring(s, t):
        s.evictions += 1
    kill_reservations(s, n, w.tag, -1, -1, t)
    if s.n_log:
        log_drop(s, n, w.tag, LG_DROP, -1, NULL, t)
    drop_l1s(s, n, w, w.l1mask, NULL, t)
    set_tag(n, w, -1)
    w.state = S_I
    return v


cdef inline void retry_later(Sim* s, Node* n, int64_t t) noexcept nogil:
    # Every way of a set is busy: look again after a trip to the home, which is what frees most of them.
    if not n.retry:
        n.retry = 1
        send(s, t + s.hop, src_node(s, n.id), EV_NODE_RETRY, n.id, 0, 0, 0)


cdef inline bint stalled_line(Sim* s, Node* n, int64_t line) noexcept nogil:
    cdef int32_t r = n.stall_head
    while r >= 0:
        if s.reqs[r].line == line:
            return True
        r = s.reqs[r].next
    return False


cdef void retry_stalled(Sim* s, Node* n, int64_t t) noexcept nogil:
    cdef int32_t r = n.stall_head, following
    n.stall_head = -1
    while r >= 0 and not s.fault:
        following = s.reqs[r].next
        node_request(s, n, r, t)
        r = following
    if n.stall_head >= 0:
        retry_later(s, n, t)
