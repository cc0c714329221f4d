"""The row language of protocol tables.

One row is one transition::

    STATES  EVENTS  ACTION...  [-> NEXT]        # comment

STATES and EVENTS may be comma lists; without ``-> NEXT`` the state stays. ``stall`` means: leave the message or operation where it is. A
(state, event) pair without a row is a claim that the pair cannot happen: the core stops with a report, the checker proves it.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cohsim.errors import ProtocolTableError

NEVER = 255
"""Next-state code of an absent row."""


@dataclass(frozen=True)
class Row:
    """One parsed transition."""

    state: str
    event: str
    actions: tuple[str, ...]
    next: str
    line: int


@dataclass
class Controller:
    """A table under construction: closed sets of states, events and actions, and the rows."""

    name: str
    states: dict[str, str]                 # state -> permission: "N", "R", "RW" ("-" for a home)
    events: tuple[str, ...]
    actions: tuple[str, ...]
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)

    def add(self, text: str, override: bool = False) -> Controller:
        """Add rows; ``override`` allows replacing inherited ones. Raises :class:`ProtocolTableError`."""
        for number, raw in enumerate(text.splitlines(), 1):
            body = raw.split("#")[0].strip()
            if not body:
                continue
            left, _, successor = body.partition("->")
            words = left.split()
            if len(words) < 2:
                raise ProtocolTableError(f"{self.name} line {number}: a row needs states, events and actions: {body!r}")
            states, events, *actions = words
            for state in states.split(","):
                for event in events.split(","):
                    self._check(state, event, actions, successor.strip(), number, override)
                    self.rows[state, event] = Row(state, event, tuple(actions), successor.strip() or state, number)
        return self

    def remove(self, *keys: str) -> Controller:
        """Drop inherited rows (``"S SnpS"``) or whole states (``"F"``) that a derived protocol cannot reach."""
        for key in keys:
            state, *event = key.split()
            gone = [pair for pair in self.rows if pair[0] == state and (not event or pair[1] == event[0])]
            if not gone:
                raise ProtocolTableError(f"{self.name}: nothing to remove for {key!r}")
            for pair in gone:
                del self.rows[pair]
            if not event:
                del self.states[state]
        return self

    def _check(self, state: str, event: str, actions: list[str], successor: str, number: int, override: bool) -> None:
        where = f"{self.name} line {number}"
        if state not in self.states:
            raise ProtocolTableError(f"{where}: unknown state {state!r}; known: {' '.join(self.states)}")
        if event not in self.events:
            raise ProtocolTableError(f"{where}: unknown event {event!r}; known: {' '.join(self.events)}")
        if successor and successor not in self.states:
            raise ProtocolTableError(f"{where}: unknown next state {successor!r}")
        for action in actions:
            if action not in self.actions and action != "stall":
                raise ProtocolTableError(f"{where}: unknown action {action!r}; known: {' '.join(self.actions)}")
        if not actions:
            raise ProtocolTableError(f"{where}: a row needs at least one action")
        if "stall" in actions and (len(actions) > 1 or successor):
            raise ProtocolTableError(f"{where}: stall must stand alone")
        if ((state, event) in self.rows) != override:
            raise ProtocolTableError(f"{where}: ({state}, {event}) " + (
                "overrides nothing" if override else f"is already defined on line {self.rows[state, event].line}"))

    def copy(self) -> Controller:
        """An independent copy to overlay rows on."""
        return Controller(self.name, dict(self.states), self.events, self.actions, dict(self.rows))


@dataclass(frozen=True)
class FlatTable:
    """A table as the core reads it: ``next[s * E + e]`` (NEVER if absent) and a bit mask of actions (bit i = vocabulary word i)."""

    next: np.ndarray      # uint8[S*E]
    ops: np.ndarray       # uint32[S*E]
    perm: np.ndarray      # uint8[S]: 0 none, 1 read, 2 read and write
    states: list[str]
    events: list[str]


def compile_table(controller: Controller, state_order: tuple[str, ...]) -> FlatTable:
    """Flatten with the fixed state numbering of the vocabulary (states the protocol lacks keep their number, without rows).

    Actions of one row are independent of order by construction of the vocabulary, hence a bit mask.
    """
    size = len(state_order) * len(controller.events)
    successor = np.full(size, NEVER, np.uint8)
    ops = np.zeros(size, np.uint32)
    bit = {action: 1 << i for i, action in enumerate(controller.actions)}
    for (state, event), row in controller.rows.items():
        index = state_order.index(state) * len(controller.events) + controller.events.index(event)
        successor[index] = state_order.index(row.next)
        ops[index] = 0x80000000 if row.actions == ("stall",) else sum(bit[a] for a in row.actions)
    perm = np.array([{"N": 0, "-": 0, "R": 1, "RW": 2}[controller.states.get(s, "N")] for s in state_order], np.uint8)
    return FlatTable(successor, ops, perm, list(state_order), list(controller.events))
