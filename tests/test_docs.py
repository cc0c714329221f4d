"""The commands of the tutorial and of docs/pictures.md: each is run as it stands there, only shorter; and what the tutorial claims is true."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cohsim.cli.main import main
from cohsim.experiment import prepare
from cohsim.results.summary import summarize

DOCS = ("tutorial.md", "pictures.md")
SHORT = ["--warmup", "10us", "--measure", "20us"]
SIMULATES = ("run", "sweep")


def commands(text: str) -> list[list[str]]:
    """The words of every command in the ``sh`` blocks."""
    return [shlex.split(line) for block in re.findall(r"```sh\n(.*?)```", text, re.S) for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("name", DOCS)
def test_every_command_runs_in_order(
    name: str, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = commands((checkout / "docs" / name).read_text(encoding="utf-8"))
    assert len(found) > 8
    monkeypatch.chdir(tmp_path)
    for command in found:
        assert command[0] == "cohsim"
        options = [*SHORT, *(["--jobs", "1"] if command[1] == "sweep" else [])] if command[1] in SIMULATES else []
        assert main([*command[1:], *options]) == 0, f"{shlex.join(command)}\n{capsys.readouterr().err}"
        assert capsys.readouterr().out.strip()
        for option in ("-o", "--html"):
            if option in command:
                assert Path(command[command.index(option) + 1]).stat().st_size > 1000


def test_tutorial_uses_every_tool_it_should(checkout: Path) -> None:
    used = {command[1] for command in commands((checkout / "docs" / "tutorial.md").read_text(encoding="utf-8"))}
    assert used == {"run", "report", "c2c", "diff", "plot", "sweep"}


@pytest.mark.slow
def test_what_the_tutorial_claims(checkout: Path) -> None:
    """Full runs: the rate before, the share of the hottest line, and what the move is worth (a calibration may shift them a little)."""
    text = (checkout / "docs" / "tutorial.md").read_text(encoding="utf-8")
    before = summarize(prepare("t4240", "ipv6_fwd").run())
    after = summarize(prepare("t4240", "ipv6_fwd", layouts=("rt6_info.dst.__refcnt:own-line",)).run())
    printed = float(re.search(r"prints ([\d.]+) Gbit/s", text)[1])  # type: ignore[index]
    assert before["throughput_bps"] / 1e9 == pytest.approx(printed, rel=0.03)
    share = float(re.search(r"CPUs wait for it ([\d.]+) %", text)[1])  # type: ignore[index]
    assert 100 * before["lines"][0]["stall_share"] == pytest.approx(share, abs=2)
    worth = float(re.search(r"it is worth \+(\d+) %", text)[1])  # type: ignore[index]
    assert 100 * (after["throughput_bps"] / before["throughput_bps"] - 1) == pytest.approx(worth, abs=5)
    assert after["lines"][0]["object"] == "table", "what limits it then"
