# The event loop and the cores' local schedule.

cdef inline int64_t turn_time(Thread* th) noexcept nogil:
    return th.t if th.state == T_RUN or th.state == T_IDLE else FOREVER


cdef inline int64_t pair_next(Core* c, int32_t* who, int64_t* second) noexcept nogil:
    # core_next for one or two threads, nearly free of branches.
    cdef int32_t k = c.n_threads - 1 - c.last            # the one that did not act last, or the only one
    cdef Thread* x = c.thread[k]
    cdef Thread* y = c.thread[c.last]
    cdef int64_t t = turn_time(x), b = x.sb_time, t2, b2, first, first2, later, later2
    first = b if b < t else t
    later = t if b < t else b
    who[0] = 2 * k + (b < t)
    if c.n_threads == 1:
        second[0] = later
        return first
    t2 = turn_time(y)
    b2 = y.sb_time
    first2 = b2 if b2 < t2 else t2
    later2 = t2 if b2 < t2 else b2
    if first2 < first:
        who[0] = 2 * c.last + (b2 < t2)
        second[0] = first if first < later2 else later2
        return first2
    second[0] = first2 if first2 < later else later
    return first


cdef inline int64_t core_next(Sim* s, Core* c, int32_t* who, int64_t* second) noexcept nogil:
    # Earliest local action of the core: thread k dispatches (who = 2k) or its store buffer acts (2k + 1), and when the next one is
    # due. Ties: the thread that did not act last.
    cdef int64_t best = FOREVER, then = FOREVER
    cdef int32_t j, k = c.last
    cdef Thread* th
    if 0 < c.n_threads <= 2:
        return pair_next(c, who, second)
    for j in range(c.n_threads):
        k += 1
        if k >= c.n_threads:
            k = 0
        th = c.thread[k]
        if th.state == T_RUN or th.state == T_IDLE:
            if th.t < best:
                then = best
                best = th.t
                who[0] = 2 * k
            elif th.t < then:
                then = th.t
        if th.sb_time < best:
            then = best
            best = th.sb_time
            who[0] = 2 * k + 1
        elif th.sb_time < then:
            then = th.sb_time
    second[0] = then
    return best


cdef inline void core_resched(Sim* s, Core* c) noexcept nogil:
    cdef int32_t who = 0
    cdef int64_t then = 0
    cdef int64_t t = core_next(s, c, &who, &then)
    if t != FOREVER:
        schedule_run(s, c.id, t if t > s.now else s.now)


cdef void core_run(Sim* s, Core* c) noexcept nogil:
    # Act at the current time, then run ahead: a core may go on as long as no message can reach it before its own action. Messages
    # under way are known (dl_min). One that is not sent yet comes at least `margin` after the earliest event of the queue, or twice that after
    # another core's next own action, which can reach this one only through a node or a home.
    cdef int32_t who = 0
    cdef int64_t t, horizon = s.now, others, then = 0
    cdef Thread* th
    s.turns += 1
    s.run_time[c.id] = FOREVER
    find_next_run(s)
    others = s.next_time + 2 * s.margin if s.next_time != FOREVER else FOREVER
    if s.until < others:
        others = s.until
    s.touched = 1
    while not s.fault and not s.refill:
        t = core_next(s, c, &who, &then)
        if t == FOREVER:
            return
        if s.touched:
            s.touched = 0
            if s.lookahead:
                horizon = others if others < c.dl_min else c.dl_min
                if s.queue_time < horizon - s.margin:
                    horizon = s.queue_time + s.margin
                if s.read_min < horizon:
                    horizon = s.read_min
        if t > s.now and (t >= horizon or s.steps > MAX_STEPS):
            schedule_run(s, c.id, t)
            return
        th = c.thread[who >> 1]
        c.last = who >> 1
        c.bound = horizon if horizon < then else then
        if who & 1:
            sb_act(s, th, t)
            continue
        if th.waking:
            th.waking = 0
            th.state = T_RUN
        if th.irq_ready:
            take_interrupt(s, c, th)
            continue
        while True:
            s.steps += 1
            if not th.stream and s.uops[th.pc].pad0:
                th = short_way(s, c, th, horizon)
                if th == NULL:
                    break
            prefetch(&s.hot[(<int64_t>th.id * s.n_uops + th.pc + 3) * HOT])
            if th.stream == 2:
                sc_outcome(s, th)
            elif step(s, c, th):
                schedule_run(s, c.id, th.t)
                return
            if s.touched or th.state != T_RUN or th.t >= c.bound or s.steps > MAX_STEPS or s.fault or s.refill:
                break


