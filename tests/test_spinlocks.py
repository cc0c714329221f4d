"""Do the lock kinds show on the Core i7 what they are known for? (docs/spinlocks.md has the whole table.)"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "analysis"))
from spinlocks import measure

SHORT_NS = 50_000.0


@pytest.mark.parametrize("kind", ["ticket", "mcs"])
def test_a_queueing_lock_is_fair_and_moves_the_protected_line_once_per_acquisition(kind: str) -> None:
    row = measure(kind, 4, 1, SHORT_NS)
    assert row.fairness > 0.97                      # arrival order; the window cuts the last round
    assert row.data_transfers == pytest.approx(1.0, abs=0.02)


def test_a_ttas_lock_is_faster_because_the_owner_comes_back_first_and_siblings_keep_it() -> None:
    ttas, ticket = measure("ttas", 4, 1, SHORT_NS), measure("ticket", 4, 1, SHORT_NS)
    assert ttas.acquisitions_per_us > 1.3 * ticket.acquisitions_per_us
    assert ttas.data_transfers < 0.6
    assert measure("ttas", 6, 1, SHORT_NS).fairness < 0.1


def test_mcs_touches_as_many_lines_whatever_the_number_of_waiters() -> None:
    few, many = measure("mcs", 3, 1, SHORT_NS), measure("mcs", 4, 1, SHORT_NS)
    assert few.lock_transfers == pytest.approx(many.lock_transfers, abs=0.1)


def test_alone_no_line_moves() -> None:
    for kind in ("ticket", "ttas", "mcs"):
        row = measure(kind, 1, 1, SHORT_NS)
        assert row.lock_transfers == row.data_transfers == 0 and row.fairness == 1
