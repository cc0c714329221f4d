"""Stacked VLAN devices on a 1 Gbit/s igb: netperf with segmentation in software (before) and by the NIC (after), against the report.

    python analysis/vlan_tso.py [-o analysis/out]
    python analysis/vlan_tso.py --sensitivity       # also: what placement, copy, clock, an IOMMU and the number of CPUs do
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import published
from comparison import EMULATED, MEASURED, Comparison, Row, show, write
from matplotlib.figure import Figure

from cohsim.experiment import prepare
from cohsim.results.summary import summarize

CPUS = 2
"""The report does not say; docs/vlan_tso.md has the arithmetic."""
GOVERNOR = "ondemand-3.17"          # of Linux 4.0, the default of most distributions' kernels for this processor
MSS = 1448
SEGMENTS = 45                       # of a super-packet: (65536 - 1 - 320) / 1448
VARIANTS = {"before": (), "after": ("tso",)}
COUNTS = (                          # counter, what it is, facts/kernel_paths.md 3.3: software test 1, software test 2, by the NIC
    ("alloc_skb", "sk_buff allocations", "46", "46", "1"),
    ("alloc_skb_data", "data allocations", "46", "46", "1"),
    ("get_page_frag", "page references taken", "47", "47", "0"),
    ("put_page_frag", "page references given back", "49-50", "49-50", "2-3"),
    ("wmem_alloc_add", "`sk_wmem_alloc` add", "1 (+1)", "1 (+1)", "1"),
    ("wmem_alloc_sub", "`sk_wmem_alloc` sub", "45", "45", "1"),
    ("wmem_alloc_free", "`sk_wmem_alloc` dec (`sk_free`)", "", "", ""),
    ("root_lock", "qdisc root lock", "2", "90", "2"),
    ("xmit_lock", "`_xmit_lock`", "1", "45", "1"),
    ("tx_doorbell", "doorbells", "1", "45", "1"),
    ("tx_descriptor", "descriptors", "100-110", "100-110", "5-6"),
    ("slub_free_slow", "slow frees (locked compare and exchange)", "", "", ""),
    ("slub_alloc_slow", "slow allocations", "", "", ""),
    ("bql_stopped", "BQL stopped the queue", "", "", ""),
    ("qdisc_requeue", "rest of a list put back", "", "", ""),
)
SENSITIVITY = (                     # what is changed, CPUs, variants, governor
    ("as shipped", CPUS, (), GOVERNOR),
    ("2.67 GHz, the nominal clock", CPUS, (), "performance"),
    ("DMA through an IOMMU", CPUS, ("iommu",), GOVERNOR),
    ("an acknowledgement for every fourth segment", CPUS, ("stretched_acks",), GOVERNOR),
    ("both", CPUS, ("iommu", "stretched_acks"), GOVERNOR),
    ("receiver interrupted by every segment", CPUS, ("prompt_peer",), GOVERNOR),
    ("copy at 16 bytes a cycle", CPUS, ("fast_copy",), GOVERNOR),
    ("slow copy", CPUS, ("slow_copy",), GOVERNOR),
    ("transmit vector with the acknowledgements", CPUS, ("tx_with_acks",), GOVERNOR),
    ("all on one of the two CPUs", CPUS, ("same_cpu",), GOVERNOR),
    ("3 CPUs", 3, (), GOVERNOR),
    ("4 CPUs", 4, (), GOVERNOR),
    ("4 CPUs, transmit vector with the process", 4, ("tx_with_process",), GOVERNOR),
)


@dataclass(frozen=True)
class Run:
    """``mbps``: payload as netperf counts it, 10^6 bit/s; ``sys``: 1 - idle, mean of the CPUs; ``clock_hz``: of the cores; ``counted``: per
    super-packet."""

    mbps: float
    sys: float
    clock_hz: float
    counted: dict[str, float]


def emulate(test: str, kernel: str, cpus: int = CPUS, variants: tuple[str, ...] = (), governor: str = GOVERNOR) -> Run:
    """One run at the workload's own times. Every frame that is sent carries a full segment, so payload is frames times MSS."""
    chosen = (test, *VARIANTS[kernel], *variants)
    result = prepare("corei7", "vlan_tso", cpus=cpus, variants=chosen, governor=governor).run()
    summary = summarize(result)
    supers = summary["iterations"] / SEGMENTS
    counted = {k: v / supers for k, v in summary["counters"].items()}
    return Run(summary["packet_rate_pps"] * MSS * 8 / 1e6, summary["cpu_utilization"], summary["clock"]["core_hz"], counted)


def role(test: str, kernel: str) -> str:
    return "calibrated" if (test, kernel) == published.STACKED_VLAN_CALIBRATED_AT else "predicted"


