# Home controller: the ordering point of a line. One transaction per line at a time, run by the protocol's home table; the
# data of an inclusive L3 (directory in its core-valid bits) or of a memory-side cache; memory channels.

cdef inline int32_t txn_find(Sim* s, int64_t line) noexcept nogil:
    cdef int32_t x = s.txn_hash[line & (TXN_HASH - 1)]
    while x >= 0 and s.txns[x].line != line:
        x = s.txns[x].hash_next
    return x


cdef int32_t txn_new(Sim* s, int64_t line) noexcept nogil:
    cdef int32_t x = s.free_txn
    cdef Txn* p
    if x < 0:
        s.fault = X_POOL
        return 0
    p = &s.txns[x]
    s.free_txn = p.next_free
    p.line = line
    p.state = HS_FREE
    p.qhead = -1
    p.qtail = -1
    p.hash_next = s.txn_hash[line & (TXN_HASH - 1)]
    s.txn_hash[line & (TXN_HASH - 1)] = x
    return x


cdef void txn_release(Sim* s, int32_t x) noexcept nogil:
    cdef int32_t* link = &s.txn_hash[s.txns[x].line & (TXN_HASH - 1)]
    while link[0] != x:
        link = &s.txns[link[0]].hash_next
    link[0] = s.txns[x].hash_next
    s.txns[x].next_free = s.free_txn
    s.free_txn = x


cdef inline void home_fault(Sim* s, int64_t line, int32_t state, int32_t event) noexcept nogil:
    s.fault = X_HOME_ROW
    s.fault_b = state
    s.fault_c = event
    s.fault_line = line


cdef inline int64_t slice_start(Sim* s, int64_t line, int64_t t) noexcept nogil:
    cdef int64_t k = line % s.slices
    if s.slice_free[k] > t:
        t = s.slice_free[k]
    s.slice_free[k] = t + s.home_occ
    return t


cdef inline int64_t memory_access(Sim* s, int64_t line, int64_t t, bint write) noexcept nogil:
    # Channel occupancy, then the access time. Returns when the line is at the home.
    cdef int64_t k = line % s.channels
    if s.channel_free[k] > t:
        t = s.channel_free[k]
    s.channel_free[k] = t + s.memory_line
    if measuring(s, t):
        if write:
            s.memory_writes += 1
        else:
            s.memory_reads += 1
    return t + s.memory


cdef void l3_install(Sim* s, int64_t line, uint8_t dirty, int64_t t) noexcept nogil:
    # Memory-side cache: allocate on a memory read or a write-back; its victims bother nobody.
    cdef L3Way* w = l3_find(s, line)
    cdef L3Way* set_
    cdef int32_t i
    if s.l3_ways == 0:
        if dirty:
            memory_access(s, line, t, True)
        return
    if w == NULL:
        set_ = &s.l3[(line % s.l3_sets) * s.l3_ways]
        w = set_
        for i in range(s.l3_ways):
            if set_[i].tag == -1:
                w = &set_[i]
                break
            if set_[i].lru < w.lru:
                w = &set_[i]
        if w.tag != -1 and w.dirty:
            memory_access(s, w.tag, t, True)
        l3_tag(s, w, line)
        w.dirty = 0
        w.bits = 0
        w.owner = -1
        s.l3_lru += 1
        w.lru = s.l3_lru
    w.dirty |= dirty


cdef inline int64_t link_arrival(Sim* s, int32_t node, int64_t leave) noexcept nogil:
    # A line of data on the link into a node.
    cdef Node* n = &s.nodes_[node]
    cdef int64_t t = leave + s.hop
    if n.link_free > t:
        t = n.link_free
    n.link_free = t + s.transfer
    return t + s.transfer


cdef void reply(Sim* s, int64_t line, int32_t node, int32_t ev, int32_t level, int64_t arrive) noexcept nogil:
    send(s, arrive, src_home(s, <int32_t>(line % s.slices)), EV_NODE_REPLY, node, line, ev, level)


cdef void home_ready_at(Sim* s, int32_t x, int64_t t) noexcept nogil:
    # All answers are in at t; the transaction goes on when the data it needs is there too.
    cdef Txn* p = &s.txns[x]
    if p.data_from < 0 and p.kind != H_RECALL and p.data_ready > t:
        t = p.data_ready
    send(s, t, src_home(s, <int32_t>(p.line % s.slices)), EV_HOME_READY, <int32_t>(p.line % s.slices), x, 0, 0)


