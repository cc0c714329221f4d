# Who takes lines from whom, whose store ends whose reservation, and the event log of chosen lines. Nothing here decides anything: it is
# written where a line moves, is dropped or a reservation is lost, never on a hit.
#
# Pairs are counted in one bounded open-addressing table per node (of the taker; of the victim for lost reservations). A node's records are
# made in the same order with and without look-ahead, so even what does not fit any more (counted in pairs_lost) is the same.

cdef enum:
    PAIR = 4               # int64 of a row, half a host cache line: line << 8 | kind (0 free), first << 32 | second, count, fs
    KIND_TAKE = 1          # + Level of the taker's access; first, second: access codes of taker and holder
    KIND_KILL = 16         # access codes of killer and victim
    KIND_CPU_TAKE = 17     # threads of taker and holder
    KIND_CPU_KILL = 18
    LAT = 32               # int64 of a micro-op's latency record: sum, maximum, then LATBINS counts by floor(log2(cycles))
    LATBINS = 30
    LOGROW = 8             # time, kind, thread, micro-op, line, other thread, other micro-op, level | writable << 8
    MAXLOG = 16            # lines of the event log
    ACCESS_BITS = 10       # below the micro-op of an access code: 7 bits of offset in the line, 3 of log2(size)

cdef enum LogKind:
    LG_ISSUE, LG_ANSWER, LG_GRANT, LG_STORE, LG_DROP, LG_DOWNGRADE, LG_LOST, LG_FAIL


cdef inline int32_t access_code(Sim* s, int32_t uop, int64_t addr, uint8_t size) noexcept nogil:
    # A micro-op and the bytes of the line that it touched: a micro-op with a pointer touches others each time.
    return (uop << ACCESS_BITS) | (<int32_t>(addr & (s.line_bytes - 1)) << 3) | (0 if size <= 1 else 32 - clz(size - 1))


cdef inline int32_t request_code(Sim* s, Req* q) noexcept nogil:
    # -1 for a fetch that no instruction asked for: its micro-op wanted the line beside.
    return -1 if q.kind == OP_PREFETCH else access_code(s, q.uop, q.addr, q.size)


cdef inline int64_t sharing_line(Sim* s, int64_t line, int32_t uop) noexcept nogil:
    # The instances of an object that lie alike on their lines count as one: the line of instance 0.
    cdef Uop* u
    if uop >= 0:
        u = &s.uops[uop]
        if u.stride and u.areg < 0 and not u.stride & (s.line_bytes - 1):
            return u.base >> s.line_shift
    return line


cdef void pair_add(Sim* s, Node* n, int64_t kind, int64_t line, int32_t first, int32_t second, int64_t fs) noexcept nogil:
    cdef int64_t key = (line << 8) | kind, both = (<int64_t>first << 32) | <int64_t><uint32_t>second
    cdef uint64_t h = (<uint64_t>key * <uint64_t>0x9E3779B97F4A7C15) ^ (<uint64_t>both * <uint64_t>0xC2B2AE3D27D4EB4F)
    cdef int64_t i = <int64_t>(h >> 36) & (s.pair_cap - 1)
    cdef int64_t* table = &s.pairs[n.id * s.pair_cap * PAIR]
    cdef int64_t* row
    while True:
        row = &table[i * PAIR]
        if row[0] == key and row[1] == both:
            break
        if row[0] == 0:
            if n.pairs * 4 >= s.pair_cap * 3:
                s.pairs_lost += 1
                return
            n.pairs += 1
            row[0] = key
            row[1] = both
            break
        i = (i + 1) & (s.pair_cap - 1)
    row[2] += 1
    row[3] += fs


cdef void count_take(Sim* s, Node* n, Req* q, int32_t how, int32_t thread, int32_t code, int64_t t, int64_t done) noexcept nogil:
    # q's thread got at t a line that `thread` used last (-1: not known which); its answer comes at `done`. Nobody waits for a prefetch.
    cdef int32_t first = request_code(s, q)
    cdef int64_t line, took = 0 if q.kind == OP_PREFETCH else done - q.issued
    if not measuring(s, t):
        return
    line = sharing_line(s, q.line, first >> ACCESS_BITS)
    pair_add(s, n, KIND_TAKE + how, line, first, code, took)
    pair_add(s, n, KIND_CPU_TAKE, line, q.thread, thread, took)


cdef inline void take_served(Sim* s, Node* n, Way* w, Req* q, uint8_t others, int64_t t, int64_t done) noexcept nogil:
    # Called before the access changes the line's history. `others`: L1s of the cluster that must drop their copies for it.
    if w.served >= 0:
        if w.from_thread >= 0:
            count_take(s, n, q, w.served, w.from_thread, w.from_code, t, done)
    elif not s.l2_private:
        if w.write_thread >= 0 and w.write_thread != q.thread:
            count_take(s, n, q, q.level, w.write_thread, w.write_code, t, done)
        elif others:
            if w.read_thread >= 0 and others >> (s.threads[w.read_thread].core - n.id * s.cores_per_node) & 1:
                count_take(s, n, q, L_UPGRADE, w.read_thread, w.read_code, t, done)
            else:
                count_take(s, n, q, L_UPGRADE, -1, -1, t, done)


