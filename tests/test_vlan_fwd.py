"""workloads/vlan_fwd.trace: what its variants change follows from values in memory; nothing is lost, leaked or left locked."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from kernel_memory import ROOT, Memory, check_slabs, simulated
from test_softirq_qdisc import jhash

from cohsim.results.rundata import NIC_STATS
from cohsim.workload.load import load_workload

FILE = ROOT / "workloads" / "vlan_fwd.trace"
CPUS = 4
SALT, SALT2 = 0x5C0FE1D3, 0x1B2A9E37
ETH_P_IP = 8                                                     # 0x0800 in network order, read by a little-endian CPU


@cache
def run(*variants: str, cpus: int = CPUS, rate_pps: float = 1e6, until_ns: float = 1.8e6) -> Memory:
    return simulated(FILE.read_text(), cpus=cpus, variants=variants, until_ns=until_ns, rate_pps=rate_pps, file=str(FILE))


def queued(m: Memory, cpus: int = CPUS) -> list[int]:
    """Packets that each transmit queue of eth1 has taken."""
    return [m.get("eth1_qdisc", "bstats.packets", q) for q in range(cpus)]


def nic(m: Memory, number: int, column: str) -> int:
    return int(m.sim.arrays["nic_counters"].reshape(-1, len(NIC_STATS))[number, NIC_STATS.index(column)])


@pytest.mark.parametrize("ingress, egress, device", list(product((False, True), (False, True), ("single_queue", "multiqueue", "lltx"))))
def test_every_combination_compiles(ingress: bool, egress: bool, device: str) -> None:
    variants = (device, *(["ingress_vlan"] if ingress else []), *(["egress_vlan"] if egress else []))
    w = load_workload(str(FILE), isa="x86", cpus=8, variants=variants)
    assert {f.name for f in w.devices.nics} == {"eth0", "eth1"}  # type: ignore[union-attr]
    assert ("vlan_netdev_xmit_lock" in w.func_names) == egress
    assert ("vlan_hwaccel_do_receive" in w.func_names)           # the test of skb->vlan_tci decides, not the variant
    assert ("vlan_gro_receive" in w.func_names) == ingress


def test_without_vlan_each_queue_keeps_its_packets() -> None:
    taken = queued(run())
    assert min(taken) > 150 and max(taken) - min(taken) <= 1 + max(taken) // 10


def test_with_an_egress_vlan_one_queue_takes_all() -> None:
    m = run("egress_vlan")
    k = jhash(ETH_P_IP, SALT) * CPUS >> 32
    taken = queued(m)
    assert taken[k] > 600 and sum(taken) == taken[k]
    # Each packet went through the VLAN device's lock: at most one between its statistics and the queue's.
    assert m.get("vlan_txq", "tx_packets") - taken[k] - m.counted["qdisc_drop"] in (0, 1)
    # and needs two descriptors: the tag is in sk_buff.vlan_tci.
    sent = taken[k] - m.get("eth1_qdisc", "q.qlen", k)
    assert (2 * sent - m.get("eth1_tx_ring", "next_to_use", k)) % 1024 <= 2


def test_another_boot_another_queue() -> None:
    k = [jhash(ETH_P_IP, salt) * 8 >> 32 for salt in (SALT, SALT2)]
    assert k[0] != k[1]
    taken = queued(run("egress_vlan", "salt2"))
    assert sum(taken) == taken[jhash(ETH_P_IP, SALT2) * CPUS >> 32] > 600


def test_multiqueue_is_one_queue_off() -> None:
    # skb_tx_hash of the VLAN device gives i for receive queue i; queue_mapping i then means "receive queue i - 1" to the real device,
    # and 0 means that none is recorded.
    m = run("egress_vlan", "multiqueue")
    taken = queued(m)
    share = sum(taken) / CPUS
    expected = [share] * (CPUS - 1) + [0.0]
    expected[jhash(ETH_P_IP, SALT) * CPUS >> 32] += share
    assert sum(taken) > 600 and taken == pytest.approx(expected, rel=0.1)
    assert min(m.get("vlan_txq", "tx_packets", q) for q in range(CPUS)) > 150


def test_lltx_takes_no_lock_but_the_same_queue() -> None:
    m = run("egress_vlan", "lltx")
    taken = queued(m)
    assert sum(taken) == taken[jhash(ETH_P_IP, SALT) * CPUS >> 32] > 600
    assert m.get("vlan_txq", "_xmit_lock") == 0 and m.get("vlan_txq", "xmit_lock_owner") == 0xFFFFFFFF
    assert m.get("vlan_txq", "trans_start") == 0 and m.get("vlan_txq", "tx_packets") == 0


def test_a_reported_hash_spreads_flows() -> None:
    m = run("egress_vlan", "lltx", "rxhash", "flows64")
    assert min(queued(m)) > 0
    expected = [0] * CPUS
    for flow in range(64):
        expected[jhash(ETH_P_IP ^ flow, SALT) * CPUS >> 32] += 1
    total = sum(queued(m))
    assert queued(m) == pytest.approx([total * n / 64 for n in expected], rel=0.1, abs=3)


def test_ingress_statistics_are_plain_counters() -> None:
    m = run("ingress_vlan")
    received = nic(m, 0, "rx_frames")
    assert 0.5 * received < m.get("eth0_vlan", "stats.rx_packets") <= received       # updates can be lost, not invented
    assert run().get("eth0_adapter", "hw_csum_rx_good") <= nic(run(), 0, "rx_frames")


@pytest.mark.parametrize("variants", [(), ("egress_vlan",), ("ingress_vlan", "egress_vlan", "completion_elsewhere"), ("egress_vlan", "multiqueue"),
                                      ("egress_vlan", "lltx", "completion_cpu0")])
def test_at_rest_everything_is_back(variants: tuple[str, ...]) -> None:
    # A packet every 500 us, the last 400 us ago: all CPUs are idle.
    m = run(*variants, rate_pps=2e3, until_ns=5.4e6)
    packets = nic(m, 0, "rx_frames")
    assert packets >= 8 and nic(m, 1, "tx_frames") == packets and sum(queued(m)) == packets
    assert m.counted["route_cache_miss"] == m.counted["unexpected_interrupt"] == m.counted["dropped"] == 0
    skbs, data = [], []
    for q in range(CPUS):
        ring = {f: m.get("eth0_rx_ring", f, q) for f in ("next_to_use", "next_to_clean")}
        assert (ring["next_to_use"] - ring["next_to_clean"]) % 1024 == 1023          # every buffer is posted again
        posted = [m.word(m.at("eth0_rx_info", q) + 40 * i) for i in range(1024)]
        skbs += [x for x in posted if x]
        assert len([x for x in posted if x]) == 1023
        for i, skb in enumerate(posted):
            if skb:
                data.append(m.word(skb + 208))
                assert m.word(m.at("eth0_rx_desc", q) + 16 * i) == data[-1] + 34      # NET_SKB_PAD and NET_IP_ALIGN
        assert all(m.word(m.at("eth1_tx_info", q) + 32 * i) == 0 for i in range(1024))
        assert m.get("eth1_tx_ring", "next_to_use", q) == m.get("eth1_tx_ring", "next_to_clean", q)
        assert m.get("eth1_qdisc", "q.qlen", q) == 0 and m.get("eth1_qdisc", "state", q) == 0
        assert m.get("current", "preempt_count", q) == 0 and m.get("irq_stat", "__softirq_pending", q) == 0
    assert len(set(skbs)) == len(skbs) == len(set(data)) == CPUS * 1023
    names = ("cache", "cpu", "node", "pages", "page_map", "page_pool")
    check_slabs(m, *(f"skb_{n}" for n in names), cpus=CPUS, held=skbs)
    check_slabs(m, *(f"data_{n}" for n in names), cpus=CPUS, held=data)
    routes = [m.word(m.at("rt_cache") + 320 * f + 192, 4) for f in range(64)]
    assert routes == [1] * 64                                                        # every reference was given back
    uses = [m.word(m.at("rt_cache") + 320 * f + 196, 4) for f in range(64)]
    assert sum(uses) == packets and sum(uses[:8]) == packets


def test_overload_fills_the_ring_and_the_queue() -> None:
    m = run("egress_vlan", cpus=8, rate_pps=5e6, until_ns=2.5e6)
    k = jhash(ETH_P_IP, SALT) * 8 >> 32
    assert m.counted["tx_queue_stopped"] >= 1 and m.counted["tx_busy"] == 0          # the driver stops the queue before it overflows
    assert m.counted["tx_queue_woken"] <= m.counted["tx_queue_stopped"]
    assert nic(m, 0, "missed") == 0
    in_ring = (m.get("eth1_tx_ring", "next_to_use", k) - m.get("eth1_tx_ring", "next_to_clean", k)) % 1024
    assert in_ring <= 1024 - 20 + 2
    assert m.get("eth1_qdisc", "band1.qlen", k) <= 1000
