"""Every published table and figure against the emulator: runs the scripts of this folder and writes an overview.

    python analysis/all.py                       # all of them, into analysis/out
    python analysis/all.py x5550_counter         # some of them
    python analysis/all.py --publish             # and copy the README's pictures to docs/img

A new comparison is a module with ``produce(out: Path) -> Comparison`` (comparison.py) and its name in SCRIPTS.
"""
from __future__ import annotations

import importlib
import shutil
import time
from pathlib import Path

import click
from comparison import HEADER, Comparison

from cohsim.errors import CohsimError

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ("ipv6_scaling", "x5550_counter", "llsc_counter", "latency_tables", "vlan_tso")
PUBLISHED = ("ipv6_scaling.png", "x5550_counter.png")
"""Pictures that the README shows."""


def overview(found: list[Comparison]) -> str:
    """The headlines of all comparisons and where their whole tables are."""
    lines = ["# Published figures and the emulator", "", "Written by `python analysis/all.py`.", "", *HEADER]
    lines += ["| " + " | ".join(row.cells()) + " |" for comparison in found for row in comparison.headlines]
    for comparison in found:
        lines += ["", f"## {comparison.title}", "", f"[The whole table]({comparison.name}.md). Measured: {comparison.source}.", ""]
        lines += [f"![]({picture})" for picture in comparison.pictures]
    return "\n".join(lines) + "\n"


@click.command(help=__doc__)
@click.argument("scripts", nargs=-1, type=click.Choice(SCRIPTS))
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=ROOT / "analysis" / "out", help="Default: analysis/out.")
@click.option("--publish", is_flag=True, help="Copy the README's pictures to docs/img.")
def main(scripts: tuple[str, ...], output: Path, publish: bool) -> None:
    output.mkdir(parents=True, exist_ok=True)
    found = []
    for name in scripts or SCRIPTS:
        begun = time.monotonic()
        try:
            found.append(importlib.import_module(name).produce(output))
        except CohsimError as error:
            raise click.ClickException(f"{name}: {error}") from error
        click.echo(f"{name}: {time.monotonic() - begun:.0f} s", err=True)
    text = overview(found)
    (output / "README.md").write_text(text, encoding="utf-8")
    click.echo(text, nl=False)
    if publish:
        _publish(output, [picture for comparison in found for picture in comparison.pictures])


def _publish(output: Path, drawn: list[str]) -> None:
    target = ROOT / "docs" / "img"
    target.mkdir(exist_ok=True)
    for picture in PUBLISHED:
        if picture in drawn:
            shutil.copyfile(output / picture, target / picture)
            click.echo(f"docs/img/{picture}", err=True)


if __name__ == "__main__":
    main()
