# Interrupts, idle CPUs, device registers: the thread's side of devices. An interrupt is a message to a core; it is taken between two
# micro-ops of the thread, when its outstanding loads are complete, and runs its own program until OP_IRET.

cdef inline void irq_check(Thread* th) noexcept nogil:
    th.irq_ready = 1 if th.irq_on and th.irq_pending else 0


cdef inline void raise_vector(Sim* s, int32_t vector, int32_t source, int64_t t) noexcept nogil:
    # The message that an interrupt is. `t` lies at least two margins ahead of whoever sends it.
    send(s, t, source, EV_IRQ, s.threads[s.vectors[vector].thread].core, vector, 0, 0)


cdef void irq_arrives(Sim* s, int32_t vector, int64_t t) noexcept nogil:
    cdef Vector* v = &s.vectors[vector]
    cdef Thread* th = &s.threads[v.thread]
    if measuring(s, t):
        v.raised += 1
    th.irq_pending |= <uint64_t>1 << v.bit
    irq_check(th)
    if th.state == T_WAIT:
        # Leaving the idle state takes its time, which is still idle time: it takes nothing from the core's other threads.
        account(s, th, th.block_uop, C_IDLE, th.block_since, t + s.idle_exit)
        th.t = t + s.idle_exit
        th.state = T_IDLE
        th.waking = 1
        s.touched = 1
    elif th.state == T_IDLE and th.irq_ready and not th.waking and th.t > t:
        # It polls for its next packet, and the time until then is booked already.
        account_back(s, th, th.pc, C_IDLE, t, th.t)
        th.t = t
        s.touched = 1


cdef inline void do_wait(Thread* th, int32_t uop) noexcept nogil:
    # Idle until an interrupt is pending (`sti; hlt` is one operation: none is lost in between). The program goes on behind it.
    th.pc += 1
    if not th.irq_pending:
        th.state = T_WAIT
        th.block_uop = uop
        th.block_since = th.t


cdef void take_interrupt(Sim* s, Core* c, Thread* th) noexcept nogil:
    cdef Saved* f
    cdef int32_t i
    cdef Vector* v
    if wait_outs(th):
        return
    th.state = T_RUN
    if th.depth == MAXNEST:
        s.fault = X_NEST
        return
    v = &s.vectors[th.vectors[63 - clzll(th.irq_pending & (~th.irq_pending + 1))]]
    f = &th.saved[th.depth]
    th.depth += 1
    for i in range(NREG):
        f.reg[i] = th.reg[i]
        f.ready[i] = th.ready[i]
    for i in range(NCTX):
        f.ctx[i] = th.ctx[i]
    f.pc = th.pc
    f.work_left = th.work_left
    f.retrying = th.retrying
    f.spin_edge = th.spin_edge
    th.work_left = 0
    th.retrying = 0
    reservation(s, th)[0] = -1
    th.irq_pending &= ~(<uint64_t>1 << v.bit)
    th.irq_on = 0
    th.irq_ready = 0
    th.pc = v.entry
    th.ctx[4] = v.queue
    spend(s, th, v.entry, C_ISSUE, th.t + s.irq_entry)


cdef int32_t do_iret(Sim* s, Thread* th, int32_t uop) noexcept nogil:
    cdef Saved* f
    cdef int32_t i
    if wait_outs(th):
        return 0
    if th.depth == 0:
        s.fault = X_IRET
        return 0
    spend(s, th, uop, C_ISSUE, th.t + s.irq_exit)
    th.depth -= 1
    f = &th.saved[th.depth]
    for i in range(NREG):
        th.reg[i] = f.reg[i]
        th.ready[i] = f.ready[i]
        th.regwait[i] = 0
    for i in range(NCTX):
        th.ctx[i] = f.ctx[i]
    th.work_left = f.work_left
    th.retrying = f.retrying
    th.spin_edge = f.spin_edge
    th.irq_on = 1
    irq_check(th)
    count_execution(s, th, uop)
    th.pc = f.pc
    s.touched = 1
    return 1


cdef inline bint uncached_store(Sim* s, Thread* th, int32_t uop) noexcept nogil:
    # It leaves after every older load and store. True: the thread waits for them.
    if wait_outs(th):
        return True
    if th.sb_count > 0:
        block(th, BK_DRAIN, uop, C_SB)
        return True
    spend(s, th, th.locked_uop, C_ATOMIC, th.locked_until)
    return False


