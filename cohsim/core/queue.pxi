# Event queue: a binary heap of value events ordered by (time, key).

cdef inline bint ev_less(Event* x, Event* y) noexcept nogil:
    return x.time < y.time or (x.time == y.time and x.key < y.key)


cdef inline void heap_push(Sim* s, Event* e) noexcept nogil:
    cdef int64_t i, p
    cdef Event* h
    if s.n_heap == s.heap_cap:
        # Rare: the number of pending events is bounded by threads, MSHRs and store buffers.
        s.heap_cap *= 2
        s.heap = <Event*>realloc(s.heap, s.heap_cap * sizeof(Event))
    h = s.heap
    i = s.n_heap
    s.n_heap += 1
    while i > 0:
        p = (i - 1) >> 1
        if not ev_less(e, &h[p]):
            break
        h[i] = h[p]
        i = p
    h[i] = e[0]


cdef inline void heap_pop(Sim* s, Event* out) noexcept nogil:
    cdef int64_t i = 0, c, n
    cdef Event* h = s.heap
    cdef Event* last
    out[0] = h[0]
    s.n_heap -= 1
    n = s.n_heap
    last = &h[n]
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and ev_less(&h[c + 1], &h[c]):
            c += 1
        if not ev_less(&h[c], last):
            break
        h[i] = h[c]
        i = c
    h[i] = last[0]


# Sources of events, for keys: cores, then nodes, then home slices, then devices. Serial numbers count each source's own messages,
# which it sends in the same order whether or not it runs ahead.
cdef inline uint64_t message_key(Sim* s, int32_t source) noexcept nogil:
    s.serial[source] += 1
    return LATE | (<uint64_t>source << 40) | s.serial[source]


cdef inline int32_t src_core(Sim* s, int32_t core) noexcept nogil:
    return core


cdef inline int32_t src_node(Sim* s, int32_t node) noexcept nogil:
    return s.n_cores + node


cdef inline int32_t src_home(Sim* s, int32_t slice_) noexcept nogil:
    return s.n_cores + s.nodes + slice_


cdef inline void delivery_add(Sim* s, int32_t core, int64_t time) noexcept nogil:
    # A message is on its way to this core: it must not run ahead beyond the arrival.
    cdef Core* c = &s.cores[core]
    if c.n_dl == MAXDL:
        s.fault = X_DELIVERIES
        return
    c.dl[c.n_dl] = time
    c.n_dl += 1
    if time < c.dl_min:
        c.dl_min = time


cdef inline void delivery_done(Sim* s, int32_t core, int64_t time) noexcept nogil:
    cdef Core* c = &s.cores[core]
    cdef int32_t i
    cdef int64_t m = FOREVER
    for i in range(c.n_dl):
        if c.dl[i] == time:
            c.n_dl -= 1
            c.dl[i] = c.dl[c.n_dl]
            break
    for i in range(c.n_dl):
        if c.dl[i] < m:
            m = c.dl[i]
    c.dl_min = m


cdef inline void send(Sim* s, int64_t time, int32_t source, int32_t kind, int32_t a, int64_t b, int32_t c, int32_t d) noexcept nogil:
    cdef Event e
    e.time = time
    e.key = message_key(s, source)
    if kind == EV_NODE_DONE:
        # A store takes effect at the end of its line's occupancy: before anything that arrives at that instant.
        e.key &= ~LATE
    e.kind = kind
    e.a = a
    e.b = b
    e.c = c
    e.d = d
    if kind == EV_CORE_RESP or kind == EV_CORE_INV or kind == EV_IRQ:
        delivery_add(s, a, time)
    elif s.l2_private and (kind == EV_NODE_SNOOP or kind == EV_NODE_REPLY or kind == EV_NODE_LINE or kind == EV_NODE_RETRY):
        delivery_add(s, a, time)      # a private node is its core
    s.touched = 1
    heap_push(s, &e)


cdef inline void schedule_run(Sim* s, int32_t core, int64_t time) noexcept nogil:
    # Cores' own next actions are not messages: one time per core, the earliest wish counts.
    if time < s.run_time[core]:
        s.run_time[core] = time
        if time < s.next_time or (time == s.next_time and core < s.next_core):
            s.next_time = time
            s.next_core = core


cdef inline void find_next_run(Sim* s) noexcept nogil:
    # The core that acts first on its own; ties: the lowest. Needed anew only when the first one has been taken.
    cdef int64_t best = FOREVER
    cdef int32_t i, who = -1
    for i in range(s.n_cores):
        who = i if s.run_time[i] < best else who        # no branch: which core is first cannot be predicted
        best = s.run_time[i] if s.run_time[i] < best else best
    s.next_time = best
    s.next_core = who
