"""IPv6 forwarding on the T4240 against the published report: rate over CPUs, and where the cycles go at 16 and 24.

    python analysis/ipv6_scaling.py -o out                       # runs cohsim for 1, 2, 4 ... 24 CPUs, then compares
    python analysis/ipv6_scaling.py -o out out/results/*.h5      # compares results that are there already

Writes ipv6_scaling.md, ipv6_scaling.csv and ipv6_scaling.png into the directory.
"""
from __future__ import annotations

import csv
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import comparison
import published
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cohsim.errors import CohsimError
from cohsim.results.hdf5 import read_result
from cohsim.results.summary import summarize

VIEWS = (("functions", "atomics inside their callers", published.IPV6_INLINED),
         ("primitives", "atomics on their own", published.IPV6_DEINLINED))
DEFAULT_JOBS = 2
DEFAULT_CPUS = (1, 2, 4, 8, 12, 16, 20, 24)
SIMULATED, PUBLISHED, ON_WIRE = comparison.EMULATED, comparison.MEASURED, "#e7b58a"


@dataclass(frozen=True)
class Row:
    """One compared figure. Shares are fractions, rates Gbit/s; ``published`` is None where the report has no figure."""

    quantity: str                # "rate" or the view of the profile
    cpus: int
    name: str
    simulated: float | None      # None: the symbol never ran
    published: float | None
    floor: float | None = None   # shares: where the published list stops

    @property
    def error(self) -> float | None:
        """Simulated minus published, in the unit of the row."""
        return None if self.published is None else (self.simulated or 0.0) - self.published

    @property
    def relative(self) -> float | None:
        """Error as a fraction of the published figure."""
        return None if self.published is None or self.error is None else self.error / self.published

    @property
    def verdict(self) -> str:
        """What a published list without this symbol says about the simulated share."""
        if self.published is not None or self.floor is None:
            return ""
        return "below the list, as published" if (self.simulated or 0.0) < self.floor else "on the list, published: not"


# ---------------------------------------------------------------------------------------------------------------- input

def simulate_all(cpus: tuple[int, ...], folder: Path, options: list[str], jobs: int) -> list[Path]:
    """One ``cohsim run`` for each number of CPUs; returns the result files. Raises ClickException naming the run that failed."""
    folder.mkdir(parents=True, exist_ok=True)

    def one(n: int) -> Path:
        output = folder / f"ipv6_fwd-{n:02d}.h5"
        command = [sys.executable, "-m", "cohsim", "run", "t4240", "ipv6_fwd", "--no-progress", *options]
        command += ["--cpus", str(n), "-o", str(output)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise click.ClickException(f"{' '.join(command[1:])} ended with {done.returncode}:\n{done.stderr.strip()}")
        click.echo(f"{n} CPUs: {output}", err=True)
        return output

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, sorted(cpus, reverse=True)))


def read_summaries(paths: list[Path], cpu: int | None) -> dict[int, dict[str, Any]]:
    """Summaries by number of CPUs; the profiles are those of CPU ``cpu`` if it is given.

    Raises ClickException for two results of one number of CPUs, and for a workload without packets.
    """
    found: dict[int, dict[str, Any]] = {}
    for path in paths:
        try:
            result = read_result(path)
            summary = summarize(result)
            if cpu is not None:
                one = summarize(result, cpu)
                summary |= {view: one[view] for view, _, _ in VIEWS}
        except CohsimError as error:
            raise click.ClickException(str(error)) from error
        if summary["throughput_bps"] is None:
            raise click.ClickException(f"{path}: the workload has no packet source, so no rate; give results of ipv6_fwd")
        if summary["cpus"] in found:
            raise click.ClickException(f"{path}: a second result with {summary['cpus']} CPUs; give one for each number")
        found[summary["cpus"]] = summary
    return dict(sorted(found.items()))


# ----------------------------------------------------------------------------------------------------------- comparison

def rate_rows(summaries: dict[int, dict[str, Any]]) -> list[Row]:
    """Forwarding rate of all CPUs in Gbit/s of frames, one row for each number of CPUs."""
    return [Row("rate", cpus, "forwarding rate", summary["throughput_bps"] / 1e9, published.IPV6_GBPS.get(cpus))
            for cpus, summary in summaries.items()]


