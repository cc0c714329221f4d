"""IPv4 forwarding with and without VLAN devices on the Core i7 against the published report: rate and CPU use of its four configurations.

    python analysis/vlan_forwarding.py                       # the report's table: 5 Mpacket/s with back-pressure, and the highest rate without loss
    python analysis/vlan_forwarding.py --answer              # the same with the VLAN device of 2.6.32 (multiqueue) and of 2.6.38 (lltx)
    python analysis/vlan_forwarding.py --assumptions         # what each assumption of the workload does to the egress row

Simulations run on all host cores. On two of them the report's table takes about six minutes, --answer four, --assumptions eight.
"""
from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import published
from comparison import EMULATED, MEASURED, Comparison, Row, show, write
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cohsim.errors import CohsimError
from cohsim.loadsearch import max_no_loss
from cohsim.sweep.backends import host_cores
from cohsim.sweep.point import Outcome, Point, run_point

OFFERED_PPS = 5e6
LOSS_FREE_PPS = 1.25e6
"""About 95 % of the rate at which the egress VLAN's search ends: every assumption that costs something shows as loss."""

CONFIGURATIONS: dict[tuple[bool, bool], tuple[str, ...]] = {
    (False, False): (), (True, False): ("ingress_vlan",), (False, True): ("egress_vlan",), (True, True): ("ingress_vlan", "egress_vlan")}
OVERLOAD, NO_LOSS = "5 Mpacket/s offered, back-pressure", "highest rate without loss"
CALIBRATED = (False, False)
DEVICES = ("multiqueue", "lltx")
ASSUMPTIONS = ("flow_control_none", "rx_drop_en", "flows1", "flows64", "completion_elsewhere", "completion_cpu0", "itr_low", "ring512", "salt2",
               "hz1000")
TRIAL_MS = (15, 3)
"""Warm-up and measurement below saturation, where nothing happens in cycles of 500 packets; otherwise the workload's own."""


@dataclass(frozen=True)
class Case:
    """One run of the workload with 8 CPUs, or one search if ``pps`` is None. ``window_ms``: None is what the workload states."""

    variants: tuple[str, ...]
    pps: float | None
    window_ms: tuple[int, int] | None = None

    @property
    def point(self) -> Point:
        """The run; for a search the run of its first trial."""
        warmup, measure = (ms * 1e6 for ms in self.window_ms) if self.window_ms else (None, None)
        return Point("corei7", "vlan_fwd", cpus=8, variants=self.variants, warmup_ns=warmup, measure_ns=measure, load_pps=self.pps or OFFERED_PPS)


@dataclass(frozen=True)
class Figures:
    """What is compared. Shares are fractions of one CPU's time, ``cpu`` and ``spinning`` of the time of all 8."""

    mpps: float
    cpu: float
    busiest: float
    second: float
    spinning: float
    dropped: int
    paused: float

    @classmethod
    def of(cls, summary: dict[str, Any]) -> Figures:
        """From a summary, as ``cohsim run --json`` writes it."""
        second, busiest = sorted(summary["cpu_utilization_per_cpu"])[-2:]
        spinning = summary["time_shares"]["spin"] * summary["cpu_utilization"]
        return cls(summary["packet_rate_pps"] / 1e6, summary["cpu_utilization"], busiest, second, spinning, summary["dropped"], summary["paused"])

    def cells(self) -> list[str]:
        """Of a Markdown table, below COLUMNS."""
        shares = (self.cpu, self.busiest, self.second, self.spinning, self.paused)
        return [f"{self.mpps:.2f}", *(f"{100 * share:.1f}" for share in shares), f"{self.dropped:,}"]


COLUMNS = ("Mpacket/s", "CPU %", "busiest %", "second %", "spinning %", "paused %", "dropped")


# ----------------------------------------------------------------------------------------------------------------- runs

