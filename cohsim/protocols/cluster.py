"""Second model: clusters of cores with write-through L1s under one shared L2 (the node of the protocol), and LL/SC.

What the tables do not say and a cluster's L2 must do (T4240: four cores, one L2; here two clusters of two cores):

- The L2 serves one core operation of the line at a time. External snoops come in between.
- It knows which L1s hold a copy. A store (own or of an SC) is performed only when no other L1 of the cluster holds one; a
  snoop that takes the line away, and an eviction, remove all of them first. Removing is a step of its own for each L1.
- A reservation is set when an LL is served at the L2. It is lost on another thread's store performed at this L2, on SnpM and
  on eviction. An SC without reservation fails at once; one that loses its reservation while it waits for permission fails
  when the permission comes, and the line is then the cluster's without a store.

Proved: no L1 ever holds data older than the last store; L1s hold only what the L2 holds; an SC succeeds only if no store of
another thread came since its LL; every operation finishes; and of threads that only run LL/SC loops some SC always succeeds
in the end (``contention=True``: no endless run without a success exists, whatever the order of events).

State = (home, ((record, cores), ...)), record as in ``reference.py``, core = (l1, reserved, undisturbed, doing, phase):
``l1`` NONE or freshness of the copy; ``undisturbed`` is the truth the reservation stands for; ``phase`` 0 not at the L2,
1 served there, 2 its request is out.
"""
from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from cohsim.protocols.explore import Result, explore
from cohsim.protocols.language import Controller, Row
from cohsim.protocols.reference import NONE, Model, Step, Violation, stale_home, stale_record

IDLE, RESERVED = "idle", "reserved"
EVENT = {"Load": "Load", "LL": "Load", "Store": "Store", "SC": "Store"}
Core = tuple[int, int, int, str, int]
Local = tuple[Any, tuple[Core, ...]]
Move = tuple[str, str, bool, Local, bool]
"""(event, remark, spontaneous, cluster after, stored)"""
START: Core = (NONE, 0, 0, IDLE, 0)


