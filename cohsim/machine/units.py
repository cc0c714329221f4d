"""Values of a machine file: ``VALUE UNIT [source]``, kept exact as fractions until they become integers.

Units: B, KiB, MiB; MHz, GHz; cycles (of the core clock), fabric cycles, ns; GB/s (10^9 bytes per second); none for counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from cohsim.datafiles import nearest

FS_PER_NS = 1_000_000
FS_PER_S = 10**15
MAX_DIGITS = 18  # keeps any value times any unit far from the end of int64 arithmetic and of a user's patience


class Dimension(Enum):
    """What a number measures."""

    COUNT = "count"
    RATIO = "ratio"  # has no unit either, but need not be whole
    SIZE = "size"
    FREQUENCY = "frequency"
    TIME = "time"
    BANDWIDTH = "bandwidth"

    @property
    def units(self) -> tuple[str, ...]:
        """Units the file may use, the usual one first; ("",) where there is none."""
        return _UNITS[self]


_UNITS = {
    Dimension.COUNT: ("",),
    Dimension.RATIO: ("",),
    Dimension.SIZE: ("B", "KiB", "MiB"),
    Dimension.FREQUENCY: ("MHz", "GHz"),
    Dimension.TIME: ("cycles", "fabric cycles", "ns"),
    Dimension.BANDWIDTH: ("GB/s",),
}
FACTORS: dict[str, int] = {
    "": 1,
    "B": 1,
    "KiB": 1024,
    "MiB": 1024**2,
    "MHz": 10**6,
    "GHz": 10**9,
    "cycles": 1,
    "fabric cycles": 1,
    "ns": FS_PER_NS,
    "GB/s": 10**9,
}
SPELLINGS = {"cycle": "cycles", "core cycle": "cycles", "core cycles": "cycles", "fabric cycle": "fabric cycles"}
UNITS = tuple(unit for unit in FACTORS if unit)


class ValueFault(ValueError):
    """A value that cannot be read: ``what`` is wrong and what to do (``remedy``)."""

    def __init__(self, what: str, remedy: str = ""):
        super().__init__(what)
        self.what = what
        self.remedy = remedy


@dataclass(frozen=True)
class Quantity:
    """A number with its unit as written: ``Quantity(Fraction(3), "cycles")``."""

    number: Fraction
    unit: str

    def __str__(self) -> str:
        unit = self.unit.removesuffix("s") if self.number == 1 and self.unit.endswith("cycles") else self.unit
        return f"{decimal(self.number)} {unit}".rstrip()

    @property
    def base(self) -> Fraction:
        """In B, Hz, B/s or fs; cycles stay cycles (a clock converts them: :func:`time_fs`)."""
        return self.number * FACTORS[self.unit]

    @property
    def count(self) -> int:
        """As a whole number; sizes in bytes."""
        return int(self.base)


@dataclass(frozen=True)
class Range:
    """Plausible bounds of a calibrated or assumed value, both included: ``50..110 cycles``."""

    low: Quantity
    high: Quantity

    def __str__(self) -> str:
        return f"{decimal(self.low.number)}..{self.high}"


def decimal(number: Fraction) -> str:
    """Shortest exact decimal text; values come from decimals, so it always ends."""
    if number.denominator == 1:
        return str(number.numerator)
    digits = 0
    while (number * 10**digits).denominator != 1:
        digits += 1
    whole, part = divmod(abs(number.numerator) * 10**digits // number.denominator, 10**digits)
    return f"{'-' if number < 0 else ''}{whole}.{part:0{digits}d}"


_TAG = re.compile(r"^(?P<body>.*?)\s*(?:\[\s*(?P<source>[^\[\]]*?)\s*\])?$", re.DOTALL)
_NUMBER = re.compile(r"^(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*(?P<unit>.*)$", re.ASCII | re.DOTALL)
_RANGE = re.compile(r"^(?P<low>[+-]?[\d.]*?\d)\s*\.\.\s*(?P<high>.+)$", re.ASCII | re.DOTALL)


def split_source(text: str) -> tuple[str, str | None]:
    """``"3 cycles [gcc]"`` to ``("3 cycles", "gcc")``; the source is None where there is no bracket."""
    match = _TAG.match(text.strip())
    assert match is not None  # the pattern matches any text
    return match["body"], match["source"]


def parse_quantity(text: str, dimension: Dimension) -> Quantity:
    """Read ``VALUE UNIT`` (no source). Raises ValueFault for a missing or wrong unit, a negative or fractional count."""
    match = _NUMBER.match(text.strip())
    if match is None:
        raise ValueFault(f"{shorten(text)} is not a number", f"write {example(dimension)}")
    if sum(c.isdigit() for c in match["number"]) > MAX_DIGITS:
        raise ValueFault(f"{shorten(text)} has more than {MAX_DIGITS} digits", "round it")
    number = Fraction(match["number"])
    unit = check_unit(" ".join(match["unit"].split()), dimension, match["number"])
    if number < 0:
        raise ValueFault(f"{shorten(text)} is negative", f"write {example(dimension)}")
    quantity = Quantity(number, unit)
    if dimension in (Dimension.COUNT, Dimension.SIZE) and quantity.base.denominator != 1:
        whole = "number of bytes" if dimension is Dimension.SIZE else "number"
        raise ValueFault(f"{shorten(text)} is not a whole {whole}", f"write {example(dimension)}")
    return quantity


def check_unit(unit: str, dimension: Dimension, number: str) -> str:
    """The canonical spelling of ``unit``; ValueFault when it is missing, unknown, or measures something else."""
    unit = SPELLINGS.get(unit, unit)
    allowed = dimension.units
    if unit in allowed:
        return unit
    wanted = " or ".join(allowed) if allowed[0] else "no unit"
    if not unit:
        raise ValueFault(f"{number} has no unit", f"write it in {wanted}")
    close = nearest(unit, (known for known in allowed if len(known) > 1), cutoff=0.75)
    if close:
        raise ValueFault(f"unknown unit {unit!r}", f"did you mean {close!r}?")
    if unit in UNITS:
        raise ValueFault(f"wrong unit {unit!r}", f"write {'it in ' if allowed[0] else 'it with '}{wanted}")
    raise ValueFault(f"unknown unit {shorten(unit)}", f"write {'it in ' if allowed[0] else 'it with '}{wanted}")


def parse_range(text: str) -> Range:
    """Read ``LOW..HIGH UNIT``; the unit tells the dimension."""
    match = _RANGE.match(text.strip())
    if match is None:
        raise ValueFault(f"{shorten(text)} is not a range", "write LOW..HIGH UNIT, for example 50..110 cycles")
    number = _NUMBER.match(match["high"])
    unit = SPELLINGS.get(number["unit"], number["unit"]) if number else ""
    dimension = next((d for d in Dimension if d is not Dimension.COUNT and unit in d.units), None)
    if dimension is None:
        close = nearest(unit, UNITS, cutoff=0.75)
        remedy = f"did you mean {close!r}?" if close else f"units are {', '.join(UNITS)}"
        raise ValueFault(f"unknown unit {shorten(unit)}", remedy)
    high = parse_quantity(match["high"], dimension)
    low = parse_quantity(f"{match['low']} {high.unit}", dimension)
    if low.number > high.number:
        raise ValueFault(f"range {shorten(text)} is empty", "write the lower bound first")
    return Range(low, high)


def time_fs(quantity: Quantity, core_period_fs: int, fabric_period_fs: int) -> int:
    """A time in femtoseconds, rounded to the nearest; cycles are exact multiples of their clock's period."""
    period = {"cycles": core_period_fs, "fabric cycles": fabric_period_fs, "ns": FS_PER_NS}[quantity.unit]
    return round(quantity.number * period)


def period_fs(frequency: Quantity) -> int:
    """Period of a clock, rounded to the nearest femtosecond (error 2e-6 at 4 GHz)."""
    return round(FS_PER_S / frequency.base)


def example(dimension: Dimension) -> str:
    """A well-formed value of that dimension, for messages."""
    return {
        Dimension.COUNT: "a whole number such as 8",
        Dimension.RATIO: "a number such as 1.5",
        Dimension.SIZE: "a size such as 32 KiB",
        Dimension.FREQUENCY: "a frequency such as 1.667 GHz",
        Dimension.TIME: "a time such as 3 cycles, 4 fabric cycles or 67.6 ns",
        Dimension.BANDWIDTH: "a bandwidth such as 14.9 GB/s",
    }[dimension]


def shorten(text: str, limit: int = 40) -> str:
    """Quoted and cut, so that a message stays one line whatever the file holds."""
    return repr(text if len(text) <= limit else text[:limit] + "...")
