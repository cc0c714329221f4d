"""One case, run and judged."""
from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from cohsim.fuzz.case import Case
from cohsim.fuzz.execute import Outcome, Tables, base_machine, execute
from cohsim.fuzz.history import build
from cohsim.fuzz.oracle import judge


@dataclass(frozen=True)
class Failure:
    """Why a case failed. ``rule``: oracle rule, or fault, deadlock, no progress, look-ahead."""

    rule: str
    text: str


def run_case(case: Case, tables: Tables | None = None) -> tuple[Outcome, Failure | None]:
    """Run a case and say what is wrong with it, if anything. One with a NIC runs with and without look-ahead: a CPU that runs ahead of a
    device's read lets the device see what it stores later, and no order of values shows that.
    """
    outcome = execute(case, tables)
    failure = verdict(case, outcome)
    if failure is None and case.nic is not None:
        failure = compare(outcome, execute(msgspec.structs.replace(case, lookahead=not case.lookahead), tables))
    return outcome, failure


def compare(one: Outcome, other: Outcome) -> Failure | None:
    """Two runs of a case must agree in every bit."""
    if other.stop:
        return Failure("look-ahead", f"the run with the other setting of look-ahead: {other.stop}\n{other.report}".rstrip())
    rows = min(len(one.dma), len(other.dma))
    differing = np.flatnonzero((one.dma[:rows] != other.dma[:rows]).any(axis=1))
    if len(differing):
        k = int(differing[0])
        return Failure("look-ahead", f"device access {k} (time fs, NIC, write, address, before, after): {one.dma[k].tolist()}, with the other "
                                     f"setting of look-ahead {other.dma[k].tolist()}")
    same = (len(one.dma) == len(other.dma) and one.final == other.final and one.operations == other.operations
            and all(np.array_equal(a, b) for a, b in zip(one.logs, other.logs, strict=True))
            and np.array_equal(one.node_fired, other.node_fired) and np.array_equal(one.home_fired, other.home_fired)
            and np.array_equal(one.nic_counters, other.nic_counters))
    return None if same else Failure("look-ahead", "values or transitions differ with the other setting of look-ahead")


def verdict(case: Case, outcome: Outcome) -> Failure | None:
    """What is wrong with an outcome, if anything."""
    if outcome.stop:
        return Failure(outcome.stop.split(":")[0], f"{outcome.stop}\n{outcome.report}".rstrip())
    history = build(case, outcome.programs, outcome.logs, outcome.final, outcome.dma)
    found = judge(history, total_store_order=base_machine(case.machine).isa == "x86")
    if not found:
        return None
    return Failure(found[0].rule, "\n".join(f"{v.rule}: {v.text}" for v in found))
