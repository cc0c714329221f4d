"""The plain C loops that the gates compare with, how both sides are timed, and the table printed at the end."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from cohsim.results.rundata import RunData

SOURCE = Path(__file__).with_name("reference_loops.c")
SHORT_ROUNDS, MOST_ROUNDS = 5, 25
RESIDENT_LINES, SETS, WAYS = 400, 64, 8
LINES = 1 << 16
LOOKUPS, HEAP_STEPS = 2_000_000, 1_000_000

UNITS = {"memory_operations": "operation", "actions": "event"}
"""What a step is called in the table; an event is whatever the event loop takes from its schedule (``RunData.actions``)."""

MEASURED = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[MEASURED] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash[MEASURED]
    if lines:
        terminalreporter.section("speed: ratios to a plain C loop in the same process (docs/performance.md)")
        for line in lines:
            terminalreporter.write_line(line)


def line_numbers() -> np.ndarray:
    """A stream that hits 99 %: lines that stay, in random order, and one in a hundred that is seen once in a long while."""
    rng = np.random.default_rng(1)
    resident = np.arange(SETS * (WAYS - 1))[:RESIDENT_LINES]
    lines = rng.choice(resident, LINES)
    cold = rng.random(LINES) < 0.01
    lines[cold] = rng.integers(SETS * WAYS, 1 << 30, cold.sum())
    return np.ascontiguousarray(lines, np.int64)


@dataclass
class ReferenceLoops:
    """The compiled loops; each call checks that the loop did its work and returns its CPU time per step in ns."""

    library: ctypes.CDLL
    lines: np.ndarray = field(default_factory=line_numbers)

    def lookup_ns(self) -> float:
        begun = time.thread_time_ns()
        hits = self.library.lookup_loop(self.lines.ctypes.data, LINES, LOOKUPS)
        took = time.thread_time_ns() - begun
        assert 0.98 * LOOKUPS < hits < LOOKUPS, f"{hits} hits of {LOOKUPS}: not the stream this gate is about"
        return took / LOOKUPS

    def heap_ns(self) -> float:
        begun = time.thread_time_ns()
        in_order = self.library.heap_loop(HEAP_STEPS)
        took = time.thread_time_ns() - begun
        assert in_order == HEAP_STEPS, "the reference heap is no heap"
        return took / HEAP_STEPS


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> ReferenceLoops:
    """Compiled as the extension is: same compiler, -O3, no -march=native."""
    target = tmp_path_factory.mktemp("perf") / "reference_loops.so"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command = [*compiler, "-std=c11", "-O3", "-fPIC", "-shared", "-o", str(target), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}:\n{done.stderr}"
    library = ctypes.CDLL(str(target))
    library.lookup_loop.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    library.heap_loop.argtypes = [ctypes.c_int64]
    library.lookup_loop.restype = library.heap_loop.restype = ctypes.c_int64
    return ReferenceLoops(library)


@dataclass(frozen=True)
class Speed:
    """Best CPU times of both sides, and their ratio: 1 would be as fast as the bare loop."""

    reference_ns: float
    emulator_ns: float

    @property
    def ratio(self) -> float:
        return self.reference_ns / self.emulator_ns


Compare = Callable[[str, Callable[[], float], Callable[[], RunData], float], Speed]


@pytest.fixture
def compare(benchmark, request: pytest.FixtureRequest) -> Compare:
    """``compare(unit, reference, run, gate)``: ``reference`` returns ns per step of the C loop, ``run`` does one simulation, of
    which ``unit`` (``actions``: messages and cores' turns, or ``memory_operations``) is what a step is compared with. The two alternate, CPU time of
    this thread is taken, and the best of each side counts: other load on the host cannot make a side faster. Short of the gate, more
    rounds follow: noise goes away with them, a regression does not.
    """

    def measure(unit: str, reference: Callable[[], float], run: Callable[[], RunData], gate: float) -> Speed:
        loops: list[float] = []
        emulator: list[float] = []
        rates = ""

        def before() -> None:
            loops.extend(reference() for _ in range(3))

        def once() -> None:
            nonlocal rates
            begun = time.thread_time_ns()
            data = run()
            took = time.thread_time_ns() - begun
            emulator.append(took / getattr(data, unit))
            if emulator[-1] == min(emulator):
                rates = (f"{data.memory_operations / took * 1e3:6.2f} M operations/s {data.actions / took * 1e3:6.2f} M events/s "
                         f"{data.events / took * 1e3:6.2f} M messages/s (1/{took / data.events / min(loops):.1f})")

        benchmark.pedantic(once, setup=before, rounds=SHORT_ROUNDS)
        while min(loops) / min(emulator) < gate and len(emulator) < MOST_ROUNDS:
            before()
            once()
        speed = Speed(min(loops), min(emulator))
        benchmark.extra_info.update(ratio=speed.ratio, gate=gate, reference_ns=speed.reference_ns, emulator_ns=speed.emulator_ns)
        request.config.stash[MEASURED].append(
            f"{request.node.name:<26} 1/{1 / speed.ratio:<5.1f} (gate 1/{1 / gate:<4.1f} target 1/4)  "
            f"{speed.emulator_ns:6.1f} ns per {UNITS[unit]:<9} bare loop {speed.reference_ns:4.1f} ns  "
            f"{rates}  {len(emulator)} rounds"
        )
        return speed

    return measure
