"""Simulate candidates and rank them; then look at what limits the best ones, and go on from there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cohsim.advise.candidates import Candidate, Kind, candidates, variant_candidates
from cohsim.datafiles import find_data
from cohsim.errors import InputError, Problem, SimulationError
from cohsim.experiment import RECORDED_SUFFIX, Experiment
from cohsim.report.c2c import THRESHOLD, SharedLine, shared_lines
from cohsim.sweep.backends import Backend
from cohsim.sweep.point import DONE, Outcome, Point
from cohsim.sweep.run import run_points
from cohsim.sweep.statistics import Estimate, estimate, gain
from cohsim.workload.load import SUFFIX
from cohsim.workload.program import Choices, find_choices

RATE = "iterations_per_second"
FINALISTS = 8  # candidates of a round that are run with all seeds; the others with the first one only
WORTH_A_LOOK = 0.01  # gain from which on an uncertain candidate is a start of the next round too
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Trial:
    """A candidate on top of earlier ones, simulated. ``gain`` and ``cost`` compare with the start, seed by seed."""

    candidate: Candidate
    before: tuple[Candidate, ...]  # what it was added to
    gain: Estimate | None  # relative change of the rate; None if it failed
    cost: Estimate | None  # relative change of busy CPU time per iteration (packet)
    rate: Estimate | None  # iterations (packets) per second
    message: str = ""  # why it failed

    @property
    def steps(self) -> tuple[Candidate, ...]:
        """All changes, in their order."""
        return (*self.before, self.candidate)

    @property
    def certain(self) -> bool:
        """The interval of the gain does not hold zero; False with a single seed."""
        return self.gain is not None and self.gain.low is not None and self.gain.high is not None and not self.gain.low <= 0 <= self.gain.high


@dataclass(frozen=True)
class Round:
    """Trials of one round, largest gain first, and what could not be tried."""

    trials: list[Trial]
    impossible: list[tuple[Candidate, str]]  # with the reason
    lines: list[tuple[tuple[Candidate, ...], SharedLine]]  # the most expensive line of each start


@dataclass(frozen=True)
class Advice:
    """What :func:`advise` found."""

    point: Point
    seeds: tuple[int, ...]
    start: list[dict[str, Any]]  # summaries of the start, one per seed
    rounds: list[Round]


@dataclass(frozen=True)
class _Start:
    """Where a round begins from."""

    steps: tuple[Candidate, ...]
    point: Point


def advise(
    point: Point,
    *,
    seeds: int = 3,
    rounds: int = 2,
    threshold: float = THRESHOLD,
    backend: Backend | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Find, simulate and rank changes. Later rounds begin from the best certain candidate of each kind: another line limits the run then.

    Seeds are those of ``point`` and the following. Raises InputError for wrong inputs or a recorded trace, SimulationError if the start itself fails.
    """
    if point.workload.endswith(RECORDED_SUFFIX):
        what = "is a recorded trace: its layout and its locks are fixed"
        raise InputError(Problem(point.workload, what, "describe the path as a .trace workload (docs/workload-language.md)"))
    point.prepare()
    numbers = tuple(range(point.seed, point.seed + seeds))
    engine = _Engine(backend, progress)
    begin = engine.run("the start", [replace(point, seed=seed) for seed in numbers])
    failed = next((o for o in begin if o.status != DONE), None)
    if failed is not None:
        what, _, report = failed.message.partition("\n")
        raise SimulationError(what, report)
    summaries = [o.summary for o in begin if o.summary is not None]
    if not all(summary["iterations"] for summary in summaries):
        raise InputError(Problem("--measure", "the start completes no iteration in the measured time", "measure longer"))
    search = _Search(engine, point, numbers, summaries, threshold)
    done: list[Round] = []
    starts = [_Start((), point)]
    for number in range(rounds):
        done.append(search.round(starts, number + 1))
        starts = search.next_starts(done[-1])
        if not starts:
            break
    return Advice(point, numbers, summaries, done)


class _Engine:
    """Runs points with progress."""

    def __init__(self, backend: Backend | None, progress: Progress | None):
        self.backend, self.progress = backend, progress

    def run(self, what: str, points: list[Point]) -> list[Outcome]:
        progress = self.progress
        return run_points(points, self.backend, None if progress is None else lambda done, all_: progress(what, done, all_)) if points else []


