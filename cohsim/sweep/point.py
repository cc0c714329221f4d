"""One point of a sweep: everything that decides a run, and what the run gave. Plain data, so that it travels to any process or host."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cohsim.errors import InputError, SimulationError
from cohsim.experiment import Experiment, prepare
from cohsim.results.provenance import PERFORMANCE
from cohsim.results.result import Result
from cohsim.results.summary import check_cpu, summarize

DONE, FAILED, MISSING = "done", "failed", "missing"
SUMMARY_LINES = 24  # lines kept of each point; a whole result (cohsim run -o) has all
_OF_HOST = ("host_seconds", "memory_operations_per_host_second")  # differ from run to run, so they are no result
_REPEATED = ("settings", "assumptions")  # the same in all points, or part of the point


@dataclass(frozen=True)
class Point:
    """All inputs of one run, as :func:`cohsim.experiment.prepare` takes them."""

    machine: str
    workload: str
    cpus: int | None = None
    pin: tuple[int, ...] | None = None
    variants: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    isa_options: tuple[str, ...] = ()
    kernel: str | None = None
    overrides: tuple[str, ...] = ()
    seed: int = 1
    warmup_ns: float | None = None
    measure_ns: float | None = None
    lookahead: bool = True
    check: bool = False
    load_pps: float | None = None
    governor: str = PERFORMANCE
    cpu: int | None = None  # summarise this CPU of the run alone

    def prepare(self) -> Experiment:
        """Load and compile. Raises InputError."""
        inputs = asdict(self)
        cpu = inputs.pop("cpu")
        experiment = prepare(**inputs)
        check_cpu(cpu, experiment.settings.cpus)
        return experiment


@dataclass(frozen=True)
class Outcome:
    """What one point gave: its summary, or why there is none."""

    status: str  # done, failed
    message: str = ""  # of a failed point
    digest: str = ""  # of all datasets of the result: equal for equal results, whichever host made them
    summary: dict[str, Any] | None = None  # as cohsim run --json writes it, without what depends on the host
    host_seconds: float = 0.0


def run_point(point: Point) -> Outcome:
    """Run one point. A simulated system that fails, or an input that this point's combination makes invalid, is a failed outcome, not an
    exception: the other points of a sweep go on.
    """
    try:
        result = point.prepare().run(command=["cohsim", "sweep"])
        summary = summarize(result, point.cpu, SUMMARY_LINES)
    except SimulationError as error:
        return Outcome(FAILED, f"{error}\n{error.report}".strip())
    except InputError as error:
        return Outcome(FAILED, str(error))
    if summary["stop"] == "interrupted":
        raise KeyboardInterrupt
    host_seconds = float(summary["host_seconds"])
    kept = {key: value for key, value in summary.items() if key not in (*_OF_HOST, *_REPEATED)}
    return Outcome(DONE, "", result_digest(result), kept, host_seconds)


def result_digest(result: Result) -> str:
    """SHA-256 over every dataset of a result, names included. What depends on the host (``Result.host``) is left out."""
    text = hashlib.sha256()
    for path in sorted(result.data):
        value = result.data[path]
        text.update(path.encode())
        if isinstance(value, np.ndarray):
            text.update(f"{value.dtype.str}{value.shape}".encode())
            text.update(np.ascontiguousarray(value).tobytes())
        else:
            text.update(repr(value).encode())
    return text.hexdigest()
