"""Spinlock kinds on the Core i7 alone: throughput, fairness and line transfers per acquisition, from 1 to 8 threads.

    python analysis/spinlocks.py                 # writes docs/spinlocks.md
    python analysis/spinlocks.py -o FILE
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from cohsim.experiment import prepare
from cohsim.results.summary import summarize

TARGET = Path(__file__).resolve().parent.parent / "docs" / "spinlocks.md"
KINDS = ("ticket", "ttas", "mcs")
THREADS = range(1, 9)
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Row:
    """Means over the seeds. Transfers are fills of a line from another core, per acquisition of the lock."""

    kind: str
    threads: int
    acquisitions_per_us: float
    fairness: float          # least over most acquisitions of a thread: 1 is even
    lock_transfers: float    # of the lock word's line, and of the queue nodes' lines
    data_transfers: float    # of the line that the lock protects
    spin: float              # share of busy time


def measure(kind: str, threads: int, seed: int, measure_ns: float | None = None) -> Row:
    """One run of ``micro/spinlock``."""
    result = prepare("corei7", "micro/spinlock", cpus=threads, variants=[kind], seed=seed, measure_ns=measure_ns).run()
    summary = summarize(result)
    each = result.array("/threads/iterations")
    moves = {"lock": 0, "node[*]": 0, "counter": 0}
    for line in summary["lines"]:
        if line["object"] in moves:
            moves[line["object"]] += line["transfers"]
    n = summary["iterations"]
    return Row(kind, threads, summary["iterations_per_second"] / 1e6, float(each.min() / each.max()),
               (moves["lock"] + moves["node[*]"]) / n, moves["counter"] / n, summary["time_shares"]["spin"])


def mean(rows: list[Row]) -> Row:
    """Mean of the figures of runs that differ in the seed."""
    def of(name: str) -> float:
        return float(np.mean([getattr(row, name) for row in rows]))
    return Row(rows[0].kind, rows[0].threads, of("acquisitions_per_us"), of("fairness"), of("lock_transfers"), of("data_transfers"), of("spin"))


INTRODUCTION = """# Spinlocks on the Core i7

Written by `python analysis/spinlocks.py`: `cohsim run corei7 micro/spinlock --variant KIND --cpus N`, means of {seeds}
seeds. One iteration takes the lock, increments a counter on another line (about 10 instructions inside), releases it and
works 60 instructions outside. CPUs 0 to 3 are one thread of each core, 4 to 7 their siblings, so up to 4 threads every hand-over crosses cores.

"""

READING = """
## Reading the table

* **Alone** all three cost their instructions: no line moves. MCS is a little slower because it also initialises and reads its queue node.
* **Ticket** hands the lock over in order of arrival, so it is perfectly fair, and every hand-over moves the lock's line to the next owner
  (one dirty transfer) and the counter's line behind it. All waiters read the same line: each release invalidates every waiter's copy and
  each of them fetches it again, whether it is its turn or not (from the L3 once the first one has it, so only one of these reads is a
  transfer between cores).
* **TTAS** lets whoever comes first have it. The previous owner's core still has the line, so its next acquisition often wins before a
  waiter's request has crossed the fabric: about three acquisitions for each move of the protected line, and more throughput. Every release
  starts a race: all waiters see the free lock, all try the locked operation, all but one fail, and each attempt moves the line, so it slows
  down with the number of waiters where the queueing locks do not. From 5 threads on, two siblings pass the lock to each other inside their
  core faster than any other core can ask, and keep it for the whole window (fairness 0). Real machines show strong unfairness of this kind
  too; that it is total here, and even below 5 threads, is a limit of the model, whose fabric has no arbitration noise and whose threads
  take no interrupts.
* **MCS** lets each waiter spin on its own node. A hand-over touches exactly the successor's node, whatever the number of waiters, in order
  of arrival; it pays with more lines per acquisition (its own node, the predecessor's or successor's node, the queue's tail), which is why
  ticket is ahead while few wait and MCS does not fall when many do.
* **With siblings** (5 to 8 threads) some hand-overs stay within a core and cost no transfer, so transfers per acquisition fall below one;
  which ones do depends on the order in which threads have queued, so these rows vary more between seeds.

Nothing of this is a property of a "lock" in the emulator: the library's locks are ordinary loads, stores and `lock`-prefixed operations on
modelled words (`cohsim/workload/sync.trace`).
"""


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    head = ("| lock | threads | acquisitions/us | fairness (min/max) | transfers of lock and node lines | of the protected line | spinning |\n"
            "|---|---|---|---|---|---|---|\n")
    return head + "".join(f"| {r.kind} | {r.threads} | {r.acquisitions_per_us:.2f} | {r.fairness:.2f} | {r.lock_transfers:.2f} "
                          f"| {r.data_transfers:.2f} | {100 * r.spin:.0f} % |\n" for r in rows)


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), default=TARGET, show_default=True, help="Markdown file to write.")
def main(output: Path) -> None:
    """Run the three kinds of lock from 1 to 8 threads and write the table."""
    rows = [mean([measure(kind, threads, seed) for seed in SEEDS]) for kind in KINDS for threads in THREADS]
    output.write_text(INTRODUCTION.format(seeds=len(SEEDS)) + table(rows) + READING, encoding="utf-8")


if __name__ == "__main__":
    main()
