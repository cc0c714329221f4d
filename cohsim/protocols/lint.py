"""Static obligations of protocol tables: what can be said without running them.

The exhaustive check finds wrong protocols; the lint finds rows that are wrong in themselves (a hit that performs nothing, an
answer that claims data the state does not hold) and words one table uses and the other does not understand.
"""
from __future__ import annotations

from collections.abc import Iterator

from cohsim.protocols.language import Controller, Row
from cohsim.protocols.reference import ANSWER, REQUESTS, WITHOUT_DATA

CORE_EVENTS = ("Load", "Store", "Evict")
STARTS = {"send_GetS": ("Load", {"IS"}), "send_GetM": ("Store", {"IM"}), "send_Upg": ("Store", {"SM", "FM", "OM"}),
          "send_PutM": ("Evict", {"MI"})}
"""Request -> the operation that sends it and the transients it may lead to."""
GOAL = {"IS": "load", "IM": "store", "SM": "store", "FM": "store", "OM": "store", "MI": "drop", "II": "drop"}
"""Transient state -> the action it is waiting for."""
GRANTS = {"send_Grant": "Grant", "send_DataS": "DataS", "send_DataE": "DataE", "send_DataF": "DataF", "send_DataM": "DataM",
          "put_ack": "PutAck"}
DIRTY = frozenset({"M", "O", "OM", "MI"})
"""States whose node alone has the current data."""


def lint(node: Controller, home: Controller) -> list[str]:
    """Complaints about a pair of tables, one line each; empty means clean."""
    found: list[str] = []
    node_rules = (_core_events, _finishes, _answers, _data_moves, _reachable_names)
    for table, rules in ((node, node_rules), (home, (_home_frame, _home_rows))):
        for rule in rules:
            found += (f"{table.name}: {complaint}" for complaint in rule(table))
    found += _between(node, home)
    return found


def _working(table: Controller) -> Iterator[tuple[str, str, Row]]:
    """Rows that do something, as (state, event, row)."""
    for (state, event), row in table.rows.items():
        if row.actions != ("stall",):
            yield state, event, row


def _core_events(c: Controller) -> Iterator[str]:
    """Every state answers the core; a hit performs, a miss sends the one request that fits."""
    for state in c.states:
        for event in CORE_EVENTS:
            row = c.rows.get((state, event))
            where = f"{state} {event}"
            if (state, event) == ("I", "Evict"):
                if row:
                    yield f"{where}: there is nothing to evict; remove the row"
            elif row is None:
                yield f"{where}: a core's operation needs a row (stall counts)"
            elif row.actions == ("stall",):
                allowed = {"Load": c.states[state] != "N", "Store": c.states[state] == "RW", "Evict": False}[event]
                if state not in GOAL or allowed:
                    yield f"{where}: stalls, although nothing is outstanding or the permission is there"
            else:
                sent = [a for a in row.actions if a.startswith("send_")]
                if len(sent) > 1:
                    yield f"{where}: sends {len(sent)} requests; one transaction a line and node"
                elif sent:
                    yield from _miss(where, event, row, sent[0])
                else:
                    yield from _hit(c, where, event, row)
    for state, event, row in _working(c):
        if event not in CORE_EVENTS and any(a.startswith("send_") for a in row.actions):
            yield f"{state} {event}: only a core's operation starts a transaction"


def _miss(where: str, event: str, row: Row, sent: str) -> Iterator[str]:
    operation, transients = STARTS[sent]
    if event != operation or row.next not in transients:
        yield f"{where}: {sent} belongs to {operation} and leads to {' or '.join(sorted(transients))}, not {row.next}"
    if row.actions != (sent,):
        yield f"{where}: a miss sends its request and does nothing else"
    if sent == "send_PutM" and row.state not in DIRTY:
        yield f"{where}: only dirty data are written back"
    if event == "Evict" and row.state in DIRTY and sent != "send_PutM":
        yield f"{where}: dirty data must be written back"


