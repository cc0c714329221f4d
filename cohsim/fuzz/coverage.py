"""Which rows of the protocol tables fired, for each machine, protocol and kind of home."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cohsim.fuzz.execute import base_machine
from cohsim.protocols import tables
from cohsim.protocols.language import Controller
from cohsim.protocols.vocabulary import HOME_STATES, NODE_STATES

Key = tuple[str, str, str]
"""Machine, protocol, home."""

_DIRECTORY_ONLY = {("home", state, "Recall") for state in HOME_STATES} | {("home", "Busy", "ReadyR")}
_BROADCAST_ONLY = {("home", "Busy", "RspShared")} | {("node", state, "SnpS") for state in ("S", "F", "SM", "FM", "II")}
_UPGRADING = ("SM", "FM", "OM")
_BROADCAST_ONLY_MSI = {("node", state, "SnpS") for state in ("I", "IS", "IM")}


@dataclass(frozen=True)
class NeverFired:
    """A row that did not fire, and why if that is known."""

    controller: str
    state: str
    event: str
    reason: str

    def __str__(self) -> str:
        return f"{self.controller} {self.state} {self.event}"


@dataclass
class Coverage:
    """Transition counts by key."""

    node: dict[Key, np.ndarray] = field(default_factory=dict)
    home: dict[Key, np.ndarray] = field(default_factory=dict)
    operations: dict[Key, int] = field(default_factory=dict)

    def add(self, key: Key, node_fired: np.ndarray, home_fired: np.ndarray, operations: int) -> None:
        """Count a run."""
        if key not in self.node:
            self.node[key], self.home[key], self.operations[key] = np.zeros_like(node_fired), np.zeros_like(home_fired), 0
        self.node[key] += node_fired
        self.home[key] += home_fired
        self.operations[key] += operations

    def rows(self, key: Key) -> tuple[int, list[NeverFired]]:
        """(rows that fired, rows that did not)."""
        node, home = tables(key[1])
        fired = 0
        never: list[NeverFired] = []
        for table, states, counts in ((node, NODE_STATES, self.node[key]), (home, HOME_STATES, self.home[key])):
            for (state, event), _ in table.rows.items():
                if counts[states.index(state), table.events.index(event)]:
                    fired += 1
                else:
                    never.append(NeverFired(table.name, state, event, why_not(key, table, state, event)))
        return fired, never


def why_not(key: Key, table: Controller, state: str, event: str) -> str:
    """Why the row cannot fire here; "" if it should."""
    row = (table.name, state, event)
    if table.rows[state, event].actions == ("stall",):
        return "stalls: no transition, so the core does not count it"
    if key[2] == "broadcast" and row in _DIRECTORY_ONLY:
        return "directory home only"
    if key[2] == "directory" and (row in _BROADCAST_ONLY or (key[1] == "msi" and row in _BROADCAST_ONLY_MSI)):
        return "broadcast home only"
    if key[2] == "directory" and row == ("node", "II", "SnpM"):
        return "gave its data away: the core's home cleared its bit with that answer"
    if event == "Load" and state in _UPGRADING and not base_machine(key[0]).l2_private:
        return "upgrading: a cluster's L2 serves a line's operations one at a time"
    return ""
