"""``cohsim timeline``: slices of hand-made events, a real run as a Chrome trace, the command."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import synthetic
from click.testing import CliRunner

from cohsim.cli.main import main
from cohsim.cli.timeline import timeline_command
from cohsim.experiment import prepare
from cohsim.report.timeline import Event, accesses, instants, ownership, retries
from cohsim.results.hdf5 import read_result, write_result
from cohsim.results.result import Result
from cohsim.results.rundata import SERVED

US = 1_000_000_000
CORE, NODE = [0, 0, 1, 2], [0, 0, 0, 1]  # CPUs 0 and 1 are siblings, 2 shares their cluster, 3 is in another


def event(time: int, kind: str, cpu: int, *, by: int = -1, writable: bool = False, level: int = 0, function: str = "f", operation: str = "") -> Event:
    return Event(time, kind, cpu, function, "o.a", operation, by, "g" if by >= 0 else "", level, writable)


def states(events: list[Event]) -> list[tuple[int, str, int, int]]:
    return [(s.cpu, s.category, s.begin, s.end) for s in ownership(events, CORE, NODE)]


# ---- hand-made events


def test_ownership_ends_when_another_cpu_is_served_to_write() -> None:
    events = [event(10, "grant", 0, writable=True), event(30, "grant", 2, writable=True, by=0), event(50, "store", 2)]
    assert states(events) == [(0, "exclusive", 10, 30), (2, "exclusive", 30, 50)]
    taken = ownership(events, CORE, NODE)[1]
    assert (taken.name, taken.args) == ("f", {"field": "o.a", "from_cpu": 0, "from_function": "g", "served_by": SERVED[0]})


def test_a_reader_makes_the_owners_copy_shared() -> None:
    events = [event(10, "grant", 0, writable=True), event(30, "grant", 2), event(40, "grant", 1, writable=True), event(60, "store", 1)]
    assert states(events) == [(0, "exclusive", 10, 30), (0, "shared", 30, 40), (2, "shared", 30, 40), (1, "exclusive", 40, 60)]


def test_an_owner_that_reads_stays_the_owner() -> None:
    events = [event(10, "grant", 0, writable=True), event(20, "grant", 0), event(30, "store", 0), event(40, "grant", 1, writable=True)]
    assert states(events) == [(0, "exclusive", 10, 40)]


def test_a_snoop_takes_the_copies_of_its_node_only() -> None:
    reads = [event(10, "grant", 0), event(12, "grant", 3)]
    events = [*reads, event(20, "drop", -1, level=0, by=3), event(25, "grant", 3, writable=True), event(40, "store", 3)]
    assert states(events) == [(0, "shared", 10, 20), (3, "shared", 12, 25), (3, "exclusive", 25, 40)]


def test_a_downgrade_makes_the_owner_share() -> None:
    events = [event(10, "grant", 3, writable=True), event(20, "downgrade", -1, level=1, by=0), event(30, "grant", 0, by=3), event(40, "sc_failed", 0)]
    assert states(events) == [(3, "exclusive", 10, 20), (3, "shared", 20, 40), (0, "shared", 30, 40)]


def test_a_dropped_l1_copy_is_its_cores_but_not_the_owners() -> None:
    events = [event(10, "grant", 2), event(12, "grant", 0, writable=True), event(15, "drop", 0), event(16, "drop", 2), event(20, "store", 0)]
    assert states(events) == [(2, "shared", 10, 12), (0, "exclusive", 12, 20)]


def test_a_sibling_that_hits_with_a_store_becomes_the_owner() -> None:
    events = [event(10, "grant", 0, writable=True), event(11, "store", 0), event(20, "store", 1), event(30, "store", 1)]
    assert states(events) == [(0, "exclusive", 10, 20), (1, "exclusive", 20, 30)]
    assert ownership(events, CORE, NODE)[1].args["served_by"] == "hit"


def test_accesses_run_from_issue_to_answer_and_overlap_on_tracks_of_their_own() -> None:
    events = [
        event(5, "answer", 0, operation="load"),  # issued before the log began
        event(10, "issue", 0, operation="load"),
        event(12, "issue", 0, operation="store"),
        event(20, "answer", 0, operation="load"),
        event(20, "issue", 0, operation="load"),
        event(25, "answer", 0, operation="load"),
        event(30, "answer", 0, operation="store"),
        event(31, "issue", 0, operation="load"),  # not answered while the log lasts
    ]
    found = [(s.name, s.track, s.begin, s.end) for s in accesses(events)]
    assert found == [("f load", 2, 10, 20), ("f store", 3, 12, 30), ("f load", 2, 20, 25)]


def test_a_retry_lasts_from_the_first_failure_to_the_success() -> None:
    sc = "store-conditional"
    events = [
        event(10, "sc_failed", 0, operation=sc),
        event(15, "store", 0, operation="store"),
        event(20, "sc_failed", 0, operation=sc),
        event(22, "store", 1, operation=sc),
        event(30, "store", 0, operation=sc),
        event(40, "store", 0, operation=sc),
        event(50, "sc_failed", 1, operation=sc),
    ]
    assert [(s.cpu, s.begin, s.end, s.args["failures"]) for s in retries(events)] == [(0, 10, 30, 2)]


def test_instants_name_the_reason() -> None:
    events = [event(10, "reservation_lost", 0, by=2), event(11, "reservation_lost", 1), event(12, "sc_failed", 0)]
    expected = [(0, 10, "reservation lost to CPU 2, g"), (1, 11, "reservation lost by eviction or device"), (0, 12, "store-conditional failed, f")]
    assert instants(events) == expected


# ---- a real run


RUNS = [("t4240", "ipv6_fwd", 12, "route+128"), ("corei7", "micro/atomic_inc", 8, "counter")]


@pytest.fixture(scope="module", params=RUNS, ids=["t4240", "corei7"])
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path, str]:
    machine, workload, cpus, line = request.param
    result = prepare(machine, workload, cpus=cpus, warmup_ns=30_000.0, measure_ns=30_000.0, log_lines=[line], log_events=100_000).run()
    path = tmp_path_factory.mktemp("timeline") / "out.h5"
    write_result(result, path)
    return result, path, line


def trace(path: Path, *arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(timeline_command, [str(path), *arguments, "-o", "-"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


def test_every_event_is_what_the_format_asks_for(traced: tuple[Result, Path, str]) -> None:
    result, path, line = traced
    document = trace(path)
    measured_us = result.number("/run/measured_fs") / US
    named = {(e["pid"], e["tid"]) for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"] == [line]
    for e in document["traceEvents"]:
        assert {"ph", "ts", "pid", "tid", "name", "args"} <= e.keys() and isinstance(e["pid"], int) and isinstance(e["tid"], int)
        if e["ph"] == "X":
            assert e["dur"] >= 0 and 0 <= e["ts"] and e["ts"] + e["dur"] <= measured_us + 1e-3
            assert e["name"].strip() and e["cat"] in ("exclusive", "shared", "access", "retry")
        elif e["ph"] == "i":
            assert e["s"] == "t" and 0 <= e["ts"] <= measured_us
        else:
            assert e["ph"] == "M"
        assert e["ph"] == "M" or (e["pid"], e["tid"]) in named


def test_slices_of_a_track_never_overlap(traced: tuple[Result, Path, str]) -> None:
    tracks: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for e in trace(traced[1])["traceEvents"]:
        if e["ph"] == "X":
            tracks[e["tid"]].append((round(e["ts"] * 1000), round(e["dur"] * 1000)))
    assert len(tracks) > 8
    for slices in tracks.values():
        slices.sort()
        assert all(a[0] + a[1] <= b[0] for a, b in zip(slices, slices[1:], strict=False))


def test_at_most_one_cpu_owns_the_line_and_then_no_other_has_it(traced: tuple[Result, Path, str]) -> None:
    slices = [e for e in trace(traced[1])["traceEvents"] if e["ph"] == "X"]
    owned = sorted((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000), e["tid"]) for e in slices if e["cat"] == "exclusive")
    shared = sorted((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)) for e in slices if e["cat"] == "shared")
    assert len(owned) > 100 and len({tid for *_, tid in owned}) > 4
    assert all(a[1] <= b[0] for a, b in zip(owned, owned[1:], strict=False))
    for begin, end, _ in owned:
        assert not any(b < end and begin < e for b, e in shared if e > b), (begin, end)


def test_every_write_of_the_line_falls_into_the_writers_ownership(traced: tuple[Result, Path, str]) -> None:
    """The stores the core performed, each inside an exclusive slice of its CPU (an owner's slice ends at its last event)."""
    result, _, line = traced
    from cohsim.report.timeline import chosen_lines, events_of

    (address,) = chosen_lines(result, [line], "result").values()
    events = events_of(result, address)
    owned = defaultdict(list)
    for s in ownership(events, result.array("/threads/core").tolist(), result.array("/threads/node").tolist()):
        if s.category == "exclusive":
            owned[s.cpu].append((s.begin, s.end))
    stores = [e for e in events if e.kind == "store" and e.time < events[-1].time]
    assert len(stores) > 100
    assert all(any(begin <= e.time <= end for begin, end in owned[e.cpu]) for e in stores)


def test_retries_and_losses_agree_with_the_counters(traced: tuple[Result, Path, str]) -> None:
    result, path, line = traced
    marks = [e["name"] for e in trace(path)["traceEvents"] if e["ph"] == "i"]
    lost = sum(name.startswith("reservation lost") for name in marks)
    failed = sum(name.startswith("store-conditional failed") for name in marks)
    if line == "counter":
        assert lost == failed == 0  # x86 has no reservations
        return
    line_kills = result.array("/kills/count")[result.array("/kills/address") == result.array("/log/address")[0]].sum()
    assert lost == line_kills > 10
    assert failed > 10


def test_a_bounded_log_says_what_it_left_out(tmp_path: Path) -> None:
    result = prepare("t4240", "ipv6_fwd", cpus=8, warmup_ns=20_000.0, measure_ns=20_000.0, log_lines=["route+128"], log_events=50).run()
    write_result(result, tmp_path / "s.h5")
    done = CliRunner().invoke(timeline_command, [str(tmp_path / "s.h5"), "-o", str(tmp_path / "t.json")])
    assert done.exit_code == 0 and "later events of the logged lines were not kept" in done.stderr and "perfetto" in done.stderr
    document = json.loads((tmp_path / "t.json").read_text())
    assert document["otherData"]["events_not_kept"] == result.number("/log/lost") > 0
    assert len(result.array("/log/time_fs")) <= 50


def test_the_log_does_not_change_the_run(traced: tuple[Result, Path, str]) -> None:
    result, path, _ = traced
    s = read_result(path).settings
    plain = prepare(s["machine_file"], s["workload_file"], cpus=s["cpus"], warmup_ns=s["warmup_ns"], measure_ns=s["measure_ns"]).run()
    assert not [p for p in plain.data if p.startswith("/log")]
    for name, value in plain.data.items():
        if name != "/provenance/settings":
            assert (value == result.data[name]).all() if hasattr(value, "all") else value == result.data[name], name


# ---- bad input


def test_bad_input_is_one_line_and_exit_code_2(traced: tuple[Result, Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, path, line = traced
    write_result(synthetic.result(), tmp_path / "plain.h5")
    target = str(tmp_path / "t.json")
    other = "route+0" if line == "route+128" else "counter+64"
    for arguments, expected in (
        ([str(tmp_path / "plain.h5"), "-o", target], "no line was logged; run again with --log-line OBJECT+OFFSET"),
        ([str(path), "-o", target, "--line", "nothing+0"], "--line: there is no object 'nothing'"),
        ([str(path), "-o", target, "--line", other], "--line: "),
        ([str(path), "-o", str(tmp_path / "no" / "t.json")], "does not exist"),
        ([str(path)], "--output"),
        ([str(tmp_path / "none.h5"), "-o", target], "no such file"),
    ):
        assert main(["timeline", *arguments]) == 2, arguments
        captured = capsys.readouterr()
        assert captured.out == "" and len(captured.err.splitlines()) == 1 and expected in captured.err, captured.err
    assert not (tmp_path / "t.json").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--log-line", "rout+128"], "--log-line: there is no object 'rout'; the workload has, for example, route"),
        (["--log-line", "route+4096"], "--log-line: 'route+4096': route has 384 bytes"),
        (["--log-line", "skb[1024]+0"], "--log-line: 'skb[1024]+0': skb has 1024 instance(s)"),
        (["--log-line", "a b"], "--log-line: 'a b' does not name a line"),
        (["--log-line", "route+128", "--log-events", "0"], "--log-events"),
    ],
)
def test_bad_log_lines_are_refused_before_the_run(arguments: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "t4240", "ipv6_fwd", "-o", str(tmp_path / "o.h5"), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1 and expected in captured.err
    assert not list(tmp_path.iterdir())


def test_a_log_without_a_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "t4240", "ipv6_fwd", "--log-line", "route+128"]) == 2
    assert "--log-line: the events would go nowhere; give the result file too: -o OUT.h5" in capsys.readouterr().err


def test_too_many_lines_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [argument for i in range(17) for argument in ("--log-line", f"skb[{i}]+0")]
    assert main(["run", "t4240", "ipv6_fwd", "-o", str(tmp_path / "o.h5"), *lines]) == 2
    assert "--log-line: 17 lines; name at most 16" in capsys.readouterr().err
