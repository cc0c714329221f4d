"""The events of logged lines as a Chrome trace (JSON), which Perfetto opens: who owned the line when, who waited, who tried again.

Each line is a process. Each CPU has a track with the states of the line there (exclusive or shared) and, below, tracks with its retries
and with its accesses from issue to answer. Times are simulated time since the measurement began, in whole nanoseconds (the format's unit is
the microsecond): rounding down begin and end alike keeps slices of a track apart.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cohsim.errors import InputError, Problem
from cohsim.results.lines import line_address
from cohsim.results.result import Result
from cohsim.results.rundata import LOG_KINDS, SERVED
from cohsim.results.summary import FS_PER_NS
from cohsim.uops import Op

EXCLUSIVE, SHARED = "exclusive", "shared"
TRACKS = 200  # track numbers of a CPU: 0 states, 1 retries, from 2 on accesses
ACCESS_TRACK = 2
OPERATIONS = {Op.LOAD: "load", Op.STORE: "store", Op.RMW: "rmw", Op.LL: "load-reserve", Op.SC: "store-conditional"}


@dataclass(frozen=True)
class Event:
    """One row of /log."""

    time: int  # fs
    kind: str
    cpu: int
    function: str
    field: str
    operation: str
    by_cpu: int
    by_function: str
    level: int
    writable: bool

    @property
    def access(self) -> tuple[int, str, str, str]:
        return self.cpu, self.function, self.field, self.operation


@dataclass(frozen=True)
class Slice:
    """A stretch of time on a track."""

    cpu: int
    track: int
    name: str
    category: str  # exclusive, shared, access, retry
    begin: int  # fs
    end: int
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class Placed:
    """An object of a result as :func:`cohsim.results.lines.line_address` wants it."""

    name: str
    base: int
    size_bytes: int
    stride_bytes: int
    instances: int


def logged_lines(result: Result, source: str) -> dict[str, int]:
    """Name -> address of the lines whose events the result has. Raises InputError if it has none."""
    if "/log/time_fs" not in result.data:
        raise InputError(Problem(source, "no line was logged", "run again with --log-line OBJECT+OFFSET"))
    return {name: _address(result, name, source) for name in result.settings["log_lines"]}


def _address(result: Result, name: str, option: str) -> int:
    columns = (result.array(f"/objects/{c}").tolist() for c in ("base", "size_bytes", "stride_bytes", "instances"))
    objects = [Placed(*row) for row in zip(result.names("/objects/name"), *columns, strict=True)]
    return line_address(name, objects, result.number("/run/line_bytes"), option)


def chosen_lines(result: Result, names: Sequence[str], source: str) -> dict[str, int]:
    """The lines that ``--line`` asks for, all logged ones if it asks for none. Raises InputError for one that was not logged."""
    logged = logged_lines(result, source)
    chosen, problems = {}, []
    for name in names:
        address = _address(result, name, "--line")
        if address in logged.values():
            chosen[name] = address
        else:
            problems.append(Problem("--line", f"{name} was not logged", f"the result has {', '.join(logged)}; run again with --log-line {name}"))
    if problems:
        raise InputError(problems)
    return chosen or logged


def chrome_trace(result: Result, lines: dict[str, int]) -> dict[str, Any]:
    """The trace document of the lines, name -> address."""
    begin = result.number("/run/total_fs") - result.number("/run/measured_fs")
    trace: list[dict[str, Any]] = []
    for number, (name, address) in enumerate(lines.items(), 1):
        events = events_of(result, address)
        owned = ownership(events, result.array("/threads/core").tolist(), result.array("/threads/node").tolist())
        slices = [*owned, *accesses(events), *retries(events)]
        marks = instants(events)
        trace += _metadata(number, name, {(s.cpu, s.track) for s in slices} | {(cpu, 0) for cpu, *_ in marks})
        for s in slices:
            first, last = ((t - begin) // FS_PER_NS for t in (s.begin, s.end))
            where = {"pid": number, "tid": s.cpu * TRACKS + s.track, "ts": first / 1000, "dur": (last - first) / 1000}
            trace.append({"ph": "X", **where, "name": s.name, "cat": s.category, "args": s.args})
        for cpu, time, text in marks:
            where = {"pid": number, "tid": cpu * TRACKS, "ts": (time - begin) // FS_PER_NS / 1000}
            trace.append({"ph": "i", "s": "t", **where, "name": text, "cat": "event", "args": {}})
    other = {"workload": result.text("/run/workload"), "machine": result.text("/run/machine"), "events_not_kept": result.number("/log/lost")}
    return {"traceEvents": trace, "displayTimeUnit": "ns", "otherData": other}


def _metadata(process: int, line: str, tracks: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    def named(what: str, tid: int, **args: object) -> dict[str, Any]:
        return {"ph": "M", "pid": process, "tid": tid, "ts": 0, "name": what, "args": args}

    found = [named("process_name", 0, name=line)]
    for cpu, track in sorted(tracks):
        what = f"CPU {cpu}" if track == 0 else f"CPU {cpu} retries" if track == 1 else f"CPU {cpu} accesses" + " +" * (track - ACCESS_TRACK)
        tid = cpu * TRACKS + track
        found += [named("thread_name", tid, name=what), named("thread_sort_index", tid, sort_index=tid)]
    return found


def events_of(result: Result, address: int) -> list[Event]:
    """The logged events of one line, by time."""
    functions, objects, fields = result.names("/functions/name"), result.names("/objects/name"), result.names("/fields/field")
    owner = result.array("/fields/object").tolist()
    columns = ("time_fs", "kind", "address", "cpu", "function", "use", "operation", "by_cpu", "by_function", "level", "writable")
    rows = zip(*(result.array(f"/log/{c}").tolist() for c in columns), strict=True)

    def function(number: int) -> str:
        return functions[number] if number >= 0 else ""

    def label(use: int) -> str:
        return "" if use < 0 else f"{objects[owner[use]]}.{fields[use]}" if fields[use] else objects[owner[use]]

    operation = {int(op): text for op, text in OPERATIONS.items()}
    return [
        Event(time, LOG_KINDS[kind], cpu, function(f), label(use), operation.get(op, ""), by, function(by_f), level, bool(writable))
        for time, kind, where, cpu, f, use, op, by, by_f, level, writable in rows
        if where == address
    ]


class _States:
    """The line's state at each CPU, and the slices of the states that have ended. At most one CPU has it exclusive, and then no other has it."""

    def __init__(self) -> None:
        self.open: dict[int, Slice] = {}
        self.done: list[Slice] = []

    def owns(self, cpu: int) -> bool:
        return cpu in self.open and self.open[cpu].category == EXCLUSIVE

    def end(self, time: int, cpus: Iterable[int]) -> None:
        for cpu in cpus:
            s = self.open.pop(cpu, None)
            if s is not None and time > s.begin:
                self.done.append(replace(s, end=time))

    def begin(self, cpu: int, state: str, time: int, name: str, args: dict[str, Any]) -> None:
        self.open[cpu] = Slice(cpu, 0, name, state, time, time, args)

    def demote(self, time: int, cpus: Iterable[int]) -> None:
        """Exclusive becomes shared."""
        for cpu in cpus:
            if self.owns(cpu):
                held = self.open[cpu]
                self.end(time, [cpu])
                self.begin(cpu, SHARED, time, held.name, held.args)


