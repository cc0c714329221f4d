# What devices read and write of memory, word by word, in the order in which it happens: for the random tester, which judges it. Off by default.

cdef inline void dma_logged(Sim* s, int32_t nic, int64_t kind, int64_t addr, uint64_t old, uint64_t new, int64_t t) noexcept nogil:
    cdef int64_t* row
    if s.dma_log_count < s.dma_log_cap:
        row = &s.dma_log[s.dma_log_count * DMAROW]
        row[0], row[1], row[2], row[3] = t, nic, kind, addr
        row[4], row[5] = <int64_t>old, <int64_t>new
    s.dma_log_count += 1


cdef inline uint64_t dma_read(Sim* s, int32_t nic, int64_t addr, int64_t t) noexcept nogil:
    # A descriptor's word of 8 bytes, as it is now.
    cdef uint64_t value = image_read(s, addr, 8)
    if s.dma_log_cap:
        dma_logged(s, nic, 0, addr, value, value, t)
    return value


cdef inline void dma_write(Sim* s, int32_t nic, int64_t addr, uint64_t value, int64_t t) noexcept nogil:
    # A word of 4 bytes takes effect.
    if s.dma_log_cap:
        dma_logged(s, nic, 1, addr, image_read(s, addr, 4), value, t)
    image_write(s, addr, 4, value)