def share_rows(summary: dict[str, Any], view: str, shares: tuple[published.Share, ...]) -> list[Row]:
    """Published symbols first, then whatever the simulation has above the floor of the published list and the report has not."""
    cpus = summary["cpus"]
    floor = published.IPV6_FLOOR[cpus]
    simulated = {row["name"]: row["share"] for row in summary[view]}
    rows = [Row(view, cpus, share.symbol, simulated.get(share.symbol), share.by_threads[cpus], floor) for share in shares]
    listed = {share.symbol for share in shares}
    unlisted = {name: share for name, share in simulated.items() if name not in listed and share >= floor}
    return rows + [Row(view, cpus, name, share, None, floor) for name, share in unlisted.items()]


def compare(summaries: dict[int, dict[str, Any]]) -> list[Row]:
    """Every compared figure."""
    rows = rate_rows(summaries)
    for view, _, shares in VIEWS:
        for cpus in published.IPV6_GBPS:
            if cpus in summaries:
                rows += share_rows(summaries[cpus], view, shares)
    return rows


# --------------------------------------------------------------------------------------------------------------- output

def role(cpus: int) -> str:
    """Whether the published figure may have been fitted."""
    return "calibrated" if cpus == published.IPV6_CALIBRATED_AT else "predicted"


def markdown(rows: list[Row], summaries: dict[int, dict[str, Any]]) -> str:
    """The comparison as Markdown tables."""
    lines = ["# IPv6 forwarding on the T4240: simulated and published", "", f"Published: {published.IPV6_SOURCE}.", "",
             "## Forwarding rate", "",
             "| CPUs | simulated Mpacket/s | simulated Gbit/s | published Gbit/s | error Gbit/s | relative | |",
             "|---:|---:|---:|---:|---:|---:|---|"]
    for row in (r for r in rows if r.quantity == "rate"):
        gbps = row.simulated or 0.0
        figures = (f"{gbps * 1e3 / (8 * published.IPV6_FRAME_BYTES):.2f}", f"{gbps:.2f}", _number(row.published, ".2f"),
                   _number(row.error, "+.2f"), _number(row.relative, "+.0%"), role(row.cpus) if row.published is not None else "")
        lines.append(f"| {row.cpus} | {' | '.join(figures)} |")
    lines += ["", _accounting()]
    for view, title, _ in VIEWS:
        for cpus in published.IPV6_GBPS:
            chosen = [r for r in rows if r.quantity == view and r.cpus == cpus]
            if chosen:
                lines += ["", f"## Share of busy cycles, {title}: {cpus} CPUs ({role(cpus)})", "", *_share_table(chosen)]
    lines += ["", "## Assumptions", "", *(f"- {text}" for text in _assumptions(summaries))]
    return "\n".join(lines) + "\n"


def _accounting() -> str:
    """What the published rates stand for, as the report does not say what they count."""
    rates = []
    for threads, gbps in published.IPV6_GBPS.items():
        less, more = (published.packets_per_second(gbps, overhead_counted=counted) / 1e6 for counted in (True, False))
        rates.append(f"{less:.2f} instead of {more:.2f} Mpacket/s at {threads}")
    return (f"Gbit/s count {published.IPV6_FRAME_BYTES}-byte frames. Should the published figures count "
            f"{published.IPV6_OVERHEAD_BYTES} bytes of preamble and gap as well, they stand for {', '.join(rates)}.")


def _share_table(rows: list[Row]) -> list[str]:
    lines = ["| symbol | simulated % | published % | error, points | relative | |", "|---|---:|---:|---:|---:|---|"]
    for row in rows:
        below = f"< {100 * row.floor:.1f}" if row.floor is not None else ""
        lines.append(f"| `{row.name}` | {100 * (row.simulated or 0.0):.2f} | {_number(row.published, '.2f', 100, below)} "
                     f"| {_number(row.error, '+.2f', 100)} | {_number(row.relative, '+.0%')} | {row.verdict} |")
    errors = [abs(r.relative) for r in rows if r.relative is not None]
    if errors:
        lines += ["", f"Mean relative error of the {len(errors)} published figures: {sum(errors) / len(errors):.0%}."]
    return lines


