"""Exhaustive check of a protocol: what must hold, and the one call that proves it or gives a counterexample.

Checked in every reachable state of one line, n nodes and the home (``reference.py``):

- single writer or many readers (SWMR); at most one node responsible for dirty data; at most one forwarder (broadcast home); a
  directory home knows every holder
- every load and every store meets the data of the last store
- no pair of state and event without a row; every row is met
- every request finishes, whatever the order of deliveries: no deadlock, no livelock, no message left over
- the flat arrays that the core executes (``compile_table``), run by an independent interpreter (``flat.py``), make exactly the
  transitions of the rows
"""
from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from cohsim.protocols import tables
from cohsim.protocols.explore import Result, explore
from cohsim.protocols.flat import FlatExecutor
from cohsim.protocols.language import Controller, compile_table
from cohsim.protocols.reference import HOMES, Model, State, Step, Violation, canonical
from cohsim.protocols.vocabulary import HOME_STATES, NODE_STATES

RESPONSIBLE = frozenset({"E", "M", "O", "OM"})
FORWARDER = frozenset({"F", "FM"})
STABLE = frozenset({"I", "S", "E", "F", "O", "M"})


class CheckedModel(Model):
    """The reference model with its invariants."""

    def canonical(self, state: State) -> Hashable:
        """One representative of all node numberings."""
        return canonical(state)

    def check(self, state: State) -> None:
        """Raise :class:`Violation` if an invariant fails in ``state``."""
        names = [record[0] for record in state[1]]
        permissions = [self.node.states[name] for name in names]
        writers = permissions.count("RW")
        if writers > 1 or (writers and "R" in permissions):
            raise Violation(f"SWMR: {' '.join(names)}")
        if sum(name in RESPONSIBLE for name in names) > 1:
            raise Violation(f"two nodes answer for the line: {' '.join(names)}")
        if not self.directory and sum(name in FORWARDER for name in names) > 1:   # see mesif.py
            raise Violation(f"two forwarders: {' '.join(names)}")
        if self.directory and any(p != "N" and not record[4] for p, record in zip(permissions, state[1], strict=True)):
            raise Violation("inclusion: a node holds a copy although its core-valid bit is clear")

    def quiet(self, state: State) -> bool:
        """Nothing on its way, nobody waits."""
        home, records = state
        return home[0] == "Free" and all(r[0] in STABLE and not (r[2] or r[3] or r[7]) for r in records)

    def describe(self, state: State) -> str:
        """The state in one line, for counterexamples."""
        home, records = state
        parts = []
        for i, (st, fresh, up, down, bit, own, cur, queued) in enumerate(records):
            parts.append(f"{i}:{st}" + ("" if fresh or self.node.states[st] == "N" else " stale") + (" bit" if bit else "")
                         + (" owner" if own else "") + (f" to-home[{' '.join(m[0] for m in up)}]" if up else "")
                         + (f" to-node[{' '.join(m[0] for m in down)}]" if down else "")
                         + (f" waits[{queued[1]}]" if queued else "") + (" served" if cur else ""))
        return f"{' | '.join(parts)} | home {home[0]} {home[1]}".rstrip() + ("" if home[6] else ", home data old")


@dataclass
class ProtocolReport:
    """What the check of one protocol found."""

    name: str
    searches: list[tuple[str, int, Result]] = field(default_factory=list)          # home, nodes, result
    met_by: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)    # row -> homes that reach it
    unmet: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """True iff every property was proved."""
        return not self.unmet and all(not result.problem for _, _, result in self.searches)


def search(node: Controller, home: Controller, mode: str, nodes: int, *, flat: bool = True,
           limit: int = 5_000_000) -> tuple[Result, set[tuple[str, str, str]]]:
    """Search one model; returns the result and the rows met. ``flat`` compares the core's arrays in every state."""
    model = CheckedModel(node, home, mode)
    if not flat:
        return explore(model, nodes, limit=limit), model.offered
    arrays = FlatExecutor(compile_table(node, NODE_STATES), compile_table(home, HOME_STATES), node.actions, home.actions,
                          model.directory)
    return explore(model, nodes, limit=limit, on_state=agreement(arrays)), model.offered


def agreement(arrays: FlatExecutor) -> Callable[[State, list[tuple[Step, State]]], None]:
    """For :func:`explore`: raise :class:`Violation` where the arrays' transitions are not those of the rows."""

    def compare(state: State, following: list[tuple[Step, State]]) -> None:
        expected = {canonical(after) for _, after in following}
        found = {canonical(after) for after in arrays.successors(state)}
        if expected != found:
            raise Violation(f"the core's arrays and the rows disagree: {len(found - expected)} transitions only by the arrays, "
                            f"{len(expected - found)} only by the rows")

    return compare


def check_protocol(name: str, nodes: int = 3, homes: tuple[str, ...] = HOMES) -> ProtocolReport:
    """Prove the properties of a protocol for 2..``nodes`` nodes, or find the shortest counterexample."""
    return check_tables(name, *tables(name), nodes=nodes, homes=homes)


def check_tables(name: str, node: Controller, home: Controller, *, nodes: int = 3, homes: tuple[str, ...] = HOMES,
                 flat: bool = True, limit: int = 5_000_000) -> ProtocolReport:
    """:func:`check_protocol` for given tables. Stops at the first counterexample; rows are judged only without one."""
    report = ProtocolReport(name)
    for count in range(2, nodes + 1):
        for mode in homes:
            result, offered = search(node, home, mode, count, flat=flat, limit=limit)
            report.searches.append((mode, count, result))
            for pair in offered:
                if mode not in (seen := report.met_by.setdefault(pair, [])):
                    seen.append(mode)
            if result.problem:
                return report
    if nodes >= 3 and homes == HOMES:                    # with fewer, rows may rightly stay unmet
        report.unmet = [(c.name, *key) for c in (node, home) for key in c.rows if (c.name, *key) not in report.met_by]
    return report


def rows_of_one_home(report: ProtocolReport) -> dict[str, list[str]]:
    """Rows that only one kind of home reaches, by that kind, as readable text."""
    only: dict[str, list[Any]] = {}
    for (controller, state, event), seen in sorted(report.met_by.items()):
        if len(seen) == 1:
            only.setdefault(seen[0], []).append(f"{controller} {state} {event}")
    return only
