# Node controller: the L2 tags of a private or cluster cache, run by the protocol's node table. Local requests to one line
# are served one at a time; a snoop enters between them. For a private cache the controller runs inside its core's own step.

cdef enum:
    SUPPLIES = A_RCLEAN | A_RCLEANGONE | A_RDIRTY | A_RDIRTYGONE | A_ROWNED     # answers with data


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


cdef inline int64_t* reservation(Sim* s, Thread* th) noexcept nogil:
    # Reservations lie together at their node: every store looks at all of them.
    return &s.nodes_[th.node].reservation[(th.core - th.node * s.cores_per_node) * s.threads_per_core + th.slot]


cdef inline int32_t drop_l1s(Sim* s, Node* n, Way* w, uint8_t mask, Req* cause, int64_t t) noexcept nogil:
    # Tell the L1s in `mask` to drop the line (because of `cause`, or NULL). Returns whether any had to.
    cdef int32_t c, any_ = 0
    if s.l2_private:
        l1_drop(s, &s.cores[n.id], w.tag)
        return 0
    for c in range(s.cores_per_node):
        if mask >> c & 1:
            send(s, t + s.l2_hop, src_node(s, n.id), EV_CORE_INV, n.id * s.cores_per_node + c, w.tag, 0, 0)
            way_count(s, w, LS_INVALIDATIONS, 1, t)
            if s.n_log:
                log_drop(s, n, w.tag, LG_DROP, s.cores[n.id * s.cores_per_node + c].threads[0], cause, t)
            any_ = 1
    return any_


cdef inline void log_drop(Sim* s, Node* n, int64_t line, int32_t kind, int32_t thread, Req* cause, int64_t t) noexcept nogil:
    log_event(s, src_node(s, n.id), t, kind, line, thread, -1, -1 if cause == NULL else cause.thread, -1 if cause == NULL else cause.uop, n.id)


cdef inline void perform_store(Sim* s, Req* q) noexcept nogil:
    # The instant a store, RMW or successful SC takes effect.
    cdef uint64_t old
    if q.kind == OP_RMW:
        old = image_read(s, q.addr, q.size)
        if q.fn == 6:
            if old == (<uint64_t>q.expect & size_mask(q.size)):
                image_write(s, q.addr, q.size, <uint64_t>q.value)
        else:
            image_write(s, q.addr, q.size, alu(q.fn, old, <uint64_t>q.value))
        q.value = <int64_t>old
    else:
        image_write(s, q.addr, q.size, <uint64_t>q.value)
        if q.kind == OP_STORE and not s.in_order:
            perform_gathered(s, q)


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


cdef inline void wake_line(Sim* s, Node* n, int32_t wi, int64_t time) noexcept nogil:
    if not n.ways[wi].wake:
        n.ways[wi].wake = 1
        send(s, time, src_node(s, n.id), EV_NODE_LINE, n.id, wi, 0, 0)


cdef inline void respond(Sim* s, Node* n, int32_t r, int64_t leave) noexcept nogil:
    cdef Req* q = &s.reqs[r]
    cdef int32_t core = s.threads[q.thread].core
    cdef int64_t at = <int64_t>q.thread * s.n_uops + q.uop
    if q.kind == OP_PREFETCH:
        req_free(s, r)                 # the adjacent line's: nobody waits for it
        return
    if HOT_LEVEL[q.level] > 0:                 # what the core's side will book, out of the host's outer caches until then
        prefetch(&s.hot[at * HOT])
    else:
        prefetch(&s.served[at * NLEVEL + q.level])
    if s.l2_private:
        core_complete(s, core, r, leave)
    else:
        send(s, leave + s.l2_hop, src_node(s, n.id), EV_CORE_RESP, core, r, 0, 0)


cdef inline bint reads(Req* q) noexcept nogil:
    return q.kind == OP_LOAD or q.kind == OP_LL or q.kind == OP_PREFETCH


cdef inline int32_t local_level(Way* w, int32_t core) noexcept nogil:
    if w.served >= 0:
        return w.served
    if w.writer >= 0 and w.writer != core:
        return L_CLUSTER
    return L_L2


cdef void log_grant(Sim* s, Node* n, Way* w, Req* q, int64_t writable, int64_t start) noexcept nogil:
    # The line is there for q: from whom, and whether it is written now.
    cdef int32_t thread = -1, uop = -1
    if w.served >= 0:
        thread, uop = w.from_thread, w.from_code >> ACCESS_BITS
    elif w.write_thread >= 0 and w.write_thread != q.thread:
        thread, uop = w.write_thread, w.write_code >> ACCESS_BITS
    log_event(s, src_node(s, n.id), start, LG_GRANT, q.line, q.thread, q.uop, thread, uop, q.level | (writable << 8))


cdef void log_store(Sim* s, int32_t thread, int32_t uop, int64_t line, int64_t t) noexcept nogil:
    log_event(s, src_node(s, s.threads[thread].node), t, LG_STORE, line, thread, uop, -1, -1, 0)


