"""One case, run and judged."""
from __future__ import annotations

from dataclasses import dataclass

from cohsim.fuzz.case import Case
from cohsim.fuzz.execute import Outcome, Tables, base_machine, execute
from cohsim.fuzz.history import build
from cohsim.fuzz.oracle import judge


@dataclass(frozen=True)
class Failure:
    """Why a case failed. ``rule``: oracle rule, or fault, deadlock, no progress."""

    rule: str
    text: str


def run_case(case: Case, tables: Tables | None = None) -> tuple[Outcome, Failure | None]:
    """Run a case and say what is wrong with it, if anything."""
    outcome = execute(case, tables)
    return outcome, verdict(case, outcome)


def verdict(case: Case, outcome: Outcome) -> Failure | None:
    """What is wrong with an outcome, if anything."""
    if outcome.stop:
        return Failure(outcome.stop.split(":")[0], f"{outcome.stop}\n{outcome.report}".rstrip())
    history = build(case, outcome.programs, outcome.logs, outcome.final)
    found = judge(history, total_store_order=base_machine(case.machine).isa == "x86")
    if not found:
        return None
    return Failure(found[0].rule, "\n".join(f"{v.rule}: {v.text}" for v in found))
