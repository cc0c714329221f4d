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


cdef struct Lane:
    # A thread on the short way: what does not change while it is there.
    Thread* th
    int64_t* hot           # its statistics
    int64_t room           # instruction number from which the window holds it back; -1: it needs step() for another reason
    uint64_t words         # filter of its own stores that a load might meet
    uint64_t lines         # filter of the lines that siblings' stores to the cluster's L2 may carry


cdef inline void enter_lane(Sim* s, Core* c, Thread* th, Lane* lane) noexcept nogil:
    cdef int32_t k
    cdef Thread* o
    lane.th = th
    lane.hot = &s.hot[<int64_t>th.id * s.n_uops * HOT]
    lane.words = th.sb_words if th.sb_count > 0 else 0
    lane.lines = 0
    lane.room = FOREVER
    if th.retrying or th.locked_until > th.t or th.n_out == MAXOUT or th.sc_line >= 0 or th.t < s.from_:
        lane.room = -1
    elif th.n_out:
        lane.room = th.out[0].seq + (s.window_smt if sibling_active(s, th) else s.window)
    if s.write_through:
        for k in range(c.n_threads):
            o = c.thread[k]
            if o != th:
                if o.sc_line >= 0:
                    lane.room = -1
                if o.sb_count > 0:
                    lane.lines |= o.sb_lines


cdef Thread* short_way(Sim* s, Core* c, Thread* th, int64_t horizon) noexcept nogil:
    # Act for `th`, whose turn it is, and for a running sibling in the order of time, as core_run would through core_next and step. Nothing done
    # here moves the horizon, a store buffer or a thread's state. Returns the thread whose turn it is and that step() must serve,
    # c.last and c.bound being set for it; NULL: the schedule must look again.
    cdef Lane lanes[2]
    cdef Lane* lane = &lanes[0]
    cdef Lane* other = NULL
    cdef Lane* swap
    cdef Thread* o
    cdef Uop* u
    cdef Way* ways = s.nodes_[c.node].ways
    cdef int64_t* hot
    cdef int64_t limit = c.bound, bound = c.bound, port = c.port_free, cost = s.issue, until = s.until, loads = 0, left = MAX_STEPS - s.steps
    cdef int64_t t, end, k, addr, line, chunk = FOREVER
    cdef uint32_t lru = c.lru
    cdef int32_t i, n_mshr = c.n_mshr if s.write_through else 0
    cdef bint acted = False, private = s.l2_private
    enter_lane(s, c, th, lane)
    if lane.room < 0:
        return th
    if c.n_threads > 1:
        if s.smt_shared:
            chunk = SMT_CHUNK
            if sibling_dispatching(s, th):
                cost *= 2
        if c.n_threads == 2:
            o = c.thread[1 - th.slot]
            if o.state == T_RUN and not o.stream and not o.irq_ready:    # an interrupt comes before its next micro-op
                limit = horizon if horizon < th.sb_time else th.sb_time
                if o.sb_time < limit:
                    limit = o.sb_time
    while left > 0:
        u = &s.uops[th.pc]
        t = th.t
        hot = &lane.hot[<int64_t>th.pc * HOT]
        prefetch(hot + 4 * HOT)
        if u.pad0 == SIMPLE_LOAD:
            addr = u.base + u.stride * th.ctx[u.slot]
            line = addr >> s.line_shift
            if th.icount >= lane.room or (lane.words and lane.words & word_bits(addr, u.size)):
                break
            if port > t:
                t = port
                if t >= bound:                   # as hold_until does: others of the core act before the port is free
                    if t >= until:
                        break
                    hot[1] += t - th.t
                    end = th.t = t
                    acted = True
            if not acted:
                i = l1_index(s, c, line)
                end = t + cost
                if i < 0 or end >= until:
                    break
                if private:
                    if ways[c.l1[i].l2].busy_until > t:
                        break
                elif (lane.lines and lane.lines & line_bit(line)) or (n_mshr and fill_under_way(c, line)):
                    break
                hot[0] += 1
                hot[1] += end - th.t
                hot[2] += 1
                loads += 1
                lru += 1
                c.l1[i].lru = lru
                port = t + s.port
                th.load_pending = 0
                th.load_seq = th.icount
                th.load_done = t + s.l1_hit
                th.icount += 1
                th.pc += 1
                th.t = end
        elif u.pad0 == SIMPLE_WORK:
            k = th.work_left if th.work_left > 0 else u.imm
            if k > lane.room - th.icount:
                break
            if k > chunk:
                end = t + chunk * cost
                if end >= until:
                    break
                th.icount += chunk
                th.work_left = k - chunk
            else:
                end = t + k * cost
                if end >= until:
                    break
                hot[0] += 1
                th.icount += k
                th.work_left = 0
                th.pc += 1
            hot[1] += end - t
            th.t = end
        else:
            break
        left -= 1
        if end < bound:
            continue
        acted = True
        if bound == limit:
            break
        # The sibling's turn: it wins a tie, for this thread acted last.
        c.last = th.slot
        if other == NULL:
            other = &lanes[1]
            enter_lane(s, c, c.thread[1 - th.slot], other)
        swap = lane
        lane = other
        other = swap
        th = lane.th
        bound = other.th.t if other.th.t < limit else limit
        acted = False
    c.last = th.slot
    c.bound = bound
    c.port_free = port
    c.lru = lru
    s.memops += loads
    s.hist[L_L1 * HISTBINS + s.l1_bin] += loads
    s.steps = MAX_STEPS - left
    return NULL if acted else th
