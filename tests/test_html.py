"""The page of a result without a browser: story, tables, escaping. tests/test_html_browser.py opens it."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import synthetic

from cohsim.cli.main import main
from cohsim.experiment import prepare
from cohsim.report.c2c import shared_lines
from cohsim.report.html import render_page
from cohsim.report.story import Story, command_of, fields_on, tell
from cohsim.results.build import build_result
from cohsim.results.hdf5 import write_result
from cohsim.results.result import Result
from cohsim.results.rundata import CATEGORIES, LINE_STATS, RunData
from cohsim.results.summary import summarize


def story(result: Result) -> Story:
    return tell(result, summarize(result))


@pytest.fixture(scope="module")
def result() -> Result:
    """Synthetic: 1600 us busy on two CPUs, 800 us of it waiting for route+64, which atomic_inc changes."""
    return synthetic.result()


def text(told: Story) -> str:
    return " ".join((told.headline, *told.paragraphs))


def busy() -> RunData:
    """The synthetic run with CPU 0 executing where it idled: 2000 us busy."""
    data = synthetic.run_data()
    data.time_fs[0, 3, CATEGORIES.index("issue")] += data.time_fs[0, 0, CATEGORIES.index("idle")]
    data.time_fs[0, 0, CATEGORIES.index("idle")] = 0
    return data


# -------------------------------------------------------------------------------------------------------------- story


def test_one_line_that_takes_half_the_busy_time_is_the_limit() -> None:
    """route+64: 800 us of 2000 us busy, 2000 packets: 400 ns each, 1300 moves, 200 retries. At most 1 / (1 - 0.4) = +67 %."""
    data = busy()
    told = story(synthetic.result(data))
    assert told.headline == "One cache line limits this run: route+64 takes 40.0 % of busy time"
    assert "Every packet waits 400 ns for route+64, which moves 0.7 times per packet" in text(told)
    assert "(0.7 times modified)" in text(told) and "0.1 store-conditionals per packet" in text(told)
    assert "at most 67 %" in text(told)
    assert "On this line, refcnt is written by dst_release." in told.paragraphs


def test_idle_cpus_are_said_to_be_idle(result: Result) -> None:
    """CPU 0 idles for 0.4 of the window, CPU 1 never: one full CPU of two, and the mean is 80 %."""
    told = story(result)
    assert told.headline == "One CPU limits this run: CPU 1 is busy 100.0 % of the time, the others 60.0 %"
    data = synthetic.run_data()
    data.time_fs[1, 0, CATEGORIES.index("idle")] = data.time_fs[1, 3, CATEGORIES.index("issue")]
    data.time_fs[1, 3, CATEGORIES.index("issue")] = 0
    told = story(synthetic.result(data))
    assert told.headline == "Nothing limits this run: its CPUs wait for work 30.0 % of the time"
    assert "at most" not in text(told), "no gain is promised where the load decides"


def test_no_line_no_limit() -> None:
    data = busy()
    data.line_stats[:] = 0
    told = story(synthetic.result(data))
    assert told.headline == "No cache line limits this run"
    wanted = "Of busy time, 45.0 % goes to executing instructions (issue) and 35.0 % goes to modified line from another node (remote_dirty)."
    assert wanted in text(told)  # 900 and 700 of 2000 us
    assert "Its busiest function is dst_release" in text(told) and not told.suggestions


def test_spinning_is_a_limit_of_its_own() -> None:
    """Nobody waits long for a line, but dst_release spins 800 of 2000 us: a lock, not a line."""
    data = busy()
    issue, spin = CATEGORIES.index("issue"), CATEGORIES.index("spin")
    for cpu in (0, 1):
        data.time_fs[cpu, 3, spin], data.time_fs[cpu, 3, issue] = data.time_fs[cpu, 3, issue], 0
    data.line_stats[:, LINE_STATS.index("stall_fs")] //= 20
    told = story(synthetic.result(data))
    assert told.headline == "Waiting for each other limits this run: dst_release spins 40.0 % of busy time"


def test_lock_that_cpus_spin_at_is_named() -> None:
    real = prepare("corei7", "micro/spinlock", cpus=8, variants=["ticket"], warmup_ns=5_000.0, measure_ns=50_000.0).run()
    page = render_page(real)
    lock = max((line for line in shared_lines(real) if line.lock), key=lambda line: line.lock.queue_length)  # type: ignore[union-attr]
    assert "Waiting for each other limits this run: ticket_lock spins" in page
    assert f"At the ticket lock lock.word, on line lock+0, {lock.lock.queue_length:.1f} CPUs wait on average." in page  # type: ignore[union-attr]


def test_line_that_nobody_takes_away_is_not_called_shared() -> None:
    data = busy()
    for name in ("transfers_near", "transfers_far", "remote_dirty", "invalidations"):
        data.line_stats[:, LINE_STATS.index(name)] = 0
    told = story(synthetic.result(data))
    assert "No CPU takes route+64 from another" in text(told)
    assert "false sharing" not in text(told) and not told.suggestions


def test_nothing_completed_is_said_first() -> None:
    data = synthetic.run_data()
    data.iterations[:] = 0
    told = story(synthetic.result(data))
    assert told.headline == "Nothing was completed in the measured window" and not told.suggestions


def test_egress_drops_are_the_limit() -> None:
    data = synthetic.run_data()
    data.counters["tx_dropped"] = 12
    data.time_fs[1, 3, CATEGORIES.index("issue")] -= 100_000_000_000
    data.time_fs[1, 0, CATEGORIES.index("idle")] += 100_000_000_000
    assert story(synthetic.result(data)).headline == "The egress link limits this run: 12 packets were dropped behind the CPUs"


def test_readers_beside_a_written_field_are_false_sharing_and_the_suggested_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The real path at 16 CPUs: rt6i_gateway is only read, dst.__refcnt beside it is changed by every CPU."""
    real = prepare("t4240", "ipv6_fwd", cpus=16, warmup_ns=20_000.0, measure_ns=60_000.0).run()
    told = story(real)
    assert "route+128" in told.headline
    assert re.search(r"rt6i_gateway .*only read, by .*ip6_finish_output2.*\(false sharing\)", text(told))
    fields = {f.name: f for f in fields_on(real, summarize(real)["lines"][0])}
    assert fields["rt6i_gateway"].writes == 0 and fields["dst.__refcnt"].writes > 0
    alone, apart = (shlex.split(suggestion.command) for suggestion in told.suggestions)
    assert alone[-2:] == ["--layout", "rt6_info.dst.__refcnt:own-line"], "the costliest field"
    command = apart
    assert command[:2] == ["cohsim", "run"] and "rt6_info.rt6i_gateway:own-line" in command
    assert main([*command[1:], "--json", "-"]) == 0
    assert "route+128" not in json.loads(capsys.readouterr().out)["lines"][0]["fields"]


