"""Who shares which line, at what cost: the table of ``cohsim c2c``, and the verdict on each line.

:func:`shared_lines` turns a result into :class:`SharedLine` records; everything that explains or decides (``c2c``, ``advise``, the HTML
report) starts from them. :func:`judge` is the verdict alone, a pure function of the figures of a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cohsim.results.result import Result

THRESHOLD = 0.01
"""Share of busy time below which a line does not matter, unless the caller says otherwise."""


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

    taker: str  # function
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

    killer: str  # "" where the line was evicted
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


@dataclass(frozen=True)
class SharedLine:
    """One line that was missed or fought for. The lines of an object with many instances at one offset are one record."""

    object: str  # ``route``, ``skb[*]`` with several instances, ``0x1234`` if no object is known
    offset: int  # of the line in the object
    address: int  # first byte of the (first) line
    struct: str
    lines: int  # how many lines this record stands for
    shared_with: tuple[str, ...]  # other objects on the line
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


def shared_lines(result: Result, threshold: float = THRESHOLD) -> list[SharedLine]:
    """The lines of a run, largest stall share first. ``threshold``: share of busy time below which a line does not matter.

    Raises InputError if the result was written by a cohsim that did not record who took lines from whom.
    """
    raise NotImplementedError("lands in this clone within the hour; the records above are final")


def judge(fields: Sequence[SharedField], takers: Sequence[Take], stall_share: float, threshold: float = THRESHOLD) -> tuple[Verdict, str]:
    """Verdict on a line and the reason in one sentence, from its fields and from who took it from whom."""
    raise NotImplementedError("lands in this clone within the hour")
