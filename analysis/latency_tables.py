"""Published latencies of Nehalem against the emulator: loads by level and by state, hand-offs, a contended counter.

    python analysis/latency_tables.py                            # writes docs/validation-latency.md; all.py writes it and a picture
    python analysis/latency_tables.py -o FILE

Every emulated figure comes from running a workload (no figure is read out of a machine file); the measured ones carry their source.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import comparison
import numpy as np
from matplotlib.figure import Figure

from cohsim.experiment import Experiment, prepare
from cohsim.machine import compile_machine, load_machine
from cohsim.results.rundata import RunData
from cohsim.simulate import simulate
from cohsim.uops import UOP, Fence, Flag, Op, uop
from cohsim.workload.compiled import CompiledWorkload

TARGET = Path(__file__).resolve().parent.parent / "docs" / "validation-latency.md"
RING_LOADS = 256     # dependent loads per iteration of micro/pointer_chase

INSTLAT = "InstLatx64, Nehalem-EP 2.67 GHz: measured"
MOLKA = "Molka et al., PACT 2009, X5570: recalled, not re-read"
GUIDE = "Intel guide via Stack Overflow 4087280: secondary"
PERFBOOK = "perfbook, X5550: measured"
C2C = "core-to-core-latency, X5650 (Westmere-EP): measured"


@dataclass(frozen=True)
class Row:
    """One compared figure; ``measured`` and ``emulate`` have the unit of the row's table."""

    what: str
    measured: float
    source: str
    emulate: Callable[[], float]


def run(experiment: Experiment) -> RunData:
    """Simulate an experiment as its workload says."""
    return simulate(experiment.machine, experiment.workload, pin=experiment.settings.pin)


def chase_cycles(machine: str, footprint: str) -> float:
    """Core cycles per load of a pointer chase (``micro/pointer_chase``, variant l1, l2, l3 or mem)."""
    e = prepare(machine, "micro/pointer_chase", cpus=1, variants=[footprint])
    d = run(e)
    return d.measured_fs / (int(d.iterations[0]) * RING_LOADS) / e.machine.core_period_fs


def state_cycles(machine: str, state: str) -> float:
    """Core cycles of one load of a line that other CPUs have in a state (``micro/load_latency``), from dispatch to use."""
    e = prepare(machine, "micro/load_latency", cpus=3 if state == "shared_state" else 2, variants=[state])
    d = run(e)
    fields = e.workload.fields
    load = [i for i, u in enumerate(e.workload.uops)
            if u["op"] == Op.LOAD and u["flags"] & Flag.DEP and u["field"] >= 0 and fields[u["field"]].object == "probe"]
    return float(d.time_fs[0, load].sum() / d.count[0, load].sum()) / e.machine.core_period_fs


def evicted_cycles(machine: str) -> float:
    """Core cycles of a load of a line that another core has modified and since lost from its L1 and L2 to newer lines of the set."""
    m = compile_machine(load_machine(machine))
    line = 0x40000
    stride = m.l2_sets * m.line_bytes
    owner = [uop(Op.STORE, base=line, size=8, imm=1), uop(Op.FENCE, imm=Fence.FULL)]
    owner += [uop(Op.LOAD, base=line + i * stride, size=8) for i in range(1, m.l2_ways + 1)] + [uop(Op.HALT)]
    reader = [uop(Op.WORK, imm=50_000), uop(Op.LOAD, base=line, size=8), uop(Op.FENCE, imm=Fence.LOAD), uop(Op.HALT)]
    w = CompiledWorkload("evicted", "", m.isa, 2, (), np.array(reader + owner, UOP), np.array([0, len(reader)], np.int32), [], [], [], [],
                         warmup_ns=0.0, measure_ns=1e6)
    return float(simulate(m, w).time_fs[0, 1].sum()) / m.core_period_fs


def increment_ns(workload: str, cpus: int) -> float:
    """Nanoseconds per increment and CPU on the X5550."""
    d = run(prepare("xeon_x5550", f"micro/{workload}", cpus=cpus))
    return d.measured_fs / 1e6 * cpus / int(d.iterations.sum())


def hand_off_ns(pin: tuple[int, int]) -> float:
    """One way of the compare-and-swap ping-pong between two CPUs of the X5550."""
    d = run(prepare("xeon_x5550", "micro/ping_pong", pin=pin))
    return d.measured_fs / 1e6 / int(d.iterations[0]) / 2


def memory_ns(machine: str) -> float:
    """The pointer chase beyond the last cache, in nanoseconds."""
    m = compile_machine(load_machine(machine))
    return chase_cycles(machine, "mem") * m.core_period_fs / 1e6


CYCLES = (
    Row("L1", 4, INSTLAT, partial(chase_cycles, "corei7", "l1")),
    Row("L2", 10, INSTLAT, partial(chase_cycles, "corei7", "l2")),
    Row("L3", 40, INSTLAT, partial(chase_cycles, "corei7", "l3")),
    Row("exclusive in another core", 65, MOLKA, partial(state_cycles, "corei7", "exclusive")),
    Row("modified in another core's L1", 83, MOLKA, partial(state_cycles, "corei7", "modified")),
    Row("modified in another core", 75, GUIDE, partial(state_cycles, "corei7", "modified")),
    Row("shared by two other cores (L3)", 38, MOLKA, partial(state_cycles, "corei7", "shared_state")),
    Row("modified by another core, evicted to L3", 38, MOLKA, partial(evicted_cycles, "corei7")),
    Row("modified by another core, evicted to L3", 40, GUIDE, partial(evicted_cycles, "corei7")),
)

