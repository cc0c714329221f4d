"""What the instruction sets share: operands, the registers of a thread that hold addresses, faults with a place."""

from __future__ import annotations

from dataclasses import dataclass, field

from cohsim.errors import Problem
from cohsim.litmus.test import Instruction


class Rejected(Exception):
    """One fault in a test; the parser collects them all into one WorkloadError."""

    def __init__(self, where: str, what: str, remedy: str = ""):
        super().__init__(what)
        self.problem = Problem(where, what, remedy)


@dataclass(frozen=True)
class Operand:
    """As written: ``immediate`` ($1), ``percent`` (%eax), ``name`` (EAX, x, r1), ``bracket`` ([x], (%rdi)),
    ``displaced`` (0(r2)).
    """

    form: str
    name: str
    value: int
    where: str

    def __str__(self) -> str:
        return {
            "immediate": str(self.value),
            "percent": f"%{self.name}",
            "name": self.name,
            "bracket": f"[{self.name}]",
            "displaced": f"{self.value}({self.name})",
        }[self.form]


@dataclass(frozen=True)
class Line:
    """One cell of the program table."""

    labels: tuple[str, ...]
    mnemonic: str  # lower case, "" for an empty cell
    lock: bool
    operands: tuple[Operand, ...]
    text: str
    where: str


@dataclass
class ThreadSource:
    """What assembling a thread needs to know and finds out."""

    pointers: dict[str, str]  # register -> the location it holds the address of, from the init block
    used: set[str] = field(default_factory=set)  # registers with values
    sizes: dict[str, int] = field(default_factory=dict)  # location -> bytes
    labels: dict[str, int] = field(default_factory=dict)
    gotos: list[tuple[int, str, str]] = field(default_factory=list)  # instruction index, label, where
    flags_from: str | None = None  # pseudo-register the next conditional branch looks at
    code: list[Instruction] = field(default_factory=list)

    def value(self, register: str, where: str) -> str:
        """A register that holds a plain value."""
        if register in self.pointers:
            raise Rejected(
                where,
                f"{register} holds the address of {self.pointers[register]} and is used as a value",
                "use one register for the address and another for values",
            )
        self.used.add(register)
        return register

    def location(self, name: str, size_bytes: int, where: str) -> str:
        """A location accessed with this size."""
        known = self.sizes.setdefault(name, size_bytes)
        if known != size_bytes:
            raise Rejected(where, f"{name} is accessed with {known} and {size_bytes} bytes", "use one size for each location")
        return name

    def pointer(self, register: str, where: str) -> str:
        """The location a register points to."""
        if register not in self.pointers:
            raise Rejected(where, f"{register} holds no address", "give it one in the init block, such as 0:" + register + "=x")
        return self.pointers[register]


def arity(line: Line, count: int) -> tuple[Operand, ...]:
    """The operands, if there are as many as the mnemonic takes."""
    if len(line.operands) != count:
        raise Rejected(line.where, f"{line.mnemonic} takes {count} operand{'s' if count != 1 else ''}, not {len(line.operands)}")
    return line.operands
