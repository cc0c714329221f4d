"""``cohsim machine show`` and ``check``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from machine_text import SMALL, write

from cohsim.cli.machine import machine_group
from cohsim.machine import load_machine


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(machine_group, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_show_lists_every_value_with_source_and_times(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    code, out, err = run("show", path)
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["caches.cpc.hit"] == ["caches.cpc.hit", "90", "cycles", "90.00", "45.00", "cal", "calibrated"]
    assert rows["network.hop"] == ["network.hop", "5", "fabric", "cycles", "10.00", "5.00", "a", "assumed"]
    assert rows["l2_service"][-2:] == ["6.00", "3.00"]
    assert set(load_machine(path).values) - {"name", "title"} <= set(rows)


def test_show_is_the_same_twice_and_narrow_terminals_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    first = run("show", "t4240")
    monkeypatch.setenv("COLUMNS", "20")
    assert run("show", "t4240") == first and first[0] == 0


def test_show_with_override() -> None:
    code, out, _ = run("show", "t4240", "--set", "caches.l2.hit=14cycles")
    line = next(line for line in out.splitlines() if line.startswith("caches.l2.hit"))
    assert code == 0 and line.split()[1:] == ["14", "cycles", "14.00", "8.40", "command-line", "assumed"]
    assert "--set caches.l2.hit=14cycles" in out.splitlines()


def test_show_json_and_yaml(tmp_path: Path) -> None:
    code, out, _ = run("show", "corei7", "--json")
    document = json.loads(out)
    rows = {row["key"]: row for row in document["values"]}
    assert code == 0 and rows["memory.latency"]["ns"] == 67.6 and rows["memory.latency"]["kind"] == "measured"
    code, out, _ = run("show", "corei7", "--yaml")
    assert code == 0 and load_machine(write(tmp_path, out)).name == "corei7"
    assert run("show", "corei7", "--json", "--yaml")[0] == 2


def test_show_of_a_wrong_machine() -> None:
    assert run("show", "t424") == (2, "", "t424: no such machine file; did you mean 't4240'?\n")
    code, out, err = run("show", "t4240", "--set", "caches.l2.hit=14")
    assert (code, out) == (2, "") and err.count("\n") == 1


def test_check_goes_on_after_a_wrong_file(tmp_path: Path) -> None:
    bad = write(tmp_path, SMALL.replace("mshrs: 4 [a]", "mshrs: 4"))
    code, out, err = run("check", bad, "t4240")
    assert code == 2 and out.startswith("t4240: ok") and f"{bad}:" in err and "cores.mshrs: has no source" in err
    assert run("check", "t4240", "corei7", "xeon_x5550")[0] == 0
    assert run("check")[0] == 2