def test_command_repeats_the_run() -> None:
    settings = {"cpus": 2, "pin": (3, 1), "variants": ("rcu_table",), "overrides": ("caches.l2.hit=14 cycles",), "seed": 5, "load_pps": 2.5e6}
    again = command_of(prepare("t4240", "ipv6_fwd", measure_ns=5000.0, warmup_ns=0.0, **settings).run())
    assert shlex.split(again) == [
        *("cohsim", "run", "t4240", "ipv6_fwd", "--cpus", "2", "--pin", "3,1", "--variant", "rcu_table"),
        *("--set", "caches.l2.hit=14 cycles", "--warmup", "0ns", "--measure", "5000ns", "--load", "2500000pps", "--seed", "5"),
    ]


# --------------------------------------------------------------------------------------------------------------- page


def cells(page: str, table: str) -> list[list[str]]:
    """Rows of a table of the page, as text."""
    body = re.search(rf'<table id="table-{table}".*?<tbody>(.*?)</tbody>', page, re.S)
    assert body is not None, table
    rows = re.findall(r"<tr>(.*?)</tr>", body[1], re.S)
    return [[re.sub(r"\s+", " ", cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)] for row in rows]


def test_tables_hold_the_figures(result: Result) -> None:
    """62.5 % of 1600 us in atomic_inc; route.refcnt 2200 loads and 2200 atomics; CPU 0 busy for 600 of 1000 us."""
    page = render_page(result)
    assert cells(page, "primitives")[0][:5] == ["atomic_inc", "62.50 %", "1,000", "2,000", "200"]
    assert cells(page, "lines")[0][:6] == ["route+64", "50.00 %", "1,300", "1,300", "1,250", "200"]
    field = next(row for row in cells(page, "fields") if row[0] == "route.refcnt")
    assert field[1] == "dst_release (atomic_inc)" and field[3:6] == ["2,200", "0", "2,200"]
    assert [row[:4] for row in cells(page, "threads")] == [["1", "1", "1", "100.00 %"], ["0", "0", "0", "60.00 %"]]


