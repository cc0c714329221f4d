"""Where points run: in processes of this host, or on a Dask cluster. A backend yields outcomes as they come, in any order.

A point whose worker dies is run again elsewhere; after MAX_LOSSES deaths it is yielded as None, so that one point that, say, exhausts the
memory cannot take the sweep with it. None is no outcome: nothing is known about the simulated system.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Generator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol
from uuid import uuid4

import cohsim
from cohsim.errors import CohsimError, InputError, Problem
from cohsim.sweep.point import Outcome, Point, run_point

MAX_LOSSES = 3
DASK_TIMEOUT_S = 15  # to reach the scheduler, and for its first worker to be there


Outcomes = Generator[tuple[int, Outcome | None], None, None]


class Backend(Protocol):
    """Something that runs points."""

    def run(self, points: Sequence[Point]) -> Outcomes:
        """Yield (position in ``points``, outcome) of each as it is done. Closing the iterator stops what is running."""
        ...


def host_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SerialBackend:
    """Points one after the other in this process."""

    def run(self, points: Sequence[Point]) -> Outcomes:
        """See :class:`Backend`."""
        for number, point in enumerate(points):
            yield number, run_point(point)


class LocalBackend:
    """Worker processes on this host, one per core unless ``jobs`` says otherwise."""

    def __init__(self, jobs: int | None = None):
        self.jobs = jobs or host_cores()

    def run(self, points: Sequence[Point]) -> Outcomes:
        """See :class:`Backend`."""
        todo = deque(range(len(points)))
        losses = [0] * len(points)
        workers = [_Worker() for _ in range(min(self.jobs, len(points)))]
        try:
            while todo or any(worker.busy is not None for worker in workers):
                for worker in workers:
                    if worker.busy is None and todo:
                        worker.give(todo.popleft(), points)
                ready = wait([worker.pipe for worker in workers if worker.busy is not None])
                for position, worker in enumerate(workers):
                    if worker.pipe not in ready:
                        continue
                    number = worker.busy
                    assert number is not None
                    try:
                        outcome = worker.take()
                    except (EOFError, ConnectionError):  # the process is gone: killed, or out of memory
                        worker.stop()
                        workers[position] = _Worker()
                        losses[number] += 1
                        if losses[number] < MAX_LOSSES:
                            todo.append(number)
                            continue
                        outcome = None
                    yield number, outcome
        finally:
            for worker in workers:
                worker.stop()


class _Worker:
    """One process that runs the points it is sent. ``busy``: number of the point it works on."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # fork is not safe beside the thread of a progress bar
        self.pipe, theirs = context.Pipe()
        self.busy: int | None = None
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, number: int, points: Sequence[Point]) -> None:
        self.busy = number
        try:
            self.pipe.send(points[number])
        except (BrokenPipeError, ConnectionError):
            pass  # it died idle; reading from it says so too, and that is where losses are counted

    def take(self) -> Outcome:
        """Outcome of the current point. Raises EOFError if the process is gone, whatever the point raised if that was no outcome."""
        answer = self.pipe.recv()
        self.busy = None
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Outcome)
        return answer

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    """What a worker process does until its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the parent decides
    while True:
        try:
            point = pipe.recv()
        except EOFError:
            return
        try:
            answer: Outcome | BaseException = run_point(point)
        except Exception as error:  # a fault of cohsim itself: the parent raises it
            answer = error
        try:
            pipe.send(answer)
        except (BrokenPipeError, ConnectionError):
            return


class DaskBackend:
    """A Dask cluster (``distributed``). Its workers need the same cohsim, and the machine and workload files under the same names."""

    def __init__(self, address: str):
        """Connect. Raises InputError if there is no scheduler or no worker, or if a worker has another cohsim."""
        try:
            import distributed
        except ImportError as error:
            raise InputError(Problem("--dask", "the library distributed is not installed", "pip install 'cohsim[dask]'")) from error
        self._library = distributed
        try:
            self._client: Any = distributed.Client(address, timeout=DASK_TIMEOUT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            what = f"no Dask scheduler answers at {address} ({reason})"
            raise InputError(Problem("--dask", what, "start one with 'dask scheduler' and give its address, tcp://HOST:8786")) from error
        try:
            self._check_workers(address)
        except BaseException:
            self._client.close()
            raise

    def _check_workers(self, address: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=DASK_TIMEOUT_S)
        except TimeoutError as error:
            what = f"the scheduler at {address} has no worker"
            raise InputError(Problem("--dask", what, f"start some with 'dask worker {address}'")) from error
        versions = self._client.run(_worker_version, on_error="return")
        for worker, version in versions.items():
            if version != cohsim.__version__:
                found = f"fails to import cohsim ({version})" if isinstance(version, Exception) else f"has cohsim {version}"
                raise InputError(Problem("--dask", f"worker {worker} {found}, this is {cohsim.__version__}", "install the same cohsim there"))

    def run(self, points: Sequence[Point]) -> Outcomes:
        """See :class:`Backend`. Raises CohsimError if the scheduler is lost."""
        run = uuid4().hex  # keys are new in each run: a cluster must not answer from an earlier one
        number_of: dict[Any, int] = {}
        losses = [0] * len(points)

        def submit(number: int) -> Any:
            key = f"cohsim-{run}-{number}-{losses[number]}"
            future = self._client.submit(run_point, points[number], key=key, pure=False)
            number_of[key] = number
            return future

        futures = [submit(number) for number in range(len(points))]
        completed = self._library.as_completed(futures, loop=self._client.loop)
        try:
            for future in completed:
                number = number_of[future.key]
                try:
                    outcome = future.result()
                except self._library.KilledWorker:
                    losses[number] += 1
                    if losses[number] < MAX_LOSSES:
                        completed.add(submit(number))
                        continue
                    outcome = None
                except (self._library.client.FutureCancelledError, self._library.client.CancelledError) as error:
                    raise CohsimError(f"--dask: lost the scheduler ({error}); run again to go on") from error
                future.release()
                yield number, outcome
        finally:
            if self._client.status == "running":
                self._client.cancel([future for future in futures if not future.done()], force=True)

    def close(self) -> None:
        """Leave the cluster."""
        self._client.close()


def _worker_version() -> str:
    import cohsim._core  # a worker without a built core must not pass

    return str(cohsim.__version__)
