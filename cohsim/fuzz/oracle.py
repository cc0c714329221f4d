"""What a memory may have done: judges a history by the rules of coherence and of the instruction set's ordering, and nothing else.

Rules, by the name they are reported under:

thin air      a load returned a value that the word's only writer never stored (or tore it)
own store     a thread does not see its own latest store to a word that only it stores to
coherence     one thread's reads of a word go back in time; or no order of a word's stores explains what all threads saw
ordering      program order that the instruction set keeps was broken. x86: a thread saw a store, later read another word of the
              same writer and missed a store that came earlier in the writer's program. Power: the same with a barrier (sync, lwsync) on
              both sides, or an address dependency on the reader's
store buffer  after a full barrier on both sides, each of two threads missed the other's store from before the barrier
atomicity     an indivisible operation did not see the value right before its own, or an update was lost
final         memory at the end is not the last store of the word

and, where the case has a NIC (oracle_nic.py), descriptor and doorbell.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cohsim.fuzz.assemble import SERIAL_BITS
from cohsim.fuzz.history import ALIEN, Accesses, History
from cohsim.fuzz.oracle_nic import judge_nic
from cohsim.uops import Fence

SERIAL_MASK = (1 << SERIAL_BITS) - 1
MOST = 5
"""Violations reported per rule."""
_WIDE = 1 << 40


@dataclass(frozen=True)
class Violation:
    """A broken rule and one instance of it."""

    rule: str
    text: str


def judge(history: History, *, total_store_order: bool) -> list[Violation]:
    """All broken rules, at most MOST instances of each check. ``total_store_order``: x86, else Power."""
    found: list[Violation] = []
    singles = _Singles(history)
    found += singles.thin_air()
    found += [Violation(*problem) for problem in judge_nic(history.nic, history.final, history.sizes)]
    if found:
        return found                # serials of alien values mean nothing to the other rules
    found += singles.own_store()
    found += singles.same_word()
    found += singles.every_order() if total_store_order else singles.barriers() + singles.dependencies()
    found += singles.store_buffers()
    found += singles.final()
    found += _counters(history)
    found += _owned(history)
    found += _multi(history)
    return found


class _Singles:
    """Rules of words with one writer. Their stores are numbered in program order, so every rule is a comparison of serials."""

    def __init__(self, history: History):
        self.h, self.r = history, history.reads

    def latest(self, address: np.ndarray, limit: np.ndarray) -> np.ndarray:
        """Serial of the owner's last store to ``address`` among its serials up to ``limit``; 0 if none."""
        h = self.h
        if not len(h.store_address):
            return np.zeros(len(address), np.int64)
        index = np.searchsorted(h.store_address, address)
        known = np.zeros(len(address), bool)
        inside = index < len(h.store_address)
        known[inside] = h.store_address[index[inside]] == address[inside]
        at = np.searchsorted(h.store_key, index.astype(np.int64) << SERIAL_BITS | limit, "right") - 1
        found = h.store_key[np.maximum(at, 0)]
        return np.where(known & (at >= 0) & (found >> SERIAL_BITS == index), found & SERIAL_MASK, 0)

    def report(self, rule: str, bad: np.ndarray, expected: np.ndarray | None, why: str) -> list[Violation]:
        out = []
        for i in np.flatnonzero(bad)[:MOST].tolist():
            r = self.r
            wanted = "" if expected is None else f", must be at least {expected[i]}"
            out.append(Violation(rule, f"thread {r.thread[i]}, step {r.order[i]}: load of {r.address[i]:#x} (stored by thread "
                                       f"{r.owner[i]}) returned {r.raw[i]:#x} = store {r.serial[i]}{wanted}; {why}"))
        return out

    def thin_air(self) -> list[Violation]:
        r = self.r
        alien = r.serial == ALIEN
        never = ~alien & (self.latest(r.address, np.maximum(r.serial, 0)) != r.serial)
        return self.report("thin air", alien | never, None, "never stored there")

    def own_store(self) -> list[Violation]:
        r = self.r
        expected = self.latest(r.address, r.own_before)
        return self.report("own store", (r.thread == r.owner) & (r.serial != expected), expected, "its own latest store")

    def same_word(self) -> list[Violation]:
        r = self.r
        by = np.lexsort((r.order, r.address, r.thread))
        same = (r.thread[by][1:] == r.thread[by][:-1]) & (r.address[by][1:] == r.address[by][:-1])
        back = np.zeros(len(by), bool)
        expected = np.zeros(len(by), np.int64)
        back[by[1:]] = same & (r.serial[by][1:] < r.serial[by][:-1])
        expected[by[1:]] = r.serial[by][:-1]
        return self.report("coherence", back, expected, "it had seen a newer value of the word")

    def _groups(self) -> tuple[np.ndarray, np.ndarray]:
        """Reads sorted by (reader, owner, order), and the number of each one's group in that order."""
        r = self.r
        by = np.lexsort((r.order, r.owner, r.thread))
        new = np.ones(len(by), bool)
        new[1:] = (r.thread[by][1:] != r.thread[by][:-1]) | (r.owner[by][1:] != r.owner[by][:-1])
        return by, np.cumsum(new) - 1

    def every_order(self) -> list[Violation]:
        """Total store order: what a reader has seen of a writer is a prefix of the writer's program."""
        r = self.r
        by, group = self._groups()
        seen = np.maximum.accumulate(group * _WIDE + r.serial[by]) - group * _WIDE if len(by) else group
        newest = np.empty(len(by), np.int64)
        newest[by] = seen
        expected = self.latest(r.address, newest)
        bad = (r.serial < expected) & (r.thread != r.owner)
        return self.report("ordering", bad, expected, "an earlier load saw a later store of that thread")

    def _before_barrier(self, owner: np.ndarray, serial: np.ndarray, kind: Fence) -> np.ndarray:
        """Serials of the owner that a barrier puts before its store ``serial``."""
        out = np.zeros(len(owner), np.int64)
        for thread, kinds in self.h.fence_serials.items():
            mine = owner == thread
            fences = kinds[kind]
            if len(fences) and mine.any():
                at = np.searchsorted(fences, serial[mine], "left") - 1
                out[mine] = np.where(at >= 0, fences[np.maximum(at, 0)], 0)
        return out

    def barriers(self) -> list[Violation]:
        """Power: reads before the reader's latest barrier bind reads behind it."""
        r = self.r
        by, group = self._groups()
        if not len(by):
            return []
        seen = np.maximum.accumulate(group * _WIDE + r.serial[by])
        place = group * _WIDE + r.order[by]
        fence = np.full(len(by), -1, np.int64)
        for thread, kinds in self.h.fences.items():
            mine = r.thread[by] == thread
            fences = kinds[Fence.LIGHT]
            if len(fences) and mine.any():
                at = np.searchsorted(fences, r.order[by][mine], "left") - 1
                fence[mine] = np.where(at >= 0, fences[np.maximum(at, 0)], -1)
        at = np.searchsorted(place, group * _WIDE + np.maximum(fence, 0), "left") - 1
        valid = (fence >= 0) & (at >= 0)
        valid &= group[np.maximum(at, 0)] == group
        newest = np.where(valid, seen[np.maximum(at, 0)] - group * _WIDE, 0)
        bound = np.empty(len(by), np.int64)
        bound[by] = newest
        expected = self.latest(r.address, self._before_barrier(r.owner, bound, Fence.LIGHT))
        bad = (r.serial < expected) & (r.thread != r.owner)
        return self.report("ordering", bad, expected, "barriers on both sides, an earlier load saw a later store of that thread")

    def dependencies(self) -> list[Violation]:
        """Power: a load whose address depends on the load right before it."""
        r = self.r
        key = r.thread * _WIDE + r.order
        keys = np.unique(key)
        newest = np.zeros(len(key), np.int64)
        # A load of several words is several reads; each of their owners is looked at on its own.
        for owner in np.unique(r.owner).tolist():
            highest = np.zeros(len(keys), np.int64)
            mine = r.owner == owner
            np.maximum.at(highest, np.searchsorted(keys, key[mine]), r.serial[mine])
            want = mine & (r.depends_on >= 0)
            source = r.thread[want] * _WIDE + r.depends_on[want]
            at = np.minimum(np.searchsorted(keys, source), len(keys) - 1)
            newest[want] = np.where(keys[at] == source, highest[at], 0)
        expected = self.latest(r.address, self._before_barrier(r.owner, newest, Fence.LIGHT))
        bad = (r.serial < expected) & (r.thread != r.owner)
        return self.report("ordering", bad, expected, "the load it depends on saw a later store, behind a barrier, of that thread")

    def store_buffers(self) -> list[Violation]:
        """Full barriers: A stores a, sync, misses B's store b. Then B behind the sync that follows b sees a."""
        r = self.r
        out: list[Violation] = []
        for a, b in sorted({(x, y) for x, y in zip(r.thread.tolist(), r.owner.tolist(), strict=True) if x != y}):
            out += self._store_buffer(a, b)
            if len(out) >= MOST:
                break
        return out[:MOST]

    def _store_buffer(self, a: int, b: int) -> list[Violation]:
        r, h = self.r, self.h
        a_fences, b_fences = h.fences[a][Fence.FULL], h.fences[b][Fence.FULL]
        first = np.flatnonzero((r.thread == a) & (r.owner == b))
        second = np.flatnonzero((r.thread == b) & (r.owner == a))
        if not (len(a_fences) and len(b_fences) and len(first) and len(second)):
            return []
        at = np.searchsorted(a_fences, r.order[first], "left") - 1
        first, at = first[at >= 0], at[at >= 0]
        a_serial = h.fence_serials[a][Fence.FULL][at]             # a's stores that are performed before the read
        # The next store of b to the word after the one that a saw:
        index = np.searchsorted(h.store_address, r.address[first])
        known = (index < len(h.store_address))
        known[known] = h.store_address[index[known]] == r.address[first][known]
        first, index, a_serial = first[known], index[known], a_serial[known]
        after = np.searchsorted(h.store_key, index.astype(np.int64) << SERIAL_BITS | r.serial[first], "right")
        missed = np.minimum(after, len(h.store_key) - 1)
        exists = (after < len(h.store_key)) & (h.store_key[missed] >> SERIAL_BITS == index)
        b_serial = (h.store_key[missed] & SERIAL_MASK)[exists]
        a_serial = a_serial[exists]
        # b's first full barrier behind that store; what it reads behind the barrier comes after a's stores:
        at = np.searchsorted(h.fence_serials[b][Fence.FULL], b_serial, "left")
        a_serial, at = a_serial[at < len(b_fences)], at[at < len(b_fences)]
        if not len(at):
            return []
        behind = b_fences[at]
        # Monotone: the strongest demand on a read of b is the highest a_serial among barriers before it.
        by = np.argsort(behind, kind="stable")
        behind, demand = behind[by], np.maximum.accumulate(a_serial[by])
        at = np.searchsorted(behind, r.order[second], "left") - 1
        limit = np.where(at >= 0, demand[np.maximum(at, 0)], 0)
        expected = np.zeros(len(r.thread), np.int64)
        expected[second] = self.latest(r.address[second], limit)
        return self.report("store buffer", r.serial < expected, expected, "full barriers on both sides, and both loads missed the "
                           "other's store from before the barrier")

    def final(self) -> list[Violation]:
        h = self.h
        if not len(h.store_key):
            return []
        ends = np.append(np.flatnonzero(np.diff(h.store_key >> SERIAL_BITS)), len(h.store_key) - 1)
        out = []
        for address, expected in zip(h.store_address.tolist(), h.store_value[ends].tolist(), strict=True):
            if h.final[address] != expected:
                out.append(Violation("final", f"memory at {address:#x} ends as {h.final[address]:#x}; the last store wrote {expected:#x}"))
        return out[:MOST]


