"""Whole runs of the real core through the command line, kept short."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import cohsim
from cohsim.cli.main import main
from cohsim.experiment import prepare
from cohsim.results.hdf5 import read_result, write_result
from cohsim.results.summary import summarize

SHORT = {"cpus": 4, "warmup_ns": 5_000.0, "measure_ns": 20_000.0}


@pytest.fixture(scope="module")
def result():
    return prepare("t4240", "ipv6_fwd", **SHORT).run()


def test_two_runs_are_identical_dataset_for_dataset(result, tmp_path):
    write_result(result, tmp_path / "a.h5")
    write_result(prepare("t4240", "ipv6_fwd", **SHORT).run(command=["another", "command"]), tmp_path / "b.h5")
    compared = []

    def same(name, item):
        if isinstance(item, h5py.Dataset):
            assert np.array_equal(item[()], b[name][()]), name
            compared.append(name)

    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        a.visititems(same)
        assert a["/provenance"].attrs["command"] != b["/provenance"].attrs["command"]
    assert len(compared) == len(result.data)


def test_another_seed_is_another_run(result):
    other = prepare("t4240", "ipv6_fwd", seed=2, **SHORT).run()
    assert not np.array_equal(result.array("/threads/time_fs"), other.array("/threads/time_fs"))


def test_time_is_accounted_exactly_once(result):
    assert result.array("/threads/time_fs").sum(axis=1).tolist() == [result.number("/run/measured_fs")] * 4
    summary = summarize(result)
    assert sum(row["share"] for row in summary["functions"]) == pytest.approx(1.0)
    assert sum(row["share"] for row in summary["primitives"]) == pytest.approx(1.0)
    assert sum(summary["time_shares"].values()) == pytest.approx(1.0)


def test_calls_of_primitives_agree_with_their_callers(result):
    """dst_release makes one atomic_dec_return, whatever the number of lost reservations; paths under way may differ by one."""
    summary = summarize(result)
    functions = {row["name"]: row for row in summary["functions"]}
    primitives = {row["name"]: row for row in summary["primitives"]}
    assert functions["dst_release"]["calls"] > 20
    assert abs(functions["dst_release"]["calls"] - primitives["atomic_dec_return"]["calls"]) <= result.cpus
    assert abs(functions["dst_release"]["calls"] - summary["iterations"]) <= result.cpus


def test_the_contended_line_is_named():
    line = summarize(prepare("t4240", "ipv6_fwd", warmup_ns=30_000.0, measure_ns=20_000.0).run())["lines"][0]
    assert (line["object"], line["offset"]) == ("route", 128)
    assert "dst.__refcnt" in line["fields"]


def test_command_line_writes_what_it_prints(tmp_path, capsys):
    output = tmp_path / "o.h5"
    assert (
        main(
            ["run", "t4240", "ipv6_fwd", "--cpus", "2", "--warmup", "2us", "--measure", "10us", "-o", str(output), "--json", "-"]
        )
        == 0
    )
    summary = json.loads(capsys.readouterr().out)
    assert summary["cpus"] == 2 and summary["measured_ns"] == 10_000.0 and summary["warmup_ns"] == 2_000.0
    restored = read_result(output)
    assert "rt6_info" in restored.text("/provenance/workload_text")
    assert "t4240" in restored.text("/provenance/machine_text")
    assert main(["report", str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == summary


def test_machine_override_changes_the_effective_machine(tmp_path):
    changed = prepare("t4240", "micro/atomic_inc", overrides=["caches.l2.hit=14cycles"], **SHORT)
    plain = prepare("t4240", "micro/atomic_inc", **SHORT)
    assert changed.machine.l2_hit_fs > plain.machine.l2_hit_fs
    assert "14 cycles" in changed.run().text("/provenance/machine_effective")


@pytest.mark.slow
def test_recorded_trace(checkout):
    recorded = next((checkout / "workloads" / "recorded").glob("*.mtc.xz"))
    result = prepare("t4240", str(recorded)).run()
    summary = summarize(result)
    assert summary["recorded"] and summary["cpus"] > 1
    assert any(row["name"] == "ip6_forward" for row in summary["functions"])


def test_interrupt_writes_a_marked_partial_result(tmp_path):
    """Ctrl-C in the middle of a long run: exit code 130, and the file says so."""
    output = tmp_path / "o.h5"
    environment = os.environ | {"PYTHONPATH": str(Path(cohsim.__file__).parent.parent)}
    command = [
        sys.executable,
        "-m",
        "cohsim",
        "run",
        "t4240",
        "micro/atomic_inc",
        "--measure",
        "10 s",
        "--progress",
        "-o",
        str(output),
    ]
    child = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "atomic_inc on t4240" in child.stderr.readline()  # the first sign of progress: the core is running
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "ended early (interrupted)" in out and "Traceback" not in err
    restored = read_result(output)
    assert restored.text("/run/stop") == "interrupted"
    assert 0 < restored.number("/run/measured_fs") < 10 * 10**15
