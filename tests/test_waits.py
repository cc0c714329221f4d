"""CPUs that spin for ever: when the run fails, when it only says so, and when it must not say anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cohsim.cli.main import main

HEAD = """cohsim-trace 1
title "waits"
kernel 3.12
struct word64 size 64
    v 0 8
object a word64 shared align 128
object b word64 shared align 128
object flag word64 shared align 128
"""
FIRST = HEAD.count("\n") + 1  # line number of the first line of the text that follows

TWICE = HEAD + """path twice
    spin_lock a.v+0:4
    work 10
    spin_lock a.v+0:4
    spin_unlock a.v+0:4
run
    loop twice
"""


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str, machine: str = "corei7") -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of ``cohsim run``."""
    file = tmp_path / "waits.trace"
    file.write_text(text)
    code = main(["run", machine, str(file), "--no-progress", *options])
    return code, *capsys.readouterr()


def summary(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str, machine: str = "corei7") -> dict:
    code, out, err = run(tmp_path, capsys, text, "--json", "-", *options, machine=machine)
    assert (code, err) == (0, "")
    return json.loads(out)


def notes(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("note: ")]


@pytest.mark.parametrize("machine", ["corei7", "t4240"])
@pytest.mark.parametrize("kind", ["kernel", "ticket", "tas", "ttas", "mcs", "queued"])
def test_lock_taken_twice_by_one_cpu(tmp_path, capsys, machine, kind):
    chosen = () if kind == "kernel" else ("--lock", f"a.v={kind}")
    code, out, err = run(tmp_path, capsys, TWICE, "--cpus", "1", "--warmup", "50us", "--measure", "500us", *chosen, machine=machine)
    assert (code, out) == (1, "")
    function = "spin_lock" if kind == "kernel" else f"{kind}_lock"
    assert err.count("\n") == 1
    assert f"waits: no CPU can go on: CPU 0 spins in {function} (line {FIRST + 3}) on " in err and "a.v" in err
    waited = float(err.rsplit("for ", 1)[1].removesuffix(" us\n"))
    assert 549 < waited < 550  # all of the run but for the way there: two locks and ten instructions


def test_two_locks_in_opposite_order(tmp_path, capsys):
    text = HEAD + """path left
    spin_lock a.v+0:4
    work 4000
    spin_lock b.v+0:4
    spin_unlock b.v+0:4
    spin_unlock a.v+0:4
path right
    spin_lock b.v+0:4
    work 4000
    spin_lock a.v+0:4
    spin_unlock a.v+0:4
    spin_unlock b.v+0:4
run
    cpu 0 runs left
    cpu 1 runs right
"""
    code, out, err = run(tmp_path, capsys, text, "--cpus", "2", "--lock", "a.v=tas", "--lock", "b.v=tas")
    assert (code, out) == (1, "")
    assert f"CPU 0 spins in tas_lock (line {FIRST + 3}) on b.v, which is 1" in err
    assert f"CPU 1 spins in tas_lock (line {FIRST + 9}) on a.v, which is 1" in err


WAITS = """path waits
    f = load flag.v
    LOOP f == 0
        f = load flag.v
path works
    work 100
"""


@pytest.mark.parametrize("loop", ["while", "spin while"])
def test_flag_that_nobody_sets(tmp_path, capsys, loop):
    text = HEAD + WAITS.replace("LOOP", loop) + "run\n    loop waits\n"
    code, out, err = run(tmp_path, capsys, text, "--cpus", "3")
    assert (code, out) == (1, "")
    assert f"CPUs 0, 1, 2 spin in waits (line {FIRST + 3}) on flag.v, which is 0, for " in err