class _Search:
    def __init__(self, engine: _Engine, point: Point, seeds: tuple[int, ...], start: list[dict[str, Any]], threshold: float):
        self.engine, self.point, self.seeds, self.start, self.threshold = engine, point, seeds, start, threshold
        self.choices = workload_choices(point.workload)
        self.tried: set[frozenset] = set()

    def round(self, starts: Sequence[_Start], number: int) -> Round:
        todo: list[tuple[_Start, Candidate]] = []
        impossible: list[tuple[Candidate, str]] = []
        lines = []
        for start in starts:
            experiment = start.point.prepare()
            found = shared_lines(experiment.run(command=["cohsim", "advise"]), self.threshold)
            lines += [(start.steps, line) for line in found[:1]]
            for candidate in self.candidates(start, experiment, found):
                state = frozenset(s.change for s in (*start.steps, candidate))
                if state in self.tried:
                    continue
                self.tried.add(state)
                try:
                    candidate.applied(start.point).prepare()
                except InputError as error:
                    if all(candidate.change != known.change for known, _ in impossible):
                        impossible.append((candidate, error.problems[0].what))
                else:
                    todo.append((start, candidate))
        outcomes = self.outcomes(todo, self.seeds[:1], f"round {number}, first seed")
        trials = [self.trial(*pair, some) for pair, some in zip(todo, outcomes, strict=True)]
        finalists = sorted(range(len(todo)), key=lambda i: _rank(trials[i]))[:FINALISTS] if len(self.seeds) > 1 else []
        more = self.outcomes([todo[i] for i in finalists], self.seeds[1:], f"round {number}, all seeds")
        for i, others in zip(finalists, more, strict=True):
            trials[i] = self.trial(*todo[i], outcomes[i] + others)
        return Round(sorted(trials, key=_rank), impossible, lines)

    def candidates(self, start: _Start, experiment: Experiment, found: list[SharedLine]) -> list[Candidate]:
        suggested = candidates(found, experiment.workload, experiment.machine.line_bytes, threshold=self.threshold)
        return suggested + variant_candidates(self.choices, start.point)

    def outcomes(self, todo: list[tuple[_Start, Candidate]], seeds: tuple[int, ...], what: str) -> list[list[Outcome]]:
        """Outcomes of each candidate, one per seed."""
        points = [replace(candidate.applied(start.point), seed=seed) for start, candidate in todo for seed in seeds]
        found = self.engine.run(what, points)
        return [found[i * len(seeds) : (i + 1) * len(seeds)] for i in range(len(todo))]

    def trial(self, start: _Start, candidate: Candidate, outcomes: list[Outcome]) -> Trial:
        failed = next((o.message.splitlines()[0] for o in outcomes if o.status != DONE), "")
        after = [o.summary for o in outcomes if o.summary is not None]
        if not failed and not all(summary["iterations"] for summary in after):
            failed = "no iteration was completed: CPUs wait for each other"
        if failed:
            return Trial(candidate, start.steps, None, None, None, failed)
        before = self.start[: len(after)]
        return Trial(
            candidate,
            start.steps,
            gain([s[RATE] for s in before], [s[RATE] for s in after]),
            gain([_busy_per_iteration(s) for s in before], [_busy_per_iteration(s) for s in after]),
            estimate([s[RATE] for s in after]),
        )

    def next_starts(self, done: Round) -> list[_Start]:
        """The best trial of each kind, if it seems to gain: this is where to look on, not yet a claim."""
        best: dict[Kind, Trial] = {}
        for trial in done.trials:
            if trial.gain is not None and (trial.gain.mean >= WORTH_A_LOOK or (trial.certain and trial.gain.mean > 0)):
                best.setdefault(trial.candidate.kind, trial)
        starts = []
        for trial in best.values():
            point = self.point
            for step in trial.steps:
                point = step.applied(point)
            starts.append(_Start(trial.steps, point))
        return starts


def _rank(trial: Trial) -> float:
    return -trial.gain.mean if trial.gain is not None else float("inf")


def _busy_per_iteration(summary: dict[str, Any]) -> float:
    return float(summary["cpu_utilization"]) * summary["cpus"] / float(summary[RATE])


def workload_choices(workload: str) -> Choices:
    """Variants that a workload file declares."""
    from cohsim.workload.include import parse_whole
    from cohsim.workload.parse import read_text

    path: Path = find_data("workloads", workload, SUFFIX)
    return find_choices(parse_whole(read_text(path), str(path)).nodes, [])