cdef inline void used_by(Way* w, bint write, int32_t thread, int32_t code) noexcept nogil:
    if write:
        w.write_thread = <int16_t>thread
        w.write_code = code
    else:
        w.read_thread = <int16_t>thread
        w.read_code = code


cdef inline void forget_users(Way* w) noexcept nogil:
    w.write_thread = w.read_thread = -1


cdef inline Req* snooping_request(Sim* s, int64_t line) noexcept nogil:
    # The operation on whose behalf the home snoops the line, NULL for a recall. It heads its line's queue while it waits for the home.
    cdef int32_t x = txn_find(s, line), wi
    cdef Node* n
    if x < 0 or s.txns[x].requester < 0:
        return NULL
    n = &s.nodes_[s.txns[x].requester]
    wi = l2_find(s, n, line)
    if wi < 0 or n.ways[wi].qhead < 0 or s.reqs[n.ways[wi].qhead].kind == 0:
        return NULL
    return &s.reqs[n.ways[wi].qhead]


cdef void note_holder(Sim* s, int64_t line, Req* taker, int32_t thread, int32_t code, bint data) noexcept nogil:
    # A snooped copy tells the requester who used it last: the copy that supplies the data, or else the last one that had to go.
    cdef Node* n
    cdef Way* w
    if taker == NULL or thread < 0:
        return
    n = &s.nodes_[s.threads[taker.thread].node]
    w = &n.ways[l2_find(s, n, line)]
    if data or not w.from_data:
        w.from_thread = <int16_t>thread
        w.from_code = code
        w.from_data = data


cdef inline bint logged(Sim* s, int64_t line) noexcept nogil:
    cdef int32_t i
    for i in range(s.n_log):
        if s.log_line[i] == line:
            return True
    return False


cdef void log_event(Sim* s, int32_t agent, int64_t t, int32_t kind, int64_t line, int32_t thread, int32_t uop, int32_t other,
                    int32_t other_uop, int64_t level) noexcept nogil:
    # One bounded log per agent (cores, then nodes), each in an order that look-ahead does not change; the result keeps the earliest of all.
    cdef int64_t* row
    if not measuring(s, t) or not logged(s, line):
        return
    s.log_count[agent] += 1
    if s.log_count[agent] > s.log_cap:
        return
    row = &s.log[(agent * s.log_cap + s.log_count[agent] - 1) * LOGROW]
    row[0] = t
    row[1] = kind
    row[2] = thread
    row[3] = uop
    row[4] = line
    row[5] = other
    row[6] = other_uop
    row[7] = level


cdef void count_kill(Sim* s, Node* n, int64_t line, int32_t i, int32_t thread, int32_t code, int64_t t) noexcept nogil:
    # A store of `thread` ended the reservation of the node's hardware thread i.
    cdef int32_t victim = s.cores[n.id * s.cores_per_node + i // s.threads_per_core].threads[i % s.threads_per_core]
    cdef int32_t its = n.reservation_code[i]
    cdef int64_t where
    if measuring(s, t):
        where = sharing_line(s, line, its >> ACCESS_BITS)
        pair_add(s, n, KIND_KILL, where, code, its, 0)
        pair_add(s, n, KIND_CPU_KILL, where, thread, victim, 0)
    if s.n_log:
        log_event(s, src_node(s, n.id), t, LG_LOST, line, victim, its >> ACCESS_BITS, thread, code >> ACCESS_BITS, 0)


cdef inline void kill_reservations(Sim* s, Node* n, int64_t line, int32_t thread, int32_t code, int64_t t) noexcept nogil:
    # Line granularity; all threads of the node but the one that stores (-1: nobody does, the line leaves).
    cdef int32_t i
    cdef int64_t* own = NULL
    if thread >= 0:
        own = reservation(s, &s.threads[thread])
    for i in range(s.cores_per_node * s.threads_per_core):
        if n.reservation[i] == line and &n.reservation[i] != own:
            n.reservation[i] = -1
            count_kill(s, n, line, i, thread, code, t)


cdef inline void count_latency(Sim* s, int32_t uop, int64_t took, int32_t bin_) noexcept nogil:
    cdef int64_t* row = &s.latency[<int64_t>uop * LAT]
    row[0] += took
    if took > row[1]:
        row[1] = took
    row[2 + (bin_ if bin_ < LATBINS else LATBINS - 1)] += 1