def _number(value: float | None, style: str, scale: float = 1.0, missing: str = "") -> str:
    return missing if value is None else format(value * (1.0 if "%" in style else scale), style)


def _assumptions(summaries: dict[int, dict[str, Any]]) -> list[str]:
    seen = dict.fromkeys(text for summary in summaries.values() for text in summary["assumptions"])
    return list(seen) or ["none stated"]


def write_csv(rows: list[Row], path: Path) -> None:
    """One line a figure; shares are fractions, rates Gbit/s."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["quantity", "cpus", "name", "simulated", "published", "error", "relative_error", "published_floor", "note"])
        for r in rows:
            figures = (r.simulated, r.published, r.error, r.relative, r.floor)
            out.writerow([r.quantity, r.cpus, r.name, *("" if v is None else f"{v:.6g}" for v in figures), r.verdict])


def draw(rows: list[Row], path: Path) -> None:
    """Rate over CPUs on the left, de-inlined shares at 16 and 24 CPUs on the right."""
    columns = [n for n in published.IPV6_GBPS if any(r.quantity == "primitives" and r.cpus == n for r in rows)]
    figure = Figure(figsize=(5.4 + 4.2 * len(columns), 4.2), layout="constrained")    # not pyplot: no display, no state
    axes = figure.subplots(1, 1 + len(columns), squeeze=False, width_ratios=[1.25] + [1.0] * len(columns))
    _draw_rate(axes[0][0], [r for r in rows if r.quantity == "rate"])
    shares = [r for r in rows if r.quantity == "primitives"]
    widest = max((100 * max(r.simulated or 0.0, r.published or 0.0) for r in shares), default=0.0)
    for axis, cpus in zip(axes[0][1:], columns, strict=True):
        _draw_shares(axis, [r for r in shares if r.cpus == cpus], cpus, 1.1 * widest)
    figure.savefig(path, dpi=comparison.DPI, metadata={"Software": None})


def _draw_rate(axis: Axes, rows: list[Row]) -> None:
    axis.plot([r.cpus for r in rows], [r.simulated or 0.0 for r in rows], "-o", color=SIMULATED, label="simulated")
    points = published.IPV6_GBPS
    on_wire = published.IPV6_FRAME_BYTES / (published.IPV6_FRAME_BYTES + published.IPV6_OVERHEAD_BYTES)
    axis.plot(list(points), list(points.values()), "D", color=PUBLISHED, markersize=8, label="published, 78-byte frames")
    axis.plot(list(points), [g * on_wire for g in points.values()], "D", markerfacecolor="none", color=ON_WIRE, markersize=8,
              label="published, if 20 B on the wire count")
    errors = {r.cpus: r.relative for r in rows if r.relative is not None}
    for cpus, gbps in points.items():
        label = role(cpus) + (f"\nerror {errors[cpus]:+.1%}" if cpus in errors else "")
        axis.annotate(label, (cpus, gbps), (-8, -3), textcoords="offset points", ha="right", va="top", fontsize=8, color=PUBLISHED)
    axis.set(xlabel="CPUs (hardware threads)", ylabel="forwarding rate, Gbit/s", title="IPv6 forwarding, T4240", xlim=(0, 27))
    axis.set_ylim(0, 1.15 * max([r.simulated or 0.0 for r in rows] + list(points.values())))
    axis.set_xticks(sorted({r.cpus for r in rows} | set(points)))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, loc="lower right")


def _draw_shares(axis: Axes, rows: list[Row], cpus: int, limit: float) -> None:
    heights = range(len(rows))
    axis.barh([h - 0.2 for h in heights], [100 * (r.simulated or 0.0) for r in rows], 0.38, color=SIMULATED, label="simulated")
    axis.barh([h + 0.2 for h in heights], [100 * (r.published or 0.0) for r in rows], 0.38, color=PUBLISHED, label="published")
    for h, row in zip(heights, rows, strict=True):
        if row.published is None and row.floor is not None:
            axis.annotate(f"not listed (< {100 * row.floor:.1f} %)", (0.4, h + 0.2), va="center", fontsize=7, color=PUBLISHED)
    axis.set_yticks(list(heights), [r.name for r in rows], fontsize=8)
    axis.invert_yaxis()
    axis.set(xlabel="share of busy cycles, %", title=f"{cpus} CPUs ({role(cpus)})", xlim=(0, limit))
    axis.grid(axis="x", alpha=0.3)
    axis.legend(fontsize=8, loc="lower right")


def produce(out: Path) -> comparison.Comparison:
    """Run the default CPU counts (results are kept in ``out``/results); write the table, the figures as CSV and the picture."""
    summaries = read_summaries(simulate_all(DEFAULT_CPUS, out / "results", [], DEFAULT_JOBS), None)
    rows = compare(summaries)
    _write(rows, summaries, out)
    headlines = [comparison.Row(f"IPv6 forwarding, {r.cpus} threads", "Gbit/s", r.published, r.simulated or 0.0, role(r.cpus), 2)
                 for r in rows if r.quantity == "rate" and r.published is not None]
    predicted = max(published.IPV6_GBPS)
    headlines += [comparison.Row(f"`{r.name}`, {r.cpus} threads", "% of cycles", 100 * r.published, 100 * (r.simulated or 0.0), role(r.cpus))
                  for r in rows if r.quantity == "primitives" and r.cpus == predicted and r.published is not None]
    return comparison.Comparison("ipv6_scaling", "IPv6 forwarding on the T4240", published.IPV6_SOURCE, headlines, headlines,
                                 pictures=["ipv6_scaling.png"])


def _write(rows: list[Row], summaries: dict[int, dict[str, Any]], output: Path) -> str:
    """The three files; returns the Markdown."""
    text = markdown(rows, summaries)
    (output / "ipv6_scaling.md").write_text(text, encoding="utf-8")
    write_csv(rows, output / "ipv6_scaling.csv")
    draw(rows, output / "ipv6_scaling.png")
    return text


# -------------------------------------------------------------------------------------------------------------- command

def _cpu_counts(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(,\d+)*", value) or any(not 1 <= int(n) <= 24 for n in value.split(",")):
        raise click.BadParameter(f"{value!r} is not a list of CPU counts from 1 to 24; write 1,2,4,8,16,24")
    return tuple(dict.fromkeys(int(n) for n in value.split(",")))


@click.command()
@click.argument("results", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("ipv6_scaling"), show_default=True,
              help="Directory for the table, the picture and new results.")
@click.option("--cpus", callback=_cpu_counts, default=",".join(map(str, DEFAULT_CPUS)), show_default=True,
              help="Numbers of CPUs to run when no results are given.")
@click.option("--cpu", type=int, help="Profiles of this CPU alone, as the report took them of CPU 1 (default: all).")
@click.option("--variant", "variants", multiple=True, help="Variant of the workload, for new runs; repeatable.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Machine value, for new runs; repeatable.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of new runs.")
@click.option("--jobs", type=click.IntRange(min=1), default=DEFAULT_JOBS, show_default=True, help="Runs at a time.")
def main(results: tuple[Path, ...], output: Path, cpus: tuple[int, ...], cpu: int | None, variants: tuple[str, ...],
         overrides: tuple[str, ...], seed: int, jobs: int) -> None:
    """Compare simulated IPv6 forwarding with the published report.

    RESULTS are files that `cohsim run t4240 ipv6_fwd --cpus N -o FILE` wrote; without any, the runs are made first.
    """
    if results and (variants or overrides):
        raise click.UsageError("--variant and --set are for new runs; leave them out when results are given")
    options = ["--seed", str(seed), *(part for v in variants for part in ("--variant", v)),
               *(part for v in overrides for part in ("--set", v))]
    output.mkdir(parents=True, exist_ok=True)
    paths = list(results) or simulate_all(cpus, output / "results", options, jobs)
    summaries = read_summaries(paths, cpu)
    rows = compare(summaries)
    click.echo(_write(rows, summaries, output), nl=False)


if __name__ == "__main__":
    main()
