# Hardware threads: one micro-op a step. Dispatch is in order; loads overlap within the window; registers carry values and the
# time at which they are there; whatever a thread waits for is booked on the micro-op that it waits for.

cdef inline bint sibling_active(Sim* s, Thread* th) noexcept nogil:
    # Another thread of the core has work (running or stalled, not idle): buffers are split.
    cdef Core* c = &s.cores[th.core]
    cdef int32_t k
    for k in range(c.n_threads):
        if c.threads[k] != th.id and (s.threads[c.threads[k]].state == T_RUN or s.threads[c.threads[k]].state == T_BLOCKED):
            return True
    return False


cdef inline bint sibling_dispatching(Sim* s, Thread* th) noexcept nogil:
    cdef Core* c = &s.cores[th.core]
    cdef int32_t k
    for k in range(c.n_threads):
        if c.threads[k] != th.id and s.threads[c.threads[k]].state == T_RUN:
            return True
    return False


cdef inline void block(Thread* th, int32_t kind, int32_t uop, int32_t cat) noexcept nogil:
    th.state = T_BLOCKED
    th.block_kind = kind
    th.block_uop = uop
    th.block_cat = cat
    th.block_since = th.t


cdef inline void block_on(Thread* th, int32_t i) noexcept nogil:
    # Wait for an outstanding operation; its micro-op is the one to blame.
    block(th, BK_LOAD, th.out[i].uop, C_HOME)
    th.block_seq = th.out[i].seq


cdef inline void wake(Sim* s, Thread* th, int32_t cat, int64_t t) noexcept nogil:
    account(s, th, th.block_uop, cat, th.block_since, t)
    if t > th.t:
        th.t = t
    th.state = T_RUN
    th.block_kind = BK_NONE
    s.touched = 1


cdef inline void spend(Sim* s, Thread* th, int32_t uop, int32_t cat, int64_t until) noexcept nogil:
    # Local time moves on to `until`, if that is later.
    if until > th.t:
        account(s, th, uop, cat, th.t, until)
        th.t = until


cdef inline bint hold_until(Sim* s, Thread* th, int32_t uop, int32_t cat, int64_t until) noexcept nogil:
    # True: local time had to move so far that the core's schedule must look again before this thread acts; what others of the core, or
    # messages, do until then comes first.
    if until <= th.t:
        return False
    account(s, th, uop, cat, th.t, until)
    th.t = until
    return until >= s.cores[th.core].bound


cdef inline int64_t issue_cost(Sim* s, Thread* th) noexcept nogil:
    if s.smt_shared and sibling_dispatching(s, th):
        return s.issue * 2
    return s.issue


cdef inline int32_t window_room(Sim* s, Thread* th) noexcept nogil:
    # Instructions that may still dispatch before the oldest outstanding operation is complete.
    cdef int64_t size
    if th.n_out == 0:
        return 0x7FFFFFFF
    size = s.window_smt if sibling_active(s, th) else s.window
    return <int32_t>(size - (th.icount - th.out[0].seq))


cdef inline void fill_request(Sim* s, Thread* th, int32_t r, int32_t kind, int64_t line, int64_t addr, uint8_t size, int32_t uop,
                              int64_t t) noexcept nogil:
    cdef Req* q = &s.reqs[r]
    q.kind = kind
    q.thread = th.id
    q.line = line
    q.addr = addr
    q.size = size
    q.uop = uop
    q.issued = t


cdef inline int32_t find_writer(Thread* th, int32_t reg) noexcept nogil:
    # Outstanding operation that will write the register.
    cdef int32_t i = th.n_out - 1
    while i > 0 and th.out[i].dst != reg:
        i -= 1
    return i


cdef inline bint need(Thread* th, int32_t reg) noexcept nogil:
    # True: the register's value is on its way and the thread now waits for it.
    if reg < 0 or not th.regwait[reg]:
        return False
    block_on(th, find_writer(th, reg))
    return True


cdef inline int64_t operand(Thread* th, Uop* u) noexcept nogil:
    return u.imm + (th.reg[u.b] if u.b >= 0 else 0)


