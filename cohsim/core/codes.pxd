# The closed vocabularies of the native core: what its small integers mean. Values shared with Python: cohsim/uops.py (operations, flags,
# registers), cohsim/results/rundata.py (categories, levels, columns), cohsim/protocols/vocabulary.py (states, events, actions).

cdef enum OpCode:
    OP_WORK = 1
    OP_LOAD = 2
    OP_STORE = 3
    OP_RMW = 4
    OP_LL = 5
    OP_SC = 6
    OP_FENCE = 7
    OP_ALU = 8
    OP_BR = 9
    OP_PAUSE = 10
    OP_ENTER = 11
    OP_PACKET = 12
    OP_DONE = 13
    OP_HALT = 14
    OP_WAIT = 15
    OP_IRET = 16
    OP_IRQ = 17
    OP_MMIO = 18
    OP_IPI = 19
    OP_COUNT = 20
    OP_PREFETCH = 21
    OP_LAST = 21

cdef enum RecordFlag:
    RF_DEP = 1
    RF_PACKET = 8

cdef enum UopFlag:
    F_DEP = 1
    F_SPIN = 2
    F_PRED_TAKEN = 4

cdef enum Category:
    C_ISSUE, C_L1, C_L2, C_CLUSTER, C_HOME, C_RCLEAN, C_RDIRTY, C_UPGRADE, C_MEMORY, C_SB, C_ATOMIC, C_RETRY, C_FENCE, C_SPIN, C_IDLE

cdef enum Level:
    L_FORWARD, L_L1, L_L2, L_CLUSTER, L_HOME, L_RCLEAN, L_RDIRTY, L_UPGRADE, L_MEMORY

cdef enum LineStat:
    LS_LOADS, LS_STORES, LS_ATOMICS, LS_FILLS, LS_UPGRADES, LS_NEAR, LS_FAR, LS_RCLEAN, LS_RDIRTY, LS_MEMORY, LS_INVALIDATIONS
    LS_SCFAIL, LS_STALL, LS_QUEUE

cdef enum EventKind:
    EV_NODE_REQ = 1    # a = node, b = request index
    EV_NODE_LINE       # a = node, b = way: the line's occupancy ends
    EV_NODE_SNOOP      # a = node, b = line, c = N_SNPS or N_SNPM, d = home transaction
    EV_NODE_REPLY      # a = node, b = line, c = N_DATAS.., d = level served
    EV_NODE_DONE       # a = node, b = request index: the store is performed
    EV_NODE_RETRY      # a = node: operations that found no way in their set try again
    EV_CORE_RESP       # a = core, b = request index
    EV_CORE_INV        # a = core, b = line
    EV_HOME_MSG        # a = slice, b = line, c = H_* event, d = source node | cancel << 16
    EV_HOME_PLACE      # a = slice, b = transaction: look again for a way in a set that was full of transactions
    EV_HOME_READY      # a = slice, b = transaction
    EV_IRQ             # a = core, b = vector
    EV_DEV             # a = NIC, b = value, c = DeviceEvent, d = queue
    EV_DMA             # a = slice, b = line, d = DMA write

cdef enum DeviceEvent:
    D_RX_TAIL, D_TX_TAIL, D_RX_ENABLE, D_TX_ENABLE, D_RX_MODERATION, D_TX_MODERATION     # register writes; numbers of uops.Register
    D_ARRIVE           # the next frame of traffic source `queue`
    D_ACK              # the peer's next acknowledgement is at the port
    D_RECEIVE          # the receive engine looks at the FIFO
    D_TRANSMIT         # the transmit engine has the queue's descriptors
    D_ENGINE           # the transmit engine looks for its next frame
    D_FETCHED          # b descriptors of the transmit queue have been read
    D_FLUSH            # write-back timeout of receive batch b
    D_IRQ_RX, D_IRQ_TX         # moderation time is over
    D_TIMER            # b = vector

cdef enum NicCounter:
    NC_RX_FRAMES, NC_RX_BYTES, NC_MISSED, NC_PAUSED, NC_BLOCKED, NC_TX_FRAMES, NC_TX_BYTES, NC_RX_IRQS, NC_TX_IRQS, NC_DOORBELLS
    NC_DMA_WRITES, NC_DMA_READS, NC_ARRIVED

cdef enum NodeEvent:
    N_LOAD, N_STORE, N_EVICT, N_SNPS, N_SNPM, N_DATAS, N_DATAE, N_DATAF, N_DATAM, N_GRANT, N_PUTACK
    N_EVENTS = 11

cdef enum NodeState:
    S_I, S_S, S_E, S_F, S_O, S_M, S_IS, S_IM, S_SM, S_FM, S_OM, S_MI, S_II
    N_STATES = 13

cdef enum NodeAction:
    A_LOAD = 1 << 0
    A_STORE = 1 << 1
    A_GETS = 1 << 2
    A_GETM = 1 << 3
    A_UPG = 1 << 4
    A_PUTM = 1 << 5
    A_TAKE = 1 << 6
    A_ACK = 1 << 7
    A_DROP = 1 << 8
    A_RNONE = 1 << 9
    A_RSHARED = 1 << 10
    A_RCLEAN = 1 << 11
    A_RCLEANGONE = 1 << 12
    A_RDIRTY = 1 << 13
    A_RDIRTYGONE = 1 << 14
    A_ROWNED = 1 << 15
    A_CANCEL = 1 << 16

cdef enum HomeEvent:
    H_GETS, H_GETM, H_UPG, H_PUTM, H_PUTMSTALE, H_RECALL, H_RNONE, H_RSHARED, H_RCLEAN, H_RCLEANGONE, H_RDIRTY, H_RDIRTYGONE
    H_ROWNED, H_READYS, H_READYE, H_READYM, H_READYG, H_READYR, H_ACK
    H_EVENTS = 19

cdef enum HomeState:
    HS_FREE, HS_BUSY, HS_WAIT

cdef enum HomeAction:
    B_SNOOPR = 1 << 0
    B_SNOOPW = 1 << 1
    B_NOTE = 1 << 2
    B_SHARER = 1 << 3
    B_DATA = 1 << 4
    B_OWNER = 1 << 5
    B_WRITE = 1 << 6
    B_PUTACK = 1 << 7
    B_DATAS = 1 << 8
    B_DATAE = 1 << 9
    B_DATAF = 1 << 10
    B_DATAM = 1 << 11
    B_GRANT = 1 << 12
    B_ADDREQ = 1 << 13
    B_ONLYREQ = 1 << 14
    B_NOHOLDER = 1 << 15
    B_DELREQ = 1 << 16
    B_OWNREQ = 1 << 17
    B_FINISH = 1 << 18

cdef enum ThreadState:
    T_RUN, T_BLOCKED, T_IDLE, T_HALTED, T_REFILL, T_WAIT

cdef enum BlockKind:
    BK_NONE, BK_LOAD, BK_MSHR, BK_SBFULL, BK_DRAIN, BK_OP

cdef enum FaultCode:
    X_NONE, X_NODE_ROW, X_HOME_ROW, X_POOL, X_DELIVERIES, X_SWMR, X_MEMORY, X_RING, X_INTERNAL, X_NEST, X_IRET, X_DEVICE
