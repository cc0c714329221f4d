# Checks of what comes from Python: everything that the core indexes with later must lie inside its tables. All raise ValueError.

cdef check_program(uops, entry, pin):
    if uops.dtype != UOP or uops.ndim != 1 or not len(uops):
        raise ValueError("uops must be a non-empty one-dimensional UOP array")
    if len(uops) >= 1 << (31 - ACCESS_BITS):
        raise ValueError(f"the core supports fewer than {1 << (31 - ACCESS_BITS)} micro-ops")
    if len(entry) != len(pin):
        raise ValueError("entry and pin must have one element per CPU")
    targets = uops["target"][uops["op"] == OP_BR]
    if (entry < 0).any() or (entry >= len(uops)).any() or (targets < 0).any() or (targets >= len(uops)).any():
        raise ValueError("an entry or branch target lies outside the program")
    for name, low, high in (("dst", -1, NREG), ("a", -1, NREG), ("b", -1, NREG), ("areg", -1, NREG), ("slot", 0, NCTX), ("op", 1, OP_LAST + 1)):
        if (uops[name] < low).any() or (uops[name] >= high).any():
            raise ValueError(f"micro-op field {name} is out of range")
    if ((uops["op"] >= OP_LOAD) & (uops["op"] <= OP_SC) & ~np.isin(uops["size"], (1, 2, 4, 8))).any():
        raise ValueError("memory operations have 1, 2, 4 or 8 bytes")


cdef check_machine(m):
    # What the model is made for; a machine file that compiles may still ask for more.
    if m.threads_per_core > MAXSMT or m.cores_per_node > 8 or m.nodes > 64:
        raise ValueError("the core supports up to 64 nodes of 8 cores with 4 hardware threads")
    if not m.home_broadcast and not m.l3_inclusive:
        raise ValueError("a home that does not broadcast needs an inclusive L3 for its core-valid bits")
    if m.l2_private and m.cores_per_node != 1:
        raise ValueError("a private L2 belongs to one core")
    if max(m.store_queue, m.store_queue_smt) > MAXSB // 2 or m.hop_fs <= 0 or (not m.l2_private and m.l2_hop_fs <= 0):
        raise ValueError("store queue beyond 64 entries, or a hop of no time")
    if bool(m.l2_private) == bool(m.l1_write_through) or bool(m.store_in_order) != bool(m.l2_private):
        raise ValueError("private L2 goes with write-back L1 and in-order stores, a cluster L2 with write-through L1 and out-of-order stores")
    if m.l2_mshrs < 1 or m.mshrs < 1:
        raise ValueError("a cache without MSHRs cannot miss")


cdef check_start(Sim* s):
    cdef int32_t i
    for i in range(s.n_uops):
        if s.uops[i].op > OP_HALT and s.uops[i].op != OP_PREFETCH and not s.has_devices:
            raise ValueError(f"micro-op {i} needs an interrupt controller or a device: a run without devices has none")


cdef check_device_operations(Sim* s, d):
    # Micro-ops that name what is not there would reach beyond the tables.
    cdef int32_t i
    cdef Uop* u
    for i in range(s.n_uops):
        u = &s.uops[i]
        if u.op == OP_MMIO and (u.fn >> 4 >= len(d.nics) or u.fn & 15 > D_TX_MODERATION):
            raise ValueError(f"micro-op {i}: there is no NIC {u.fn >> 4} with a register {u.fn & 15}")
        if u.op == OP_IPI and not 0 <= u.base < len(d.vectors):
            raise ValueError(f"micro-op {i}: there is no vector {u.base}")
        if u.op == OP_COUNT and not 0 <= u.base < len(d.counters):
            raise ValueError(f"micro-op {i}: there is no counter {u.base}")


cdef check_records(Sim* s, records):
    # A chunk of a recorded stream, not empty.
    if records.dtype.itemsize != sizeof(Record) or not records.flags.c_contiguous:
        raise ValueError("records must be a contiguous RECORD array")
    if (records["uop"] < 0).any() or (records["uop"] >= s.n_uops).any():
        raise ValueError("a record names a micro-op outside the table")
    if not np.isin(records["kind"], (OP_LOAD, OP_STORE, OP_RMW, OP_LL, OP_SC, OP_FENCE)).all():
        raise ValueError("a record is no memory operation or fence")
    if records["size"].max() > 2 * s.line_bytes or (records["gap"] < 0).any() or (records["address"] < 0).any():
        raise ValueError("a record is longer than two lines, or has a negative gap or address")
    if (records["back"] < 0).any() or (records["back"] > np.arange(len(records))).any():
        raise ValueError("a store-conditional's load-and-reserve lies outside its chunk")
