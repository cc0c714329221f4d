"""Values of machine files: numbers, units, ranges."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohsim.machine.units import (
    Dimension,
    Quantity,
    ValueFault,
    decimal,
    parse_quantity,
    parse_range,
    period_fs,
    split_source,
    time_fs,
)

EVERY_UNIT = [(dimension, unit) for dimension in Dimension for unit in dimension.units]


@pytest.mark.parametrize(
    ("text", "dimension", "base"),
    [
        ("3 cycles", Dimension.TIME, 3),
        ("1 cycle", Dimension.TIME, 1),
        ("14cycles", Dimension.TIME, 14),
        ("2.5 fabric cycles", Dimension.TIME, Fraction(5, 2)),
        ("8 core cycles", Dimension.TIME, 8),
        ("4  fabric   cycles", Dimension.TIME, 4),
        ("67.6 ns", Dimension.TIME, 67_600_000),
        ("32KiB", Dimension.SIZE, 32768),
        ("1.5 MiB", Dimension.SIZE, 1572864),
        ("64 B", Dimension.SIZE, 64),
        ("1666.667 MHz", Dimension.FREQUENCY, 1_666_667_000),
        ("2.667 GHz", Dimension.FREQUENCY, 2_667_000_000),
        ("14.933 GB/s", Dimension.BANDWIDTH, 14_933_000_000),
        ("8", Dimension.COUNT, 8),
        ("0.8", Dimension.RATIO, Fraction(4, 5)),
    ],
)
def test_value_in_base_units(text: str, dimension: Dimension, base: Fraction) -> None:
    assert parse_quantity(text, dimension).base == base


@pytest.mark.parametrize(
    ("text", "dimension", "what", "remedy"),
    [
        ("3", Dimension.TIME, "3 has no unit", "write it in cycles or fabric cycles or ns"),
        ("3 MHz", Dimension.TIME, "wrong unit 'MHz'", "cycles"),
        ("3 cycels", Dimension.TIME, "unknown unit 'cycels'", "did you mean 'cycles'?"),
        ("3 ms", Dimension.TIME, "unknown unit 'ms'", "cycles or fabric cycles or ns"),
        ("2 mhz", Dimension.FREQUENCY, "unknown unit 'mhz'", "did you mean 'MHz'?"),
        ("32 KB", Dimension.SIZE, "unknown unit 'KB'", "did you mean 'KiB'?"),
        ("2 GB", Dimension.SIZE, "unknown unit 'GB'", "B or KiB or MiB"),
        ("8 ways", Dimension.COUNT, "unknown unit 'ways'", "no unit"),
        ("8 B", Dimension.COUNT, "wrong unit 'B'", "no unit"),
        ("-8", Dimension.COUNT, "is negative", "a whole number such as 8"),
        ("1.5", Dimension.COUNT, "is not a whole number", "a whole number such as 8"),
        ("0.3 B", Dimension.SIZE, "is not a whole number of bytes", "32 KiB"),
        ("fast", Dimension.TIME, "'fast' is not a number", "3 cycles"),
        ("", Dimension.TIME, "is not a number", "3 cycles"),
        ("1e3 cycles", Dimension.TIME, "unknown unit 'e3 cycles'", "cycles"),
        ("9" * 40, Dimension.COUNT, "more than 18 digits", "round it"),
        ("٣ cycles", Dimension.TIME, "is not a number", "3 cycles"),
    ],
)
def test_wrong_value_says_what_and_what_to_do(text: str, dimension: Dimension, what: str, remedy: str) -> None:
    with pytest.raises(ValueFault) as caught:
        parse_quantity(text, dimension)
    assert what in caught.value.what
    assert remedy in caught.value.remedy


@given(st.sampled_from(EVERY_UNIT), st.integers(0, 10**9), st.integers(0, 6))
def test_printed_value_reads_back(unit: tuple[Dimension, str], digits: int, places: int) -> None:
    dimension, name = unit
    number = Fraction(digits) if dimension in (Dimension.COUNT, Dimension.SIZE) else Fraction(digits, 10**places)
    quantity = Quantity(number, name)
    assert parse_quantity(str(quantity), dimension) == quantity


@given(st.integers(-(10**12), 10**12), st.integers(0, 9))
def test_decimal_is_exact(digits: int, places: int) -> None:
    number = Fraction(digits, 10**places)
    assert Fraction(decimal(number)) == number


@given(st.text(max_size=60), st.sampled_from(Dimension))
def test_any_text_is_a_value_or_a_fault(text: str, dimension: Dimension) -> None:
    try:
        quantity = parse_quantity(text, dimension)
    except ValueFault as fault:
        assert "\n" not in fault.what
    else:
        assert quantity.unit in dimension.units and quantity.number >= 0


@given(st.text(max_size=60))
def test_any_text_is_a_range_or_a_fault(text: str) -> None:
    try:
        bounds = parse_range(text)
    except ValueFault as fault:
        assert "\n" not in fault.what
    else:
        assert bounds.low.number <= bounds.high.number


@given(st.integers(1, 10**6), st.integers(100, 10_000))
def test_cycles_are_multiples_of_their_period(cycles: int, mhz: int) -> None:
    period = period_fs(Quantity(Fraction(mhz), "MHz"))
    assert time_fs(Quantity(Fraction(cycles), "cycles"), period, 1) == cycles * period
    assert time_fs(Quantity(Fraction(cycles), "fabric cycles"), 1, period) == cycles * period
    assert abs(period * mhz / 1e9 - 1) < 1e-3  # design: error of a domain's period below 0.1 %


@pytest.mark.parametrize(
    ("text", "low", "high", "unit"),
    [
        ("50..110 cycles", 50, 110, "cycles"),
        ("0.5..2", Fraction(1, 2), 2, ""),
        ("2 .. 8 fabric cycles", 2, 8, "fabric cycles"),
        ("59.5..77 ns", Fraction(119, 2), 77, "ns"),
    ],
)
def test_range(text: str, low: Fraction, high: Fraction, unit: str) -> None:
    bounds = parse_range(text)
    assert (bounds.low.number, bounds.high.number, bounds.high.unit) == (low, high, unit)
    assert parse_range(str(bounds)) == bounds


@pytest.mark.parametrize("text", ["5..3 cycles", "3 cycles", "3..x", "3..5 furlongs", "..", "3..-5 ns"])
def test_wrong_range(text: str) -> None:
    with pytest.raises(ValueFault):
        parse_range(text)


@pytest.mark.parametrize(
    ("text", "body", "source"),
    [
        ("3 cycles [gcc]", "3 cycles", "gcc"),
        ("3 cycles[ gcc ]", "3 cycles", "gcc"),
        ("3 cycles", "3 cycles", None),
        ("3 cycles []", "3 cycles", ""),
    ],
)
def test_source_of_a_value(text: str, body: str, source: str | None) -> None:
    assert split_source(text) == (body, source)
