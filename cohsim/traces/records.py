"""What a recorded trace becomes for the core: one fixed-size record per operation, in program order per vCPU."""
from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np

RECORD = np.dtype([
    ("kind", "u1"),       # cohsim.uops.Op: LOAD, STORE, RMW, LL, SC or FENCE
    ("size", "u1"),       # bytes, 0 for FENCE
    ("flags", "u2"),      # RecordFlag
    ("uop", "i4"),        # index into CompiledWorkload.uops: the instruction (and its function, primitive, fence kind)
    ("address", "i8"),    # guest physical address, 0 for FENCE
    ("gap", "i4"),        # instructions retired since the previous record of this vCPU, this record's own included
    ("back", "i4"),       # SC: its LL is this many records earlier; 0 otherwise
])
"""One record, 24 bytes. ``gap`` is 1 when the previous instruction made the previous record, and 0 for the second access of one
instruction (x86 ``add %eax,(%rbx)`` is a LOAD and then a STORE). The sum of ``gap`` is the number of instructions."""


class RecordFlag(IntFlag):
    """Properties of one record; bit 0 has the meaning of ``cohsim.uops.Flag.DEP``."""

    DEP = 1           # address depends on the value of the vCPU's latest load (only where instruction bytes tell)
    ATOMIC = 2        # part of an atomic instruction or LL/SC sequence
    AFTER_DROP = 4    # interrupt context was recorded between the previous record and this one, and is left out
    PACKET = 8        # first record of a call of the packet function (ip6_forward): marks one forwarded packet


class Kind(IntEnum):
    """Record kinds as stored in MTC1 (OP bits 0-2)."""

    LOAD = 0
    STORE = 1
    RMW = 2
    LL = 3
    SC = 4            # successful ones only; a failed store-conditional leaves no record
    BARRIER = 5
    EVENT = 6         # vCPU idle, resume
    IRQ_RETURN = 7    # iret, rfid, rfi: return from interrupt


KINDS_WITH_ADDRESS = 5    # kinds below this one access memory

RAW = np.dtype([
    ("kind", "u1"), ("size", "u1"), ("flags", "u2"), ("gap", "u4"), ("pc", "i4"), ("va", "u8"), ("pa", "u8"),
])
"""One stored record, nothing left out: ``kind`` is a Kind, ``size`` in bytes (EVENT: its number), ``flags`` the OP bits from 6 up
(OP_*), ``pc`` an index into the PC table, ``va`` and ``pa`` 0 where there is no address. 28 bytes."""

# bits of the stored OP word
OP_KIND = 0x0007
OP_SIZE_SHIFT = 3
OP_INTERRUPT = 1 << 6
OP_NEW_PAGE = 1 << 7
OP_MMIO = 1 << 8
OP_HARDWARE = 1 << 9      # made by the CPU itself while it delivers an interrupt
OP_ATOMIC = 1 << 10
OP_EVENT_SHIFT = 11
OP_DEPENDENT = 1 << 13    # cohsim extension: RecordFlag.DEP where instruction bytes are left out; other readers ignore it

# bits of a PC's class
CLASS_ATOMIC = 1
CLASS_RESERVATION = 2
CLASS_BARRIER = 4
CLASS_IRQ_RETURN = 8
CLASS_FENCE_SHIFT = 4     # cohsim extension: bits 4-6 hold Fence + 1 of a barrier, 0 = not stated. Other readers ignore them.
CLASS_FENCE_MASK = 0x7

PAGE_SHIFT = 12           # the X column counts 4 KiB pages on every architecture
