"""All outcomes of a test that an axiomatic memory model allows, by enumeration of its candidate executions.

Both models are those of Alglave, Maranget, Tautschnig, "Herding cats: modelling, simulation, testing, and data mining
for weak memory", ACM TOPLAS 36(2), 2014, Power's as in herd's ppc.cat. An execution is a set of reads and writes with
po (program order), rf (which write a read takes its value from), co (order of the writes to one location) and fr (a
read before the co-successors of its write). Power's model was validated there against the operational model of Sarkar
et al., PLDI 2011, and Power hardware.

Loops: each backward branch is followed at most once. A retry of a lwarx/stwcx. loop adds reads only, which can only forbid more.
No order is taken from the outcome of a stwcx., which allows slightly more than the architecture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations, product

from cohsim.litmus.test import (
    SUCCESS,
    Instruction,
    Kind,
    LitmusTest,
    Outcome,
    apply_alu,
    branch_taken,
    compare,
    operand,
    rmw_result,
    signed,
)
from cohsim.uops import Fence

_NONE: frozenset[int] = frozenset()


@dataclass
class _Event:
    write: bool
    location: str
    value: int
    addr: frozenset[int] = _NONE  # indices (in the thread) of the reads its address, value or execution depends on
    data: frozenset[int] = _NONE
    ctrl: frozenset[int] = _NONE
    ctrl_isync: frozenset[int] = _NONE
    pair: int = -1  # a locked or conditional write: index of its read


@dataclass
class _Path:
    """One way through a thread, the values of its reads guessed."""

    registers: dict[str, int]
    pc: int = 0
    backward: int = 0
    events: list[_Event] = field(default_factory=list)
    fences: list[tuple[Fence, int]] = field(default_factory=list)  # kind, number of events before it
    taint: dict[str, frozenset[int]] = field(default_factory=dict)
    ctrl: frozenset[int] = _NONE
    ctrl_isync: frozenset[int] = _NONE
    reserved: tuple[str, int] | None = None  # location and index of the lwarx

    def copy(self) -> _Path:
        return _Path(
            dict(self.registers),
            self.pc,
            self.backward,
            list(self.events),
            list(self.fences),
            dict(self.taint),
            self.ctrl,
            self.ctrl_isync,
            self.reserved,
        )

    def of(self, register: str | None) -> frozenset[int]:
        return self.taint.get(register, _NONE) if register else _NONE

    def event(self, u: Instruction, write: bool, value: int, pair: int = -1) -> int:
        self.events.append(
            _Event(
                write,
                u.location or "",
                value,
                self.of(u.index),
                self.of(u.b) if write else _NONE,
                self.ctrl,
                self.ctrl_isync,
                pair,
            )
        )
        return len(self.events) - 1

    def set(self, register: str | None, value: int, taint: frozenset[int]) -> None:
        if register:
            self.registers[register] = value
            self.taint[register] = taint


def _paths(test: LitmusTest, thread: int, domain: dict[str, set[int]]) -> list[_Path]:
    """Every way through a thread when its reads may return any value of ``domain``."""
    code, done, todo = test.threads[thread], [], [_Path(dict(test.registers[thread]))]
    while todo:
        path = todo.pop()
        if path.pc >= len(code):
            done.append(path)
        else:
            todo += _advance(path, code[path.pc], domain)
    return done


def _advance(path: _Path, u: Instruction, domain: dict[str, set[int]]) -> list[_Path]:
    p, at = path, path.pc
    p.pc += 1
    if u.reads:
        return [_read(p.copy(), u, value) for value in sorted(domain[u.location or ""])]
    if u.kind is Kind.STORE:
        p.event(u, True, operand(u, p.registers))
    elif u.kind is Kind.SC:
        return _conditional(p, u)
    elif u.kind is Kind.FENCE:
        p.fences.append((u.fence, len(p.events)))
        if u.fence is Fence.INSTR:
            p.ctrl_isync |= p.ctrl
    elif u.kind is Kind.ALU:
        p.set(
            u.dst, apply_alu(u.alu, p.registers.get(u.a or "", 0), operand(u, p.registers), u.size_bytes), p.of(u.a) | p.of(u.b)
        )
    elif u.kind is Kind.COMPARE:
        p.set(u.dst, compare(u, p.registers), p.of(u.a) | p.of(u.b))
    else:
        p.ctrl |= p.of(u.a)
        if branch_taken(u, p.registers):
            p.pc = u.target
            if u.target <= at:
                p.backward += 1
                if p.backward > 1:
                    return []
    return [p]


def _read(p: _Path, u: Instruction, value: int) -> _Path:
    read = p.event(u, False, value)
    if u.kind is Kind.LL:
        p.reserved = (u.location or "", read)
    if u.kind is Kind.RMW:
        p.event(u, True, signed(rmw_result(u, value, p.registers), u.size_bytes), read)
        p.events[-1].data |= {read}
    p.set(u.dst, value, frozenset({read}))
    return p


def _conditional(p: _Path, u: Instruction) -> list[_Path]:
    """A store-conditional may always fail; it may succeed if the thread has a reservation of the location."""
    failed = p.copy()
    failed.set(SUCCESS, 0, _NONE)
    failed.reserved = None
    if p.reserved is None or p.reserved[0] != u.location:
        return [failed]
    p.event(u, True, operand(u, p.registers), p.reserved[1])
    p.set(SUCCESS, 1, _NONE)
    p.reserved = None
    return [failed, p]


def _domain(test: LitmusTest) -> dict[str, set[int]]:
    """Values that a location may ever have: a value out of thin air would need to be its own cause, so a chain of
    causes is no longer
    than the number of writes."""
    domain = {name: {value} for name, value in test.memory.items()}
    for _ in range(1 + sum(u.writes for code in test.threads for u in code)):
        grown = {name: set(values) for name, values in domain.items()}
        for thread in range(len(test.threads)):
            for path in _paths(test, thread, domain):
                for event in path.events:
                    if event.write:
                        grown[event.location].add(event.value)
        if grown == domain:
            break
        domain = grown
    return domain


Relation = list[int]
"""Row i is the bit set of the successors of event i."""


def _union(*relations: Relation) -> Relation:
    rows = [0] * len(relations[0])
    for relation in relations:
        rows = [a | b for a, b in zip(rows, relation, strict=True)]
    return rows


def _both(a: Relation, b: Relation) -> Relation:
    return [x & y for x, y in zip(a, b, strict=True)]


def _then(a: Relation, b: Relation) -> Relation:
    """Relational composition a;b."""
    rows = []
    for row in a:
        out, k = 0, 0
        while row >> k:
            if row >> k & 1:
                out |= b[k]
            k += 1
        rows.append(out)
    return rows


def _plus(a: Relation) -> Relation:
    """Transitive closure."""
    rows = list(a)
    for k in range(len(rows)):
        for i in range(len(rows)):
            if rows[i] >> k & 1:
                rows[i] |= rows[k]
    return rows


def _star(a: Relation) -> Relation:
    return [row | 1 << i for i, row in enumerate(_plus(a))]


def _irreflexive(a: Relation) -> bool:
    return not any(row >> i & 1 for i, row in enumerate(a))


def _acyclic(a: Relation) -> bool:
    return _irreflexive(_plus(a))


@dataclass
class _Skeleton:
    """The parts of an execution that rf and co do not change. The initial writes come first."""

    events: list[_Event]
    thread: list[int]
    reads: int  # bit sets
    writes: int
    po: Relation
    po_loc: Relation
    addr: Relation
    data: Relation
    ctrl: Relation
    ctrl_isync: Relation
    fences: dict[Fence, Relation]
    pairs: Relation
    same_thread: Relation


def _skeleton(test: LitmusTest, paths: tuple[_Path, ...]) -> _Skeleton:
    events = [_Event(True, name, value) for name, value in test.memory.items()]
    thread, first = [-1] * len(events), []
    for i, path in enumerate(paths):
        first.append(len(events))
        events += path.events
        thread += [i] * len(path.events)
    n = len(events)
    s = _Skeleton(
        events,
        thread,
        0,
        0,
        po=[0] * n,
        po_loc=[0] * n,
        addr=[0] * n,
        data=[0] * n,
        ctrl=[0] * n,
        ctrl_isync=[0] * n,
        fences={f: [0] * n for f in Fence},
        pairs=[0] * n,
        same_thread=[0] * n,
    )
    for k, event in enumerate(events):
        if event.write:
            s.writes |= 1 << k
        else:
            s.reads |= 1 << k
    for i, path in enumerate(paths):
        begin = first[i]
        for k, event in enumerate(path.events, begin):
            for sources, relation in (
                (event.addr, s.addr),
                (event.data, s.data),
                (event.ctrl, s.ctrl),
                (event.ctrl_isync, s.ctrl_isync),
            ):
                for source in sources:
                    relation[begin + source] |= 1 << k
            if event.pair >= 0:
                s.pairs[begin + event.pair] |= 1 << k
            for earlier in range(begin, k):
                s.po[earlier] |= 1 << k
                if events[earlier].location == event.location:
                    s.po_loc[earlier] |= 1 << k
                for kind, position in path.fences:
                    if earlier < begin + position <= k:
                        s.fences[kind][earlier] |= 1 << k
    for k in range(n):
        s.same_thread[k] = sum(1 << j for j in range(n) if thread[j] == thread[k] >= 0)
    return s


@dataclass
class _Execution:
    """A skeleton with rf and co, and what follows from them."""

    s: _Skeleton
    rf: Relation
    co: Relation

    def __post_init__(self) -> None:
        n = len(self.rf)
        back = [0] * n
        for write, row in enumerate(self.rf):
            for read in range(n):
                if row >> read & 1:
                    back[read] |= 1 << write
        self.fr = _then(back, self.co)
        self.com = _union(self.rf, self.co, self.fr)

    def external(self, a: Relation) -> Relation:
        return [row & ~same for row, same in zip(a, self.s.same_thread, strict=True)]

    def only(self, a: Relation, source: int, target: int) -> Relation:
        return [row & target if source >> i & 1 else 0 for i, row in enumerate(a)]

    def coherent_and_atomic(self) -> bool:
        """SC per location, and no foreign write between the halves of an atomic access."""
        if not _acyclic(_union(self.s.po_loc, self.com)):
            return False
        between = _then(self.external(self.fr), self.external(self.co))
        return not any(_both(self.s.pairs, between))


def _allowed_x86(e: _Execution) -> bool:
    s = e.s
    locked = 0
    for i, row in enumerate(s.pairs):
        if row:
            locked |= row | 1 << i
    everything = s.reads | s.writes
    ppo = [row & ~s.reads if s.writes >> i & 1 else row for i, row in enumerate(s.po)]
    implied = [row if locked >> i & 1 else row & locked for i, row in enumerate(s.po)]
    mfence = e.only(s.fences[Fence.FULL], everything, everything)
    return _acyclic(_union(ppo, implied, mfence, e.external(e.rf), e.co, e.fr))


def _power_ppo(e: _Execution) -> Relation:
    """Preserved program order of Power: the least solution of its equations."""
    s = e.s
    rfe, rfi = e.external(e.rf), _both(e.rf, s.same_thread)
    dp = _union(s.addr, s.data)
    rdw = _both(s.po_loc, _then(e.external(e.fr), rfe))
    detour = _both(s.po_loc, _then(e.external(e.co), rfe))
    ii, ci = _union(dp, rdw, rfi), _union(s.ctrl_isync, detour)
    ic: Relation = [0] * len(s.events)
    cc = _union(dp, s.po_loc, s.ctrl, _then(s.addr, s.po))
    while True:
        new = (
            _union(ii, ci, _then(ic, ci), _then(ii, ii)),
            _union(ic, ii, cc, _then(ic, cc), _then(ii, ic)),
            _union(ci, _then(ci, ii), _then(cc, ci)),
            _union(cc, ci, _then(ci, ic), _then(cc, cc)),
        )
        if new == (ii, ic, ci, cc):
            return _union(e.only(ii, s.reads, s.reads), e.only(ic, s.reads, s.writes))
        ii, ic, ci, cc = new


def _allowed_power(e: _Execution) -> bool:
    s = e.s
    strong = s.fences[Fence.FULL]
    light = [row & ~s.reads if s.writes >> i & 1 else row for i, row in enumerate(s.fences[Fence.LIGHT])]
    fence = _union(strong, light, e.only(s.fences[Fence.STORE], s.writes, s.writes))
    rfe = e.external(e.rf)
    hb = _union(_power_ppo(e), fence, rfe)
    if not _acyclic(hb):
        return False
    hb_star = _star(hb)
    base = _then(_union(fence, _then(rfe, fence)), hb_star)
    prop = _union(e.only(base, s.writes, s.writes), _then(_then(_then(_star(e.com), _star(base)), strong), hb_star))
    return _irreflexive(_then(_then(e.external(e.fr), prop), hb_star)) and _acyclic(_union(e.co, prop))


def _executions(test: LitmusTest, paths: tuple[_Path, ...]) -> Iterator[_Execution]:
    """Every coherent and atomic execution of one choice of paths. Both properties concern one location at a time, so
    each location's
    choices are tested alone before they are combined."""
    s = _skeleton(test, paths)
    for choices in product(*(list(_of_location(s, k)) for k in range(len(test.memory)))):
        yield _Execution(s, _union(*(rf for rf, _ in choices)), _union(*(co for _, co in choices)))


def _of_location(s: _Skeleton, k: int) -> Iterator[tuple[Relation, Relation]]:
    """Every coherent and atomic rf and co of the location that event k initialises."""
    n, name = len(s.events), s.events[k].location
    here = [i for i in range(n) if s.events[i].location == name]
    writes = [w for w in here if s.events[w].write and w != k]
    reads = [r for r in here if not s.events[r].write]
    sources = [[w for w in (k, *writes) if s.events[w].value == s.events[r].value] for r in reads]
    for order in permutations(writes):
        if any(s.po[later] >> earlier & 1 for i, earlier in enumerate(order) for later in order[i + 1 :]):
            continue
        co = [0] * n
        for i, write in enumerate((k, *order)):
            co[write] = sum(1 << later for later in order[i:])
        for chosen in product(*sources):
            rf = [0] * n
            for read, write in zip(reads, chosen, strict=True):
                rf[write] |= 1 << read
            if _Execution(s, rf, co).coherent_and_atomic():
                yield rf, co


def _readable(test: LitmusTest, paths: tuple[_Path, ...]) -> bool:
    """Cheap test before any relation is built: every value read is written, and no two atomic accesses update the
    same value of a write
    that is there once."""
    written = Counter((name, value) for name, value in test.memory.items())
    updated: Counter[tuple[str, int]] = Counter()
    for path in paths:
        for event in path.events:
            if event.write:
                written[event.location, event.value] += 1
            if event.pair >= 0:
                updated[event.location, path.events[event.pair].value] += 1
    return all((e.location, e.value) in written for path in paths for e in path.events if not e.write) and all(
        count <= written[key] for key, count in updated.items()
    )


def _final_memory(test: LitmusTest, e: _Execution) -> dict[str, int]:
    return {event.location: event.value for k, event in enumerate(e.s.events) if event.write and not e.co[k]}


def outcomes(test: LitmusTest) -> frozenset[Outcome]:
    """Every outcome that the model of the test's architecture allows."""
    allowed = _allowed_power if test.isa == "power" else _allowed_x86
    domain = _domain(test)
    found: set[Outcome] = set()
    for paths in product(*(_paths(test, thread, domain) for thread in range(len(test.threads)))):
        if not _readable(test, paths):
            continue
        registers = [path.registers for path in paths]
        for e in _executions(test, paths):
            outcome = test.outcome(list(registers), _final_memory(test, e))
            if outcome not in found and allowed(e):
                found.add(outcome)
    return frozenset(found)
