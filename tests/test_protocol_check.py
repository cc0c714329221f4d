"""The exhaustive check proves the four protocols and finds planted errors."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from cohsim.protocols import PROTOCOLS, tables
from cohsim.protocols.check import CheckedModel, ProtocolReport, agreement, check_protocol, check_tables, rows_of_one_home
from cohsim.protocols.explore import explore
from cohsim.protocols.flat import FlatExecutor
from cohsim.protocols.language import Controller, compile_table
from cohsim.protocols.lint import lint
from cohsim.protocols.mutants import judge, mutants
from cohsim.protocols.reference import HOMES, Step, Violation, canonical
from cohsim.protocols.render import document
from cohsim.protocols.vocabulary import HOME_STATES, NODE_STATES


@cache
def report_of(name: str) -> ProtocolReport:
    return check_protocol(name, nodes=3)


def changed(table: Controller, key: str, *, drop: str = "", successor: str = "") -> Controller:
    """A copy of a table with one row damaged."""
    state, event = key.split()
    row = table.rows[state, event]
    other = table.copy()
    other.rows[state, event] = replace(row, actions=tuple(a for a in row.actions if a != drop), next=successor or row.next)
    return other


@pytest.mark.parametrize("name", PROTOCOLS)
def test_all_properties_hold(name: str) -> None:
    report = report_of(name)
    assert [str(result) for _, _, result in report.searches if result.problem] == []
    assert report.unmet == [] and report.holds
    assert [(mode, nodes) for mode, nodes, _ in report.searches] == [(m, n) for n in (2, 3) for m in HOMES]


def test_rows_that_need_one_kind_of_home_are_named() -> None:
    only = rows_of_one_home(report_of("mesif"))
    assert "node F SnpS" in only["broadcast"] and "home Free Recall" in only["directory"]


def test_documentation_is_current(pytestconfig: pytest.Config) -> None:
    path = pytestconfig.rootpath / "docs" / "protocols.md"
    assert path.read_text() == document([report_of(name) for name in PROTOCOLS]), \
        "run: cohsim protocol docs > docs/protocols.md"


def test_a_directory_home_lets_two_nodes_be_forwarders() -> None:
    """Why the check demands one forwarder of a broadcast home only: a directory answers readers of shared lines itself."""
    node, home = tables("mesif")
    met: list[tuple[str, ...]] = []

    def look(state: Any, _: Any) -> None:
        met.append(tuple(record[0] for record in state[1]))

    assert not explore(CheckedModel(node, home, "directory"), 2, on_state=look).problem
    assert ("F", "F") in met


# ---- planted errors, each with the property it breaks ---------------------------------------------------------------------
@pytest.mark.parametrize(("name", "where", "key", "damage", "problem"), [
    ("msi", "home", "Busy RspDirty", {"drop": "write"}, "data value: the load finds old data"),
    ("msi", "node", "S SnpM", {"successor": "S", "drop": "drop"}, "inclusion"),
    ("msi", "node", "SM SnpM", {"drop": "cancel"}, "no row for Grant in IM"),
    ("msi", "node", "MI SnpS", {"drop": "cancel"}, "no row for PutM in Wait"),
    ("msi", "home", "Free PutM", {"drop": "put_ack"}, "trapped"),
    ("msi", "node", "IM DataM", {"drop": "take_data"}, "data value: the store finds old data"),
    ("mesi", "home", "Busy ReadyE", {"drop": "own_req"}, "data value: the load finds old data"),
    ("mesi", "home", "Busy RspNone", {"drop": "note"}, "trapped"),
    ("moesi", "home", "Busy RspOwned", {"drop": "note_owner"}, "data value: the load finds old data"),
    ("moesi", "node", "MI SnpM", {"successor": "MI", "drop": "cancel"}, "data value: the load finds old data"),
])
def test_a_planted_error_breaks_this_property(name: str, where: str, key: str, damage: dict[str, str], problem: str) -> None:
    node, home = tables(name)
    node, home = (changed(node, key, **damage), home) if where == "node" else (node, changed(home, key, **damage))
    report = check_tables(name, node, home, flat=False)
    found = report.searches[-1][2]
    assert problem in found.problem
    assert found.trace[0].startswith("start") and len(found.trace) > 2


def test_the_counterexample_is_shortest_and_readable() -> None:
    """An S that stays when a writer comes. By hand: 7 steps until one node is in S and the home free, 6 for the other's GetM."""
    node, home = tables("msi")
    report = check_tables("msi", changed(node, "S SnpM", successor="S", drop="drop"), home, homes=("broadcast",), flat=False)
    trace = report.searches[-1][2].trace
    steps = [line[:44].strip() for line in trace]
    reader = "0" if "node 0: Load in I" in steps else "1"
    writer = "1" if reader == "0" else "0"
    assert "SWMR" in trace[-1] and f"{reader}:S" in trace[-2] and f"{writer}:M" in trace[-2]
    assert len(steps) == 1 + 7 + 6 + 1                   # start, steps, complaint
    for step in (f"node {reader}: DataS in IS", f"node {reader}: SnpM in S", f"node {writer}: DataM in IM"):
        assert steps.count(step) == 1


def test_a_row_that_is_never_met_is_reported() -> None:
    node, home = tables("msi")
    home.add("Wait PutM stall")
    report = check_tables("msi", node, home, flat=False)
    assert report.unmet == [("home", "Wait", "PutM")] and not report.holds


