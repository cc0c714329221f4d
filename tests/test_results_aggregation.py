"""Aggregates of the synthetic run, computed by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
import synthetic

from cohsim.errors import InputError
from cohsim.results.build import build_result, primitive_calls, sum_by
from cohsim.results.lines import FieldTable, ObjectMap, busiest
from cohsim.results.rundata import CATEGORIES
from cohsim.results.summary import hot_lines, summarize
from cohsim.uops import UOP, Cond, Op, uop


@pytest.fixture(scope="module")
def result():
    return synthetic.result()


@pytest.fixture(scope="module")
def summary(result):
    return summarize(result)


def rows_by_name(rows):
    return {row["name"]: row for row in rows}


def test_rates(summary):
    assert summary["iterations"] == 2000
    assert summary["iterations_per_second"] == summary["packet_rate_pps"] == 2_000_000.0
    assert summary["throughput_bps"] == 2_000_000.0 * 100 * 8  # frame bytes without preamble and gap
    assert summary["ns_per_iteration_per_cpu"] == 1000.0  # 2 CPUs x 1 ms / 2000
    assert summary["simulated_seconds"] == 0.001
    assert (summary["measured_ns"], summary["warmup_ns"]) == (1e6, 50_000.0)
    assert summary["memory_operations_per_host_second"] == 8400 / 0.5


def test_utilization_excludes_idle(summary):
    assert summary["cpu_utilization_per_cpu"] == [0.6, 1.0]
    assert summary["cpu_utilization"] == 0.8


def test_time_shares_are_of_busy_time(summary):
    shares = summary["time_shares"]
    assert "idle" not in shares
    assert shares["remote_dirty"] == pytest.approx(700 / 1600)
    assert shares["issue"] == pytest.approx(500 / 1600)
    assert sum(shares.values()) == pytest.approx(1.0)


def test_inlined_profile(summary):
    rows = rows_by_name(summary["functions"])
    assert rows["dst_release"]["share"] == pytest.approx(1500 / 1600)
    assert rows["dst_release"]["self_cycles"] == 1.5e12 / 2000 / synthetic.PERIOD_FS == 1500.0
    assert rows["forward"] == {
        "name": "forward",
        "share": 1 / 16,
        "self_cycles": 100.0,
        "calls": 2000,
        "retries": 0,
        "time_shares": {"issue": 1.0},
    }
    assert [row["name"] for row in summary["functions"]] == ["dst_release", "forward"]


def test_deinlined_profile(summary):
    rows = rows_by_name(summary["primitives"])
    assert rows["atomic_inc"]["share"] == pytest.approx(1000 / 1600)
    assert rows["atomic_inc"]["calls"] == 2000  # 2200 attempts, 200 of them again after a lost reservation
    assert rows["atomic_inc"]["retries"] == 200
    assert rows["dst_release"]["share"] == pytest.approx(500 / 1600)
    assert sum(row["share"] for row in summary["primitives"]) == pytest.approx(1.0)


def test_one_cpu(result):
    one = summarize(result, cpu=0)
    assert one["cpu"] == 0
    assert one["iterations_per_second"] == 1_000_000.0
    assert one["ns_per_iteration_per_cpu"] == 1000.0
    assert one["cpu_utilization"] == 0.6
    assert rows_by_name(one["functions"])["forward"]["share"] == pytest.approx(100 / 600)
    assert rows_by_name(one["primitives"])["atomic_inc"]["share"] == pytest.approx(300 / 600)
    with pytest.raises(InputError, match="the run has no CPU 2; choose 0 to 1"):
        summarize(result, cpu=2)


def test_hot_line_is_named_by_object_offset_and_fields(summary):
    first = summary["lines"][0]
    assert (first["object"], first["offset"], first["fields"]) == ("route", 64, ["refcnt"])
    assert first["stall_share"] == pytest.approx(0.8 / 1.6)
    assert (first["transfers"], first["remote_dirty"], first["retries"]) == (1300, 1300, 200)


def test_instances_are_one_row(summary):
    row = next(line for line in summary["lines"] if line["object"] == "skb[*]")
    assert (row["offset"], row["lines"], row["stores"], row["fields"]) == (0, 2, 1000, ["len"])
    assert row["stall_share"] == pytest.approx(0.04 / 1.6)


def test_line_of_two_objects_and_line_of_none(summary):
    lines = {line["object"]: line for line in summary["lines"]}
    assert lines["lock"]["shared_with"] == ["hint"]
    assert lines["0x9000"]["fields"] == []
    assert len(lines) == 4 and len(summary["lines"]) == 5  # route has two lines, at different offsets


def test_top_lines(result):
    assert [line["object"] for line in hot_lines(result, 2)] == ["route", "skb[*]"]


def test_without_packets():
    summary = summarize(synthetic.result(packets=False))
    assert summary["packet_rate_pps"] is summary["throughput_bps"] is summary["dropped"] is None
    assert summary["iterations_per_second"] == 2_000_000.0


def test_nothing_ran():
    run = synthetic.run_data()
    for array in (run.time_fs, run.count, run.served, run.iterations, run.line_stats):
        array[:] = 0
    run.measured_fs = 0
    summary = summarize(synthetic.result(run))
    assert summary["iterations"] == 0 and summary["ns_per_iteration_per_cpu"] is None
    assert summary["functions"] == [] and summary["cpu_utilization"] == 0.0
    json.dumps(summary, allow_nan=False)


def test_thread_time_is_the_sum_over_functions(result):
    assert np.array_equal(result.array("/functions/time_fs").sum(axis=1), result.array("/threads/time_fs"))
    assert np.array_equal(result.array("/primitives/time_fs").sum(axis=1), result.array("/threads/time_fs"))
    assert result.array("/threads/time_fs").sum(axis=1).tolist() == [synthetic.MEASURED_FS] * 2


def test_field_uses(result):
    rows = list(
        zip(
            result.names("/fields/field"),
            result.array("/fields/loads").tolist(),
            result.array("/fields/stores").tolist(),
            result.array("/fields/atomics").tolist(),
            result.array("/fields/sc_failures").tolist(),
            result.array("/fields/primitive").tolist(),
            strict=True,
        )
    )
    assert rows == [("refcnt", 2200, 0, 2200, 200, 0), ("flags", 2000, 0, 0, 0, -1), ("len", 0, 2000, 0, 0, -1)]
    assert result.array("/fields/time_fs")[0, CATEGORIES.index("remote_dirty")] == 700_000_000_000


def test_contract_violations_are_refused():
    run = synthetic.run_data()
    run.counters["home_surprises"] = 1
    with pytest.raises(KeyError, match="home_surprises"):
        synthetic.result(run)
    run = synthetic.run_data()
    run.count = run.count[:, :-1]
    with pytest.raises(ValueError, match="RunData.count has shape"):
        synthetic.result(run)


def test_primitive_sites():
    """Two neighbouring calls on different source lines; a cmpxchg that gives up; a caller's loop back to a site is a new call."""

    def op(kind, prim, line_no, **fields):
        return uop(kind, func=0, prim=prim, line_no=line_no, **fields)

    uops = np.array(
        [
            op(Op.RMW, 0, 1),
            op(Op.RMW, 0, 2),
            op(Op.LL, 1, 3),
            op(Op.BR, 1, 3, fn=Cond.NE, target=6),
            op(Op.SC, 1, 3),
            op(Op.BR, 1, 3, fn=Cond.EQ, target=2),
            op(Op.BR, -1, 4, fn=Cond.EQ, target=2),
        ],
        UOP,
    )
    count = np.array([[10, 20, 50, 50, 30, 30, 43]])
    failures = np.array([[0, 0, 0, 0, 7, 0, 0]])
    assert primitive_calls(uops, count, failures, 2).tolist() == [[30, 43]]
    recorded = np.array([op(Op.LL, 0, 0), op(Op.SC, 0, 0), op(Op.LL, 0, 0), op(Op.SC, 0, 0)], UOP)  # two sites of one function
    assert primitive_calls(recorded, np.array([[12, 12, 30, 30]]), np.array([[0, 2, 0, 0]]), 1).tolist() == [[10 + 30]]
    assert primitive_calls(np.array([op(Op.LOAD, 0, 0)], UOP), np.array([[4]]), np.array([[0]]), 1).tolist() == [[4]]


