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
    s.touched = s.woken = 1


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
    if s.n_log and kind != OP_PREFETCH:
        log_event(s, src_core(s, th.core), t, LG_ISSUE, line, th.id, uop, -1, -1, 0)


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


cdef inline void advance(Sim* s, Thread* th) noexcept nogil:
    # The current micro-op is dispatched.
    th.icount += 1
    th.work_left = 0
    if th.stream:
        th.rec_pos += 1
        th.rec_fresh = 1
    else:
        th.pc += 1


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
    if (u.flags ^ s.uops[th.pc].flags) & F_SPIN:      # a wait loop is entered and left by branches only
        th.spin_edge = th.t
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
    elif u.op > OP_HALT:
        if not step_device(s, c, th, u, uop):
            return 0
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
