"""The devices of a workload as text: NICs, what they receive, and who handles which interrupt."""

from __future__ import annotations

from collections import Counter

from cohsim.workload.compiled import Devices, Nic, Ring, Traffic


def describe_devices(d: Devices, programs: list[tuple[int, int, str]]) -> list[str]:
    """Lines of `cohsim trace info`; ``programs`` names the path at each entry."""
    paths = {first: name for first, _, name in programs}
    lines = ["NICs"] if d.nics else []
    for index, nic in enumerate(d.nics):
        lines += _nic(nic, [t for t in d.traffic if t.nic == index])
    lines += ["", "Interrupts"] if lines and d.vectors else ["Interrupts"] if d.vectors else []
    for v in d.vectors:
        when = f"every {_time(v.period_ns)}, first at {_time(v.first_ns)}" if v.period_ns else f"queue {v.queue}"
        lines.append(f"  {v.name:<16} CPU {v.cpu:<3} {when:<30} {paths.get(v.entry, '?')}")
    lines += ["", "Counters", "  " + ", ".join(d.counters)]
    return [*lines, ""]


def _nic(nic: Nic, traffic: list[Traffic]) -> list[str]:
    counted = "its frames are the run's packets" if nic.output else "its frames are not counted as packets"
    lines = [
        f"  {nic.name}  {_rate(nic.port_bps)}, {nic.queues} queues, {nic.overhead_bytes} B more per sent frame; {counted}",
        f"      rx ring {_ring(nic.rx)}, written back by {nic.writeback} or after {_time(nic.writeback_timeout_ns)}",
        f"      tx ring {_ring(nic.tx)}",
        f"      FIFO {nic.fifo_bytes} B, full: {'the sender pauses' if nic.pause else 'frames are lost'}; "
        f"no descriptor: {'the frame is dropped' if nic.drop else 'the port waits'}",
        f"      between interrupts at least {_time(nic.rx_moderation_ns)} rx, {_time(nic.tx_moderation_ns)} tx; "
        f"between frames {_time(nic.rx_service_ns)} rx, {_time(nic.tx_service_ns)} tx; flow number at byte {nic.flow_at}",
    ]
    if nic.ack_every:
        peer = f", the peer's interrupts at least {_time(nic.ack_moderation_ns)} apart" if nic.ack_moderation_ns else ""
        lines.append(f"      acknowledged every {nic.ack_every} frames after {_time(nic.ack_delay_ns)} with {nic.ack_bytes} B" + peer)
    for t in traffic:
        shares = Counter(t.queue_of_flow)
        spread = " ".join(str(shares[q]) for q in range(nic.queues))
        lines.append(
            f"      traffic {t.rate_pps / 1e6:.6g} Mpps, {t.frame_bytes} + {t.overhead_bytes} B, {t.arrivals}; "
            f"{len(t.queue_of_flow)} flows, by queue: {spread}"
        )
    return lines


def _ring(ring: Ring) -> str:
    return f"{ring.entries} x {ring.descriptor} B at {ring.base:#x}, a queue every {ring.stride} B"


def _rate(bps: float) -> str:
    return f"{bps / 1e9:.6g} Gbit/s"


def _time(ns: float) -> str:
    for unit, factor in (("ms", 1e6), ("us", 1e3)):
        if ns >= factor:
            return f"{ns / factor:.6g} {unit}"
    return f"{ns:.6g} ns"
