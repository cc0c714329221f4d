"""``cohsim diff``: changes of the synthetic run computed by hand, conditions, exit codes, and a real run against itself."""

from __future__ import annotations

import dataclasses
import json
import math

import h5py
import pytest
import synthetic
from click.testing import CliRunner

from cohsim.cli.main import cli, main
from cohsim.errors import InputError
from cohsim.experiment import prepare
from cohsim.report.diff import Pair, compare, judge, parse_condition, render
from cohsim.results.hdf5 import write_result
from cohsim.results.result import Result
from cohsim.results.rundata import LINE_STATS


def changed_run():
    """Thread 1 spends its 0.3 ms of retries in ``forward`` instead, loses no reservation, completes 500 more; route+64 moves half as often."""
    run = synthetic.run_data()
    run.time_fs[1, 0, synthetic.category("issue")] = run.time_fs[1, 6, synthetic.category("retry")]
    run.time_fs[1, 6, synthetic.category("retry")] = 0
    run.count[1, 4:8] -= 200
    run.sc_failures[1, 6] = 0
    run.iterations[1] = 1500
    run.line_stats[2, LINE_STATS.index("transfers_far")] = 550
    run.line_stats[2, LINE_STATS.index("stall_fs")] = 200_000_000_000
    return run


def with_text(result: Result, **texts: str) -> Result:
    return dataclasses.replace(result, data={**result.data, **texts})


def with_settings(result: Result, **settings: object) -> Result:
    return with_text(result, **{"/provenance/settings": json.dumps({**result.settings, **settings})})


@pytest.fixture(scope="module")
def before():
    return synthetic.result()


@pytest.fixture(scope="module")
def after():
    return synthetic.result(changed_run())


@pytest.fixture(scope="module")
def comparison(before, after):
    return compare(before, after)


@pytest.fixture
def files(before, after, tmp_path):
    write_result(before, tmp_path / "a.h5")
    write_result(after, tmp_path / "b.h5")
    return [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]


def row(comparison, group, name):
    return next(r.values for r in comparison.groups[group] if r.name == name)


def run(*arguments):
    return CliRunner().invoke(cli, ["diff", *arguments])


def test_rates(comparison):
    rates = comparison.rates
    assert (comparison.per, comparison.throughput_unit) == ("iteration", "bit/s")
    assert rates["throughput"] == Pair(2e6 * 800, 2.5e6 * 800) and rates["throughput"].change_percent == 25.0
    assert rates["ns_per_iteration"] == Pair(1000.0, 800.0) and rates["ns_per_iteration"].change_percent == -20.0
    assert rates["cpu_utilization"].change == 0.0
    assert rates["retries"] == Pair(200 / 2000, 0.0)
    assert rates["line_moves"].a == pytest.approx(1330 / 2000) and rates["line_moves"].b == pytest.approx(680 / 2500)


def test_profiles_are_per_iteration(comparison):
    forward = row(comparison, "functions", "forward")
    assert (forward["ns"].a, forward["ns"].b) == (pytest.approx(100_000 / 2000), pytest.approx(400_000 / 2500))
    assert (forward["share"].a, forward["share"].b) == (pytest.approx(1 / 16), pytest.approx(4 / 16))
    release = row(comparison, "functions", "dst_release")
    assert (release["ns"].a, release["ns"].b) == (pytest.approx(1_500_000 / 2000), pytest.approx(1_200_000 / 2500))
    assert comparison.groups["functions"][0].name == "dst_release"  # 270 ns, forward 110 ns
    assert row(comparison, "primitives", "atomic_inc")["retries"] == Pair(0.1, 0.0)
    assert row(comparison, "time", "retry")["ns"] == Pair(pytest.approx(150.0), 0.0)