@pytest.mark.parametrize("loop", ["while", "spin while"])
@pytest.mark.parametrize("machine", ["corei7", "t4240"])
def test_one_cpu_stuck_while_another_works(tmp_path, capsys, loop, machine):
    text = HEAD + WAITS.replace("LOOP", loop) + "run\n    cpu 0 runs works\n    cpu 1 runs waits\n    warmup 10us measure 100us\n"
    found = summary(tmp_path, capsys, text, "--cpus", "2", machine=machine)
    assert len(found["stuck"]) == 1 and found["iterations"] > 100
    row = dict(found["stuck"][0])
    waited = row.pop("waited_ns")
    assert row == {"cpu": 1, "function": "waits", "line": FIRST + 3, "object": "flag", "offset": 0, "field": "v", "lock": "", "value": 0,
                   "others": found["iterations"]}
    # A loop that is marked is known from its entry, any other by what the measured time shows.
    assert waited == 100_000 if loop == "while" else 109_000 < waited < 110_000
    without = summary(tmp_path, capsys, text, "--cpus", "2", "--no-lookahead", machine=machine)
    assert without["stuck"] == found["stuck"]
    _, out, _ = run(tmp_path, capsys, text, "--cpus", "2", machine=machine)
    assert notes(out) == [f"note: no progress, while another CPU completed {found['iterations']:,} iterations: CPU 1 spins in waits "
                          f"(line {FIRST + 3}) on flag.v, which is 0, for {waited / 1000:,.1f} us"]


def test_result_file_keeps_the_waits(tmp_path, capsys):
    text = HEAD + WAITS.replace("LOOP", "while") + "run\n    cpu 0 runs works\n    cpu 1 runs waits\n"
    _, before, _ = run(tmp_path, capsys, text, "--cpus", "2", "-o", str(tmp_path / "o.h5"))
    assert main(["report", str(tmp_path / "o.h5")]) == 0
    assert notes(capsys.readouterr().out) == notes(before) != []


def test_a_value_that_is_read_once(tmp_path, capsys):
    text = HEAD + "path waits\n    f = load flag.v\n    spin while f == 0\n        pause\nrun\n    loop waits\n"
    code, _, err = run(tmp_path, capsys, text, "--cpus", "1")
    assert code == 1 and f"CPU 0 spins in waits (line {FIRST + 3}) on nothing that it reads from memory" in err


def test_stuck_after_some_iterations(tmp_path, capsys):
    """CPU 1 stops at its 100th iteration; each takes 1000 instructions, so that is well before half of the measured time."""
    text = HEAD + """path counted
    work 1000
    n = load a.v
    n = n + 1
    store a.v = n
    if n == 100
        f = load flag.v
        spin while f == 0
            f = load flag.v
path works
    work 1000
run
    cpu 0 runs OTHER
    cpu 1 runs counted
    warmup 0us measure 500us
"""
    found = summary(tmp_path, capsys, text.replace("OTHER", "works"), "--cpus", "2")
    assert [(row["cpu"], row["object"]) for row in found["stuck"]] == [(1, "flag")]
    assert 250_000 < found["stuck"][0]["waited_ns"] < 500_000 - 99 * 1000 / 4 / 3  # at most 4 instructions per cycle, below 3 GHz
    code, _, err = run(tmp_path, capsys, text.replace("    cpu 0 runs OTHER\n", "    cpu 0 idle\n"), "--cpus", "2")
    assert code == 1 and "no CPU can go on: CPU 1 spins in counted" in err


TICKS = HEAD + """path stuck
    spin_lock a.v+0:4
    spin_lock a.v+0:4
path tick
    n = 0
    spin while n < 3
        n = n + 1
run
    loop stuck
    timer 20us runs tick
    warmup 50us measure 200us
"""


def test_interrupts_do_not_hide_the_program_below(tmp_path, capsys):
    """A tick enters and leaves a wait loop of its own; the wait that it interrupts stays one wait. Another tick might end it: no failure."""
    found = summary(tmp_path, capsys, TICKS, "--cpus", "2")
    assert [(row["cpu"], row["object"]) for row in found["stuck"]] == [(0, "a"), (1, "a")]
    assert all(249_000 < row["waited_ns"] < 250_000 for row in found["stuck"])
    code, out, _ = run(tmp_path, capsys, TICKS, "--cpus", "2")
    assert code == 0 and "measure longer (--measure); it may take for ever: CPU 0 spins in spin_lock" in notes(out)[0]


