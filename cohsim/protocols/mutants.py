"""Planted errors: every single-row change of a table, to see whether lint and search notice it.

A mutant drops one action, changes the next state, turns a row into a stall, or removes the row.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cohsim.protocols import tables
from cohsim.protocols.check import check_tables
from cohsim.protocols.language import Controller
from cohsim.protocols.lint import lint


@dataclass(frozen=True)
class Mutant:
    """One planted error: which table, what was changed, and the tables with it."""

    what: str
    node: Controller
    home: Controller


@dataclass(frozen=True)
class Verdict:
    """Who noticed a mutant: ``lint`` and ``search`` are the first complaint, or empty."""

    what: str
    lint: str
    search: str


def mutants(name: str) -> Iterator[Mutant]:
    """All single-row errors of a protocol, in table order."""
    pair = tables(name)
    for which, table in enumerate(pair):
        for what, changed in _changed(table):
            both = [pair[0], pair[1]]
            both[which] = changed
            yield Mutant(f"{table.name} {what}", *both)


def _changed(table: Controller) -> Iterator[tuple[str, Controller]]:
    for (state, event), row in table.rows.items():
        where = f"{state} {event}"
        other = table.copy()
        del other.rows[state, event]
        yield f"{where}: row removed", other
        if row.actions == ("stall",):
            continue
        stalled = table.copy()
        stalled.rows[state, event] = replace(row, actions=("stall",), next=state)
        yield f"{where}: stalls", stalled
        for k, action in enumerate(row.actions):
            other = table.copy()
            other.rows[state, event] = replace(row, actions=row.actions[:k] + row.actions[k + 1:])
            yield f"{where}: without {action}", other
        for successor in table.states:
            if successor != row.next:
                other = table.copy()
                other.rows[state, event] = replace(row, next=successor)
                yield f"{where}: -> {successor} instead of {row.next}", other


def judge(name: str, mutant: Mutant, nodes: int = 3, limit: int = 200_000) -> Verdict:
    """Lint and search one mutant (rows that the mutant no longer meets count as noticed)."""
    complaints = lint(mutant.node, mutant.home)
    report = check_tables(name, mutant.node, mutant.home, nodes=nodes, flat=False, limit=limit)
    found = next((f"{mode} home, {n} nodes: {r.problem}" for mode, n, r in report.searches if r.problem), "")
    if not found and report.unmet:
        found = f"rows no longer met: {'; '.join(' '.join(row) for row in report.unmet)}"
    return Verdict(mutant.what, complaints[0] if complaints else "", found)
