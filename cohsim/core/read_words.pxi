# Which words of memory anything can read: programs, and devices their descriptors.

cdef bint close_image(Sim* s, instances, int limit) except -1:
    # See Simulation.keep_read_words_only.
    cdef int64_t i, k, count = 0
    cdef Uop* u
    for i in range(s.n_nics):
        count += 2 * s.nics[i].queues * (s.nics[i].entries[0] + s.nics[i].entries[1])
    for i in range(s.n_uops):
        u = &s.uops[i]
        if u.op == OP_RMW or u.op == OP_LL or (u.op == OP_LOAD and u.dst >= 0):
            if u.areg >= 0 or u.slot == 5:
                return False
            count += 2 * (instances[u.slot] if u.stride else 1)
    if count > limit:
        return False
    for i in range(s.n_uops):
        u = &s.uops[i]
        if u.op == OP_RMW or u.op == OP_LL or (u.op == OP_LOAD and u.dst >= 0):
            for k in range(instances[u.slot] if u.stride else 1):
                for address in (u.base + u.stride * k, u.base + u.stride * k + u.size - 1):
                    image_write(s, address, 1, image_read(s, address, 1))
    for i in range(s.n_nics):
        for q in range(2 * s.nics[i].queues):           # what a device reads of its descriptors
            for k in range(s.nics[i].entries[q & 1]):
                address = s.nics[i].half[q].base + k * s.nics[i].descriptor[q & 1] + (s.nics[i].command_at if q & 1 else s.nics[i].address_at)
                for address in (address, address + 7):
                    image_write(s, address, 1, image_read(s, address, 1))
    s.closed = 1
    return True