cdef void serve_load(Sim* s, Node* n, Way* w, int32_t r, int64_t start) noexcept nogil:
    cdef Req* q = &s.reqs[r]
    cdef Thread* th = &s.threads[q.thread]
    cdef int32_t core = th.core - n.id * s.cores_per_node
    cdef int64_t service = 0 if w.served >= 0 else s.l2_service
    cdef int64_t hold = s.l2_load_line if s.l2_load_line > service else service
    q.level = local_level(w, core)
    take_served(s, n, w, q, 0, start, start if s.l2_private else start + service + s.l2_hop)
    if s.n_log:
        log_grant(s, n, w, q, 0, start)
    used_by(w, False, q.thread, request_code(s, q))
    w.served = -1
    if q.kind == OP_LL:
        reservation(s, th)[0] = q.line
        n.reservation_code[core * s.threads_per_core + th.slot] = access_code(s, q.uop, q.addr, q.size)
        way_count(s, w, LS_ATOMICS, 1, start)
    elif q.kind != OP_PREFETCH:
        way_count(s, w, LS_LOADS, 1, start)
    if q.level == L_CLUSTER:
        way_count(s, w, LS_NEAR, 1, start)
    if q.kind == OP_PREFETCH:
        respond(s, n, r, start)        # into the L2 alone
        return
    if s.l2_private:
        l1_fill(s, &s.cores[n.id], q.line, s.perm[w.state], <int32_t>(w - n.ways))
        respond(s, n, r, start)
        return
    if q.kind == OP_LOAD:
        w.l1mask |= <uint8_t>(1 << core)
    w.busy_until = start + hold
    respond(s, n, r, start + service)


cdef void serve_store(Sim* s, Node* n, Way* w, int32_t r, int64_t start) noexcept nogil:
    cdef Req* q = &s.reqs[r]
    cdef Thread* th = &s.threads[q.thread]
    cdef int32_t core = th.core - n.id * s.cores_per_node
    cdef int64_t hold = s.l2_store_line
    cdef uint8_t others = w.l1mask & ~(<uint8_t>1 << core)
    q.level = local_level(w, core)
    if not s.l2_private and others and hold < s.l1_inv:
        hold = s.l1_inv
    take_served(s, n, w, q, others, start, start if s.l2_private else start + hold + s.l2_hop)
    if s.n_log:
        log_grant(s, n, w, q, 1, start)
    used_by(w, True, q.thread, access_code(s, q.uop, q.addr, q.size))
    w.served = -1
    way_count(s, w, LS_STORES if q.kind == OP_STORE else LS_ATOMICS, 1, start)
    if q.level == L_CLUSTER:
        way_count(s, w, LS_NEAR, 1, start)
    kill_reservations(s, n, q.line, q.thread, access_code(s, q.uop, q.addr, q.size), start)
    if q.kind == OP_SC:
        reservation(s, th)[0] = -1
    w.writer = <int8_t>core
    if s.l2_private:
        perform_store(s, q)
        if s.n_log:
            log_store(s, q.thread, q.uop, q.line, start)
        l1_fill(s, &s.cores[n.id], q.line, 2, <int32_t>(w - n.ways))
        if q.kind == OP_RMW:
            w.busy_until = start + s.locked
        respond(s, n, r, start)
        return
    if others:
        drop_l1s(s, n, w, others, q, start)
        w.l1mask &= <uint8_t>1 << core
        w.busy_until = start + hold
        send(s, start + hold, src_node(s, n.id), EV_NODE_DONE, n.id, r, 0, 0)
    else:
        perform_store(s, q)
        if s.n_log:
            log_store(s, q.thread, q.uop, q.line, start)
        w.busy_until = start + hold
        respond(s, n, r, start + hold)


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


cdef void release_snoops(Sim* s, Node* n, int32_t wi, int64_t t) noexcept nogil:
    # The line's head has gone to the home: snoops that wait behind it are older in the home's order and must not wait for it.
    cdef Way* w = &n.ways[wi]
    cdef int32_t r = w.qhead, before = -1, following
    while r >= 0 and not s.fault:
        following = s.reqs[r].next
        if s.reqs[r].kind == 0:
            if before < 0:
                w.qhead = following
            else:
                s.reqs[before].next = following
            if following < 0:
                w.qtail = before
            snoop_apply(s, n, wi, s.reqs[r].line, s.reqs[r].txn, t)
            req_free(s, r)
        else:
            before = r
        r = following


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


cdef inline bint must_ask(Sim* s, Req* q, uint8_t state) noexcept nogil:
    # Would the operation, met by the line in this state, go to the home?
    cdef int32_t idx = state * N_EVENTS + (N_LOAD if reads(q) else N_STORE)
    if q.kind == OP_SC and reservation(s, &s.threads[q.thread])[0] != q.line:
        return False
    return s.node_next[idx] != 255 and (s.node_ops[idx] & (A_GETS | A_GETM | A_UPG)) != 0


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


