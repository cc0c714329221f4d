"""Rate over CPUs with the Universal Scalability Law beside the points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cohsim.errors import InputError, Problem
from cohsim.report.plots.canvas import bare, counts_on, new_figure
from cohsim.report.table import count
from cohsim.results.result import Result
from cohsim.results.summary import summarize
from cohsim.sweep import Estimate, SweepResult, UslFit, usl_fit

COLOURS = ("#1f5fa8", "#d1701c", "#3f9b5f", "#9a4fb0", "#c0392b", "#6b7280", "#b08d0f", "#2a9d9d")


@dataclass(frozen=True)
class Measured:
    """One curve: rate at each CPU count, ascending."""

    label: str
    cpus: tuple[int, ...]
    rates: tuple[Estimate, ...]

    def fit(self) -> UslFit | None:
        """The law through the means; None with fewer than three CPU counts or a rate of zero, where it is not defined."""
        means = [rate.mean for rate in self.rates]
        return usl_fit(self.cpus, means) if len(self.cpus) >= 3 and min(means) > 0 else None


@dataclass(frozen=True)
class Scaling:
    """What a scaling picture shows."""

    title: str
    unit: str
    curves: tuple[Measured, ...]


def of_sweep(sweep: SweepResult, path: Path) -> Scaling:
    """The curves of a sweep: one for each combination of the axes other than CPUs and seed. Raises InputError if it has no CPU axis, no
    finished point or more curves than can be told apart.
    """
    if "cpus" not in sweep.axes:
        raise InputError(Problem(str(path), "the sweep has no axis of CPU counts", "sweep over --cpus 1-24"))
    bits = sweep.curves("cpus", "throughput_bps")
    curves = [_measured(curve.at, curve.values, curve.estimates) for curve in bits or sweep.curves("cpus")]
    if not curves:
        raise InputError(Problem(str(path), "no point of the sweep is finished", "let it run on, or look at its messages"))
    if len(curves) > len(COLOURS):
        what = f"has {len(curves)} curves, more than the {len(COLOURS)} that can be told apart"
        raise InputError(Problem(str(path), what, "sweep over fewer values beside --cpus"))
    done, all_points = sweep.count("done"), len(sweep.points)
    missing = "" if done == all_points else f", {done} of {all_points} points"
    title = f"{sweep.definition['workload']} on {sweep.definition['machine']}{missing}"
    return Scaling(title, "bit/s" if bits else "iterations/s", tuple(curves))


def _measured(at: dict[str, object], values: Sequence[int], estimates: Sequence[Estimate]) -> Measured:
    order = sorted(range(len(values)), key=lambda i: values[i])
    label = ", ".join(f"{name} {value}" for name, value in at.items()) or "emulated"
    return Measured(label, tuple(values[i] for i in order), tuple(estimates[i] for i in order))


def of_results(results: Sequence[Result]) -> Scaling:
    """One curve through results that differ in their CPU count. Raises InputError if they ran different things, or one count twice."""
    summaries = sorted((summarize(result, top_lines=0) for result in results), key=lambda s: s["cpus"])
    first = summaries[0]
    for before, after in zip(summaries, summaries[1:], strict=False):
        if (after["machine"], after["workload"]) != (first["machine"], first["workload"]):
            what = f"{after['workload']} on {after['machine']} and {first['workload']} on {first['machine']} are no curve together"
            raise InputError(Problem("scaling", what, "give results that differ in --cpus only"))
        if before["cpus"] == after["cpus"]:
            raise InputError(Problem("scaling", f"two results with {after['cpus']} CPUs", "give one for each CPU count, or a sweep with seeds"))
    bits = first["throughput_bps"] is not None
    rates = tuple(Estimate(s["throughput_bps" if bits else "iterations_per_second"], None, 1) for s in summaries)
    curve = Measured("emulated", tuple(s["cpus"] for s in summaries), rates)
    return Scaling(f"{first['workload']} on {first['machine']}", "bit/s" if bits else "iterations/s", (curve,))


def draw(scaling: Scaling) -> Figure:
    """Points with their 95 % interval where there are several seeds, and the fitted law as a dashed line."""
    figure = new_figure(8, 4.8, f"{scaling.title}: rate over CPUs, with the Universal Scalability Law")
    axes = figure.subplots()
    handles = [h for curve, colour in zip(scaling.curves, COLOURS, strict=False) for h in _curve(axes, curve, colour, scaling.unit)]
    axes.set(xlabel="CPUs (hardware threads)", ylabel=f"rate, {scaling.unit}")
    axes.set_ylim(0, 1.08 * max(r.high or r.mean for c in scaling.curves for r in c.rates))
    axes.set_xlim(0, None)
    counts = sorted({n for c in scaling.curves for n in c.cpus})
    if len(counts) <= 16:
        axes.set_xticks(counts)
    counts_on(axes.yaxis)
    bare(axes)
    axes.legend(handles=handles, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.14))
    return figure


def _curve(axes: Axes, curve: Measured, colour: str, unit: str) -> list[Artist]:
    """Draw one curve; the handles of its legend entries."""
    means = [rate.mean for rate in curve.rates]
    spread = [rate.half_width or 0.0 for rate in curve.rates]
    runs = max(rate.runs for rate in curve.rates)
    label = curve.label + (f", mean of {runs} seeds and 95 % interval" if runs > 1 else "")
    points: Any = axes.errorbar(curve.cpus, means, spread if any(spread) else None, fmt="o", color=colour, markersize=5, capsize=3, label=label)
    fit = curve.fit()
    if fit is None:
        why = f"{len(curve.cpus)} CPU counts" if len(curve.cpus) < 3 else "a rate of 0"
        return [points, *axes.plot([], [], " ", label=f"no law fitted: {why}")]
    at = np.linspace(1, max(curve.cpus), 200)
    return [points, *axes.plot(at, fit.rate(at), "--", color=colour, linewidth=1.2, label=law(fit, unit))]


def law(fit: UslFit, unit: str) -> str:
    """The fitted law in words."""
    if fit.sigma >= 1:  # then even the second CPU costs more than it brings
        peak = "falls from the second CPU on"
    elif fit.peak is None:
        peak = "never falls"
    else:
        peak = f"highest at {fit.peak:.1f} CPUs, {count(fit.peak_rate, unit)}"
    return f"law: contention σ {fit.sigma:.3g}, coherence κ {fit.kappa:.3g}, {peak}; R² {fit.r_squared:.3f}"
