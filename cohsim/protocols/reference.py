"""Reference executor: the slow, obvious reading of the protocol tables, one cache line, n nodes, one home.

State = (home, records): one record for each node, holding everything that concerns this node, so that two states that
differ only in the numbering of the nodes become equal by sorting the records (``canonical``).

    record = (state, fresh, up, down, bit, own, cur, queued)
      fresh    1 iff the node's data equal the last store
      up       messages to the home, in order: (name, data, cancel)
      down     messages to the node, in no order (sorted): (name, data)
      bit      core-valid bit at the home;  own: the home's owner record names this node;  cur: the home serves this node
      queued   () or (place, request, data): this node's request in the home's FIFO
    home   = (state, request, pending, kept, noted, looked_up, memory)
      pending  answers outstanding;  kept: an answer kept a copy
      noted, looked_up, memory    freshness of the answered data, of the home's data as read when the snoops left, of the home

Data are one bit: 1 equals the last store, 0 stale, NONE absent. A store makes every other copy and message stale, so one
load of a 0 is the data-value violation. The home's data are read as early as possible, which is the worst case.

What the tables leave to the home controller, and the core must do the same:

- ``snoop_read`` asks the owner (directory) or all others (broadcast); ``snoop_write`` asks all whose bit is set (directory)
  or all others (broadcast); never the requester.
- ``own_req`` makes the requester the owner. An answer of the owner to snoop_read without ``note_owner``, ``del_req`` of the
  owner and ``no_holder`` clear the record. An answer to snoop_write without ``note_sharer`` clears the bit.
- GetS is Ready as ReadyS if another node has its bit set (directory) or an answer kept a copy (broadcast), else as ReadyE.
- The requester is sent the data of an answer if there were any, else the home's.
- ``cancel`` turns the node's queued Upg into GetM, its queued PutM into PutMStale. With none queued it means nothing (a
  broadcast can meet a node whose PutM is done and whose PutAck is on its way).
- ``Recall`` can come at any time (directory only: an inclusive home needs the place).
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cohsim.protocols.language import Controller, Row

NONE = -1
"""A message without data."""

Record = tuple[Any, ...]
Home = tuple[Any, ...]
State = tuple[Home, tuple[Record, ...]]

REQUESTS = frozenset({"GetS", "GetM", "Upg", "PutM"})
READY = {"GetM": "ReadyM", "Upg": "ReadyG", "Recall": "ReadyR"}
CANCELLED = {"Upg": "GetM", "PutM": "PutMStale"}
ANSWER = {"rsp_none": "RspNone", "rsp_shared": "RspShared", "rsp_clean": "RspClean", "rsp_clean_gone": "RspCleanGone",
          "rsp_dirty": "RspDirty", "rsp_dirty_gone": "RspDirtyGone", "rsp_owned": "RspOwned"}
WITHOUT_DATA = frozenset({"rsp_none", "rsp_shared"})
HOMES = ("directory", "broadcast")


class Violation(Exception):
    """A safety property failed while executing ``step`` (None: in the state itself)."""

    def __init__(self, what: str, step: Step | None = None):
        super().__init__(what)
        self.step = step


class TableGap(Violation):
    """A (state, event) pair occurred that the table says cannot happen (the core's ProtocolError)."""


class Step(tuple[str, int, str, str, str, bool]):
    """(controller, node, state, event, remark, spontaneous): what one transition did; node -1 is the home itself.

    Spontaneous steps (a core's operation, an eviction, a Recall) may stay away for ever; all others must happen in the end.
    """

    __slots__ = ()

    def __new__(cls, controller: str, node: int, state: str, event: str, remark: str = "", spontaneous: bool = False) -> Step:
        return super().__new__(cls, (controller, node, state, event, remark, spontaneous))

    @property
    def spontaneous(self) -> bool:
        """Whether nothing forces this step to happen."""
        return self[5]

    def __str__(self) -> str:
        controller, node, state, event, remark, _ = self
        who = f"node {node}" if controller == "node" else ("home" if node < 0 else f"home, from node {node}")
        return f"{who}: {event} in {state}" + (f" ({remark})" if remark else "")


def canonical(state: State) -> State:
    """The representative of all states that differ in node numbers only."""
    return state[0], tuple(sorted(state[1]))


def stale_record(record: Record, _cache: dict[Record, Record] = {}) -> Record:  # noqa: B006  (a memo, on purpose)
    """The record after a store elsewhere: its copy and all its messages hold old data now."""
    known = _cache.get(record)
    if known is None:
        st, _, up, down, bit, own, cur, queued = record
        known = _cache[record] = (
            st, 0, tuple((m, min(d, 0), c) for m, d, c in up), tuple(sorted((m, min(d, 0)) for m, d in down)),
            bit, own, cur, queued and (queued[0], queued[1], min(queued[2], 0)))
    return known


def stale_home(home: Home) -> Home:
    """The home after a store of a node."""
    return (*home[:4], min(home[4], 0), min(home[5], 0), 0)


class Model:
    """The rows of one protocol, executed. ``offered`` collects every (controller, state, event) pair met."""

    def __init__(self, node: Controller, home: Controller, mode: str):
        if mode not in HOMES:
            raise ValueError(f"home must be one of {', '.join(HOMES)}: {mode!r}")
        self.node, self.home, self.directory = node, home, mode == "directory"
        self.offered: set[tuple[str, str, str]] = set()
        self._steps: dict[Record, list[tuple[str, bool, Record, bool]]] = {}

    def initial(self, nodes: int) -> State:
        """Nothing cached, nothing on its way."""
        return ("Free", "", 0, 0, NONE, NONE, 1), (("I", 0, (), (), 0, 0, 0, ()),) * nodes

    def successors(self, state: State) -> Iterator[tuple[Step, State]]:
        """Every possible transition; records keep their places. Raises :class:`Violation`."""
        home, records = state
        for i, record in enumerate(records):
            for event, spontaneous, after, stored in self.node_steps(record, i):
                if stored:
                    changed = tuple(after if j == i else stale_record(r) for j, r in enumerate(records))
                    yield Step("node", i, record[0], event, "", spontaneous), (stale_home(home), changed)
                else:
                    yield (Step("node", i, record[0], event, "", spontaneous),
                           (home, records[:i] + (after,) + records[i + 1:]))
        yield from self.home_steps(state)

    # ---- nodes -------------------------------------------------------------------------------------------------------
    def node_steps(self, record: Record, i: int = 0) -> list[tuple[str, bool, Record, bool]]:
        """(event, spontaneous, record after, stored) of all that can happen at one node; depends on its record only."""
        known = self._steps.get(record)
        if known is None:
            known = []
            for event in ("Load", "Store", "Evict"):
                if (record[0], event) != ("I", "Evict"):
                    self._node(known, record, i, event, NONE, record[3])
            for k, (event, data) in enumerate(record[3]):
                if k == 0 or record[3][k - 1] != record[3][k]:
                    self._node(known, record, i, event, data, record[3][:k] + record[3][k + 1:])
            self._steps[record] = known
        return known

    def row(self, table: Controller, state: str, event: str, i: int) -> Row | None:
        """The row to execute, None to stall."""
        self.offered.add((table.name, state, event))
        row = table.rows.get((state, event))
        if row is None:
            raise TableGap(f"{table.name}: the table has no row for {event} in {state}", Step(table.name, i, state, event))
        return None if row.actions == ("stall",) else row

    def _node(self, out: list[tuple[str, bool, Record, bool]], record: Record, i: int, event: str, data: int,
              down: tuple[tuple[str, int], ...]) -> None:
        row = self.row(self.node, record[0], event, i)
        if row is not None:
            out.append((event, event in ("Load", "Store", "Evict"), *self.perform(record, row, i, data, down)))

    @staticmethod
    def perform(record: Record, row: Row, i: int, data: int, down: tuple[tuple[str, int], ...]) -> tuple[Record, bool]:
        """The node's record after ``row``, and whether a store was performed (then everything else is old now).

        ``data``: freshness of the message's data; ``down``: the messages to the node that remain.
        """
        st, fresh, up, _, bit, own, cur, queued = record
        answer, answer_data, cancel, stored = "", NONE, 0, False
        for action in row.actions:
            if action in ("load", "store"):
                if fresh != 1:
                    raise Violation(f"data value: the {action} finds old data", Step("node", i, st, row.event))
                stored |= action == "store"
            elif action == "take_data":
                fresh = data
            elif action == "drop":
                fresh = 0
            elif action == "ack":
                up += (("Ack", NONE, 0),)
            elif action.startswith("send_"):
                up += ((action[5:], fresh if action == "send_PutM" else NONE, 0),)
            elif action == "cancel":
                cancel = 1
            else:
                answer, answer_data = ANSWER[action], NONE if action in WITHOUT_DATA else fresh
        if answer:
            up += ((answer, answer_data, cancel),)
        if stored:
            up, down = tuple((m, min(d, 0), c) for m, d, c in up), tuple(sorted((m, min(d, 0)) for m, d in down))
        return (row.next, fresh, up, down, bit, own, cur, queued), stored

    # ---- home --------------------------------------------------------------------------------------------------------
    def home_steps(self, state: State) -> Iterator[tuple[Step, State]]:
        """Every transition of the home."""
        home, records = state
        hst, request, pending = home[:3]
        head = next((i for i, r in enumerate(records) if r[7] and r[7][0] == 0), None)
        for i, record in enumerate(records):
            if record[2]:
                yield from self._arrival(state, i, head)
            if record[7] and (hst != "Free" or record[7][0]):
                if hst != "Free":
                    self._must_stall(hst, record[7][1], i)
        if hst == "Free" and head is not None:
            _, event, data = records[head][7]
            rest = [r[:7] + (r[7] and (() if r[7][0] == 0 else (r[7][0] - 1, *r[7][1:])),) for r in records]
            yield from self._execute(home, rest, head, hst, event, data, "from the queue")
        if hst == "Busy" and pending == 0:
            yield from self._ready(state, request)
        if self.directory:
            yield from self._execute(home, list(records), -1, hst, "Recall", NONE, "", True)

    def _ready(self, state: State, request: str) -> Iterator[tuple[Step, State]]:
        home, records = state
        cur = next((i for i, r in enumerate(records) if r[6]), -1)
        if (cur < 0) != (request == "Recall"):
            raise Violation("home: busy with no request", Step("home", -1, home[0], "Ready"))
        event = READY.get(request)
        if event is None:
            shared = any(r[4] for r in records if not r[6]) if self.directory else home[3]
            event = "ReadyS" if shared else "ReadyE"
        yield from self._execute(home, list(records), cur, home[0], event, NONE)

    def _must_stall(self, hst: str, event: str, i: int) -> None:
        if self.row(self.home, hst, event, i) is not None:
            raise Violation(f"home: takes {event} although it serves another request", Step("home", i, hst, event))

    def _arrival(self, state: State, i: int, head: int | None) -> Iterator[tuple[Step, State]]:
        """The oldest message of node i reaches the home."""
        home, records = state
        st, fresh, up, down, bit, own, cur, queued = records[i]
        event, data, cancel = up[0]
        popped = list(records)
        if event not in REQUESTS:
            if event == "Ack" and not cur:
                raise Violation("home: Ack of a node that is not served", Step("home", i, home[0], event))
            if cancel and queued and queued[1] in CANCELLED:
                queued = (queued[0], CANCELLED[queued[1]], NONE)
            popped[i] = (st, fresh, up[1:], down, bit, own, cur, queued)
            yield from self._execute(home, popped, i, home[0], event, data, "cancels" if cancel else "")
            return
        if queued or cur:
            raise Violation(f"home: second request of one node: {event}", Step("home", i, home[0], event))
        if home[0] == "Free" and head is None:
            popped[i] = (st, fresh, up[1:], down, bit, own, cur, queued)
            yield from self._execute(home, popped, i, home[0], event, data)
            return
        if home[0] != "Free":
            self._must_stall(home[0], event, i)
        place = sum(1 for r in records if r[7])
        popped[i] = (st, fresh, up[1:], down, bit, own, cur, (place, event, data))
        yield Step("home", i, home[0], event, "queued"), (home, tuple(popped))

    def _execute(self, home: Home, records: list[Record], i: int, hst: str, event: str, data: int, remark: str = "",
                 spontaneous: bool = False) -> Iterator[tuple[Step, State]]:
        """One home row; ``i`` is the sender, the served node or -1 (Recall)."""
        row = self.row(self.home, hst, event, i)
        if row is None:
            return
        line = _Line(home, records, self.directory)
        for action in row.actions:
            line.perform(action, i, event, data)
        if event.startswith("Rsp"):
            line.after_answer(row, i)
        if row.next == "Wait" and hst != "Wait":
            line.kept, line.noted, line.looked_up = 0, NONE, NONE     # used up: keeps equal futures equal
        changed = tuple((*r[:3], tuple(sorted(r[3])), *r[4:]) if r is not old else r
                        for r, old in zip(line.records, records, strict=True))
        after = (row.next, line.request, line.pending, line.kept, line.noted, line.looked_up, line.memory)
        yield Step("home", i, hst, event, remark, spontaneous), (after, changed)


class _Line:
    """The home's view of the line while one row is executed."""

    def __init__(self, home: Home, records: list[Record], directory: bool):
        _, self.request, self.pending, self.kept, self.noted, self.looked_up, self.memory = home
        self.records, self.directory = list(records), directory

    def _set(self, i: int, **changes: Any) -> None:
        names = ("state", "fresh", "up", "down", "bit", "own", "cur", "queued")
        self.records[i] = tuple(changes.get(name, value) for name, value in zip(names, self.records[i], strict=True))

    def _send(self, i: int, name: str, data: int = NONE) -> None:
        self._set(i, down=(*self.records[i][3], (name, data)))

    def perform(self, action: str, i: int, event: str, data: int) -> None:
        """One action word of a home row."""
        if action in ("snoop_read", "snoop_write"):
            self._snoop(action, i, event)
        elif action.startswith("note"):
            self._note(action, data)
        elif action.startswith("send_"):
            self._send(i, action[5:], NONE if action == "send_Grant" else (self.looked_up if self.noted == NONE else self.noted))
        elif action == "put_ack":
            self._send(i, "PutAck")
        elif action == "write":
            self.memory = data
        elif action == "finish":
            self.request, self.pending, self.kept, self.noted, self.looked_up = "", 0, 0, NONE, NONE
            for j in range(len(self.records)):
                self._set(j, cur=0)
        else:
            self._bits(action, i)

    def _snoop(self, action: str, i: int, event: str) -> None:
        self.request, self.pending, self.kept, self.noted, self.looked_up = event, 0, 0, NONE, self.memory
        for j, record in enumerate(self.records):
            self._set(j, cur=int(j == i))
            asked = not self.directory or record[5 if action == "snoop_read" else 4]
            if j != i and asked:
                self._send(j, "SnpS" if action == "snoop_read" else "SnpM")
                self.pending += 1

    def _note(self, action: str, data: int) -> None:
        if action == "note_sharer":
            self.kept = 1
        elif action == "note_data":
            self.noted = data

    def after_answer(self, row: Row, i: int) -> None:
        """What every answer does besides its row's words."""
        if any(action.startswith("note") for action in row.actions):
            self.pending -= 1
        if self.request == "GetS":
            if "note_owner" not in row.actions:
                self._set(i, own=0)
        elif "note_sharer" not in row.actions:
            self._set(i, bit=0)

    def _bits(self, action: str, i: int) -> None:
        if not self.directory:                           # a broadcast home keeps no bits
            return
        if action == "add_req":
            self._set(i, bit=1)
        elif action == "del_req":
            self._set(i, bit=0, own=0)
        elif action in ("only_req", "no_holder"):
            for j in range(len(self.records)):
                kept = j == i and action == "only_req"
                self._set(j, bit=int(kept), own=self.records[j][5] if action == "only_req" else 0)
        elif action == "own_req":
            for j in range(len(self.records)):
                self._set(j, own=int(j == i))
        else:
            raise AssertionError(action)
