# Reports for people: why did the simulated system stop?

THREAD_STATES = ("running", "blocked", "idle", "halted", "waiting for trace", "idle until an interrupt")
BLOCKS = ("", "a load", "a line fill buffer", "room in the store buffer", "its store buffer to drain", "a locked operation")


cdef str name_of(names, int index):
    return names[index] if 0 <= index < len(names) else str(index)


cdef list describe_line(Sim* s, int64_t line, node_states, home_states):
    """Where a line is and who waits for it, one text per place."""
    cdef int32_t i, wi, k, r, x, m
    cdef Way* w
    out = [f"line {line << s.line_shift:#x}:"]
    for i in range(s.nodes):
        wi = l2_find(s, &s.nodes_[i], line)
        if wi >= 0:
            w = &s.nodes_[i].ways[wi]
            waiting = []
            r = w.qhead
            while r >= 0 and len(waiting) < 64:
                waiting.append("snoop" if s.reqs[r].kind == 0 else f"cpu {s.threads[s.reqs[r].thread].id}")
                r = s.reqs[r].next
            out.append(f"  node {i}: {node_states[w.state]}, L1 copies {w.l1mask:#x}, busy until {w.busy_until}, "
                       f"waiting: {', '.join(waiting) or 'nobody'}")
        k = wb_find(s, &s.nodes_[i], line)
        if k >= 0:
            out.append(f"  node {i}: write-back {node_states[s.nodes_[i].wb[k].state]}")
    x = txn_find(s, line)
    if x >= 0:
        queue = []
        m = s.txns[x].qhead
        while m >= 0 and len(queue) < 64:
            queue.append("a device" if s.msgs[m].kind == H_RECALL else f"node {s.msgs[m].src}")
            m = s.msgs[m].next
        out.append(f"  home: {home_states[s.txns[x].state]} for node {s.txns[x].requester}, {s.txns[x].pending} answers outstanding, "
                   f"waiting: {', '.join(queue) or 'nobody'}")
    return out


cdef str describe(Sim* s, node_states, node_events, home_states, home_events):
    """Who waits for what, and the state of every line that somebody waits for."""
    cdef int32_t i, k
    cdef Thread* th
    cdef Half* h
    lines = set()
    out = [f"at {s.now / 1e6:.3f} ns:"]
    if s.fault == X_NODE_ROW:
        out.append(f"node {s.fault_a}: no row for state {name_of(node_states, s.fault_b)}, event {name_of(node_events, s.fault_c)}")
    elif s.fault == X_HOME_ROW:
        out.append(f"home: no row for state {name_of(home_states, s.fault_b)}, event {name_of(home_events, s.fault_c)}")
    if s.fault_line >= 0:
        lines.add(s.fault_line)
    for i in range(s.n_threads):
        th = &s.threads[i]
        text = f"cpu {i}: {THREAD_STATES[th.state]}"
        if th.state == T_BLOCKED:
            text += f" since {th.block_since / 1e6:.3f} ns, waits for {BLOCKS[th.block_kind]}"
        text += f", micro-op {th.pc} (workload line {s.uops[th.pc].line_no}), {th.sb_count} stores buffered"
        out.append(text)
        if th.depth:
            text = f"cpu {i}: in {th.depth} interrupt(s)"
            out.append(text + (", more pending" if th.irq_pending else ""))
        for k in range(th.n_out):
            lines.add(th.out[k].line)
        for k in range(th.sb_head, th.sb_tail):
            if th.sb[k & s.sb_mask].state != 2:
                lines.add(th.sb[k & s.sb_mask].line)
    for i in range(s.n_nics):
        for k in range(2 * s.nics[i].queues):
            h = &s.nics[i].half[k]
            if h.head != h.tail or h.cause or h.ready != h.wb:
                out.append(f"nic {i} {'transmit' if k & 1 else 'receive'} queue {k >> 1}: {h.tail - h.head} descriptors offered, "
                           f"{h.ready - h.wb} to write back, interrupt {'pending' if h.cause else 'idle'}, {'armed' if h.armed else 'masked'}")
        if s.nics[i].blocked >= 0:
            out.append(f"nic {i}: receive is blocked, queue {s.nics[i].blocked} has no descriptor")
    for line in sorted(lines)[:20]:
        out += describe_line(s, line, node_states, home_states)
    return "\n".join(out)
