# Recorded traces: the next operation comes from a record instead of the program.

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
