"""Mean and confidence interval of a few runs that differ in their seed only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

CONFIDENCE = 0.95

HEADLINES: dict[str, tuple[str, str]] = {
    "iterations_per_second": ("1/s", "paths (packets) completed per second, all CPUs"),
    "packet_rate_pps": ("1/s", "packets per second; NaN without a packet source"),
    "throughput_bps": ("bit/s", "frame bits per second; NaN without a packet source"),
    "ns_per_iteration_per_cpu": ("ns", "time of one path (packet) on one CPU"),
    "cpu_utilization": ("1", "busy share of the CPUs' time"),
    "dropped": ("1", "packets that found the receive queue full"),
    "tx_dropped": ("1", "packets dropped because the egress link was too far behind"),
}
"""Scalars of a summary that are compared over runs: name -> (unit, meaning)."""


@dataclass(frozen=True)
class Estimate:
    """Mean of independent runs, and half the width of its 95 % confidence interval (Student t); None with a single run."""

    mean: float
    half_width: float | None
    runs: int

    @property
    def low(self) -> float | None:
        """Lower end of the interval."""
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        return None if self.half_width is None else self.mean + self.half_width

    def as_json(self) -> dict[str, Any]:
        """Mean, half width and ends."""
        return {"mean": self.mean, "ci95": self.half_width, "low": self.low, "high": self.high, "runs": self.runs}


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and interval of at least one value."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return Estimate(mean, None, n)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return Estimate(mean, student_t(n - 1) * deviation / math.sqrt(n), n)


def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile: |t| stays below it with probability ``confidence``."""
    from scipy.stats import t

    return float(t.ppf(0.5 + confidence / 2, freedom))


def gain(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """Relative change of the mean, ``after / before - 1``, of runs that are paired by their seed: the interval is that of the ratio of each pair."""
    return estimate([b / a - 1 for a, b in zip(before, after, strict=True)])


def combine(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Estimates of every headline of summaries that differ in their seed: scalars, time shares, profiles, lines.

    A function or line that a run does not list counts as 0 there. Rows keep the order of their mean share, largest first.
    """
    headlines = {
        name: estimate([float(s[name]) for s in summaries]).as_json() for name in HEADLINES if all(s[name] is not None for s in summaries)
    }
    return {
        "headlines": headlines,
        "time_shares": {k: estimate([s["time_shares"][k] for s in summaries]).as_json() for k in summaries[0]["time_shares"]},
        "functions": _rows([s["functions"] for s in summaries], ("name",), "share"),
        "primitives": _rows([s["primitives"] for s in summaries], ("name",), "share"),
        "lines": _rows([s["lines"] for s in summaries], ("object", "offset"), "stall_share", ("transfers", "retries")),
    }


def _rows(tables: Sequence[list[dict[str, Any]]], key: tuple[str, ...], share: str, more: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    found: dict[tuple, list[dict[str, Any] | None]] = {}
    for run, table in enumerate(tables):
        for row in table:
            found.setdefault(tuple(row[k] for k in key), [None] * len(tables))[run] = row
    rows = []
    for name, entries in found.items():
        columns = {c: estimate([float(row[c]) if row else 0.0 for row in entries]).as_json() for c in (share, *more)}
        fields = next((row["fields"] for row in entries if row and "fields" in row), None)
        rows.append({**dict(zip(key, name, strict=True)), **columns, **({"fields": fields} if fields is not None else {})})
    return sorted(rows, key=lambda row: -row[share]["mean"])
