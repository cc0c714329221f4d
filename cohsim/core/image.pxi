# Memory image: the value of every word that a program reads or initialises. One value per word is enough because a store
# is performed only while no other readable copy exists (the protocol's single-writer rule; checked builds assert it).

cdef inline uint64_t size_mask(uint8_t size) noexcept nogil:
    return <uint64_t>0xFFFFFFFFFFFFFFFF if size >= 8 else ((<uint64_t>1 << (8 * size)) - 1)


cdef inline Word* word_find(Sim* s, uint64_t key) noexcept nogil:
    # The eight words of a 64-byte line lie side by side, as programs touch them.
    cdef int64_t i = <int64_t>(((((key >> 3) * <uint64_t>0x9E3779B97F4A7C15) >> 20) << 3) | (key & 7)) & (s.word_cap - 1)
    while s.words[i].key != key and s.words[i].key != NOWORD:
        i = (i + 1) & (s.word_cap - 1)
    return &s.words[i]


cdef void image_grow(Sim* s) noexcept nogil:
    cdef int64_t old = s.word_cap, i
    cdef Word* words = s.words
    s.word_cap = old * 2
    s.words = <Word*>malloc(s.word_cap * sizeof(Word))
    if s.words == NULL:
        s.words = words
        s.word_cap = old
        s.fault = X_MEMORY
        return
    for i in range(s.word_cap):
        s.words[i].key = NOWORD
    for i in range(old):
        if words[i].key != NOWORD:
            word_find(s, words[i].key)[0] = words[i]
    free(words)


cdef inline uint64_t image_read(Sim* s, int64_t addr, uint8_t size) noexcept nogil:
    cdef Word* w = word_find(s, <uint64_t>addr >> 3)
    if w.key == NOWORD:
        return 0
    return (w.value >> (8 * (addr & 7))) & size_mask(size)


cdef inline void image_write(Sim* s, int64_t addr, uint8_t size, uint64_t value) noexcept nogil:
    cdef uint64_t key = <uint64_t>addr >> 3
    cdef uint64_t mask = size_mask(size) << (8 * (addr & 7))
    cdef Word* w
    if not s.values:
        return
    w = word_find(s, key)
    if w.key == NOWORD:
        if s.closed:
            return
        if s.word_used * 2 >= s.word_cap:
            image_grow(s)
            if s.fault:
                return
            w = word_find(s, key)
        w.key = key
        w.value = 0
        s.word_used += 1
    w.value = (w.value & ~mask) | ((value << (8 * (addr & 7))) & mask)


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
    if fn == 9:
        return x * v
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
