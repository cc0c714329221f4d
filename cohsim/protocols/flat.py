"""Second executor: runs the flat arrays of :func:`compile_table` the way the core does, bit mask by bit mask.

It shares no interpretation with ``reference.py``: no row objects, a fixed order of the actions of a transition, home
bookkeeping on index lists. Only the state tuples are the same, so that the two can be compared state by state.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cohsim.protocols.language import NEVER, FlatTable

STALL = 0x80000000
_REQUESTS = ("GetS", "GetM", "Upg", "PutM", "PutMStale")
_RESPONSES = {"rsp_none": ("RspNone", False), "rsp_shared": ("RspShared", False), "rsp_clean": ("RspClean", True),
              "rsp_clean_gone": ("RspCleanGone", True), "rsp_dirty": ("RspDirty", True), "rsp_dirty_gone": ("RspDirtyGone", True),
              "rsp_owned": ("RspOwned", True)}


class FlatExecutor:
    """Transitions of (node, home) arrays; same states as :class:`cohsim.protocols.reference.Model`."""

    def __init__(self, node: FlatTable, home: FlatTable, node_actions: tuple[str, ...], home_actions: tuple[str, ...],
                 directory: bool):
        self.directory = directory
        self.node_next, self.node_ops = node.next.tolist(), node.ops.tolist()
        self.home_next, self.home_ops = home.next.tolist(), home.ops.tolist()
        self.node_states, self.home_states = node.states, home.states
        self.node_state = {s: i for i, s in enumerate(node.states)}
        self.home_state = {s: i for i, s in enumerate(home.states)}
        self.node_event = {e: i for i, e in enumerate(node.events)}
        self.home_event = {e: i for i, e in enumerate(home.events)}
        self.n = {a: 1 << i for i, a in enumerate(node_actions)}
        self.h = {a: 1 << i for i, a in enumerate(home_actions)}
        self.notes = sum(bit for action, bit in self.h.items() if action.startswith("note"))
        self.memo: dict[Any, list[Any]] = {}

    def successors(self, state: Any) -> Iterator[Any]:
        """Every state one transition away. Absent rows give no successor here: the reference reports them."""
        home, nodes = state
        for i, one in enumerate(nodes):
            moves = self.memo.get(one)
            if moves is None:
                moves = self.memo[one] = list(self._node_moves(one))
            for after, stored in moves:
                others = [_aged(r) for r in nodes] if stored else list(nodes)
                others[i] = after
                yield (home[:4] + tuple(min(d, 0) for d in home[4:]) if stored else home), tuple(others)
        yield from self._home_moves(home, nodes)

    # ---- node --------------------------------------------------------------------------------------------------------
    def _node_moves(self, one: Any) -> Iterator[tuple[Any, bool]]:
        for name in ("Load", "Store", "Evict"):
            yield from self._fire_node(one, name, -1, one[3])
        for message in set(one[3]):
            rest = list(one[3])
            rest.remove(message)
            yield from self._fire_node(one, message[0], message[1], tuple(rest))

    def _fire_node(self, one: Any, event: str, data: int, inbox: tuple[Any, ...]) -> Iterator[tuple[Any, bool]]:
        k = self.node_state[one[0]] * len(self.node_event) + self.node_event[event]
        ops, n = self.node_ops[k], self.n
        if self.node_next[k] == NEVER or ops & STALL:
            return
        fresh, outbox = one[1], list(one[2])
        if ops & n["take_data"]:
            fresh = data
        stored = bool(ops & n["store"])
        if stored:                                       # before this transition's own messages: they are newer
            outbox = [(m, min(d, 0), c) for m, d, c in outbox]
            inbox = tuple((m, min(d, 0)) for m, d in inbox)
            fresh = 1
        for action, (answer, carries) in _RESPONSES.items():
            if ops & n[action]:
                outbox.append((answer, fresh if carries else -1, 1 if ops & n["cancel"] else 0))
        for request in ("GetS", "GetM", "Upg", "PutM"):
            if ops & n["send_" + request]:
                outbox.append((request, fresh if request == "PutM" else -1, 0))
        if ops & n["ack"]:
            outbox.append(("Ack", -1, 0))
        if ops & n["drop"]:
            fresh = 0
        yield (self.node_states[self.node_next[k]], fresh, tuple(outbox), tuple(sorted(inbox)), *one[4:]), stored

    # ---- home --------------------------------------------------------------------------------------------------------
    def _home_moves(self, home: Any, nodes: Any) -> Iterator[Any]:
        waiting = sorted((r[7][0], i) for i, r in enumerate(nodes) if r[7])
        served = [i for i, r in enumerate(nodes) if r[6]]
        for i, one in enumerate(nodes):
            if not one[2]:
                continue
            name, data, cancel = one[2][0]
            work = [list(r) for r in nodes]
            work[i][2] = one[2][1:]
            if name in _REQUESTS and (waiting or home[0] != "Free"):
                work[i][7] = (len(waiting), name, data)
                yield home, tuple(map(tuple, work))
                continue
            if cancel and work[i][7]:
                place, queued, carried = work[i][7]
                if queued in ("Upg", "PutM"):
                    queued, carried = ("GetM" if queued == "Upg" else "PutMStale"), -1
                work[i][7] = (place, queued, carried)
            yield from self._fire_home(home, work, i, name, data)
        if home[0] == "Free" and waiting:
            work = [list(r) for r in nodes]
            for place, i in waiting:
                work[i][7] = (place - 1, *work[i][7][1:]) if place else ()
            i = waiting[0][1]
            yield from self._fire_home(home, work, i, nodes[i][7][1], nodes[i][7][2])
        if home[0] == "Busy" and not home[2]:
            who = served[0] if served else -1
            event = {"GetM": "ReadyM", "Upg": "ReadyG", "Recall": "ReadyR"}.get(home[1], "ReadyE")
            if home[1] == "GetS" and (any(r[4] for i, r in enumerate(nodes) if i != who) if self.directory else home[3]):
                event = "ReadyS"
            yield from self._fire_home(home, [list(r) for r in nodes], who, event, -1)
        if self.directory:
            yield from self._fire_home(home, [list(r) for r in nodes], -1, "Recall", -1)

    def _fire_home(self, home: Any, work: list[list[Any]], i: int, event: str, data: int) -> Iterator[Any]:
        k = self.home_state[home[0]] * len(self.home_event) + self.home_event[event]
        ops, h = self.home_ops[k], self.h
        if self.home_next[k] == NEVER or ops & STALL:
            return
        _, request, pending, kept, noted, looked, memory = home
        if ops & self.notes:
            pending -= 1
            kept |= bool(ops & h["note_sharer"])
            noted = data if ops & h["note_data"] else noted
        if ops & h["write"]:
            memory = data
        if event[:3] == "Rsp":
            if request == "GetS":
                work[i][5] = work[i][5] if ops & h["note_owner"] else 0
            elif not ops & h["note_sharer"]:
                work[i][4] = 0
        if ops & (h["snoop_read"] | h["snoop_write"]):
            request, kept, noted, looked = event, 0, -1, memory
            column, snoop = (5, "SnpS") if ops & h["snoop_read"] else (4, "SnpM")
            targets = [j for j, r in enumerate(work) if j != i and (r[column] or not self.directory)]
            pending = len(targets)
            for j in targets:
                work[j][3] += ((snoop, -1),)
            for j, r in enumerate(work):
                r[6] = int(i == j)
        for name in ("DataS", "DataE", "DataF", "DataM", "Grant"):
            if ops & h["send_" + name]:
                work[i][3] += ((name, -1 if name == "Grant" else looked if noted == -1 else noted),)
        if ops & h["put_ack"]:
            work[i][3] += (("PutAck", -1),)
        if self.directory:
            self._bits(ops, work, i)
        if ops & h["finish"]:
            request, pending, kept, noted, looked = "", 0, 0, -1, -1
            for r in work:
                r[6] = 0
        state = self.home_states[self.home_next[k]]
        if state == "Wait" and home[0] != "Wait":
            kept, noted, looked = 0, -1, -1
        for r in work:
            r[3] = tuple(sorted(r[3]))
        yield (state, request, pending, int(kept), noted, looked, memory), tuple(map(tuple, work))

    def _bits(self, ops: int, work: list[list[Any]], i: int) -> None:
        h = self.h
        if ops & (h["only_req"] | h["no_holder"]):
            for r in work:
                r[4] = 0
        if ops & h["no_holder"]:
            for r in work:
                r[5] = 0
        if ops & (h["add_req"] | h["only_req"]):
            work[i][4] = 1
        if ops & h["del_req"]:
            work[i][4] = work[i][5] = 0
        if ops & h["own_req"]:
            for j, r in enumerate(work):
                r[5] = int(i == j)


def _aged(one: Any) -> Any:
    """A node's record after another node's store."""
    state, _, outbox, inbox, bit, own, cur, queued = one
    return (state, 0, tuple((m, min(d, 0), c) for m, d, c in outbox), tuple(sorted((m, min(d, 0)) for m, d in inbox)),
            bit, own, cur, (queued[0], queued[1], min(queued[2], 0)) if queued else ())
