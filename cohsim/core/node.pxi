# Node controller: the L2 tags of a private or cluster cache, run by the protocol's node table. Local requests to one line
# are served one at a time; a snoop enters between them. For a private cache the controller runs inside its core's own step.

cdef inline bint transient(uint8_t state) noexcept nogil:
    return state >= S_IS


cdef inline void node_fault(Sim* s, Node* n, int64_t line, int32_t state, int32_t event) noexcept nogil:
    s.fault = X_NODE_ROW
    s.fault_a = n.id
    s.fault_b = state
    s.fault_c = event
    s.fault_line = line


cdef inline void to_home(Sim* s, Node* n, int64_t line, int32_t kind, int32_t cancel, int64_t leave) noexcept nogil:
    # One channel to the homes, first in first out: a snoop answer with `cancel` must not overtake the request it changes.
    cdef int64_t arrive = leave + s.hop
    if arrive < n.home_last:
        arrive = n.home_last
    n.home_last = arrive
    send(s, arrive, src_node(s, n.id), EV_HOME_MSG, <int32_t>(line % s.slices), line, kind, n.id | (cancel << 16))


cdef inline bint must_ask(Sim* s, Req* q, uint8_t state) noexcept nogil:
    # Would the operation, met by the line in this state, go to the home?
    cdef int32_t idx = state * N_EVENTS + (N_LOAD if reads(q) else N_STORE)
    if q.kind == OP_SC and reservation(s, &s.threads[q.thread])[0] != q.line:
        return False
    return s.node_next[idx] != 255 and (s.node_ops[idx] & (A_GETS | A_GETM | A_UPG)) != 0


cdef void fetch_adjacent(Sim* s, Node* n, Req* q, int64_t t) noexcept nogil:
    # The L2's spatial prefetcher: a miss asks for the other line of its aligned pair too, to read, if that takes nobody's place in the queue to
    # the home.
    cdef int64_t line = q.line ^ 1
    cdef int32_t r
    if l2_find(s, n, line) >= 0 or wb_find(s, n, line) >= 0 or n.stall_head >= 0 or 2 * n.outstanding > s.l2_mshrs:
        return
    r = req_new(s)
    if s.fault:
        return
    fill_request(s, &s.threads[q.thread], r, OP_PREFETCH, line, line << s.line_shift, 1, q.uop, t)
    if measuring(s, t):
        s.adjacent_fetches += 1
    node_request(s, n, r, t)


cdef int32_t node_serve(Sim* s, Node* n, int32_t wi, int32_t r, int64_t t) noexcept nogil:
    # Serve one waiting operation. 1: done; 0: it stays at the head of its line's queue until the home has answered.
    cdef Way* w = &n.ways[wi]
    cdef Req* q = &s.reqs[r]
    cdef int64_t start = t
    cdef int32_t idx, ev, bank
    cdef uint32_t ops
    if q.kind == 0:
        snoop_apply(s, n, wi, q.line, q.txn, t)
        req_free(s, r)
        return 1
    n.lru += 1
    w.lru = n.lru
    if not s.l2_private and w.served < 0:
        bank = <int32_t>(q.line % s.l2_banks)
        if n.bank_free[bank] > start:
            start = n.bank_free[bank]
        n.bank_free[bank] = start + s.l2_bank
    if q.kind == OP_SC and reservation(s, &s.threads[q.thread])[0] != q.line:
        q.ok = 0
        q.level = local_level(w, s.threads[q.thread].core - n.id * s.cores_per_node)
        if w.served >= 0:                     # it asked for the line before it lost its reservation
            take_served(s, n, w, q, 0, start, start + s.l2_service + (0 if s.l2_private else s.l2_hop))
            if s.n_log:
                log_grant(s, n, w, q, 0, start)
            used_by(w, False, q.thread, request_code(s, q))
        w.served = -1
        way_count(s, w, LS_SCFAIL, 1, start)
        if s.n_log:
            log_event(s, src_node(s, n.id), start, LG_FAIL, q.line, q.thread, q.uop, -1, -1, 0)
        if not s.l2_private:
            w.busy_until = start + (s.l2_load_line if s.l2_load_line > s.l2_service else s.l2_service)
        respond(s, n, r, start + s.l2_service)
        return 1
    ev = N_LOAD if reads(q) else N_STORE
    idx = w.state * N_EVENTS + ev
    if s.node_next[idx] == 255:
        node_fault(s, n, q.line, w.state, ev)
        return 0
    ops = s.node_ops[idx]
    if ops & STALL:
        return 0
    s.node_fired[idx] += 1
    w.state = s.node_next[idx]
    if s.check:
        check_line(s, q.line)
    if ops & A_LOAD:
        serve_load(s, n, w, r, start)
        return 1
    if ops & A_STORE:
        serve_store(s, n, w, r, start)
        return 1
    start += s.l2_hit if s.l2_private else s.l2_service
    w.served = -1
    w.from_thread = -1
    w.from_data = 0
    n.outstanding += 1
    to_home(s, n, q.line, H_GETS if ops & A_GETS else (H_GETM if ops & A_GETM else H_UPG), 0, start)
    if s.adjacent and not ops & A_UPG and q.kind != OP_PREFETCH:
        fetch_adjacent(s, n, q, t)
    return 0


