# The short way for what most micro-ops are: a plain load that hits L1 and a stretch of work, with nothing outstanding. It does exactly
# what step() would do, and declines whenever anything but the common case is in sight.

cdef enum:
    SIMPLE_LOAD = 1
    SIMPLE_WORK = 2


cdef void mark_simple(Uop* uops, int64_t n) noexcept nogil:
    # Uop.pad0 of the core's own copy of the program.
    cdef int64_t i
    for i in range(n):
        uops[i].pad0 = 0
        if uops[i].op == OP_LOAD and uops[i].flags == 0 and uops[i].dst < 0 and uops[i].areg < 0 and uops[i].b < 0:
            uops[i].pad0 = SIMPLE_LOAD
        elif uops[i].op == OP_WORK and uops[i].imm > 0 and uops[i].flags == 0:
            uops[i].pad0 = SIMPLE_WORK


cdef inline bint quiet(Sim* s, Core* c, Thread* th) noexcept nogil:
    # No sibling has a store or SC on its way to the cluster's L2.
    cdef int32_t k
    cdef Thread* o
    for k in range(c.n_threads):
        o = &s.threads[c.threads[k]]
        if o.id != th.id and (o.sb_count > 0 or o.sc_line >= 0):
            return False
    return th.sc_line < 0


cdef inline bint fast_load(Sim* s, Core* c, Thread* th, Uop* u) noexcept nogil:
    cdef int64_t t = th.t, addr = u.base + u.stride * th.ctx[u.slot], cost = s.issue, waited = 0
    cdef int64_t line = addr >> s.line_shift
    cdef int64_t* hot
    cdef int32_t i
    if th.n_out or c.n_mshr or th.locked_until > t or th.retrying or (th.sb_count and th.sb_words & word_bits(addr, u.size)):
        return False
    if s.write_through and c.n_threads > 1 and not quiet(s, c, th):
        return False
    i = l1_index(s, c, line)
    if i < 0:
        return False
    if c.port_free > t:
        waited = c.port_free - t
        t = c.port_free
        if t >= c.bound:
            return False
    if s.l2_private and s.nodes_[c.node].ways[c.l1[i].l2].busy_until > t:
        return False
    if s.smt_shared and sibling_dispatching(s, th):
        cost *= 2
    if th.t < s.from_ or t + cost >= s.until:
        return False
    hot = &s.hot[(<int64_t>th.id * s.n_uops + th.pc) * HOT]
    hot[0] += 1
    hot[1] += waited + cost
    hot[2] += 1
    s.hist[L_L1 * HISTBINS + s.l1_bin] += 1
    s.memops += 1
    c.lru += 1
    c.l1[i].lru = c.lru
    c.port_free = t + s.port
    th.load_pending = 0
    th.load_seq = th.icount
    th.load_done = t + s.l1_hit
    th.icount += 1
    th.pc += 1
    th.t = t + cost
    return True


cdef inline bint fast_work(Sim* s, Core* c, Thread* th, Uop* u) noexcept nogil:
    cdef int64_t dt
    cdef int64_t* hot
    if th.n_out or th.work_left or th.retrying or (s.smt_shared and c.n_threads > 1):
        return False
    dt = u.imm * s.issue
    if th.t < s.from_ or th.t + dt >= s.until:
        return False
    hot = &s.hot[(<int64_t>th.id * s.n_uops + th.pc) * HOT]
    hot[0] += 1
    hot[1] += dt
    th.icount += u.imm
    th.pc += 1
    th.t += dt
    return True
