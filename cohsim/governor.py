"""The clock that Linux's ``ondemand`` cpufreq governor settles on for a run, and the run at that clock.

The rules are those of drivers/cpufreq/cpufreq_ondemand.c on a kernel with idle micro-accounting. In all of them a CPU that was busy for more
than UP_THRESHOLD per cent of the sample asks for the highest clock, and the load counts in whole per cent, rounded down. The cores of the
package share one clock, that of the highest request, so the busiest CPU decides.

The governor looks every 10 ms or so, longer than most runs. A run is therefore taken as one sample of a steady state: it is run at the highest
clock, then at the clock that the governor asks for after it, and so on until a clock comes back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from cohsim.errors import InputError, Problem
from cohsim.machine.compile import compile_machine
from cohsim.results.provenance import ONDEMAND, ONDEMAND_LINEAR
from cohsim.results.result import Result, Value
from cohsim.results.rundata import CATEGORIES

if TYPE_CHECKING:
    from cohsim.experiment import Experiment
    from cohsim.machine.spec import MachineSpec

UP_THRESHOLD = 95
DOWN_DIFFERENTIAL = 3

SAME = Fraction(1, 100)
"""Clocks closer than this share of a step are one clock: machine files round 133 1/3 MHz to a few decimals."""

IDLE = CATEGORIES.index("idle")
R = TypeVar("R")


@dataclass(frozen=True)
class PStates:
    """Clocks in Hz: ``lowest``, one every ``step`` above it, and ``highest``."""

    lowest: Fraction
    step: Fraction
    highest: Fraction

    @cached_property
    def clocks(self) -> tuple[Fraction, ...]:
        """All of them, ascending."""
        steps = math.ceil((self.highest - self.lowest) / self.step - SAME)
        return (*(self.lowest + number * self.step for number in range(steps)), self.highest)

    def at_least(self, clock: Fraction) -> Fraction:
        """The lowest clock that is not below ``clock``; the highest where none is."""
        return next((found for found in self.clocks if found >= clock - SAME * self.step), self.highest)

    def closest(self, clock: Fraction) -> Fraction:
        """The clock with the least distance, the lower of two."""
        return min(self.clocks, key=lambda found: abs(found - clock))


@dataclass(frozen=True)
class Trial:
    """A run at ``clock_hz``: the share of the time that its busiest CPU was busy, and the clock that the governor asks for after it."""

    clock_hz: float
    load: float
    next_hz: float


@dataclass(frozen=True)
class Settled(Generic[R]):
    """All trials in order; ``result`` is that of trial number ``chosen``."""

    result: R
    trials: tuple[Trial, ...]
    chosen: int


def p_states(spec: MachineSpec) -> PStates:
    """The P-states of a machine. Raises InputError where its file states none."""
    if "clocks.lowest" not in spec.values:
        remedy = "add lowest: and step: below its clocks:, or leave the option out"
        raise InputError(Problem("--governor", f"{spec.name} states no lowest clock", remedy))
    return PStates(*(spec.quantity(f"clocks.{key}").base for key in ("lowest", "step", "core")))


def _sustaining(states: PStates, clock: Fraction, percent: int) -> Fraction:
    """Up to Linux 3.11: the lowest clock at which this load stays DOWN_DIFFERENTIAL below the threshold; in between no change."""
    target = UP_THRESHOLD - DOWN_DIFFERENTIAL
    return states.at_least(percent * clock / target) if percent < target else clock


def _linear(states: PStates, clock: Fraction, percent: int) -> Fraction:
    """From Linux 3.17 on: the clock closest to as much of the way from the lowest to the highest as the load has of 100 %."""
    return states.closest(states.lowest + percent * (states.highest - states.lowest) / 100)


RULES: dict[str, Callable[[PStates, Fraction, int], Fraction]] = {ONDEMAND: _sustaining, ONDEMAND_LINEAR: _linear}


def next_clock(states: PStates, clock: Fraction, load: Fraction, governor: str = ONDEMAND) -> Fraction:
    """What a governor of RULES asks for when the busiest CPU was busy for ``load`` (0 to 1) of a sample at ``clock``."""
    percent = math.floor(100 * load)
    return states.highest if percent > UP_THRESHOLD else RULES[governor](states, clock, percent)


def settle(
    states: PStates,
    run: Callable[[Fraction], R],
    load_of: Callable[[R], Fraction],
    told: Callable[[Trial], None] | None = None,
    governor: str = ONDEMAND,
) -> Settled[R]:
    """Run at the highest clock and then at what the governor asks for, until a clock comes back; ``told`` hears of every trial.

    Where one clock asks for itself, it is chosen. Where several follow each other in a circle (too slow at one, idle at the next), the
    governor alternates between them for ever, and the highest of them is chosen. No clock is run twice, so the number of runs is bounded.
    """
    clocks: list[Fraction] = []
    results: list[R] = []
    trials: list[Trial] = []
    clock = states.highest
    while clock not in clocks:
        result = run(clock)
        load = load_of(result)
        wanted = next_clock(states, clock, load, governor)
        clocks.append(clock)
        results.append(result)
        trials.append(Trial(float(clock), float(load), float(wanted)))
        if told is not None:
            told(trials[-1])
        clock = wanted
    chosen = max(range(clocks.index(clock), len(clocks)), key=lambda number: clocks[number])
    return Settled(results[chosen], tuple(trials), chosen)


def busiest_load(result: Result) -> Fraction:
    """Share of the measured time that the busiest CPU of a run was not idle. Raises InputError if nothing was measured."""
    measured = result.number("/run/measured_fs")
    if not measured:
        raise InputError(Problem("--governor", "the run has no measured time, so no CPU has a load", "measure longer (--measure)"))
    time = result.array("/threads/time_fs")
    return Fraction(int((time.sum(axis=1) - time[:, IDLE]).max()), measured)


def governed(
    experiment: Experiment,
    told: Callable[[Trial], None] | None = None,
    progress: Callable[[float], None] | None = None,
    command: list[str] | None = None,
) -> tuple[Result, tuple[Trial, ...]]:
    """``experiment`` at the clock that its governor settles on (``ondemand`` where it was prepared with none that chooses), and all trials.

    The result has the trials too (``/clock``). ``progress`` and ``command`` as for :meth:`Experiment.run`; the progress begins anew with
    each trial. Raises InputError for a machine without P-states, SimulationError as a run does, KeyboardInterrupt when interrupted: a part
    of a trial decides nothing.
    """
    spec = experiment.machine_spec
    governor = experiment.settings.governor if experiment.settings.governor in RULES else ONDEMAND
    settings = replace(experiment.settings, governor=governor)

    def run(clock: Fraction) -> Result:
        at = spec.at_clock(clock)
        result = replace(experiment, settings=settings, machine_spec=at, machine=compile_machine(at)).run(progress, command)
        if result.text("/run/stop") == "interrupted":
            raise KeyboardInterrupt
        return result

    settled = settle(p_states(spec), run, busiest_load, told, governor)
    columns = np.array([(trial.clock_hz, trial.load, trial.next_hz) for trial in settled.trials])
    clock: dict[str, Value] = {
        "/clock/trial_hz": columns[:, 0].copy(),
        "/clock/load": columns[:, 1].copy(),
        "/clock/next_hz": columns[:, 2].copy(),
        "/clock/chosen": settled.chosen,
    }
    return Result({**settled.result.data, **clock}, settled.result.host), settled.trials