cdef inline void write_reg(Thread* th, int32_t reg, int64_t value, int64_t ready) noexcept nogil:
    if reg >= 0:
        th.reg[reg] = value
        th.ready[reg] = ready
        th.regwait[reg] = 0


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
        sb_update(s, th)
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
    if s.l2_private:
        hold_lock(th, q.uop, t + s.locked)
    write_reg(th, dst, q.value, th.locked_until if th.locked_until > th.t else th.t)
    count_execution(s, th, q.uop)
    advance(s, th)


cdef inline void advance(Sim* s, Thread* th) noexcept nogil:
    # The current micro-op is dispatched.
    th.icount += 1
    th.work_left = 0
    if th.stream:
        th.rec_pos += 1
        th.rec_fresh = 1
    else:
        th.pc += 1


cdef inline void new_out(Thread* th, Uop* u, int32_t uop, int64_t line, int64_t addr, int64_t t) noexcept nogil:
    cdef Out* o = &th.out[th.n_out]
    th.n_out += 1
    o.line = line
    o.addr = addr
    o.seq = th.icount
    o.issued = t
    o.uop = uop
    o.dst = u.dst
    o.size = u.size
    o.op = u.op
    o.here = 0
    if u.dst >= 0:
        th.regwait[u.dst] = 1


cdef inline bint wait_outs(Thread* th) noexcept nogil:
    if th.n_out > 0:
        block_on(th, 0)
        return True
    return False


cdef inline void load_hit(Sim* s, Thread* th, Uop* u, int32_t uop, int64_t addr, int32_t level, int64_t latency) noexcept nogil:
    cdef int64_t value = 0
    if u.dst >= 0:
        value = <int64_t>image_read(s, addr, u.size)
    write_reg(th, u.dst, value, th.t + latency)
    th.load_pending = 0
    th.load_seq = th.icount
    th.load_done = th.t + latency
    count_served(s, th, uop, level, th.t, latency)


cdef int32_t do_load(Sim* s, Core* c, Thread* th, Uop* u, int32_t uop, int64_t addr) noexcept nogil:
    # 1: dispatched; 0: blocked.
    cdef int64_t line = addr >> s.line_shift
    cdef Node* n = &s.nodes_[th.node]
    cdef L1Way* l1
    cdef Way* w
    cdef Store* e
    cdef int32_t i, k, r, wi, idx, bypass = 0
    if th.n_out == MAXOUT:
        block_on(th, 0)
        return 0
    i = sb_overlap(s, th, addr, u.size)
    if i >= 0:
        e = &th.sb[i & s.sb_mask]
        if e.addr <= addr and addr + u.size <= e.addr + e.size:
            if s.in_order and u.dst >= 0 and older_valued(th, th.n_out):
                load_early(th, u, uop, line, addr, L_FORWARD)
                return 1
            write_reg(th, u.dst, <int64_t>((<uint64_t>e.value >> (8 * (addr - e.addr))) & size_mask(u.size)),
                      (e.ready if e.ready > th.t else th.t) + s.forward)
            th.load_pending = 0
            th.load_seq = th.icount
            th.load_done = (e.ready if e.ready > th.t else th.t) + s.forward
            count_served(s, th, uop, L_FORWARD, th.t, s.forward)
            return 1
        block(th, BK_DRAIN, uop, C_SB)          # partly covered: wait for the buffer, as hardware does
        return 0
    if hold_until(s, th, uop, C_ISSUE, c.port_free):
        return 0
    if s.write_through:
        for k in range(c.n_threads):
            if c.threads[k] != th.id and store_in_flight(s, &s.threads[c.threads[k]], line):
                bypass = 1                       # a sibling's store to the line is on its way: only the L2 knows the order
        if th.sc_line == line:                   # its own store-conditional comes first; an older fill of a sibling would miss it
            for i in range(th.n_out):
                if th.out[i].op == OP_SC:
                    block_on(th, i)
                    return 0
        for i in range(c.n_mshr):
            if c.mshr[i] == line:
                bypass = 1                       # an older load of the line is on its way: reads of one word stay in order
    l1 = NULL if bypass else l1_find(s, c, line)
    if l1 != NULL:
        if s.l2_private:
            w = &n.ways[l1.l2]
            if hold_until(s, th, uop, C_ATOMIC, w.busy_until):
                return 0
        c.port_free = th.t + s.port
        if s.in_order and u.dst >= 0 and older_valued(th, th.n_out):
            load_early(th, u, uop, line, addr, L_L1)
        else:
            load_hit(s, th, u, uop, addr, L_L1, s.l1_hit)
        return 1
    if s.l2_private:
        wi = l2_find(s, n, line)
        if wi >= 0:
            w = &n.ways[wi]
            idx = w.state * N_EVENTS + N_LOAD
            if s.node_next[idx] != 255 and s.node_ops[idx] & A_LOAD and w.busy_until <= th.t:
                s.node_fired[idx] += 1
                n.lru += 1
                w.lru = n.lru
                l1_fill(s, c, line, s.perm[w.state], wi)
                c.port_free = th.t + s.port
                if u.dst >= 0 and older_valued(th, th.n_out):
                    load_early(th, u, uop, line, addr, L_L2)
                else:
                    load_hit(s, th, u, uop, addr, L_L2, s.l2_hit)
                return 1
    for i in range(c.n_mshr):
        if c.mshr[i] == line:
            break
    else:
        if c.n_mshr >= s.mshrs:
            block(th, BK_MSHR, uop, C_HOME)
            return 0
        c.mshr[c.n_mshr] = line
        c.n_mshr += 1
        r = req_new(s)
        if s.fault:
            return 0
        fill_request(s, th, r, OP_LOAD, line, addr, u.size, uop, th.t)
        c.port_free = th.t + s.port
        load_miss(s, th, u, uop, line, addr)
        if s.l2_private:
            node_request(s, n, r, th.t)
        else:
            send(s, th.t + s.l2_hop, src_core(s, c.id), EV_NODE_REQ, th.node, r, 0, 0)
        return 1
    c.port_free = th.t + s.port
    load_miss(s, th, u, uop, line, addr)
    return 1