def _hit(c: Controller, where: str, event: str, row: Row) -> Iterator[str]:
    if event == "Load" and (row.actions != ("load",) or row.next != row.state):
        yield f"{where}: a load hit is 'load' alone and keeps the state"
    if event == "Store" and row.actions != ("store",):
        yield f"{where}: a store hit is 'store' alone"
    if event == "Evict" and (row.actions != ("drop",) or row.next != "I" or row.state in DIRTY):
        yield f"{where}: only a clean copy may go silently, by 'drop' into I"
    if event == "Load" and c.states[row.state] == "N":
        yield f"{where}: no permission to read"
    if event == "Store" and (c.states[row.state] != "RW" or row.next not in ("M",)):
        yield f"{where}: a store needs permission to write and makes the line M"


def _finishes(c: Controller) -> Iterator[str]:
    """A transient state ends by what it waits for, or stays on the same goal."""
    for state, event, row in _working(c):
        goal = GOAL.get(state)
        if goal is None or event in CORE_EVENTS:
            continue
        if row.next in GOAL:
            if GOAL[row.next] != goal:
                yield f"{state} {event}: changes its goal from {goal} to {GOAL[row.next]}"
        elif goal not in row.actions:
            yield f"{state} {event}: finishes without {goal!r}"
        elif goal in ("load", "store") and "ack" not in row.actions:
            yield f"{state} {event}: finishes without 'ack', the home would wait for ever"
        elif c.states[row.next] not in {"load": ("R", "RW"), "store": ("RW",), "drop": ("N",)}[goal]:
            yield f"{state} {event}: ends in {row.next}, whose permission {c.states[row.next]} does not fit {goal!r}"


def _answers(c: Controller) -> Iterator[str]:
    """Snoops and only snoops are answered, once, truthfully."""
    for state, event, row in _working(c):
        where, answers = f"{state} {event}", [a for a in row.actions if a in ANSWER]
        if event not in ("SnpS", "SnpM"):
            if answers or "cancel" in row.actions:
                yield f"{where}: answers although nobody asked"
            continue
        if len(answers) != 1:
            yield f"{where}: needs exactly one answer, has {len(answers)}"
            continue
        answer, holds, keeps = answers[0], c.states[state] != "N" or state == "MI", c.states[row.next] != "N"
        if answer not in WITHOUT_DATA and not holds:
            yield f"{where}: {answer} sends data that {state} does not hold"
        if keeps != (answer in ("rsp_shared", "rsp_clean", "rsp_dirty", "rsp_owned")):
            yield f"{where}: {answer} and next state {row.next} disagree on whether a copy stays"
        if event == "SnpM" and keeps:
            yield f"{where}: the writer must be alone, yet a copy stays"
        if event == "SnpS" and c.states[row.next] == "RW":
            yield f"{where}: a reader comes, yet the permission to write stays"
        if (state in DIRTY) != (answer in ("rsp_dirty", "rsp_dirty_gone", "rsp_owned")):
            yield f"{where}: {answer} does not fit {state} ({'dirty' if state in DIRTY else 'not dirty'})"
        if answer == "rsp_owned" and row.next not in DIRTY:
            yield f"{where}: rsp_owned promises to stay responsible, {row.next} is not"
        if keeps and answer != "rsp_owned" and row.next in DIRTY:
            yield f"{where}: {row.next} is responsible for the data, {answer} does not promise that"
        lost = state in ("SM", "FM", "OM", "MI") and not keeps
        if lost != ("cancel" in row.actions):
            yield f"{where}: {'the request on its way has changed its meaning: cancel' if lost else 'nothing to cancel'}"
        if state == "MI" and row.next != "II":
            yield f"{where}: the data are given away, nothing is left to write back: II"
        if any(a in ("load", "store", "take_data", "ack") for a in row.actions):
            yield f"{where}: a snoop is answered, it performs nothing"


def _data_moves(c: Controller) -> Iterator[str]:
    """Data that come are taken, data that go are dropped, performed operations have data and permission."""
    for state, event, row in _working(c):
        where = f"{state} {event}"
        if event.startswith("Data") != ("take_data" in row.actions):
            yield f"{where}: take_data belongs to Data events, each of them"
        if "ack" in row.actions and not (event.startswith("Data") or event == "Grant"):
            yield f"{where}: acks what is no data and no grant"
        if row.next == "I" and state != "I" and "drop" not in row.actions:
            yield f"{where}: enters I without 'drop'"
        held = c.states[state] != "N"
        if held and c.states[row.next] == "N" and row.next not in ("MI", "II") and "drop" not in row.actions:
            yield f"{where}: loses the copy without 'drop'"
        if "drop" in row.actions and c.states[row.next] != "N":
            yield f"{where}: drops the data, yet {row.next} may read them"
        if "store" in row.actions and row.next != "M":
            yield f"{where}: performs a store, yet {row.next} is not M"
        if event == "DataM" and "store" not in row.actions:
            yield f"{where}: writable data come for a store"


