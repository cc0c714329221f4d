"""Litmus tests on the modelled machines: nothing forbidden occurs, what should occur does, and a violation would be noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cohsim.cli.main import main
from cohsim.errors import InputError
from cohsim.litmus import operational, run
from cohsim.litmus.parse import load_litmus, parse_litmus
from cohsim.litmus.rounds import build, draw
from cohsim.litmus.run import placements, run_litmus
from cohsim.litmus.test import ALLOWED, Kind, LitmusTest, Outcome
from cohsim.machine import compile_machine, load_machine
from cohsim.machine.compiled import CompiledMachine

FOLDER = Path(__file__).resolve().parent.parent / "workloads" / "litmus"
FILES = sorted(FOLDER.rglob("*.litmus"))
NOT_PRODUCED = {
    # one value per word: a store reaches all other threads at once
    "IRIW+addrs",
    "IRIW+lwsyncs",
    "WRC+addrs",
    "WRC+data+addr",
    "R+lwsync+sync",
    "RWC+lwsync+sync",
    # a store leaves only when all older loads have their values
    "LB",
    "LB+data+po",
    # a thread waits for the operands of a branch; isync waits for all loads
    "MP+lwsync+ctrl",
    "PPOCA",
    "MP+lwsync+isync",
}
"""Outcomes that Power allows and the core cannot produce, docs/litmus.md: if one appears, the document is wrong."""

RARE = {
    "2+2W",
    "2+2W+lwsync+po",
    "IRIW",
    "ISA2",
    "MP+lwsync+po",
    "MP+po+addr",
    "MP+po+lwsync",
    "MP",
    "R+sync+lwsync",
    "R",
    "S",
    "S+lwsync+po",
    "SB+sync+lwsync",
    "SB+lwsyncs",
    "WRC",
    "INC+llsc+plain",
}
"""Allowed and possible on Power, too rare for the few rounds of this test."""


@cache
def machine(name: str) -> CompiledMachine:
    return compile_machine(load_machine(name, ()))


def load(name: str) -> LitmusTest:
    return load_litmus(FOLDER / f"{name}.litmus")


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_bundled_suite(path: Path) -> None:
    test = load_litmus(path)
    result = run_litmus(test, machine("t4240" if test.isa == "power" else "corei7"), rounds=768, simulations=8)
    assert not result.violations, [test.describe(o) for o in result.violations]
    if test.isa == "power" and test.name in NOT_PRODUCED:
        assert not result.hits
    elif test.expectation == ALLOWED and test.name not in (RARE if test.isa == "power" else ()):
        assert result.hits
    assert len(result.histogram) > 1 or len(result.allowed) == 1


def test_rare_but_possible_on_power() -> None:
    """Loads overtake loads, and stores overtake stores."""
    for name in ("MP", "MP+po+addr"):
        assert run_litmus(load(f"power/{name}"), machine("t4240"), rounds=10_000, simulations=16).hits


@pytest.mark.parametrize("name", ["x86/SB+mfences", "x86/RWC+mfence", "x86/R+po+mfence", "power/SB+syncs", "power/MP+syncs"])
def test_without_its_fences_a_test_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner sees what the fences prevent: run the bare test against what the fenced one is allowed."""
    test = load(name)
    allowed = run.allowed_outcomes(test)
    bare = replace(test, threads=tuple(tuple(u for u in code if u.kind is not Kind.FENCE) for code in test.threads))
    monkeypatch.setattr(run, "allowed_outcomes", lambda _: allowed)
    result = run_litmus(bare, machine("t4240" if test.isa == "power" else "corei7"), rounds=6000, simulations=16)
    assert result.violations and result.verdict == "VIOLATION" and result.hits
    assert run_litmus(test, machine("t4240" if test.isa == "power" else "corei7"), rounds=1000).verdict == "ok, never seen"


def test_plain_increments_fail_where_locked_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, on in (("x86/INC", "corei7"), ("power/INC", "t4240")):
        monkeypatch.setattr(run, "allowed_outcomes", lambda _: frozenset({(2,)}))
        assert run_litmus(load(name), machine(on), rounds=1000).violations == [(1,)]


@pytest.mark.parametrize(
    ("name", "on"), [("x86/SB", "corei7"), ("x86/XADD4", "corei7"), ("power/MP", "t4240"), ("power/LOCK", "t4240")]
)
def test_same_seed_same_rounds_with_and_without_lookahead(name: str, on: str) -> None:
    def histogram(seed: int, lookahead: bool) -> dict[Outcome, int]:
        return dict(run_litmus(load(name), machine(on), rounds=512, simulations=4, seed=seed, lookahead=lookahead).histogram)

    assert histogram(3, True) == histogram(3, True) == histogram(3, False)
    if name != "power/LOCK":
        assert histogram(3, True) != histogram(4, True)


SINGLE = {
    "x86": "X86 T\n{ x=10; y=-4; }\nP0 ;\nMOV EAX,$3 ;\nLOCK XADD [x],EAX ;\nXADD [x],EAX ;\nXCHG EBX,[y] ;\nMOV EDX,$1 ;\nLOCK CMPXCHG [y],EDX ;\n"
    "LOCK SUB [x],$40 ;\nDEC [x] ;\nADD ECX,[x] ;\nlocations [x; y; 0:EAX; 0:EBX; 0:ECX;]\n~exists (x=99)",
    "power": "PPC T\n{ x=-3; y=0; 0:r2=x; 0:r4=y; 0:r8=2; }\nP0 ;\nA: addi r1,r1,1 ;\ncmpwi r1,5 ;\nblt A ;\nlwz r3,0(r2) ;\ncmpwi r3,0 ;\nbge B ;\n"
    "li r5,7 ;\nB: lwarx r6,r0,r4 ;\nadd r6,r6,r3 ;\nstwcx. r6,r0,r4 ;\nbeq C ;\nli r7,1 ;\nC: xor r9,r6,r8 ;\nandi r9,r9,255 ;\n"
    "cmpw r3,r6 ;\nbne D ;\nli r10,6 ;\nD: ;\nlocations [x; y; 0:r1; 0:r3; 0:r5; 0:r6; 0:r7; 0:r9; 0:r10;]\n~exists (x=99)",
}


