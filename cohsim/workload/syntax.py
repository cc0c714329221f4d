"""Syntax tree of the workload language. Names are as written; nothing is resolved here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Pos:
    """A place in a workload file, 1-based."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


# ---- expressions ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Num:
    value: int


@dataclass(frozen=True)
class Ref:
    """A name with optional field path: register, param, parameter, object or object field."""

    name: str


@dataclass(frozen=True)
class Deref:
    """``[expr]``: memory at the address in a register."""

    inner: Expr


@dataclass(frozen=True)
class Arrow:
    """``reg->STRUCT.FIELD``."""

    register: str
    path: str


@dataclass(frozen=True)
class AddrOf:
    """``addr OBJECT.FIELD``, ``addr OBJECT[reg]``, ``addr OBJECT[reg * SCALE]`` or ``addr reg->STRUCT.FIELD``."""

    name: str
    index: str | None
    scale: Int | SizeOf | None = None
    arrow: str | None = None


@dataclass(frozen=True)
class SizeOf:
    """``sizeof STRUCT`` (or OBJECT)."""

    name: str


Atom = Num | Ref | Deref | Arrow | AddrOf | SizeOf


@dataclass(frozen=True)
class Expr:
    """``first (op atom)*`` with an optional access size."""

    pos: Pos
    first: Atom
    rest: tuple[tuple[str, Atom], ...] = ()
    size: int | str | None = None


Int = int | str  # a literal, or the name of a param


@dataclass(frozen=True)
class Condition:
    left: Expr
    relation: str  # == != < <= > >= <u <=u >u >=u & (bit test)
    right: Expr
    negated: bool = False


# ---- statements -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    pos: Pos


@dataclass(frozen=True)
class Traffic:
    """``loads L stores S in RANGE`` of a work statement."""

    loads: Int
    stores: Int
    range: Expr


@dataclass(frozen=True)
class Work(Statement):
    instructions: Int
    traffic: tuple[Traffic, ...]


@dataclass(frozen=True)
class Load(Statement):
    dst: str | None
    address: Expr
    times: Int
    dependent: bool


@dataclass(frozen=True)
class Store(Statement):
    address: Expr
    value: Expr | None
    times: Int


@dataclass(frozen=True)
class Rmw(Statement):
    dst: str | None
    function: str
    address: Expr
    operands: tuple[Expr, ...]


@dataclass(frozen=True)
class LoadLinked(Statement):
    dst: str
    address: Expr


@dataclass(frozen=True)
class StoreConditional(Statement):
    dst: str
    address: Expr
    value: Expr


@dataclass(frozen=True)
class Assign(Statement):
    dst: str
    value: Expr


@dataclass(frozen=True)
class Invoke(Statement):
    """A primitive, or a function: ``inline`` attributes its body to the caller."""

    dst: str | None
    name: str
    args: tuple[Expr, ...]
    mode: str  # "plain", "call", "inline"


@dataclass(frozen=True)
class FenceStatement(Statement):
    kind: str


@dataclass(frozen=True)
class Pause(Statement):
    low: bool


@dataclass(frozen=True)
class If(Statement):
    condition: Condition
    goto: str | None
    hint: str  # "", "likely", "unlikely"
    body: tuple[Statement, ...] = ()
    orelse: tuple[Statement, ...] = ()
    chained: bool = False  # stands as `else if` in the orelse of another


@dataclass(frozen=True)
class While(Statement):
    condition: Condition
    spin: bool
    body: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Repeat(Statement):
    times: Int
    unrolled: bool
    body: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Label(Statement):
    name: str


@dataclass(frozen=True)
class Goto(Statement):
    name: str


@dataclass(frozen=True)
class Return(Statement):
    value: Expr | None


@dataclass(frozen=True)
class Halt(Statement):
    pass


@dataclass(frozen=True)
class Forever(Statement):
    body: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Leave(Statement):
    """``break`` and ``continue``."""

    again: bool


@dataclass(frozen=True)
class Wait(Statement):
    """Idle until an interrupt."""


