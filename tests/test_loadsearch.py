"""Does the search find the rate at which loss begins, and what counts as loss?"""

from __future__ import annotations

import pytest

from cohsim.errors import InputError, SimulationError
from cohsim.experiment import offered_pps, prepare
from cohsim.loadsearch import RESOLUTION, judge, max_no_loss


def system(capacity: float):
    """A summary of a system that forwards up to ``capacity`` and drops the rest."""
    return lambda rate: {"packet_rate_pps": min(rate, capacity), "dropped": int(max(0.0, rate - capacity)), "tx_dropped": 0, "cpu_utilization": 0.5}


@pytest.mark.parametrize("capacity", [1.4e6, 0.31e6, 4.99e6])
def test_finds_where_loss_begins(capacity: float) -> None:
    found = max_no_loss(lambda rate: rate, system(capacity), 5e6)
    assert found.best_pps <= capacity < found.best_pps / (1 - RESOLUTION) + RESOLUTION * 5e6
    assert found.best == found.best_pps
    assert [t.lossless for t in found.trials] == [t.offered_pps <= capacity for t in found.trials]


def test_stops_at_once_where_nothing_is_lost() -> None:
    found = max_no_loss(lambda rate: rate, system(6e6), 5e6)
    assert found.best_pps == 5e6 and len(found.trials) == 1


def test_says_so_where_every_rate_loses() -> None:
    with pytest.raises(SimulationError, match="lost at every rate"):
        max_no_loss(lambda rate: rate, system(0.0), 5e6)


@pytest.mark.parametrize(("change", "lossless"), [({}, True), ({"dropped": 1}, False), ({"paused": 1e-6}, False), ({"tx_dropped": 1}, False),
                                                  ({"packet_rate_pps": 0.99e6}, False), ({"packet_rate_pps": 0.996e6}, True)])
def test_what_counts_as_loss(change: dict, lossless: bool) -> None:
    summary = {"packet_rate_pps": 1e6, "dropped": 0, "tx_dropped": 0, "paused": 0.0, "cpu_utilization": 1.0}
    assert judge(1e6, summary | change).lossless is lossless


def test_offered_load_replaces_what_the_workload_states() -> None:
    stated = prepare("t4240", "ipv6_fwd", cpus=2)
    assert offered_pps(stated.workload) == pytest.approx(10e9 / (8 * 98))
    assert offered_pps(prepare("t4240", "ipv6_fwd", cpus=2, load_pps=1e6).workload) == 1e6
    with pytest.raises(InputError, match="has no packet source"):
        prepare("t4240", "micro/atomic_inc", cpus=2, load_pps=1e6)
    with pytest.raises(InputError, match="above 0"):
        prepare("t4240", "ipv6_fwd", cpus=2, load_pps=0.0)


def test_a_light_load_loses_nothing_and_leaves_time_idle() -> None:
    from cohsim.results.summary import summarize

    summary = summarize(prepare("t4240", "ipv6_fwd", cpus=2, load_pps=2e5, warmup_ns=2e4, measure_ns=2e5).run())
    assert summary["dropped"] == 0 and summary["packet_rate_pps"] == pytest.approx(2e5, rel=0.06)
    assert summary["cpu_utilization"] < 0.5
