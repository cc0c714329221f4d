"""The oracle of the random tester: right runs pass, every kind of wrong one is named. The runs are changed after the fact, so that the
oracle is tested without the core's help."""

from __future__ import annotations

import numpy as np
import pytest
from fuzzing import AREA, hand_made, history_of, judged, small_case

from cohsim.fuzz.case import ADD_RMW, PUT_CAS, PUT_STORE, PUT_XCHG, Action, Case, Word
from cohsim.fuzz.execute import Outcome, execute
from cohsim.fuzz.generate import MACHINES, PROTOCOLS
from cohsim.fuzz.oracle import judge, write_order
from cohsim.uops import Alu, Fence

DATA, FLAG = Word("single", 0, 8, 0), Word("single", 8, 8, 0)


def load(word: int, **more: object) -> Action:
    return Action("load", word=word, **more)  # type: ignore[arg-type]


def store(word: int) -> Action:
    return Action("store", word=word)


def rules(case: Case, outcome: Outcome) -> set[str]:
    return {v.rule for v in judged(case, outcome)}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_right_runs_pass(machine: str, protocol: str) -> None:
    case = small_case(machine, protocol)
    assert judged(case) == []


@pytest.fixture
def message() -> tuple[Case, Outcome]:
    """Thread 0 writes data, then flag; thread 1 reads flag, then data. The log is replaced by the tests."""
    case = hand_made("corei7", (store(0), store(1)), (load(1), load(0)), words=(DATA, FLAG))
    return case, execute(case)


def value(serial: int, offset: int, thread: int = 0) -> int:
    """What a thread's store ``serial`` to the 8-byte word at ``offset`` of area 0 writes."""
    return (thread + 1) << 56 | offset << 44 | serial


def flag_then_data(message: tuple[Case, Outcome], *pairs: tuple[int, int]) -> set[str]:
    """Rules broken if thread 1's iterations ended with these serials (the last pair repeats)."""
    case, outcome = message
    full = [*pairs, *[pairs[-1]] * (case.iterations - len(pairs))]
    outcome.logs[1] = np.array([[value(f, 8) if f else 0, value(d, 0) if d else 0] for f, d in full], np.uint64)
    return rules(case, outcome)


def test_message_passing(message: tuple[Case, Outcome]) -> None:
    """Data are stores 1, 3, 5 ..., flags 2, 4, 6 ..."""
    assert flag_then_data(message, (0, 0), (2, 1), (2, 3), (4, 3)) == set()
    assert flag_then_data(message, (2, 0)) == {"ordering"}
    assert flag_then_data(message, (4, 1)) == {"ordering"}
    assert flag_then_data(message, (2, 3), (2, 1)) == {"coherence", "ordering"}


def test_value_that_nobody_stored(message: tuple[Case, Outcome]) -> None:
    case, outcome = message
    for wrong in (value(3, 8), value(2, 8, thread=1), value(2, 0), value(2, 8) & 0xFFFF, value(99, 8), 7):
        outcome.logs[1][3, 0] = wrong
        assert rules(case, outcome) == {"thin air"}, hex(wrong)


def test_power_orders_only_across_barriers() -> None:
    def broken(writer: tuple[Action, ...], reader: tuple[Action, ...]) -> set[str]:
        case = hand_made("t4240", writer, reader, words=(DATA, FLAG))
        outcome = execute(case)
        outcome.logs[1][:] = [[value(2, 8), 0]] * case.iterations
        return rules(case, outcome)

    light, full, loads = Action("fence", way=Fence.LIGHT), Action("fence", way=Fence.FULL), Action("fence", way=Fence.LOAD)
    plain = store(0), store(1)
    fenced = store(0), light, store(1)
    assert broken(plain, (load(1), load(0))) == set()
    assert broken(fenced, (load(1), load(0))) == set()
    assert broken(plain, (load(1), light, load(0))) == set()
    assert broken(fenced, (load(1), light, load(0))) == {"ordering"}
    assert broken((store(0), full, store(1)), (load(1), full, load(0))) == {"ordering"}
    assert broken(fenced, (load(1), loads, load(0))) == set()
    assert broken(fenced, (load(1), load(0, dep=1))) == {"ordering"}
    assert broken(fenced, (load(1), load(0, dep=2))) == {"ordering"}