@dataclass(frozen=True)
class Irq(Statement):
    """``irq_off`` and ``irq_on``."""

    on: bool


@dataclass(frozen=True)
class Prefetch(Statement):
    address: Expr


@dataclass(frozen=True)
class Count(Statement):
    name: str


@dataclass(frozen=True)
class Mmio(Statement):
    register: str  # NIC.REGISTER
    queue: Expr
    value: Expr


@dataclass(frozen=True)
class Ipi(Statement):
    name: str
    cpu: Expr


@dataclass(frozen=True)
class Assume(Statement):
    text: str


@dataclass(frozen=True)
class Test:
    """Compile-time condition: subject is "variant", "isa", "kernel" or "cpus"."""

    subject: str
    relation: str
    value: str


@dataclass(frozen=True)
class When(Statement):
    test: Test
    negated: bool
    body: tuple = ()
    orelse: tuple = ()


# ---- top level --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    pos: Pos
    name: str
    offset: Int
    size: Int
    overlaps: bool


@dataclass(frozen=True)
class Struct(Statement):
    name: str
    size: Int
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Init:
    field: str
    value: Int | None  # None with an address
    address: str | None = None
    plus_instance: bool = False


@dataclass(frozen=True)
class Object(Statement):
    name: str
    struct: str | None  # None: anonymous bytes
    size: Int | None
    scope: str
    options: dict[str, Int] = field(default_factory=dict)
    at: tuple[str, Int] | None = None
    init: tuple[Init, ...] = ()


@dataclass(frozen=True)
class Parameter:
    name: str
    initially: Int | None  # value of the word if nothing else sets it


@dataclass(frozen=True)
class Function(Statement):
    name: str
    parameters: tuple[Parameter, ...]
    replace: bool
    body: tuple[Statement, ...] = ()
    symbol: str = ""  # what profiles call it; "": its name


@dataclass(frozen=True)
class Path(Statement):
    name: str
    body: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Param(Statement):
    name: str
    value: Int


@dataclass(frozen=True)
class Kernel(Statement):
    version: str


@dataclass(frozen=True)
class Title(Statement):
    text: str


@dataclass(frozen=True)
class LayoutLine(Statement):
    option: str


@dataclass(frozen=True)
class Choice(Statement):
    name: str
    variants: tuple[str, ...]


@dataclass(frozen=True)
class Variant(Statement):
    name: str
    text: str
    body: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Include(Statement):
    file: str


@dataclass(frozen=True)
class NicLine(Statement):
    """One property of a NIC; ``key`` is what a variant replaces: "port", "rx ring", "irq tx", …"""

    key: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Nic(Statement):
    name: str
    body: tuple[Statement, ...] = ()


# ---- run block --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceLine(Statement):
    rate: str
    options: dict[str, tuple]  # name -> values as written


@dataclass(frozen=True)
class OnPacket(Statement):
    path: str


@dataclass(frozen=True)
class Loop(Statement):
    path: str


@dataclass(frozen=True)
class CpuRuns(Statement):
    first: Int
    last: Int | None  # None: to the last CPU
    path: str | None  # None: idle
    once: bool


@dataclass(frozen=True)
class CpuCount(Statement):
    """Numbers of CPUs the workload is meant for."""

    first: int
    last: int | None  # None: no upper limit


@dataclass(frozen=True)
class Times(Statement):
    warmup: str | None
    measure: str | None


@dataclass(frozen=True)
class TrafficLine(Statement):
    """Frames from outside into a NIC."""

    rate: str
    options: dict[str, tuple]
    nic: str


@dataclass(frozen=True)
class AcksLine(Statement):
    nic: str
    every: Int
    moderation: str
    delay: str
    frame: str


@dataclass(frozen=True)
class TimerLine(Statement):
    period: str
    path: str


@dataclass(frozen=True)
class InterruptLine(Statement):
    name: str
    path: str


@dataclass(frozen=True)
class OutputLine(Statement):
    nics: tuple[str, ...]


@dataclass(frozen=True)
class Run(Statement):
    body: tuple[Statement, ...] = ()
