"""The logs of a run as a history: which thread did what to which word, in program order, and with which value.

Control flow is reconstructed from the logged values alone (every branch depends on one), addresses from the iteration number.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cohsim.fuzz.assemble import HASH_STEPS, NARROW_SERIAL_BITS, SERIAL_BITS, Assembled, is_stored, stored_value
from cohsim.fuzz.case import (
    DRIVES,
    PUT_CAS,
    PUT_LLSC,
    PUT_STORE,
    PUT_XCHG,
    TOUCHES_WORD,
    Action,
    Case,
    ThreadCase,
    Word,
)
from cohsim.fuzz.history_nic import DEVICE, NicHistory, nic_history
from cohsim.fuzz.nic import COMMAND_SERIAL_BITS, INFO_AT
from cohsim.uops import Alu, Cond, Fence

ALIEN = -1
"""Serial of a value that its word's owner cannot have stored."""

_SHIFT = {Alu.SHL: np.left_shift, Alu.SHR: np.right_shift}


@dataclass
class Reads:
    """Loads of ``single`` and ``flag`` words, sorted by thread and program order. One load of several words is several reads.

    ``order``: iteration * (actions + 1) + place in the body. ``own_before``: serials the reader had used before. ``depends_on``: order of
    the load right before that this one's address depends on, else -1.
    """

    thread: np.ndarray
    order: np.ndarray
    address: np.ndarray
    owner: np.ndarray
    serial: np.ndarray
    raw: np.ndarray
    own_before: np.ndarray
    depends_on: np.ndarray


@dataclass
class Accesses:
    """Indivisible operations and accesses to words that are no ``single``, sorted by address, thread and program order.

    ``has_old``/``old``: a value was read; ``wrote``/``new``: a value was written.
    """

    thread: np.ndarray
    order: np.ndarray
    address: np.ndarray
    has_old: np.ndarray
    old: np.ndarray
    wrote: np.ndarray
    new: np.ndarray
    mask: np.ndarray


@dataclass
class History:
    """Everything the oracle looks at. ``store_key``: sorted address index << 44 | serial of all stores to single words."""

    reads: Reads
    accesses: dict[str, Accesses]                 # counter, multi, owned (bits and scratch)
    store_address: np.ndarray                     # sorted addresses of single words that were stored to
    store_key: np.ndarray
    store_value: np.ndarray                       # what each of them wrote
    fences: dict[int, dict[int, np.ndarray]]      # thread -> kind -> program order of its fences
    fence_serials: dict[int, dict[int, np.ndarray]]   # thread -> kind -> serials used before each
    final: dict[int, int]
    sizes: dict[int, int]                         # address -> bytes of every word
    known: dict[int, list[tuple[int, int]]] = field(default_factory=dict)   # address of a multi -> values of which the first came first
    nic: NicHistory | None = None


class ThreadHistory:
    """One thread's logs, cut into actions."""

    def __init__(self, case: Case, thread: ThreadCase, program: Assembled, log: np.ndarray):
        self.case, self.thread, self.program, self.log = case, thread, program, log
        self.iterations = np.arange(case.iterations, dtype=np.uint64)
        self.stride = len(thread.body) + 1
        self.hash = self.iterations + np.uint64(thread.salt)
        for fn, shift in HASH_STEPS:
            self.hash = self.hash ^ _SHIFT[fn](self.hash, np.uint64(shift))
        self.done = self._executed()
        self.serials_before = np.cumsum([0] + [is_stored(a) for a in thread.body]).tolist()

    def _executed(self) -> list[np.ndarray]:
        everything = np.ones(self.case.iterations, bool)
        guard = np.zeros(self.case.iterations, np.uint64)       # the register of the latest guard load, iteration by iteration
        masks = []
        sets = [k for k, a in enumerate(self.thread.body) if a.sets_guard]
        if sets:                                                 # an iteration begins with what the one before it left
            guard[1:] = self.log[:-1, self.program.slots[sets[-1]][0]]
        for k, action in enumerate(self.thread.body):
            masks.append(everything if action.guard is None else
                         ~holds(action.guard.condition, guard, action.guard.operand))
            if action.sets_guard:
                guard = self.log[:, self.program.slots[k][0]]
        return masks

    def column(self, k: int, n: int) -> np.ndarray:
        """Logged value ``n`` of action ``k`` where it was executed."""
        return self.log[self.done[k], self.program.slots[k][n]]

    def order(self, k: int) -> np.ndarray:
        return (self.iterations[self.done[k]].astype(np.int64)) * self.stride + k

    def serial(self, k: int) -> np.ndarray:
        """Serials used before action ``k``, iteration by iteration."""
        return self.iterations[self.done[k]].astype(np.int64) * self.program.stores + self.serials_before[k]

    def line(self, k: int) -> np.ndarray:
        """First byte of the line that action ``k`` touches."""
        a = self.thread.body[k]
        area = self.case.areas[a.area]
        first = self.case.line_address(a.area, max(a.line, 0))
        if a.line >= 0 or area.lines == 1:
            return np.full(int(self.done[k].sum()), first, np.int64)
        index = (self.hash[self.done[k]] >> np.uint64(-1 - a.line)) & np.uint64(area.lines - 1)
        return first + (index.astype(np.int64) << area.shift)