@pytest.mark.parametrize(("isa", "on"), [("x86", "corei7"), ("power", "t4240")])
def test_one_thread_computes_what_the_model_computes(isa: str, on: str) -> None:
    """Values, flags and branches are lowered right, negative numbers too: one thread has one outcome."""
    test = parse_litmus(SINGLE[isa], "t.litmus")
    expected = operational.outcomes(test, buffered=False)
    result = run_litmus(test, machine(on), rounds=64, simulations=4)
    assert len(expected) == 1 and set(result.histogram) == expected, [test.describe(o) for o in (*expected, *result.histogram)]


def test_placements_cover_siblings_clusters_and_the_whole_machine() -> None:
    m = machine("t4240")
    rng = np.random.Generator(np.random.PCG64(5))
    stream = placements(m, 2, rng)
    cores, clusters, helpers = set(), set(), set()
    for _ in range(40):
        a, b, *rest = next(stream)
        assert len({a, b, *rest}) == 2 + len(rest)
        cores.add(m.cpu_core[a] == m.cpu_core[b])
        clusters.add(m.cpu_core[a] // m.cores_per_node == m.cpu_core[b] // m.cores_per_node)
        helpers.add(len(rest))
    assert cores == clusters == {True, False} and helpers == {0, 1, 2}


def test_rounds_have_words_of_their_own() -> None:
    """Every round leaves its own result: after the run each round's store is there, and nothing beyond the last round."""
    test = parse_litmus("X86 T\n{ x=0; }\nP0 ;\nMOV [x],$7 ;\nMOV EAX,[x] ;\n~exists (0:EAX=0 \\/ x=0)", "t.litmus")
    result = run_litmus(test, machine("corei7"), rounds=100, simulations=3)
    assert dict(result.histogram) == {(7, 7): 3 * 48}  # 34 rounds a simulation, in whole cycles of 16 copies
    rng = np.random.Generator(np.random.PCG64(1))
    program = build(test, draw(rng, (0,)), 33, 64, rng)
    assert program.rounds == 48 and len(program.entry) == 1


def test_machine_of_another_instruction_set_is_refused() -> None:
    with pytest.raises(InputError, match="t4240 is a power machine, SB is a test for X86"):
        run_litmus(load("x86/SB"), machine("t4240"))


def test_more_threads_than_cpus_is_refused() -> None:
    few = replace(machine("corei7"), cpu_core=(0, 1), cpu_thread=(0, 0))
    with pytest.raises(InputError, match="has 2 CPUs, the test has 4 threads"):
        run_litmus(load("x86/IRIW"), few)


# ---- the command


def test_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["litmus", "litmus/x86/SB", str(FOLDER / "power" / "MP+syncs.litmus"), "--rounds", "500"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in out[2:5]] == [
        ["SB", "X86", "corei7", "allowed"],
        ["SB", "X86", "xeon_x5550", "allowed"],
        ["MP+syncs", "PPC", "t4240", "forbidden"],
    ]
    assert out[-1].startswith("3 runs: 0 with outcomes that the architecture forbids")


def test_command_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["litmus", "litmus/x86/SB", "--machine", "corei7", "--rounds", "500", "--json", "-"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["rounds"] == sum(o["count"] for o in entry["outcomes"]) >= 500
    both_zero = next(o for o in entry["outcomes"] if o["state"] == {"0:EAX": 0, "1:EAX": 0})
    assert both_zero["allowed"] and both_zero["condition"] and not both_zero["sequentially_consistent"]
    assert entry["seen"] == both_zero["count"] and entry["verdict"] == "ok, seen"


def test_command_fails_when_a_forbidden_outcome_occurs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "allowed_outcomes", lambda test: operational.outcomes(test, buffered=False))
    assert main(["litmus", "litmus/x86/SB", "--machine", "corei7", "--rounds", "2000"]) == 1
    out = capsys.readouterr().out
    assert "VIOLATION" in out and "0:EAX=0 1:EAX=0 on corei7" in out and "Timing(pins=" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["litmus/x86/SBB"], "did you mean 'litmus/x86/SB'?"),
        (["litmus/x86/SB", "--machine", "t4240"], "no x86 machine for SB (X86)"),
        (["litmus/x86/SB", "--rounds", "0"], "--rounds"),
        (["litmus/x86/SB", "--markdown", "--json", "-"], "exclude each other"),
    ],
)
def test_command_input_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["litmus", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_command_reports_the_faults_of_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.litmus").write_text("X86 T\n{}\nP0 ;\nMVO [x],$1 ;\n~exists (x=1)\n")
    assert main(["litmus", str(tmp_path / "a.litmus"), str(tmp_path / "b.litmus")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("/")[-1].split(": ")[0] for line in lines] == ["a.litmus:4:1", "b.litmus:4:1"]


def test_document_names_every_bundled_test() -> None:
    text = (FOLDER.parent.parent / "docs" / "litmus.md").read_text()
    missing = [p.stem for p in FILES if f"| {p.stem} | " not in text]
    assert not missing and "VIOLATION" not in text