def _counters(h: History) -> list[Violation]:
    c = h.accesses["counter"]
    out: list[Violation] = []
    for address, group in _by_address(c):
        size = h.sizes[address]
        old, count = np.sort(c.old[group]), group.stop - group.start
        if not np.array_equal(old, np.arange(count, dtype=np.uint64)):
            doubled = old[1:][old[1:] == old[:-1]]
            what = f"{doubled[0]} twice" if len(doubled) else f"{old[-1]} as the last of {count}"
            out.append(Violation("atomicity", f"counter at {address:#x}: increments returned {what}, instead of 0 to {count - 1} once each"))
        if h.final[address] != count & ((1 << 8 * size) - 1):
            out.append(Violation("atomicity", f"counter at {address:#x} ends as {h.final[address]} after {count} increments"))
        steps = c.thread[group][1:] == c.thread[group][:-1]
        back = np.flatnonzero(steps & (c.old[group][1:] <= c.old[group][:-1]))
        if len(back):
            i = group.start + int(back[0]) + 1
            out.append(Violation("coherence", f"thread {c.thread[i]}, step {c.order[i] // 2}: counter at {address:#x} went back from "
                                              f"{c.old[i - 1]} to {c.old[i]}"))
    return out[:MOST]


def _owned(h: History) -> list[Violation]:
    """Bits of bit sets and scratch words: what a thread left is what it finds."""
    c = h.accesses["owned"]
    if not len(c.thread):
        return []
    out = []
    # Value after each access (its own, if it wrote, else what it read) must be what the thread's next access reads.
    after = np.where(c.wrote, c.new, c.old) & c.mask
    same = (c.thread[1:] == c.thread[:-1]) & (c.address[1:] == c.address[:-1])
    before = np.zeros(len(after), np.uint64)
    before[1:] = np.where(same, after[:-1], 0)
    bad = c.has_old & ((c.old & c.mask) != before)
    for i in np.flatnonzero(bad)[:MOST].tolist():
        out.append(Violation("atomicity", f"thread {c.thread[i]}, step {c.order[i] // 2}: {c.address[i]:#x} held {c.old[i]:#x}, of which "
                                          f"the thread's own {c.mask[i]:#x} must be {before[i]:#x}"))
    last = np.append(~same, True)
    for i in np.flatnonzero(last).tolist():
        at_end = h.final[int(c.address[i])] & int(c.mask[i])
        if at_end != int(after[i]):
            out.append(Violation("final", f"{c.address[i]:#x} ends with {at_end:#x} in thread {c.thread[i]}'s {c.mask[i]:#x} "
                                          f"instead of {after[i]:#x}"))
    return out[:MOST]


