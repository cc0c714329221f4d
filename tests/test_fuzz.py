"""The random tester on the core: what it generates, that it repeats, that it notices planted errors and makes them small."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fuzzing import hand_made, small_case

from cohsim.cli.main import main
from cohsim.fuzz import case as cases
from cohsim.fuzz.campaign import campaign
from cohsim.fuzz.case import Action, Word, consistent, describe
from cohsim.fuzz.coverage import Coverage, why_not
from cohsim.fuzz.execute import bundled_tables, execute, machine_of
from cohsim.fuzz.generate import MACHINES, PROTOCOLS, generate
from cohsim.fuzz.planted import flatten
from cohsim.fuzz.shrink import shrink
from cohsim.fuzz.verdict import run_case
from cohsim.protocols import tables
from cohsim.protocols.check import check_protocol, rows_of_one_home
from cohsim.protocols.mutants import Mutant, mutants

SAVED = Path(__file__).parent / "fuzz_cases"


def test_same_seed_same_case_and_values() -> None:
    case = generate(77)
    assert generate(77) == case and generate(78) != case
    assert generate(77, case.machine, case.protocol) == case         # the command a failure prints
    one, other = execute(case), execute(case)
    assert one.operations == other.operations and one.events == other.events
    assert all(np.array_equal(a, b) for a, b in zip(one.logs, other.logs, strict=True))


def test_cases_vary() -> None:
    """Machines, protocols, homes, geometries, thread counts, and every kind of action, word and way."""
    many = [generate(seed) for seed in range(150)]
    assert {c.machine for c in many} == set(MACHINES) and {c.protocol for c in many} == set(PROTOCOLS)
    assert {c.home for c in many} == {"directory", "broadcast"} and {c.lookahead for c in many} == {True, False}
    assert min(len(c.threads) for c in many) == 2 and max(len(c.threads) for c in many) == 24
    assert any(not c.geometry for c in many) and any(len(c.geometry) >= 8 for c in many)
    actions = [(c, a) for c in many for t in c.threads for a in t.body]
    assert {a.kind for _, a in actions} == set(cases.ActionKind.__args__)  # type: ignore[attr-defined]
    kinds = set(cases.WordKind.__args__)  # type: ignore[attr-defined]
    assert {w.kind for c in many for area in c.areas for w in area.words} == kinds
    # Only the NIC and its driver touch these two, and the driver computes where they are.
    assert {c.word(a).kind for c, a in actions if a.kind in cases.TOUCHES_WORD} == kinds - {"pointer", "done"}
    assert 0.15 < sum(c.nic is not None for c in many) / len(many) < 0.35
    for kind, ways in (("add", 4), ("put", 4), ("fence", 5), ("alter", 8)):
        assert len({a.way for _, a in actions if a.kind == kind}) == ways, kind
    assert {c.word(a).size for c, a in actions if a.kind == "store"} == {1, 2, 4, 8}
    siblings = [Counter(machine_of(c).cpu_core[t.cpu] for t in c.threads) for c in many]
    assert any(max(s.values()) == 2 for s in siblings) and any(max(s.values()) == 1 for s in siblings)


@pytest.mark.parametrize("machine", MACHINES)
def test_short_campaign(machine: str) -> None:
    total = campaign(60_000, 2, machine=machine)
    assert total.failed is None, total.failed
    assert total.operations >= 60_000 and total.values > 10_000 and total.stopped == "operations"


def test_jobs_do_not_change_what_is_counted() -> None:
    one, two = campaign(30_000, 4), campaign(30_000, 4, jobs=2)
    assert (one.operations, one.values, one.cases) == (two.operations, two.values, two.cases)
    assert all(np.array_equal(one.coverage.node[k], two.coverage.node[k]) for k in one.coverage.node)


def test_time_limit() -> None:
    assert campaign(1e12, 1, time_limit_s=0.01).stopped == "time limit"


def test_saved_case_is_the_same() -> None:
    case = generate(5)
    assert cases.load(cases.save(case)) == case
    assert str(len(case.threads)) in describe(case)


def test_waits_without_a_partner_are_dropped() -> None:
    flag = Word("flag", 0, 2, 1)
    case = hand_made("corei7", (Action("await", value=1),), words=(flag,))
    assert consistent(case).threads[0].body == ()


def planted(protocol: str, what: str) -> Mutant:
    return next(m for m in mutants(protocol) if m.what == what)


@pytest.mark.parametrize(("what", "rule"), [
    ("node S SnpM: -> S instead of I", "fault"),            # two may write
    ("node S SnpM: without drop", "atomicity"),             # no fault: only the values tell
    ("node SM SnpM: without cancel", "fault"),
    ("node SM Grant: -> S instead of M", "no progress"),
    ("home Free GetM: without snoop_write", "fault"),
    ("home Free PutM: without put_ack", "fault"),
    ("home Busy RspShared: without note_sharer", "fault"),
    ("home Busy ReadyR: without finish", "fault"),          # an impossible table stops the run, it does not crash it
])
def test_planted_errors_are_noticed(what: str, rule: str) -> None:
    mutated = flatten(planted("mesi", what))
    found = set()
    for skip in range(9):
        case = small_case(MACHINES[skip % 3], "mesi", skip // 3)
        assert run_case(case)[1] is None
        _, failure = run_case(case, mutated)
        found.add(failure.rule if failure else "")
    assert rule in found


def test_failing_case_is_made_small() -> None:
    """Down to what a person can read, and it fails alike when it is repeated."""
    mutated = flatten(planted("mesi", "node SM SnpM: without cancel"))
    case = next(c for c in (small_case("corei7", "mesi", k) for k in range(10)) if run_case(c, mutated)[1] is not None)
    small, failure = shrink(case, "fault", tables=mutated, seconds=20)
    assert failure.rule == "fault"
    assert sum(len(t.body) for t in small.threads) <= 8 < sum(len(t.body) for t in case.threads)
    assert len(small.threads) <= 3 and small.iterations < case.iterations
    _, again = run_case(small, mutated)
    assert again is not None and again.rule == failure.rule
    with pytest.raises(ValueError, match="does not fail"):
        shrink(small, "fault")


def test_why_rows_do_not_fire() -> None:
    """The reasons for rows of one home are those of the exhaustive search."""
    only = rows_of_one_home(check_protocol("msi", 2))
    node, home = tables("msi")
    for own, other in (("directory", "broadcast"), ("broadcast", "directory")):
        said = [f"{t.name} {s} {e}" for t in (node, home) for s, e in t.rows if why_not(("corei7", "msi", other), t, s, e) == f"{own} home only"]
        stalls = [f"{t.name} {s} {e}" for t in (node, home) for (s, e), row in t.rows.items() if row.actions == ("stall",)]
        assert sorted(said) == sorted(set(only[own]) - set(stalls))


def test_coverage_adds_up() -> None:
    node, home = bundled_tables("mesi")
    fired = np.zeros((len(node.states), len(node.events)), np.int64)
    fired[node.states.index("S"), node.events.index("Load")] = 3
    coverage = Coverage()
    key = ("corei7", "mesi", "directory")
    for _ in range(2):
        coverage.add(key, fired, np.zeros((len(home.states), len(home.events)), np.int64), 10)
    count, never = coverage.rows(key)
    assert count == 1 and coverage.operations[key] == 20
    assert count + len(never) == sum(len(t.rows) for t in tables("mesi"))


@pytest.mark.parametrize("saved", sorted(SAVED.glob("*.json")), ids=lambda p: p.stem)
def test_cases_that_once_failed(saved: Path) -> None:
    _, failure = run_case(cases.load(saved.read_bytes()))
    assert failure is None, failure.text


# ---- command ---------------------------------------------------------------------------------------------------------------
def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--operations", "2e4", "--machine", "t4240", "--protocol", "mesif", "--jobs", "1", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["failure"] is None and document["operations"] >= 20_000
    assert {(c["machine"], c["protocol"]) for c in document["coverage"]} == {("t4240", "mesif")}


def test_command_failure(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A failing campaign: exit code 1, the command that repeats it, the small case printed and saved."""
    mutated = flatten(planted("mesi", "node SM SnpM: without cancel"))
    monkeypatch.setattr("cohsim.fuzz.execute.bundled_tables", lambda protocol: mutated)
    saved = tmp_path / "case.json"
    arguments = ["--machine", "corei7", "--protocol", "mesi", "--jobs", "1", "--shrink-time", "5", "--save", str(saved)]
    assert main(["fuzz", "--operations", "1e6", *arguments, "--json", str(tmp_path / "out.json")]) == 1
    error = capsys.readouterr().err
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["failure"]["rule"] == "fault" and "thread" in error
    command = document["failure"]["command"]
    assert command in error
    assert main([*command.split()[1:], "--shrink-time", "0"]) == 1
    assert main(["fuzz", "--replay", str(saved), "--shrink-time", "0"]) == 1
    assert cases.load(saved.read_bytes()).machine == "corei7"


@pytest.mark.parametrize(("arguments", "complaint"), [
    (["--operations", "many"], "'many' is not a number"),
    (["--operations", "0"], "not between"),
    (["--machine", "z80"], "z80"),
    (["--case", "1", "--replay", "x"], "exclude each other"),
    (["--replay", "no-such-file"], "cannot be read"),
])
def test_command_complains(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", *arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error and "Traceback" not in error


def test_damaged_case(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    saved = tmp_path / "case.json"
    saved.write_text('{"seed": "one"}')
    assert main(["fuzz", "--replay", str(saved)]) == 2
    assert "is no saved case" in capsys.readouterr().err
