"""What the bytes of a traced instruction tell: fence kind, name of the atomic, registers. Nothing is guessed from other bytes.

Sources: Power ISA 3.1 book II (sync L field, isync, eieio, larx/stcx.) and book I (D, DS, X forms); Intel SDM volume 2 (opcode
map).
"""
from __future__ import annotations

from dataclasses import dataclass

from cohsim.traces.records import CLASS_ATOMIC, CLASS_BARRIER, CLASS_FENCE_MASK, CLASS_FENCE_SHIFT, CLASS_RESERVATION
from cohsim.uops import Fence

ISA_OF_ARCH = {"x86": "x86", "ppc": "power", "ppcbe": "power"}
"""Instruction set of the header's ``arch``; ppc is little-endian, ppcbe big-endian."""

RESERVATION_NAMES = {1: "lbarx/stbcx.", 2: "lharx/sthcx.", 4: "lwarx/stwcx.", 8: "ldarx/stdcx.", 16: "lqarx/stqcx."}

_LOCK_TWO_BYTE = {0xB0: "cmpxchg", 0xB1: "cmpxchg", 0xC0: "xadd", 0xC1: "xadd", 0xAB: "bts", 0xB3: "btr", 0xBB: "btc"}
_LOCK_BIT = {5: "bts", 6: "btr", 7: "btc"}
_ARITHMETIC = ("add", "or", "adc", "sbb", "and", "sub", "xor", "")     # cmp cannot be locked


@dataclass(frozen=True)
class Registers:
    """Registers of a memory instruction: those its address is made from, and the one a load fills (-1: none or unknown)."""

    address: frozenset[int]
    loaded: int


NO_REGISTERS = Registers(frozenset(), -1)


def fence_kind(arch: str, cls: int, code: bytes) -> Fence | None:
    """Fence kind of a barrier instruction: from its bytes, else from bits 4-6 of its class; None if neither tells."""
    stated = (cls >> CLASS_FENCE_SHIFT) & CLASS_FENCE_MASK
    if not code:
        return Fence(stated - 1) if 0 < stated <= len(Fence) else None
    return _x86_fence(code) if arch == "x86" else _power_fence(power_word(arch, code))


def class_with_fence(arch: str, cls: int, code: bytes) -> int:
    """The class byte with the fence kind in bits 4-6, so that the instruction bytes can be left out."""
    kind = fence_kind(arch, cls, code) if cls & CLASS_BARRIER else None
    return cls if kind is None else (cls & ~(CLASS_FENCE_MASK << CLASS_FENCE_SHIFT)) | (int(kind) + 1) << CLASS_FENCE_SHIFT


def power_word(arch: str, code: bytes) -> int:
    """A Power instruction as a number; 0 (an illegal instruction) if it is not four bytes."""
    return int.from_bytes(code, "big" if arch == "ppcbe" else "little") if len(code) == 4 else 0


def _power_fence(word: int) -> Fence | None:
    extended = (word >> 26, (word >> 1) & 0x3FF)
    if extended == (31, 598):      # sync: L = 0 hwsync, 1 lwsync, 2 ptesync (at least as strong as hwsync)
        return Fence.LIGHT if (word >> 21) & 3 == 1 else Fence.FULL
    return {(31, 854): Fence.STORE, (19, 150): Fence.INSTR}.get(extended)      # eieio (mbar on e500 family), isync


def _x86_fence(code: bytes) -> Fence | None:
    body = code.lstrip(b"\x66\x67\xf2\xf3\x2e\x3e")
    if len(body) < 3 or body[:2] != b"\x0f\xae":
        return None
    return {5: Fence.LOAD, 6: Fence.FULL, 7: Fence.STORE}.get((body[2] >> 3) & 7)


def primitive_name(arch: str, cls: int, code: bytes, size_bytes: int) -> str:
    """Name of the atomic primitive of an instruction, "" if it is none. Without bytes: by size on Power, ``lock`` on x86."""
    if ISA_OF_ARCH.get(arch) == "power":
        return RESERVATION_NAMES.get(size_bytes, "larx/stcx.") if cls & CLASS_RESERVATION else ""
    if not cls & CLASS_ATOMIC:
        return ""
    return _x86_atomic(code) if code else "lock"


def _x86_atomic(code: bytes) -> str:
    at = 0
    while at < len(code) and (code[at] in b"\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65" or code[at] & 0xF0 == 0x40):
        at += 1
    body = code[at:] + b"\xff\xff\xff"                       # so that a cut-off instruction reads as unknown
    opcode, reg = body[0], (body[1] >> 3) & 7
    if opcode in (0x86, 0x87):
        return "xchg"
    name = ""
    if opcode == 0x0F:
        second, reg = body[1], (body[2] >> 3) & 7
        name = _LOCK_TWO_BYTE.get(second, "")
        if second == 0xBA:
            name = _LOCK_BIT.get(reg, "")
        elif second == 0xC7 and reg == 1:
            name = "cmpxchg16b" if any(b & 0xF8 == 0x48 for b in code[:at]) else "cmpxchg8b"
    elif opcode in (0xFE, 0xFF):
        name = {0: "inc", 1: "dec"}.get(reg, "")
    elif opcode in (0xF6, 0xF7):
        name = {2: "not", 3: "neg"}.get(reg, "")
    elif opcode in (0x80, 0x81, 0x83):
        name = _ARITHMETIC[reg]
    elif opcode < 0x40 and opcode & 7 < 2:
        name = _ARITHMETIC[opcode >> 3]
    return f"lock {name}" if name else "lock"


