"""Candidates for a change, from what is known of the shared lines. No name of a workload stands here: a candidate follows from the verdict on a
line, from who reads and writes which of its bytes, from the layout of the objects, from the kind of a lock, and from the file's own variants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cohsim.report.c2c import THRESHOLD, SharedField, SharedLine, Verdict
from cohsim.sweep.point import Point
from cohsim.workload.compiled import CompiledWorkload, LockWord, PlacedObject
from cohsim.workload.locks import KINDS, REPLACEABLE
from cohsim.workload.program import Choices


class Kind(StrEnum):
    """What sort of change a candidate is."""

    SEPARATE = "separate"  # other lines for some bytes
    PER_CPU = "per-cpu"  # an instance for each CPU
    BATCH = "batch"  # updates are gathered per CPU and applied together
    LOCK = "lock"  # another lock
    VARIANT = "variant"  # what the workload file offers


@dataclass(frozen=True)
class Candidate:
    """One change that can be simulated."""

    kind: Kind
    title: str
    reason: str  # the observation it follows from
    layouts: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()  # variants that these exclude

    @property
    def options(self) -> str:
        """As ``cohsim run`` takes it."""
        parts = [f"--layout {rule}" for rule in self.layouts] + [f"--lock {lock}" for lock in self.locks]
        return " ".join([*parts, *(f"--variant {name}" for name in self.variants)])

    @property
    def change(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """What it does; two candidates with equal changes are the same."""
        return frozenset(self.layouts), frozenset(self.locks), frozenset(self.variants)

    def applied(self, point: Point) -> Point:
        """``point`` with the change."""
        kept = tuple(name for name in point.variants if name not in self.instead_of)
        return replace(
            point, layouts=point.layouts + self.layouts, locks=_locks(point.locks, self.locks), variants=kept + self.variants
        )


def _locks(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """A lock is replaced once: the later choice counts."""
    words = {lock.partition("=")[0] for lock in new}
    return tuple(lock for lock in old if lock.partition("=")[0] not in words) + new


@dataclass
class _Found:
    """Candidates so far, each change once."""

    items: list[Candidate] = field(default_factory=list)
    seen: set[tuple] = field(default_factory=set)

    def add(self, candidate: Candidate) -> None:
        if candidate.change not in self.seen:
            self.seen.add(candidate.change)
            self.items.append(candidate)


def candidates(
    lines: Sequence[SharedLine], workload: CompiledWorkload, line_bytes: int, *, threshold: float = THRESHOLD
) -> list[Candidate]:
    """Changes of layout and locks that the lines of a run of ``workload`` suggest, those of the most expensive line first."""
    found = _Found()
    table = {item.name: item for item in workload.objects}
    for line in lines:
        if not matters(line, workload.cpus, threshold):
            continue
        named = [f for f in line.fields if f.name and f.object in table and table[f.object].struct]
        for name in dict.fromkeys(f.object for f in named):
            _separate(found, line, [f for f in named if f.object == name], table[name], line_bytes)
        _pad(found, line, table, line_bytes)
        _per_cpu(found, line, table)
        _batch(found, line, named, table)
        _lock(found, line)
        _lock_by_pointer(found, line, workload.lock_words, line_bytes)
    return found.items


def matters(line: SharedLine, cpus: int, threshold: float) -> bool:
    """CPUs spend time because they take the line from each other, or because they wait at a lock on it (which they do in their own caches)."""
    if line.verdict in (Verdict.TRUE_SHARING, Verdict.FALSE_SHARING, Verdict.MIXED, Verdict.READ_MOSTLY):
        return True
    return line.lock is not None and line.take_count > 0 and line.lock.queue_length / cpus >= threshold


# ---- other lines


def _separate(found: _Found, line: SharedLine, fields: list[SharedField], item: PlacedObject, line_bytes: int) -> None:
    """Bytes that are only read away from those that are written, and the field that costs most away from all others."""
    written = [f for f in fields if any(f.writes_by_cpu)]
    read = [f for f in fields if not any(f.writes_by_cpu)]
    if not written or len(fields) < 2:
        return
    hottest, others = written[0], written[1:]  # fields come most expensive first
    verdict = f"{line.label} is {line.verdict}"
    if read:
        why = f"{verdict}: {_names(read)} only read, {_names(written)} written"
        title = f"move {_names(read)} off the line of {hottest.name}"
        found.add(Candidate(Kind.SEPARATE, title, why, layouts=moves(read, item, line_bytes)))
    why = f"{verdict}: {hottest.label} costs most ({100 * hottest.time_share:.1f}% of busy time) and shares the line with {_names(fields, hottest)}"
    found.add(Candidate(Kind.SEPARATE, f"{hottest.name} on a line of its own", why, layouts=(f"{item.struct}.{hottest.name}:own-line",)))
    if others and read:
        why = f"{verdict}: {_names(others)} written beside {hottest.name}"
        title = f"move {_names(others)} off the line of {hottest.name}"
        found.add(Candidate(Kind.SEPARATE, title, why, layouts=moves(others, item, line_bytes)))
    word = next((f for f in fields if f.lock), None)
    if word is not None and word is not hottest:
        why = f"{verdict}: the lock {word.label} shares the line with {_names(fields, word)}"
        found.add(Candidate(Kind.SEPARATE, f"{word.name} on a line of its own", why, layouts=(f"{item.struct}.{word.name}:own-line",)))


def moves(fields: Iterable[SharedField], item: PlacedObject, line_bytes: int) -> tuple[str, ...]:
    """Layout rules that put ``fields`` together on new lines behind the end of their struct."""
    start = item.base % line_bytes
    at = -(-(start + item.size_bytes) // line_bytes) * line_bytes - start
    rules = []
    for f in sorted(fields, key=lambda f: (-f.size, f.offset)):
        align = min(8, 1 << (f.size.bit_length() - 1))
        at = -(-at // align) * align
        if (start + at) % line_bytes + f.size > line_bytes:
            at = -(-(start + at) // line_bytes) * line_bytes - start
        rules.append(f"{item.struct}.{f.name}@{at}")
        at += f.size
    return tuple(rules)


def _pad(found: _Found, line: SharedLine, table: dict[str, PlacedObject], line_bytes: int) -> None:
    """Objects, or instances of one object, that meet in a line."""
    names = list(dict.fromkeys(f.object for f in line.fields if f.object in table))
    if len(names) > 1:
        for name in names:
            others = ", ".join(other for other in names if other != name)
            why = f"{line.label} is {line.verdict}: it holds {', '.join(names)}"
            found.add(Candidate(Kind.SEPARATE, f"{name} on lines of its own, away from {others}", why, layouts=(f"{name}:pad",)))
    for name in names:
        if table[name].instances > 1 and table[name].stride_bytes % line_bytes:
            why = f"{line.label} is {line.verdict}: instances of {name} are {table[name].stride_bytes} bytes apart"
            found.add(Candidate(Kind.SEPARATE, f"each {name} on lines of its own", why, layouts=(f"{name}:pad",)))


# ---- instances


def _contended(line: SharedLine, table: dict[str, PlacedObject]) -> list[SharedField]:
    """The written field that costs most, and the lock words: what several CPUs need for themselves."""
    written = [f for f in line.fields if f.object in table and sum(1 for n in f.writes_by_cpu if n) > 1]
    return list(dict.fromkeys([*written[:1], *(f for f in written if f.lock)]))


def _per_cpu(found: _Found, line: SharedLine, table: dict[str, PlacedObject]) -> None:
    for f in _contended(line, table):
        item = table[f.object]
        if item.scope == "per-cpu":
            continue
        writers = sum(1 for n in f.writes_by_cpu if n)
        why = f"{line.label} is {line.verdict}: {writers} CPUs write {f.label}"
        what = f"one {f.object} with its own {f.name} lock per CPU" if f.lock and f.name else f"one {f.object} per CPU"
        found.add(Candidate(Kind.PER_CPU, what, why, layouts=(f"{f.object}:per-cpu",)))


BATCH = 32  # the kernel's percpu_counter_batch is at least this


def _batch(found: _Found, line: SharedLine, named: list[SharedField], table: dict[str, PlacedObject]) -> None:
    """Counters that several CPUs update atomically, as percpu_counter and percpu_ref gather updates."""
    for f in named:
        writers = sum(1 for n in f.writes_by_cpu if n)
        if f.atomics and not f.stores and not f.lock and writers > 1 and table[f.object].scope != "per-cpu":
            why = f"{line.label} is {line.verdict}: {writers} CPUs update {f.label} by atomics only"
            title = f"updates of {f.name} gathered per CPU, {BATCH} at a time"
            found.add(Candidate(Kind.BATCH, title, why, layouts=(f"{table[f.object].struct}.{f.name}:batch={BATCH}",)))


# ---- locks and variants


def _lock(found: _Found, line: SharedLine) -> None:
    """Every other kind of lock in place of each spinlock on the line."""
    for f in line.fields:
        kinds = _own_kinds(f.lock.split("+")) if f.lock else []
        if not kinds or not all(kind in REPLACEABLE for kind in kinds):
            continue
        queue = f" {line.lock.queue_length:.1f} CPUs wait at it on average" if line.lock is not None else ""
        word = f"{f.object}.{f.name}" if f.name else f.object
        for kind in KINDS:
            if kinds != [kind]:
                why = f"{f.label} is a {'+'.join(kinds)} lock:{queue}"
                found.add(Candidate(Kind.LOCK, f"{kind} instead of {'+'.join(kinds)} lock {word}", why, locks=(f"{word}={kind}",)))


def _lock_by_pointer(found: _Found, line: SharedLine, words: Sequence[LockWord], line_bytes: int) -> None:
    """Locks on the line that the code reaches through a pointer, which a result does not see: their struct says that they are there."""
    for word in words:
        here = word.struct == line.struct and line.offset <= word.offset_bytes < line.offset + line_bytes
        if not here or any(f.lock and f.name == word.field for f in line.fields) or not all(kind in REPLACEABLE for kind in word.kinds):
            continue
        name, kinds = f"{word.struct}.{word.field}", _own_kinds(word.kinds)
        for kind in KINDS:
            if kinds != [kind]:
                why = f"{line.label} is {line.verdict} and holds the {'+'.join(kinds)} lock {word.field}"
                found.add(Candidate(Kind.LOCK, f"{kind} instead of {'+'.join(kinds)} lock {name}", why, locks=(f"{name}={kind}",)))


def _own_kinds(kinds: Sequence[str]) -> list[str]:
    """Without ``spin``, the kernel's default lock, where it is made of another one."""
    return [kind for kind in kinds if kind != "spin"] or list(kinds)


def variant_candidates(choices: Choices, point: Point) -> list[Candidate]:
    """Each variant of the file that is not on: alone, and in place of the ones it excludes."""
    found = []
    for name in sorted(choices.names):
        siblings = tuple(sorted(choices.siblings(name)))
        choice = next((c for c in choices.choices.values() if name in c.variants), None)
        on = name in point.variants or (choice is not None and choice.variants[0] == name and not any(v in point.variants for v in siblings))
        if on:
            continue
        text = choices.variants[name].text if name in choices.variants and choices.variants[name].text else f"variant {name}"
        found.append(Candidate(Kind.VARIANT, text, "variant of the workload file", variants=(name,), instead_of=siblings))
    return found


def _names(fields: Iterable[SharedField], without: SharedField | None = None) -> str:
    names = [f.name for f in fields if f is not without]
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