def simulate(case: Case) -> Outcome:
    """Run or search, in a worker process; a search gives the outcome of its best trial."""
    if case.pps is not None:
        return run_point(case.point)

    def trial(rate: float) -> Outcome:
        outcome = run_point(replace(case.point, load_pps=rate))
        if outcome.summary is None:
            raise CohsimError(f"{' '.join(case.variants)} at {rate:.0f} packet/s: {outcome.message}")
        return outcome

    found: Outcome = max_no_loss(trial, lambda outcome: outcome.summary, OFFERED_PPS).best
    return found


def figures(cases: Iterable[Case]) -> dict[Case, Figures]:
    """Run each different case once, on all host cores. Raises CohsimError naming the case that failed."""
    todo = list(dict.fromkeys(cases))
    found = {}
    with ProcessPoolExecutor(min(host_cores(), len(todo))) as pool:
        for case, outcome in zip(todo, pool.map(simulate, todo), strict=True):
            if outcome.summary is None:
                raise CohsimError(f"vlan_fwd {' '.join(case.variants)}: {outcome.message}")
            found[case] = Figures.of(outcome.summary)
            click.echo(f"vlan_fwd {' '.join(case.variants)}: {found[case].mpps:.3f} Mpacket/s, CPU {100 * found[case].cpu:.1f} %", err=True)
    return found


def table_cases() -> dict[tuple[tuple[bool, bool], str], Case]:
    """The report's table at both loads. Without egress VLAN nothing is lost at the whole offered load, so both are one run."""
    cases = {}
    for at, variants in CONFIGURATIONS.items():
        egress = at[1]
        cases[at, OVERLOAD] = Case(variants, OFFERED_PPS if egress else None)
        cases[at, NO_LOSS] = Case(variants, None, TRIAL_MS if egress else None)
    return cases


def answer_cases() -> dict[str, Case]:
    """The egress rows with later VLAN devices, at the whole offered load."""
    return {" ".join((*CONFIGURATIONS[at], device)): Case((*CONFIGURATIONS[at], device), OFFERED_PPS)
            for at in CONFIGURATIONS if at[1] for device in DEVICES}


def assumption_cases(pps: float) -> dict[str, Case]:
    """The egress row with one assumption changed at a time."""
    window = None if pps == OFFERED_PPS else TRIAL_MS
    return {"as assumed": Case(("egress_vlan",), pps, window), **{name: Case(("egress_vlan", name), pps, window) for name in ASSUMPTIONS}}


# --------------------------------------------------------------------------------------------------------------- output

def named(at: tuple[bool, bool]) -> str:
    """A configuration as the report's table names it: ingress/egress."""
    return "/".join("yes" if vlan else "no" for vlan in at)


def rows(found: dict[tuple[tuple[bool, bool], str], Figures]) -> list[Row]:
    """Every figure; the report does not say at which of the two loads it was measured, so each is compared at both."""
    lines = []
    for (at, load), f in found.items():
        rate, cpu = published.VLAN_MPPS[at], published.VLAN_CPU_PERCENT[at]
        what = f"ingress/egress VLAN {named(at)}, {load}"
        lines += [Row(f"{what}: rate", "Mpacket/s", rate, f.mpps, "offered" if rate == OFFERED_PPS / 1e6 else "predicted", 2),
                  Row(f"{what}: CPU, mean of 8", "%", cpu, 100 * f.cpu, "calibrated" if at == CALIBRATED else "predicted"),
                  Row(f"{what}: busiest CPU", "%", None, 100 * f.busiest, "predicted"),
                  Row(f"{what}: second busiest", "%", None, 100 * f.second, "predicted")]
    return lines


