"""Many random cases, on several processes, until enough operations are done or one case fails."""
from __future__ import annotations

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from cohsim.fuzz.case import Case
from cohsim.fuzz.coverage import Coverage, Key
from cohsim.fuzz.generate import generate
from cohsim.fuzz.verdict import Failure, run_case

BATCH = 4
"""Cases handed to a process at a time: about a second of work."""


@dataclass(frozen=True)
class Ran:
    """What is kept of a case that ran."""

    seed: int
    key: Key
    operations: int
    values: int                 # loaded values that were judged
    node_fired: np.ndarray
    home_fired: np.ndarray
    failure: Failure | None


@dataclass
class Campaign:
    """Totals of a campaign. ``failed``: the first case that failed, in order of seeds."""

    operations: int = 0
    values: int = 0
    cases: int = 0
    seconds: float = 0.0
    stopped: str = "operations"            # operations, time limit, failure, interrupted
    coverage: Coverage = field(default_factory=Coverage)
    failed: tuple[Case, Failure] | None = None


def run_seed(seed: int, machine: str | None, protocol: str | None) -> Ran:
    """Generate, run and judge one case."""
    case = generate(seed, machine, protocol)
    outcome, failure = run_case(case)
    return Ran(seed, (case.machine, case.protocol, case.home), outcome.operations, sum(log.size for log in outcome.logs),
               outcome.node_fired, outcome.home_fired, failure)


def _batch(seeds: list[int], machine: str | None, protocol: str | None) -> list[Ran]:
    return [run_seed(seed, machine, protocol) for seed in seeds]


def case_seed(seed: int, index: int) -> int:
    """Seed of case ``index`` of the campaign ``seed``."""
    return seed * 1_000_000_000 + index


def campaign(operations: float, seed: int, *, machine: str | None = None, protocol: str | None = None, jobs: int = 1,
             time_limit_s: float | None = None, progress: Callable[[float], None] | None = None) -> Campaign:
    """Run cases until ``operations`` memory operations are done. The cases counted do not depend on ``jobs``.

    A KeyboardInterrupt ends the campaign with ``stopped == "interrupted"``.
    """
    begun = time.monotonic()
    total = Campaign()
    source = _pooled(seed, machine, protocol, jobs) if jobs > 1 else _here(seed, machine, protocol)
    try:
        for ran in source:
            total.cases += 1
            total.operations += ran.operations
            total.values += ran.values
            total.coverage.add(ran.key, ran.node_fired, ran.home_fired, ran.operations)
            if ran.failure is not None:
                total.failed = generate(ran.seed, machine, protocol), ran.failure
                total.stopped = "failure"
                break
            if total.operations >= operations:
                break
            if time_limit_s is not None and time.monotonic() - begun >= time_limit_s:
                total.stopped = "time limit"
                break
            if progress is not None:
                progress(min(1.0, total.operations / operations))
    except KeyboardInterrupt:
        total.stopped = "interrupted"
    finally:
        source.close()
    total.seconds = time.monotonic() - begun
    return total


def _here(seed: int, machine: str | None, protocol: str | None) -> Generator[Ran, None, None]:
    for k in count():
        yield run_seed(case_seed(seed, k), machine, protocol)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _pooled(seed: int, machine: str | None, protocol: str | None, jobs: int) -> Generator[Ran, None, None]:
    """Results in the order of seeds, with a few batches ahead on every process."""
    numbers = count()
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"),
                             initializer=_leave_interrupts_to_the_parent) as pool:

        def submit() -> Future[list[Ran]]:
            return pool.submit(_batch, [case_seed(seed, next(numbers)) for _ in range(BATCH)], machine, protocol)

        waiting = deque(submit() for _ in range(2 * jobs))
        try:
            while True:
                ready = waiting.popleft().result()
                waiting.append(submit())
                yield from ready
        finally:
            pool.shutdown(cancel_futures=True)