NANOSECONDS = (
    Row("memory, i7-920", 67.6, INSTLAT, partial(memory_ns, "corei7")),
    *(Row(f"atomic_inc of one counter, {cpus} CPUs, per CPU", ns, PERFBOOK, partial(increment_ns, "atomic_inc", cpus))
      for cpus, ns in ((1, 7.56), (2, 24.96), (3, 40.18), (4, 71.32))),
    Row("compare-and-swap between cores, one way", 31.2, PERFBOOK, partial(hand_off_ns, (0, 1))),
    Row("compare-and-swap between cores, one way", 37.2, C2C, partial(hand_off_ns, (0, 1))),
    Row("compare-and-swap between siblings, one way", 7.14, C2C, partial(hand_off_ns, (0, 4))),
)


def run_all(rows: tuple[Row, ...]) -> list[tuple[Row, float]]:
    """Each row with what the emulator gives."""
    return [(row, row.emulate()) for row in rows]


def table(rows: list[tuple[Row, float]], unit: str) -> Iterator[str]:
    """Markdown lines: measured, emulated, error."""
    yield f"| load, line or operation | measured ({unit}) | emulated ({unit}) | error | source |"
    yield "|---|---|---|---|---|"
    for row, emulated in rows:
        yield f"| {row.what} | {row.measured:g} | {emulated:.1f} | {emulated / row.measured - 1:+.1%} | {row.source} |"


def document(cycles: list[tuple[Row, float]], nanoseconds: list[tuple[Row, float]]) -> str:
    """The text of docs/validation-latency.md."""
    head = ["# Latencies: published and emulated", "",
            "Written by `analysis/latency_tables.py`, which runs the emulator for every figure. Loads: `machines/corei7.yaml` (i7-920), from",
            "dispatch to use. The machine file states most of these totals, so that this table shows that the stages the core executes add up to",
            "them on their own; hand-offs and the counter are not stated anywhere, except that the split of the L3 path was calibrated with the",
            "counter at two CPUs.", "", "## Loads, core cycles", ""]
    return "\n".join([*head, *table(cycles, "cycles"), "", "## Memory, hand-offs and a contended counter, nanoseconds", "",
                      "All but memory on `machines/xeon_x5550.yaml` (2.67 GHz; the perfbook machine has two sockets, CPUs 0 to 3 are",
                      "taken to be one).", "",
                      *table(nanoseconds, "ns"), ""])


def produce(out: Path) -> comparison.Comparison:
    """Run everything; write the table (as in docs/) and the picture."""
    cycles, nanoseconds = run_all(CYCLES), run_all(NANOSECONDS)
    rows = [comparison.Row(row.what, unit, row.measured, emulated, "see the table", 1)
            for unit, part in (("cycles", cycles), ("ns", nanoseconds)) for row, emulated in part]
    names = ("compare-and-swap between cores, one way", "compare-and-swap between siblings, one way")
    shown = [next(row for row in rows if row.what == name) for name in names]
    found = comparison.Comparison("latency_tables", "Latencies of Nehalem", "see the last column of the table", rows,
                                  [dataclasses.replace(row, role="predicted") for row in shown])
    done = comparison.write(found, draw(cycles, nanoseconds), out)
    picture = f"\n![]({done.pictures[0]})\n"
    (out / "latency_tables.md").write_text(document(cycles, nanoseconds) + picture, encoding="utf-8")
    return done


def draw(cycles: list[tuple[Row, float]], nanoseconds: list[tuple[Row, float]]) -> Figure:
    """Measured and emulated bars, one panel for each unit; the error stands at the end of each pair."""
    figure = Figure(figsize=(8, 7.4), layout="constrained")
    heights = [len(cycles), len(nanoseconds)]
    for axes, part, unit in zip(figure.subplots(2, 1, height_ratios=heights), (cycles, nanoseconds), ("core cycles", "ns"), strict=True):
        at = np.arange(len(part))
        axes.barh(at - 0.2, [row.measured for row, _ in part], 0.38, color=comparison.MEASURED, label="measured")
        bars = axes.barh(at + 0.2, [emulated for _, emulated in part], 0.38, color=comparison.EMULATED, label="emulated")
        axes.bar_label(bars, [f"{emulated:.1f} ({emulated / row.measured - 1:+.0%})" for row, emulated in part], padding=3, fontsize=7)
        axes.set_yticks(at, [f"{row.what}\n{row.source.split(',')[0]}" for row, _ in part], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        axes.margins(x=0.2)
        axes.grid(axis="x", alpha=0.3)
        axes.legend(fontsize=8, loc="lower right")
    return figure


@click.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), default=TARGET, show_default=True)
def main(output: Path) -> None:
    """Run the emulator for each published latency and write the table."""
    output.write_text(document(run_all(CYCLES), run_all(NANOSECONDS)), encoding="utf-8")
    click.echo(output)


if __name__ == "__main__":
    main()