cdef inline void load_early(Thread* th, Uop* u, int32_t uop, int64_t line, int64_t addr, int32_t level) noexcept nogil:
    # A hit under an older load that still waits for its value.
    new_out(th, u, uop, line, addr, th.t)
    th.out[th.n_out - 1].here = 1
    th.out[th.n_out - 1].level = level
    th.load_pending = 1
    th.load_seq = th.icount


cdef inline void load_miss(Sim* s, Thread* th, Uop* u, int32_t uop, int64_t line, int64_t addr) noexcept nogil:
    new_out(th, u, uop, line, addr, th.t)
    th.load_pending = 1
    th.load_seq = th.icount


cdef int32_t do_store(Sim* s, Thread* th, Uop* u, int32_t uop, int64_t addr) noexcept nogil:
    cdef Store* e
    if th.sb_count >= sb_capacity(s, th) or th.sb_tail - th.sb_head > s.sb_mask:
        block(th, BK_SBFULL, uop, C_SB)
        return 0
    e = &th.sb[th.sb_tail & s.sb_mask]
    e.group = th.sb_tail
    th.sb_tail += 1
    th.sb_count += 1
    e.line = addr >> s.line_shift
    th.sb_words |= word_bits(addr, u.size)
    th.sb_lines |= line_bit(e.line)
    e.addr = addr
    e.size = u.size
    e.value = operand(th, u)
    e.seq = th.icount
    e.uop = uop
    e.state = 0
    e.barrier = <uint8_t>th.sb_barrier
    th.sb_barrier = 0
    e.ready = th.t
    if u.b >= 0 and th.ready[u.b] > e.ready:
        e.ready = th.ready[u.b]
    if s.in_order:
        sb_update(s, th)
    else:
        sb_pump(s, th, th.t)
    return 1