def test_sum_by_is_exact_beyond_float():
    big = 2**53 + 1
    values = np.array([[big, 1, big]], np.int64)
    assert sum_by(np.array([1, 0, 1]), 3, values).tolist() == [[1, 2 * big, 0]]


def test_interleaved_per_cpu_objects():
    """Two per-CPU objects of one area: same stride, different bases."""
    objects = ObjectMap([0x1000, 0x1010], [16, 100], [0x1000, 0x1000], [3, 3])
    found = objects.on_line(0x2000, 64)
    assert [(p.object, p.instance, p.offset_bytes, p.end_bytes) for p in found] == [(0, 1, 0, 16), (1, 1, 0, 48)]
    assert [(p.object, p.instance, p.offset_bytes, p.end_bytes) for p in objects.on_line(0x3040, 64)] == [(1, 2, 48, 100)]
    assert objects.on_line(0x4000, 64) == objects.on_line(0x1080, 64) == []
    fields = FieldTable(np.array([1]), ["count"], np.array([8]), np.array([8]), np.array([5]))
    assert busiest(found, fields).object == 1
    assert ObjectMap([], [], [], []).on_line(0, 64) == []


def test_build_is_pure():
    run = synthetic.run_data()
    before = run.time_fs.copy()
    first, second = synthetic.result(run), synthetic.result(run)
    assert np.array_equal(before, run.time_fs)
    for path, value in first.data.items():
        assert np.array_equal(value, second.data[path]), path


def test_provenance_is_complete(result):
    assert build_result.__module__ == "cohsim.results.build"
    assert result.settings["seed"] == 7 and result.settings["variants"] == ["fast"]
    assert result.text("/provenance/workload_text").startswith("cohsim-trace 1")
    assert "caches" in result.text("/provenance/machine_effective")
    assert json.loads(result.text("/provenance/machine_compiled"))["line_bytes"] == 64
    assert result.host["host_seconds"] == 0.5