cdef void line_queue(Sim* s, Node* n, int32_t wi, int64_t t) noexcept nogil:
    # Serve the line's waiting operations as far as its occupancy and state allow.
    cdef Way* w = &n.ways[wi]
    cdef int32_t r, served
    cdef int64_t waited, line
    while w.qhead >= 0 and not s.fault:
        if transient(w.state):
            return
        if w.busy_until > t:
            wake_line(s, n, wi, w.busy_until)
            return
        r = w.qhead
        w.qhead = s.reqs[r].next
        waited = s.reqs[r].queued if s.reqs[r].kind != 0 else -1
        line = s.reqs[r].line
        served = node_serve(s, n, wi, r, t)
        if waited >= 0:
            if measuring(s, t):
                s.l2_queue_fs += t - waited
            if w.tag == line:
                way_count(s, w, LS_QUEUE, t - waited, t)
            else:                               # served, and evicted by what its core did next
                line_count(s, line, LS_QUEUE, t - waited, t)
        if not served:
            queue_front(s, &w.qhead, &w.qtail, r, t)
            s.reqs[r].queued = -1               # from here on it waits for the home, not for the line
            release_snoops(s, n, wi, t)
            return
    if w.qhead < 0 and w.state == S_I:
        set_tag(n, w, -1)


cdef void node_request(Sim* s, Node* n, int32_t r, int64_t t) noexcept nogil:
    # A local operation reaches the node.
    cdef int64_t line = s.reqs[r].line
    cdef int32_t wi = l2_find(s, n, line), k
    cdef Way* w
    if s.reqs[r].queued < 0 and measuring(s, t):
        s.l2_requests += 1             # not again when it has waited for a place
    if n.stall_head >= 0 and stalled_line(s, n, line):
        queue_tail(s, &n.stall_head, &n.stall_tail, r, t)      # operations on one line keep their order
        return
    if n.outstanding >= s.l2_mshrs and must_ask(s, &s.reqs[r], S_I if wi < 0 else n.ways[wi].state):
        queue_tail(s, &n.stall_head, &n.stall_tail, r, t)      # until one of the node's requests has its answer
        return
    if wi < 0:
        k = wb_find(s, n, line)
        if k >= 0:
            queue_tail(s, &n.wb[k].qhead, &n.wb[k].qtail, r, t)
            return
        wi = l2_victim(s, n, line, t)
        if wi < 0:
            queue_tail(s, &n.stall_head, &n.stall_tail, r, t)
            retry_later(s, n, t)
            return
        w = &n.ways[wi]
        set_tag(n, w, line)
        w.state = S_I
        w.busy_until = 0
        w.l1mask = 0
        w.writer = -1
        w.served = -1
        forget_users(w)
        w.qhead = -1
        w.qtail = -1
    w = &n.ways[wi]
    if w.qhead >= 0 or transient(w.state) or w.busy_until > t:
        queue_tail(s, &w.qhead, &w.qtail, r, t)
        if not transient(w.state):
            wake_line(s, n, wi, w.busy_until if w.busy_until > t else t)
        return
    if not node_serve(s, n, wi, r, t):
        queue_front(s, &w.qhead, &w.qtail, r, t)
        s.reqs[r].queued = -1
    elif w.state == S_I:
        set_tag(n, w, -1)                     # a store-conditional failed without asking for the line


cdef void node_reply(Sim* s, Node* n, int64_t line, int32_t ev, int32_t level, int64_t t) noexcept nogil:
    # Data, grant or PutAck from the home.
    cdef int32_t wi, idx, k, r, following
    cdef Way* w
    if ev == N_PUTACK:
        k = wb_find(s, n, line)
        if k < 0 or s.node_next[n.wb[k].state * N_EVENTS + ev] == 255:
            node_fault(s, n, line, S_I if k < 0 else n.wb[k].state, ev)
            return
        s.node_fired[n.wb[k].state * N_EVENTS + ev] += 1
        n.wb[k].used = 0
        n.n_wb -= 1
        r = n.wb[k].qhead
    else:
        wi = l2_find(s, n, line)
        w = &n.ways[wi]
        idx = (S_I if wi < 0 else w.state) * N_EVENTS + ev
        if wi < 0 or s.node_next[idx] == 255:
            node_fault(s, n, line, S_I if wi < 0 else w.state, ev)
            return
        s.node_fired[idx] += 1
        w.state = s.node_next[idx]
        w.served = level
        n.outstanding -= 1
        w.busy_until = t
        if s.check:
            check_line(s, line)
        to_home(s, n, line, H_ACK, 0, t)
        line_queue(s, n, wi, t)
        if w.served >= 0:
            w.served = -1
        r = -1
    while r >= 0:
        following = s.reqs[r].next
        node_request(s, n, r, t)
        r = following
    if n.stall_head >= 0:
        retry_stalled(s, n, t)
