"""The ``cohsim`` command: finds the commands, and is the one place that turns errors into lines on stderr and an exit code.

0 done; 1 the simulated system failed; 2 usage or input error; 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

import cohsim
from cohsim.errors import CohsimError, InputError, ProtocolTableError, SimulationError

EXIT_DONE, EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("cohsim.cli.run:run_command", "Simulate a workload on a machine and report where the time goes."),
    "sweep": ("cohsim.cli.sweep:sweep_command", "Run a workload over CPU counts, seeds, machine values, variants and layouts."),
    "advise": ("cohsim.cli.advise:advise_command", "Propose changes from the verdicts on shared lines, simulate and rank them."),
    "report": ("cohsim.cli.report:report_command", "Print the report of a result file again."),
    "c2c": ("cohsim.cli.c2c:c2c_command", "Print which lines CPUs take from each other, and what that costs."),
    "timeline": ("cohsim.cli.timeline:timeline_command", "Write who owned a line when, as a trace for Perfetto."),
    "diff": ("cohsim.cli.diff:diff_command", "Print what moved from one result file to another; conditions for CI."),
    "plot": ("cohsim.cli.plot:plot_group", "Draw a picture of a result, a sweep or a machine."),
    "machine": ("cohsim.cli.machine:machine_group", "Show and check machine files."),
    "trace": ("cohsim.cli.trace:trace_group", "Check workloads and recorded traces, import and record them."),
    "protocol": ("cohsim.cli.protocol:protocol_group", "Print and exhaustively check coherence protocols."),
    "litmus": ("cohsim.cli.litmus:litmus_command", "Run litmus tests against what the instruction set allows."),
    "fuzz": ("cohsim.cli.fuzz:fuzz_command", "Race random programs and judge every value they load."),
}
"""Command -> (module:attribute, line of help). Loaded when asked for, so that one command does not pay for the imports of all."""


class LazyGroup(click.Group):
    """A group whose commands are imported on use; an import error is shown, never hidden."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _reader_may_leave():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _reader_may_leave():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """``cohsim ... | head``: drop what nobody reads. click would exit with 1, which here means a failed simulation."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(EXIT_DONE) from None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(cohsim.__version__, prog_name="cohsim")
def cli() -> None:
    """Cycle-level emulator of how a multicore's caches move the lines that threads contend for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        code = cli.main(args=list(arguments) if arguments is not None else None, prog_name="cohsim", standalone_mode=False)
        return code if isinstance(code, int) else EXIT_DONE
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EXIT_INPUT
    except click.ClickException as error:
        _complain([_usage_line(error)])
        return EXIT_INPUT
    except InputError as error:
        _complain([str(problem) for problem in error.problems])
        return EXIT_INPUT
    except ProtocolTableError as error:
        _complain([str(error)])
        return EXIT_INPUT
    except SimulationError as error:
        _complain([f"simulation failed: {error}", *error.report.splitlines()])
        return EXIT_FAILED
    except CohsimError as error:
        _complain([str(error)])
        return EXIT_FAILED
    except (KeyboardInterrupt, click.Abort):
        _complain(["interrupted"])
        return EXIT_INTERRUPTED


def _complain(lines: list[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def _usage_line(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context is not None else "cohsim"
    what = " ".join(error.format_message().split()).rstrip(".")
    return f"{command}: {what}; see '{command} --help'"


if __name__ == "__main__":
    sys.exit(main())