cdef int32_t do_rmw(Sim* s, Core* c, Thread* th, Uop* u, int32_t uop, int64_t addr) noexcept nogil:
    # A locked operation: everything older is complete and the store buffer empty; then it holds the line for its duration.
    cdef Node* n = &s.nodes_[th.node]
    cdef int64_t line = addr >> s.line_shift
    cdef L1Way* l1 = NULL
    cdef Way* w
    cdef int32_t wi = -1, idx, r
    cdef int64_t extra
    if th.op_pending or wait_outs(th):
        return 0
    if th.sb_count > 0:
        block(th, BK_DRAIN, uop, C_SB)
        return 0
    if hold_until(s, th, uop, C_L1, th.load_done):
        return 0
    if s.l2_private:
        l1 = l1_find(s, c, line)
        wi = l1.l2 if l1 != NULL else l2_find(s, n, line)
        if wi >= 0 and hold_until(s, th, uop, C_ATOMIC, n.ways[wi].busy_until):
            return 0                             # a sibling's locked operation on the same line
    r = req_new(s)
    if s.fault:
        return 0
    fill_request(s, th, r, OP_RMW, line, addr, u.size, uop, th.t)
    s.reqs[r].value = operand(th, u)
    s.reqs[r].fn = u.fn
    s.reqs[r].expect = th.reg[u.a] if u.a >= 0 else 0
    if s.l2_private:
        if wi >= 0:
            w = &n.ways[wi]
            idx = w.state * N_EVENTS + N_STORE
            if w.qhead < 0 and s.node_next[idx] != 255 and s.node_ops[idx] & A_STORE:
                extra = s.l2_hit - s.l1_hit if l1 == NULL else 0
                s.node_fired[idx] += 1
                w.state = s.node_next[idx]
                kill_reservations(s, n, line, th.id)
                perform_store(s, &s.reqs[r])
                l1_fill(s, c, line, 2, wi)
                w.busy_until = th.t + extra + s.locked
                count_served(s, th, uop, L_L1 if l1 != NULL else L_L2, th.t, extra + s.locked)
                hold_lock(th, uop, w.busy_until)
                write_reg(th, u.dst, s.reqs[r].value, w.busy_until)
                req_free(s, r)
                return 1
    th.op_pending = 1
    block(th, BK_OP, uop, C_ATOMIC)
    if s.l2_private:
        node_request(s, n, r, th.t)
    else:
        send(s, th.t + s.l2_hop, src_core(s, c.id), EV_NODE_REQ, th.node, r, 0, 0)
    return 0


cdef int32_t do_llsc(Sim* s, Core* c, Thread* th, Uop* u, int32_t uop, int64_t addr) noexcept nogil:
    # Both go to the node, where the reservation lives; an SC leaves when it is no longer speculative.
    cdef int64_t line = addr >> s.line_shift
    cdef int32_t r
    if th.n_out == MAXOUT:
        block_on(th, 0)
        return 0
    if u.op == OP_SC:
        if wait_outs(th):
            return 0
        if u.b >= 0 and hold_until(s, th, uop, C_ATOMIC, th.ready[u.b]):
            return 0
    elif sb_overlap(s, th, addr, u.size) >= 0:
        block(th, BK_DRAIN, uop, C_SB)           # an own older store to the word: the LL reads the L2
        return 0
    if u.op == OP_SC and th.sb_count > 0 and (th.sb_barrier or sb_overlap(s, th, addr, u.size) >= 0):
        block(th, BK_DRAIN, uop, C_FENCE)        # lwsync orders older stores before the SC
        return 0
    r = req_new(s)
    if s.fault:
        return 0
    fill_request(s, th, r, u.op, line, addr, u.size, uop, th.t)
    if u.op == OP_SC:
        s.reqs[r].value = operand(th, u)
        th.sc_line = line
        th.sb_barrier = 0
    new_out(th, u, uop, line, addr, th.t)
    if u.op == OP_LL:
        th.load_pending = 1
        th.load_seq = th.icount
    if s.l2_private:
        node_request(s, &s.nodes_[th.node], r, th.t)
    else:
        send(s, th.t + s.l2_hop, src_core(s, c.id), EV_NODE_REQ, th.node, r, 0, 0)
    return 1


cdef int32_t do_fence(Sim* s, Thread* th, Uop* u, int32_t uop) noexcept nogil:
    spend(s, th, th.locked_uop, C_ATOMIC, th.locked_until)
    if u.imm == 4:                               # stores only
        th.sb_barrier = 1 if th.sb_count > 0 and not s.in_order else 0
        spend(s, th, uop, C_FENCE, th.t + s.f_store)
        return 1
    if wait_outs(th):
        return 0
    if u.imm == 0:
        if th.sb_count > 0:
            block(th, BK_DRAIN, uop, C_FENCE)
            return 0
        spend(s, th, uop, C_FENCE, th.t + s.f_full)
    elif u.imm == 1:
        if th.sb_count > 0 and not s.in_order:
            th.sb_barrier = 1
        spend(s, th, uop, C_FENCE, th.t + s.f_light)
    elif u.imm == 2:
        spend(s, th, uop, C_FENCE, th.t + s.f_instr)
    else:
        spend(s, th, uop, C_FENCE, th.t + s.f_load)
    return 1