def test_lines_and_fields(comparison):
    line = comparison.groups["lines"][0]
    assert (line.name, line.fields) == ("route+64", ["refcnt"])
    assert (line.values["ns"].a, line.values["ns"].b) == (pytest.approx(400.0), pytest.approx(80.0))
    assert (line.values["moves"].a, line.values["moves"].b) == (pytest.approx(0.65), pytest.approx(650 / 2500))
    refcnt = row(comparison, "fields", "route.refcnt")
    assert (refcnt["ns"].a, refcnt["ns"].b) == (pytest.approx(1_000_000 / 2000), pytest.approx(700_000 / 2500))


def test_a_function_of_one_run_alone_cost_nothing_in_the_other(before):
    run_data = synthetic.run_data()
    run_data.time_fs[:, [0, 1], :], run_data.count[:, [0, 1, 10]] = 0, 0
    gone = compare(before, synthetic.result(run_data))
    assert row(gone, "functions", "forward")["ns"].b == 0.0
    assert judge(gone, [parse_condition("function:forward < -6pt")])[0].change == pytest.approx(-6.25)
    back = judge(compare(synthetic.result(run_data), before), [parse_condition("function:forward > +500%")])[0]
    assert back.change == math.inf and back.holds and back.as_json()["change"] is None


def test_without_iterations_figures_are_per_millisecond(before):
    run_data = synthetic.run_data()
    run_data.iterations[:] = 0
    comparison = compare(before, synthetic.result(run_data))
    assert comparison.per == "ms"
    assert row(comparison, "functions", "dst_release")["ns"] == Pair(pytest.approx(1.5e6), pytest.approx(1.5e6))
    with pytest.raises(InputError, match="ns_per_iteration: it completed no iteration"):
        judge(comparison, [parse_condition("ns_per_iteration > 1%")])
    assert judge(comparison, [parse_condition("throughput <= -100%")])[0].holds


@pytest.mark.parametrize(
    "text, holds",
    [
        ("throughput < -2%", False),
        ("throughput > +24.9%", True),
        ("throughput > 25%", False),
        ("throughput >= 25%", True),
        ("ns_per_iteration<-19.9%", True),
        ("ns_per_iteration <= -200 ns", True),
        ("cpu_utilization > +3pt", False),
        ("cpu_utilization >= 0pt", True),
        ("retries < -99%", True),
        ("retries < -0.05", True),
        ("retries < -0.2", False),
        ("function:forward > +18pt", True),
        ("function:forward > +19pt", False),
        ("function:dst_release > +3pt", False),
        ("primitive:atomic_inc < -15pt", True),  # 62.5% -> 43.75%
        ("primitive:atomic_inc < -35%", False),
    ],
)
def test_conditions(comparison, text, holds):
    assert judge(comparison, [parse_condition(text)])[0].holds is holds


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("throughput", "is not a condition"),
        ("throughput < two%", "is not a condition"),
        ("throughput = 2%", "is not a condition"),
        ("thruput < -2%", "no metric 'thruput'; choose throughput"),
        ("function: > 3pt", "no metric 'function:'"),
        ("line:route > 3pt", "no metric 'line:route'"),
        ("throughput < -2", "is written -2%"),
        ("throughput < -2pt", "is written -2%"),
        ("function:f > 3", "is written 3pt or 3%"),
    ],
)
def test_bad_conditions_are_usage_errors(files, text, complaint, capsys):
    with pytest.raises(ValueError, match=complaint):
        parse_condition(text)
    assert run(*files, "--fail-if", text).exit_code == 2
    assert main(["diff", *files, "--fail-if", text]) == 2
    assert complaint in capsys.readouterr().err


def test_exit_codes(files):
    assert run(*files).exit_code == 0
    assert run(*files, "--fail-if", "throughput < -2%").exit_code == 0
    both = run(*files, "--fail-if", "throughput < -2%", "--fail-if", "function:forward > +3pt")
    assert both.exit_code == 1
    assert both.stderr.splitlines() == [
        "--fail-if throughput < -2%: does not hold, the change is +25%",
        "--fail-if function:forward > +3pt: holds, the change is +18.75pt",
    ]


