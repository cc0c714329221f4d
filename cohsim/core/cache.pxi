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


cdef inline int32_t l1_index(Sim* s, Core* c, int64_t line) noexcept nogil:
    cdef int32_t i = c.l1_hint[line & (L1_HINTS - 1)], first
    cdef int64_t* tags
    if c.l1_tags[i] == line:
        return i
    first = <int32_t>(line & (s.l1_sets - 1)) * s.l1_ways
    tags = &c.l1_tags[first]
    for i in range(s.l1_ways):
        if tags[i] == line:
            c.l1_hint[line & (L1_HINTS - 1)] = first + i
            return first + i
    return -1


cdef inline bint fill_under_way(Core* c, int64_t line) noexcept nogil:
    cdef int32_t i
    for i in range(c.n_mshr):
        if c.mshr[i] == line:
            return True
    return False


cdef inline L1Way* l1_find(Sim* s, Core* c, int64_t line) noexcept nogil:
    cdef int32_t i = l1_index(s, c, line)
    if i < 0:
        return NULL
    c.lru += 1
    c.l1[i].lru = c.lru
    return &c.l1[i]


cdef inline L1Way* l1_fill(Sim* s, Core* c, int64_t line, uint8_t perm, int32_t l2) noexcept nogil:
    # Install or update. L1 lines are clean (write-through) or their dirtiness is known in the private L2: a victim just goes.
    cdef int32_t first, i, v = l1_index(s, c, line)
    if v < 0:
        first = <int32_t>(line & (s.l1_sets - 1)) * s.l1_ways
        v = first
        for i in range(first, first + s.l1_ways):
            if c.l1_tags[i] == -1:
                v = i
                break
            if c.l1[i].lru < c.l1[v].lru:
                v = i
        c.l1_tags[v] = line
    c.l1[v].perm = perm
    c.l1[v].l2 = l2
    c.lru += 1
    c.l1[v].lru = c.lru
    return &c.l1[v]


cdef inline void l1_drop(Sim* s, Core* c, int64_t line) noexcept nogil:
    cdef int32_t i = l1_index(s, c, line)
    if i >= 0:
        c.l1_tags[i] = -1


cdef inline void l1_perm(Sim* s, Core* c, int64_t line, uint8_t perm) noexcept nogil:
    cdef int32_t i = l1_index(s, c, line)
    if i >= 0:
        c.l1[i].perm = perm


cdef inline int32_t l2_find(Sim* s, Node* n, int64_t line) noexcept nogil:
    cdef int32_t i = n.hint[line & (L2_HINTS - 1)], first
    cdef int64_t* tags
    if n.tags[i] == line:
        return i
    first = <int32_t>(line & (s.l2_sets - 1)) * s.l2_ways
    tags = &n.tags[first]
    for i in range(s.l2_ways):
        if tags[i] == line:
            n.hint[line & (L2_HINTS - 1)] = first + i
            return first + i
    return -1


cdef inline void set_tag(Node* n, Way* w, int64_t line) noexcept nogil:
    w.tag = line
    w.slot = -1
    n.tags[w - n.ways] = line


cdef inline int32_t wb_find(Sim* s, Node* n, int64_t line) noexcept nogil:
    cdef int32_t i
    if n.n_wb == 0:
        return -1
    for i in range(MAXWB):
        if n.wb[i].used and n.wb[i].line == line:
            return i
    return -1


cdef inline L3Way* l3_find(Sim* s, int64_t line) noexcept nogil:
    cdef int64_t first
    cdef int32_t i
    if s.l3_ways == 0:
        return NULL
    first = (line % s.l3_sets) * s.l3_ways
    for i in range(s.l3_ways):
        if s.l3_tags[first + i] == line:
            s.l3_lru += 1
            s.l3[first + i].lru = s.l3_lru
            return &s.l3[first + i]
    return NULL


cdef inline void l3_tag(Sim* s, L3Way* w, int64_t line) noexcept nogil:
    w.tag = line
    s.l3_tags[w - s.l3] = line