cdef void snoop_answer(Sim* s, Node* n, int64_t line, uint32_t ops, int64_t leave) noexcept nogil:
    cdef int32_t kind
    if ops & A_RNONE:
        kind = H_RNONE
    elif ops & A_RSHARED:
        kind = H_RSHARED
    elif ops & A_RCLEAN:
        kind = H_RCLEAN
    elif ops & A_RCLEANGONE:
        kind = H_RCLEANGONE
    elif ops & A_RDIRTY:
        kind = H_RDIRTY
        leave += s.snoop_dirty
    elif ops & A_RDIRTYGONE:
        kind = H_RDIRTYGONE
        leave += s.snoop_dirty
    else:
        kind = H_ROWNED
        leave += s.snoop_dirty
    to_home(s, n, line, kind, 1 if ops & A_CANCEL else 0, leave)


cdef void snoop_apply(Sim* s, Node* n, int32_t wi, int64_t line, int32_t ev, int64_t t) noexcept nogil:
    # The snoop meets the line's state (wi >= 0), or no tag at all (wi < 0).
    cdef int32_t idx, state = S_I
    cdef uint32_t ops
    cdef Way* w
    cdef Req* taker
    cdef int64_t leave
    if n.snoop_free > t:
        t = n.snoop_free
    n.snoop_free = t + s.snoop_bank
    leave = t
    if wi >= 0:
        state = n.ways[wi].state
    idx = state * N_EVENTS + ev
    if s.node_next[idx] == 255:
        node_fault(s, n, line, state, ev)
        return
    ops = s.node_ops[idx]
    s.node_fired[idx] += 1
    if wi >= 0:
        w = &n.ways[wi]
        taker = snooping_request(s, line) if ops & (A_DROP | SUPPLIES) else NULL
        note_holder(s, line, taker, w.write_thread if w.write_thread >= 0 else w.read_thread,
                    w.write_code if w.write_thread >= 0 else w.read_code, (ops & SUPPLIES) != 0)
        if s.n_log and ops & (A_DROP | SUPPLIES):
            log_drop(s, n, line, LG_DROP if ops & A_DROP else LG_DOWNGRADE, -1, taker, t)
        if ops & A_DROP:
            way_count(s, w, LS_INVALIDATIONS, 1, t)
            if taker == NULL:
                kill_reservations(s, n, line, -1, -1, t)
            else:
                kill_reservations(s, n, line, taker.thread, request_code(s, taker), t)
            if drop_l1s(s, n, w, w.l1mask, taker, t):
                leave = t + s.l1_inv
            w.l1mask = 0
            w.writer = -1
            forget_users(w)
        elif s.l2_private and s.perm[w.state] == 2 and s.perm[s.node_next[idx]] < 2:
            l1_perm(s, &s.cores[n.id], line, 1)
        w.state = s.node_next[idx]
        if w.state == S_I and w.qhead < 0:
            set_tag(n, w, -1)
    snoop_answer(s, n, line, ops, leave)
    if s.check:
        check_line(s, line)


cdef void node_snoop(Sim* s, Node* n, int64_t line, int32_t ev, int64_t t) noexcept nogil:
    # A snoop arrives. It waits for a locked operation or for the current occupancy of the line to end, never for the
    # home: a line with a request of its own under way answers at once.
    cdef int32_t wi = l2_find(s, n, line), k, r, idx
    cdef Way* w
    if wi < 0:
        k = wb_find(s, n, line)
        if k >= 0:
            idx = n.wb[k].state * N_EVENTS + ev
            if s.node_next[idx] == 255:
                node_fault(s, n, line, n.wb[k].state, ev)
                return
            s.node_fired[idx] += 1
            n.wb[k].state = s.node_next[idx]
            if s.node_ops[idx] & (A_DROP | SUPPLIES):
                note_holder(s, line, snooping_request(s, line), n.wb[k].thread, n.wb[k].code, (s.node_ops[idx] & SUPPLIES) != 0)
            snoop_answer(s, n, line, s.node_ops[idx], t)
            return
        snoop_apply(s, n, -1, line, ev, t)
        return
    w = &n.ways[wi]
    if not transient(w.state) and (w.busy_until > t or (w.qhead >= 0 and not s.snoop_first)):
        r = req_new(s)
        s.reqs[r].kind = 0
        s.reqs[r].line = line
        s.reqs[r].txn = ev
        if s.snoop_first:
            queue_front(s, &w.qhead, &w.qtail, r, t)
        else:
            queue_tail(s, &w.qhead, &w.qtail, r, t)
        wake_line(s, n, wi, w.busy_until if w.busy_until > t else t)
        return
    snoop_apply(s, n, wi, line, ev, t)
    if w.qhead >= 0:
        line_queue(s, n, wi, t)


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


cdef void check_line(Sim* s, int64_t line) noexcept nogil:
    # Single writer or many readers, over all nodes, in checked runs.
    cdef int32_t i, wi, writers = 0, readers = 0
    for i in range(s.nodes):
        wi = l2_find(s, &s.nodes_[i], line)
        if wi >= 0:
            if s.perm[s.nodes_[i].ways[wi].state] == 2:
                writers += 1
            elif s.perm[s.nodes_[i].ways[wi].state] == 1:
                readers += 1
    if writers > 1 or (writers and readers):
        s.fault = X_SWMR
        s.fault_line = line
