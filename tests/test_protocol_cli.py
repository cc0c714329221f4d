"""``cohsim protocol``: output and exit codes."""
from __future__ import annotations

import json

import pytest

from cohsim.cli import protocol as command
from cohsim.cli.main import main
from cohsim.protocols import tables
from cohsim.protocols.language import Controller


def test_table_shows_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "table", "moesi"]) == 0
    assert "rsp_owned                                  -> O" in capsys.readouterr().out
    assert main(["protocol", "table", "moesi", "--markdown"]) == 0
    assert "| **SnpS** |" in capsys.readouterr().out


def test_check_prints_states_and_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "check", "msi", "--caches", "2", "--home", "broadcast"]) == 0
    out = capsys.readouterr().out
    assert "msi, broadcast home, 2 caches: 348 states" in out and "all properties hold" in out


def test_check_writes_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "check", "msi", "mesi", "--caches", "2", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(e["protocol"], e["holds"], len(e["searches"])) for e in found] == [("msi", True, 2), ("mesi", True, 2)]


def test_lint_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "lint"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{name}: clean" for name in ("msi", "mesi", "mesif", "moesi")]


@pytest.mark.parametrize("arguments", [["table", "dragon"], ["check"], ["check", "msi", "--caches", "1"],
                                       ["check", "msi", "--cluster", "--mutants"]])
def test_wrong_use_is_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", *arguments]) == 2
    assert "cohsim protocol" in capsys.readouterr().err


def test_a_broken_protocol_is_exit_1_with_its_counterexample(monkeypatch: pytest.MonkeyPatch,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    def broken(name: str) -> tuple[Controller, Controller]:
        node, home = tables(name)
        del node.rows["S", "SnpM"]
        return node, home

    monkeypatch.setattr("cohsim.protocols.check.tables", broken)
    monkeypatch.setattr(command, "tables", broken)
    assert main(["protocol", "check", "msi"]) == 1
    out = capsys.readouterr().out
    assert "no row for SnpM in S" in out and "0 start" in out and "FAILS" in out
    assert main(["protocol", "lint"]) == 0      # the lint does not claim to see this
    assert main(["protocol", "check", "msi", "--cluster"]) == 1