class ClusterModel:
    """Transitions of the cluster model for one protocol.

    ``faults`` (for tests of the checker) leaves out one duty: "l1-store", "l1-snoop", "reservation-store",
    "reservation-snoop", "reservation-evict"; or adds a wrong one, "reservation-ll": an LL takes the others' reservations.
    """

    def __init__(self, node: Controller, home: Controller, mode: str, cores: int = 2, contention: bool = False,
                 faults: frozenset[str] = frozenset()):
        self.model = Model(node, home, mode)
        self.table, self.cores, self.contention, self.faults = node, cores, contention, faults
        self._memo: dict[Local, list[Move]] = {}

    def initial(self, nodes: int) -> Any:
        """Nothing cached, all cores idle."""
        home, records = self.model.initial(nodes)
        return home, tuple((record, (START,) * self.cores) for record in records)

    def canonical(self, state: Any) -> Hashable:
        """One representative of all numberings of clusters and of cores in a cluster."""
        return state[0], tuple(sorted((record, tuple(sorted(cores))) for record, cores in state[1]))

    def check(self, state: Any) -> None:
        """Raise :class:`Violation` if an invariant fails in ``state``."""
        for record, cores in state[1]:
            for l1, reserved, *_ in cores:
                if l1 == 0:
                    raise Violation("data value: an L1 holds data older than the last store")
                if l1 != NONE and self.table.states[record[0]] == "N":
                    raise Violation(f"inclusion: an L1 holds a copy, the L2 is in {record[0]}")
                if reserved and self.table.states[record[0]] == "N":
                    raise Violation(f"a reservation on a line the L2 does not hold ({record[0]})")

    def quiet(self, state: Any) -> bool:
        """Nothing on its way and no core waits; under ``contention``: the only way on is a success."""
        if self.contention:
            return any(step.spontaneous for step, _ in self.successors(state))
        return state[0][0] == "Free" and all(
            not (r[2] or r[3] or r[7]) and all(core[3] in (IDLE, RESERVED) for core in cores) for r, cores in state[1])

    def describe(self, state: Any) -> str:
        """The state in one line."""
        parts = []
        for record, cores in state[1]:
            parts.append(f"{record[0]} " + " ".join(
                ("" if l1 == NONE else "L1+") + doing + ("*" if reserved else "") + ("", "@L2", "@home")[phase]
                for l1, reserved, _, doing, phase in cores))
        return f"{' | '.join(parts)} | home {state[0][0]}"

    def successors(self, state: Any) -> Iterator[tuple[Step, Any]]:
        """Every possible transition. Raises :class:`Violation`."""
        home, nodes = state
        for i, local in enumerate(nodes):
            steps = self._memo.get(local)
            if steps is None:
                steps = self._memo[local] = list(self._local(local, i))
            for event, remark, spontaneous, after, stored in steps:
                step = Step("node", i, local[0][0], event, remark, spontaneous)
                if stored:
                    changed = tuple(after if j == i else _aged(other) for j, other in enumerate(nodes))
                    yield step, (stale_home(home), changed)
                else:
                    yield step, (home, nodes[:i] + (after,) + nodes[i + 1:])
        records = tuple(record for record, _ in nodes)
        for step, (after_home, after_records) in self.model.home_steps((home, records)):
            if not (self.contention and step.spontaneous):
                yield step, (after_home, tuple((r, cores) for r, (_, cores) in zip(after_records, nodes, strict=True)))

    # ---- one cluster -------------------------------------------------------------------------------------------------
    def _local(self, local: Local, i: int) -> Iterator[Move]:
        """(event, remark, spontaneous, cluster after, stored) of everything that can happen in one cluster."""
        record, cores = local
        yield from self._issue(record, cores)
        served = next((k for k, core in enumerate(cores) if core[4]), None)
        for k, core in enumerate(cores):
            if core[3] in EVENT and (core[4] == 1 or served is None):
                yield from self._serve(record, cores, k, i)
        yield from self._remove_l1(record, cores, served)
        for m, (event, data) in enumerate(record[3]):
            if m == 0 or record[3][m - 1] != record[3][m]:
                yield from self._message(record, cores, served, i, event, data, record[3][:m] + record[3][m + 1:])
        if not self.contention and record[0] != "I":
            row = self.model.row(self.table, record[0], "Evict", i)
            if row is not None:
                after, _ = self.model.perform(record, row, i, NONE, record[3])
                emptied = tuple((NONE, c[1] if "reservation-evict" in self.faults else 0, *c[2:]) for c in cores)
                yield "Evict", "", True, (after, emptied), False

    def _issue(self, record: Any, cores: tuple[Core, ...]) -> Iterator[Move]:
        for k, (l1, reserved, undisturbed, doing, phase) in enumerate(cores):
            wishes = {IDLE: ("LL",) if self.contention else ("Load", "Store", "LL"), RESERVED: ("SC",)}.get(doing, ())
            for wish in wishes:
                if wish != "Load" or l1 == NONE:         # a load that hits in the L1 changes nothing; check() looks at its data
                    core = (l1, reserved, undisturbed, wish, phase)
                    yield wish, f"core {k} issues", not self.contention, (record, _with(cores, k, core)), False

    def _serve(self, record: Any, cores: tuple[Core, ...], k: int, i: int) -> Iterator[Move]:
        """The L2 looks up the operation of core k: fails, hits, or sends a request; a store waits for the other L1s."""
        l1, reserved, undisturbed, doing, _ = cores[k]
        event = EVENT[doing]
        if doing == "SC" and not reserved:
            yield event, f"SC of core {k} fails", False, (record, _with(cores, k, (l1, 0, 0, IDLE, 0))), False
            return
        row = self.model.row(self.table, record[0], event, i)
        if row is None:
            return
        if "store" in row.actions and self._others_hold(cores, k):
            if cores[k][4] == 0:
                yield event, f"core {k} waits for L1s", False, (record, _with(cores, k, (*cores[k][:4], 1))), False
            return
        if "load" in row.actions or "store" in row.actions:
            yield self._complete(record, cores, k, row, i, NONE, record[3])
        else:
            after, _ = self.model.perform(record, row, i, NONE, record[3])
            yield event, f"core {k}", False, (after, _with(cores, k, (*cores[k][:4], 2))), False

    def _others_hold(self, cores: tuple[Core, ...], k: int) -> bool:
        return "l1-store" not in self.faults and any(core[0] != NONE for j, core in enumerate(cores) if j != k)

    def _remove_l1(self, record: Any, cores: tuple[Core, ...], served: int | None) -> Iterator[Move]:
        snooped = any(event == "SnpM" for event, _ in record[3])
        storing = served is not None and EVENT[cores[served][3]] == "Store"
        for k, core in enumerate(cores):
            if core[0] != NONE and (snooped or (storing and k != served)):
                yield "Inv", f"L1 of core {k}", False, (record, _with(cores, k, (NONE, *core[1:]))), False

    def _message(self, record: Any, cores: tuple[Core, ...], served: int | None, i: int, event: str, data: int,
                 down: tuple[Any, ...]) -> Iterator[Move]:
        row = self.model.row(self.table, record[0], event, i)
        if row is None:
            return
        if "load" in row.actions or "store" in row.actions:
            if served is None:
                raise Violation("data or a grant came for no operation", Step("node", i, record[0], event))
            if "store" not in row.actions or not self._others_hold(cores, served):
                yield self._complete(record, cores, served, row, i, data, down)
            return
        if event == "SnpM":
            if "l1-snoop" not in self.faults and any(core[0] != NONE for core in cores):
                return
            if "reservation-snoop" not in self.faults:
                cores = tuple((core[0], 0, *core[2:]) for core in cores)
        after, _ = self.model.perform(record, row, i, data, down)
        yield event, "", False, (after, cores), False

    def _complete(self, record: Any, cores: tuple[Core, ...], k: int, row: Row, i: int, data: int,
                  down: tuple[Any, ...]) -> Move:
        """Core k's operation is performed at the L2 (or, for an SC without reservation, fails with the line in hand)."""
        l1, reserved, undisturbed, doing, _ = cores[k]
        failed = doing == "SC" and not reserved
        if failed:
            row = Row(row.state, row.event, tuple(a for a in row.actions if a != "store"), row.next, row.line)
        after, stored = self.model.perform(record, row, i, data, down)
        if stored:
            if doing == "SC" and not undisturbed:
                raise Violation("LL/SC: an SC succeeds although another store came since its LL",
                                Step("node", i, row.state, row.event))
            keep = "reservation-store" in self.faults
            others = tuple((core[0] if core[0] == NONE else 0, core[1] if keep else 0, 0, *core[3:]) for core in cores)
            mine: Core = (l1 if l1 == NONE else 1, 0 if doing == "SC" else reserved, 0 if doing == "SC" else undisturbed, IDLE, 0)
            cores = _with(others, k, mine)
        elif doing == "LL":
            if "reservation-ll" in self.faults:
                cores = tuple((core[0], 0, *core[2:]) for core in cores)
            cores = _with(cores, k, (after[1], 1, 1, RESERVED, 0))
        elif failed:
            cores = _with(cores, k, (l1, 0, 0, IDLE, 0))
        else:
            cores = _with(cores, k, (after[1], reserved, undisturbed, IDLE, 0))
        outcome = "fails" if failed else "done"
        return row.event, f"{doing} of core {k} {outcome}", self.contention and stored, (after, cores), stored


def _with(cores: tuple[Core, ...], k: int, core: Core) -> tuple[Core, ...]:
    return cores[:k] + (core,) + cores[k + 1:]


def _aged(local: Local) -> Local:
    """A cluster after a store in another one."""
    record, cores = local
    return stale_record(record), tuple((core[0] if core[0] == NONE else 0, core[1], 0, *core[3:]) for core in cores)


def check_cluster(node: Controller, home: Controller, mode: str, *, clusters: int = 2, cores: int = 2, contention: bool = False,
                  faults: frozenset[str] = frozenset(), limit: int = 5_000_000) -> Result:
    """Search the cluster model; see the module's text for what is proved."""
    return explore(ClusterModel(node, home, mode, cores, contention, faults), clusters, limit=limit)
