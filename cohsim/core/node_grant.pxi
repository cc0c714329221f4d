# A node has the line in the state that an operation needs: how long that takes, when a store takes effect, the answer to the core.

cdef inline int64_t* reservation(Sim* s, Thread* th) noexcept nogil:
    # Reservations lie together at their node: every store looks at all of them.
    return &s.nodes_[th.node].reservation[(th.core - th.node * s.cores_per_node) * s.threads_per_core + th.slot]


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