cdef void send_snoops(Sim* s, int32_t x, uint32_t ops, int64_t leave) noexcept nogil:
    cdef Txn* p = &s.txns[x]
    cdef L3Way* w = NULL
    cdef int32_t i, ask
    if p.way >= 0:
        w = &s.l3[p.way]
    for i in range(s.nodes):
        if i == p.requester:
            continue
        if s.broadcast:
            ask = 1
        elif ops & B_SNOOPW:
            ask = <int32_t>(w.bits >> i & 1)
        else:
            ask = 1 if w.owner == i else 0
        if ask:
            p.pending += 1
            if measuring(s, leave):
                s.home_snoops += 1
            # It takes effect at the end of its way through the node's tag pipeline.
            send(s, leave + s.hop + s.snoop, src_home(s, <int32_t>(p.line % s.slices)), EV_NODE_SNOOP, i, p.line,
                 N_SNPM if ops & B_SNOOPW else N_SNPS, 0)


cdef void txn_go(Sim* s, int32_t x, uint32_t ops, bint present, int64_t start) noexcept nogil:
    # Snoops leave and the home's own data is looked up, after the lookup time; a memory-side lookup runs beside the snoops.
    cdef Txn* p = &s.txns[x]
    cdef int64_t known = start + s.lookup
    p.pending = 0
    p.memory = 0
    p.data_ready = known
    if p.kind == H_GETS or p.kind == H_GETM:
        if present:
            p.data_ready = known + s.l3_data
        else:
            p.data_ready = memory_access(s, p.line, known, False)
            p.memory = 1
            if not s.inclusive:
                l3_install(s, p.line, 0, known)
    send_snoops(s, x, ops, known)
    if p.pending == 0:
        home_ready_at(s, x, known)


cdef int32_t l3_place(Sim* s, int32_t x, uint32_t ops, int64_t start) noexcept nogil:
    # Inclusive home: find a way for the line. 1: got it, or way is -2 and a recall is under
    # way; 0: every way of the set has a transaction.
    cdef Txn* p = &s.txns[x]
    cdef L3Way* set_ = &s.l3[(p.line % s.l3_sets) * s.l3_ways]
    cdef L3Way* w = NULL
    cdef int32_t i, y, idx
    for i in range(s.l3_ways):
        if set_[i].tag == -1:
            w = &set_[i]
            break
        if txn_find(s, set_[i].tag) < 0 and (w == NULL or set_[i].lru < w.lru):
            w = &set_[i]
    if w == NULL:
        return 0
    if w.tag != -1 and w.bits:
        y = txn_new(s, w.tag)
        if s.fault:
            return 0
        idx = HS_FREE * H_EVENTS + H_RECALL
        if s.home_next[idx] == 255:
            home_fault(s, w.tag, HS_FREE, H_RECALL)
            return 0
        s.home_fired[idx] += 1
        if measuring(s, start):
            s.recalls += 1
        s.txns[y].state = s.home_next[idx]
        s.txns[y].kind = H_RECALL
        s.txns[y].requester = -1
        s.txns[y].parent = x
        s.txns[y].way = <int32_t>(w - s.l3)
        s.txns[y].data_from = -1
        s.txns[y].sharer = 0
        s.txns[y].begun = start
        txn_go(s, y, s.home_ops[idx], True, start)
        p.way = -2
        return 1
    if w.tag != -1 and w.dirty:
        memory_access(s, w.tag, start, True)
    l3_take(s, x, w)
    return 1


cdef inline void l3_take(Sim* s, int32_t x, L3Way* w) noexcept nogil:
    l3_tag(s, w, s.txns[x].line)
    w.bits = 0
    w.owner = -1
    w.dirty = 0
    s.l3_lru += 1
    w.lru = s.l3_lru
    s.txns[x].way = <int32_t>(w - s.l3)


cdef void txn_place(Sim* s, int32_t x, int64_t t) noexcept nogil:
    # The line is not in the inclusive L3: it needs a way before anything else.
    cdef Txn* p = &s.txns[x]
    cdef uint32_t ops = s.home_ops[HS_FREE * H_EVENTS + p.kind]
    cdef int32_t slice_ = <int32_t>(p.line % s.slices)
    if not l3_place(s, x, ops, t):
        if not s.fault:
            send(s, t + s.lookup, src_home(s, slice_), EV_HOME_PLACE, slice_, x, 0, 0)
    elif p.way >= 0:
        txn_go(s, x, ops, False, t)
    # else: goes on in recall_done