cdef int32_t do_mmio(Sim* s, Core* c, Thread* th, Uop* u, int32_t uop) noexcept nogil:
    # An uncached store takes its own time until the fabric has it (posted).
    cdef int64_t queue
    if need(th, u.areg) or need(th, u.b) or uncached_store(s, th, uop):
        return 0
    if u.areg >= 0:
        spend(s, th, uop, C_L1, th.ready[u.areg])
    if u.b >= 0:
        spend(s, th, uop, C_L1, th.ready[u.b])
    spend(s, th, uop, C_FENCE, th.t + s.mmio)
    queue = u.base + (th.reg[u.areg] if u.areg >= 0 else 0)
    if queue < 0 or queue >= s.nics[u.fn >> 4].queues:
        s.fault = X_DEVICE
        return 0
    send(s, th.t + s.dma, src_core(s, c.id), EV_DEV, u.fn >> 4, operand(th, u), u.fn & 15, <int32_t>queue)
    return 1


cdef int32_t do_ipi(Sim* s, Core* c, Thread* th, Uop* u, int32_t uop) noexcept nogil:
    # A register of the interrupt controller: who is interrupted sees what was stored before.
    cdef int64_t cpu
    if need(th, u.b) or uncached_store(s, th, uop):
        return 0
    if u.b >= 0:
        spend(s, th, uop, C_L1, th.ready[u.b])
    cpu = operand(th, u)
    if cpu < 0 or cpu >= s.n_threads or u.base + cpu >= s.n_vectors:
        s.fault = X_DEVICE
        return 0
    raise_vector(s, <int32_t>(u.base + cpu), src_core(s, c.id), th.t + s.irq_latency)
    spend(s, th, uop, C_FENCE, th.t + s.mmio)
    return 1


cdef int32_t do_prefetch(Sim* s, Core* c, Thread* th, Uop* u, int32_t uop) noexcept nogil:
    # A fill without anybody to wait for it; dropped where no line fill buffer is free or a store to the line is under way.
    cdef int64_t addr, line
    cdef int32_t i, r
    if need(th, u.areg):
        return 0
    if hold_until(s, th, th.locked_uop, C_ATOMIC, th.locked_until):
        return 0
    if u.areg >= 0 and hold_until(s, th, uop, C_L1, th.ready[u.areg]):
        return 0
    if hold_until(s, th, uop, C_ISSUE, c.port_free):
        return 0
    addr = u.base + u.stride * th.ctx[u.slot] + (th.reg[u.areg] if u.areg >= 0 else 0)
    line = addr >> s.line_shift
    c.port_free = th.t + s.port
    spend(s, th, uop, C_ISSUE, th.t + issue_cost(s, th))
    if l1_index(s, c, line) >= 0 or c.n_mshr >= s.mshrs or fill_under_way(c, line):
        return 1
    for i in range(c.n_threads):
        if store_in_flight(s, &s.threads[c.threads[i]], line):
            return 1
    c.mshr[c.n_mshr] = line
    c.n_mshr += 1
    r = req_new(s)
    if s.fault:
        return 0
    fill_request(s, th, r, OP_LOAD, line, addr, u.size, uop, th.t)
    to_node(s, c, th, r)
    return 1


cdef int32_t step_device(Sim* s, Core* c, Thread* th, Uop* u, int32_t uop) noexcept nogil:
    # The micro-ops above OP_HALT. 1: done, count it; 0: blocked, or the program counter is elsewhere now.
    if u.op == OP_WAIT:
        count_execution(s, th, uop)
        do_wait(th, uop)
        s.touched = 1
        return 0
    if u.op == OP_IRET:
        do_iret(s, th, uop)
        return 0
    if u.op == OP_IRQ:
        th.irq_on = 1 if u.imm else 0
        irq_check(th)
        s.touched = 1
        spend(s, th, uop, C_ISSUE, th.t + issue_cost(s, th))
    elif u.op == OP_COUNT:
        if measuring(s, th.t):
            s.counts[<int64_t>th.id * s.n_counters + u.base] += 1
        th.pc += 1
        return 1
    elif u.op == OP_PREFETCH:
        if not do_prefetch(s, c, th, u, uop):
            return 0
    elif u.op == OP_MMIO:
        if not do_mmio(s, c, th, u, uop):
            return 0
        spend(s, th, uop, C_ISSUE, th.t + issue_cost(s, th))
    elif not do_ipi(s, c, th, u, uop):
        return 0
    advance(s, th)
    return 1
