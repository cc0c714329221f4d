"""``cohsim fuzz``: racing random programs against an independent oracle."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from cohsim.cli.main import EXIT_FAILED, EXIT_INTERRUPTED
from cohsim.cli.options import STDOUT, check_output, write_json
from cohsim.cli.progress import progress_bar
from cohsim.errors import InputError, Problem
from cohsim.protocols import PROTOCOLS


class Count(click.ParamType[float]):
    """A number of operations, ``1e6``."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number; write 1000000 or 1e6", param, ctx)
        if not 1 <= number < 1e15:
            self.fail(f"{value!r} is not between 1 and 1e15", param, ctx)
        return number


@click.command("fuzz")
@click.option("--operations", type=Count(), default="1e6", show_default=True, help="Memory operations to do, such as 1e6.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of the campaign.")
@click.option("--machine", metavar="M", help="Only this machine (file, or name of one that comes with cohsim; default: all of those).")
@click.option("--protocol", type=click.Choice(list(PROTOCOLS), case_sensitive=False), help="Only this protocol (default: all).")
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes (default: one per CPU).")
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Stop after this much host time.")
@click.option("--case", "case_seed", type=click.IntRange(min=0), help="Only the case of this seed, as a failure prints it.")
@click.option("--replay", metavar="FILE", help="Only the case saved in FILE.")
@click.option("--save", metavar="FILE", help="Save a failing case, made as small as possible, as JSON.")
@click.option("--shrink-time", type=click.FloatRange(min=0), default=60.0, show_default=True, metavar="SECONDS",
              help="Host time for making a failing case smaller; 0: leave it as it is.")
@click.option("--json", "json_target", metavar="FILE", help="Write totals, coverage and failure as JSON; - is stdout.")
@click.option("--progress/--no-progress", default=None, help="Progress bar on stderr (default: on a terminal).")
def fuzz_command(operations: float, seed: int, machine: str | None, protocol: str | None, jobs: int | None, time_limit: float | None,
                 case_seed: int | None, replay: str | None, save: str | None, shrink_time: float, json_target: str | None,
                 progress: bool | None) -> None:
    """Run random programs on all machines and protocols and judge every value they load. Exit code 1 on a failure."""
    from cohsim.fuzz.campaign import campaign
    from cohsim.fuzz.execute import base_machine

    if case_seed is not None and replay is not None:
        raise click.UsageError("--case and --replay exclude each other")
    check_output(json_target, "--json")
    check_output(save, "--save")
    if machine is not None:
        base_machine(machine)                                # a wrong name is an input error now
    if case_seed is not None or replay is not None:
        total = _single(case_seed, replay, machine, protocol)
    else:
        with progress_bar("fuzz", progress) as advance:
            total = campaign(operations, seed, machine=machine, protocol=protocol, jobs=jobs or os.cpu_count() or 1,
                             time_limit_s=time_limit, progress=advance)
    document = _document(total, seed)
    if json_target != STDOUT:
        _print(document, stopped=total.stopped)
    if total.failed is not None:
        document["failure"] = _failure(total.failed, shrink_time, save, replay)
    if json_target is not None:
        write_json(document, json_target)
    if total.failed is not None:
        raise click.exceptions.Exit(EXIT_FAILED)
    if total.stopped == "interrupted":
        raise click.exceptions.Exit(EXIT_INTERRUPTED)


def _single(case_seed: int | None, replay: str | None, machine: str | None, protocol: str | None) -> Any:
    """A campaign of one given case."""
    from cohsim.fuzz.campaign import Campaign
    from cohsim.fuzz.case import load
    from cohsim.fuzz.generate import generate
    from cohsim.fuzz.verdict import run_case

    if replay is not None:
        try:
            case = load(Path(replay).read_bytes())
        except OSError as error:
            raise InputError(Problem(replay, f"cannot be read: {error.strerror}", "give a file written by --save")) from None
        except msgspec.MsgspecError as error:
            raise InputError(Problem(replay, f"is no saved case: {error}", "give a file written by --save")) from None
    else:
        assert case_seed is not None
        case = generate(case_seed, machine, protocol)
    outcome, failure = run_case(case)
    total = Campaign(operations=outcome.operations, values=sum(log.size for log in outcome.logs), cases=1)
    total.coverage.add((case.machine, case.protocol, case.home), outcome.node_fired, outcome.home_fired, outcome.operations)
    if failure is not None:
        total.failed, total.stopped = (case, failure), "failure"
    return total


def _document(total: Any, seed: int) -> dict[str, Any]:
    coverage = []
    for key in sorted(total.coverage.node):
        fired, never = total.coverage.rows(key)
        coverage.append({"machine": key[0], "protocol": key[1], "home": key[2], "operations": total.coverage.operations[key],
                         "rows": fired + len(never), "fired": fired,
                         "never": [{"row": str(row), "reason": row.reason} for row in never]})
    return {"seed": seed, "operations": total.operations, "values": total.values, "cases": total.cases, "stopped": total.stopped,
            "host_seconds": round(total.seconds, 3), "failure": None, "coverage": coverage}


def _print(document: dict[str, Any], stopped: str) -> None:
    for entry in document["coverage"]:
        open_ = [row["row"] for row in entry["never"] if not row["reason"]]
        known: dict[str, int] = {}
        for row in entry["never"]:
            if row["reason"]:
                known[row["reason"]] = known.get(row["reason"], 0) + 1
        text = f"{entry['machine']} {entry['protocol']} {entry['home']}: {entry['operations']:,} operations, " \
               f"{entry['fired']} of {entry['rows']} rows fired"
        text += "".join(f"; {n} {reason.split(':')[0]}" for reason, n in known.items())
        click.echo(text + (f"; never: {', '.join(open_)}" if open_ else ""))
    click.echo(f"{document['operations']:,} operations, {document['values']:,} values judged, {document['cases']:,} cases, "
               f"{document['host_seconds']:.1f} s; stopped by {stopped}")


def _failure(failed: tuple[Any, Any], seconds: float, save: str | None, replay: str | None) -> dict[str, Any]:
    """Print the failure and the command that repeats it; make the case smaller, print and save that."""
    from cohsim.fuzz.case import describe
    from cohsim.fuzz.case import save as to_json
    from cohsim.fuzz.shrink import shrink
    from cohsim.results.atomic import whole_file

    case, failure = failed
    command = f"cohsim fuzz --replay {shlex.quote(replay)}" if replay is not None else (
        f"cohsim fuzz --case {case.seed} --machine {shlex.quote(case.machine)} --protocol {case.protocol}")
    _say(f"FAILED: {failure.text}")
    _say(f"repeat with: {command}")
    small, text = case, failure.text
    if seconds > 0:
        _say(f"making it smaller (at most {seconds:.0f} s) ...")
        small, last = shrink(case, failure.rule, seconds=seconds)
        text = last.text
        _say(describe(small))
        _say(text)
    if save is not None:
        with whole_file(Path(save)) as temporary:
            temporary.write_bytes(to_json(small))
        _say(f"saved; repeat with: cohsim fuzz --replay {shlex.quote(save)}")
    return {"rule": failure.rule, "text": failure.text, "command": command, "case": msgspec.to_builtins(case),
            "small": msgspec.to_builtins(small), "small_text": text}


def _say(text: str) -> None:
    print(text, file=sys.stderr)
