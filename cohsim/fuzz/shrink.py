"""The smallest case that still fails: fewer threads, iterations, actions, lines; simpler actions. Greedy, until nothing more goes.

A race depends on times, and everything that is removed moves them: a smaller case is tried with a few run seeds before it is given up.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain

import msgspec

from cohsim.fuzz.case import TOUCHES_WORD, Action, Case, consistent
from cohsim.fuzz.execute import Tables
from cohsim.fuzz.verdict import Failure, run_case

replace = msgspec.structs.replace
SEEDS = 4
"""Run seeds tried for each smaller case: the one it had, then others."""


def shrink(case: Case, rule: str, *, tables: Tables | None = None, seconds: float = 30.0,
           progress: Callable[[Case], None] | None = None) -> tuple[Case, Failure]:
    """A smaller case that breaks the same ``rule``, found within ``seconds``. Raises ValueError if ``case`` does not break it."""
    _, failure = run_case(case, tables)
    if failure is None or failure.rule != rule:
        raise ValueError(f"the case does not fail with {rule!r}")
    until = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for candidate in _smaller(case):
            if time.monotonic() > until:
                return case, failure
            found = _fails(candidate, rule, tables)
            if found is not None:
                case, failure = found
                again = True
                if progress is not None:
                    progress(case)
                break
    return case, failure


def _fails(case: Case, rule: str, tables: Tables | None) -> tuple[Case, Failure] | None:
    for k in range(SEEDS):
        tried = case if k == 0 else replace(case, run_seed=case.run_seed % 1000 + k)
        _, failure = run_case(tried, tables)
        if failure is not None and failure.rule == rule:
            return tried, failure
    return None


def _smaller(case: Case) -> Iterator[Case]:
    """Smaller cases, the boldest first."""
    smaller = (_fewer_threads, _fewer_iterations, _shorter_bodies, _fewer_lines, _plainer_nic, _plainer)
    for candidate in chain.from_iterable(part(case) for part in smaller):
        candidate = consistent(candidate)
        if candidate != case:
            yield candidate


def _fewer_threads(case: Case) -> Iterator[Case]:
    count = len(case.threads)
    size = count // 2
    while size >= 1:
        for first in range(0, count, size):
            rest = case.threads[:first] + case.threads[first + size:]
            if rest:
                yield replace(case, threads=rest)
        size //= 2


def _fewer_iterations(case: Case) -> Iterator[Case]:
    for n in (case.iterations // 4, case.iterations // 2, case.iterations * 3 // 4, case.iterations - 1):
        if 0 < n < case.iterations:
            yield replace(case, iterations=n)


def _shorter_bodies(case: Case) -> Iterator[Case]:
    longest = max(len(t.body) for t in case.threads)
    size = max(longest // 2, 1)
    while size >= 1:
        for k, thread in enumerate(case.threads):
            for first in range(0, len(thread.body), size):
                yield _with_body(case, k, thread.body[:first] + thread.body[first + size:])
        size //= 2


def _with_body(case: Case, k: int, body: tuple[Action, ...]) -> Case:
    return replace(case, threads=case.threads[:k] + (replace(case.threads[k], body=body),) + case.threads[k + 1:])


def _fewer_lines(case: Case) -> Iterator[Case]:
    rings = () if case.nic is None else (case.nic.receive, case.nic.transmit)
    for k, area in enumerate(case.areas):
        if area.lines > 1 and k not in rings:
            yield replace(case, areas=case.areas[:k] + (replace(area, lines=area.lines // 2),) + case.areas[k + 1:])


def _plainer_nic(case: Case) -> Iterator[Case]:
    """Without the NIC, or with fewer descriptors, each reported at once, no interrupts, whole frames in a line."""
    if case.nic is None:
        return
    yield replace(case, nic=None)
    if case.nic.entries > 4:
        yield replace(case, nic=replace(case.nic, entries=case.nic.entries // 2))
    for change in ({"interrupts": False}, {"batch": 1}, {"writeback": 1}, {"flow_at": 0}, {"frame_bytes": 104}, {"service_ns": 0},
                   {"fifo_frames": 64}, {"moderation_ns": 0}, {"ack_every": 1}):
        name, value = next(iter(change.items()))
        if getattr(case.nic, name) != value:
            yield replace(case, nic=replace(case.nic, **change))


def _plainer(case: Case) -> Iterator[Case]:
    """The machine as built, look-ahead off, actions without guards, dependences and early logging, fixed lines, little work."""
    for field in case.geometry:
        yield replace(case, geometry={k: v for k, v in case.geometry.items() if k != field})
    if case.lookahead:
        yield replace(case, lookahead=False)
    if case.log_skew:
        yield replace(case, log_skew=0)
    for k, thread in enumerate(case.threads):
        for i, a in enumerate(thread.body):
            for change in ({"guard": None}, {"sets_guard": False}, {"dep": 0}, {"flush": False}, {"line": 0}, {"value": 1}):
                name, value = next(iter(change.items()))
                if getattr(a, name) == value or (name == "line" and a.kind not in TOUCHES_WORD) or (name == "value" and a.kind != "work"):
                    continue
                yield _with_body(case, k, thread.body[:i] + (replace(a, **change),) + thread.body[i + 1:])