def test_store_buffers_need_full_barriers() -> None:
    words = DATA, Word("single", 8, 8, 1)

    def broken(fence: Fence, a: int, b: int) -> set[str]:
        barrier = Action("fence", way=fence)
        case = hand_made("corei7", (store(0), barrier, load(1)), (store(1), barrier, load(0)), words=words, iterations=1)
        outcome = execute(case)
        outcome.logs[0][0, 0], outcome.logs[1][0, 0] = value(1, 8, 1) * a, value(1, 0) * b
        return rules(case, outcome)

    assert broken(Fence.FULL, 0, 0) == {"store buffer"}
    assert broken(Fence.FULL, 1, 0) == broken(Fence.FULL, 0, 1) == broken(Fence.FULL, 1, 1) == set()
    assert broken(Fence.LIGHT, 0, 0) == set()


def test_own_store_is_seen() -> None:
    case = hand_made("corei7", (store(0), load(0)), words=(DATA,))
    outcome = execute(case)
    outcome.logs[0][4, 0] = outcome.logs[0][3, 0]
    assert "own store" in rules(case, outcome)


def test_tearing_and_neighbours() -> None:
    """A wide load is judged byte by byte, a narrow one by what it shows."""
    words = tuple(Word("single", k, 1, k % 2) for k in range(8))
    bodies = tuple(tuple(Action("store", word=k) for k in range(t, 8, 2)) + (load(0, size=8),) for t in range(2))
    case = hand_made("t4240", *bodies, words=words, iterations=50)
    outcome = execute(case)
    assert judged(case, outcome) == []
    outcome.logs[0][30, 0] ^= np.uint64(0x40 << 24)          # one byte of eight, stored by thread 1
    assert rules(case, outcome) <= {"thin air", "coherence"} and judged(case, outcome)


def test_lost_and_doubled_updates() -> None:
    add = Action("add", way=ADD_RMW)
    case = hand_made("corei7", (add,), (add,), words=(Word("counter", 0, 8),))
    outcome = execute(case)
    assert judged(case, outcome) == []
    outcome.final[AREA] -= 1
    assert rules(case, outcome) == {"atomicity"}
    outcome.final[AREA] += 1
    highest = max(range(2), key=lambda t: int(outcome.logs[t].max()))
    outcome.logs[highest][-1, 0] -= np.uint64(1)
    assert "atomicity" in rules(case, outcome)


def test_swapped_values() -> None:
    """Every swap of two different logged values of a counter is a step back in one thread or both."""
    add = Action("add", way=ADD_RMW)
    case = hand_made("t4240", (add,), (add,), words=(Word("counter", 0, 4),), iterations=20)
    outcome = execute(case)
    outcome.logs[0][3, 0], outcome.logs[0][9, 0] = outcome.logs[0][9, 0], outcome.logs[0][3, 0]
    assert rules(case, outcome) == {"coherence"}


def test_own_bits_stay() -> None:
    bodies = tuple((Action("alter", way=Alu.OR, value=1 << t), Action("alter", way=Alu.XOR, value=1 << t)) for t in range(2))
    case = hand_made("corei7", *bodies, words=(Word("bits", 0, 8),))
    outcome = execute(case)
    assert judged(case, outcome) == []
    outcome.logs[1][5, 0] ^= np.uint64(2)
    assert rules(case, outcome) == {"atomicity"}
    outcome.logs[1][5, 0] ^= np.uint64(2)
    outcome.final[AREA] ^= 1
    assert rules(case, outcome) == {"final"}


