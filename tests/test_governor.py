"""The ondemand governor: its rule and its search by arithmetic, what a P-state does to a machine, and governed runs of known load."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_text import SMALL, write
from program import LINE, Program, X, at, run

from cohsim.cli.main import main
from cohsim.errors import InputError
from cohsim.experiment import Experiment, prepare
from cohsim.governor import PStates, Settled, governed, next_clock, p_states, settle
from cohsim.machine import CompiledMachine, compile_machine, load_machine
from cohsim.machine.latency import load_to_use_fs
from cohsim.machine.rules import stages_of
from cohsim.results.hdf5 import read_result, write_result
from cohsim.results.summary import summarize
from cohsim.sweep import Point, run_point

MHZ = 10**6
I7 = PStates(Fraction(1600 * MHZ), Fraction(133333000), Fraction(2666667000))
"""Nine clocks: 1600 MHz and k times 133.333 MHz more, k = 1 to 7, and 2666.667 MHz."""

I7_CLOCKS = [*(Fraction(1600 * MHZ + k * 133333000) for k in range(8)), Fraction(2666667000)]
TEN = PStates(Fraction(1000 * MHZ), Fraction(100 * MHZ), Fraction(2000 * MHZ))


# ---- the rule


@pytest.mark.parametrize(
    ("clock", "percent", "asked"),
    [
        (1500, 96, 2000),  # above the threshold: the highest, not the next
        (1500, 95, 1500),  # not above it
        (1500, "95.99", 1500),  # whole per cent
        (1500, 92, 1500),  # between 92 and 95: as it is
        (1500, "91.99", 1500),  # 91 x 1500 / 92 = 1483.7, rounded up to a step
        (1500, 85, 1400),  # 1385.9
        (2000, 100, 2000),
        (2000, 92, 2000),
        (2000, 69, 1500),  # 69 x 2000 / 92 = 1500 exactly
        (2000, 70, 1600),  # 1521.7
        (2000, 46, 1000),
        (2000, 45, 1000),  # 978.3: never below the lowest
        (1000, 0, 1000),
        (1000, 91, 1000),
        (1000, 96, 2000),
    ],
)
def test_rule(clock: int, percent: int | str, asked: int) -> None:
    assert next_clock(TEN, Fraction(clock * MHZ), Fraction(percent) / 100) == asked * MHZ


@pytest.mark.parametrize(
    ("clock", "percent", "asked"),
    [
        (2000, 96, 2000),
        (1500, 95, 1900),  # 1950: the lower of two that are as close
        (1500, "95.99", 1900),
        (2000, 8, 1100),  # 1080
        (1000, 8, 1100),  # whatever the present clock
        (2000, 4, 1000),  # 1040
        (2000, "4.99", 1000),
        (2000, 0, 1000),
        (1000, 56, 1600),
    ],
)
def test_rule_of_later_kernels(clock: int, percent: int | str, asked: int) -> None:
    assert next_clock(TEN, Fraction(clock * MHZ), Fraction(percent) / 100, "ondemand-3.17") == asked * MHZ


def test_clocks_that_a_file_rounds_are_met() -> None:
    """69 x 2666.667 / 92 = 2000.00025 MHz, and the P-state is written as 1600 + 3 x 133.333 = 1999.999."""
    assert next_clock(I7, I7.highest, Fraction(69, 100)) == I7_CLOCKS[3]
    assert next_clock(I7, I7.highest, Fraction(70, 100)) == I7_CLOCKS[4]
    assert I7.at_least(Fraction(2600 * MHZ)) == Fraction(2666667000)  # not 1600 + 8 x 133.333 = 2666.664
    assert I7.at_least(Fraction(5000 * MHZ)) == Fraction(2666667000)


def test_the_highest_clock_need_not_be_a_step() -> None:
    assert replace(TEN, highest=Fraction(1930 * MHZ)).at_least(Fraction(1905 * MHZ)) == 1930 * MHZ
    assert replace(TEN, highest=Fraction(1000 * MHZ)).at_least(Fraction(0)) == 1000 * MHZ


# ---- the search


def search(states: PStates, load: dict[int, str]) -> tuple[Settled[Fraction], list[tuple[int, int]]]:
    """Runs whose load at a clock in MHz is known: what was chosen, and (clock, clock asked for) of each trial in MHz."""
    found = settle(states, lambda clock: clock, lambda clock: Fraction(load[int(clock / MHZ)]) / 100)
    return found, [(round(t.clock_hz / MHZ), round(t.next_hz / MHZ)) for t in found.trials]


def test_a_busy_cpu_keeps_the_highest_clock() -> None:
    found, trials = search(TEN, {2000: "100"})
    assert trials == [(2000, 2000)] and found.chosen == 0 and found.result == 2000 * MHZ


def test_work_in_cycles_is_foreseen_in_one_step() -> None:
    """1.2 GHz of work: 60 % at 2 GHz asks for 1304, 1400 MHz; 85.7 % there asks for 85 x 1400 / 92 = 1293, 1300 MHz; 92.3 % stays."""
    found, trials = search(TEN, {2000: "60", 1400: "85.7", 1300: "92.3"})
    assert trials == [(2000, 1400), (1400, 1300), (1300, 1300)] and found.chosen == 2 and found.result == 1300 * MHZ


def test_work_that_waits_for_memory_goes_down_step_by_step() -> None:
    """Half busy at any clock: 0.5 / 0.92 of the clock each time."""
    found, trials = search(TEN, {2000: "50", 1100: "50", 1000: "50"})
    assert trials == [(2000, 1100), (1100, 1000), (1000, 1000)] and found.chosen == 2


def test_of_clocks_that_follow_each_other_the_highest_is_chosen() -> None:
    """Half busy at 2 GHz, overloaded at the 1.1 GHz that this asks for, and back."""
    found, trials = search(TEN, {2000: "50", 1100: "97"})
    assert trials == [(2000, 1100), (1100, 2000)] and found.chosen == 0 and found.result == 2000 * MHZ
    found, trials = search(TEN, {2000: "60", 1400: "60", 1000: "96"})
    assert trials == [(2000, 1400), (1400, 1000), (1000, 2000)] and found.chosen == 0


def test_the_later_rule_finds_its_clock_from_above() -> None:
    """0.9 GHz of work: 45 % at 2 GHz asks for 1450, so 1400 MHz; 64 % there for 1640, 1600; 56 % for 1560, 1600."""
    loads = {2000: 45, 1400: Fraction(450, 7), 1600: Fraction(225, 4)}
    found = settle(TEN, lambda clock: clock, lambda clock: Fraction(loads[int(clock / MHZ)]) / 100, governor="ondemand-3.17")
    assert [t.clock_hz / MHZ for t in found.trials] == [2000, 1400, 1600] and found.chosen == 2
    circle = {2000: 45, 1400: Fraction(60), 1600: Fraction(40)}  # 60 % asks for 1600 again, 40 % for 1400
    found = settle(TEN, lambda clock: clock, lambda clock: circle[int(clock / MHZ)] / Fraction(100), governor="ondemand-3.17")
    assert [t.next_hz / MHZ for t in found.trials] == [1400, 1600, 1400] and found.chosen == 2 and found.result == 1600 * MHZ


@given(st.lists(st.integers(0, 10000), min_size=9, max_size=9), st.sampled_from(["ondemand", "ondemand-3.17"]))
def test_any_load_ends_in_a_clock_that_keeps_itself_or_in_a_circle(loads: list[int], governor: str) -> None:
    tried: list[Fraction] = []

    def once(clock: Fraction) -> Fraction:
        assert clock in I7_CLOCKS and clock not in tried
        tried.append(clock)
        return clock

    found = settle(I7, once, lambda clock: Fraction(loads[I7_CLOCKS.index(clock)], 10000), governor=governor)
    assert len(found.trials) == len(tried) <= 9 and found.result == tried[found.chosen]
    last = found.trials[-1]
    if last.next_hz == last.clock_hz:
        assert found.chosen == len(tried) - 1
    else:
        circle = tried[[float(clock) for clock in tried].index(last.next_hz) :]
        assert len(circle) > 1 and found.result == max(circle)


# ---- a machine in a P-state


def test_p_states_of_the_bundled_machines() -> None:
    assert p_states(load_machine("corei7")) == I7 == p_states(load_machine("xeon_x5550"))
    with pytest.raises(InputError, match="--governor: t4240 states no lowest clock; add lowest: and step:"):
        p_states(load_machine("t4240"))


SLOW = SMALL.replace("core: 2 GHz [a]", "core: 2 GHz [a]\n  lowest: 1 GHz [a]\n  step: 100 MHz [a]")
FOLLOWS = {
    "core_period_fs", "issue_fs", "store_forward_fs", "mispredict_fs", "pause_fs", "fence_full_fs", "fence_light_fs", "fence_instr_fs",
    "fence_load_fs", "fence_store_fs", "l1_hit_fs", "l1_port_fs", "l2_hit_fs", "l2_hop_fs", "l2_bank_fs", "l2_load_line_fs", "l2_store_line_fs",
    "l1_invalidate_fs", "snoop_fs", "snoop_dirty_fs",
}  # fmt: skip
"""What a core, its L1s and the L2 of its cluster take; all other times belong to the fabric, the home, memory (or the clock of the fabric)."""


def test_which_times_follow_the_clock(tmp_path: Path) -> None:
    spec = load_machine(write(tmp_path, SLOW))
    fast, slow = compile_machine(spec), compile_machine(spec.at_clock(Fraction(1000 * MHZ)))
    for one in fields(CompiledMachine):
        before, after = getattr(fast, one.name), getattr(slow, one.name)
        assert after == (2 * before if one.name in FOLLOWS else before), one.name
    assert fast.core_period_fs == 500_000 and fast.snoop_fs > 0 and fast.memory_fs > 0 and fast.l3_data_fs > 0


def test_home_times_in_cycles_keep_their_time(tmp_path: Path) -> None:
    """A file may state the home's own times in core cycles: they are no core's."""
    text = SLOW
    for times in ("lookup: 4", "lookup: 8"), ("hop: 5", "hop: 10"), ("occupancy: 1", "occupancy: 2"):
        text = text.replace(f"{times[0]} fabric cycle{'' if times[0][-1] == '1' else 's'} ", f"{times[1]} cycles ")
    spec = load_machine(write(tmp_path, text))
    slow = compile_machine(spec.at_clock(Fraction(1000 * MHZ)))
    assert (slow.home_lookup_fs, slow.hop_fs, slow.home_occupancy_fs) == (4_000_000, 5_000_000, 1_000_000) and slow.l2_hop_fs == 3_000_000


def test_the_clock_of_the_file_changes_nothing() -> None:
    spec = load_machine("corei7")
    assert compile_machine(spec.at_clock(I7.highest)) == compile_machine(spec)
    assert spec.at_clock(Fraction(1600 * MHZ)).dump() == spec.dump()


def test_totals_change_by_their_part_in_the_cores() -> None:
    """corei7 at 1600 MHz, 0.625 ns a cycle instead of 0.375. L2: 10 cycles, +2.5 ns. L3 40 cycles = 15 ns: +2.5 ns, memory 67.6 ns: +2.5 ns.

    Another core's clean line: 65 cycles = 24.375 ns, of which L2 10 cycles, four hops of 6, a lookup of 8 and a transfer of 2 fabric cycles of
    0.46875 ns; the other core's snoop takes the rest, 4.6875 ns, times 5/3: 24.375 + 2.5 + 3.125. Modified: 18 cycles more, 30 + 18 x 0.625.
    """
    spec = load_machine("corei7").at_clock(Fraction(1600 * MHZ))
    stages, faults = stages_of(spec)
    assert not faults and spec.core_period_fs == 625_000
    ns = {path: load_to_use_fs(stages, path) / 1e6 for path in ("home", "memory", "remote_clean", "remote_dirty")}
    assert ns == pytest.approx({"home": 17.5, "memory": 70.1, "remote_clean": 30.0, "remote_dirty": 41.25}, abs=2e-5)


def load_after(first: list[int], cpu: int = 0) -> Program:
    """Loads ``first`` one after the other, then a load of X and what depends on it."""
    p = at(2_000_000_000)
    for address in first:
        p.load(address, dep=True)
    p.load(X, dep=True)
    p.probe_end(cpu)
    return p


@pytest.mark.parametrize(("first", "core_cycles", "level"), [([], 10, "memory"), ([X, *(X + 64 * LINE * 8 * k for k in range(1, 20))], 10, "home"),
                                                             ([X, *(X + 64 * LINE * k for k in range(1, 9))], 10, "l2"), ([X], 4, "l1")])
def test_core_runs_loads_exactly_so_much_longer(first: list[int], core_cycles: int, level: str) -> None:
    """Executed, to the femtosecond: from 2666.667 to 1600 MHz a load takes 250000 fs longer for each core cycle on its path, wherever it ends.

    19 lines of one L2 set (8 ways) push X to the L3; 8 of one L1 set (64 sets, 8 ways), in other L2 sets, to the L2.
    """
    took = {}
    spec = load_machine("corei7", ("caches.l2.adjacent_line=no",))
    for clock in (None, Fraction(1600 * MHZ)):
        m = compile_machine(spec.at_clock(clock))
        with_load, without = load_after(first), load_after(first)
        del without.ops[-3]
        runs = [run(m, [p]) for p in (with_load, without)]
        assert list(runs[0].served(0, len(with_load.ops) - 3)) == [level]
        took[clock] = (runs[0].end_fs() - runs[0].begin_fs[0]) - (runs[1].end_fs() - runs[1].begin_fs[0]), m.issue_fs
    (fast, fast_issue), (slow, slow_issue) = took[None], took[Fraction(1600 * MHZ)]
    assert slow - fast == core_cycles * 250_000, (fast, slow, fast_issue, slow_issue)


# ---- governed runs

PACKETS = """\
cohsim-trace 1
title "work instructions for each packet"
path forward
    work {work}
