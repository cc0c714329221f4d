# What a run leaves behind.

cdef finish_run(Sim* s, Storage storage, long long end_fs):
    # Book what is still waiting, then put the hot statistics and the rest together.
    cdef int32_t i
    cdef Thread* th
    if end_fs < s.until:
        s.until = end_fs
    for i in range(s.n_threads):
        th = &s.threads[i]
        if th.state == T_BLOCKED:
            account(s, th, th.block_uop, th.block_cat, th.block_since, s.until)
        elif th.state == T_WAIT:
            account(s, th, th.block_uop, C_IDLE, th.block_since, s.until)
        elif th.state == T_RUN:
            # Only in an interrupted run: others had run ahead.
            account(s, th, th.pc, C_ISSUE, th.t, s.until)
    for i in range(s.n_nics):
        if s.nics[i].held:
            nic_span(s, i, NC_PAUSED, s.nics[i].paused_since, s.until)
        if s.nics[i].blocked >= 0:
            nic_span(s, i, NC_BLOCKED, s.nics[i].blocked_since, s.until)
    if s.has_devices:
        storage.named["vector_raised"] = np.array([s.vectors[i].raised for i in range(s.n_vectors)], np.int64)
    hot = storage.named.pop("hot")
    storage.named["count"] = hot[:, :, 0].copy()
    for i in range(NCAT):
        if HOT_CATEGORY[i] > 0:
            storage.named["time_fs"][:, :, i] += hot[:, :, HOT_CATEGORY[i]]
    for i in range(NLEVEL):
        if HOT_LEVEL[i] > 0:
            storage.named["served"][:, :, i] += hot[:, :, HOT_LEVEL[i]]


cdef dict scalar_counters(Sim* s):
    return {"home_requests": s.home_requests, "home_snoops": s.home_snoops, "home_blocked_fs": s.home_blocked,
            "home_queue_fs": s.home_queue_fs, "memory_reads": s.memory_reads, "memory_writes": s.memory_writes,
            "writebacks": s.writebacks, "evictions": s.evictions, "recalls": s.recalls, "l2_requests": s.l2_requests,
            "l2_queue_fs": s.l2_queue_fs, "tx_dropped": s.tx_dropped, "gathered_stores": s.gathered, "adjacent_fetches": s.adjacent_fetches}