@pytest.mark.parametrize("function", [f for f in Alu if f != Alu.CAS])
def test_scratch_functions(function: Alu) -> None:
    body = Action("alter", way=function, value=5), Action("set", value=9), Action("look")
    case = hand_made("t4240", body, words=(Word("scratch", 0, 2, 0),), iterations=4)
    outcome = execute(case)
    assert judged(case, outcome) == []
    outcome.logs[0][2, 0] ^= np.uint64(8)
    assert rules(case, outcome) == {"atomicity"}


def test_final_memory_is_the_last_store() -> None:
    case = hand_made("corei7", (store(0),), words=(DATA,))
    outcome = execute(case)
    outcome.final[AREA] -= 1
    assert rules(case, outcome) == {"final"}


def test_several_writers() -> None:
    bodies = tuple((Action("put", way=way), Action("get")) for way in (PUT_STORE, PUT_XCHG, PUT_CAS))
    case = hand_made("corei7", *bodies, words=(Word("multi", 0, 8),), iterations=20)
    outcome = execute(case)
    assert judged(case, outcome) == []
    seen = outcome.logs[0][:, 0]
    first, last = int(seen[0]), int(seen[-1])
    assert first != last
    seen[0], seen[-1] = last, first
    assert rules(case, outcome) & {"coherence", "atomicity"}


@pytest.mark.parametrize(("accesses", "final", "expected"), [
    # (thread, value read or None, value written or None) in program order
    ([(0, None, 1), (1, 1, None), (1, 0, None)], 1, "coherence"),                         # 1 before the initial 0
    ([(0, None, 1), (1, None, 2), (2, 1, None), (2, 2, None), (3, 2, None), (3, 1, None)], 2, "coherence"),
    ([(0, None, 1), (1, None, 2), (2, 1, None), (2, 2, None), (3, 1, None), (3, 2, None)], 2, None),
    ([(0, None, 1), (1, None, 2), (2, 1, None), (2, 2, None)], 1, "coherence"),           # memory ends with the older one
    ([(0, 0, 1), (1, 0, 2)], 2, "atomicity"),                                             # both replaced the initial value
    ([(0, 0, 1), (1, 1, 2)], 2, None),
    ([(0, 0, 1), (1, 1, 2)], 1, "final"),
    ([(0, 2, 1), (1, 1, 2)], 2, "atomicity"),                                             # each read the other's
    ([(0, None, 1), (1, 1, 2), (2, None, 3), (3, 1, None), (3, 3, None), (3, 2, None)], 2, "coherence"),   # 3 between 1 and 2
    ([(0, None, 1), (0, 0, None)], 1, "coherence"),                                       # its own store missed
    ([(0, None, 1), (1, 5, None)], 1, "thin air"),
    ([(0, None, 1)], 5, "thin air"),
])
def test_order_of_writes(accesses: list[tuple[int, int | None, int | None]], final: int, expected: str | None) -> None:
    thread = [a[0] for a in accesses]
    found = write_order(thread, [a[1] is not None for a in accesses], [a[1] or 0 for a in accesses], [a[2] is not None for a in accesses],
                        [a[2] or 0 for a in accesses], final)
    assert (found and found[0]) == expected


def test_corrupted_logs_are_noticed() -> None:
    """One random logged value replaced by another value that was logged there: noticed unless memory could have returned that as well."""
    case = small_case("corei7", "mesif", 1)
    outcome = execute(case)
    rng = np.random.default_rng(1)
    tried = noticed = 0
    while tried < 60:
        log = outcome.logs[rng.integers(len(outcome.logs))]
        if not log.size:
            continue
        row, column = (int(rng.integers(n)) for n in log.shape)
        other = log[(row + len(log) // 2) % len(log), column]
        if other == log[row, column]:
            continue
        kept, log[row, column] = log[row, column], other
        tried += 1
        noticed += bool(judge(history_of(case, outcome), total_store_order=True))
        log[row, column] = kept
    assert judged(case, outcome) == []
    assert noticed >= 0.7 * tried