cdef inline void sc_outcome(Sim* s, Thread* th) noexcept nogil:
    # A recorded store-conditional: if the reservation was lost here, run again from its load-and-reserve.
    if need(th, 1):
        return
    th.stream = 1
    if not th.reg[1]:
        spend(s, th, th.rec[th.rec_pos - 1].uop, C_ISSUE, th.t + refetch(s, th))
        th.rec_pos -= 1 + th.rec[th.rec_pos - 1].back
        th.rec_fresh = 1


cdef void dispatch(Sim* s, Event* e) noexcept nogil:
    cdef int32_t kind = e.kind
    cdef Req* q
    s.events += 1
    if kind == EV_NODE_REQ:
        node_request(s, &s.nodes_[e.a], <int32_t>e.b, e.time)
    elif kind == EV_CORE_RESP:
        delivery_done(s, e.a, e.time)
        s.woken = 0
        core_complete(s, e.a, <int32_t>e.b, e.time)
        if s.woken:
            core_resched(s, &s.cores[e.a])
    elif kind == EV_NODE_DONE:
        q = &s.reqs[e.b]
        perform_store(s, q)
        if s.n_log:
            log_store(s, q.thread, q.uop, q.line, e.time)
        respond(s, &s.nodes_[e.a], <int32_t>e.b, e.time)
    elif kind == EV_CORE_INV:
        delivery_done(s, e.a, e.time)
        l1_drop(s, &s.cores[e.a], e.b)
    elif kind == EV_HOME_MSG:
        home_msg(s, e.b, e.c, e.d, e.time)
    elif kind == EV_HOME_PLACE:
        txn_place(s, <int32_t>e.b, e.time)
    elif kind == EV_HOME_READY:
        home_ready(s, <int32_t>e.b, e.time)
    elif kind == EV_IRQ:
        delivery_done(s, e.a, e.time)
        irq_arrives(s, <int32_t>e.b, e.time)
        core_resched(s, &s.cores[e.a])
    elif kind == EV_DEV:
        device_acts(s, e.a, e.c, e.d, e.b, e.time)
    elif kind == EV_DMA:
        dma_arrives(s, e.b, e.d, e.time)
    else:
        if s.l2_private:
            delivery_done(s, e.a, e.time)
        s.woken = 0
        if kind == EV_NODE_LINE:
            s.nodes_[e.a].ways[e.b].wake = 0
            line_queue(s, &s.nodes_[e.a], <int32_t>e.b, e.time)
        elif kind == EV_NODE_RETRY:
            s.nodes_[e.a].retry = 0
            retry_stalled(s, &s.nodes_[e.a], e.time)
        elif kind == EV_NODE_SNOOP:
            node_snoop(s, &s.nodes_[e.a], e.b, e.c, e.time)
        else:
            node_reply(s, &s.nodes_[e.a], e.b, e.c, e.d, e.time)
        if s.l2_private and s.woken:
            core_resched(s, &s.cores[e.a])


cdef int32_t run_events(Sim* s, int64_t budget) noexcept nogil:
    # 0: budget used; 1: time is up; 2: nothing left to do; 3: fault; 4: a recorded stream needs its next chunk.
    cdef Event e
    while budget > 0:
        if s.fault:
            return 3
        if s.refill:
            return 4
        budget -= 1
        if s.queue_time <= s.next_time:
            if s.queue_time == FOREVER:
                return 2
            if s.queue_time >= s.until:
                return 1
            queue_pop(s, &e)
            s.now = e.time
            dispatch(s, &e)
        elif s.next_time >= s.until:
            return 1
        else:
            s.now = s.next_time
            core_run(s, &s.cores[s.next_core])
            budget -= s.steps >> 2
            s.steps = 0
    return 0
