"""The NIC of the random tester: right runs pass on every machine and protocol, every kind of wrong one is named. Runs are changed after the
fact, so that the oracle is tested without the core's help; tests/test_fuzz.py has the campaigns."""

from __future__ import annotations

import copy
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from fuzzing import history_of, judged

from cohsim.fuzz.case import Case
from cohsim.fuzz.execute import Outcome, bundled_tables, execute
from cohsim.fuzz.generate import MACHINES, PROTOCOLS, generate
from cohsim.fuzz.history_nic import NicHistory
from cohsim.fuzz.nic import DONE_AT, receive_base
from cohsim.fuzz.verdict import compare

TIME, OLD, NEW = 0, 4, 5              # columns of the device's log


def nic_case(machine: str, protocol: str, frames: int = 0, sent: int = 0) -> tuple[Case, Outcome, NicHistory]:
    """The first small case in which the receive driver took so many frames and the transmit driver so many descriptors back."""
    for seed in range(400):
        case = generate(seed, machine, protocol, devices=True)
        if case.iterations * sum(len(t.body) for t in case.threads) > 12_000:
            continue
        outcome = execute(case)
        assert not outcome.stop, outcome.report
        h = history(case, outcome)
        if len(h.reaps) >= frames and len(h.transmit.taken) >= sent:
            return case, outcome, h
    raise AssertionError("no such case")


def history(case: Case, outcome: Outcome) -> NicHistory:
    found = history_of(case, outcome).nic
    assert found is not None
    return found


@pytest.fixture(scope="module")
def busy() -> tuple[Case, Outcome, NicHistory]:
    case, outcome, h = nic_case("corei7", "mesif", frames=12, sent=6)
    assert judged(case, outcome) == []
    return case, outcome, h


def changed(outcome: Outcome, **more: object) -> Outcome:
    return replace(outcome, dma=outcome.dma.copy(), logs=[log.copy() for log in outcome.logs], final=dict(outcome.final), **more)  # type: ignore[arg-type]


def rules(case: Case, outcome: Outcome) -> set[str]:
    return {v.rule for v in judged(case, outcome)}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_right_runs_pass(machine: str, protocol: str) -> None:
    case, outcome, h = nic_case(machine, protocol, frames=1)
    assert judged(case, outcome) == []
    assert h.frames and h.receive.done and len(h.reaps) >= 1


@pytest.mark.parametrize("machine", MACHINES)
def test_lookahead_changes_nothing(machine: str) -> None:
    for seed in range(6):
        case = generate(seed, machine, devices=True)
        one, other = execute(replace_lookahead(case, True)), execute(replace_lookahead(case, False))
        assert np.array_equal(one.dma, other.dma) and one.final == other.final
        assert all(np.array_equal(a, b) for a, b in zip(one.logs, other.logs, strict=True))


def replace_lookahead(case: Case, lookahead: bool) -> Case:
    return msgspec.structs.replace(case, lookahead=lookahead)


def test_home_rows_that_only_a_device_exercises() -> None:
    """A DMA write is a Recall at the line's home: without a NIC only the L3's own evictions are."""
    fired = {}
    for devices in (False, True):
        total = 0
        for seed in range(12):
            case = generate(seed, "corei7", "mesif", devices=devices)
            outcome = execute(case)
            home = bundled_tables("mesif")[1]
            total += int(outcome.home_fired[:, list(home.events).index("Recall")].sum())
        fired[devices] = total
    assert fired[True] > 2 * fired[False] and fired[True] > 1000


# ---- wrong runs ---------------------------------------------------------------------------------------------------------------------
def test_a_frame_that_is_lost_at_the_end(busy: tuple[Case, Outcome, NicHistory]) -> None:
    """The last value of a word that a frame was written to is an older one: the DMA write was lost."""
    case, outcome, h = busy
    last = {f.address: f for f in h.frames}
    stores_too = {f.address for f in h.frames if outcome.final[f.address] != last[f.address].new}
    frame = next(f for f in last.values() if f.address not in stores_too and f.old != f.new)
    wrong = changed(outcome)
    wrong.final[frame.address] = frame.old
    assert rules(case, wrong) & {"final", "write order", "coherence", "lost store"}


