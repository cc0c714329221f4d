"""Pictures of one run, or of two side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cohsim.datafiles import nearest
from cohsim.errors import InputError, Problem
from cohsim.report.c2c import shared_lines
from cohsim.report.palette import CATEGORY_COLOURS, FIRST, HEAT, LEVEL_COLOURS, SECOND
from cohsim.report.plots.canvas import bare, counts_on, new_figure
from cohsim.report.table import count, shorten
from cohsim.report.text import CATEGORY_MEANING
from cohsim.results.result import Result
from cohsim.results.summary import summarize

SMALLEST_SHARE = 0.002  # categories below this in every row are not worth a legend entry
ANNOTATED = 32  # rows of a matrix up to which the numbers are written into the cells
HEADROOM = 1.3  # a heat map ends beyond its largest value: the darkest red is hard to read on


def heading(summary: dict[str, Any]) -> str:
    """What ran where, for a title."""
    return f"{summary['workload']} on {summary['machine']}, {summary['cpus']} CPUs"


def rate(summary: dict[str, Any]) -> str:
    """Its rate in words."""
    if summary["throughput_bps"] is not None:
        return f"{summary['throughput_bps'] / 1e9:.2f} Gbit/s"
    return count(summary["iterations_per_second"], "iterations/s")


def profiles(results: list[Result], view: str = "primitives", top: int = 12) -> Figure:
    """Share of busy time of the ``top`` names of one or two results, side by side. ``view``: ``primitives`` (atomics on their own) or
    ``functions`` (inside their callers).
    """
    summaries = [summarize(result) for result in results]
    shares = [{row["name"]: row["share"] for row in summary[view]} for summary in summaries]
    names = sorted({n for s in shares for n in s}, key=lambda n: (-max(s.get(n, 0.0) for s in shares), n))[:top]
    first = summaries[0]
    what = "atomics on their own" if view == "primitives" else "atomics inside their callers"
    same = len({(s["workload"], s["machine"]) for s in summaries}) == 1
    title = f"{first['workload']} on {first['machine']}" if same else "Profiles"
    figure = new_figure(8, 1.5 + 0.42 * len(names), f"{title}: share of busy time, {what}")
    axes = figure.subplots()
    height = 0.8 / len(summaries)
    for i, (summary, share, colour) in enumerate(zip(summaries, shares, (FIRST, SECOND), strict=False)):
        values = [100 * share.get(name, 0.0) for name in names]
        at = np.arange(len(names)) + (i - (len(summaries) - 1) / 2) * height
        label = f"{summary['cpus']} CPUs, {rate(summary)}" if same else f"{heading(summary)}, {rate(summary)}"
        bars = axes.barh(at, values, height * 0.92, color=colour, label=label)
        axes.bar_label(bars, [f"{v:.1f}" if v else "-" for v in values], padding=3, fontsize=8)
    axes.set_yticks(range(len(names)), [shorten(n, 32) for n in names])
    axes.invert_yaxis()
    axes.set_xlabel("share of busy time, %")
    axes.margins(x=0.08)
    bare(axes, "x")
    axes.legend(loc="lower right")
    return figure


def utilization(result: Result) -> Figure:
    """Time of every CPU of the run, stacked by category, largest category first."""
    summary = summarize(result)
    time = result.array("/threads/time_fs") / max(1, result.number("/run/measured_fs"))
    names = result.names("/axes/category")
    order = [i for i in np.argsort(-time.sum(axis=0), kind="stable") if time[:, i].max() >= SMALLEST_SHARE and names[i] != "idle"]
    order += [names.index("idle")] if time[:, names.index("idle")].max() >= SMALLEST_SHARE else []
    cpus = result.array("/threads/machine_cpu")
    figure = new_figure(max(7.0, 3.5 + 0.3 * len(cpus)), 4.4, f"{heading(summary)}: where each CPU's time goes")
    axes = figure.subplots()
    bottom = np.zeros(len(cpus))
    for i in order:
        name = names[i]
        axes.bar(range(len(cpus)), 100 * time[:, i], 0.86, bottom, color=CATEGORY_COLOURS[name], label=_category(name))
        bottom += 100 * time[:, i]
    axes.set_xticks(range(len(cpus)), [str(c) for c in cpus], fontsize=8)
    axes.set(xlabel="CPU of the machine", ylabel="time, %", ylim=(0, 100), xlim=(-0.6, len(cpus) - 0.4))
    bare(axes)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    return figure


def _category(name: str) -> str:
    return f"{name}: {CATEGORY_MEANING[name]}" if name in CATEGORY_MEANING else f"{name}: nothing to do"


def transfers(result: Result) -> Figure:
    """Lines that moved between coherence nodes: row had the line, column took it."""
    summary = summarize(result, top_lines=1)
    moved = result.array("/transfers/nodes")
    total = int(moved.sum())
    each = summary["iterations"]
    per = f", {total / each:.1f} per {'packet' if summary['packet_rate_pps'] is not None else 'iteration'}" if each else ""
    figure = new_figure(5.6, 5.0, f"{heading(summary)}: lines taken from another node\n{total:,} in all{per}")
    moved = np.where(np.eye(len(moved), dtype=bool), np.nan, moved)  # inside a node nothing moves between nodes
    _matrix(figure, figure.subplots(), moved, node_names(result, len(moved)), ("had the line", "took it"), "lines moved", lambda v: count(int(v)))
    return figure


def takes(result: Result, label: str) -> Figure:
    """Who took one line (``route+128``) from whom: row CPU had used it, column CPU took it. Raises InputError if no such line was missed or
    fought for, or the result does not say who took lines.
    """
    lines = {line.label: line for line in shared_lines(result)}
    if label not in lines:
        near = nearest(label, lines)
        hint = f"did you mean {near!r}?" if near else f"choose from {', '.join(list(lines)[:5])} ..."
        raise InputError(Problem("--line", f"the result has no line {label!r}", hint))
    line = lines[label]
    cpus = result.array("/threads/machine_cpu").tolist()
    moved = np.zeros((len(cpus), len(cpus)))
    for take in line.cpu_takers:
        if take.holder >= 0:
            moved[take.holder, take.taker] += take.count
    np.fill_diagonal(moved, np.nan)
    size = max(4.2, 1.4 + 0.26 * len(cpus))
    summary = summarize(result, top_lines=0)
    figure = new_figure(size, size, f"{heading(summary)}: who took {label}\n{line.take_count:,} takes, {line.verdict}")
    axis_names = ("CPU that had used it", "CPU that took it")
    _matrix(figure, figure.subplots(), moved, [str(cpu) for cpu in cpus], axis_names, "takes", lambda v: count(int(v)))
    return figure


def node_names(result: Result, nodes: int) -> list[str]:
    """CPUs of each node that took part, as ranges; a node without any keeps its number."""
    node, cpu = result.array("/threads/node"), result.array("/threads/machine_cpu")
    names = []
    for n in range(nodes):
        here = sorted(cpu[node == n].tolist())
        names.append(f"CPU {ranges(here)}" if here else f"node {n}")
    return names


def ranges(numbers: list[int]) -> str:
    """Sorted numbers as ``0-7,9``."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _matrix(figure: Figure, axes: Axes, values: np.ndarray, names: list[str], axis_names: tuple[str, str], unit: str, show: Any) -> None:
    """A heat map with its numbers if they fit; NaN cells stay empty. ``values`` is [row, column]."""
    most = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
    image = axes.imshow(np.ma.masked_invalid(values), cmap=HEAT, vmin=0, vmax=most * HEADROOM or 1)
    axes.set_xticks(range(len(names)), names, rotation=90 if len(names) > 6 else 0, fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set(ylabel=axis_names[0], xlabel=axis_names[1])
    axes.spines[:].set_visible(False)
    if len(names) > ANNOTATED:
        figure.colorbar(image, ax=axes, label=unit, shrink=0.85)
        return
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = value > 0.75 * most > 0
            axes.text(column, row, show(value), ha="center", va="center", fontsize=8 if len(names) <= 16 else 6, color="white" if dark else "black")


def histograms(result: Result) -> Figure:
    """Latency of memory operations, one panel for each level that served any. Both axes are logarithmic."""
    summary = summarize(result, top_lines=1)
    operations, levels = result.array("/latency/operations"), result.names("/axes/level")
    used = [i for i in range(len(levels)) if operations[i].sum()]
    figure = new_figure(8, 1.2 + 0.95 * max(1, len(used)), f"{heading(summary)}: latency of memory operations, by who served them")
    if not used:
        figure.text(0.5, 0.4, "no memory operation in the measured window", ha="center")
        return figure
    last = int(np.flatnonzero(operations.sum(axis=0)).max()) + 1
    panels = figure.subplots(len(used), 1, sharex=True, squeeze=False)[:, 0]
    most = operations.max()
    for axes, i in zip(panels, used, strict=True):
        at = np.arange(last)
        axes.bar(at + 0.5, operations[i, :last], 0.94, color=LEVEL_COLOURS[levels[i]])
        axes.set_yscale("log")
        axes.set_ylim(0.7, most * 2)
        axes.set_ylabel(levels[i], rotation=0, ha="right", va="center", fontsize=9)
        axes.tick_params(axis="y", labelsize=7)
        axes.text(0.995, 0.92, f"{count(int(operations[i].sum()))} operations", transform=axes.transAxes, ha="right", va="top", fontsize=8)
        counts_on(axes.yaxis)
        bare(axes)
    step = 1 + last // 14
    marks = range(0, last + 1, step)
    panels[-1].set_xticks(marks, ["0", *(f"{2**b:,}" if b < 14 else f"2^{b}" for b in marks[1:])], fontsize=8)
    panels[-1].set_xlabel("latency, core cycles (each bar from its left to its right mark)")
    return figure


def core_to_core(ns: np.ndarray, machine: str, load: str) -> Figure:
    """Heat map of one-way latencies between CPUs, ``ns[i, j]`` in nanoseconds, NaN on the diagonal."""
    finite = ns[np.isfinite(ns)]
    size = max(4.2, 1.4 + 0.26 * len(ns))
    title = f"{machine}: {load}\nnanoseconds: {finite.min():.1f} to {finite.max():.1f}, median {np.median(finite):.1f}"
    figure = new_figure(size, size, title)
    _matrix(figure, figure.subplots(), ns, [str(c) for c in range(len(ns))], ("from CPU", "to CPU"), "ns", lambda v: f"{v:.0f}")
    return figure
