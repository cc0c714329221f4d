"""How many single-row errors of the protocol tables does the random tester notice? ``python -m cohsim.fuzz.planted mesif``.

The core runs mutated tables (``cohsim.protocols.mutants``). An error is noticed if a case faults, deadlocks, does not end, breaks a rule of
the oracle, or if a row that otherwise fires no longer does. One that crashes the process counts as noticed and is listed.
"""
from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool

import numpy as np

from cohsim.fuzz.case import Case
from cohsim.fuzz.execute import Tables, bundled_tables
from cohsim.fuzz.generate import MACHINES, generate
from cohsim.fuzz.verdict import run_case
from cohsim.protocols.language import compile_table
from cohsim.protocols.mutants import Mutant, mutants
from cohsim.protocols.vocabulary import HOME_STATES, NODE_STATES

CASES = 24
SMALL_ACTIONS = 6000
TIMEOUT_S = 60.0

MISSED, CRASHED = "", "crash"


def cases(protocol: str, count: int = CASES) -> list[Case]:
    """Quick cases on all machines and both homes."""
    found: list[Case] = []
    seed = 0
    while len(found) < count:
        case = generate(seed, MACHINES[len(found) % len(MACHINES)], protocol)
        seed += 1
        wanted = ("directory", "broadcast")[len(found) // len(MACHINES) % 2]
        if case.home == wanted and case.iterations * sum(len(t.body) for t in case.threads) <= SMALL_ACTIONS:
            found.append(case)
    return found


def flatten(mutant: Mutant) -> Tables:
    """The mutant's tables as the core reads them."""
    return compile_table(mutant.node, NODE_STATES), compile_table(mutant.home, HOME_STATES)


def fired_rows(protocol: str, tried: Sequence[Case], tables: Tables | None = None) -> np.ndarray:
    """Which rows fire in the cases, as one bool array. Raises ValueError if a case fails."""
    node, home = bundled_tables(protocol)
    fired = np.zeros(len(node.next) + len(home.next), bool)
    for case in tried:
        outcome, failure = run_case(case, tables)
        if failure is not None:
            raise ValueError(f"case {case.seed} fails without a planted error: {failure.text}")
        fired |= np.concatenate([outcome.node_fired.ravel(), outcome.home_fired.ravel()]) > 0
    return fired


def noticed(mutant: Mutant, tried: Sequence[Case], usual: np.ndarray) -> str:
    """The rule by which an error was noticed; MISSED if it was not."""
    tables = flatten(mutant)
    fired = np.zeros(len(usual), bool)
    for case in tried:
        outcome, failure = run_case(case, tables)
        if failure is not None:
            return failure.rule
        fired |= np.concatenate([outcome.node_fired.ravel(), outcome.home_fired.ravel()]) > 0
    return "rows no longer fire" if (usual & ~fired).any() else MISSED


def judge_all(protocol: str, every: int = 1) -> Iterator[tuple[str, str]]:
    """(error, how it was noticed) of every ``every``-th planted error of a protocol."""
    tried = cases(protocol)
    usual = fired_rows(protocol, tried)
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    try:
        for k, mutant in enumerate(mutants(protocol)):
            if k % every:
                continue
            try:
                yield mutant.what, pool.submit(noticed, mutant, tried, usual).result(timeout=TIMEOUT_S)
            except (BrokenProcessPool, FutureTimeout) as error:
                for process in multiprocessing.active_children():
                    process.kill()
                pool.shutdown(wait=True)
                pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
                yield mutant.what, CRASHED if isinstance(error, BrokenProcessPool) else "does not return"
    finally:
        pool.shutdown()


def main(arguments: Sequence[str]) -> int:
    """Print the totals and what was missed. ``arguments``: protocol, and N for every N-th error."""
    protocol = arguments[0]
    results = list(judge_all(protocol, int(arguments[1]) if len(arguments) > 1 else 1))
    how = Counter(rule for _, rule in results)
    print(f"{protocol}: {len(results)} planted errors, {len(results) - how[MISSED]} noticed: "
          + ", ".join(f"{n} {rule}" for rule, n in how.most_common() if rule))
    for what, rule in results:
        if rule in (MISSED, CRASHED, "does not return"):
            print(f"{protocol}: {rule or 'not noticed'}: {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
