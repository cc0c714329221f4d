"""Power instructions of litmus tests (herd's PPC)."""

from __future__ import annotations

import re

from cohsim.litmus.assembly import Line, Operand, Rejected, ThreadSource, arity
from cohsim.litmus.test import COMPARED, SUCCESS, Instruction, Kind
from cohsim.uops import Alu, Cond, Fence

_FENCES = {"sync": Fence.FULL, "hwsync": Fence.FULL, "lwsync": Fence.LIGHT, "isync": Fence.INSTR, "eieio": Fence.STORE}
_DISPLACED = {"lwz": (Kind.LOAD, 4), "stw": (Kind.STORE, 4), "ld": (Kind.LOAD, 8), "std": (Kind.STORE, 8)}
_INDEXED = {
    "lwzx": (Kind.LOAD, 4),
    "stwx": (Kind.STORE, 4),
    "lwarx": (Kind.LL, 4),
    "stwcx.": (Kind.SC, 4),
    "ldx": (Kind.LOAD, 8),
    "stdx": (Kind.STORE, 8),
    "ldarx": (Kind.LL, 8),
    "stdcx.": (Kind.SC, 8),
}
_REGISTER = {"add": Alu.ADD, "xor": Alu.XOR, "and": Alu.AND, "or": Alu.OR}
_IMMEDIATE = {"addi": Alu.ADD, "xori": Alu.XOR, "andi": Alu.AND, "ori": Alu.OR}
_BRANCHES = {"beq": Cond.EQ, "bne": Cond.NE, "blt": Cond.LT, "bge": Cond.GE}
_OTHERS = ("li", "mr", "cmpw", "cmpwi", "b")


def register(name: str) -> str | None:
    """``r0`` to ``r31`` in lower case, or None."""
    return name.lower() if re.fullmatch(r"[rR](\d|[12]\d|3[01])", name) else None


def assemble(line: Line, arch: str, thread: ThreadSource) -> list[Instruction]:
    """The primitive instructions of one cell. Raises Rejected."""
    m = line.mnemonic
    if line.lock:
        raise Rejected(line.where, "Power has no lock prefix", "use lwarx and stwcx.")
    if m in _FENCES:
        arity(line, 0)
        return [Instruction(Kind.FENCE, line.text, line.where, fence=_FENCES[m])]
    if m in _DISPLACED or m in _INDEXED:
        return _memory(line, thread)
    if m in _REGISTER or m in _IMMEDIATE or m in ("li", "mr"):
        return [_alu(line, thread)]
    if m in ("cmpw", "cmpwi"):
        return [_compare(line, thread)]
    if m == "b" or m in _BRANCHES:
        return [_branch(line, thread)]
    known = (*_DISPLACED, *_INDEXED, *_FENCES, *_REGISTER, *_IMMEDIATE, *_BRANCHES, *_OTHERS)
    raise Rejected(line.where, f"unknown Power instruction {m!r}", f"known: {', '.join(known)}")


def _register(operand: Operand, thread: ThreadSource) -> str:
    return thread.value(_name(operand), operand.where)


def _name(operand: Operand) -> str:
    name = register(operand.name) if operand.form in ("name", "percent") else None
    if name is None:
        raise Rejected(operand.where, f"{operand} is not a register", "write r0 to r31")
    return name


def _immediate(operand: Operand) -> int:
    if operand.form != "immediate" or not -0x8000 <= operand.value < 0x8000:
        raise Rejected(operand.where, f"{operand} is not a 16-bit number", "write -32768 to 32767")
    return operand.value