cdef inline int64_t refetch(Sim* s, Thread* th) noexcept nogil:
    # A mispredict costs its latency on average, evenly spread over half to one and a half of it: where in its fetch group the target
    # lies and what the sibling fetches is not modelled. Without any spread, equal loops lock into one phase and LL/SC
    # contenders starve, which no hardware with real fetch does.
    return s.mispredict // 2 + <int64_t>(next_random(&th.rng) % <uint64_t>(s.mispredict + 1))


cdef int32_t do_branch(Sim* s, Thread* th, Uop* u, int32_t uop) noexcept nogil:
    cdef bint taken
    if need(th, u.a) or need(th, u.b):
        return 0
    taken = condition(u.fn, <uint64_t>(th.reg[u.a] if u.a >= 0 else 0), <uint64_t>operand(th, u))
    spend(s, th, uop, C_ISSUE, th.t + issue_cost(s, th))
    if taken != ((u.flags & F_PRED_TAKEN) != 0) and u.fn != 0:
        if u.a >= 0:
            spend(s, th, uop, C_L1, th.ready[u.a])   # found out when the operand is there
        spend(s, th, uop, C_ISSUE, th.t + refetch(s, th))
    th.icount += 1
    th.pc = u.target if taken else th.pc + 1
    return 1


cdef int32_t do_work(Sim* s, Thread* th, Uop* u, int32_t uop, int64_t amount) noexcept nogil:
    # Dispatch instructions as far as the window allows. 1: all of them.
    cdef int64_t n = th.work_left if th.work_left > 0 else amount
    cdef int64_t room
    if n <= 0:
        return 1
    room = window_room(s, th)
    if room <= 0:
        th.work_left = n
        block_on(th, 0)
        return 0
    if room > n:
        room = n
    if s.smt_shared and room > SMT_CHUNK and s.cores[th.core].n_threads > 1:
        room = SMT_CHUNK                         # look again soon whether the sibling competes
    spend(s, th, uop, C_ISSUE, th.t + room * issue_cost(s, th))
    th.icount += room
    th.work_left = n - room
    return 1 if th.work_left == 0 else 0


cdef int32_t do_memory(Sim* s, Core* c, Thread* th, Uop* u, int32_t uop) noexcept nogil:
    cdef int64_t addr
    cdef int32_t done
    if window_room(s, th) <= 0:
        block_on(th, 0)
        return 0
    if need(th, u.areg) or need(th, u.b) or need(th, u.dst) or (u.op == OP_RMW and need(th, u.a)):
        return 0
    if hold_until(s, th, th.locked_uop, C_ATOMIC, th.locked_until):
        return 0
    if u.flags & F_DEP:
        if th.load_pending:
            block_on(th, find_load(th))
            return 0
        if hold_until(s, th, uop, C_L1, th.load_done):
            return 0
    addr = u.base + u.stride * th.ctx[u.slot]
    if u.areg >= 0:
        if hold_until(s, th, uop, C_L1, th.ready[u.areg]):
            return 0
        addr += th.reg[u.areg]
    if u.op == OP_LOAD:
        done = do_load(s, c, th, u, uop, addr)
    elif u.op == OP_STORE:
        done = do_store(s, th, u, uop, addr)
    elif u.op == OP_RMW:
        done = do_rmw(s, c, th, u, uop, addr)
    else:
        done = do_llsc(s, c, th, u, uop, addr)
    if done:
        spend(s, th, uop, C_ISSUE, th.t + issue_cost(s, th))
    return done


cdef inline int32_t find_load(Thread* th) noexcept nogil:
    cdef int32_t i
    for i in range(th.n_out):
        if th.out[i].seq == th.load_seq:
            return i
    return 0