def _multi(h: History) -> list[Violation]:
    c = h.accesses["multi"]
    out: list[Violation] = []
    for address, group in _by_address(c):
        problem = write_order(c.thread[group].tolist(), c.has_old[group].tolist(), c.old[group].tolist(), c.wrote[group].tolist(),
                              c.new[group].tolist(), h.final[address], h.known.get(address, ()))
        if problem:
            out.append(Violation(problem[0], f"word at {address:#x}: {problem[1]}"))
    return out[:MOST]


def write_order(thread: list[int], has_old: list[bool], old: list[int], wrote: list[bool], new: list[int],
                final: int, known: Iterable[tuple[int, int]] = ()) -> tuple[str, str] | None:
    """Is there one order of a word's stores that every thread's view is consistent with? (rule, what) if not.

    Accesses come thread by thread in program order. Every stored value is unique; the word begins as 0. A thread that goes from value u to
    value v saw u before v; an indivisible operation puts its value right behind the one it read. ``known``: pairs of values of which the
    first came first, or which are the same.
    """
    written = {0}
    written.update(n for n, w in zip(new, wrote, strict=True) if w)
    behind: dict[int, int] = {}                  # value -> the value that an indivisible operation put right behind it
    edges = {(u, v) for u, v in known if u != v}
    last_thread, current = -1, 0
    for t, h, o, w, n in zip(thread, has_old, old, wrote, new, strict=True):
        if t != last_thread:
            last_thread, current = t, 0
        if h:
            if o not in written:
                return "thin air", f"thread {t} read {o:#x}, which nobody stored"
            if o != current:
                edges.add((current, o))
            current = o
        if w:
            if h:
                if o in behind:
                    return "atomicity", f"two indivisible operations read {o:#x}: they wrote {behind[o]:#x} and {n:#x}"
                behind[o] = n
            else:
                edges.add((current, n))
            current = n
    if final not in written:
        return "thin air", f"memory ends as {final:#x}, which nobody stored"
    return _serialise(written, behind, edges, final)


