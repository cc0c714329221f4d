"""The models that say what is allowed: against each other, against the bundled expectations, and that each of their parts matters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cohsim.errors import WorkloadError
from cohsim.litmus import axiomatic, operational
from cohsim.litmus.parse import load_litmus, parse_litmus
from cohsim.litmus.run import allowed_outcomes
from cohsim.litmus.test import FORBIDDEN, Instruction, Kind, LitmusTest

FOLDER = Path(__file__).resolve().parent.parent / "workloads" / "litmus"
FILES = sorted(FOLDER.rglob("*.litmus"))


def load(name: str) -> LitmusTest:
    return load_litmus(FOLDER / f"{name}.litmus")


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_expectation_in_the_file_is_what_the_model_says(path: Path) -> None:
    test = load_litmus(path)
    assert test.name == path.stem and test.title
    allowed = allowed_outcomes(test)  # raises if the expectation is wrong
    assert operational.outcomes(test, buffered=False) <= allowed
    if test.isa == "x86":
        assert axiomatic.outcomes(test) == allowed


def test_a_wrong_expectation_is_rejected() -> None:
    text = (FOLDER / "x86" / "SB.litmus").read_text()
    with pytest.raises(WorkloadError, match="SB says forbidden, but x86-TSO allows 0:EAX=0 1:EAX=0"):
        allowed_outcomes(parse_litmus(text.replace("cohsim: allowed", "cohsim: forbidden"), "t.litmus"))
    text = (FOLDER / "power" / "MP+syncs.litmus").read_text()
    with pytest.raises(WorkloadError, match="says allowed, but Power"):
        allowed_outcomes(
            parse_litmus(text.replace("cohsim: forbidden", "cohsim: allowed").replace("~exists", "exists"), "t.litmus")
        )


def _without(test: LitmusTest, thread: int, index: int) -> LitmusTest:
    """The test with one instruction taken out, branches still to the same places."""

    def shift(u: Instruction) -> Instruction:
        return replace(u, target=u.target - 1) if u.kind is Kind.BRANCH and u.target > index else u

    code = tuple(shift(u) for k, u in enumerate(test.threads[thread]) if k != index)
    return replace(test, threads=(*test.threads[:thread], code, *test.threads[thread + 1 :]))


# Fences that these tests do not need: 2+2W and S and R variants keep every fence; a fence for the other side's sake may be spare.
SPARE = {"MP+mfences", "LB+mfences", "LB+lwsyncs", "MP+syncs"}
FENCED = [
    p
    for p in FILES
    if load_litmus(p).expectation == FORBIDDEN
    and p.stem not in SPARE
    and any(u.kind is Kind.FENCE for code in load_litmus(p).threads for u in code)
    and "llsc" not in p.stem
    and p.stem != "LOCK"
]


@pytest.mark.parametrize("path", FENCED, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_fence_of_a_forbidden_test_is_needed(path: Path) -> None:
    test = load_litmus(path)
    for thread, code in enumerate(test.threads):
        for index, u in enumerate(code):
            if u.kind is Kind.FENCE:
                weaker = _without(test, thread, index)
                found = operational.outcomes(weaker, buffered=True) if test.isa == "x86" else axiomatic.outcomes(weaker)
                assert any(test.singled_out(o) for o in found), f"{u.text} of P{thread} changes nothing"


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("x86/SB", 4),
        ("x86/MP", 3),
        ("x86/IRIW", 15),
        ("x86/INC+lock", 1),
        ("power/SB", 4),
        ("power/MP", 4),
        ("power/MP+syncs", 3),
        ("power/IRIW", 16),
        ("power/IRIW+syncs", 15),
        ("power/2+2W", 4),
        ("power/2+2W+lwsyncs", 3),
    ],
)
def test_number_of_allowed_outcomes(name: str, count: int) -> None:
    assert len(allowed_outcomes(load(name))) == count


def test_ll_sc_of_the_sequential_machine() -> None:
    assert operational.outcomes(load("power/INC3+llsc"), buffered=False) == {(3,)}
    assert (1, 0) not in {o[:2] for o in operational.outcomes(load("power/LLSC-fail"), buffered=False)}
