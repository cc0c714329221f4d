"""Text of several runs: ``cohsim run --seeds`` and ``cohsim sweep``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cohsim.report.table import count, shorten, table
from cohsim.report.text import megahertz
from cohsim.results.provenance import PERFORMANCE
from cohsim.sweep.point import DONE, FAILED, MISSING
from cohsim.sweep.statistics import CONFIDENCE, HEADLINES, combine
from cohsim.sweep.store import SweepResult
from cohsim.sweep.usl import PARAMETERS, UslFit, usl_fit

NAME_WIDTH = 40
LABELS = {
    "iterations_per_second": ("iterations/s", 1.0, ""),
    "packet_rate_pps": ("packets/s", 1.0, ""),
    "throughput_bps": ("Gbit/s", 1e-9, ""),
    "ns_per_iteration_per_cpu": ("ns each per CPU", 1.0, ""),
    "cpu_utilization": ("CPU utilization", 100.0, "%"),
    "dropped": ("dropped", 1.0, ""),
    "tx_dropped": ("dropped at the link", 1.0, ""),
}
"""Headline -> (name, factor to the shown unit, unit)."""


def plus_minus(e: Mapping[str, Any], factor: float = 1.0, unit: str = "") -> list[str]:
    """Two cells: the mean, and half the width of its interval, with as many decimals as the interval justifies."""
    mean, half = e["mean"] * factor, None if e["ci95"] is None else e["ci95"] * factor
    decimals = min(_decimals(mean, half), 2 if unit == "%" else 4)
    return [f"{mean:,.{decimals}f}{unit}", "" if half is None else f"± {half:,.{decimals}f}{unit}"]


def _decimals(mean: float, half: float | None) -> int:
    """Two significant digits of the interval, between 0 and 4 decimals; four significant digits of the mean where it is exact."""
    reference = half if half else abs(mean) / 100
    if not reference:
        return 0
    for decimals in range(4):
        if reference * 10**decimals >= 10:
            return decimals
    return 4


def seeds_document(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """What ``cohsim run --seeds --json`` writes: estimates of every headline, and the headlines of each run."""
    first = summaries[0]
    return {
        **{key: first[key] for key in ("cohsim", "machine", "workload", "cpus", "cpu")},
        "seeds": [s["seed"] for s in summaries],
        "confidence": CONFIDENCE,
        **combine(summaries),
        "runs": [{"seed": s["seed"], **{name: s[name] for name in HEADLINES}, "clock": s["clock"]} for s in summaries],
    }


def render_seeds(document: dict[str, Any], top: int) -> str:
    """The report of ``cohsim run --seeds`` that ends in a newline."""
    seeds = document["seeds"]
    head = f"{document['workload']} on {document['machine']}, {document['cpus']} CPUs, {len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"
    if document["cpu"] is not None:
        head += f", CPU {document['cpu']} alone"
    rates = [
        [label, *plus_minus(document["headlines"][name], factor, unit)]
        for name, (label, factor, unit) in LABELS.items()
        if name in document["headlines"] and not (name == "iterations_per_second" and "packet_rate_pps" in document["headlines"])
    ]
    heads = [head, *_clocks([run["clock"] for run in document["runs"]], "seed"), "mean and 95 % confidence interval (Student t)"]
    blocks = [heads, table(["", "mean", ""], rows=rates, right="<><")]
    for group, title in (("functions", "atomics inlined"), ("primitives", "atomics on their own")):
        rows = [[*plus_minus(row["share"], 100, "%"), shorten(row["name"], NAME_WIDTH)] for row in document[group][:top]]
        blocks.append(table(["share", "", title], rows, "><<"))
    lines = [row for row in document["lines"] if row["stall_share"]["mean"] or row["transfers"]["mean"]][:top]
    if lines:
        rows = [
            [
                *plus_minus(row["stall_share"], 100, "%"),
                *plus_minus(row["transfers"]),
                *plus_minus(row["retries"]),
                row["object"] if row["object"].startswith("0x") else f"{row['object']}+{row['offset']}",
            ]
            for row in lines
        ]
        blocks.append(table(["stall", "", "moves", "", "retries", "", "line"], rows, "><><><<"))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _clocks(clocks: list[dict[str, Any]], what: str) -> list[str]:
    """A line that says which clocks the governor chose, and at how many runs each; none where there was no choice."""
    chosen = [megahertz(clock["core_hz"]) for clock in clocks if clock["trials"]]
    if not chosen:
        return []
    shares = ", ".join(f"{hz} ({chosen.count(hz)} {what}{'s' if chosen.count(hz) > 1 else ''})" for hz in dict.fromkeys(chosen))
    return [f"core clock, governor {clocks[0]['governor']}: {shares}"]


def sweep_document(result: SweepResult) -> dict[str, Any]:
    """What ``cohsim sweep --json`` writes: a row per combination of axis values with the seeds combined, and the fits.

    ``clocks``: what the governor did at each seed of the row; only with a governor that chooses.
    """
    chooses = result.definition["fixed"].get("governor", PERFORMANCE) != PERFORMANCE  # files of earlier versions do not say
    axes = [name for name in result.axes if name != "seed"]
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for point in result.points:
        groups.setdefault(tuple(point["inputs"][name] for name in axes), []).append(point)
    rows = []
    for at, points in groups.items():
        done = [point["summary"] for point in points if point["status"] == DONE]
        rows.append(
            {
                "at": dict(zip(axes, at, strict=True)),
                "done": len(done),
                "failed": [{"seed": p["inputs"]["seed"], "message": p["message"]} for p in points if p["status"] == FAILED],
                "missing": sum(point["status"] == MISSING for point in points),
                **({"clocks": [summary["clock"] for summary in done]} if chooses else {}),
                **(combine(done) if done else {"headlines": None, "time_shares": None, "functions": [], "primitives": [], "lines": []}),
            }
        )
    return {"definition": result.definition, "rows": rows, "usl": [{"at": at, **fit.as_json()} for at, fit in fits(result)]}


def fits(result: SweepResult) -> list[tuple[dict[str, Any], UslFit]]:
    """(values of the other axes, fit) of each curve along the CPUs that has enough points."""
    if "cpus" not in result.axes:
        return []
    found = []
    for curve in result.curves("cpus"):
        rates = [e.mean for e in curve.estimates]
        if len(rates) >= PARAMETERS and min(rates) > 0:
            found.append((curve.at, usl_fit(curve.values, rates)))
    return found


def render_sweep(result: SweepResult) -> str:
    """The report of ``cohsim sweep`` that ends in a newline."""
    document = sweep_document(result)
    definition = result.definition
    head = [f"{definition['workload']} on {definition['machine']}, {len(result.points)} points: {result.count(DONE)} done"]
    head[0] += "".join(f", {result.count(status)} {status}" for status in (FAILED, MISSING) if result.count(status))
    axes = [name for name in result.axes if name != "seed"]
    packets = any(row["headlines"] and "packet_rate_pps" in row["headlines"] for row in document["rows"])
    shown = ["packet_rate_pps", "throughput_bps"] if packets else ["iterations_per_second"]
    shown += ["ns_per_iteration_per_cpu", "cpu_utilization"]
    header = axes + [cell for name in shown for cell in (LABELS[name][0], "")] + ["hottest function", "hottest line"]
    rows = []
    for row in document["rows"]:
        cells = [str(row["at"][name]) for name in axes]
        for name in shown:
            _, factor, unit = LABELS[name]
            known = row["headlines"] and name in row["headlines"]
            cells += plus_minus(row["headlines"][name], factor, unit) if known else ["-", ""]
        rows.append([*cells, *_hottest(row)])
    blocks = [head, table(header, rows, ">" * len(axes) + "><" * len(shown) + "<<")]
    clocks = [f"{_where(row['at'])}: {line}" for row in document["rows"] for line in _clocks(row.get("clocks", []), "run")]
    blocks += [clocks] if clocks else []
    for row in document["rows"]:
        blocks += [[f"failed: {_where(row['at'])}, seed {f['seed']}: {f['message'].splitlines()[0]}"] for f in row["failed"]]
    blocks += [_usl(at, fit) for at, fit in fits(result)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _hottest(row: dict[str, Any]) -> list[str]:
    if not row["done"]:
        return ["failed" if row["failed"] else "missing", ""]
    function = row["functions"][0] if row["functions"] else None
    line = row["lines"][0] if row["lines"] and row["lines"][0]["stall_share"]["mean"] else None
    return [
        f"{100 * function['share']['mean']:.1f}% {shorten(function['name'], NAME_WIDTH)}" if function else "-",
        f"{100 * line['stall_share']['mean']:.1f}% {line['object']}+{line['offset']}" if line else "-",
    ]


def _where(at: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in at.items()) or "all"


def _usl(at: Mapping[str, Any], fit: UslFit) -> list[str]:
    def parameter(value: float, error: float | None, digits: int) -> str:
        return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error is not None else " (at its bound)" if not value else "")

    title = "Universal Scalability Law, standard errors" + (f": {_where(at)}" if at else "")
    error = "" if fit.lambda_stderr is None else f" ± {count(fit.lambda_stderr)}"
    sigma, kappa = parameter(fit.sigma, fit.sigma_stderr, 4), parameter(fit.kappa, fit.kappa_stderr, 5)
    peak = "never falls" if fit.peak is None else f"peak {count(fit.peak_rate)}/s at {fit.peak:.1f} CPUs"
    return [
        title,
        f"  lambda {count(fit.lambda_)}{error}/s, sigma {sigma}, kappa {kappa}",
        f"  {peak}; R^2 {fit.r_squared:.4f} over {fit.points} CPU counts",
    ]