cdef int32_t step(Sim* s, Core* c, Thread* th) noexcept nogil:
    # One micro-op. 1: it must wait for its turn in global time; 0: go on.
    cdef int32_t uop = th.pc
    cdef Uop* u = &s.uops[uop]
    cdef int32_t done = 1
    if th.stream:
        return step_record(s, c, th)
    if u.op == OP_WORK:
        if do_work(s, th, u, uop, u.imm):
            th.pc += 1
        else:
            return 0
    elif u.op <= OP_SC:
        if not do_memory(s, c, th, u, uop):
            return 0
        advance(s, th)
    elif u.op == OP_BR:
        if not do_branch(s, th, u, uop):
            return 0
    elif u.op == OP_ALU:
        if need(th, u.a) or need(th, u.b) or need(th, u.dst):
            return 0
        write_reg(th, u.dst, <int64_t>alu(u.fn, <uint64_t>(th.reg[u.a] if u.a >= 0 else 0), <uint64_t>operand(th, u)), operand_time(s, th, u))
        spend(s, th, uop, C_ISSUE, th.t + issue_cost(s, th))
        advance(s, th)
    elif u.op == OP_ENTER:
        th.pc += 1
    elif u.op == OP_FENCE:
        if not do_fence(s, th, u, uop):
            return 0
        spend(s, th, uop, C_ISSUE, th.t + issue_cost(s, th))
        advance(s, th)
    elif u.op == OP_PAUSE:
        spend(s, th, uop, C_ISSUE, th.t + s.pause)
        advance(s, th)
    elif u.op == OP_PACKET:
        done = do_packet(s, th, u, uop)
        if done != 1:
            return done == 2
        th.pc += 1
    elif u.op == OP_DONE:
        if s.has_source and th.t > s.now:
            return 1
        do_done(s, th)
        th.pc += 1
    else:
        th.state = T_HALTED
        s.halted += 1
        th.pc += 0
    count_execution(s, th, uop)
    return 0


cdef inline int64_t operand_time(Sim* s, Thread* th, Uop* u) noexcept nogil:
    cdef int64_t t = th.t
    if u.a >= 0 and th.ready[u.a] > t:
        t = th.ready[u.a]
    if u.b >= 0 and th.ready[u.b] > t:
        t = th.ready[u.b]
    return t + s.period


cdef inline void load_record(Sim* s, Thread* th, Record* rec) noexcept nogil:
    # The record becomes the thread's current micro-op; its instruction gives everything that does not change.
    cdef int64_t room = s.line_bytes - (rec.address & (s.line_bytes - 1))
    th.cur = s.uops[rec.uop]
    th.cur.op = rec.kind
    th.cur.size = rec.size if rec.size <= room else <uint8_t>room
    th.cur.base = rec.address
    th.cur.slot = 0
    th.cur.flags = F_DEP if rec.flags & RF_DEP else 0
    th.cur.dst = 0 if rec.kind == OP_LL else (1 if rec.kind == OP_SC else -1)
    th.cur.areg = -1
    th.cur.b = -1
    th.cur.a = -1
    th.rec_fresh = 0
    th.rec_part = 0
    th.work_left = rec.gap - 1
    if rec.flags & RF_PACKET:
        th.iterations += 1
        if measuring(s, th.t):
            s.iterations[th.id] += 1


cdef int32_t step_record(Sim* s, Core* c, Thread* th) noexcept nogil:
    # A recorded operation: the instructions before it, then the operation itself, as recorded.
    cdef Record* rec
    cdef int32_t uop, done
    cdef int64_t rest
    if th.rec_pos >= th.rec_count:
        th.state = T_REFILL
        s.refill += 1
        return 0
    rec = &th.rec[th.rec_pos]
    uop = rec.uop
    if th.rec_fresh:
        load_record(s, th, rec)
    if th.work_left > 0:
        if not do_work(s, th, &th.cur, uop, 0):
            return 0
    if rec.kind == OP_FENCE:
        done = do_fence(s, th, &th.cur, uop)
        if done:
            spend(s, th, uop, C_ISSUE, th.t + issue_cost(s, th))
    else:
        done = do_memory(s, c, th, &th.cur, uop)
    if not done:
        return 0
    rest = rec.size - th.cur.size
    if rest > 0 and not th.rec_part:
        th.rec_part = 1                          # the access crosses into the next line (never more: at most 128 bytes, see feed)
        th.cur.base += th.cur.size
        th.cur.size = <uint8_t>rest if rest < s.line_bytes else <uint8_t>s.line_bytes
        return 0
    count_execution(s, th, uop)
    advance(s, th)
    if rec.kind == OP_SC:
        th.stream = 2                            # look at its outcome before the next record
    return 0
