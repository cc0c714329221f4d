# What happens when an answer reaches a core: outstanding operations end, values bind (in program order on x86), threads wake.

cdef void remove_out(Thread* th, int32_t i) noexcept nogil:
    cdef int32_t k
    th.n_out -= 1
    for k in range(i, th.n_out):
        th.out[k] = th.out[k + 1]


cdef inline bint older_valued(Thread* th, int32_t i) noexcept nogil:
    # Is a load with a value older than entry i still outstanding?
    cdef int32_t k
    for k in range(i):
        if th.out[k].dst >= 0:
            return True
    return False


cdef int32_t load_answer(Sim* s, Thread* th, int32_t i, int32_t level, int64_t t) noexcept nogil:
    # A line arrived for load i. 1: complete, the entry is gone; 0: it keeps its place because an older load has no value yet.
    if s.in_order and th.out[i].dst >= 0 and older_valued(th, i):
        th.out[i].here = 1
        th.out[i].level = level
        return 0
    complete_out(s, th, i, level, 0, t)
    return 1


cdef uint64_t bound_value(Sim* s, Thread* th, Out* o) noexcept nogil:
    # Memory's bytes with those of the thread's own older stores that are not performed yet laid over them.
    cdef uint64_t value = image_read(s, o.addr, o.size)
    cdef uint64_t byte
    cdef int32_t i, k
    cdef int64_t a
    cdef Store* e
    for i in range(th.sb_head, th.sb_tail):
        e = &th.sb[i & s.sb_mask]
        if e.state == 2 or e.seq > o.seq:
            continue
        for k in range(o.size):
            a = o.addr + k - e.addr
            if a >= 0 and a < e.size:
                byte = (<uint64_t>e.value >> (8 * a)) & 0xFF
                value = (value & ~(<uint64_t>0xFF << (8 * k))) | (byte << (8 * k))
    return value


cdef void bind_following(Sim* s, Thread* th, int64_t t) noexcept nogil:
    # x86 orders loads: a younger load whose data came early takes its value only now, and fetches the line again if it was lost in the
    # meantime (the machine's replay).
    cdef Core* c = &s.cores[th.core]
    cdef Node* n = &s.nodes_[th.node]
    cdef int32_t i, k, wi, r
    cdef Out* o
    while True:
        for i in range(th.n_out):
            if th.out[i].dst >= 0:
                break
        else:
            return
        o = &th.out[i]
        if not o.here:
            return
        wi = l2_find(s, n, o.line)
        if o.level == L_FORWARD or (wi >= 0 and s.perm[n.ways[wi].state] > 0):
            complete_out(s, th, i, o.level, <int64_t>bound_value(s, th, o), t)
            continue
        o.here = 0
        for k in range(c.n_mshr):
            if c.mshr[k] == o.line:
                return
        c.mshr[c.n_mshr] = o.line          # a replay has its place even when all buffers are taken
        c.n_mshr += 1
        r = req_new(s)
        if s.fault:
            return
        fill_request(s, th, r, OP_LOAD, o.line, o.addr, o.size, o.uop, t)
        node_request(s, n, r, t)
        return


cdef void complete_out(Sim* s, Thread* th, int32_t i, int32_t level, int64_t value, int64_t t) noexcept nogil:
    # An outstanding load, LL or SC has its answer.
    cdef Out o = th.out[i]
    cdef int32_t cat = level_category(level)
    if o.op != OP_LOAD and (level == L_L2 or level == L_CLUSTER):
        cat = C_ATOMIC
    remove_out(th, i)
    if o.op == OP_LOAD and o.dst >= 0 and not o.here:
        value = <int64_t>image_read(s, o.addr, o.size)
    write_reg(th, o.dst, value, t)
    if o.seq == th.load_seq:
        th.load_pending = 0
        th.load_done = t
    count_served(s, th, o.uop, level, t, t - o.issued)
    if th.state == T_BLOCKED and th.block_kind == BK_LOAD and th.block_seq == o.seq:
        line_stall(s, o.line, th.block_since, t)
        wake(s, th, cat, t)
    if o.op == OP_SC:
        th.retrying = 0 if value else 1
        th.sc_line = -1
        if not value and measuring(s, t):
            s.scfail[<int64_t>th.id * s.n_uops + o.uop] += 1
    if s.in_order:
        sb_update(s, th, t)
    else:
        sb_pump(s, th, t)


cdef void mshr_free(Sim* s, Core* c, int64_t line, int32_t level, int64_t t) noexcept nogil:
    cdef int32_t i, k
    cdef Thread* th
    for i in range(c.n_mshr):
        if c.mshr[i] == line:
            c.n_mshr -= 1
            c.mshr[i] = c.mshr[c.n_mshr]
            break
    for k in range(c.n_threads):
        th = &s.threads[c.threads[k]]
        if th.state == T_BLOCKED and th.block_kind == BK_MSHR:
            wake(s, th, level_category(level), t)


cdef void core_complete(Sim* s, int32_t core, int32_t r, int64_t t) noexcept nogil:
    # The answer to request r is at the core.
    cdef Core* c = &s.cores[core]
    cdef Req* q = &s.reqs[r]
    cdef Thread* th = &s.threads[q.thread]
    cdef Thread* o
    cdef int32_t k, i
    cdef int64_t line = q.line
    cdef int32_t level = q.level
    if s.n_log:
        log_event(s, src_core(s, core), t, LG_ANSWER, line, q.thread, q.uop, -1, -1, level)
    if q.kind == OP_STORE:
        store_done(s, th, r, t)
        return
    if q.kind == OP_RMW:
        rmw_done(s, th, q, t)
        req_free(s, r)
        return
    if q.kind == OP_LOAD:
        if not s.l2_private:
            l1_fill(s, c, line, 1, -1)
        for k in range(c.n_threads):
            o = &s.threads[c.threads[k]]
            i = 0
            while i < o.n_out:
                if o.out[i].op != OP_LOAD or o.out[i].line != line or o.out[i].here or not load_answer(s, o, i, level, t):
                    i += 1
            if s.in_order:
                bind_following(s, o, t)
        mshr_free(s, c, line, level, t)
        req_free(s, r)
        return
    for i in range(th.n_out):
        if th.out[i].op == q.kind and th.out[i].line == line:
            break
    else:
        s.fault = X_INTERNAL
        s.fault_line = line
        return
    complete_out(s, th, i, level, q.ok if q.kind == OP_SC else <int64_t>image_read(s, q.addr, q.size), t)
    if s.in_order:
        bind_following(s, th, t)
    req_free(s, r)


cdef inline void hold_lock(Thread* th, int32_t uop, int64_t until) noexcept nogil:
    # Younger instructions may dispatch beside a locked operation, younger memory operations wait for its end.
    th.locked_until = until
    th.locked_uop = uop


cdef void rmw_done(Sim* s, Thread* th, Req* q, int64_t t) noexcept nogil:
    # A locked operation got its line at t and holds it for its duration; or a far one has its answer.
    cdef int32_t dst = th.cur.dst if th.stream else s.uops[q.uop].dst    # a thread has one operation of this kind at a time
    line_stall(s, q.line, th.block_since, t)
    count_served(s, th, q.uop, q.level, t, t - q.issued)
    wake(s, th, level_category(q.level), t)
    th.op_pending = 0
    th.sc_line = -1
    if s.l2_private:
        hold_lock(th, q.uop, t + s.locked)
    write_reg(th, dst, q.value, th.locked_until if th.locked_until > th.t else th.t)
    count_execution(s, th, q.uop)
    advance(s, th)