def ownership(events: Sequence[Event], core: Sequence[int], node: Sequence[int]) -> list[Slice]:
    """Who had the line, from its arrival (or a store) until another took it or it was dropped. Slices named by the function that got it.

    Exclusive slices overlap with no other slice of the line: CPUs of a cluster share its L2, and the one that wrote last owns the line until
    the next CPU is served. ``core`` and ``node``: of each CPU of the run.
    """
    states, everyone = _States(), range(len(core))
    for e in events:
        if e.kind == "grant" or (e.kind == "store" and not states.owns(e.cpu)):
            served = SERVED[e.level] if e.kind == "grant" else "hit"
            args = {"field": e.field, "from_cpu": e.by_cpu, "from_function": e.by_function, "served_by": served}
            if e.kind == "store" or e.writable:
                states.end(e.time, everyone)
                states.begin(e.cpu, EXCLUSIVE, e.time, e.function, args)
            elif not states.owns(e.cpu):
                states.demote(e.time, everyone)
                states.end(e.time, [e.cpu])
                states.begin(e.cpu, SHARED, e.time, e.function, args)
        elif e.kind == "downgrade":
            states.demote(e.time, [c for c in everyone if node[c] == e.level])
        elif e.kind == "drop" and e.cpu < 0:
            states.end(e.time, [c for c in everyone if node[c] == e.level])
        elif e.kind == "drop":  # a cluster L1 drops its copy; an owner is at the L2
            states.end(e.time, [c for c in everyone if core[c] == core[e.cpu] and not states.owns(c)])
    if events:
        states.end(events[-1].time, everyone)
    return sorted(states.done, key=lambda s: (s.begin, s.cpu))


def accesses(events: Sequence[Event]) -> list[Slice]:
    """Operations from issue to answer; on as many tracks of a CPU as it has under way at once."""
    begun: dict[tuple[int, str, str, str], deque[Event]] = defaultdict(deque)
    found = []
    for e in events:
        if e.kind == "issue":
            begun[e.access].append(e)
        elif e.kind == "answer" and begun[e.access]:
            found.append((begun[e.access].popleft(), e))
    found.sort(key=lambda pair: (pair[0].time, pair[1].time))
    busy: dict[int, list[int]] = defaultdict(list)  # end of the last slice of each track of the CPU
    slices = []
    for first, last in found:
        ends = busy[first.cpu]
        track = next((i for i, end in enumerate(ends) if end <= first.time), len(ends))
        ends[track : track + 1] = [last.time]
        args = {"field": first.field, "operation": first.operation, "served_by": SERVED[last.level]}
        name = f"{first.function} {first.operation}"
        slices.append(Slice(first.cpu, ACCESS_TRACK + track, name, "access", first.time, last.time, args))
    return slices


def retries(events: Sequence[Event]) -> list[Slice]:
    """From a failed store-conditional to the CPU's next one that succeeds."""
    trying: dict[int, tuple[Event, int]] = {}
    slices = []
    for e in events:
        if e.kind == "sc_failed":
            first, failures = trying.get(e.cpu, (e, 0))
            trying[e.cpu] = first, failures + 1
        elif e.kind == "store" and e.operation == OPERATIONS[Op.SC] and e.cpu in trying:
            first, failures = trying.pop(e.cpu)
            args = {"field": first.field, "failures": failures}
            slices.append(Slice(e.cpu, 1, f"{first.function} retry", "retry", first.time, e.time, args))
    return slices


def instants(events: Sequence[Event]) -> list[tuple[int, int, str]]:
    """(CPU, time, text) of reservations that were lost and store-conditionals that failed."""
    found = []
    for e in events:
        if e.kind == "reservation_lost":
            reason = f"to CPU {e.by_cpu}, {e.by_function}" if e.by_cpu >= 0 else "by eviction or device"
            found.append((e.cpu, e.time, f"reservation lost {reason}"))
        elif e.kind == "sc_failed":
            found.append((e.cpu, e.time, f"store-conditional failed, {e.function}"))
    return found
