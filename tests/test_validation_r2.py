"""R2: IPv4 forwarding with VLAN devices on a Core i7 (netdev, 2010-02-08, "VLAN egress performance") against the published figures.

CPU use without VLAN devices at 5 Mpacket/s (70 %) is what the machine file was calibrated against, the rest is predicted. Windows are short:
`analysis/vlan_forwarding.py` has the long ones, `docs/vlan_fwd.md` the whole table with its misses.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from cohsim.experiment import prepare
from cohsim.results.result import Result
from cohsim.results.summary import summarize

pytestmark = pytest.mark.slow

QUEUE = 1
"""Transmit queue that skb_tx_hash gives every IPv4 packet with the file's salt and 8 queues (test_vlan_fwd.py computes it)."""
LOCK_LINE = ("vlan_txq", 64)


@cache
def run(*variants: str, warmup_ms: float, measure_ms: float, pps: float | None = None) -> tuple[Result, dict[str, Any]]:
    result = prepare("corei7", "vlan_fwd", cpus=8, variants=variants, warmup_ns=warmup_ms * 1e6, measure_ns=measure_ms * 1e6, load_pps=pps).run()
    return result, summarize(result)


def without() -> dict[str, Any]:
    return run(warmup_ms=4, measure_ms=1.5)[1]


def loss_free() -> dict[str, Any]:
    return run("egress_vlan", warmup_ms=6, measure_ms=3, pps=1.25e6)[1]


def overload() -> tuple[Result, dict[str, Any]]:
    return run("egress_vlan", warmup_ms=14, measure_ms=2)  # at 4 ms all eight still spin: their receive rings are not yet dry


def lines(summary: dict[str, Any]) -> list[tuple[str, int]]:
    return [(line["object"], line["offset"]) for line in summary["lines"]]


def test_without_vlan_the_whole_offered_load_is_forwarded() -> None:
    s = without()
    assert s["dropped"] == 0 and s["paused"] == 0
    assert s["packet_rate_pps"] == pytest.approx(5e6, rel=0.01)


def test_without_vlan_cpu_use_is_what_the_machine_was_calibrated_for() -> None:
    s = without()
    assert 100 * s["cpu_utilization"] == pytest.approx(70, abs=5)
    assert max(s["cpu_utilization_per_cpu"]) - min(s["cpu_utilization_per_cpu"]) < 0.1, "queues carry the same load"


def test_below_saturation_the_egress_vlan_costs_the_published_cpu() -> None:
    s = loss_free()
    assert s["dropped"] == 0 and s["paused"] == 0
    assert s["packet_rate_pps"] == pytest.approx(1.25e6, rel=0.01)
    assert 100 * s["cpu_utilization"] == pytest.approx(26, abs=6)


def test_below_saturation_the_completing_cpu_is_the_busiest() -> None:
    use = loss_free()["cpu_utilization_per_cpu"]
    assert use.index(max(use)) == QUEUE
    assert use[QUEUE] > 1.5 * sorted(use)[-2]


def test_overloaded_every_packet_leaves_by_one_queue_and_one_cpu_sends_it() -> None:
    result, _ = overload()
    sent = result.array("/functions/calls")[:, result.names("/functions/name").index("ixgbe_xmit_frame")]
    assert sent[QUEUE] == sent.sum() > 0, "the CPU that completes sends every packet, too"
    raised = {name: int(n) for name, n in zip(result.names("/interrupts/name"), result.array("/interrupts/raised"), strict=True)}
    completions = {name: n for name, n in raised.items() if name.startswith("eth1-tx-")}
    assert len(completions) == 8 and completions[f"eth1-tx-{QUEUE}"] == sum(completions.values()) > 0


def test_overloaded_the_port_is_held_back_and_the_completing_cpu_saturated() -> None:
    _, s = overload()
    assert s["nics"][0]["missed"] == 0 and s["paused"] > 0.4
    use = s["cpu_utilization_per_cpu"]
    assert use.index(max(use)) == QUEUE and use[QUEUE] > 0.95
    assert sorted(use)[-2] < 0.4
    assert s["packet_rate_pps"] / 1e6 == pytest.approx(1.4, rel=0.12), "misses the aim of 10 % by a little: docs/vlan_fwd.md"


def test_overloaded_the_hottest_line_is_the_vlan_transmit_locks() -> None:
    _, s = overload()
    assert lines(s)[0] == LOCK_LINE
    hottest, second = s["lines"][:2]
    assert hottest["stall_share"] > 3 * second["stall_share"] and hottest["transfers"] > 2 * second["transfers"]
    share = {row["name"]: row["share"] for row in s["functions"]}
    assert max(share, key=lambda name: share[name]) == "vlan_netdev_xmit_lock"


def test_lltx_moves_the_fight_to_the_queue_behind_the_lock() -> None:
    # One queue as before, but its root lock is what CPUs wait for now.
    _, s = run("egress_vlan", "lltx", warmup_ms=3, measure_ms=1)
    assert LOCK_LINE not in lines(s) and "vlan_netdev_xmit_lock" not in {row["name"] for row in s["functions"]}
    assert lines(s)[0] == ("eth1_qdisc[*]", 128)


def test_multiqueue_forwards_the_whole_load_again() -> None:
    _, s = run("egress_vlan", "multiqueue", warmup_ms=3, measure_ms=1)
    assert s["dropped"] == 0 and s["paused"] == 0
    assert s["packet_rate_pps"] == pytest.approx(5e6, rel=0.02)
    assert "vlan_txq[*]" not in {line["object"] for line in s["lines"][:3]}