def test_bytes_of_a_cpu_that_are_lost_by_a_dma_write(busy: tuple[Case, Outcome, NicHistory]) -> None:
    """A frame was written over a value that no one had put there."""
    case, outcome, h = busy
    wrong = changed(outcome)
    row = next(f.row for f in h.frames if f.old != 0)
    wrong.dma[row, OLD] = 0x00DEAD00
    assert rules(case, wrong)


def test_a_report_before_its_frame(busy: tuple[Case, Outcome, NicHistory]) -> None:
    case, outcome, h = busy
    wrong = changed(outcome)
    number = next(n for n in h.numbers.values())
    frame = next(f for f in h.frames if f.new == number.new)
    rows = wrong.dma
    rows[[frame.row, number.row]] = rows[[number.row, frame.row]]
    assert "descriptor" in rules(case, wrong)


def test_a_pointer_read_from_stale_memory(busy: tuple[Case, Outcome, NicHistory]) -> None:
    case, outcome, h = busy
    wrong = changed(outcome)
    n = len(h.receive.reads) - 1
    stale = next(s.value for group in h.receive.stores for s in group if s.value not in {x.value for x in h.receive.stores[n]})
    wrong.dma[h.receive.reads[n].row, [OLD, NEW]] = stale
    assert "doorbell" in rules(case, wrong)


def test_a_command_read_from_stale_memory(busy: tuple[Case, Outcome, NicHistory]) -> None:
    """The device finds what the descriptor held a round of the ring before."""
    case, outcome, h = busy
    wrong = changed(outcome)
    n = len(h.transmit.reads) - 1
    wrong.dma[h.transmit.reads[n].row, [OLD, NEW]] = 0
    assert "doorbell" in rules(case, wrong)


def test_done_before_the_frames_number(busy: tuple[Case, Outcome, NicHistory]) -> None:
    """The driver sees a descriptor done and finds the number of the frame before in it."""
    case, outcome, h = busy
    wrong = changed(outcome)
    receiver = next(i for i, t in enumerate(case.threads) if case.nic is not None and t.id == case.nic.receiver)
    reap = h.reaps[3]
    log = wrong.logs[receiver]
    at = np.argwhere(log == np.uint64(reap.number))
    for i, k in at.tolist():
        bad = copy.deepcopy(wrong)
        bad.logs[receiver][i, k] = np.uint64(h.reaps[2].number)
        if "descriptor" in rules(case, bad):
            return
    raise AssertionError("not noticed")


def test_a_done_word_that_a_cpus_store_took_back(busy: tuple[Case, Outcome, NicHistory]) -> None:
    case, outcome, h = busy
    wrong = changed(outcome)
    assert case.nic is not None
    address = receive_base(case, case.nic) + DONE_AT
    wrong.final[address] ^= 1
    assert "final" in rules(case, wrong)


def test_a_descriptor_out_of_turn(busy: tuple[Case, Outcome, NicHistory]) -> None:
    case, outcome, h = busy
    wrong = changed(outcome)
    first, second = (h.receive.reads[n].row for n in (0, 1))
    wrong.dma[[first, second]] = wrong.dma[[second, first]]
    assert "descriptor" in rules(case, wrong)


def test_an_access_of_the_device_that_differs_with_look_ahead(busy: tuple[Case, Outcome, NicHistory]) -> None:
    case, outcome, _ = busy
    other = changed(outcome)
    other.dma[3, TIME] += 1
    found = compare(outcome, other)
    assert found is not None and found.rule == "look-ahead" and "device access 3" in found.text
    assert compare(outcome, changed(outcome)) is None