def holds(condition: int, value: np.ndarray, operand: int) -> np.ndarray:
    """``Cond`` of unsigned 64-bit values."""
    other = np.uint64(operand)
    signed, signed_other = value.view(np.int64), np.int64(operand)
    table = {Cond.ALWAYS: lambda: np.ones(len(value), bool), Cond.EQ: lambda: value == other, Cond.NE: lambda: value != other,
             Cond.LT: lambda: signed < signed_other, Cond.GE: lambda: signed >= signed_other, Cond.LTU: lambda: value < other,
             Cond.GEU: lambda: value >= other, Cond.BITS: lambda: (value & other) != 0, Cond.NOBITS: lambda: (value & other) == 0}
    result: np.ndarray = table[Cond(condition)]()
    return result


def apply(fn: int, x: np.ndarray, v: int) -> np.ndarray:
    """``Alu`` function of 64-bit values."""
    other = np.uint64(v & 0xFFFF_FFFF_FFFF_FFFF)
    table = {Alu.ADD: lambda: x + other, Alu.SUB: lambda: x - other, Alu.AND: lambda: x & other, Alu.OR: lambda: x | other,
             Alu.XOR: lambda: x ^ other, Alu.XCHG: lambda: np.full(len(x), other), Alu.SHL: lambda: x << (other & np.uint64(63)),
             Alu.SHR: lambda: x >> (other & np.uint64(63)), Alu.MUL: lambda: x * other}
    result: np.ndarray = table[Alu(fn)]()
    return result


def build(case: Case, programs: list[Assembled], logs: list[np.ndarray], final: dict[int, int], dma: np.ndarray | None = None) -> History:
    """The history of a run; ``dma``: the device's log, where the case has a NIC."""
    threads = [ThreadHistory(case, t, p, log) for t, p, log in zip(case.threads, programs, logs, strict=True)]
    by_id = {t.thread.id: t for t in threads}
    reads: list[tuple[np.ndarray, ...]] = []
    accesses: dict[str, list[tuple[np.ndarray, ...]]] = {"counter": [], "multi": [], "owned": []}
    stores: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for t in threads:
        for k, action in enumerate(t.thread.body):
            if action.kind in ("load", "await"):
                reads += _read(t, k, action, by_id)
            elif action.kind == "store":
                stores.append(_store(t, k, action))
            elif action.kind in TOUCHES_WORD and action.kind not in DRIVES:
                _access(t, k, action, accesses)
    nic = None
    known: dict[int, list[tuple[int, int]]] = {}
    fences, serials = _fences(threads)
    if case.nic is not None and dma is not None:
        nic = nic_history(case, by_id, dma)
        reads += _nic_reads(case, nic, by_id)
        stores += _nic_stores(case, nic)
        known = _nic_accesses(case, nic, accesses)
        # It looks at one word after the other, in the order of time: as behind a barrier each time.
        fences[DEVICE], serials[DEVICE] = {}, {}
        for kind, count in ((Fence.FULL, 0), (Fence.LIGHT, len(dma))):
            fences[DEVICE][kind], serials[DEVICE][kind] = np.arange(count) * 2 + 1, np.zeros(count, np.int64)
    store_address, store_key, store_value = _stores(stores)
    sizes = {case.line_address(a, line) + w.offset: w.size for a, area in enumerate(case.areas) for line in range(area.lines)
             for w in area.words}
    return History(_sorted_reads(reads), {k: _sorted_accesses(v) for k, v in accesses.items()}, store_address, store_key,
                   store_value, fences, serials, final, sizes, known, nic)


def _read(t: ThreadHistory, k: int, a: Action, threads: dict[int, ThreadHistory]) -> list[tuple[np.ndarray, ...]]:
    """Every single word that a load covers."""
    target = t.case.word(a)
    size = a.size if a.kind == "load" else target.size
    begin = target.offset & ~(size - 1)
    raw, order, line, serial = t.column(k, 0), t.order(k), t.line(k), t.serial(k)
    before = t.thread.body[k - 1] if k else None
    depends = a.dep and a.guard is None and before is not None and before.kind == "load" and before.guard is None
    out: list[tuple[np.ndarray, ...]] = []
    for word in t.case.areas[a.area].words:
        if word.kind not in ("single", "flag", "command") or word.offset < begin or word.offset >= begin + size or word.owner not in threads:
            continue
        bits = 8 * min(word.size, size)
        part = raw >> np.uint64(8 * (word.offset - begin))
        if bits < 64:
            part = part & np.uint64((1 << bits) - 1)
        serials = _decode(threads[word.owner], a.area, word, part, bits)
        if serials is None:
            continue
        full = np.full(len(raw), word.owner)
        out.append((np.full(len(raw), t.thread.id), order, line + word.offset, full, serials, part, serial,
                    order - 1 if depends else np.full(len(raw), -1)))
    return out


