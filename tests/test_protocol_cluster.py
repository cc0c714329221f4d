"""Clusters with write-through L1s and LL/SC: what the L2 must do beyond the tables."""
from __future__ import annotations

import pytest

from cohsim.protocols import PROTOCOLS, tables
from cohsim.protocols.cluster import check_cluster


@pytest.mark.parametrize("name", PROTOCOLS)
def test_some_store_conditional_always_succeeds(name: str) -> None:
    result = check_cluster(*tables(name), "broadcast", contention=True)
    assert result.problem == "" and result.states > 5000


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize(("clusters", "cores"), [(1, 3), (2, 1)])
def test_small_clusters_hold(name: str, clusters: int, cores: int) -> None:
    """All operations and evictions; two clusters of two cores take half a minute: ``cohsim protocol check --cluster``."""
    result = check_cluster(*tables(name), "broadcast", clusters=clusters, cores=cores)
    assert result.problem == "" and result.states > 300


@pytest.mark.parametrize(("fault", "problem"), [
    ("l1-store", "an L1 holds data older"),
    ("l1-snoop", "an L1 holds a copy"),
    ("reservation-store", "an SC succeeds although another store came"),
    ("reservation-snoop", "reservation on a line the L2 does not hold"),
    ("reservation-evict", "reservation on a line the L2 does not hold"),
])
def test_a_forgotten_duty_is_noticed(fault: str, problem: str) -> None:
    result = check_cluster(*tables("mesif"), "broadcast", faults=frozenset({fault}))
    assert problem in result.problem and len(result.trace) > 3


def test_reservations_that_a_mere_ll_takes_away_livelock() -> None:
    result = check_cluster(*tables("msi"), "broadcast", contention=True, faults=frozenset({"reservation-ll"}))
    assert result.problem.startswith("livelock")
