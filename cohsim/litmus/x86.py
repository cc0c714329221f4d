"""x86 instructions of litmus tests: X86 in Intel's operand order (destination first), X86_64 in AT&T's (destination
last), as herd has it.
"""

from __future__ import annotations

from functools import partial

from cohsim.litmus.assembly import Line, Operand, Rejected, ThreadSource, arity
from cohsim.litmus.test import SCRATCH, Instruction, Kind
from cohsim.uops import Alu, Fence

_LEGACY = ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")
_NAMES = {
    **{f"e{r}": f"E{r.upper()}" for r in _LEGACY},
    **{f"r{r}": f"E{r.upper()}" for r in _LEGACY},
    **{f"r{n}": f"R{n}" for n in range(8, 16)},
    **{f"r{n}d": f"R{n}" for n in range(8, 16)},
}
_FENCES = {"mfence": Fence.FULL, "lfence": Fence.LOAD, "sfence": Fence.STORE}
_TWO = {"add": Alu.ADD, "sub": Alu.SUB, "and": Alu.AND, "or": Alu.OR, "xor": Alu.XOR}
_BASES = ("mov", "xchg", "xadd", "cmpxchg", "inc", "dec", *_TWO)


def register(name: str) -> str | None:
    """One name for the widths of a register: rax and eax are EAX. None if it is no register."""
    return _NAMES.get(name.lower())


def assemble(line: Line, arch: str, thread: ThreadSource) -> list[Instruction]:
    """The primitive instructions of one cell. Raises Rejected."""
    if line.mnemonic in _FENCES:
        arity(line, 0)
        return [Instruction(Kind.FENCE, line.text, line.where, fence=_FENCES[line.mnemonic])]
    base, size = _base(line, arch)
    if base in ("inc", "dec"):
        (target,) = arity(line, 1)
        one = Operand("immediate", "", 1, line.where)
        return _compute(line, thread, Alu.ADD if base == "inc" else Alu.SUB, target, one, size)
    first, second = arity(line, 2)
    target, source = (first, second) if arch == "X86" else (second, first)
    if base == "mov":
        return _mov(line, thread, target, source, size)
    if base in _TWO:
        return _compute(line, thread, _TWO[base], target, source, size)
    if base == "xchg" and _place(target) is None:
        target, source = source, target  # operands of xchg are symmetric
    return _exchange(line, thread, base, target, source, size)


def _base(line: Line, arch: str) -> tuple[str, int]:
    m = line.mnemonic
    if m in _BASES:
        wide = arch == "X86_64" and any(o.name.lower().startswith("r") and register(o.name) for o in line.operands)
        return m, 8 if wide else 4
    if m[:-1] in _BASES and m[-1] in "lq":
        return m[:-1], 8 if m[-1] == "q" else 4
    raise Rejected(line.where, f"unknown x86 instruction {m!r}", f"known: {', '.join((*_BASES, *_FENCES))}")


def _place(operand: Operand) -> str | None:
    """The name inside a memory operand; None for a register or immediate."""
    if operand.form == "bracket" or (operand.form == "name" and register(operand.name) is None):
        return operand.name
    if operand.form == "displaced":
        if operand.value:
            raise Rejected(operand.where, f"{operand}: only displacement 0 is supported", "give each location its own name")
        return operand.name
    return None


def _location(operand: Operand, thread: ThreadSource, size: int) -> str:
    name = _place(operand)
    if name is None:
        raise Rejected(operand.where, f"{operand} is not in memory", "write a location such as [x]")
    base = register(name)
    return thread.location(thread.pointer(base, operand.where) if base else name, size, operand.where)


def _register(operand: Operand, thread: ThreadSource) -> str:
    name = register(operand.name) if operand.form in ("name", "percent") else None
    if name is None:
        raise Rejected(operand.where, f"{operand} is not a register", "write a register such as EAX")
    return thread.value(name, operand.where)


def _source(operand: Operand, thread: ThreadSource) -> tuple[str | None, int]:
    """Register (or None) and number whose sum is the operand's value."""
    if operand.form == "immediate":
        return None, operand.value
    return _register(operand, thread), 0


def _mov(line: Line, thread: ThreadSource, target: Operand, source: Operand, size: int) -> list[Instruction]:
    make = partial(Instruction, text=line.text, where=line.where, size_bytes=size)
    if _place(target) is not None:
        if _place(source) is not None:
            raise Rejected(line.where, "mov from memory to memory does not exist", "go through a register")
        b, imm = _source(source, thread)
        return [make(Kind.STORE, location=_location(target, thread, size), b=b, imm=imm)]
    dst = _register(target, thread)
    if _place(source) is not None:
        return [make(Kind.LOAD, dst=dst, location=_location(source, thread, size))]
    b, imm = _source(source, thread)
    return [make(Kind.ALU, dst=dst, b=b, imm=imm)]


def _compute(line: Line, thread: ThreadSource, fn: Alu, target: Operand, source: Operand, size: int) -> list[Instruction]:
    """add and its kin: on a register, on memory, or with a lock prefix on memory."""
    make = partial(Instruction, text=line.text, where=line.where, size_bytes=size)
    if _place(target) is None:
        if line.lock:
            raise Rejected(line.where, "a lock prefix needs a destination in memory", "leave it out")
        dst = _register(target, thread)
        if _place(source) is not None:
            load = make(Kind.LOAD, dst=SCRATCH, location=_location(source, thread, size))
            return [load, make(Kind.ALU, dst=dst, a=dst, b=SCRATCH, alu=fn)]
        b, imm = _source(source, thread)
        return [make(Kind.ALU, dst=dst, a=dst, b=b, imm=imm, alu=fn)]
    location = _location(target, thread, size)
    b, imm = _source(source, thread)
    if line.lock:
        return [make(Kind.RMW, location=location, b=b, imm=imm, alu=fn)]
    return [
        make(Kind.LOAD, dst=SCRATCH, location=location),
        make(Kind.ALU, dst=SCRATCH, a=SCRATCH, b=b, imm=imm, alu=fn),
        make(Kind.STORE, location=location, b=SCRATCH),
    ]


def _exchange(line: Line, thread: ThreadSource, base: str, target: Operand, source: Operand, size: int) -> list[Instruction]:
    """xchg (locked by itself), xadd and cmpxchg."""
    location, value = _location(target, thread, size), _register(source, thread)
    if base == "xchg":
        return [
            Instruction(Kind.RMW, line.text, line.where, dst=value, location=location, b=value, alu=Alu.XCHG, size_bytes=size)
        ]
    if base == "cmpxchg":
        if not line.lock:
            raise Rejected(line.where, "cmpxchg without a lock prefix is not supported", "write lock cmpxchg")
        old = thread.value("EAX", line.where)
        return [
            Instruction(Kind.RMW, line.text, line.where, dst=old, location=location, a=old, b=value, alu=Alu.CAS, size_bytes=size)
        ]
    if line.lock:
        return [Instruction(Kind.RMW, line.text, line.where, dst=value, location=location, b=value, alu=Alu.ADD, size_bytes=size)]
    return [
        Instruction(Kind.LOAD, line.text, line.where, dst=SCRATCH, location=location, size_bytes=size),
        Instruction(Kind.ALU, line.text, line.where, dst=value, a=value, b=SCRATCH, size_bytes=size),
        Instruction(Kind.STORE, line.text, line.where, location=location, b=value, size_bytes=size),
        Instruction(Kind.ALU, line.text, line.where, dst=value, a=SCRATCH, size_bytes=size),
    ]
