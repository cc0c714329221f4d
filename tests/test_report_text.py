"""The text report: what is said, and that it stays a table."""

from __future__ import annotations

import pytest
import synthetic

from cohsim.report.table import count, plain, shorten, side_by_side, table
from cohsim.report.text import CATEGORY_MEANING, render
from cohsim.results.rundata import CATEGORIES
from cohsim.results.summary import summarize


@pytest.fixture
def summary():
    return summarize(synthetic.result())


def test_profiles_stand_side_by_side(summary):
    text = render(summary)
    row = next(line for line in text.splitlines() if "dst_release" in line)
    assert row.split() == ["93.75%", "1500", "2000", "dst_release", "62.50%", "1000", "2000", "atomic_inc"]
    assert "   share" in render(summary, width=40)  # too narrow: one below the other
    assert not any("dst_release" in line and "atomic_inc" in line for line in render(summary, width=40).splitlines())


def test_time_is_sorted_and_explained(summary):
    lines = render(summary).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("busy time in"))
    assert lines[start + 2].split()[:2] == ["remote_dirty", "43.75%"] and "modified line from another node" in lines[start + 2]
    assert set(CATEGORY_MEANING) == set(CATEGORIES) - {"idle"}


def test_unusual_things_are_said(summary):
    assert "note:" not in render(summary)
    text = render(
        summary
        | {
            "stop": "interrupted",
            "dropped": 500,
            "received": 1500,
            "line_overflow": 12,
            "iterations": 0,
            "ns_per_iteration_per_cpu": None,
        }
    )
    notes = [line for line in text.splitlines() if line.startswith("note: ")]
    assert len(notes) == 4
    assert "ended early (interrupted)" in notes[0] and "500 of 2,000 packets" in notes[1] and "12 line events" in notes[2]
    assert "no iteration" in notes[3] and "no iteration completed" in text


def test_width_and_top(summary):
    summary["lines"][0]["fields"] = [f"a_rather_long_field_name_{i}" for i in range(20)]
    summary["functions"] = [{"name": f"f{'x' * 60}{i}", "share": 0.05, "self_cycles": None, "calls": 0} for i in range(20)]
    text = render(summary, top=3)
    assert max(map(len, text.splitlines())) <= 100
    assert "85.00%  in 17 more" in text and "…" in text


def test_iterations_without_packets():
    text = render(summarize(synthetic.result(packets=False)))
    assert "2.000 Miterations/s" in text and "Gbit/s" not in text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0"), (0.125, "0.125"), (999, "999"), (1300, "1300"), (9999.7, "10000"), (12_345, "12.3 k"),
     (999_999, "1000 k"), (2_345_678, "2.35 M"), (45e9, "45.0 G")],
)  # fmt: skip
def test_count(number, text):
    assert count(number) == text


def test_numbers():
    assert count(3_850_000, "packet/s") == "3.850 Mpacket/s"
    assert count(1234.5, "packet/s") == "1.234 kpacket/s"
    assert count(12, "packet/s") == "12 packet/s"
    assert plain(1234567.8, 1) == "1,234,567.8"
    assert shorten("abcdef", 4) == "abc…"


def test_table_alignment():
    assert table(["a", "b"], [["1", "x"], ["22", "yy"]], "><") == [" a  b", "--  --", " 1  x", "22  yy"]
    assert table(["a"], [], "<") == ["a", "-"]
    assert side_by_side(["ab", "c"], ["d"], 10) == ["ab   d", "c"]