def named_table(found: dict[str, Figures]) -> str:
    """One row for each name."""
    head = [f"| | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    return "\n".join([*head, *(f"| {name} | {' | '.join(f.cells())} |" for name, f in found.items())]) + "\n"


def draw(found: dict[tuple[tuple[bool, bool], str], Figures]) -> Figure:
    """Rate, CPU use and the two busiest CPUs of each configuration."""
    figure = Figure(figsize=(11, 4.1), layout="constrained")
    rate, cpu, busiest = figure.subplots(1, 3)
    _bars(rate, "forwarded", "Mpacket/s", {"published": list(published.VLAN_MPPS.values()), **_series(found, lambda f: f.mpps)})
    _bars(cpu, "CPU use, mean of 8 threads", "%", {"published": list(published.VLAN_CPU_PERCENT.values()), **_series(found, lambda f: 100 * f.cpu)})
    _bars(busiest, "the busiest CPU, and the second (line)", "%", _series(found, lambda f: 100 * f.busiest))
    for n, values in enumerate(_series(found, lambda f: 100 * f.second).values()):
        places = [i + (n - 0.5) * 0.4 for i in range(len(CONFIGURATIONS))]
        busiest.hlines(values, [x - 0.17 for x in places], [x + 0.17 for x in places], color="black", linewidth=1.5)
    figure.legend(*rate.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _series(found: dict[tuple[tuple[bool, bool], str], Figures], value: Any) -> dict[str, list[float]]:
    return {load: [value(found[at, load]) for at in CONFIGURATIONS] for load in (OVERLOAD, NO_LOSS)}


def _bars(axes: Axes, title: str, unit: str, series: dict[str, list[float]]) -> None:
    colours = {"published": MEASURED, OVERLOAD: EMULATED, NO_LOSS: "#86b3e0"}
    width = 0.8 / len(series)
    for n, (name, values) in enumerate(series.items()):
        places = [i + (n - (len(series) - 1) / 2) * width for i in range(len(values))]
        axes.bar(places, values, width * 0.92, color=colours[name], label=name)
    axes.set(title=title, ylabel=unit, xlabel="VLAN device on ingress/egress")
    axes.set_xticks(range(len(CONFIGURATIONS)), [named(at) for at in CONFIGURATIONS])
    axes.grid(alpha=0.3, axis="y")


NOTE = """The report gives a rate, a CPU use and "one thread does all the work" with an egress VLAN, not the load. The emulator has them at two loads:
at the highest rate without loss the rate fits, CPU use is nearer and no thread is saturated; at 5 Mpacket/s, the port held back by one receive
ring, exactly one thread is saturated, and the others spin for the VLAN transmit lock, which is the excess of CPU use. docs/vlan_fwd.md has the
mechanism."""


def compared(found: dict[tuple[tuple[bool, bool], str], Figures], out: Path) -> Comparison:
    """Write the table and the picture of figures that are there."""
    lines = rows(found)
    shown = [row for row in lines if "no/yes" in row.what and row.measured is not None]
    return write(Comparison("vlan_forwarding", "VLAN forwarding on the Core i7", published.VLAN_SOURCE, lines, shown, NOTE), draw(found), out)


def produce(out: Path) -> Comparison:
    """Run the report's table at both loads; write the table and the picture."""
    cases = table_cases()
    found = figures(cases.values())
    return compared({key: found[case] for key, case in cases.items()}, out)


@click.command(help=__doc__)
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("analysis/out"), show_default=True)
@click.option("--answer", is_flag=True, help="Later VLAN devices instead of the report's table.")
@click.option("--assumptions", is_flag=True, help="Changed assumptions instead of the report's table, at 1.25 Mpacket/s and at 5.")
def main(output: Path, answer: bool, assumptions: bool) -> None:
    tables = {"later VLAN devices, 5 Mpacket/s offered": answer_cases()} if answer else {}
    if assumptions:
        tables |= {f"{pps / 1e6:g} Mpacket/s offered": assumption_cases(pps) for pps in (LOSS_FREE_PPS, OFFERED_PPS)}
    try:
        if not tables:
            comparison = produce(output)
            show(comparison, output)
        for title, cases in tables.items():
            found = figures(cases.values())
            click.echo(f"{title}\n\n{named_table({name: found[case] for name, case in cases.items()})}")
    except CohsimError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