def rows_of(runs: dict[tuple[str, str], Run]) -> list[Row]:
    """Rates, utilisations, and the ratio before / after of each test."""
    rows = []
    for key, run in runs.items():
        rows.append(Row(f"{key[0]} {key[1]}: throughput", "10^6 bit/s", published.STACKED_VLAN[key].mbps, run.mbps, "predicted", 1))
    for key, run in runs.items():
        rows.append(Row(f"{key[0]} {key[1]}: %sys", "%", 100 * published.STACKED_VLAN[key].sys, 100 * run.sys, role(*key), 2))
    for test in ("test1", "test2"):
        before, after = (test, "before"), (test, "after")
        measured = published.STACKED_VLAN[before].sys / published.STACKED_VLAN[after].sys
        rows.append(Row(f"{test}: %sys before / after", "", measured, runs[before].sys / runs[after].sys, "predicted", 2))
    return rows


def counts_table(runs: dict[tuple[str, str], Run]) -> list[str]:
    """Counted by the emulator for each super-packet, beside the counts of facts/kernel_paths.md 3.3 in brackets."""
    lines = ["| per super-packet | test1 before | test2 before | test1 after | test2 after |", "|---|---:|---:|---:|---:|"]
    columns = [("test1", "before"), ("test2", "before"), ("test1", "after"), ("test2", "after")]
    for counter, what, *source in COUNTS:
        source = [*source, source[-1]]
        cells = [f"{runs[c].counted[counter]:.1f}" + (f" ({s})" if s else "") for c, s in zip(columns, source, strict=True)]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return lines


def missing_table(runs: dict[tuple[str, str], Run]) -> list[str]:
    """What the report has and the model has not, as a cost of each thing that could have it."""
    head = ("run", "clock", "missing, % of one CPU", "cycles a segment", "cycles a byte of payload", "cycles an acknowledgement")
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for key, run in runs.items():
        missing = CPUS * (published.STACKED_VLAN[key].sys - run.sys)
        segment = missing * run.clock_hz / (run.mbps * 1e6 / 8 / MSS)
        clock, share = f"{run.clock_hz / 1e9:.2f} GHz", f"{100 * missing:.1f}"
        cells = (" ".join(key), clock, share, f"{segment:.0f}", f"{segment / MSS:.2f}", f"{2 * segment:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def produce(out: Path) -> Comparison:
    """The four runs; writes the table and the picture."""
    runs = {key: emulate(*key) for key in published.STACKED_VLAN}
    rows = rows_of(runs)
    note = "\n".join([
        f"Emulated: i7-920 restricted to {CPUS} CPUs, governor {GOVERNOR}. Throughput: frames sent in the measured time x {MSS} x 8. "
        "%sys: 1 - idle, mean of the CPUs.",
        "", "In brackets: what kernel_paths.md 3.3 counts in the source.", "", *counts_table(runs),
        "", "What the report has and the model has not:", "", *missing_table(runs)])
    comparison = Comparison("vlan_tso", "Stacked VLAN and segmentation offload", published.STACKED_VLAN_SOURCE, rows, rows[4:], note)
    return write(comparison, draw(runs), out)


def draw(runs: dict[tuple[str, str], Run]) -> Figure:
    """Utilisation of the four runs, published and emulated side by side."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    at = range(len(runs))
    axes.bar([i - 0.2 for i in at], [100 * published.STACKED_VLAN[key].sys for key in runs], 0.38, color=MEASURED, label="measured")
    axes.bar([i + 0.2 for i in at], [100 * run.sys for run in runs.values()], 0.38, color=EMULATED, label="emulated")
    axes.set_xticks(list(at), [f"{test}\n{kernel} ({role(test, kernel)})" for test, kernel in runs], fontsize=8)
    axes.set(ylabel="%sys, all CPUs", title="netperf at 936 Mbit/s over stacked VLAN devices")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def sensitivity() -> list[str]:
    """%sys of the four runs with one thing changed."""
    lines = ["| changed | test1 before | after | test2 before | after | ratio 1 | ratio 2 |", "|---|---:|---:|---:|---:|---:|---:|"]
    shown = [100 * s.sys for s in published.STACKED_VLAN.values()]
    todo = [("published", shown)]
    for what, cpus, variants, governor in SENSITIVITY:
        todo.append((what, [100 * emulate(*key, cpus, variants, governor).sys for key in published.STACKED_VLAN]))
    for what, v in todo:
        lines.append(f"| {what} | {' | '.join(f'{x:.2f}' for x in v)} | {v[0] / v[1]:.2f} | {v[2] / v[3]:.2f} |")
    return lines


@click.command(help=__doc__)
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("analysis/out"), show_default=True)
@click.option("--sensitivity", "vary", is_flag=True, help="Print the table of changes as well (52 runs).")
def main(output: Path, vary: bool) -> None:
    comparison = produce(output)
    show(comparison, output)
    if vary:
        click.echo("\n".join(["", *sensitivity()]))


if __name__ == "__main__":
    main()
