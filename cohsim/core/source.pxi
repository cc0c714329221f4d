# Packets: receive queues that fill at the offered rate, hardware buffer pool, egress link. These are touched in global time order
# only, because all CPUs share them.

cdef inline int64_t next_gap(Sim* s, Thread* th) noexcept nogil:
    cdef double u
    if not s.poisson:
        return th.period
    u = (<double>(next_random(&th.rng) >> 11) + 1.0) / 9007199254740993.0
    return <int64_t>(-log(u) * th.period) + 1


cdef int32_t do_packet(Sim* s, Thread* th, Uop* u, int32_t uop) noexcept nogil:
    # 1: a packet is taken; 0: idle until th.t; 2: must wait for its turn.
    cdef int64_t when
    if not s.has_source:
        th.ctx[5] = th.iterations
        return 1
    if th.t > s.now:
        return 2
    while th.arrival <= th.t:
        if th.queue_len < s.ring:
            th.queue_len += 1
        elif measuring(s, th.arrival):
            s.dropped[th.id] += 1
        th.arrival += next_gap(s, th)
    if th.queue_len == 0:
        when = th.arrival
        th.state = T_IDLE
        spend(s, th, uop, C_IDLE, when)
        return 0
    if s.pool > 0:
        if s.pool_head == s.pool_tail:
            s.fault = X_RING
            return 0
        th.ctx[2] = s.pool_fifo[s.pool_head % (s.pool + 1)]
        s.pool_head += 1
    th.state = T_RUN
    th.queue_len -= 1
    th.ctx[3] = th.iterations % s.flows
    th.ctx[4] = th.id
    th.ctx[5] = th.iterations
    if measuring(s, th.t):
        s.received[th.id] += 1
    return 1


cdef void do_done(Sim* s, Thread* th) noexcept nogil:
    th.iterations += 1
    if s.has_source:
        if s.pool > 0:
            s.pool_fifo[s.pool_tail % (s.pool + 1)] = <int32_t>th.ctx[2]
            s.pool_tail += 1
        if s.frame_time > 0:
            if s.link_free < th.t:
                s.link_free = th.t
            if s.link_free - th.t > s.link_backlog:
                if measuring(s, th.t):
                    s.tx_dropped += 1
                return
            s.link_free += s.frame_time
    if measuring(s, th.t):
        s.iterations[th.id] += 1
