# Memory image: the value of every word that a program reads or initialises. One value per word is enough because a store
# is performed only while no other readable copy exists (the protocol's single-writer rule; checked builds assert it).

cdef inline uint64_t size_mask(uint8_t size) noexcept nogil:
    return <uint64_t>0xFFFFFFFFFFFFFFFF if size >= 8 else ((<uint64_t>1 << (8 * size)) - 1)


cdef inline int64_t word_find(Sim* s, uint64_t key) noexcept nogil:
    cdef int64_t i = <int64_t>((key * <uint64_t>0x9E3779B97F4A7C15) >> 20) & (s.word_cap - 1)
    while s.word_key[i] != key and s.word_key[i] != NOWORD:
        i = (i + 1) & (s.word_cap - 1)
    return i


cdef void image_grow(Sim* s) noexcept nogil:
    cdef int64_t old = s.word_cap, i, j
    cdef uint64_t* k = s.word_key
    cdef uint64_t* v = s.word_val
    s.word_cap = old * 2
    s.word_key = <uint64_t*>malloc(s.word_cap * sizeof(uint64_t))
    s.word_val = <uint64_t*>malloc(s.word_cap * sizeof(uint64_t))
    if s.word_key == NULL or s.word_val == NULL:
        s.fault = X_MEMORY
        return
    for i in range(s.word_cap):
        s.word_key[i] = NOWORD
    for i in range(old):
        if k[i] != NOWORD:
            j = word_find(s, k[i])
            s.word_key[j] = k[i]
            s.word_val[j] = v[i]
    free(k)
    free(v)


cdef inline uint64_t image_read(Sim* s, int64_t addr, uint8_t size) noexcept nogil:
    cdef uint64_t key = <uint64_t>addr >> 3
    cdef int64_t i = word_find(s, key)
    cdef uint64_t w
    if s.word_key[i] == NOWORD:
        return 0
    w = s.word_val[i] >> (8 * (addr & 7))
    return w & size_mask(size)


cdef inline void image_write(Sim* s, int64_t addr, uint8_t size, uint64_t value) noexcept nogil:
    cdef uint64_t key = <uint64_t>addr >> 3
    cdef int64_t i = word_find(s, key)
    cdef uint64_t mask = size_mask(size) << (8 * (addr & 7))
    if not s.values:
        return
    if s.word_key[i] == NOWORD:
        if s.word_used * 2 >= s.word_cap:
            image_grow(s)
            if s.fault:
                return
            i = word_find(s, key)
        s.word_key[i] = key
        s.word_val[i] = 0
        s.word_used += 1
    s.word_val[i] = (s.word_val[i] & ~mask) | ((value << (8 * (addr & 7))) & mask)


cdef inline uint64_t alu(uint8_t fn, uint64_t x, uint64_t v) noexcept nogil:
    if fn == 0:
        return x + v
    if fn == 1:
        return x - v
    if fn == 2:
        return x & v
    if fn == 3:
        return x | v
    if fn == 4:
        return x ^ v
    if fn == 7:
        return x << (v & 63)
    if fn == 8:
        return x >> (v & 63)
    return v                # XCHG; CAS decides at its caller


cdef inline bint condition(uint8_t fn, uint64_t x, uint64_t v) noexcept nogil:
    if fn == 0:
        return True
    if fn == 1:
        return x == v
    if fn == 2:
        return x != v
    if fn == 3:
        return <int64_t>x < <int64_t>v
    if fn == 4:
        return <int64_t>x >= <int64_t>v
    if fn == 5:
        return x < v
    if fn == 6:
        return x >= v
    if fn == 7:
        return (x & v) != 0
    return (x & v) == 0
