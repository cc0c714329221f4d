"""workloads/vlan_tso.trace: the link limits all four runs, counts for each super-packet are those of its arithmetic, nothing leaks or is lost."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest
from kernel_memory import ROOT, Memory, simulated
from tree_workloads import differences

from cohsim.experiment import prepare
from cohsim.results.rundata import NIC_STATS
from cohsim.results.summary import summarize
from cohsim.simulate import simulate
from cohsim.workload.load import load_workload

FILE = ROOT / "workloads" / "vlan_tso.trace"
RUNS = list(product(("test1", "test2"), (False, True)))
MSS, SEGMENTS, HEADERS = 1448, 45, 14 + 8 + 20 + 32
WIRE = HEADERS + MSS + 24                                       # preamble, gap, checksum
SUPER = MSS * SEGMENTS
SKB_LEN = 128                                                   # netdev_3_19.trace


def variants(test: str, tso: bool) -> tuple[str, ...]:
    return (test, "tso") if tso else (test,)


@cache
def summary(test: str, tso: bool) -> dict[str, Any]:
    """12 ms: what the socket buffer holds has gone through once; then 22 super-packets, more than a filling of the buffer."""
    return summarize(prepare("corei7", str(FILE), cpus=2, variants=variants(test, tso), warmup_ns=12e6, measure_ns=12e6).run())


@cache
def memory(test: str, tso: bool, lookahead: bool = True) -> Memory:
    return simulated(FILE.read_text(), cpus=2, variants=variants(test, tso), until_ns=10e6, file=str(FILE), lookahead=lookahead)


def each(test: str, tso: bool, counter: str) -> float:
    """A counter for each super-packet that was sent."""
    s = summary(test, tso)
    return s["counters"][counter] / (s["iterations"] / SEGMENTS)


@pytest.mark.parametrize("test, tso", RUNS)
def test_every_variant_compiles(test: str, tso: bool) -> None:
    w = load_workload(str(FILE), isa="x86", cpus=4, variants=variants(test, tso))
    assert ("skb_gso_segment" in w.func_names) != tso
    assert ("team_xmit" in w.func_names) == ("br_handle_frame" in w.func_names) == (test == "test2")


@pytest.mark.parametrize("test, tso", RUNS)
def test_the_link_is_the_limit(test: str, tso: bool) -> None:
    s = summary(test, tso)
    payload = s["packet_rate_pps"] * MSS * 8
    # A super-packet more or less in the window is 4.5 % of it: count segments, and allow one super-packet where the NIC sends it whole.
    expected = 1e9 * MSS / WIRE
    assert abs(payload - expected) <= expected * (0.002 if not tso else 45 * WIRE * 8 / 1e9 / 12e-3)
    assert s["nics"][0]["missed"] == 0 and s["dropped"] == 0


def test_the_rate_is_within_a_percent_of_the_report() -> None:
    for test, published in (("test1", 936.13), ("test2", 935.72)):
        run = summarize(prepare("corei7", str(FILE), cpus=2, variants=(test, "tso"), warmup_ns=12e6, measure_ns=60e6).run())
        assert run["packet_rate_pps"] * MSS * 8 / 1e6 == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize("test, tso", RUNS)
def test_counts_of_a_super_packet(test: str, tso: bool) -> None:
    """Each segment: a head, a context and one or two fragments (three pages of 32 KiB are cut at two places); or one of each for all."""
    heads = each(test, tso, "tx_skb_done")
    assert heads == pytest.approx(1 if tso else SEGMENTS, rel=0.06)
    assert each(test, tso, "wmem_alloc_sub") == heads
    assert each(test, tso, "wmem_alloc_add") == pytest.approx(1 if tso else 2, rel=0.1)
    descriptors = each(test, tso, "tx_descriptor")
    if tso:
        assert 4 <= descriptors <= 6                            # context, head, two to four fragments
        assert each(test, tso, "tx_doorbell") == each(test, tso, "xmit_lock") == pytest.approx(1, rel=0.06)
        assert each(test, tso, "skb_unclone") == pytest.approx(1, rel=0.1)
    else:
        assert 3 * heads <= descriptors <= 3 * heads + 5        # cuts between pages: two or three
        assert each(test, tso, "alloc_skb") == pytest.approx(46, rel=0.1)
        assert each(test, tso, "skb_unclone") == 0
    if test == "test2" and not tso:
        assert each(test, tso, "root_lock") > SEGMENTS
        assert each(test, tso, "tx_doorbell") > 2 * each("test1", tso, "tx_doorbell")
    else:
        assert each(test, tso, "root_lock") < 15 and each(test, tso, "tx_doorbell") < 6


@pytest.mark.parametrize("test, tso", RUNS)
def test_an_acknowledgement_for_every_second_segment(test: str, tso: bool) -> None:
    s = summary(test, tso)
    assert s["counters"]["ack_received"] == pytest.approx(s["iterations"] / 2, rel=0.05)


def test_segmentation_in_software_costs_more_and_the_bridge_costs_more() -> None:
    busy = {run: summary(*run)["cpu_utilization"] for run in RUNS}
    assert busy["test1", False] > 1.3 * busy["test1", True]
    assert busy["test2", False] > 1.3 * busy["test2", True]
    assert busy["test2", True] > busy["test1", True] and busy["test2", False] > busy["test1", False]


@pytest.mark.parametrize("test, tso", RUNS)
def test_the_driver_adapts_moderation_to_the_size_of_frames(test: str, tso: bool) -> None:
    """In quarters of a microsecond: half of the mean frame and 24 bytes, 196 at least. Segments of a large send count with their headers."""
    m = memory(test, tso)
    assert m.get("igb_tx_vector", "itr_val", 1) == (HEADERS + MSS + 24) // 2
    assert m.get("igb_rx_vector", "itr_val", 0) == 196
    assert m.get("igb_rx_vector", "itr_val", 1) == 648           # nothing ever came there
    tx, rx = (summary(test, tso)["nics"][0][f"{side}_interrupts"] for side in ("tx", "rx"))
    assert tx <= 12e-3 / 193e-6 + 1 and rx <= 12e-3 / 49e-6 + 1
    assert rx > tx > 15


def sent(m: Memory) -> int:
    return int(m.sim.arrays["nic_counters"].reshape(-1, len(NIC_STATS))[0, NIC_STATS.index("tx_frames")])


@pytest.mark.parametrize("test, tso", RUNS)
def test_the_socket_accounts_for_every_byte(test: str, tso: bool) -> None:
    """Sequence numbers, the write queue and page references agree in memory, whatever stage each packet is in."""
    m = memory(test, tso)
    una, nxt, end = (m.get("sk", f) for f in ("snd_una", "snd_nxt", "write_seq"))
    assert 0 < una < nxt <= end and una % (2 * MSS) == 0 and nxt % SUPER == 0
    assert sent(m) * MSS <= nxt and una <= sent(m) * MSS + SUPER    # a super-packet counts when all of it has left
    queue, skb, head = [], m.get("sk", "write_queue.next"), m.at("sk") + m.offset("tcp_sock", "write_queue.next")[0]
    while skb != head:
        queue.append(skb)
        assert len(queue) <= 40
        skb = m.word(skb)
    assert len(queue) == m.get("sk", "write_queue.qlen")
    length = [m.word(skb + SKB_LEN, 4) for skb in queue]
    assert abs(sum(length) - (end - una)) <= SUPER               # the stop may fall between two of the words
    assert m.get("sk", "sk_wmem_queued") >= sum(length)
    assert m.get("sk", "sk_wmem_alloc") < 131072 + 2 * 65536 + 45 * 1280
    taken, given = m.counted["get_page_frag"], m.counted["put_page_frag"]
    assert taken > given > 0


@pytest.mark.parametrize("test, tso", RUNS)
def test_lookahead_changes_nothing(test: str, tso: bool) -> None:
    e = prepare("corei7", str(FILE), cpus=2, variants=variants(test, tso), warmup_ns=1e6, measure_ns=3e6)
    runs = [simulate(e.machine, e.workload, warmup_ns=1e6, measure_ns=3e6, lookahead=ahead) for ahead in (True, False)]
    assert differences(*runs) == [] and runs[0].nic_stats[:, NIC_STATS.index("tx_frames")].sum() > 0
