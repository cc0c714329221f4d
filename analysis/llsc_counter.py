"""The shape of a contended counter under LL/SC: Power-5 and Graviton1 as published, the T4240 as emulated.

    python analysis/llsc_counter.py [-o analysis/out]

Nobody published this curve for the T4240. What can be compared is the growth: what an increment of one of N threads costs, relative to the
increment of a lone thread. The machines differ, so the distance is stated and nothing is claimed to be predicted.
"""
from __future__ import annotations

from pathlib import Path

import click
import published
from comparison import EMULATED, MEASURED, Comparison, Row, show, write
from matplotlib.figure import Figure

from cohsim.experiment import prepare

THREADS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24)
COMPARED = (2, 4, 8, 16, 24)
GRAVITON = "#6b8e23"


def emulate(threads: int, machine: str = "t4240") -> float:
    """Nanoseconds per increment and thread."""
    result = prepare(machine, "micro/atomic_inc", cpus=threads).run()
    return result.number("/run/measured_fs") / 1e6 * threads / int(result.array("/threads/iterations").sum())


def growth(curve: dict[int, float]) -> dict[int, float]:
    """Relative to one thread."""
    return {n: ns / curve[1] for n, ns in curve.items()}


def above_proportion(grown: dict[int, float]) -> int | None:
    """Least number of threads from which on the growth stays a fifth above the number of threads."""
    below = [n for n, cost in grown.items() if cost < 1.2 * n]
    return next((n for n in sorted(grown) if n > max(below)), None)


def produce(out: Path) -> Comparison:
    """Run the counter at every thread count; write the table and the picture."""
    emulated = {n: emulate(n) for n in THREADS}
    grown = growth(emulated)
    power5 = growth({n: s.mean for n, s in published.POWER5_ATOMIC.items()})
    graviton = growth(dict(published.GRAVITON1_ATOMIC))
    rows = [Row("lone thread, Power-5 and T4240 (the machines differ)", "ns", published.POWER5_ATOMIC[1].mean, emulated[1], "shape only")]
    for name, measured in (("Power-5", power5), ("Graviton1", graviton)):
        rows += [Row(f"growth to {n} threads, {name} and T4240", "x", measured[n], grown[n], "shape only") for n in COMPARED if n in measured]
    source = f"{published.POWER5_SOURCE}; {published.GRAVITON1_SOURCE}"
    starts = [(name, above_proportion(curve)) for name, curve in (("Power-5", power5), ("Graviton1", graviton), ("T4240, emulated", grown))]
    note = ("All relative to one thread. The cost of an increment exceeds the number of threads by a fifth or more "
            + ", ".join(f"from {n} threads on ({name})" if n else f"nowhere ({name})" for name, n in starts)
            + "; a locked increment on x86 does not, its cost grows in proportion.")
    headlines = [row for row in rows if " 8 threads" in row.what]
    comparison = Comparison("llsc_counter", "A counter under LL/SC: the shape of the curve", source, rows, headlines, note)
    return write(comparison, draw(grown, power5, graviton), out)


def draw(emulated: dict[int, float], power5: dict[int, float], graviton: dict[int, float]) -> Figure:
    """Growth over threads, both axes logarithmic, with the proportional line that x86 follows."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(list(power5), list(power5.values()), "-D", color=MEASURED, markersize=5, label="Power-5, measured")
    axes.plot(list(graviton), list(graviton.values()), "-s", color=GRAVITON, markersize=4, label="Graviton1 (clusters of 4), measured")
    axes.plot(list(emulated), list(emulated.values()), "-o", color=EMULATED, markersize=5, label="T4240 (clusters of 8 threads), emulated")
    axes.plot([1, 24], [1, 24], ":", color="#888888", label="in proportion to threads")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([1, 2, 4, 8, 16, 24], ["1", "2", "4", "8", "16", "24"])
    axes.set(xlabel="threads", ylabel="cost of an increment, relative to one thread", title="Contended atomic_inc by LL/SC")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    return figure


@click.command(help=__doc__)
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("analysis/out"), show_default=True)
def main(output: Path) -> None:
    show(produce(output), output)


if __name__ == "__main__":
    main()