def _memory(line: Line, thread: ThreadSource) -> list[Instruction]:
    index: str | None = None
    if line.mnemonic in _DISPLACED:
        kind, size = _DISPLACED[line.mnemonic]
        value, place = arity(line, 2)
        base = register(place.name) if place.form == "displaced" else None
        if base is None:
            raise Rejected(place.where, f"{place} is not a displacement and a register", "write 0(r2)")
        if place.value:
            raise Rejected(place.where, f"{place}: only displacement 0 is supported", "give each location its own name")
        location = thread.pointer(base, place.where)
    else:
        kind, size = _INDEXED[line.mnemonic]
        value, first, second = arity(line, 3)
        location, index = _indexed(first, second, thread)
    name = _register(value, thread)
    location = thread.location(location, size, line.where)
    if kind is Kind.SC:
        thread.flags_from = SUCCESS
    if kind in (Kind.STORE, Kind.SC):
        return [
            Instruction(
                kind,
                line.text,
                line.where,
                dst=SUCCESS if kind is Kind.SC else None,
                location=location,
                index=index,
                b=name,
                size_bytes=size,
            )
        ]
    return [Instruction(kind, line.text, line.where, dst=name, location=location, index=index, size_bytes=size)]


def _indexed(first: Operand, second: Operand, thread: ThreadSource) -> tuple[str, str | None]:
    """``r5,r2``: the location of the one that holds an address; the other one is added. Base r0 is the constant 0."""
    second_name = _name(second)
    if first.form == "immediate" and first.value == 0 or _name(first) == "r0":
        return thread.pointer(second_name, second.where), None
    first_name = _name(first)
    if first_name in thread.pointers:
        return thread.pointers[first_name], thread.value(second_name, second.where)
    return thread.pointer(second_name, second.where), thread.value(first_name, first.where)


def _alu(line: Line, thread: ThreadSource) -> Instruction:
    m = line.mnemonic
    if m in ("li", "mr"):
        target, source = arity(line, 2)
        value: dict[str, int | str] = {"imm": _immediate(source)} if m == "li" else {"a": _register(source, thread)}
        return Instruction(Kind.ALU, line.text, line.where, dst=_register(target, thread), **value)  # type: ignore[arg-type]
    target, first, second = arity(line, 3)
    a = _register(first, thread)
    if m in _IMMEDIATE:
        if m == "addi" and a == "r0":
            raise Rejected(first.where, "addi reads r0 as the constant 0", "use li, or another register")
        return Instruction(
            Kind.ALU, line.text, line.where, dst=_register(target, thread), a=a, imm=_immediate(second), alu=_IMMEDIATE[m]
        )
    return Instruction(
        Kind.ALU, line.text, line.where, dst=_register(target, thread), a=a, b=_register(second, thread), alu=_REGISTER[m]
    )


def _compare(line: Line, thread: ThreadSource) -> Instruction:
    first, second = arity(line, 2)
    thread.flags_from = COMPARED
    a = _register(first, thread)
    if line.mnemonic == "cmpwi":
        return Instruction(Kind.COMPARE, line.text, line.where, dst=COMPARED, a=a, imm=_immediate(second))
    return Instruction(Kind.COMPARE, line.text, line.where, dst=COMPARED, a=a, b=_register(second, thread))


def _branch(line: Line, thread: ThreadSource) -> Instruction:
    (target,) = arity(line, 1)
    if target.form != "name":
        raise Rejected(target.where, f"{target} is not a label", "write a label of this thread")
    thread.gotos.append((len(thread.code), target.name, target.where))
    if line.mnemonic == "b":
        return Instruction(Kind.BRANCH, line.text, line.where)
    cond = _BRANCHES[line.mnemonic]
    if thread.flags_from is None:
        raise Rejected(
            line.where, f"no comparison or stwcx. before {line.mnemonic} in its block", "put cmpw, cmpwi or stwcx. before it"
        )
    if thread.flags_from == SUCCESS:
        if cond not in (Cond.EQ, Cond.NE):
            raise Rejected(line.where, f"{line.mnemonic} after stwcx.", "stwcx. sets EQ only: use beq or bne")
        cond = Cond.NE if cond is Cond.EQ else Cond.EQ  # EQ of the condition register is success, which is 1 here
    return Instruction(Kind.BRANCH, line.text, line.where, a=thread.flags_from, cond=cond)
