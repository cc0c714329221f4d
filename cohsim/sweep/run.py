"""Run a sweep into its file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from cohsim.errors import CohsimError
from cohsim.sweep.backends import MAX_LOSSES, Backend, LocalBackend
from cohsim.sweep.definition import Sweep
from cohsim.sweep.point import Outcome, Point
from cohsim.sweep.store import Journal, SweepResult


class WorkersLost(CohsimError):
    """Points whose workers died again and again; everything else is done."""


def run_sweep(sweep: Sweep, path: Path, backend: Backend | None = None, progress: Callable[[int, int], None] | None = None) -> SweepResult:
    """Run the points of ``sweep`` that ``path`` does not have yet, and return them all.

    ``progress(done, points)`` is called after each. The file is made in any case: complete, or with what was done when something was
    raised: KeyboardInterrupt, :class:`WorkersLost`, CohsimError (the cluster is gone). Raises InputError for inputs that are wrong, for a
    file that holds another sweep, for one that is being written.
    """
    sweep.check()
    journal = Journal(path, sweep)
    try:
        missing = [number for number in range(len(sweep.points)) if number not in journal.outcomes]
        lost = 0
        if progress is not None:
            progress(len(journal.outcomes), len(sweep.points))
        if missing:
            with closing((backend or LocalBackend()).run([sweep.points[number] for number in missing])) as outcomes:
                for position, outcome in outcomes:
                    if outcome is None:
                        lost += 1
                    else:
                        journal.add(missing[position], outcome)
                    if progress is not None:
                        progress(len(journal.outcomes), len(sweep.points))
        if lost:
            raise WorkersLost(f"the workers of {lost} point(s) died {MAX_LOSSES} times (out of memory?); the others are done, run again to retry")
    finally:
        result = journal.close()
    return result


def run_points(points: list[Point], backend: Backend | None = None, progress: Callable[[int, int], None] | None = None) -> list[Outcome]:
    """Outcomes of ``points`` in their order, without a file. Raises WorkersLost if a point has none."""
    found: dict[int, Outcome] = {}
    with closing((backend or LocalBackend()).run(points)) as outcomes:
        for number, outcome in outcomes:
            if outcome is None:
                raise WorkersLost(f"the workers of one point died {MAX_LOSSES} times (out of memory?): {points[number]}")
            found[number] = outcome
            if progress is not None:
                progress(len(found), len(points))
    return [found[number] for number in range(len(points))]
