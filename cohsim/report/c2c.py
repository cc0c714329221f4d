"""Who shares which line, at what cost: the table of ``cohsim c2c``, and the verdict on each line.

:func:`shared_lines` turns a result into :class:`SharedLine` records; everything that explains or decides (``c2c``, ``advise``, the HTML
report) starts from them. :func:`judge` is the verdict alone, a pure function of the figures of a line.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cohsim.errors import InputError, Problem
from cohsim.results.lines import Placement, object_map
from cohsim.results.result import Result
from cohsim.results.rundata import LINE_STATS, SERVED
from cohsim.results.summary import FS_PER_NS, IDLE

THRESHOLD = 0.01
"""Share of busy time below which a line does not matter, unless the caller says otherwise."""


READ_MOSTLY_WRITES = 0.1
"""A line whose accesses write at most this share is read-mostly."""

MOSTLY = 0.8
"""Share of the cycles of a line's takes that must want common (or different) bytes to call it true (false) sharing."""

STAT = {name: column for column, name in enumerate(LINE_STATS)}


class Verdict(StrEnum):
    """What is wrong with a line, if anything."""

    TRUE_SHARING = "true sharing"  # CPUs take the line from each other for the same bytes
    FALSE_SHARING = "false sharing"  # for different bytes: apart, they would not disturb each other
    MIXED = "mixed"  # some of both
    READ_MOSTLY = "read-mostly disturbed"  # nearly all accesses read; few writes take the copies of all readers away
    NOT_SHARED = "not shared"  # waited for, but no CPU took it from another (memory, own L2)
    DOES_NOT_MATTER = "does not matter"  # less than the threshold of busy time is spent waiting for it


class Distance(StrEnum):
    """How far apart the CPU that took a line and the CPU it was taken from are."""

    SIBLING = "sibling"  # two hardware threads of one core
    CLUSTER = "cluster"  # two cores that share an L2
    REMOTE = "remote"  # two coherence nodes: other cluster, or other core with its own L2
    UNKNOWN = "unknown"  # the previous user is not known (several L1 copies, the newest reader was the taker itself)


@dataclass(frozen=True)
class SharedField:
    """Bytes of one object that one or more functions use on the line. Counts are of the measured window and of all CPUs of the run, and of all
    instances of the object.
    """

    object: str
    name: str  # "" for bytes without a name
    offset: int  # first byte, from the start of the object instance
    size: int
    functions: tuple[str, ...]  # that use it, most expensive first
    loads: int  # executed; load-and-reserves are loads
    stores: int
    atomics: int  # read-modify-writes and store-conditionals
    hitm_local: int  # accesses that found it modified by another core, without leaving the shared cache (cluster L2, inclusive L3)
    hitm_remote: int  # ... in another cluster
    retries: int  # store-conditionals that failed
    reads_by_cpu: tuple[int, ...]  # loads and load-and-reserves (atomics read too, they are in writes_by_cpu) of each CPU of the run
    writes_by_cpu: tuple[int, ...]  # stores, read-modify-writes and store-conditionals
    accesses_beyond_l1: int  # those that mean, p95, p99 and max are about: not served by store buffer or L1
    mean_ns: float  # of these accesses, from leaving the thread to its answer; 0.0 where there were none
    p95_ns: float  # upper edge of the histogram bin (a power of two core cycles) that holds the quantile, at most max_ns
    p99_ns: float
    max_ns: float
    time_share: float  # of busy time of all CPUs that is booked on accesses to it
    lock: str  # kind of the lock whose word it is ("ticket", "rwlock", ...), "" if no lock function of the library uses it

    @property
    def label(self) -> str:
        """``object.name``, or ``object+offset:size`` for bytes without a name."""
        return f"{self.object}.{self.name}" if self.name else f"{self.object}+{self.offset}:{self.size}"