def _serialise(written: set[int], behind: dict[int, int], edges: set[tuple[int, int]], final: int) -> tuple[str, str] | None:
    """Chains of adjacent values are one node; the order of nodes must be free of cycles and end with ``final``."""
    chain: dict[int, int] = {}
    position: dict[int, int] = {}
    followers = set(behind.values())
    for value in written:
        if value not in followers:
            head, k = value, 0
            while True:
                chain[value], position[value] = head, k
                if value not in behind:
                    break
                value, k = behind[value], k + 1
    if len(chain) < len(written):
        return "atomicity", "indivisible operations read each other's values in a circle"
    if final in behind:
        return "final", f"memory ends as {final:#x}, but an indivisible operation replaced it by {behind[final]:#x}"
    graph: dict[int, set[int]] = {}
    for u, v in edges | {(value, final) for value in written if value != final and value not in behind}:
        if chain[u] == chain[v]:
            if position[v] <= position[u]:
                return "coherence", f"a thread saw {u:#x} before {v:#x}, others wrote them in the opposite order"
        else:
            graph.setdefault(chain[u], set()).add(chain[v])
    waiting = dict.fromkeys(chain.values(), 0)
    for targets in graph.values():
        for v in targets:
            waiting[v] += 1
    ready = [v for v, n in waiting.items() if n == 0]
    placed = 0
    while ready:
        placed += 1
        for v in graph.get(ready.pop(), ()):
            waiting[v] -= 1
            if waiting[v] == 0:
                ready.append(v)
    if placed < len(waiting):
        stuck = [f"{v:#x}" for v, n in waiting.items() if n > 0][:8]
        return "coherence", f"no order of the stores explains what the threads saw; in a circle: {' '.join(stuck)}"
    return None


def _by_address(c: Accesses) -> list[tuple[int, slice]]:
    if not len(c.address):
        return []
    cuts = np.flatnonzero(np.diff(c.address)) + 1
    bounds = [0, *cuts.tolist(), len(c.address)]
    return [(int(c.address[b]), slice(b, e)) for b, e in zip(bounds[:-1], bounds[1:], strict=True)]
