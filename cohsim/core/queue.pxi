# Event queue: value events ordered by (time, key). Nearly all of them are due within the next quarter of a microsecond: those lie in a wheel of
# narrow buckets, each a short sorted list; the rest waits in a heap of indexes. Events do not move once they are written.

cdef inline bint ev_less(Event* x, Event* y) noexcept nogil:
    return x.time < y.time or (x.time == y.time and x.key < y.key)


cdef void far_push(Sim* s, int32_t x) noexcept nogil:
    cdef int64_t i = s.n_far, p
    s.n_far += 1
    while i > 0:
        p = (i - 1) >> 1
        if not ev_less(&s.slots[x], &s.slots[s.far[p]]):
            break
        s.far[i] = s.far[p]
        i = p
    s.far[i] = x


cdef void far_pop(Sim* s) noexcept nogil:
    cdef int64_t i = 0, c, n = s.n_far - 1
    cdef int32_t last = s.far[n]
    s.n_far = n
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and ev_less(&s.slots[s.far[c + 1]], &s.slots[s.far[c]]):
            c += 1
        if not ev_less(&s.slots[s.far[c]], &s.slots[last]):
            break
        s.far[i] = s.far[c]
        i = c
    s.far[i] = last


cdef void queue_grow(Sim* s) noexcept nogil:
    # Rare: the number of pending events is bounded by threads, MSHRs and store buffers.
    cdef int64_t i, n = s.n_slots
    cdef Event* slots = <Event*>realloc(s.slots, 2 * n * sizeof(Event))
    cdef int32_t* far
    if slots != NULL:
        s.slots = slots
        far = <int32_t*>realloc(s.far, 2 * n * sizeof(int32_t))
        if far != NULL:
            s.far = far
            for i in range(n, 2 * n):
                s.slots[i].next = <int32_t>(i + 1) if i + 1 < 2 * n else -1
            s.free_slot = <int32_t>n
            s.n_slots = 2 * n
            return
    s.fault = X_MEMORY


cdef inline int64_t wheel_place(Sim* s, int64_t time) noexcept nogil:
    # Where on the unrolled wheel; nothing is before its hand.
    cdef int64_t place = time >> WHEEL_SHIFT
    return place if place > s.hand else s.hand


cdef inline void queue_push(Sim* s, int64_t time, uint64_t key, int32_t kind, int32_t a, int64_t b, int32_t c, int32_t d) noexcept nogil:
    # Written where it will lie: a copy through a local would stall the host on its own narrow stores.
    cdef int64_t place = wheel_place(s, time)
    cdef int32_t x = s.free_slot, head
    cdef int32_t* link
    cdef Event* e
    if x < 0:
        queue_grow(s)
        if s.fault:
            return
        x = s.free_slot
    e = &s.slots[x]
    s.free_slot = e.next
    e.time = time
    e.key = key
    e.b = b
    e.a = a
    e.d = d
    e.kind = <int16_t>kind
    e.c = <int16_t>c
    if place - s.hand >= WHEEL:
        far_push(s, x)
    else:
        link = &s.wheel[place & (WHEEL - 1)]
        head = link[0]
        s.wheel_bits[(place & (WHEEL - 1)) >> 6] |= <uint64_t>1 << (place & 63)
        while head >= 0 and not ev_less(e, &s.slots[head]):
            link = &s.slots[head].next
            head = link[0]
        e.next = head
        link[0] = x
    if time < s.queue_time or (time == s.queue_time and (s.first < 0 or key < s.slots[s.first].key)):
        s.first = x
        s.queue_time = time


cdef inline int32_t wheel_first(Sim* s) noexcept nogil:
    # The earliest event on the wheel, -1: none.
    cdef int64_t b = s.hand & (WHEEL - 1), i, w = b >> 6
    cdef uint64_t bits = s.wheel_bits[w] >> (b & 63)
    if bits:
        return s.wheel[b + ctzll(bits)]
    for i in range(WHEEL_WORDS):
        w = (w + 1) & (WHEEL_WORDS - 1)
        if s.wheel_bits[w]:
            return s.wheel[64 * w + ctzll(s.wheel_bits[w])]
    return -1