def test_waits_that_a_timer_ends(tmp_path, capsys):
    text = HEAD + """path waits
    f = load flag.v
    spin while f == 0
        f = load flag.v
    store flag.v = 0
path tick
    store flag.v = 1
run
    loop waits
    timer 20us runs tick
    warmup 20us measure TIME
"""
    found = summary(tmp_path, capsys, text.replace("TIME", "200us"), "--cpus", "1")
    assert found["iterations"] in (9, 10, 11) and found["stuck"] == []
    rare = text.replace("TIME", "30us").replace("timer 20us", "timer 1ms")  # the first tick comes within the first millisecond
    found = summary(tmp_path, capsys, rare, "--cpus", "1", "--warmup", "1100us")
    assert found["iterations"] == 0 and len(found["stuck"]) == 1  # yet no failure: a tick is to come


def test_idle_cpu_that_nobody_can_wake(tmp_path, capsys):
    text = HEAD + WAITS.replace("LOOP", "spin while") + """path sleeps
    forever
        wait
path woken
    store flag.v = 1
run
    cpu 0 runs OTHER
    cpu 1 runs sleeps once
    interrupt wake runs woken
path wakes
    work 1000
    ipi wake, 1
    call spins()
function spins()
    f = load flag.v
    spin while f == 0
        f = load flag.v
"""
    code, _, err = run(tmp_path, capsys, text.replace("OTHER", "waits"), "--cpus", "2")
    assert code == 1 and "no CPU can go on: CPU 0 spins in waits" in err
    found = summary(tmp_path, capsys, text.replace("OTHER", "wakes"), "--cpus", "2")
    assert found["iterations"] > 10 and found["stuck"] == []


def test_the_others_have_ended(tmp_path, capsys):
    """A CPU that ran once has done its work: the run counts, and says who waits."""
    text = HEAD + WAITS.replace("LOOP", "spin while") + "run\n    cpu 0 runs works once\n    cpu 1 runs waits\n"
    code, out, err = run(tmp_path, capsys, text, "--cpus", "2")
    assert (code, err) == (0, "") and "CPU 1 spins in waits" in notes(out)[0]


def test_a_fair_lock_makes_cpus_wait_but_not_for_ever(tmp_path, capsys):
    """20000 instructions under a ticket lock, eight CPUs: each waits seven eighths of the time."""
    text = HEAD + "path p\n    ticket_lock a.v\n    work 20000\n    ticket_unlock a.v\nrun\n    loop p\n"
    for window in ("500us", "120us", "60us", "30us"):
        code, out, err = run(tmp_path, capsys, text, "--cpus", "8", "--warmup", "100us", "--measure", window, machine="t4240")
        assert (code, err) == (0, "") and not [note for note in notes(out) if "spin" in note and "no iteration" not in note], window


def test_loops_that_end_by_themselves_are_no_failure(tmp_path, capsys):
    counting = "path p\n    n = 0\n    spin while n < 1000000000\n        n = n + 1\nrun\n    loop p\n"
    code, out, _ = run(tmp_path, capsys, HEAD + counting, "--cpus", "2")
    assert code == 0 and "measure longer" in notes(out)[0]
    walking = "path p\n    repeat 100000\n        load a.v\n        work 100\nrun\n    loop p\n"
    found = summary(tmp_path, capsys, HEAD + walking, "--cpus", "2")
    assert found["iterations"] == 0 and found["stuck"] == []


def test_short_runs_ask_for_longer_ones(tmp_path, capsys):
    """80 ns: the first lock is on its way. 5 us: the loops have run, but less than 10 us is no proof."""
    for window in ("80ns", "5us"):
        code, out, err = run(tmp_path, capsys, TWICE, "--cpus", "2", "--warmup", "0us", "--measure", window)
        assert (code, err) == (0, "") and "no iteration was completed in the measured window: measure longer (--measure)" in notes(out)[0]
        assert ("spin_lock" in notes(out)[0]) == (window == "5us")
