# Statistics. The counters that nearly every micro-op touches lie in one host cache line per (thread, micro-op), the rest in arrays of
# their own: booking is bound by host cache misses. Slot of each category and level in the hot record, -1: not there; slot 0
# is the number of executions.
cdef int8_t* HOT_CATEGORY = [1, 6, 4, -1, -1, -1, -1, -1, -1, 5, 7, -1, -1, -1, -1]
cdef int8_t* HOT_LEVEL = [-1, 2, 3, -1, -1, -1, -1, -1, -1]

# Everything is clipped to the measured window [from_, until), so warm-up costs nothing but time.

cdef inline bint measuring(Sim* s, int64_t t) noexcept nogil:
    return t >= s.from_ and t < s.until


cdef inline void account(Sim* s, Thread* th, int32_t uop, int32_t cat, int64_t t0, int64_t t1) noexcept nogil:
    # The only place where thread time is booked: a thread's local time moves from t0 to t1 because of `uop`.
    if t0 < s.from_:
        t0 = s.from_
    if t1 > s.until:
        t1 = s.until
    if t1 <= t0:
        return
    if cat != C_IDLE:
        if s.uops[uop].flags & F_SPIN:
            cat = C_SPIN
        elif th.retrying:
            cat = C_RETRY
    if HOT_CATEGORY[cat] > 0:
        s.hot[(<int64_t>th.id * s.n_uops + uop) * HOT + HOT_CATEGORY[cat]] += t1 - t0
    else:
        s.time_fs[(<int64_t>th.id * s.n_uops + uop) * NCAT + cat] += t1 - t0


cdef inline void account_back(Sim* s, Thread* th, int32_t uop, int32_t cat, int64_t t0, int64_t t1) noexcept nogil:
    # A wait that was booked ahead ends early: what lies behind its end goes back. For categories outside of the hot record.
    if t0 < s.from_:
        t0 = s.from_
    if t1 > s.until:
        t1 = s.until
    if t1 > t0:
        s.time_fs[(<int64_t>th.id * s.n_uops + uop) * NCAT + cat] -= t1 - t0


cdef inline void count_execution(Sim* s, Thread* th, int32_t uop) noexcept nogil:
    if measuring(s, th.t):
        s.hot[(<int64_t>th.id * s.n_uops + uop) * HOT] += 1


cdef inline int64_t line_slot(Sim* s, int64_t line) noexcept nogil:
    # Index in the line table, or -1 when it is full (counted, not attributed).
    cdef uint64_t h = <uint64_t>line * <uint64_t>0x9E3779B97F4A7C15
    cdef int64_t i = <int64_t>(h >> 40) & (s.lcap - 1)
    if line == s.lmemo_line:
        return s.lmemo_slot
    while True:
        if s.lkey[i] == line:
            s.lmemo_line = line
            s.lmemo_slot = i
            return i
        if s.lkey[i] == -1:
            if s.lused * 4 >= s.lcap * 3:
                s.loverflow += 1
                return -1
            s.lkey[i] = line
            s.lused += 1
            return i
        i = (i + 1) & (s.lcap - 1)


cdef inline void line_count(Sim* s, int64_t line, int32_t stat, int64_t amount, int64_t t) noexcept nogil:
    cdef int64_t i
    if not measuring(s, t):
        return
    i = line_slot(s, line)
    if i >= 0:
        s.lstat[i * LSTRIDE + stat] += amount


cdef inline void way_count(Sim* s, Way* w, int32_t stat, int64_t amount, int64_t t) noexcept nogil:
    # The same for the line that a node's way holds, which remembers its place in the table.
    if not measuring(s, t):
        return
    if w.slot < 0:
        w.slot = <int32_t>line_slot(s, w.tag)
        if w.slot < 0:
            return
    s.lstat[<int64_t>w.slot * LSTRIDE + stat] += amount


cdef inline void line_stall(Sim* s, int64_t line, int64_t t0, int64_t t1) noexcept nogil:
    cdef int64_t i
    if t0 < s.from_:
        t0 = s.from_
    if t1 > s.until:
        t1 = s.until
    if t1 <= t0:
        return
    i = line_slot(s, line)
    if i >= 0:
        s.lstat[i * LSTRIDE + LS_STALL] += t1 - t0


cdef inline int32_t latency_bin(Sim* s, int64_t took) noexcept nogil:
    # floor(log2(core cycles)); half a femtosecond up, so that whole cycles stay whole through the multiplication.
    cdef uint64_t cycles = <uint64_t>((<double>took + 0.5) * s.per_cycle)
    return 63 - clzll(cycles) if cycles else 0


cdef inline void count_served(Sim* s, Thread* th, int32_t uop, int32_t level, int64_t t, int64_t took) noexcept nogil:
    cdef int32_t bin_
    s.memops += 1
    if not measuring(s, t):
        return
    if HOT_LEVEL[level] > 0:
        s.hot[(<int64_t>th.id * s.n_uops + uop) * HOT + HOT_LEVEL[level]] += 1
    else:
        s.served[(<int64_t>th.id * s.n_uops + uop) * NLEVEL + level] += 1
    bin_ = latency_bin(s, took)
    s.hist[level * HISTBINS + bin_] += 1
    if level > L_L1:
        count_latency(s, uop, took, bin_)


cdef inline int32_t level_category(int32_t level) noexcept nogil:
    if level <= L_L1:
        return C_L1
    return level            # L_L2..L_MEMORY have the numbers of C_L2..C_MEMORY


cdef inline uint64_t next_random(uint64_t* x) noexcept nogil:
    # xorshift64*: one stream per thread, so that the order of threads does not matter.
    x[0] ^= x[0] >> 12
    x[0] ^= x[0] << 25
    x[0] ^= x[0] >> 27
    return x[0] * <uint64_t>0x2545F4914F6CDD1D