@dataclass(frozen=True)
class Take:
    """Function pair: ``taker`` got the line that ``holder`` had used last."""

    taker: str  # function; "" for a prefetcher, which waits for nothing
    taker_field: str  # label of the SharedField it wanted, "" if unknown
    holder: str  # function that had last written the line there, or last fetched it where nobody wrote; "" if unknown
    holder_field: str
    how: str  # who served the taker: l2 (from a sibling), cluster, remote_clean, remote_dirty, upgrade, home or memory (copies had to go)
    same_bytes: bool | None  # both wanted common bytes; None if one of the fields is unknown
    count: int
    latency_ns: float  # total of the taker's accesses


@dataclass(frozen=True)
class CpuTake:
    """CPU pair: numbers of the run's CPUs; ``holder`` is -1 where it is not known."""

    taker: int
    holder: int
    distance: Distance
    count: int
    latency_ns: float


@dataclass(frozen=True)
class Kill:
    """Function pair: a store of ``killer`` ended a reservation that ``victim`` had taken with load-and-reserve."""

    killer: str  # "" where the line was evicted, or a device wrote it
    killer_field: str
    victim: str
    victim_field: str
    count: int


@dataclass(frozen=True)
class Transfers:
    """Takes of a line over one distance."""

    distance: Distance
    count: int
    latency_ns: float


@dataclass(frozen=True)
class Lock:
    """The lock whose word is on the line."""

    kind: str  # "ticket", "mcs", "queued", "spin", "rwlock", ...; several joined by "+"
    field: str  # label of the lock word
    queue_length: float  # mean number of CPUs that wait at it: their spin and stall time in its functions / measured time
    # (of a function that reaches several locks by pointer, each lock gets its part by the cycles of the takes there)


@dataclass(frozen=True)
class SharedLine:
    """One line that was missed or fought for. The lines of an object with many instances at one offset are one record."""

    object: str  # ``route``, ``skb[*]`` with several instances, ``0x1234`` if no object is known
    offset: int  # of the line in the object
    address: int  # first byte of the (first) line
    struct: str
    lines: int  # how many lines this record stands for
    shared_with: tuple[str, ...]  # other objects on the line
    cost_share: float  # of busy time of all CPUs: stall_share, or the share that is spent waiting in the lock's functions, if that is more
    stall_share: float  # of busy time of all CPUs, waiting for this line
    stall_ns: float
    queue_ns: float  # time requests waited in the line's queues at L2 and home
    fields: tuple[SharedField, ...]  # most expensive first
    takers: tuple[Take, ...]  # by latency
    cpu_takers: tuple[CpuTake, ...]  # by latency
    killers: tuple[Kill, ...]  # by count
    transfers: tuple[Transfers, ...]  # by distance
    retries: int  # store-conditionals that failed
    invalidations: int
    verdict: Verdict
    reason: str  # one sentence
    lock: Lock | None

    @property
    def label(self) -> str:
        """``route+128``; an address stands for itself."""
        return self.object if self.object.startswith("0x") else f"{self.object}+{self.offset}"

    @property
    def take_count(self) -> int:
        """Times a CPU took the line from another."""
        return sum(t.count for t in self.transfers)

    @property
    def take_ns(self) -> float:
        """Total latency of these accesses."""
        return sum(t.latency_ns for t in self.transfers)


def shared_lines(result: Result, threshold: float = THRESHOLD, source: str = "") -> list[SharedLine]:
    """The lines of a run, largest cost first. ``threshold``: share of busy time below which a line does not matter; ``source``: the file the
    result was read from, for messages.

    Raises InputError if the result was written by a cohsim that did not record who took lines from whom.
    """
    if "/takes/address" not in result.data:
        what = "the result does not say who took lines from whom: an older cohsim wrote it"
        raise InputError(Problem(source or result.text("/run/workload"), what, "run the simulation again"))
    tables = _Tables(result)
    return sorted((tables.line(key, rows, threshold) for key, rows in tables.groups()), key=lambda line: -line.cost_share)