@pytest.mark.parametrize("mode", HOMES)
def test_the_core_arrays_are_compared_bit_by_bit(mode: str) -> None:
    """One wrong action bit in the flat home table, and the executors part."""
    node, home = tables("msi")
    flat_home = compile_table(home, HOME_STATES)
    k = HOME_STATES.index("Busy") * len(home.events) + home.events.index("RspDirty")
    flat_home.ops[k] ^= 1 << home.actions.index("write")
    arrays = FlatExecutor(compile_table(node, NODE_STATES), flat_home, node.actions, home.actions, mode == "directory")
    found = explore(CheckedModel(node, home, mode), 2, on_state=agreement(arrays))
    assert "arrays and the rows disagree" in found.problem


@pytest.mark.parametrize("name", PROTOCOLS)
def test_single_row_errors_are_noticed(name: str) -> None:
    """A sample; ``cohsim protocol check --mutants`` plants them all (428 to 735 a protocol, all noticed)."""
    verdicts = [judge(name, mutant) for k, mutant in enumerate(mutants(name)) if k % 67 == 5]
    assert len(verdicts) > 5
    assert [v.what for v in verdicts if not (v.lint or v.search)] == []
    assert sum(bool(v.search) for v in verdicts) > 0.6 * len(verdicts)


# ---- lint -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PROTOCOLS)
def test_lint_is_clean(name: str) -> None:
    assert lint(*tables(name)) == []


@pytest.mark.parametrize(("where", "key", "damage", "complaint"), [
    ("node", "I Load", {"successor": "IM"}, "send_GetS belongs to Load"),
    ("node", "S Load", {"drop": "load"}, "load hit"),
    ("node", "M Evict", {"successor": "I"}, "leads to MI"),
    ("node", "S SnpM", {"drop": "drop"}, "without 'drop'"),
    ("node", "M SnpS", {"successor": "I"}, "disagree on whether a copy stays"),
    ("node", "SM SnpM", {"drop": "cancel"}, "cancel"),
    ("node", "S SnpS", {"successor": "M"}, "does not promise"),
    ("node", "IM DataM", {"drop": "store"}, "finishes without 'store'"),
    ("node", "IS DataS", {"drop": "take_data"}, "take_data"),
    ("node", "II PutAck", {"successor": "S"}, "permission R does not fit"),
    ("home", "Busy ReadyM", {"drop": "only_req"}, "ReadyM: must be"),
    ("home", "Busy ReadyS", {"drop": "send_DataS"}, "sends data once"),
    ("home", "Wait Ack", {"successor": "Busy"}, "message flow"),
])
def test_lint_names_the_row(where: str, key: str, damage: dict[str, str], complaint: str) -> None:
    node, home = tables("msi")
    node, home = (changed(node, key, **damage), home) if where == "node" else (node, changed(home, key, **damage))
    found = lint(node, home)
    assert any(line.startswith(f"{where}: {key.split()[0]} ") and complaint in line for line in found), found


def test_lint_sees_messages_nobody_understands() -> None:
    node, home = tables("mesi")
    home.remove("Busy RspClean")
    assert "node rsp_clean and home RspClean: sent but not understood" in lint(node, home)


# ---- the search itself, on toys ---------------------------------------------------------------------------------------------
class Toy:
    """States are numbers; ``forced`` and ``free`` map a state to its successors; ``bad`` states violate."""

    def __init__(self, forced: dict[int, list[int]], free: dict[int, list[int]], quiet: set[int], bad: int = -1):
        self.forced, self.free, self.still, self.bad = forced, free, quiet, bad

    def initial(self, nodes: int) -> int:
        return 0

    def canonical(self, state: int) -> int:
        return state

    def check(self, state: int) -> None:
        if state == self.bad:
            raise Violation(f"bad {state}")

    def quiet(self, state: int) -> bool:
        return state in self.still

    def describe(self, state: int) -> str:
        return f"at {state}"

    def successors(self, state: int) -> Iterator[tuple[Step, int]]:
        for moves, spontaneous in ((self.forced, False), (self.free, True)):
            for after in moves.get(state, []):
                yield Step("node", 0, str(state), f"to {after}", "", spontaneous), after


def test_search_finds_the_shortest_way() -> None:
    found = explore(Toy({}, {0: [1, 3], 1: [2], 2: [4], 3: [4]}, {0, 1, 2, 3}, bad=4), 1)
    assert found.problem == "bad 4"
    assert [line.split()[-1] for line in found.trace[:3]] == ["0", "3", "4"]


def test_search_finds_traps_that_only_a_spontaneous_step_would_leave() -> None:
    found = explore(Toy({0: [1]}, {1: [0]}, {0}), 1)
    assert found.problem.startswith("trapped") and "at 1" in found.trace[-1]


def test_search_finds_livelocks_that_could_be_left() -> None:
    found = explore(Toy({0: [1], 1: [2, 3], 2: [1]}, {}, {3}), 1)
    assert found.problem.startswith("livelock")
    assert not explore(Toy({0: [1], 1: [2, 3], 2: [3]}, {3: [0]}, {3}), 1).problem


def test_a_search_that_is_cut_short_proves_nothing() -> None:
    assert "nothing proved" in explore(Toy({}, {k: [k + 1] for k in range(50)}, set(range(60))), 1, limit=20).problem


def test_canonical_forgets_node_numbers_only() -> None:
    node, home = tables("msi")
    model = CheckedModel(node, home, "directory")
    steps = dict(model.successors(model.initial(2)))
    after = {str(step): state for step, state in steps.items()}
    one, other = after["node 0: Load in I"], after["node 1: Load in I"]
    assert one != other and canonical(one) == canonical(other) != canonical(after["node 0: Store in I"])
