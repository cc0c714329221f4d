# The memory operations and fences of a thread, from dispatch until they hit or leave the core.

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


cdef inline void to_node(Sim* s, Core* c, Thread* th, int32_t r) noexcept nogil:
    # The operation leaves the core: into its private L2, or on its way to the cluster's.
    if s.l2_private:
        node_request(s, &s.nodes_[th.node], r, th.t)
    else:
        send(s, th.t + s.l2_hop, src_core(s, c.id), EV_NODE_REQ, th.node, r, 0, 0)


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


cdef inline int32_t load_stored(Sim* s, Thread* th, Uop* u, int32_t uop, int64_t addr, Store* e) noexcept nogil:
    # The latest store it overlaps is still in the buffer. 1: forwarded; 0: blocked.
    cdef int64_t ready = e.ready if e.ready > th.t else th.t
    if e.addr > addr or addr + u.size > e.addr + e.size:
        block(th, BK_DRAIN, uop, C_SB)          # partly covered: wait for the buffer, as hardware does
        return 0
    if s.in_order and u.dst >= 0 and older_valued(th, th.n_out):
        load_early(th, u, uop, addr >> s.line_shift, addr, L_FORWARD)
        return 1
    write_reg(th, u.dst, <int64_t>((<uint64_t>e.value >> (8 * (addr - e.addr))) & size_mask(u.size)), ready + s.forward)
    th.load_pending = 0
    th.load_seq = th.icount
    th.load_done = ready + s.forward
    count_served(s, th, uop, L_FORWARD, th.t, s.forward)
    return 1


cdef inline bint waits_for_sc(Thread* th, int64_t line) noexcept nogil:
    # Its own store-conditional of the line comes first; an older fill of a sibling would miss it.
    cdef int32_t i
    if th.sc_line == line:
        for i in range(th.n_out):
            if th.out[i].op == OP_SC:
                block_on(th, i)
                return True
    return False


cdef inline bint bypasses_l1(Sim* s, Core* c, Thread* th, int64_t line) noexcept nogil:
    # In a cluster: does only the L2 know the order?
    cdef int32_t k
    for k in range(c.n_threads):
        if c.threads[k] != th.id and store_in_flight(s, &s.threads[c.threads[k]], line):
            return True                          # a sibling's store to the line is on its way
    return fill_under_way(c, line)               # an older load of the line: reads of one word stay in order


cdef inline bint load_l2(Sim* s, Core* c, Node* n, Thread* th, Uop* u, int32_t uop, int64_t addr) noexcept nogil:
    # A hit in the private L2 that nothing holds back.
    cdef int64_t line = addr >> s.line_shift
    cdef int32_t wi = l2_find(s, n, line), idx
    cdef Way* w
    if wi < 0:
        return False
    w = &n.ways[wi]
    idx = w.state * N_EVENTS + N_LOAD
    if s.node_next[idx] == 255 or not s.node_ops[idx] & A_LOAD or w.busy_until > th.t:
        return False
    s.node_fired[idx] += 1
    n.lru += 1
    w.lru = n.lru
    l1_fill(s, c, line, s.perm[w.state], wi)
    used_by(w, False, th.id, access_code(s, uop, addr, u.size))
    c.port_free = th.t + s.port
    if u.dst >= 0 and older_valued(th, th.n_out):
        load_early(th, u, uop, line, addr, L_L2)
    else:
        load_hit(s, th, u, uop, addr, L_L2, s.l2_hit)
    return True


cdef int32_t do_load(Sim* s, Core* c, Thread* th, Uop* u, int32_t uop, int64_t addr) noexcept nogil:
    # 1: dispatched; 0: blocked.
    cdef int64_t line = addr >> s.line_shift
    cdef Node* n = &s.nodes_[th.node]
    cdef L1Way* l1
    cdef int32_t i, r
    if th.n_out == MAXOUT:
        block_on(th, 0)
        return 0
    i = sb_overlap(s, th, addr, u.size)
    if i >= 0:
        return load_stored(s, th, u, uop, addr, &th.sb[i & s.sb_mask])
    if hold_until(s, th, uop, C_ISSUE, c.port_free):
        return 0
    if s.write_through and waits_for_sc(th, line):
        return 0
    l1 = NULL if s.write_through and bypasses_l1(s, c, th, line) else l1_find(s, c, line)
    if l1 != NULL:
        if s.l2_private and hold_until(s, th, uop, C_ATOMIC, n.ways[l1.l2].busy_until):
            return 0
        c.port_free = th.t + s.port
        if s.in_order and u.dst >= 0 and older_valued(th, th.n_out):
            load_early(th, u, uop, line, addr, L_L1)
        else:
            load_hit(s, th, u, uop, addr, L_L1, s.l1_hit)
        return 1
    if s.l2_private and load_l2(s, c, n, th, u, uop, addr):
        return 1
    if fill_under_way(c, line):
        c.port_free = th.t + s.port
        load_miss(th, u, uop, line, addr)
        return 1
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
    load_miss(th, u, uop, line, addr)
    to_node(s, c, th, r)
    return 1


cdef inline void load_early(Thread* th, Uop* u, int32_t uop, int64_t line, int64_t addr, int32_t level) noexcept nogil:
    # A hit under an older load that still waits for its value.
    load_miss(th, u, uop, line, addr)
    th.out[th.n_out - 1].here = 1
    th.out[th.n_out - 1].level = level


cdef inline void load_miss(Thread* th, Uop* u, int32_t uop, int64_t line, int64_t addr) noexcept nogil:
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
        sb_update(s, th, th.t)
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
                kill_reservations(s, n, line, th.id, access_code(s, uop, addr, u.size), th.t)
                used_by(w, True, th.id, access_code(s, uop, addr, u.size))
                perform_store(s, &s.reqs[r])
                if s.n_log:
                    log_store(s, th.id, uop, line, th.t)
                l1_fill(s, c, line, 2, wi)
                w.busy_until = th.t + extra + s.locked
                count_served(s, th, uop, L_L1 if l1 != NULL else L_L2, th.t, extra + s.locked)
                hold_lock(th, uop, w.busy_until)
                write_reg(th, u.dst, s.reqs[r].value, w.busy_until)
                req_free(s, r)
                return 1
    th.op_pending = 1
    if not s.l2_private:
        th.sc_line = line                        # performed at the L2: a sibling's loads of the line go there too
    block(th, BK_OP, uop, C_ATOMIC)
    to_node(s, c, th, r)
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
    if u.op == OP_SC and th.sb_count > 0 and (th.sb_barrier or sb_held(s, th) or sb_overlap(s, th, addr, u.size) >= 0):
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
    to_node(s, c, th, r)
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
