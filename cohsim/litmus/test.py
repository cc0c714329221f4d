"""A litmus test, independent of the text it came from. Values are integers of the access size, shown as signed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from cohsim.uops import Alu, Cond, Fence

SUCCESS = "sc0"
"""Pseudo-register: 1 if the latest store-conditional succeeded."""

COMPARED = "cr0"
"""Pseudo-register: sign of the latest comparison's difference."""

SCRATCH = "scratch"
"""Pseudo-register of instructions that load, compute and store."""


class Kind(Enum):
    """What an instruction does, in the terms of :class:`cohsim.uops.Op`."""

    LOAD = "load"  # dst <- memory
    STORE = "store"  # memory <- imm + b
    RMW = "rmw"  # dst <- old; memory <- alu(old, imm + b), indivisible
    LL = "ll"  # dst <- memory, and reserve
    SC = "sc"  # memory <- imm + b if reserved; SUCCESS <- 1 or 0
    FENCE = "fence"
    ALU = "alu"  # dst <- alu(a, imm + b)
    COMPARE = "compare"  # COMPARED <- sign of a - (imm + b)
    BRANCH = "branch"  # if cond(a, imm): go to target


@dataclass(frozen=True)
class Instruction:
    """One primitive instruction; None where a register is unused (it reads as 0)."""

    kind: Kind
    text: str
    where: str
    dst: str | None = None
    location: str | None = None
    index: str | None = None  # register added to the address: an address dependency; its value must be 0
    a: str | None = None
    b: str | None = None
    imm: int = 0
    alu: Alu = Alu.ADD
    cond: Cond = Cond.ALWAYS
    fence: Fence = Fence.FULL
    target: int = -1  # index in the thread; its length is the end
    size_bytes: int = 4

    @property
    def reads(self) -> bool:
        return self.kind in (Kind.LOAD, Kind.LL, Kind.RMW)

    @property
    def writes(self) -> bool:
        return self.kind in (Kind.STORE, Kind.SC, Kind.RMW)


@dataclass(frozen=True, order=True)
class Atom:
    """Something a final condition can look at: a register of a thread, or a location (``thread`` is -1)."""

    thread: int
    name: str

    def __str__(self) -> str:
        return self.name if self.thread < 0 else f"{self.thread}:{self.name}"


Outcome = tuple[int, ...]
"""Final values of a test's atoms, in their order."""

Proposition = Callable[[Mapping[Atom, int]], bool]


@dataclass(frozen=True)
class Condition:
    """``exists``, ``~exists`` or ``forall`` and what must hold of a final state."""

    quantifier: str
    text: str
    holds: Proposition
    where: str


FORBIDDEN, ALLOWED = "forbidden", "allowed"


@dataclass(frozen=True)
class LitmusTest:
    """A parsed test. ``expectation`` speaks of the final states ``singled_out``: those the condition names
    (``exists``, ``~exists``) or
    excludes (``forall``)."""

    name: str
    arch: str
    path: str
    title: str
    threads: tuple[tuple[Instruction, ...], ...]
    memory: dict[str, int]  # every location and its initial value
    registers: tuple[dict[str, int], ...]  # initial values that are not 0
    condition: Condition
    expectation: str
    atoms: tuple[Atom, ...]
    sizes: dict[str, int] = field(default_factory=dict)  # bytes of each location

    @property
    def isa(self) -> str:
        """As in a machine file."""
        return "power" if self.arch == "PPC" else "x86"

    def singled_out(self, outcome: Outcome) -> bool:
        """Whether the expectation speaks of this outcome."""
        holds = self.condition.holds(dict(zip(self.atoms, outcome, strict=True)))
        return holds != (self.condition.quantifier == "forall")

    def describe(self, outcome: Outcome) -> str:
        """``0:r1=1 x=2``."""
        return " ".join(f"{atom}={value}" for atom, value in zip(self.atoms, outcome, strict=True))

    def outcome(self, registers: list[Mapping[str, int]], memory: Mapping[str, int]) -> Outcome:
        """The atoms' values in a final state."""
        return tuple(memory[a.name] if a.thread < 0 else registers[a.thread].get(a.name, 0) for a in self.atoms)


def signed(value: int, size_bytes: int = 4) -> int:
    """The signed integer in the low ``size_bytes`` of ``value``."""
    bits = 8 * size_bytes
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def apply_alu(fn: Alu, x: int, v: int, size_bytes: int) -> int:
    """Result of a two-operand function, as a signed integer. Raises ValueError for CAS, which needs its expected value."""
    results: dict[Alu, Callable[[], int]] = {
        Alu.ADD: lambda: x + v,
        Alu.SUB: lambda: x - v,
        Alu.AND: lambda: x & v,
        Alu.OR: lambda: x | v,
        Alu.XOR: lambda: x ^ v,
        Alu.XCHG: lambda: v,
    }
    if fn not in results:
        raise ValueError(f"{fn.name} is not evaluated here")
    return signed(results[fn](), size_bytes)


def rmw_result(instruction: Instruction, old: int, registers: Mapping[str, int]) -> int:
    """What a read-modify-write leaves in memory (CAS: the old value, written again, when the comparison fails)."""
    v = operand(instruction, registers)
    if instruction.alu is Alu.CAS:
        expected = registers.get(instruction.a or "", 0)
        return v if signed(old, instruction.size_bytes) == signed(expected, instruction.size_bytes) else old
    return apply_alu(instruction.alu, old, v, instruction.size_bytes)


def operand(instruction: Instruction, registers: Mapping[str, int]) -> int:
    """``imm + b``."""
    return signed(instruction.imm + (registers.get(instruction.b, 0) if instruction.b else 0), instruction.size_bytes)


def branch_taken(instruction: Instruction, registers: Mapping[str, int]) -> bool:
    """Whether a branch goes to its target."""
    x = registers.get(instruction.a or "", 0)
    v = instruction.imm
    return {Cond.ALWAYS: True, Cond.EQ: x == v, Cond.NE: x != v, Cond.LT: x < v, Cond.GE: x >= v}[instruction.cond]


def compare(instruction: Instruction, registers: Mapping[str, int]) -> int:
    """Sign of ``a - (imm + b)``: -1, 0 or 1."""
    x, v = registers.get(instruction.a or "", 0), operand(instruction, registers)
    return (x > v) - (x < v)