cdef void txn_start(Sim* s, int32_t x, int32_t kind, int32_t src, int64_t t) noexcept nogil:
    # The line is free: take a request.
    cdef Txn* p = &s.txns[x]
    cdef int32_t idx
    cdef uint32_t ops
    cdef L3Way* w
    cdef int64_t start = slice_start(s, p.line, t)
    idx = HS_FREE * H_EVENTS + kind
    if s.home_next[idx] == 255:
        home_fault(s, p.line, HS_FREE, kind)
        return
    ops = s.home_ops[idx]
    w = l3_find(s, p.line)
    if ops & B_PUTACK:
        s.home_fired[idx] += 1
        if ops & B_WRITE:
            home_write(s, p.line, start)
        if w != NULL and ops & B_DELREQ:
            w.bits &= ~(<uint64_t>1 << src)
            if w.owner == src:
                w.owner = -1
        reply(s, p.line, src, N_PUTACK, L_HOME, start + s.lookup + s.hop)
        txn_next(s, x, start)
        return
    p.kind = <uint8_t>kind
    p.requester = src
    p.data_from = -1
    p.supplier = -1
    p.sharer = 0
    p.begun = start
    p.parent = -1
    p.way = -1 if w == NULL or not s.inclusive else <int32_t>(w - s.l3)
    s.home_fired[idx] += 1
    p.state = s.home_next[idx]
    if s.inclusive and w == NULL:
        txn_place(s, x, start)
        return
    txn_go(s, x, ops, w != NULL, start)


cdef void txn_next(Sim* s, int32_t x, int64_t t) noexcept nogil:
    # The line is free again: take the next waiting request, or forget the transaction.
    cdef Txn* p = &s.txns[x]
    cdef int32_t m = p.qhead, kind, src
    p.state = HS_FREE
    if m < 0:
        txn_release(s, x)
        return
    p.qhead = s.msgs[m].next
    kind = s.msgs[m].kind
    src = s.msgs[m].src
    if measuring(s, t):
        s.home_queue_fs += t - s.msgs[m].time
    line_count(s, p.line, LS_QUEUE, t - s.msgs[m].time, t)
    s.msgs[m].next = s.free_msg
    s.free_msg = m
    if kind == H_RECALL:
        dma_start(s, x, src, t)            # the only recall that waits: a device's
    else:
        txn_start(s, x, kind, src, t)


cdef inline void home_write(Sim* s, int64_t line, int64_t t) noexcept nogil:
    cdef L3Way* w
    if s.inclusive:
        w = l3_find(s, line)
        if w != NULL:
            w.dirty = 1
        else:
            memory_access(s, line, t, True)
    else:
        l3_install(s, line, 1, t)


cdef void home_cancel(Sim* s, int32_t x, int32_t src) noexcept nogil:
    # The node's waiting request has changed its meaning; the ordered channel guarantees that it is here. None is waiting when a
    # PutM has been taken already and only its PutAck is on the way: nothing to change then.
    cdef int32_t m = s.txns[x].qhead
    while m >= 0:
        if s.msgs[m].src == src:
            if s.msgs[m].kind == H_UPG:
                s.msgs[m].kind = H_GETM
                return
            if s.msgs[m].kind == H_PUTM:
                s.msgs[m].kind = H_PUTMSTALE
                return
        m = s.msgs[m].next


cdef void home_answer(Sim* s, int32_t x, int32_t kind, int32_t src, int32_t cancel, int64_t t) noexcept nogil:
    cdef Txn* p = &s.txns[x]
    cdef L3Way* w = NULL
    cdef int32_t idx = p.state * H_EVENTS + kind
    cdef uint32_t ops
    if s.home_next[idx] == 255:
        home_fault(s, p.line, p.state, kind)
        return
    ops = s.home_ops[idx]
    s.home_fired[idx] += 1
    p.state = s.home_next[idx]
    if cancel:
        home_cancel(s, x, src)
    if p.way >= 0:
        w = &s.l3[p.way]
    if ops & B_SHARER:
        p.sharer = 1
    elif w != NULL:
        w.bits &= ~(<uint64_t>1 << src)
    if w != NULL and w.owner == src and not ops & B_OWNER:
        w.owner = -1
    if ops & B_DATA:
        p.data_from = L_RCLEAN if kind == H_RCLEAN or kind == H_RCLEANGONE else L_RDIRTY
        p.supplier = src
    if ops & B_WRITE:
        home_write(s, p.line, t)
    p.pending -= 1
    if p.pending == 0:
        home_ready_at(s, x, t if t > p.begun + s.lookup else p.begun + s.lookup)