def test_page_says_who_took_the_line_and_the_verdict() -> None:
    real = prepare("corei7", "micro/atomic_inc", cpus=4, warmup_ns=0.0, measure_ns=20_000.0).run()
    line = shared_lines(real)[0]
    page = render_page(real)
    assert f"Verdict on counter+0: {line.verdict}. {line.reason}" in page
    assert cells(page, "lines")[0][10] == line.verdict == "true sharing"
    shown = cells(page, "takes")
    assert sum(int(row[4].replace(",", "")) for row in shown if row[0] == "counter+0") == sum(take.count for take in line.takers) > 0
    assert shown[0][1:3] == ["increment: counter.count"] * 2 and shown[0][7] == "yes"
    charts = json.loads(re.search(r'id="charts">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    matrix = next(heat for heat in charts["heats"] if heat["id"] == "takes-0")
    assert sum(map(sum, matrix["values"])) == sum(take.count for take in line.cpu_takers if take.holder >= 0)


def test_file_of_an_older_cohsim_still_gives_a_page(result: Result) -> None:
    old = Result({path: value for path, value in result.data.items() if not path.startswith("/takes/")}, result.host)
    page = render_page(old)
    assert "This file does not say who took lines from whom" in page and 'id="table-takes"' not in page
    assert cells(page, "lines")[0][0] == "route+64"


def test_page_is_one_file_that_fetches_nothing(result: Result) -> None:
    page = render_page(result)
    assert not re.search(r'(src|href)="(?!#|data:)', page) and "url(" not in page and "@import" not in page
    assert "default-src 'none'" in page


def test_names_of_the_workload_cannot_become_markup() -> None:
    """Function, field, object, assumption and workload names all carry a script; none may survive unescaped, in text or in data."""
    evil = "</script><script>window.pwned=1</script>"
    work = synthetic.workload()
    objects = [dataclasses.replace(o, name=o.name + evil, struct=evil) for o in work.objects]
    fields = [dataclasses.replace(f, object=f.object + evil, field=f.field + evil) for f in work.fields]
    work = dataclasses.replace(
        work, name=evil, func_names=[n + evil for n in work.func_names], prim_names=[n + evil for n in work.prim_names],
        objects=objects, fields=fields, assumptions=[evil],
    )  # fmt: skip
    spec = prepare("t4240", "micro/atomic_inc", cpus=1).machine_spec
    page = render_page(build_result(spec, synthetic.machine(), work, synthetic.run_data(), synthetic.provenance()))
    assert "window.pwned" in page and "<script>window.pwned" not in page
    assert len(re.findall(r"</script>", page)) == 2, "the page's own: data and program"


def test_chart_data_are_the_figures(result: Result) -> None:
    page = render_page(result)
    charts = json.loads(re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.S)[1])  # type: ignore[index]
    names = [c["name"] for c in charts["categories"]]
    cpus, profile = charts["bars"]
    assert cpus["rows"][0]["parts"][names.index("idle")] == 40
    assert all(sum(row["parts"]) == pytest.approx(100) for row in cpus["rows"])
    assert [row["label"] for row in profile["rows"]] == ["atomic_inc", "dst_release", "forward"]
    assert sum(profile["rows"][0]["parts"]) == pytest.approx(62.5)
    moved = next(c for c in charts["heats"] if c["id"] == "transfers")
    assert moved["values"] == [[0, 700], [600, 0]]


def test_sums_of_an_empty_run_do_not_divide_by_zero() -> None:
    data = synthetic.run_data()
    for array in (data.time_fs, data.count, data.served, data.sc_failures, data.iterations, data.latency_hist, data.node_transfers, data.line_stats):
        array[...] = np.zeros_like(array)
    page = render_page(synthetic.result(data))
    assert "No line was waited for or moved." in page and not re.search(r"\bnan\b", page, re.I)


# ------------------------------------------------------------------------------------------------------------ command


def test_command_writes_the_page(result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_result(result, tmp_path / "out.h5")
    assert main(["report", str(tmp_path / "out.h5"), "--html", str(tmp_path / "out.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert page == render_page(result).rstrip("\n") + page[len(page.rstrip("\n")) :] and page.startswith("<!DOCTYPE html>")
    assert main(["report", str(tmp_path / "out.h5"), "--html", "-"]) == 0
    assert capsys.readouterr().out == page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--html", "nowhere/x.html"], "--html: directory nowhere does not exist"),
        (["--html", "x.html", "--json"], "--html writes everything"),
        (["--html", "x.html", "--cpu", "1"], "--html writes everything"),
    ],
)
def test_wrong_use(
    arguments: list[str], message: str, result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_result(result, tmp_path / "out.h5")
    assert main(["report", "out.h5", *arguments]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "x.html").exists()