def test_bad_input_is_exit_code_2(files, tmp_path, capsys):
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["x"] = 1
    (tmp_path / "text.h5").write_text("no HDF5")
    assert main(["diff", str(tmp_path / "foreign.h5"), str(tmp_path / "text.h5")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "not a cohsim result" in lines[0] and "cannot be read as HDF5" in lines[1]
    assert main(["diff", files[0], str(tmp_path / "none.h5")]) == 2
    assert main(["diff", *files, "--fail-if", "function:nobody > 1pt", "--fail-if", "primitive:none > 1pt"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "no such file" in lines[0] and "neither run has a function 'nobody'" in lines[1] and len(lines) == 3


def test_other_workloads_are_compared_on_request_only(before, files, tmp_path, capsys):
    write_result(with_text(before, **{"/run/workload": "other"}), tmp_path / "o.h5")
    assert main(["diff", files[0], str(tmp_path / "o.h5")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1 and "--across-workloads" in captured.err
    assert main(["diff", files[0], str(tmp_path / "o.h5"), "--across-workloads"]) == 0
    assert "note: workload differs: tiny_path -> other" in capsys.readouterr().out


def test_what_differs_is_said_first(before, after):
    changes = {"variants": ["percpu", "rcu"], "overrides": ["caches.l2.hit=14cycles"], "layouts": [":pad"], "kernel": "3.2"}
    other = with_text(with_settings(after, **changes), **{"/run/machine": "big", "/provenance/workload_text": "changed"})
    other.data["/run/seed"] = 8
    lines = render(compare(before, other)).splitlines()
    assert lines[0] == "tiny_path on tiny -> big: A (before) and B (after)"
    assert lines[1:8] == [
        "note: machine differs: tiny -> big",
        "note: text of the workload file differs: tiny.trace -> tiny.trace",
        "note: --variant differs: fast -> percpu rcu",
        "note: --layout differs: none -> :pad",
        "note: --set differs: none -> caches.l2.hit=14cycles",
        "note: --kernel differs: default -> 3.2",
        "note: seed differs: 7 -> 8",
    ]
    assert render(compare(before, after)).splitlines()[1] == "  same settings"


def test_text(comparison):
    text = render(comparison, top=1)
    assert "throughput, bit/s" in text and "+25.00%" in text and "-270.0" not in text and "-270  " in text
    assert "+110 in 1 more" in text and "route+64  refcnt" in text
    assert max(map(len, text.splitlines())) <= 100


def test_json(files, tmp_path):
    shown = run(*files, "--json", "-", "--fail-if", "retries > 5%")
    document = json.loads(shown.stdout)
    assert document["rates"]["throughput"] == {"a": 1.6e9, "b": 2e9, "change": 4e8, "change_percent": 25.0}
    assert document["lines"][0]["name"] == "route+64" and document["lines"][0]["fields"] == ["refcnt"]
    assert document["conditions"] == [{"condition": "retries > 5%", "change": -100.0, "unit": "%", "holds": False}]
    written = run(*files, "--json", str(tmp_path / "d.json"), "--fail-if", "retries > 5%")
    assert json.loads((tmp_path / "d.json").read_text()) == document and "A (before)" in written.stdout


def test_a_real_run_against_itself_moved_nothing(tmp_path):
    path = tmp_path / "r.h5"
    write_result(prepare("t4240", "ipv6_fwd", cpus=2, warmup_ns=5_000.0, measure_ns=20_000.0).run(), path)
    shown = run(str(path), str(path), "--json", "-", "--fail-if", "throughput < 0%", "--fail-if", "function:dst_release > 0pt")
    document = json.loads(shown.stdout)
    assert shown.exit_code == 0 and document["differs"] == []
    assert document["rates"]["throughput"]["a"] > 0
    for group in ("time", "functions", "primitives", "lines", "fields"):
        assert document[group]
        for found in document[group]:
            assert all(value["change"] == value["change_percent"] == 0 for value in found.values() if isinstance(value, dict)), found
    assert run(str(path), str(path)).stdout.count("nothing moved") == 5