cdef void home_msg(Sim* s, int64_t line, int32_t kind, int32_t d, int64_t t) noexcept nogil:
    cdef int32_t src = d & 0xFFFF, x = txn_find(s, line), m
    cdef int32_t idx
    if kind == H_ACK:
        if x < 0 or s.home_next[s.txns[x].state * H_EVENTS + H_ACK] == 255:
            home_fault(s, line, HS_FREE if x < 0 else s.txns[x].state, H_ACK)
            return
        s.home_fired[s.txns[x].state * H_EVENTS + H_ACK] += 1
        if measuring(s, t):
            s.home_blocked += t - s.txns[x].begun
        txn_next(s, x, t)
        return
    if kind >= H_RNONE and kind <= H_ROWNED:
        if x < 0:
            home_fault(s, line, HS_FREE, kind)
            return
        home_answer(s, x, kind, src, d >> 16, t)
        return
    if measuring(s, t):
        s.home_requests += 1
    if x < 0:
        x = txn_new(s, line)
        if not s.fault:
            txn_start(s, x, kind, src, t)
        return
    idx = s.txns[x].state * H_EVENTS + kind
    if s.home_next[idx] == 255 or not s.home_ops[idx] & STALL:
        home_fault(s, line, s.txns[x].state, kind)
        return
    m = s.free_msg
    if m < 0:
        s.fault = X_POOL
        return
    s.free_msg = s.msgs[m].next
    s.msgs[m].kind = kind
    s.msgs[m].src = src
    s.msgs[m].time = t
    s.msgs[m].next = -1
    if s.txns[x].qhead < 0:
        s.txns[x].qhead = m
    else:
        s.msgs[s.txns[x].qtail].next = m
    s.txns[x].qtail = m


cdef void recall_done(Sim* s, int32_t x, int64_t t) noexcept nogil:
    # The victim has left all nodes: its way goes to the transaction that asked for it.
    cdef int32_t parent = s.txns[x].parent, idx
    cdef L3Way* w
    if parent < -1:
        dma_done(s, x, t)
        return
    w = &s.l3[s.txns[x].way]
    if w.dirty:
        memory_access(s, w.tag, t, True)
    l3_take(s, parent, w)          # before the victim line's own waiting requests look for a place
    idx = HS_FREE * H_EVENTS + s.txns[parent].kind
    txn_go(s, parent, s.home_ops[idx], False, t)
    txn_next(s, x, t)


cdef void home_ready(Sim* s, int32_t x, int64_t t) noexcept nogil:
    cdef Txn* p = &s.txns[x]
    cdef L3Way* w = NULL
    cdef int32_t ev, idx, level
    cdef uint32_t ops
    cdef bint others = p.sharer
    if p.way >= 0:
        w = &s.l3[p.way]
        if not s.broadcast and p.requester >= 0:
            others = (w.bits & ~(<uint64_t>1 << p.requester)) != 0
    if p.kind == H_GETS:
        ev = H_READYS if others else H_READYE
    elif p.kind == H_GETM:
        ev = H_READYM
    elif p.kind == H_UPG:
        ev = H_READYG
    else:
        ev = H_READYR
    idx = p.state * H_EVENTS + ev
    if s.home_next[idx] == 255:
        home_fault(s, p.line, p.state, ev)
        return
    ops = s.home_ops[idx]
    s.home_fired[idx] += 1
    p.state = s.home_next[idx]
    if ops & B_FINISH:
        recall_done(s, x, t)
        return
    if p.requester < 0:
        home_fault(s, p.line, p.state, ev)      # a recall has nobody to answer: the table must finish it
        return
    if w != NULL and s.inclusive:
        if ops & B_ADDREQ:
            w.bits |= <uint64_t>1 << p.requester
        if ops & B_ONLYREQ:
            w.bits = <uint64_t>1 << p.requester
        if ops & B_OWNREQ:
            w.owner = <int16_t>p.requester
    if ops & B_GRANT:
        level = L_UPGRADE
    elif p.data_from >= 0:
        level = p.data_from
    else:
        level = L_MEMORY if p.memory else L_HOME
    count_fill(s, p, level, t)
    if ops & B_GRANT:
        reply(s, p.line, p.requester, N_GRANT, level, t + s.hop)
    else:
        if ops & B_DATAS:
            ev = N_DATAS
        elif ops & B_DATAE:
            ev = N_DATAE
        elif ops & B_DATAF:
            ev = N_DATAF
        else:
            ev = N_DATAM
        reply(s, p.line, p.requester, ev, level, link_arrival(s, p.requester, t))


cdef inline void count_fill(Sim* s, Txn* p, int32_t level, int64_t t) noexcept nogil:
    if not measuring(s, t):
        return
    if level == L_UPGRADE:
        line_count(s, p.line, LS_UPGRADES, 1, t)
        return
    line_count(s, p.line, LS_FILLS, 1, t)
    if level == L_MEMORY:
        line_count(s, p.line, LS_MEMORY, 1, t)
    elif p.data_from >= 0:
        line_count(s, p.line, LS_FAR, 1, t)
        line_count(s, p.line, LS_RCLEAN if level == L_RCLEAN else LS_RDIRTY, 1, t)
        s.transfers[p.supplier * s.nodes + p.requester] += 1