def power_registers(word: int) -> Registers:
    """Registers of a Power fixed-point load or store (D, DS and X forms); RA = 0 means no register."""
    opcode, rt, ra, rb = word >> 26, (word >> 21) & 31, (word >> 16) & 31, (word >> 11) & 31
    base = frozenset({ra} if ra else ())
    if opcode in (32, 33, 34, 35, 40, 41, 42, 43, 58):       # lwz lbz lhz lha and with update; ld, ldu, lwa
        return Registers(base, rt)
    if opcode in (36, 37, 38, 39, 44, 45, 62):               # stw stb sth, std
        return Registers(base, -1)
    if opcode == 31:
        extended = (word >> 1) & 0x3FF
        if extended in _X_LOADS:
            return Registers(base | {rb}, rt)
        if extended in _X_STORES:
            return Registers(base | {rb}, -1)
    return NO_REGISTERS


_X_LOADS = frozenset({20, 21, 23, 52, 53, 55, 84, 87, 116, 119, 279, 311, 341, 343, 373, 375, 532, 534, 790})
"""lwarx ldx lwzx lbarx ldux lwzux ldarx lbzx lharx lbzux lhzx lhzux lwax lhax lwaux lhaux ldbrx lwbrx lhbrx"""

_X_STORES = frozenset({149, 150, 151, 181, 183, 214, 215, 247, 407, 439, 660, 662, 694, 726, 918})
"""stdx stwcx. stwx stdux stwux stdcx. stbx stbux sthx sthux stdbrx stwbrx stbcx. sthcx. sthbrx"""


_X86_PREFIXES = frozenset(b"\x66\x67\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65")
_X86_LOADS = frozenset({0x63, 0x8A, 0x8B} | {row | 2 | w for row in range(0, 0x38, 8) for w in (0, 1)})
"""movsxd, mov, and add or adc sbb and sub xor with a register destination"""

_X86_WITHOUT_RESULT = frozenset({0x38, 0x39, 0x3A, 0x3B, 0x84, 0x85, 0x88, 0x89, 0x80, 0x81, 0x83, 0xC6, 0xC7, 0xF6, 0xF7, 0xFE,
                                 0xFF}
                                | {row | w for row in range(0, 0x38, 8) for w in (0, 1)})
"""cmp, test, stores, immediate groups, and arithmetic with a memory destination: no register is loaded"""

_X86_LOADS_0F = frozenset({0xB6, 0xB7, 0xBE, 0xBF, 0xAF, *range(0x40, 0x50)})
"""movzx, movsx, imul, cmovcc"""

_X86_WITHOUT_RESULT_0F = frozenset({0xA3, 0xAB, 0xB3, 0xBB, 0xB0, 0xB1, 0xBA, 0xC0, 0xC1})
"""bt bts btr btc cmpxchg xadd"""


def x86_registers(code: bytes) -> Registers:
    """Registers of a 64-bit x86 instruction with a ModRM memory operand; registers 0-15 are rax rcx rdx rbx rsp rbp rsi rdi
    r8..r15.

    Stack operations, string operations, vector and unknown instructions give :data:`NO_REGISTERS`.
    """
    at = rex = 0
    while at < len(code) and code[at] in _X86_PREFIXES:
        at += 1
    if at < len(code) and code[at] & 0xF0 == 0x40:
        rex = code[at]
        at += 1
    two_byte = code[at:at + 1] == b"\x0f"
    body = code[at + two_byte:]
    if len(body) < 2:
        return NO_REGISTERS
    opcode, modrm = body[0], body[1]
    loads, others = (_X86_LOADS_0F, _X86_WITHOUT_RESULT_0F) if two_byte else (_X86_LOADS, _X86_WITHOUT_RESULT)
    mode, reg, rm = modrm >> 6, (modrm >> 3 & 7) | (rex << 1 & 8), modrm & 7
    if opcode not in loads | others or mode == 3 or (rm == 4 and len(body) < 3):
        return NO_REGISTERS
    high_byte = not two_byte and not opcode & 1 and not rex and reg >= 4       # ah ch dh bh
    loaded = reg if opcode in loads and not high_byte else -1
    if rm != 4:
        return Registers(frozenset() if mode == 0 and rm == 5 else frozenset({rm | (rex << 3 & 8)}), loaded)
    base, index = body[2] & 7, (body[2] >> 3 & 7) | (rex << 2 & 8)
    registers = set() if mode == 0 and base == 5 else {base | (rex << 3 & 8)}
    if index != 4:
        registers.add(index)
    return Registers(frozenset(registers), loaded)


def registers(arch: str, code: bytes) -> Registers:
    """Registers of a memory instruction; :data:`NO_REGISTERS` without bytes."""
    return x86_registers(code) if arch == "x86" else power_registers(power_word(arch, code))
