# Snoops at a node: the homes ask for a line, its copies in the L1s go or may no longer be written, the answer says what was there.

cdef enum:
    SUPPLIES = A_RCLEAN | A_RCLEANGONE | A_RDIRTY | A_RDIRTYGONE | A_ROWNED     # answers with data


cdef inline void log_drop(Sim* s, Node* n, int64_t line, int32_t kind, int32_t thread, Req* cause, int64_t t) noexcept nogil:
    log_event(s, src_node(s, n.id), t, kind, line, thread, -1, -1 if cause == NULL else cause.thread, -1 if cause == NULL else cause.uop, n.id)


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
