# Tag arrays and pools.

cdef inline int32_t req_new(Sim* s) noexcept nogil:
    cdef int32_t r = s.free_req
    if r < 0:
        s.fault = X_POOL
        return 0
    s.free_req = s.reqs[r].next
    s.reqs[r].next = -1
    s.reqs[r].queued = -1
    s.reqs[r].level = L_L2
    s.reqs[r].ok = 1
    return r


cdef inline void req_free(Sim* s, int32_t r) noexcept nogil:
    s.reqs[r].next = s.free_req
    s.free_req = r


cdef inline L1Way* l1_find(Sim* s, Core* c, int64_t line) noexcept nogil:
    cdef L1Way* w = &c.l1[(line & (s.l1_sets - 1)) * s.l1_ways]
    cdef int32_t i
    for i in range(s.l1_ways):
        if w[i].tag == line:
            c.lru += 1
            w[i].lru = c.lru
            return &w[i]
    return NULL


cdef inline L1Way* l1_fill(Sim* s, Core* c, int64_t line, uint8_t perm, int32_t l2) noexcept nogil:
    # Install or update. L1 lines are clean (write-through) or their dirtiness is known in the private L2: a victim just goes.
    cdef L1Way* w = &c.l1[(line & (s.l1_sets - 1)) * s.l1_ways]
    cdef int32_t i, v = 0
    for i in range(s.l1_ways):
        if w[i].tag == line:
            v = i
            break
        if w[i].tag == -1:
            if w[v].tag != -1:
                v = i
        elif w[v].tag != -1 and w[i].lru < w[v].lru:
            v = i
    w[v].tag = line
    w[v].perm = perm
    w[v].l2 = l2
    c.lru += 1
    w[v].lru = c.lru
    return &w[v]


cdef inline void l1_drop(Sim* s, Core* c, int64_t line) noexcept nogil:
    cdef L1Way* w = &c.l1[(line & (s.l1_sets - 1)) * s.l1_ways]
    cdef int32_t i
    for i in range(s.l1_ways):
        if w[i].tag == line:
            w[i].tag = -1
            w[i].lru = 0
            return


cdef inline void l1_perm(Sim* s, Core* c, int64_t line, uint8_t perm) noexcept nogil:
    cdef L1Way* w = &c.l1[(line & (s.l1_sets - 1)) * s.l1_ways]
    cdef int32_t i
    for i in range(s.l1_ways):
        if w[i].tag == line:
            w[i].perm = perm
            return


cdef inline int32_t l2_find(Sim* s, Node* n, int64_t line) noexcept nogil:
    cdef int32_t first = <int32_t>(line & (s.l2_sets - 1)) * s.l2_ways
    cdef Way* w = &n.ways[first]
    cdef int32_t i
    for i in range(s.l2_ways):
        if w[i].tag == line:
            return first + i
    return -1


cdef inline int32_t wb_find(Sim* s, Node* n, int64_t line) noexcept nogil:
    cdef int32_t i
    if n.n_wb == 0:
        return -1
    for i in range(MAXWB):
        if n.wb[i].used and n.wb[i].line == line:
            return i
    return -1


cdef inline L3Way* l3_find(Sim* s, int64_t line) noexcept nogil:
    cdef L3Way* w
    cdef int32_t i
    if s.l3_ways == 0:
        return NULL
    w = &s.l3[(line % s.l3_sets) * s.l3_ways]
    for i in range(s.l3_ways):
        if w[i].tag == line:
            s.l3_lru += 1
            w[i].lru = s.l3_lru
            return &w[i]
    return NULL