def _reachable_names(c: Controller) -> Iterator[str]:
    """Every state can be entered, by name at least."""
    entered = {"I"} | {row.next for row in c.rows.values() if row.next != row.state}
    for state in c.states:
        if state not in entered:
            yield f"{state}: no row leads into this state"


def _home_frame(c: Controller) -> Iterator[str]:
    """One request at a time: taken when Free, left waiting otherwise, finished by Ack."""
    for event in sorted(REQUESTS | {"PutMStale", "Recall"}):
        row = c.rows.get(("Free", event))
        if row is None or row.actions == ("stall",):
            yield f"Free {event}: a free home takes every request"
        for state in ("Busy", "Wait"):
            busy = c.rows.get((state, event))
            if busy is not None and busy.actions != ("stall",):
                yield f"{state} {event}: another request is being served: stall"
    for state, event, row in _working(c):
        expected = {"Free": "Free" if event.startswith("PutM") else "Busy", "Wait": "Free",
                    "Busy": "Busy" if event.startswith("Rsp") else "Free" if event == "ReadyR" else "Wait"}[state]
        if row.next != expected:
            yield f"{state} {event}: leads to {row.next}, the message flow says {expected}"
        if ("finish" in row.actions) != (row.next == "Free" and state != "Free"):
            yield f"{state} {event}: finish belongs to the transition back to Free"


_HOME_NEEDS = {
    "GetS": {"snoop_read"}, "GetM": {"snoop_write"}, "Upg": {"snoop_write"}, "Recall": {"snoop_write"},
    "PutM": {"write", "del_req", "put_ack"}, "PutMStale": {"put_ack"}, "RspNone": {"note"}, "RspShared": {"note_sharer"},
    "RspClean": {"note_sharer", "note_data"}, "RspCleanGone": {"note_data"}, "RspDirty": {"note_sharer", "note_data", "write"},
    "RspDirtyGone": {"note_data", "write"}, "RspOwned": {"note_sharer", "note_data", "note_owner"},
    "ReadyM": {"send_DataM", "only_req", "own_req"}, "ReadyG": {"send_Grant", "only_req", "own_req"},
    "ReadyR": {"no_holder", "finish"}, "Ack": {"finish"}}
"""Words an event requires at the home, whatever the protocol (ReadyS and ReadyE differ between protocols)."""


def _home_rows(c: Controller) -> Iterator[str]:
    for state, event, row in _working(c):
        where, words = f"{state} {event}", set(row.actions)
        needed = _HOME_NEEDS.get(event)
        if needed is not None and words != needed:
            yield f"{where}: must be {' '.join(sorted(needed))}, is {' '.join(sorted(words))}"
        if event in ("ReadyS", "ReadyE"):
            sent = words & {"send_DataS", "send_DataE", "send_DataF", "send_DataM"}
            if len(sent) != 1:
                yield f"{where}: sends data once, not {len(sent)} times"
            alone = "send_DataE" in words
            if alone and not {"only_req", "own_req"} <= words or not alone and "add_req" not in words:
                yield f"{where}: records the wrong holder"
            if event == "ReadyS" and (alone or "own_req" in words):
                yield f"{where}: another node has a copy, the requester cannot be exclusive"


def _between(node: Controller, home: Controller) -> Iterator[str]:
    """Messages: what one side sends the other understands, and nothing is understood that nobody sends."""
    node_words = {a for _, _, row in _working(node) for a in row.actions}
    home_words = {a for _, _, row in _working(home) for a in row.actions}
    node_events = {event for _, event, _ in _working(node)}
    home_events = {event for state, event, _ in _working(home) if state == "Busy"}
    wrong = {True: "sent but not understood", False: "understood but never sent"}
    for word, event in ANSWER.items():
        if (word in node_words) != (event in home_events):
            yield f"node {word} and home {event}: {wrong[word in node_words]}"
    for word, event in GRANTS.items():
        if (word in home_words) != (event in node_events):
            yield f"home {word} and node {event}: {wrong[word in home_words]}"
