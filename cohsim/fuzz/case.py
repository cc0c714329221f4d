"""A random test: which machine, which words, and one loop of actions per thread. Plain data: it can be saved, shrunk and replayed.

Words have a kind, and the kind says what the oracle can demand of them:

single   one thread stores, each value once; the others load
flag     a single that holds the number of completed iterations: others wait for it
counter  threads add one, indivisibly
multi    all threads store, exchange and compare-and-swap, each value once
bits     each thread sets, clears and flips its own bit, indivisibly
scratch  one thread alone, with every function; shares its line with others' words

and those of a NIC's descriptors, each with a driver thread as its ``owner``:

pointer  receive: the driver stores where the next frame goes (the frame's number lands in a ``multi`` of 4 bytes), the NIC reads it
command  transmit: a single with the marks of a descriptor, which the NIC reads
done     the NIC writes 1, the driver 0
info     receive: the NIC writes the frame's number
"""
from __future__ import annotations

from typing import Literal

import msgspec

WordKind = Literal["single", "flag", "counter", "multi", "bits", "scratch", "pointer", "command", "done", "info"]
ActionKind = Literal["work", "pause", "fence", "load", "store", "await", "add", "put", "get", "alter", "set", "look",
                     "receive", "retarget", "send", "amend"]

LINE_BYTES = 64
AREA_BASE, AREA_BYTES = 0x0100_0000, 0x0100_0000
LOG_BASE, LOG_BYTES = 0x4000_0000, 0x0100_0000

ADD_RMW, ADD_SUB, ADD_LLSC, ADD_CAS = range(4)
"""Ways of an ``add``: locked add, locked subtraction of -1, LL/SC loop, compare-and-swap loop."""
PUT_STORE, PUT_XCHG, PUT_CAS, PUT_LLSC = range(4)
"""Ways of a ``put``: plain store, exchange, load and compare-and-swap once, LL and SC once."""
DEP_NONE, DEP_FLAG, DEP_ADDRESS = range(3)
"""How a load depends on the load before it: not, by the micro-op's flag, through its address register."""
RECEIVE_PLAIN, RECEIVE_FENCE, RECEIVE_DEP = range(3)
"""What stands between a ``receive``'s look at the descriptor and at the frame: nothing (x86), lwsync, an address dependency."""


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
    """One step of a thread's body. Those of a NIC's drivers (``receive``: word that the next frame goes to; cohsim/fuzz/nic.py):

    receive   is the oldest receive descriptor done? Then look at its frame, give the descriptor back, ring the doorbell
    retarget  change the pointer of a descriptor that the NIC has already (``value`` before the newest): it reads the old or the new one
    send      has the oldest transmit descriptor been sent? Take it back. Is there room? Fill one and ring the doorbell
    amend     change the command of a descriptor that the NIC may have

    ``line``: fixed line of the area, or -1 - k for a line that changes with every iteration (bits from k of the thread's hash).
    ``way``: kind of fence, function of an ``alter``, way of an ``add`` or ``put``, what orders a ``receive``. ``value``: instructions
    of ``work``, operand, or the lag an ``await`` accepts.
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


class NicCase(msgspec.Struct, frozen=True):
    """A NIC. Its rings of ``entries`` (a power of two) descriptors, ``descriptor`` bytes apart, begin at ``receive_at`` and ``transmit_at``
    of the first line of their areas. Frames arrive every ``period_ns``; 0: only acknowledgements of every ``ack_every``-th sent frame.
    ``batch``: descriptors given to the NIC with one doorbell, a power of two. ``receiver``, ``sender``: ids of the threads that drive it.
    """

    receive: int
    receive_at: int
    transmit: int
    transmit_at: int
    descriptor: int
    entries: int
    receiver: int
    sender: int
    target: int                 # word of area 0 that the descriptors point to at first
    flow_at: int                # of the frame's number, in the frame
    frame_bytes: int
    period_ns: int
    ack_every: int
    batch: int
    writeback: int
    timeout_ns: int
    fifo_frames: int
    service_ns: int
    interrupts: bool
    moderation_ns: int


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
    nic: NicCase | None = None

    def word(self, action: Action) -> Word:
        """The word of an action that has one."""
        return self.areas[action.area].words[action.word]

    def line_address(self, area: int, line: int) -> int:
        """First byte of a line."""
        return AREA_BASE + area * AREA_BYTES + (line << self.areas[area].shift)

    def log_address(self, thread: ThreadCase) -> int:
        """First byte of a thread's log."""
        return LOG_BASE + thread.id * (LOG_BYTES + self.log_skew * LINE_BYTES)


TOUCHES_WORD = frozenset({"load", "store", "await", "add", "put", "get", "alter", "set", "look", "receive", "retarget", "send", "amend"})
DRIVES = frozenset({"receive", "retarget", "send", "amend"})


def save(case: Case) -> bytes:
    """The case as JSON."""
    return msgspec.json.format(msgspec.json.encode(case), indent=1) + b"\n"


def load(text: bytes) -> Case:
    """A saved case. Raises msgspec.ValidationError or msgspec.DecodeError."""
    return msgspec.json.decode(text, type=Case)


def consistent(case: Case) -> Case:
    """Without what has lost its partner: waits for threads that never report, lines that are gone, a NIC without a driver."""
    reporting = {t.id for t in case.threads for a in t.body if a.kind == "store" and case.word(a).kind == "flag"}
    nic = case.nic if any(a.kind in ("receive", "send") for t in case.threads for a in t.body) else None
    if nic is not None and nic.period_ns and nic.receiver not in {t.id for t in case.threads}:
        nic = msgspec.structs.replace(nic, period_ns=0)            # frames that nobody takes never end
    threads = []
    for thread in case.threads:
        body = []
        for action in thread.body:
            if action.kind == "await" and case.word(action).owner not in reporting:
                continue
            if action.kind in TOUCHES_WORD and action.line >= case.areas[action.area].lines:
                action = msgspec.structs.replace(action, line=action.line % case.areas[action.area].lines)
            if action.kind in DRIVES and nic is None:
                continue
            body.append(action)
        threads.append(msgspec.structs.replace(thread, body=tuple(body)))
    return msgspec.structs.replace(case, threads=tuple(threads), nic=nic)


def describe(case: Case) -> str:
    """The case as text for people."""
    small = " ".join(f"{k}={v}" for k, v in case.geometry.items()) or "as in its file"
    out = [f"machine {case.machine}, protocol {case.protocol}, {case.home} home, geometry: {small}",
           f"{len(case.threads)} threads, {case.iterations} iterations, run seed {case.run_seed}, "
           f"look-ahead {'on' if case.lookahead else 'off'}"]
    if case.nic is not None:
        out.append("NIC: " + " ".join(f"{name}={value}" for name, value in msgspec.structs.asdict(case.nic).items()))
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