cdef inline void queue_pop(Sim* s, Event* out) noexcept nogil:
    cdef int32_t x = s.first
    cdef Event* e = &s.slots[x]
    cdef int64_t b
    out[0] = e[0]
    s.hand = wheel_place(s, e.time)
    if s.n_far and s.far[0] == x:
        far_pop(s)
    else:
        b = s.hand & (WHEEL - 1)
        s.wheel[b] = e.next
        s.wheel_bits[b >> 6] &= ~(<uint64_t>(e.next < 0) << (b & 63))
    e.next = s.free_slot
    s.free_slot = x
    x = wheel_first(s)
    if s.n_far and (x < 0 or ev_less(&s.slots[s.far[0]], &s.slots[x])):
        x = s.far[0]
    s.first = x
    s.queue_time = s.slots[x].time if x >= 0 else FOREVER


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
    cdef int32_t i
    if c.n_dl == MAXDL:
        s.fault = X_DELIVERIES
        return
    i = c.n_dl
    while i > 0 and c.dl[(c.dl_head + i - 1) & (MAXDL - 1)] > time:
        c.dl[(c.dl_head + i) & (MAXDL - 1)] = c.dl[(c.dl_head + i - 1) & (MAXDL - 1)]
        i -= 1
    c.dl[(c.dl_head + i) & (MAXDL - 1)] = time
    c.n_dl += 1
    c.dl_min = c.dl[c.dl_head]


cdef inline void delivery_done(Sim* s, int32_t core, int64_t time) noexcept nogil:
    # Messages are taken in the order of time, so it is the first one.
    cdef Core* c = &s.cores[core]
    if c.dl_min != time:
        s.fault = X_INTERNAL
        return
    c.dl_head = (c.dl_head + 1) & (MAXDL - 1)
    c.n_dl -= 1
    c.dl_min = c.dl[c.dl_head] if c.n_dl else FOREVER


cdef inline void send(Sim* s, int64_t time, int32_t source, int32_t kind, int32_t a, int64_t b, int32_t c, int32_t d) noexcept nogil:
    cdef uint64_t key = message_key(s, source)
    if kind == EV_NODE_DONE:
        # A store takes effect at the end of its line's occupancy: before anything that arrives at that instant.
        key &= ~LATE
    if kind == EV_CORE_RESP or kind == EV_CORE_INV or kind == EV_IRQ:
        delivery_add(s, a, time)
    elif s.l2_private and (kind == EV_NODE_SNOOP or kind == EV_NODE_REPLY or kind == EV_NODE_LINE or kind == EV_NODE_RETRY):
        delivery_add(s, a, time)      # a private node is its core
    s.touched = 1
    queue_push(s, time, key, kind, a, b, c, d)


cdef inline void schedule_run(Sim* s, int32_t core, int64_t time) noexcept nogil:
    # Cores' own next actions are not messages: one time per core, the earliest wish counts.
    if time < s.run_time[core]:
        s.run_time[core] = time
        if time < s.next_time or (time == s.next_time and core < s.next_core):
            s.next_time = time
            s.next_core = core


cdef inline void find_next_run(Sim* s) noexcept nogil:
    # The core that acts first on its own; ties: the lowest. Needed anew only when the first one has been taken.
    # Four quarters side by side and no branch: which core is first cannot be predicted.
    cdef int64_t* q = s.run_time
    cdef int64_t n = s.run_quarter, a = FOREVER, b = FOREVER, c = FOREVER, d = FOREVER
    cdef int64_t i, ia = -1, ib = -1, ic = -1, id = -1
    for i in range(n):
        ia = i if q[i] < a else ia
        a = q[i] if q[i] < a else a
        ib = i + n if q[i + n] < b else ib
        b = q[i + n] if q[i + n] < b else b
        ic = i + 2 * n if q[i + 2 * n] < c else ic
        c = q[i + 2 * n] if q[i + 2 * n] < c else c
        id = i + 3 * n if q[i + 3 * n] < d else id
        d = q[i + 3 * n] if q[i + 3 * n] < d else d
    ia = ib if b < a else ia
    a = b if b < a else a
    ic = id if d < c else ic
    c = d if d < c else c
    s.next_core = <int32_t>(ic if c < a else ia)
    s.next_time = c if c < a else a
