"""Figures that others measured and the analyses compare with. Nothing in the simulator reads this file."""
from __future__ import annotations

from dataclasses import dataclass

IPV6_SOURCE = "netdev, 2014-12-10, 'atomic operations bottleneck in the IPv6 stack' (Freescale T4240, raw IPv6, 78-byte packets)"
IPV6_FRAME_BYTES = 78
IPV6_OVERHEAD_BYTES = 20
"""Preamble and gap on the wire. The report does not say whether its Gbit/s count them."""

IPV6_GBPS = {16: 3.3, 24: 2.4}
"""Forwarding rate by hardware threads, Gbit/s as published."""

IPV6_CALIBRATED_AT = 16
"""The 16-thread column is what parameters marked ``calibrated`` may be fitted to; every other column is a prediction."""

IPV6_FLOOR = {16: 0.05, 24: 0.027}
"""Share at which the published ``perf`` lists stop: a function that is not on a list had less."""


@dataclass(frozen=True)
class Share:
    """Share of one CPU's cycles (``perf record -C 1 -c 10000000``) by hardware threads; None: not on the list."""

    symbol: str
    by_threads: dict[int, float | None]


IPV6_INLINED = (
    Share("ip6_pol_route", {16: 0.1959, 24: 0.3498}),
    Share("dst_release", {16: 0.1807, 24: 0.3186}),
    Share("__netif_receive_skb_core", {16: 0.0509, 24: 0.0272}),
    Share("ip6_finish_output2", {16: None, 24: 0.0376}),
    Share("_raw_read_lock_bh", {16: None, 24: None}),
)
"""Profile of the kernel as built: atomics inside their callers."""

IPV6_DEINLINED = (
    Share("atomic_dec_return", {16: 0.1726, 24: 0.3245}),
    Share("atomic_inc", {16: 0.1345, 24: 0.3056}),
    Share("ip6_pol_route", {16: 0.0553, 24: 0.0471}),
    Share("__netif_receive_skb_core", {16: 0.0502, 24: None}),
    Share("ip6_finish_output2", {16: None, 24: 0.0357}),
)
"""Profile of a kernel with ``atomic_inc`` and ``atomic_dec_return`` as functions of their own."""


def packets_per_second(gbps: float, *, overhead_counted: bool = False) -> float:
    """Packet rate that a published rate stands for, with or without 20 bytes of preamble and gap in each frame."""
    return gbps * 1e9 / (8 * (IPV6_FRAME_BYTES + (IPV6_OVERHEAD_BYTES if overhead_counted else 0)))


# ------------------------------------------------------------------------------------------------- contended counters

@dataclass(frozen=True)
class Spread:
    """Nanoseconds per operation and thread: mean, least and greatest of the published samples."""

    mean: float
    least: float
    greatest: float


PERFBOOK_X5550 = ("perfbook, CodeSamples/count/data (GitHub paulmckrcu/perfbook, CC-BY-SA 3.0 US): 2 x Xeon X5550, 30 samples, "
                  "thread i on logical CPU i; which CPU is on which socket is not recorded")
X5550_ATOMIC = {
    1: Spread(7.560, 7.403, 7.660), 2: Spread(24.96, 22.81, 28.78), 3: Spread(40.18, 37.25, 42.80), 4: Spread(71.32, 56.11, 96.67),
    5: Spread(99.97, 91.47, 106.4), 6: Spread(119.4, 107.5, 134.5), 7: Spread(141.8, 131.5, 153.8), 8: Spread(191.5, 169.9, 202.6),
    10: Spread(239.9, 209.0, 254.4), 12: Spread(293.4, 269.9, 309.8), 14: Spread(318.1, 285.8, 331.1), 16: Spread(379.7, 371.0, 391.2),
}
X5550_PLAIN = {
    1: Spread(2.171, 2.113, 2.211), 2: Spread(2.489, 2.332, 2.873), 3: Spread(3.294, 2.969, 3.920), 4: Spread(4.337, 4.267, 4.378),
    5: Spread(4.540, 4.492, 4.605), 6: Spread(5.598, 5.483, 5.711), 7: Spread(6.640, 6.010, 6.924), 8: Spread(7.478, 6.800, 8.322),
    10: Spread(10.06, 9.346, 11.17), 12: Spread(10.13, 9.376, 10.78), 14: Spread(11.39, 10.79, 12.77), 16: Spread(13.12, 11.72, 15.84),
}
X5550_PRIVATE = {
    1: Spread(8.554, 8.358, 8.789), 2: Spread(8.652, 8.351, 8.865), 3: Spread(8.580, 8.435, 8.701), 4: Spread(9.034, 8.694, 9.314),
    5: Spread(9.429, 8.758, 10.01), 6: Spread(10.14, 9.389, 10.86), 7: Spread(12.03, 11.64, 12.52), 8: Spread(12.69, 11.44, 13.37),
    10: Spread(15.94, 13.55, 20.54), 12: Spread(15.29, 14.18, 16.80), 14: Spread(15.90, 15.44, 16.42), 16: Spread(17.86, 15.55, 21.59),
}
X5550_ONE_SOCKET = 4
"""Threads up to which the measured machine may have used one socket and one thread per core, as the modelled one does."""

POWER5_SOURCE = "perfbook, CodeSamples/count/data/perfsqh.2010.02.11a (CC-BY-SA 3.0 US): atomic_inc by LL/SC, Power-5 with 64 CPUs"
POWER5_ATOMIC = {
    1: Spread(41.28, 41.27, 41.29), 2: Spread(123.8, 123.6, 124.0), 3: Spread(181.3, 179.5, 186.2), 4: Spread(300.3, 292.1, 308.3),
    5: Spread(390.2, 369.0, 452.3), 6: Spread(521.5, 505.4, 529.0), 7: Spread(594.4, 575.1, 601.5), 8: Spread(668.5, 647.6, 678.0),
    10: Spread(992.6, 954.3, 1012), 12: Spread(1319, 1252, 1355), 14: Spread(1769, 1724, 1833), 16: Spread(2176, 2082, 2274),
    20: Spread(3324, 3123, 3456), 24: Spread(4240, 4132, 4305),
}

GRAVITON1_SOURCE = "concurrency-hierarchy-bench (GitHub travisdowns, Unlicense): atomic add by LL/SC, AWS Graviton1, median of 15 trials"
GRAVITON1_ATOMIC = {1: 8.8, 2: 30.7, 3: 85.6, 4: 105.4, 5: 134.8, 6: 257.8, 7: 326.0, 8: 410.2, 9: 304.2, 10: 553.6, 11: 592.0, 12: 808.5,
                    13: 663.7, 14: 1025, 15: 1173, 16: 1372}

STACKED_VLAN_SOURCE = "netdev, 2015-03-27, 'Stacked vlan TSO' (netperf TCP_STREAM, 16384-byte sends, 60 s, Intel I350; machine and CPUs not stated)"


@dataclass(frozen=True)
class Stream:
    """One netperf run: payload rate and the share of all CPUs' time in the kernel."""

    mbps: float
    sys: float


STACKED_VLAN = {
    ("test1", "before"): Stream(933.72, 0.1128),
    ("test1", "after"): Stream(936.13, 0.0417),
    ("test2", "before"): Stream(936.28, 0.1157),
    ("test2", "after"): Stream(935.72, 0.0766),
}
"""By test (1: VLAN on VLAN; 2: VLAN on bridge on team) and kernel (before: segments in software, after: by the NIC)."""

STACKED_VLAN_CALIBRATED_AT = ("test1", "after")