def _decode(owner: ThreadHistory, area: int, word: Word, value: np.ndarray, bits: int) -> np.ndarray | None:
    """Serial of each value of a word, ALIEN if its marks are wrong; None if ``bits`` of it do not tell."""
    mark = stored_value(area, word, owner.thread.id)
    if word.counts_iterations:
        if bits < 8 * word.size:
            return None
        places = [k for k, a in enumerate(owner.thread.body) if a.kind == "store" and owner.case.areas[a.area].words[a.word] == word
                  and a.area == area]
        assert len(places) <= 1, "a narrow word has one store in the body"
        if not places:
            return np.where(value == 0, 0, ALIEN)
        count = value.astype(np.int64) - mark
        wrong = (count < 1) | (count > owner.case.iterations)
        return np.where(value == 0, 0, np.where(wrong, ALIEN, (count - 1) * owner.program.stores + owner.serials_before[places[0]] + 1))
    if word.kind == "command":
        if bits < 64:
            return None
        serial = (value & np.uint64((1 << COMMAND_SERIAL_BITS) - 1)).astype(np.int64)
        marked = (value >> np.uint64(COMMAND_SERIAL_BITS)) == np.uint64(mark >> COMMAND_SERIAL_BITS)
        return np.where(value == 0, 0, np.where(marked & (serial > 0), serial, ALIEN))
    width = min(bits, NARROW_SERIAL_BITS if word.size == 4 else SERIAL_BITS)
    if owner.case.iterations * owner.program.stores >= 1 << width:
        return None
    serial = (value & np.uint64((1 << width) - 1)).astype(np.int64)
    if bits < 8 * word.size:
        return serial
    marked = (value >> np.uint64(width)) == np.uint64(mark >> width)
    return np.where(value == 0, 0, np.where(marked & (serial > 0), serial, ALIEN))


def _access(t: ThreadHistory, k: int, a: Action, into: dict[str, list[tuple[np.ndarray, ...]]]) -> None:
    word = t.case.word(a)
    address, order = t.line(k) + word.offset, t.order(k)
    n = len(order)
    yes, no, none = np.ones(n, bool), np.zeros(n, bool), np.zeros(n, np.uint64)
    kind = {"counter": "counter", "multi": "multi", "info": "multi"}.get(word.kind, "owned")
    mask = np.full(n, (1 << (8 * word.size)) - 1 if word.kind != "bits" else 1 << t.thread.id, np.uint64)

    def add(place: np.ndarray, has_old: np.ndarray, old: np.ndarray, wrote: np.ndarray, new: np.ndarray) -> None:
        into[kind].append((np.full(n, t.thread.id), place, address, has_old, old, wrote, new, mask))

    if a.kind == "add":
        old = t.column(k, 0)
        add(order * 2, yes, old, yes, old + np.uint64(1))
    elif a.kind in ("get", "look"):
        add(order * 2, yes, t.column(k, 0), no, none)
    elif a.kind == "set":
        add(order * 2, no, none, yes, t.iterations[t.done[k]] + np.uint64(a.value) & mask)
    elif a.kind == "alter":
        old = t.column(k, 0)
        add(order * 2, yes, old, yes, apply(a.way, old, a.value) & mask)
    else:
        new = t.serial(k).astype(np.uint64) + np.uint64(1 + stored_value(a.area, word, t.thread.id))
        if a.way == PUT_STORE:
            add(order * 2, no, none, yes, new)
        elif a.way == PUT_XCHG:
            add(order * 2, yes, t.column(k, 0), yes, new)
        elif a.way == PUT_CAS:
            add(order * 2, yes, t.column(k, 0), no, none)
            add(order * 2 + 1, yes, t.column(k, 1), t.column(k, 1) == t.column(k, 0), new)
        else:
            assert a.way == PUT_LLSC
            add(order * 2, yes, t.column(k, 0), t.column(k, 1) == 1, new)


def _nic_reads(case: Case, h: NicHistory, threads: dict[int, ThreadHistory]) -> list[tuple[np.ndarray, ...]]:
    """The commands that the device read: a reader like the threads."""
    owner = threads.get(h.nic.sender)
    if owner is None or not h.transmit.reads:
        return []
    word = next(w for w in case.areas[h.nic.transmit].words if w.kind == "command")
    raw = np.array([r.new for r in h.transmit.reads], np.uint64)
    serial = _decode(owner, h.nic.transmit, word, raw, 64)
    assert serial is not None
    n = len(raw)
    return [(np.full(n, DEVICE), np.array([2 * r.row for r in h.transmit.reads], np.int64),
             np.array([r.address for r in h.transmit.reads], np.int64), np.full(n, h.nic.sender), serial, raw, np.zeros(n, np.int64),
             np.full(n, -1))]


