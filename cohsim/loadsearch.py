"""Search for the highest offered load without loss, in the way of RFC 2544 (section 26.1): trials at rates that halve the interval.

A trial is a whole run at a fixed offered rate. It is without loss if nothing was dropped anywhere, no sender was held back, and what
went out keeps up with what came in (a queue that still fills is a loss to come).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cohsim.errors import SimulationError

KEEPS_UP = 0.995
"""Least share of the offered packets that must come out within the window: packets under way at its edges are no loss."""

RESOLUTION = 0.01
"""The search ends when the interval is this share of its upper end."""


@dataclass(frozen=True)
class Trial:
    """One rate that was tried."""

    offered_pps: float
    forwarded_pps: float
    dropped: int
    paused: float  # share of the time a sender was held back
    cpu_utilization: float
    lossless: bool


@dataclass(frozen=True)
class Search:
    """``best`` is the whole run at the highest rate without loss, ``trials`` all that was tried, in order."""

    best: Any
    best_pps: float
    trials: list[Trial]


def judge(offered_pps: float, summary: dict[str, Any]) -> Trial:
    """A run's summary as a trial. Raises ValueError if its workload has no packets."""
    rate = summary["packet_rate_pps"]
    if rate is None:
        raise ValueError("the workload has no packet source")
    dropped, paused = summary["dropped"] + (summary["tx_dropped"] or 0), summary.get("paused", 0.0)
    lossless = dropped == 0 and paused == 0 and rate >= KEEPS_UP * offered_pps
    return Trial(offered_pps, rate, dropped, paused, summary["cpu_utilization"], lossless)


def max_no_loss(run: Callable[[float], Any], summarize: Callable[[Any], dict[str, Any]], most_pps: float,
                told: Callable[[Trial], None] | None = None, resolution: float = RESOLUTION) -> Search:
    """Highest rate up to ``most_pps`` (packets per second) at which ``run(rate)`` loses nothing.

    The loss is taken to begin at one rate and to stay above it, as RFC 2544 does. ``told`` hears of every trial. Raises SimulationError if
    even the lowest rate that can be told apart loses packets.
    """
    trials: list[Trial] = []
    best: tuple[float, Any] | None = None

    def lossless(rate: float) -> bool:
        nonlocal best
        result = run(rate)
        trial = judge(rate, summarize(result))
        trials.append(trial)
        if told is not None:
            told(trial)
        if trial.lossless:
            best = rate, result
        return trial.lossless

    if not lossless(most_pps):
        low, high = 0.0, most_pps
        while high - low > resolution * high and high > resolution * most_pps:
            middle = (low + high) / 2
            if lossless(middle):
                low = middle
            else:
                high = middle
    if best is None:
        raise SimulationError(f"packets are lost at every rate down to {trials[-1].offered_pps:,.0f} packet/s",
                              "look at a run with --load 1kpps: a queue or ring without any room loses packets at any rate")
    return Search(best[1], best[0], trials)
