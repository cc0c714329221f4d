"""Micro-operations: the only program text the native core understands.

A workload is lowered to one flat array of :data:`UOP` records; a hardware thread executes it from an entry index.
The layout here and ``struct Uop`` in ``core/types.pxd`` must agree; ``_core`` checks the item size when it is imported.

Address of a memory operation::

    address = base + stride * context[slot] + (registers[areg] if areg >= 0 else 0)

Value operand of STORE, RMW, SC, ALU, BR, MMIO and IPI::

    value = imm + (registers[b] if b >= 0 else 0)
"""
from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import cast

import numpy as np

REGISTERS = 32


class Op(IntEnum):
    """Operation codes."""

    WORK = 1      # imm instructions that touch no shared memory
    LOAD = 2      # dst <- memory
    STORE = 3     # memory <- value
    RMW = 4       # dst <- old; memory <- alu(old, value), indivisible (x86 lock prefix)
    LL = 5        # dst <- memory, and take the reservation of the line (lwarx, ldxr)
    SC = 6        # memory <- value if the reservation still stands; dst <- 1 or 0 (stwcx., stxr)
    FENCE = 7     # imm is a Fence
    ALU = 8       # dst <- alu(registers[a], value)
    BR = 9        # if cond(registers[a], value): continue at target
    PAUSE = 10    # spin-wait hint
    ENTER = 11    # a function is entered: counts a call of func, takes no time
    PACKET = 12   # wait for the next packet (or iteration) and set the context; the thread is idle until it comes
    DONE = 13     # the path of the current packet (or iteration) is complete
    HALT = 14     # the thread ends
    WAIT = 15     # idle until an interrupt is pending for this CPU
    IRET = 16     # an interrupt path ends: back to the interrupted program
    IRQ = 17      # imm 0: mask the interrupts of this CPU, 1: unmask them
    MMIO = 18     # write a device register: fn = NIC * 16 + Register, queue = base + (registers[areg] if areg >= 0 else 0); value operand
    IPI = 19      # raise vector base + CPU; the target CPU is the value operand
    COUNT = 20    # counter number base: one more on this CPU, takes no time
    PREFETCH = 21 # like LOAD without a result, and never stalls the window


class Alu(IntEnum):
    """Two-operand functions of RMW and ALU (field ``fn``)."""

    ADD = 0       # x + v
    SUB = 1       # x - v
    AND = 2
    OR = 3
    XOR = 4
    XCHG = 5      # v
    CAS = 6       # RMW only: v if old == registers[a] else old
    SHL = 7
    SHR = 8       # logical
    MUL = 9       # low 64 bits


class Cond(IntEnum):
    """Conditions of BR (field ``fn``); operands are 64-bit, loads zero-extend."""

    ALWAYS = 0
    EQ = 1
    NE = 2
    LT = 3        # signed
    GE = 4        # signed
    LTU = 5
    GEU = 6
    BITS = 7      # (x & v) != 0
    NOBITS = 8    # (x & v) == 0


class Fence(IntEnum):
    """Kinds of FENCE."""

    FULL = 0      # mfence, sync (hwsync): earlier loads done, earlier stores performed
    LIGHT = 1     # lwsync: everything but store -> later load
    INSTR = 2     # isync: earlier instructions complete, refetch
    LOAD = 3      # lfence
    STORE = 4     # sfence, eieio


class Register(IntEnum):
    """Device registers that MMIO writes (low 4 bits of ``fn``)."""

    RX_TAIL = 0   # descriptors before this index belong to the NIC
    TX_TAIL = 1
    RX_ENABLE = 2 # the queue's interrupt may be raised
    TX_ENABLE = 3
    RX_MODERATION = 4   # least time between two interrupts of the queue's vector, ns
    TX_MODERATION = 5


class Flag(IntFlag):
    """Properties of one micro-op."""

    DEP = 1           # address depends on the value of the latest load of this thread: starts when that load is complete
    SPIN = 2          # part of a wait loop: its time is accounted as spin
    PRED_TAKEN = 4    # BR is predicted taken (default: predicted not taken); the other outcome costs a mispredict
    HINT_LOW = 8      # PAUSE lowers the SMT priority (Power `or 1,1,1`)


class Slot(IntEnum):
    """Context values an address can be scaled by."""

    NONE = 0
    CPU = 1       # index 0..N-1 of the CPU in this run
    PACKET = 2    # buffer number of the current packet (pool index)
    FLOW = 3      # flow number of the current packet
    QUEUE = 4     # receive queue of the current packet; in an interrupt path the vector's queue; else the number of the CPU
    ITERATION = 5 # iterations completed by this CPU


UOP = np.dtype([
    ("op", "u1"), ("fn", "u1"), ("flags", "u1"), ("size", "u1"),
    ("slot", "u1"), ("dst", "i1"), ("a", "i1"), ("b", "i1"),
    ("areg", "i1"), ("pad0", "u1"), ("pad1", "u2"), ("func", "i4"),
    ("prim", "i4"),       # atomic primitive this belongs to (index into prim_names), -1 outside
    ("field", "i4"),      # index into CompiledWorkload.fields, -1 if none
    ("target", "i4"), ("line_no", "i4"),   # branch target; line in the workload file
    ("imm", "i8"), ("base", "i8"), ("stride", "i8"),
])
"""One micro-op, 56 bytes. Registers are -1 where unused."""


def uop(op: Op, **fields: int) -> np.void:
    """One UOP record with unused registers, prim and field set to -1."""
    record = np.zeros((), UOP)
    for name in ("dst", "a", "b", "areg", "prim", "field"):
        record[name] = -1
    record["op"] = op
    for name, value in fields.items():
        record[name] = value
    return cast(np.void, record[()])
