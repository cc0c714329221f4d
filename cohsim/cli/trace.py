"""``cohsim trace``: check workload files and show what they mean."""

from __future__ import annotations

import sys

import click

from cohsim.cli.main import EXIT_INPUT
from cohsim.cli.options import check_each, complain
from cohsim.datafiles import find_data
from cohsim.errors import InputError
from cohsim.workload.check import check_file
from cohsim.workload.info import describe
from cohsim.workload.load import ISAS, SUFFIX, compile_text
from cohsim.workload.parse import read_text


@click.group("trace")
def trace_group() -> None:
    """Check workload files and show what they mean."""


@trace_group.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def check(files: tuple[str, ...]) -> None:
    """List all problems of each FILE (or bundled name), for both instruction sets and every variant, or say ok."""
    check_each(files, lambda name: check_file(find_data("workloads", name, SUFFIX)))


@trace_group.command("info")
@click.argument("file")
@click.option("--isa", type=click.Choice(ISAS), default="x86", show_default=True, help="Instruction set to lower for.")
@click.option("--cpus", type=int, default=2, show_default=True, help="Number of CPUs.")
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="Switch a variant on. Repeatable.")
@click.option(
    "--layout", "layouts", multiple=True, metavar="OPTION", help="Try another layout, e.g. rt6_info.rt6i_gateway@192. Repeatable."
)
@click.option("--kernel", metavar="VERSION", help="Kernel version instead of the file's.")
def info(file: str, isa: str, cpus: int, variants: tuple[str, ...], layouts: tuple[str, ...], kernel: str | None) -> None:
    """Addresses, lines and their writers, counts per path, and the lowered primitives of FILE (or a bundled name)."""
    try:
        path = find_data("workloads", file, SUFFIX)
        compilation = compile_text(
            read_text(path), str(path), isa=isa, cpus=cpus, variants=variants, layouts=layouts, kernel=kernel
        )
    except InputError as error:
        complain(error)
        sys.exit(EXIT_INPUT)
    click.echo(describe(compilation), nl=False)