def _nic_stores(case: Case, h: NicHistory) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Commands that the driver stored."""
    stores = h.early + [s for group in h.transmit.stores for s in group]
    word = next(w for w in case.areas[h.nic.transmit].words if w.kind == "command")
    mark = stored_value(h.nic.transmit, word, h.nic.sender)
    serial = np.array([s.serial for s in stores], np.int64)
    return [(np.array([s.address for s in stores], np.int64), serial, serial + mark)]


def _nic_accesses(case: Case, h: NicHistory, into: dict[str, list[tuple[np.ndarray, ...]]]) -> dict[int, list[tuple[int, int]]]:
    """Frames and their numbers, which the device writes: it knows what it overwrote, as an exchange does. And what the driver saw of them.

    Returns what the driver knows of the order of a word's values: whoever sees a descriptor done sees its frame, or what came later.
    """
    rows: list[tuple[int, int, int, bool, int, bool, int]] = []
    for touch in (*h.frames, *h.numbers.values()):
        rows.append((DEVICE, 2 * touch.row, touch.address, True, touch.old, True, touch.new))
    known: dict[int, list[tuple[int, int]]] = {}
    written = {touch.new: touch.address for touch in h.frames}
    for n, reap in enumerate(h.reaps):
        address = reap.pointer + h.nic.flow_at
        rows.append((h.nic.receiver, 2 * reap.order, h.receive.word(n, INFO_AT), True, reap.number, False, 0))
        rows.append((h.nic.receiver, 2 * reap.order, address, True, reap.found, False, 0))
        if written.get(reap.number) == address:
            known.setdefault(address, []).append((reap.number, reap.found))
    if rows:
        columns = zip(zip(*rows, strict=True), (np.int64, np.int64, np.int64, bool, np.uint64, bool, np.uint64), strict=True)
        into["multi"].append((*(np.array(column, kind) for column, kind in columns), np.full(len(rows), 0xFFFF_FFFF, np.uint64)))
    return known


def _store(t: ThreadHistory, k: int, a: Action) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    word = t.case.word(a)
    serial = t.serial(k) + 1
    count = t.iterations[t.done[k]].astype(np.int64) + 1 if word.counts_iterations else serial
    return t.line(k) + word.offset, serial, count + stored_value(a.area, word, t.thread.id)


def _stores(stores: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not stores:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    address, serial, value = (np.concatenate([s[i] for s in stores]) for i in range(3))
    places, index = np.unique(address, return_inverse=True)
    key = index.astype(np.int64) << SERIAL_BITS | serial
    by = np.argsort(key)
    return places, key[by], value[by]


def _fences(threads: list[ThreadHistory]) -> tuple[dict[int, dict[int, np.ndarray]], dict[int, dict[int, np.ndarray]]]:
    orders: dict[int, dict[int, np.ndarray]] = {}
    serials: dict[int, dict[int, np.ndarray]] = {}
    for t in threads:
        places = [(k, a.way) for k, a in enumerate(t.thread.body) if a.kind == "fence"]
        orders[t.thread.id], serials[t.thread.id] = {}, {}
        for kinds in ((Fence.FULL,), (Fence.FULL, Fence.LIGHT)):
            chosen = [k for k, way in places if way in kinds]
            empty = [np.zeros(0, np.int64)]
            orders[t.thread.id][max(kinds)] = np.sort(np.concatenate(empty + [t.order(k) for k in chosen]))
            serials[t.thread.id][max(kinds)] = np.sort(np.concatenate(empty + [t.serial(k) for k in chosen]))
    return orders, serials


def _sorted_reads(parts: list[tuple[np.ndarray, ...]]) -> Reads:
    if not parts:
        parts = [tuple(np.zeros(0, np.int64) for _ in range(8))]
    columns = [np.concatenate([p[i] for p in parts]) for i in range(8)]
    by = np.lexsort((columns[1], columns[0]))
    return Reads(*[c[by] for c in columns])


def _sorted_accesses(parts: list[tuple[np.ndarray, ...]]) -> Accesses:
    if not parts:
        parts = [tuple(np.zeros(0, kind) for kind in (np.int64, np.int64, np.int64, bool, np.uint64, bool, np.uint64, np.uint64))]
    columns = [np.concatenate([p[i] for p in parts]) for i in range(8)]
    by = np.lexsort((columns[1], columns[0], columns[2]))
    return Accesses(*[c[by] for c in columns])
