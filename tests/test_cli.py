"""The command line: exit codes, messages, outputs. The synthetic run stands in for the simulator; test_cli_end_to_end runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic

import cohsim
from cohsim import experiment
from cohsim.cli import main as cli_main
from cohsim.cli.main import COMMANDS, cli, main
from cohsim.errors import MachineError, Problem, ProtocolTableError, SimulationError, WorkloadError
from cohsim.results.hdf5 import read_result

SUMMARY_KEYS = {
    "cohsim": str,
    "machine": str,
    "workload": str,
    "cpus": int,
    "seed": int,
    "stop": str,
    "simulated_seconds": float,
    "host_seconds": float,
    "memory_operations": int,
    "iterations": int,
    "iterations_per_second": float,
    "ns_per_iteration_per_cpu": float,
    "packet_rate_pps": float,
    "throughput_bps": float,
    "dropped": int,
    "cpu_utilization": float,
    "cpu_utilization_per_cpu": list,
    "functions": list,
    "primitives": list,
    "lines": list,
    "time_shares": dict,
    "assumptions": list,
    "measured_ns": float,
    "warmup_ns": float,
    "events": int,
    "local_turns": int,
    "memory_operations_per_host_second": float,
}
LINE_KEYS = {"object", "offset", "stall_share", "transfers", "remote_dirty", "retries", "fields"}


class Calls(list):
    """Keyword arguments of each simulate() call; ``outcome`` is what it returns or raises."""

    outcome: object = None


@pytest.fixture
def calls(monkeypatch):
    recorded = Calls()

    def simulate(machine, workload, **keywords):
        recorded.append(keywords | {"workload": workload})
        if isinstance(recorded.outcome, BaseException):
            raise recorded.outcome
        if keywords["progress"] is not None:
            keywords["progress"](0.5)
        return recorded.outcome or synthetic.run_data()

    def load_workload(name, *, isa, cpus, variants, layouts, kernel, locks, isa_options):
        recorded.append({"name": name, "isa": isa, "cpus": cpus, "variants": variants, "layouts": layouts, "kernel": kernel})
        return synthetic.workload()

    monkeypatch.setattr(experiment, "simulate", simulate)
    monkeypatch.setattr(experiment, "load_workload", load_workload)
    monkeypatch.setattr(experiment, "compile_machine", lambda spec: synthetic.machine())
    return recorded


def test_report_on_stdout_nothing_on_stderr(calls, capsys):
    assert main(["run", "t4240", "tiny"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "tiny_path on tiny, 2 CPUs" in out and "2.000 Mpacket/s, 1.600 Gbit/s" in out
    assert "route+64" in out and "refcnt" in out
    assert max(map(len, out.splitlines())) <= 100


def test_options_reach_loader_and_simulator(calls, capsys, tmp_path):
    assert (
        main(
            [
                "run",
                "t4240",
                "tiny",
                "--pin",
                "1,0",
                "--variant",
                "a",
                "--variant",
                "b",
                "--layout",
                "s.f:pad",
                "--kernel",
                "3.12",
                "--seed",
                "9",
                "--warmup",
                "3us",
                "--measure",
                "1.5 ms",
                "--no-lookahead",
                "--check",
                "--log-line",
                "route+64",
                "--log-events",
                "7",
                "-o",
                str(tmp_path / "out.h5"),
            ]
        )
        == 0
    )
    loaded, ran = calls
    assert loaded == {
        "name": "tiny",
        "isa": "power",
        "cpus": 2,
        "variants": ("a", "b"),
        "layouts": ("s.f:pad",),
        "kernel": "3.12",
    }
    assert ran.pop("workload").name == "tiny_path" and ran.pop("streams") is None
    assert ran == {
        "pin": (1, 0),
        "seed": 9,
        "warmup_ns": 3000.0,
        "measure_ns": 1.5e6,
        "lookahead": False,
        "check": True,
        "log_lines": (0x1040,),
        "log_events": 7,
        "progress": None,
    }


def test_json_on_stdout_is_alone_and_complete(calls, capsys):
    assert main(["run", "t4240", "tiny", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    summary = json.loads(out)
    for key, kind in SUMMARY_KEYS.items():
        assert type(summary[key]) is kind, key
    for row in summary["functions"] + summary["primitives"]:
        assert {"name", "share", "self_cycles", "calls"} <= set(row)
    assert all(LINE_KEYS <= set(line) for line in summary["lines"]) and summary["lines"]


def test_json_file_and_result_file(calls, capsys, tmp_path):
    assert main(["run", "t4240", "tiny", "-o", str(tmp_path / "o.h5"), "--json", str(tmp_path / "s.json")]) == 0
    report = capsys.readouterr().out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.h5", "s.json"]
    assert read_result(tmp_path / "o.h5").settings["machine_file"] == "t4240"
    assert main(["report", str(tmp_path / "o.h5")]) == 0
    assert capsys.readouterr().out == report
    assert main(["report", str(tmp_path / "o.h5"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "s.json").read_text())


def test_report_views(calls, capsys, tmp_path):
    main(["run", "t4240", "tiny", "-o", str(tmp_path / "o.h5")])
    capsys.readouterr()
    assert main(["report", str(tmp_path / "o.h5"), "--cpu", "0"]) == 0
    assert "CPU 0 of 2" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "o.h5"), "--primitives", "--top", "1"]) == 0
    out = capsys.readouterr().out
    assert "atomic_inc" in out and "in 2 more" in out and "hottest" not in out
    assert main(["report", str(tmp_path / "o.h5"), "--cpu", "5"]) == 2
    assert capsys.readouterr().err == "--cpu: the run has no CPU 5; choose 0 to 1\n"


def test_interrupted_run_is_written_marked_and_exits_130(calls, capsys, tmp_path):
    calls.outcome = synthetic.run_data()
    calls.outcome.stop = "interrupted"
    assert main(["run", "t4240", "tiny", "-o", str(tmp_path / "o.h5")]) == 130
    out, err = capsys.readouterr()
    assert "ended early (interrupted)" in out and "interrupted" in err
    assert read_result(tmp_path / "o.h5").text("/run/stop") == "interrupted"


def test_interrupt_before_the_run(calls, capsys):
    calls.outcome = KeyboardInterrupt()
    assert main(["run", "t4240", "tiny"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"  # click ends the line the ^C is on


def test_failed_simulation(calls, capsys, tmp_path):
    calls.outcome = SimulationError("deadlock", "CPU 0 waits for line 0x40\nCPU 1 waits for line 0x80")
    assert main(["run", "t4240", "tiny", "-o", str(tmp_path / "o.h5")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["simulation failed: deadlock", "CPU 0 waits for line 0x40", "CPU 1 waits for line 0x80"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--cpus", "25"], "--cpus: 25 CPUs asked for, tiny has 2; choose 1 to 2"),
        (["--cpus", "0"], "--cpus: 0 CPUs asked for"),
        (["--pin", "0,7"], "--pin: tiny has no CPU 7; choose from 0 to 1"),
        (["--pin", "0,0"], "--pin: CPU 0 is named 2 times"),
        (["--pin", "0", "--cpus", "2"], "--pin: names 1 CPUs, --cpus says 2"),
        (["--pin", "0-"], "is not a list of CPUs"),
        (["--pin", "3-1"], "is not a list of CPUs"),
        (["--warmup", "5"], "'5' is not a time; write a number with its unit"),
        (["--measure", "-5us"], "is not a time"),
        (["--seed", "-1"], "--seed"),
        (["--colour"], "No such option"),
        (["-o", "/nowhere/at/all/x.h5"], "--output: directory /nowhere/at/all does not exist"),
        (["-o", "/"], "--output: / is a directory"),
        (["--json", "/nowhere/x"], "--json: directory /nowhere does not exist"),
        (["--cpu", "9"], "--cpu: the run has no CPU 9; choose 0 to 1"),
    ],
)
def test_bad_options_are_one_line_and_exit_2_before_any_run(calls, capsys, arguments, expected):
    assert main(["run", "t4240", "tiny", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and expected in err and err.count("\n") == 1
    assert not any("progress" in call for call in calls)  # simulate() was not reached


def test_all_problems_of_an_input_are_printed(calls, capsys, monkeypatch):
    def load_machine(name, overrides):
        raise MachineError(
            [Problem("m.yaml:3", "unknown key 'clok'", "did you mean 'clock'?"), Problem("m.yaml:9", "missing unit")]
        )

    monkeypatch.setattr(experiment, "load_machine", load_machine)
    assert main(["run", "m.yaml", "tiny"]) == 2
    assert capsys.readouterr().err == "m.yaml:3: unknown key 'clok'; did you mean 'clock'?\nm.yaml:9: missing unit\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [(WorkloadError(Problem("w.trace:4:7", "expected a field")), 2), (ProtocolTableError("mesi L1 I Load: twice"), 2)],
)
def test_every_error_has_its_exit_code(calls, capsys, error, code):
    calls.outcome = error
    assert main(["run", "t4240", "tiny"]) == code
    assert capsys.readouterr().err.strip() == str(error)


def test_a_programming_error_is_not_swallowed(calls):
    calls.outcome = ZeroDivisionError("bug")
    with pytest.raises(ZeroDivisionError):
        main(["run", "t4240", "tiny"])


def test_import_error_of_a_command_is_shown(monkeypatch):
    monkeypatch.setitem(cli_main.COMMANDS, "run", ("cohsim.cli.does_not_exist:run", ""))
    with pytest.raises(ModuleNotFoundError, match="does_not_exist"):
        main(["run", "a", "b"])


def test_missing_files(capsys, tmp_path):
    assert main(["report", str(tmp_path / "none.h5")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["run", "t4241", "tiny"]) == 2
    assert "did you mean 't4240'?" in capsys.readouterr().err


def test_usage(capsys):
    assert main(["ruin"]) == 2
    assert "No such command 'ruin'" in capsys.readouterr().err
    assert main([]) == 2
    assert "Usage: cohsim" in capsys.readouterr().err
    assert main(["run"]) == 2
    assert "Missing argument 'MACHINE'; see 'cohsim run --help'" in capsys.readouterr().err
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in COMMANDS)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"cohsim, version {cohsim.__version__}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_has_help(name, capsys):
    assert cli.get_command(None, name).name == name
    assert main([name, "--help"]) == 0
    assert f"Usage: cohsim {name}" in capsys.readouterr().out


def test_progress_goes_to_stderr(calls, capsys):
    assert main(["run", "t4240", "tiny", "--json", "-", "--progress"]) == 0
    out, err = capsys.readouterr()
    json.loads(out)
    assert err == "tiny_path on tiny: 50%\n"  # not a terminal: plain lines


def test_module_and_closed_pipe(tmp_path):
    """In a process of its own: ``python -m cohsim``, an exit code, and a reader that leaves."""
    environment = os.environ | {"PYTHONPATH": str(Path(cohsim.__file__).parent.parent)}  # the cohsim under test, from anywhere
    done = subprocess.run(
        [sys.executable, "-m", "cohsim", "run", "nothing", "here"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "") and "no such machine file" in done.stderr and "Traceback" not in done.stderr
    child = subprocess.Popen(
        [sys.executable, "-m", "cohsim", "--help"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    child.stdout.close()
    assert child.stderr.read() == b"" and child.wait() == 0
    child.stderr.close()