run
    source 100kpps frame 64B
    on packet forward
    warmup 100us measure 1ms
"""


def packets(tmp_path: Path, work: int, governor: str = "ondemand", **options: object) -> Experiment:
    """100 kpacket/s on one CPU; a packet is worth ``work`` instructions, 3.1 a cycle."""
    file = tmp_path / f"packets{work}.trace"
    file.write_text(PACKETS.format(work=work))
    return prepare("corei7", str(file), cpus=1, governor=governor, **options)  # type: ignore[arg-type]


def load_percent(work: int, clock: Fraction) -> float:
    """Share of 10 us that the work of one packet takes, in per cent."""
    return 100 * work / 3.1 / float(clock) / 10e-6


@pytest.mark.parametrize(
    ("work", "clocks"),
    [
        # 62.5 % at 2666.667 asks for 62 x 2666.667 / 92 = 1797, the third P-state; 89.3 % there for 89 x 1866.666 / 92 = 1806, itself
        (51667, [I7.highest, I7_CLOCKS[2]]),
        # 30.5 % asks for 870: the lowest; 50.8 % there for less
        (25213, [I7.highest, I7_CLOCKS[0]]),
        # 85.5 % asks for 85 x 2666.667 / 92 = 2464, the eighth; 90.2 % of 2533.331 for 2479, itself
        (70680, [I7.highest, I7_CLOCKS[7]]),
        # 93.5 % is in between: no change
        (77293, [I7.highest]),
        (81000, [I7.highest]),  # 98 %
    ],
)
def test_known_load_gives_the_p_state_worked_out_by_hand(tmp_path: Path, work: int, clocks: list[Fraction]) -> None:
    experiment = packets(tmp_path, work)
    result, trials = governed(experiment)
    assert [t.clock_hz for t in trials] == [float(clock) for clock in clocks]
    assert [100 * t.load for t in trials] == pytest.approx([load_percent(work, clock) for clock in clocks], abs=0.35)
    assert trials[-1].next_hz == trials[-1].clock_hz
    assert result.number("/run/core_period_fs") == round(10**15 / clocks[-1])
    assert result.number("/clock/chosen") == len(clocks) - 1
    summary = summarize(result)
    assert summary["clock"]["core_hz"] == float(clocks[-1]) and summary["settings"]["governor"] == "ondemand"
    assert 100 * summary["cpu_utilization"] == pytest.approx(100 * trials[-1].load)


def test_the_prepared_governor_decides(tmp_path: Path) -> None:
    """30.5 %: 1600 + 30 x 10.66667 = 1920, closest 1866.666; there 43.6 %, 2058.7: 1999.999; there 40.7 %, 2026.7, itself."""
    result, trials = governed(packets(tmp_path, 25213, "ondemand-3.17"))
    assert [t.clock_hz for t in trials] == [float(clock) for clock in (I7.highest, I7_CLOCKS[2], I7_CLOCKS[3])]
    assert result.settings["governor"] == "ondemand-3.17"
    result, trials = governed(packets(tmp_path, 25213, "performance"))
    assert len(trials) == 2 and result.settings["governor"] == "ondemand"


def test_same_inputs_same_result_and_every_caller_is_governed(tmp_path: Path) -> None:
    from cohsim.sweep.point import result_digest

    experiment = packets(tmp_path, 51667, check=True)
    one, two = governed(experiment)[0], experiment.run()
    assert result_digest(one) == result_digest(two) and one.data["/clock/chosen"] == 1
    stepped = packets(tmp_path, 51667, check=True, lookahead=False).run()
    settings = "/provenance/settings"
    assert result_digest(replace(one, data={**one.data, settings: ""})) == result_digest(replace(stepped, data={**stepped.data, settings: ""}))


def test_the_trial_at_the_highest_clock_is_the_run_without_governor(tmp_path: Path) -> None:
    kept = governed(packets(tmp_path, 81000))[0]
    plain = prepare("corei7", str(tmp_path / "packets81000.trace"), cpus=1).run()
    assert not [path for path in plain.data if path.startswith("/clock")]
    for path, value in plain.data.items():
        if path != "/provenance/settings":
            assert repr(kept.data[path]) == repr(value), path
    assert summarize(plain)["clock"] == {"governor": "performance", "core_hz": pytest.approx(2666.667e6, rel=1e-6), "trials": [], "alternates": []}


def test_an_interrupted_trial_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cohsim import experiment as module

    whole = module.simulate
    monkeypatch.setattr(module, "simulate", lambda *inputs, **options: replace(whole(*inputs, **options), stop="interrupted"))
    with pytest.raises(KeyboardInterrupt):
        packets(tmp_path, 25213).run()


def test_a_busy_loop_stays_at_the_highest_clock() -> None:
    result, trials = governed(prepare("corei7", "micro/private_inc", cpus=2, warmup_ns=1e3, measure_ns=1e4))
    assert [(t.clock_hz, t.next_hz) for t in trials] == [(float(I7.highest), float(I7.highest))] and trials[0].load == pytest.approx(1.0)
    assert result.number("/run/core_period_fs") == 375_000


def test_file_and_report_keep_the_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packets(tmp_path, 51667)
    trace, h5, out = str(tmp_path / "packets51667.trace"), tmp_path / "r.h5", tmp_path / "r.json"
    assert main(["run", "corei7", trace, "--cpus", "1", "--governor", "ondemand", "-o", str(h5), "--json", str(out), "--no-progress"]) == 0
    printed = capsys.readouterr()
    assert "core clock 1867 MHz, governor ondemand; busiest CPU's load at 2667 MHz 62." in printed.out
    assert "asks for 1867 MHz" in printed.err and "1867 MHz: busiest CPU at 89." in printed.err
    block = json.loads(out.read_text())["clock"]
    assert block == summarize(read_result(h5))["clock"] and block["governor"] == "ondemand" and block["alternates"] == []
    assert [t["core_hz"] for t in block["trials"]] == [float(I7.highest), float(I7_CLOCKS[2])] and block["core_hz"] == float(I7_CLOCKS[2])
    assert main(["report", str(h5)]) == 0
    assert "core clock 1867 MHz, governor ondemand; busiest CPU's load at 2667 MHz 62." in capsys.readouterr().out


def test_report_says_where_it_alternates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """4.4 % at 2666.667 asks for 1600 + 4 x 10.66667 = 1643, closest 1600; 7.3 % there for 1675, 1733.333; 6.7 % there for 1664, 1600 again."""
    result, trials = governed(packets(tmp_path, 3621, "ondemand-3.17"))
    assert [t.clock_hz for t in trials] == [float(clock) for clock in (I7.highest, I7_CLOCKS[0], I7_CLOCKS[1])]
    assert trials[-1].next_hz == 1.6e9 and result.number("/clock/chosen") == 2
    assert summarize(result)["clock"]["alternates"] == [1.6e9, float(I7_CLOCKS[1])]
    write_result(result, tmp_path / "r.h5")
    assert main(["report", str(tmp_path / "r.h5")]) == 0
    note = "note: the ondemand-3.17 governor does not settle, it alternates between 1600 MHz and 1733 MHz: the figures are those of 1733 MHz"
    assert note in capsys.readouterr().out


def test_each_seed_and_each_point_of_a_sweep_has_its_own_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packets(tmp_path, 51667)
    trace = str(tmp_path / "packets51667.trace")
    outcome = run_point(Point("corei7", trace, cpus=1, governor="ondemand"))
    assert outcome.summary is not None and outcome.summary["clock"]["core_hz"] == float(I7_CLOCKS[2])
    options = ["corei7", trace, "--cpus", "1", "--governor", "ondemand", "--no-progress"]
    assert main(["run", *options, "--seeds", "2", "--json", str(tmp_path / "s.json")]) == 0
    assert "core clock, governor ondemand: 1867 MHz (2 seeds)" in capsys.readouterr().out
    assert [r["clock"]["core_hz"] for r in json.loads((tmp_path / "s.json").read_text())["runs"]] == [float(I7_CLOCKS[2])] * 2
    options += ["--load", "50kpps", "--jobs", "1"]
    assert main(["sweep", *options, "--set", "cores.instructions_per_cycle=3.1,1.55", "-o", str(tmp_path / "s.h5")]) == 0
    printed = capsys.readouterr().out  # half the load, and then half the rate
    assert "cores.instructions_per_cycle 3.1, cpus 1: core clock, governor ondemand: 1600 MHz (1 run)" in printed
    assert "cores.instructions_per_cycle 1.55, cpus 1: core clock, governor ondemand: 1867 MHz (1 run)" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t4240", "ipv6_fwd", "--governor", "ondemand"], "--governor: t4240 states no lowest clock; add lowest: and step:"),
        (["corei7", "vlan_fwd", "--governor", "ondemand", "--load", "max-no-loss"], "--governor: ondemand chooses the clock for one load"),
        (["t4240", "ipv6_fwd", "--governor", "ondemand", "--seeds", "2"], "--governor: t4240 states no lowest clock"),
        (["corei7", "vlan_fwd", "--governor", "powersave"], "'powersave' is not one of 'performance', 'ondemand', 'ondemand-3.17'"),
        (["corei7", "vlan_fwd", "--set", "clocks.core=1.5GHz"], "clocks.lowest: 1600 MHz is more than clocks.core, 1.5 GHz"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_python_callers_get_the_same_errors() -> None:
    with pytest.raises(InputError, match="'conservative' is not modelled; choose from performance, ondemand, ondemand-3.17"):
        prepare("corei7", "micro/atomic_inc", cpus=1, governor="conservative")
    with pytest.raises(InputError, match="states no lowest clock"):
        governed(prepare("t4240", "micro/atomic_inc", cpus=1))


def test_the_command_of_the_page_repeats_the_run(tmp_path: Path) -> None:
    from cohsim.report.story import command_of

    assert command_of(packets(tmp_path, 25213).run()).endswith("--governor ondemand")