def judge(fields: Sequence[SharedField], takers: Sequence[Take], cost_share: float, threshold: float = THRESHOLD) -> tuple[Verdict, str]:
    """Verdict on a line and the reason in one sentence, from its fields and from who took it from whom.

    A take is true sharing if taker and holder used overlapping fields and somebody writes there: bytes that nobody writes need never move, so a
    take for them is the fault of what lies beside them. Cycles decide, not counts: a take nobody waits for costs nothing.
    """
    if cost_share < threshold:
        return Verdict.DOES_NOT_MATTER, f"{100 * cost_share:.2f} % of busy time is spent waiting for it, less than {100 * threshold:g} %."
    if not takers:
        return Verdict.NOT_SHARED, "No CPU took it from another: the time goes to memory or to its own cache."
    reads, writes = sum(sum(f.reads_by_cpu) for f in fields), sum(sum(f.writes_by_cpu) for f in fields)
    if reads and writes <= READ_MOSTLY_WRITES * (reads + writes):
        writing = _listed(f.label for f in fields if any(f.writes_by_cpu))
        part = f"{100 * writes / (reads + writes):.2g} % of the accesses"
        return Verdict.READ_MOSTLY, f"{part} write ({writing}), and each write takes the copies of the readers away."
    unwritten = {f.label for f in fields if not any(f.writes_by_cpu)}
    true = [t for t in takers if t.same_bytes and t.taker_field not in unwritten]
    false = [t for t in takers if t.same_bytes is False or (t.same_bytes and t.taker_field in unwritten)]
    same, other = sum(t.latency_ns for t in true), sum(t.latency_ns for t in false)
    if not same + other:
        return _judge_by_cpus(fields)
    share = same / (same + other)
    wanted = _listed(_by_cost((t.taker_field, t.latency_ns) for t in true))
    apart = _listed(_by_cost((_disturbed(t, unwritten), t.latency_ns) for t in false))
    moves = "of the cycles of its moves are for"
    if share >= MOSTLY:
        return Verdict.TRUE_SHARING, f"{100 * share:.0f} % {moves} bytes that the previous CPU used too ({wanted})."
    if other / (same + other) >= MOSTLY:
        return Verdict.FALSE_SHARING, f"{100 * (1 - share):.0f} % {moves} bytes that the previous CPU did not write ({apart})."
    return Verdict.MIXED, f"{100 * share:.0f} % {moves} bytes that the previous CPU used too ({wanted}), the rest for others ({apart})."


def _disturbed(t: Take, unwritten: set[str]) -> str:
    text = t.taker_field + (", which nobody writes," if t.taker_field in unwritten else "")
    return text.rstrip(",") if t.same_bytes else f"{text} after {t.holder_field}"


def _judge_by_cpus(fields: Sequence[SharedField]) -> tuple[Verdict, str]:
    """Nothing is known of the bytes of the takes (a recorded trace without symbols): look at who uses which bytes."""
    users = {f.label: {cpu for counts in (f.reads_by_cpu, f.writes_by_cpu) for cpu, n in enumerate(counts) if n} for f in fields}
    common = [f.label for f in fields if len(users[f.label]) > 1 and any(f.writes_by_cpu)]
    if common:
        return Verdict.TRUE_SHARING, f"Several CPUs use bytes that are written ({_listed(common)}); which bytes each move was for is not known."
    if len(fields) > 1:
        return Verdict.FALSE_SHARING, f"No bytes that are written have more than one CPU as user ({_listed(users)})."
    return Verdict.MIXED, "Which bytes its moves were for is not known."


def _by_cost(items: Iterable[tuple[str, float]]) -> list[str]:
    cost: dict[str, float] = defaultdict(float)
    for name, spent in items:
        cost[name] += spent
    return sorted(cost, key=lambda name: (-cost[name], name))


