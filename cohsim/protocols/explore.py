"""Exhaustive search over a model: safety in every state, every row met, every delivery order ends quiet."""
from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from cohsim.protocols.reference import Violation


class Explorable(Protocol):
    """What the search needs of a model."""

    def initial(self, nodes: int) -> Any: ...
    def successors(self, state: Any) -> Iterator[tuple[Any, Any]]: ...
    def canonical(self, state: Any) -> Hashable: ...
    def check(self, state: Any) -> None: ...
    def quiet(self, state: Any) -> bool: ...
    def describe(self, state: Any) -> str: ...


@dataclass
class Result:
    """Outcome of one search; ``problem`` is empty iff all properties hold."""

    states: int
    transitions: int
    problem: str = ""
    trace: list[str] = field(default_factory=list)      # the shortest way into the problem, one line a step

    def __str__(self) -> str:
        if not self.problem:
            return f"{self.states} states, {self.transitions} transitions: holds"
        return "\n".join([self.problem, *(f"  {k:3} {line}" for k, line in enumerate(self.trace))])


def explore(model: Explorable, nodes: int, *, limit: int = 5_000_000,
            on_state: Callable[[Any, list[tuple[Any, Any]]], None] | None = None) -> Result:
    """Breadth-first search from the initial state, so the first problem has a shortest counterexample.

    ``on_state`` is called with every state and its transitions and may raise :class:`Violation` too. A search that would
    pass ``limit`` states is itself a problem (nothing was proved), reported as such.
    """
    start = model.canonical(model.initial(nodes))
    index: dict[Hashable, int] = {start: 0}
    states, parent = [start], array("l", [-1])
    edges, first = array("l"), array("l", [0])           # forced transitions of state k: edges[first[k]:first[k + 1]]
    todo, transitions = deque([0]), 0
    while todo:
        k = todo.popleft()
        state = states[k]
        try:
            model.check(state)
            following = list(model.successors(state))
            if on_state:
                on_state(state, following)
        except Violation as problem:
            return Result(len(states), transitions, str(problem), trace_to(model, nodes, states, parent, k, problem))
        transitions += len(following)
        for step, raw in following:
            after = model.canonical(raw)
            j = index.setdefault(after, len(states))
            if j == len(states):
                states.append(after)
                parent.append(k)
                todo.append(j)
            if not step.spontaneous:
                edges.append(j)
        first.append(len(edges))
        if len(states) > limit:
            return Result(len(states), transitions, f"more than {limit} states: nothing proved")
    stuck = unfinished(model, states, edges, first)
    if stuck is not None:
        k, what = stuck
        return Result(len(states), transitions, what, trace_to(model, nodes, states, parent, k, None))
    return Result(len(states), transitions)


def unfinished(model: Explorable, states: list[Any], edges: array[int], first: array[int]) -> tuple[int, str] | None:
    """Progress: forced steps alone form no cycle and end only in quiet states, hence every request gets finished.

    Returns the first state that breaks this, with the reason. This is stronger than "a quiet state can be reached".
    """
    for k, state in enumerate(states):
        if first[k] == first[k + 1] and not model.quiet(state):
            return k, "trapped: a request can never finish (nothing is on its way that would help)"
    incoming = array("l", bytes(8 * len(states)))
    for j in edges:
        incoming[j] += 1
    ready = [k for k in range(len(states)) if incoming[k] == 0]
    done = 0
    while ready:
        k = ready.pop()
        done += 1
        for j in edges[first[k]:first[k + 1]]:
            incoming[j] -= 1
            if incoming[j] == 0:
                ready.append(j)
    if done == len(states):
        return None
    return next(k for k in range(len(states)) if incoming[k]), "livelock: messages can go round for ever from here"


def trace_to(model: Explorable, nodes: int, states: list[Any], parent: array[int], k: int,
             problem: Violation | None) -> list[str]:
    """The path to state k with node numbers that stay the same from step to step, replayed without sorting."""
    path = []
    while k >= 0:
        path.append(states[k])
        k = parent[k]
    path.reverse()
    state = model.initial(nodes)
    lines = [f"{'start':44} {model.describe(state)}"]
    for wanted in path[1:]:
        step, state = next((s, t) for s, t in model.successors(state) if model.canonical(t) == wanted)
        lines.append(f"{str(step):44} {model.describe(state)}")
    try:                                                 # the last step again, for its number in this replay
        model.check(state)
        deque(model.successors(state), maxlen=0)
    except Violation as again:
        problem = again
    if problem is not None:
        lines.append(f"{str(problem.step):44} <- {problem}" if problem.step else f"{'':44} <- {problem}")
    return lines
