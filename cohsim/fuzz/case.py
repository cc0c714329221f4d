"""A random test: which machine, which words, and one loop of actions per thread. Plain data: it can be saved, shrunk and replayed.

Words have a kind, and the kind says what the oracle can demand of them:

single   one thread stores, each value once; the others load
flag     a single that holds the number of completed iterations: others wait for it
counter  threads add one, indivisibly
multi    all threads store, exchange and compare-and-swap, each value once
bits     each thread sets, clears and flips its own bit, indivisibly
scratch  one thread alone, with every function; shares its line with others' words
"""
from __future__ import annotations

from typing import Literal

import msgspec

WordKind = Literal["single", "flag", "counter", "multi", "bits", "scratch"]
ActionKind = Literal["work", "pause", "fence", "load", "store", "await", "add", "put", "get", "alter", "set", "look"]

LINE_BYTES = 64
AREA_BASE, AREA_BYTES = 0x0100_0000, 0x0100_0000
LOG_BASE, LOG_BYTES = 0x4000_0000, 0x0100_0000

ADD_RMW, ADD_SUB, ADD_LLSC, ADD_CAS = range(4)
"""Ways of an ``add``: locked add, locked subtraction of -1, LL/SC loop, compare-and-swap loop."""
PUT_STORE, PUT_XCHG, PUT_CAS, PUT_LLSC = range(4)
"""Ways of a ``put``: plain store, exchange, load and compare-and-swap once, LL and SC once."""
DEP_NONE, DEP_FLAG, DEP_ADDRESS = range(3)
"""How a load depends on the load before it: not, by the micro-op's flag, through its address register."""


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """A word at the same ``offset`` in every line of its area. ``owner``: thread that stores; -1 for all."""

    kind: WordKind
    offset: int
    size: int
    owner: int = -1

    @property
    def counts_iterations(self) -> bool:
        """Too narrow for a serial: holds the iteration, so one action of the body may store it."""
        return self.kind == "flag" or self.size <= 2


class Area(msgspec.Struct, frozen=True):
    """``lines`` (a power of two) lines, ``1 << shift`` bytes apart, all with the same words."""

    lines: int
    shift: int
    words: tuple[Word, ...]


class Guard(msgspec.Struct, frozen=True):
    """Do the action only if ``condition(value of the latest guard load, operand)`` does not hold."""

    condition: int
    operand: int
    predicted_taken: bool


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a thread's body.

    ``line``: fixed line of the area, or -1 - k for a line that changes with every iteration (bits from k of the thread's hash).
    ``way``: kind of fence, function of an ``alter``, way of an ``add`` or ``put``. ``value``: instructions of ``work``, operand, or
    the lag an ``await`` accepts.
    """

    kind: ActionKind
    area: int = 0
    word: int = 0
    line: int = 0
    size: int = 8
    way: int = 0
    value: int = 0
    dep: int = DEP_NONE
    guard: Guard | None = None
    sets_guard: bool = False
    flush: bool = False


class ThreadCase(msgspec.Struct, frozen=True):
    """A thread: its ``id`` marks its values and words, ``cpu`` is where it runs, ``salt`` starts its hash."""

    id: int
    cpu: int
    salt: int
    body: tuple[Action, ...]


class Case(msgspec.Struct, frozen=True):
    """A complete test. ``geometry`` replaces fields of the compiled machine; ``home`` is "directory" or "broadcast"."""

    seed: int
    machine: str
    protocol: str
    home: str
    geometry: dict[str, int]
    iterations: int
    run_seed: int
    lookahead: bool
    log_skew: int
    areas: tuple[Area, ...]
    threads: tuple[ThreadCase, ...]

    def word(self, action: Action) -> Word:
        """The word of an action that has one."""
        return self.areas[action.area].words[action.word]

    def line_address(self, area: int, line: int) -> int:
        """First byte of a line."""
        return AREA_BASE + area * AREA_BYTES + (line << self.areas[area].shift)

    def log_address(self, thread: ThreadCase) -> int:
        """First byte of a thread's log."""
        return LOG_BASE + thread.id * (LOG_BYTES + self.log_skew * LINE_BYTES)


TOUCHES_WORD = frozenset({"load", "store", "await", "add", "put", "get", "alter", "set", "look"})


def save(case: Case) -> bytes:
    """The case as JSON."""
    return msgspec.json.format(msgspec.json.encode(case), indent=1) + b"\n"


def load(text: bytes) -> Case:
    """A saved case. Raises msgspec.ValidationError or msgspec.DecodeError."""
    return msgspec.json.decode(text, type=Case)


def consistent(case: Case) -> Case:
    """Without what has lost its partner: waits for threads that never report, lines that are gone."""
    reporting = {t.id for t in case.threads for a in t.body if a.kind == "store" and case.word(a).kind == "flag"}
    threads = []
    for thread in case.threads:
        body = []
        for action in thread.body:
            if action.kind == "await" and case.word(action).owner not in reporting:
                continue
            if action.kind in TOUCHES_WORD and action.line >= case.areas[action.area].lines:
                action = msgspec.structs.replace(action, line=action.line % case.areas[action.area].lines)
            body.append(action)
        threads.append(msgspec.structs.replace(thread, body=tuple(body)))
    return msgspec.structs.replace(case, threads=tuple(threads))


def describe(case: Case) -> str:
    """The case as text for people."""
    small = " ".join(f"{k}={v}" for k, v in case.geometry.items()) or "as in its file"
    out = [f"machine {case.machine}, protocol {case.protocol}, {case.home} home, geometry: {small}",
           f"{len(case.threads)} threads, {case.iterations} iterations, run seed {case.run_seed}, "
           f"look-ahead {'on' if case.lookahead else 'off'}"]
    for thread in case.threads:
        out.append(f"thread {thread.id} on CPU {thread.cpu}:")
        out += [f"  {_action_text(case, action)}" for action in thread.body]
    return "\n".join(out)


def _action_text(case: Case, a: Action) -> str:
    text: str = a.kind
    if a.kind in TOUCHES_WORD:
        word = case.word(a)
        where = case.line_address(a.area, max(a.line, 0)) + word.offset
        changing = "" if a.line >= 0 else f" + line[hash >> {-1 - a.line} & {case.areas[a.area].lines - 1:#x}] << {case.areas[a.area].shift}"
        owner = f" of thread {word.owner}" if word.owner >= 0 else ""
        text += f" {word.kind}{owner} {where:#x}{changing}, {a.size if a.kind == 'load' else word.size} bytes"
    extras = {"way": a.way, "value": a.value, "dep": a.dep}
    text += "".join(f" {name}={value}" for name, value in extras.items() if value)
    if a.guard is not None:
        text += f" unless condition {a.guard.condition}({a.guard.operand}) of the guard load"
    return text + (" (guard load)" if a.sets_guard else "") + (" log" if a.flush else "")
