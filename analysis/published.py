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
