# Memory that lives as long as a simulation.

cdef class Storage:
    """Arrays the core works in; ``named`` ones are results."""

    cdef list keep
    cdef dict named

    def __cinit__(self):
        self.keep = []
        self.named = {}

    cdef void* zeros(self, str name, shape, dtype):
        # Zeroed memory on a host cache line boundary; "" for what is no result.
        a = np.zeros(shape, dtype)
        raw = np.zeros(a.nbytes + 64, np.uint8)
        shift = -raw.ctypes.data % 64
        a = raw[shift:shift + a.nbytes].view(dtype).reshape(shape)
        self.keep.append(a)
        if name:
            self.named[name] = a
        return <void*><size_t>a.ctypes.data
