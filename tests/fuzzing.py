"""Small random cases for the tests of the random tester, and histories as a correct memory would produce them."""

from __future__ import annotations

from functools import cache

from cohsim.fuzz.case import Action, Area, Case, ThreadCase, Word
from cohsim.fuzz.execute import Outcome, base_machine, execute
from cohsim.fuzz.generate import generate
from cohsim.fuzz.history import History, build
from cohsim.fuzz.oracle import Violation, judge

AREA = 0x0100_0000


@cache
def small_case(machine: str, protocol: str, skip: int = 0) -> Case:
    """A generated case of a few thousand actions; ``skip`` passes over as many."""
    seed = 0
    while True:
        case = generate(seed, machine, protocol)
        if case.iterations * sum(len(t.body) for t in case.threads) <= 5000:
            if not skip:
                return case
            skip -= 1
        seed += 1


def hand_made(machine: str, *bodies: tuple[Action, ...], words: tuple[Word, ...], iterations: int = 8, lines: int = 1) -> Case:
    """A case of one area, thread i on CPU 2 * i."""
    base = base_machine(machine)
    threads = tuple(ThreadCase(k, 2 * k, 0, body) for k, body in enumerate(bodies))
    return Case(seed=0, machine=machine, protocol=base.protocol, home="broadcast" if base.home_broadcast else "directory", geometry={},
                iterations=iterations, run_seed=1, lookahead=True, log_skew=0, areas=(Area(lines, 6, words),), threads=threads)


def history_of(case: Case, outcome: Outcome) -> History:
    """The history of a run that ended."""
    assert not outcome.stop, outcome.report
    return build(case, outcome.programs, outcome.logs, outcome.final, outcome.dma)


def judged(case: Case, outcome: Outcome | None = None) -> list[Violation]:
    """What the oracle says of a run (of a changed one, if given)."""
    outcome = outcome or execute(case)
    return judge(history_of(case, outcome), total_store_order=base_machine(case.machine).isa == "x86")
