"""One counter on a Xeon X5550, incremented by 1 to 8 threads: atomically, plainly, and each its own (perfbook's counting chapter).

    python analysis/x5550_counter.py [-o analysis/out]
"""
from __future__ import annotations

from pathlib import Path

import click
import published
from comparison import EMULATED, MEASURED, RANGE, Comparison, Row, show, write
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cohsim.experiment import prepare

THREADS = tuple(range(1, 9))        # the machine file has one socket of four cores with two threads each
COUNTERS = (("atomic_inc", "one counter, lock; inc", published.X5550_ATOMIC), ("plain_inc", "one counter, plain ++", published.X5550_PLAIN),
            ("private_inc", "a counter each, lock; inc", published.X5550_PRIVATE))
CALIBRATED_AT = ("atomic_inc", 2)   # machines/xeon_x5550.yaml, source `split`


def emulate(workload: str, threads: int) -> float:
    """Nanoseconds per increment and thread; threads run on CPUs 0..N-1: cores first, siblings from the fifth on."""
    result = prepare("xeon_x5550", f"micro/{workload}", cpus=threads).run()
    return result.number("/run/measured_fs") / 1e6 * threads / int(result.array("/threads/iterations").sum())


def _role(workload: str, threads: int) -> str:
    """A lone locked increment is the machine file's own figure (20 cycles, measured by others)."""
    if threads > published.X5550_ONE_SOCKET:
        return "other topology"
    if threads == 1 and workload != "plain_inc":
        return "stated"
    return "calibrated" if (workload, threads) == CALIBRATED_AT else "predicted"


def produce(out: Path) -> Comparison:
    """Run every counter at every thread count; write the table and the picture."""
    rows = []
    curves: dict[str, list[float]] = {}
    for workload, title, measured in COUNTERS:
        curves[workload] = [emulate(workload, n) for n in THREADS]
        for n, ns in zip(THREADS, curves[workload], strict=True):
            role = _role(workload, n)
            rows.append(Row(f"{title}, {n} thread{'s' if n > 1 else ''}", "ns", measured[n].mean, ns, role, 2))
    note = (f"Up to {published.X5550_ONE_SOCKET} threads both machines may use one socket with one thread per core. Beyond, the measured "
            "machine has a second socket and the emulated one uses SMT siblings: the figures are shown, and do not compare.")
    comparison = Comparison("x5550_counter", "A counter on the Xeon X5550", published.PERFBOOK_X5550, rows, rows[1:4], note)
    return write(comparison, draw(curves), out)


def draw(curves: dict[str, list[float]]) -> Figure:
    """One panel for each counter: measured mean and range of samples, emulated points."""
    figure = Figure(figsize=(11, 3.7), layout="constrained")
    for axes, (workload, title, measured) in zip(figure.subplots(1, 3), COUNTERS, strict=True):
        _panel(axes, measured, curves[workload], title)
    return figure


def _panel(axes: Axes, measured: dict[int, published.Spread], emulated: list[float], title: str) -> None:
    shown = [n for n in measured if n <= max(THREADS)]
    spread = [measured[n].least for n in shown], [measured[n].greatest for n in shown]
    axes.fill_between(shown, *spread, color=RANGE, label="measured, range of samples")
    axes.plot(shown, [measured[n].mean for n in shown], "-D", color=MEASURED, markersize=5, label="measured, mean")
    axes.plot(THREADS, emulated, "-o", color=EMULATED, markersize=5, label="emulated")
    axes.axvline(published.X5550_ONE_SOCKET + 0.5, color="#888888", linewidth=0.8, linestyle=":")
    top = 1.15 * max(max(emulated), max(measured[n].greatest for n in shown))
    axes.annotate("second socket (measured)\nor siblings (emulated)", (published.X5550_ONE_SOCKET + 0.6, 0.03 * top), fontsize=7, color="#666666")
    within = [abs(e / measured[n].mean - 1) for n, e in zip(THREADS, emulated, strict=True) if n <= published.X5550_ONE_SOCKET]
    error = f"error up to {published.X5550_ONE_SOCKET} threads: mean {sum(within) / len(within):.0%}, largest {max(within):.0%}"
    axes.set_title(f"{title}\n{error}", fontsize=9)
    axes.set(xlabel="threads", ylabel="ns per increment and thread", ylim=(0, top))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="upper left")


@click.command(help=__doc__)
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("analysis/out"), show_default=True)
def main(output: Path) -> None:
    show(produce(output), output)


if __name__ == "__main__":
    main()