def _listed(names: Iterable[str], most: int = 3) -> str:
    names = list(names)
    return "; ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True)
class _Use:
    """One row of /fields."""

    object: int
    start: int
    end: int
    name: str
    function: int
    busy_fs: int


class _Tables:
    """Columns of a result, indexed for lines."""

    def __init__(self, result: Result):
        self.result = result
        self.objects = result.names("/objects/name")
        self.structs = result.names("/objects/struct")
        self.instances = result.array("/objects/instances").tolist()
        self.base = result.array("/objects/base").tolist()
        self.stride = result.array("/objects/stride_bytes").tolist()
        self.functions = result.names("/functions/name")
        self.line_bytes, self.period = result.number("/run/line_bytes"), result.number("/run/core_period_fs")
        self.measured_fs = result.number("/run/measured_fs")
        time = result.array("/threads/time_fs")
        self.busy_fs = int(time.sum() - time[:, IDLE].sum())
        self.core, self.node = result.array("/threads/core").tolist(), result.array("/threads/node").tolist()
        self.l3_shared = bool(json.loads(result.text("/provenance/machine_compiled"))["l3_inclusive"])
        self.uses = self._uses()
        self.uses_of: dict[int, list[int]] = defaultdict(list)
        for row, use in enumerate(self.uses):
            self.uses_of[use.object].append(row)
        self.map = object_map(result.data)
        self.address = result.array("/lines/address").tolist()
        self.stats = result.array("/lines/stats")
        self.pairs = {group: self._by_address(group) for group in ("takes", "cpu_takes", "kills")}
        self.claimed: set[int] = set()

    def _uses(self) -> list[_Use]:
        r = self.result
        busy = r.array("/fields/time_fs")
        busy_fs = (busy.sum(axis=1) - busy[:, IDLE]).tolist()
        columns = (r.array(f"/fields/{name}").tolist() for name in ("object", "offset_bytes", "size_bytes", "function"))
        names = r.names("/fields/field")
        return [_Use(o, b, b + n, name, f, fs) for o, b, n, f, name, fs in zip(*columns, names, busy_fs, strict=True)]

    def _by_address(self, group: str) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for row, address in enumerate(self.result.array(f"/{group}/address").tolist()):
            found[address].append(row)
        return found

    def groups(self) -> list[tuple[tuple[int, int], list[int]]]:
        """Lines by (object, offset) or (-1, address), largest stall first."""
        owner, offset = self.result.array("/lines/object").tolist(), self.result.array("/lines/offset_bytes").tolist()
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for row, (obj, start, where) in enumerate(zip(owner, offset, self.address, strict=True)):
            groups[(obj, start) if obj >= 0 else (-1, where)].append(row)
        stall = {key: int(self.stats[rows, STAT["stall_fs"]].sum()) for key, rows in groups.items()}
        return sorted(groups.items(), key=lambda item: (-stall[item[0]], item[0]))

    def line(self, key: tuple[int, int], rows: list[int], threshold: float) -> SharedLine:
        obj, offset = key
        stats = self.stats[rows].sum(axis=0)
        places, addresses = self._places(rows)
        fields = self._fields(places)
        takes = self._takes(addresses)
        pairs = self._cpu_takes(addresses)
        kills = self._kills(addresses)
        self.claimed |= addresses
        share = int(stats[STAT["stall_fs"]]) / self.busy_fs if self.busy_fs else 0.0
        lock = self._lock(places, addresses)
        waiting = lock.queue_length * self.measured_fs / self.busy_fs if lock and self.busy_fs else 0.0
        verdict, reason = judge(fields, takes, max(share, waiting), threshold)
        return SharedLine(
            object=self._label(obj) if obj >= 0 else f"0x{offset:x}",
            offset=offset if obj >= 0 else 0,
            address=self.address[rows[0]],
            struct=self.structs[obj] if obj >= 0 else "",
            lines=len(rows),
            shared_with=tuple(sorted({self._label(p.object) for p in places if p.object != obj})),
            cost_share=max(share, waiting),
            stall_share=share,
            stall_ns=int(stats[STAT["stall_fs"]]) / FS_PER_NS,
            queue_ns=int(stats[STAT["queue_fs"]]) / FS_PER_NS,
            fields=fields,
            takers=takes,
            cpu_takers=pairs,
            killers=kills,
            transfers=_by_distance(pairs),
            retries=int(stats[STAT["sc_failures"]]),
            invalidations=int(stats[STAT["invalidations"]]),
            verdict=verdict,
            reason=reason,
            lock=lock,
        )

    def _label(self, obj: int) -> str:
        return self.objects[obj] + ("[*]" if self.instances[obj] > 1 else "")

    def _places(self, rows: list[int]) -> tuple[set[Placement], set[int]]:
        """What lies on the lines, instances taken together, and the addresses under which their pairs are counted."""
        places, addresses = set(), set()
        for row in rows:
            address = self.address[row]
            addresses.add(address)
            for p in self.map.on_line(address, self.line_bytes):
                places.add(Placement(p.object, 0, p.offset_bytes, p.end_bytes))
                if self.stride[p.object] and not self.stride[p.object] % self.line_bytes:
                    addresses.add(address - p.instance * self.stride[p.object])
        return places, addresses - self.claimed

    def _fields(self, places: set[Placement]) -> tuple[SharedField, ...]:
        found: dict[tuple[int, int, int, str], list[int]] = defaultdict(list)
        for place in places:
            for row in self.uses_of[place.object]:
                use = self.uses[row]
                rows = found[use.object, use.start, use.end, use.name]
                if use.start < place.end_bytes and use.end > place.offset_bytes and row not in rows:
                    rows.append(row)
        fields = [self._field(*key, rows) for key, rows in found.items() if rows]
        return tuple(sorted(fields, key=lambda f: (-f.time_share, f.object, f.offset, f.size)))

    def _field(self, obj: int, start: int, end: int, name: str, rows: list[int]) -> SharedField:
        r = self.result
        total = {c: int(r.array(f"/fields/{c}")[rows].sum()) for c in ("loads", "stores", "atomics", "sc_failures", "latency_fs")}
        served = r.array("/fields/served")[rows].sum(axis=0).tolist()
        bins = r.array("/fields/latency_operations")[rows].sum(axis=0)
        longest, beyond = int(r.array("/fields/latency_max_fs")[rows].max()), int(bins.sum())
        dirty = served[SERVED.index("remote_dirty")]
        functions = _by_cost((self.functions[self.uses[row].function], self.uses[row].busy_fs) for row in rows)
        return SharedField(
            object=self.objects[obj],
            name=name,
            offset=start,
            size=end - start,
            functions=tuple(functions),
            loads=total["loads"],
            stores=total["stores"],
            atomics=total["atomics"],
            hitm_local=served[SERVED.index("cluster")] + (dirty if self.l3_shared else 0),
            hitm_remote=0 if self.l3_shared else dirty,
            retries=total["sc_failures"],
            reads_by_cpu=tuple(r.array("/fields/reads_by_cpu")[rows].sum(axis=0).tolist()),
            writes_by_cpu=tuple(r.array("/fields/writes_by_cpu")[rows].sum(axis=0).tolist()),
            accesses_beyond_l1=beyond,
            mean_ns=total["latency_fs"] / beyond / FS_PER_NS if beyond else 0.0,
            p95_ns=self._quantile(bins, 0.95, longest),
            p99_ns=self._quantile(bins, 0.99, longest),
            max_ns=longest / FS_PER_NS,
            time_share=sum(self.uses[row].busy_fs for row in rows) / self.busy_fs if self.busy_fs else 0.0,
            lock="+".join(kind for kind, *_ in self._lock_words(obj, start, end)),
        )

    def _quantile(self, bins: np.ndarray, quantile: float, longest_fs: int) -> float:
        """Upper edge of the bin with the quantile: bin b holds 2**b to 2**(b+1) core cycles."""
        if not bins.any():
            return 0.0
        position = int(np.searchsorted(np.cumsum(bins), quantile * bins.sum()))
        return min((2 << position) * self.period, longest_fs) / FS_PER_NS

    def _lock_words(self, obj: int, start: int, end: int) -> list[tuple[str, str, float]]:
        """(kind, label of the word, wait_fs) of lock words that overlap the bytes."""
        r = self.result
        columns = (r.array(f"/locks/{name}").tolist() for name in ("object", "offset_bytes", "size_bytes", "wait_fs"))
        words = zip(r.names("/locks/kind"), r.names("/locks/field"), *columns, strict=True)
        return [
            (kind, f"{self.objects[obj]}.{name}" if name else f"{self.objects[obj]}+{at}:{size}", wait)
            for kind, name, o, at, size, wait in words
            if o == obj and at < end and at + size > start
        ]

    def _pointer_locks(self, addresses: set[int]) -> list[tuple[str, str, float]]:
        """(kind, label of the word, wait_fs) of locks that a function reached by pointer: its waiting, shared out by the cycles of its takes."""
        r = self.result
        lock, latency = r.array("/takes/taker_lock"), r.array("/takes/latency_fs")
        rows = np.array([row for address in addresses for row in self.pairs["takes"].get(address, ())], np.int64)
        found = []
        for number in np.unique(lock[rows]).tolist() if len(rows) else ():
            if number < 0 or r.array("/locks/object")[number] >= 0:
                continue
            here = rows[lock[rows] == number]
            total = int(latency[lock == number].sum())
            part = int(latency[here].sum()) / total if total else 0.0
            word = here[np.argmax(latency[here])]
            where = (int(r.array(f"/takes/{c}")[word]) for c in ("taker_use", "address", "taker_offset_bytes", "taker_size_bytes"))
            found.append((r.names("/locks/kind")[number], self._wanted(*where), int(r.array("/locks/wait_fs")[number]) * part))
        return found

    def _lock(self, places: set[Placement], addresses: set[int]) -> Lock | None:
        words: list[tuple[str, str, float]] = sorted({w for p in places for w in self._lock_words(p.object, p.offset_bytes, p.end_bytes)})
        words += self._pointer_locks(addresses)
        if not words or not self.measured_fs:
            return None
        kinds, labels = (list(dict.fromkeys(column)) for column in list(zip(*words, strict=True))[:2])
        return Lock("+".join(kinds), ", ".join(labels), sum(wait for *_, wait in words) / self.measured_fs)

    # ---- pairs
    def _columns(self, group: str, addresses: set[int], *names: str) -> list[tuple[int, ...]]:
        rows = [row for address in sorted(addresses) for row in self.pairs[group].get(address, ())]
        return list(zip(*(self.result.array(f"/{group}/{name}")[rows].tolist() for name in names), strict=True))

    def _function(self, number: int) -> str:
        return self.functions[number] if number >= 0 else ""

    def _wanted(self, row: int, address: int, offset: int, size: int) -> str:
        """Label of an access: its field, or what lies on the bytes that a pointer led to."""
        if row >= 0:
            use = self.uses[row]
            return f"{self.objects[use.object]}.{use.name}" if use.name else f"{self.objects[use.object]}+{use.start}:{use.end - use.start}"
        if offset < 0:
            return ""
        for place in self.map.on_line(address, self.line_bytes):
            start = int(self.base[place.object]) + place.instance * self.stride[place.object]
            at = address + offset - start
            if place.offset_bytes <= at < place.end_bytes:
                named = {u.name for u in (self.uses[i] for i in self.uses_of[place.object]) if u.name and u.start <= at and at + size <= u.end}
                return f"{self.objects[place.object]}.{min(named)}" if named else f"{self.objects[place.object]}+{at}:{size}"
        return f"0x{address + offset:x}:{size}"

    def _same_bytes(self, a: int, b: int, a_bytes: tuple[int, int], b_bytes: tuple[int, int]) -> bool | None:
        """Fields decide where both accesses name one (a lock word is one thing), else the bytes that they touched."""
        if a >= 0 and b >= 0 and self.uses[a].name and self.uses[b].name:
            x, y = self.uses[a], self.uses[b]
            return x.object == y.object and x.start < y.end and y.start < x.end
        if a_bytes[0] < 0 or b_bytes[0] < 0:
            return None
        return a_bytes[0] < sum(b_bytes) and b_bytes[0] < sum(a_bytes)

    def _takes(self, addresses: set[int]) -> tuple[Take, ...]:
        merged: dict[tuple[str, str, str, str, str, bool | None], list[int]] = defaultdict(lambda: [0, 0])
        who = ("taker_function", "taker_use", "holder_function", "holder_use")
        names = ("address", *who, "level", "count", "latency_fs", *_bytes("taker", "holder"))
        for at, tf, tu, hf, hu, level, count, fs, to, ts, ho, hs in self._columns("takes", addresses, *names):
            taker, holder = self._wanted(tu, at, to, ts), self._wanted(hu, at, ho, hs)
            key = (self._function(tf), taker, self._function(hf), holder, SERVED[level], self._same_bytes(tu, hu, (to, ts), (ho, hs)))
            merged[key][0] += count
            merged[key][1] += fs
        takes = [Take(*key, count, fs / FS_PER_NS) for key, (count, fs) in merged.items()]
        return tuple(sorted(takes, key=lambda t: (-t.latency_ns, -t.count, t.taker, t.taker_field, t.holder, t.holder_field, t.how)))

    def _cpu_takes(self, addresses: set[int]) -> tuple[CpuTake, ...]:
        merged: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        for taker, holder, count, fs in self._columns("cpu_takes", addresses, "taker", "holder", "count", "latency_fs"):
            merged[taker, holder][0] += count
            merged[taker, holder][1] += fs
        found = [CpuTake(a, b, self.distance(a, b), count, fs / FS_PER_NS) for (a, b), (count, fs) in merged.items()]
        return tuple(sorted(found, key=lambda t: (-t.latency_ns, t.taker, t.holder)))

    def distance(self, a: int, b: int) -> Distance:
        if b < 0:
            return Distance.UNKNOWN
        if self.core[a] == self.core[b]:
            return Distance.SIBLING
        return Distance.CLUSTER if self.node[a] == self.node[b] else Distance.REMOTE

    def _kills(self, addresses: set[int]) -> tuple[Kill, ...]:
        merged: dict[tuple[str, str, str, str], int] = defaultdict(int)
        names = ("address", "killer_function", "killer_use", "victim_function", "victim_use", "count", *_bytes("killer", "victim"))
        for at, kf, ku, vf, vu, count, ko, ks, vo, vs in self._columns("kills", addresses, *names):
            merged[self._function(kf), self._wanted(ku, at, ko, ks), self._function(vf), self._wanted(vu, at, vo, vs)] += count
        return tuple(sorted((Kill(*key, count) for key, count in merged.items()), key=lambda k: (-k.count, k.killer, k.killer_field, k.victim)))


def _bytes(*who: str) -> list[str]:
    return [f"{name}_{what}_bytes" for name in who for what in ("offset", "size")]


def _by_distance(pairs: Sequence[CpuTake]) -> tuple[Transfers, ...]:
    found = []
    for distance in Distance:
        chosen = [p for p in pairs if p.distance is distance]
        if chosen:
            found.append(Transfers(distance, sum(p.count for p in chosen), sum(p.latency_ns for p in chosen)))
    return tuple(found)
