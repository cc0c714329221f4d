"""What limits a run, which line, and why: sentences made from the figures of one result.

Nothing here knows a workload or a machine. Each sentence states a figure of the result or follows from one; where nothing in the caches limits the
run, it says so.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cohsim.report.table import count
from cohsim.report.text import CATEGORY_MEANING, line_name, nanoseconds
from cohsim.results.provenance import PERFORMANCE
from cohsim.results.result import Result

LIMITS = 0.10
"""Share of busy time from which on we say that one line limits the run."""

MATTERS = 0.02
"""Share of busy time from which on a line is worth a sentence."""

SATURATED, RESTED = 0.95, 0.90
"""A CPU busier than the first is full; a mean below the second means that CPUs wait for work."""


@dataclass(frozen=True)
class FieldOnLine:
    """Use of one field, all functions together."""

    name: str
    functions: tuple[str, ...]  # most expensive first
    loads: int
    writes: int  # stores and atomics


@dataclass(frozen=True)
class Suggestion:
    """A command to try, and what it asks."""

    question: str
    command: str


@dataclass(frozen=True)
class Story:
    """Headline, paragraphs and what to try next."""

    headline: str
    paragraphs: tuple[str, ...]
    suggestions: tuple[Suggestion, ...]


def tell(result: Result, summary: dict[str, Any], explanation: str = "", lock: str = "") -> Story:
    """The story of a run; ``summary`` is ``summarize(result)`` of all CPUs. ``explanation``: verdict on the hottest line, if one is known;
    ``lock``: what is known of the lock that most CPUs wait at.
    """
    lines = summary["lines"]
    worst = lines[0] if lines and lines[0]["stall_share"] >= MATTERS else None
    limited = worst is not None and worst["stall_share"] >= LIMITS
    paragraphs = [_what(summary)]
    if not summary["iterations"] and not summary["recorded"]:
        return Story("Nothing was completed in the measured window", (*paragraphs, "Measure longer (--measure) before reading anything else."), ())
    alone = _saturated_alone(result, summary)
    if alone is not None:
        headline = alone
    elif summary["tx_dropped"]:
        headline = f"The egress link limits this run: {summary['tx_dropped']:,} packets were dropped behind the CPUs"
    elif summary["cpu_utilization"] < RESTED:
        idle = _percent(1 - summary["cpu_utilization"])
        headline = f"Nothing limits this run: its CPUs wait for work {idle} of the time"
        paragraphs.append("The offered load decides the rate. To find a limit, offer more or use fewer CPUs.")
    elif summary["time_shares"]["spin"] >= max(LIMITS, worst["stall_share"] if worst is not None else 0.0):
        where, share = _spinning(result)
        headline = f"Waiting for each other limits this run: {where} spins {_percent(share)} of busy time"
        loops = _percent(summary["time_shares"]["spin"])
        paragraphs += [f"CPUs spend {loops} of busy time in wait loops; those of {where} take {_percent(share)}.", lock]
        paragraphs.append("What the holder does while the others wait, and how the lock moves, decides the rate.")
    elif limited:
        assert worst is not None
        headline = f"One cache line limits this run: {line_name(worst)} takes {_percent(worst['stall_share'])} of busy time"
    else:
        headline = "No cache line limits this run"
        paragraphs.append(_where_time_goes(summary, worst))
    if worst is None:
        return Story(headline, tuple(paragraphs), ())
    fields = fields_on(result, worst)
    if not _moves(summary, worst):
        paragraphs.append(f"No CPU takes {line_name(worst)} from another: the wait is for this CPU's own caches or the atomics on the line.")
        return Story(headline, tuple(paragraphs), ())
    paragraphs += [_cost(summary, worst), _why(worst, fields), explanation, _worth(summary, worst)]
    return Story(headline, tuple(p for p in paragraphs if p), _suggestions(result, worst, fields))


def _moves(summary: dict[str, Any], line: dict[str, Any]) -> bool:
    """Whether CPUs take the line from each other, rather than once in a while."""
    return bool(line["transfers"] > MATTERS * max(1, summary["iterations"]))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _one(summary: dict[str, Any]) -> str:
    return "packet" if summary["packet_rate_pps"] is not None else "iteration"


def _what(summary: dict[str, Any]) -> str:
    head = f"{summary['workload']} on {summary['machine']} with {_counted(summary['cpus'], 'CPU')}"
    each = summary["ns_per_iteration_per_cpu"]
    cost = f"; {_article(_one(summary))} takes {nanoseconds(each)} of one CPU" if each is not None else ""
    if summary["packet_rate_pps"] is not None:
        rate = f"{count(summary['packet_rate_pps'], 'packet/s')} ({summary['throughput_bps'] / 1e9:.3f} Gbit/s)"
        offered = summary["received"] + summary["dropped"]
        if not summary["dropped"]:
            lost = ""
        elif summary["nics"]:
            lost = f"; {summary['dropped']:,} packets were dropped"
        else:
            lost = f", and {_percent(summary['dropped'] / offered)} of the offered packets find their queue full"
        return f"{head} forwards {rate}{cost}{lost}."
    if not summary["iterations"]:
        return f"{head}: {summary['measured_ns'] / 1e3:,.0f} us were measured."
    return f"{head} completes {count(summary['iterations_per_second'], 'iterations/s')}{cost}."


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _saturated_alone(result: Result, summary: dict[str, Any]) -> str | None:
    """One full CPU while the others rest is a limit that a mean hides."""
    busy = np.array(summary["cpu_utilization_per_cpu"])
    full = np.flatnonzero(busy > SATURATED)
    if len(busy) < 2 or len(full) != 1 or summary["cpu_utilization"] >= RESTED:
        return None
    others = float(np.delete(busy, full[0]).mean())
    cpu = int(result.array("/threads/machine_cpu")[full[0]])
    return f"One CPU limits this run: CPU {cpu} is busy {_percent(float(busy[full[0]]))} of the time, the others {_percent(others)}"


def _spinning(result: Result) -> tuple[str, float]:
    """Function (atomics inside their callers) that spins most, and the share of busy time of all CPUs it spins."""
    names = result.names("/axes/category")
    time = result.array("/functions/time_fs").sum(axis=0)
    busy = int(time.sum() - time[:, names.index("idle")].sum()) or 1
    most = int(time[:, names.index("spin")].argmax())
    return result.names("/functions/name")[most], int(time[most, names.index("spin")]) / busy


def _where_time_goes(summary: dict[str, Any], worst: dict[str, Any] | None) -> str:
    shares = sorted(summary["time_shares"].items(), key=lambda item: -item[1])[:2]
    parts = " and ".join(f"{_percent(share)} goes to {CATEGORY_MEANING[name]} ({name})" for name, share in shares if share > 0.005)
    top = summary["functions"][0] if summary["functions"] else None
    where = f" Its busiest function is {top['name']} with {_percent(top['share'])}." if top else ""
    line = "" if worst is None else f" The worst line, {line_name(worst)}, takes {_percent(worst['stall_share'])}."
    return f"Of busy time, {parts}.{where}{line}" if parts else ""


def _cost(summary: dict[str, Any], line: dict[str, Any]) -> str:
    each = summary["iterations"]
    moves, retries = line["transfers"], line["retries"]
    if not each:
        return f"CPUs wait {line['stall_ns'] / 1e3:,.1f} us for it in all, and it moves {moves:,} times."
    text = f"Every {_one(summary)} waits {nanoseconds(line['stall_ns'] / each)} for {line_name(line)}"
    text += f", which moves {moves / each:.1f} times per {_one(summary)} from one core to another"
    if line["transfers_far"]:
        text += f", {line['transfers_far'] / each:.1f} of them between nodes"
    if line["remote_dirty"]:
        text += f" ({line['remote_dirty'] / each:.1f} times modified)"
    if retries:
        text += f"; {retries / each:.1f} store-conditionals per {_one(summary)} find their reservation lost and start again"
    return text + "."


def _why(line: dict[str, Any], fields: Sequence[FieldOnLine]) -> str:
    written = [f for f in fields if f.writes]
    only_read = [f for f in fields if not f.writes]
    parts = []
    if written:
        who = _names({name: None for f in written for name in f.functions})
        parts.append(f"{_names({f.name: None for f in written})} {'is' if len(written) == 1 else 'are'} written by {who}")
    if only_read and written:
        who = _names({name: None for f in only_read for name in f.functions})
        parts.append(
            f"{_names({f.name: None for f in only_read})} {'is' if len(only_read) == 1 else 'are'} only read, by {who}, "
            "and lost with every such write (false sharing)"
        )
    if line["shared_with"]:
        parts.append(f"there are also bytes of {_names(dict.fromkeys(line['shared_with']))}")
    return f"On this line, {'; '.join(parts)}." if parts else ""


def _names(names: dict[str, None], most: int = 4) -> str:
    """``a, b and c``; a long list is cut and counted."""
    shown = list(names)
    if len(shown) > most:
        return ", ".join(shown[:most]) + f" and {len(shown) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _worth(summary: dict[str, Any], line: dict[str, Any]) -> str:
    share = line["stall_share"]
    if share >= 1 or summary["cpu_utilization"] < RESTED:
        return ""
    return (
        f"If nobody ever waited for it, the rate could rise by at most {100 * (1 / (1 - share) - 1):.0f} %: an upper bound, since something else "
        "becomes the limit before; a simulated change tells how much is really there."
    )


def fields_on(result: Result, line: dict[str, Any]) -> list[FieldOnLine]:
    """The named fields of the line's own object that were used on it, most expensive first; empty where no object is known."""
    name = line["object"].removesuffix("[*]")
    objects = result.names("/objects/name")
    if name not in objects:
        return []
    number = objects.index(name)
    line_bytes = result.number("/run/line_bytes")
    first = line["offset"]
    end = first + line_bytes - (int(result.array("/objects/base")[number]) + first) % line_bytes
    start, size = result.array("/fields/offset_bytes"), result.array("/fields/size_bytes")
    here = np.flatnonzero((result.array("/fields/object") == number) & (start < end) & (start + size > first))
    time = result.array("/fields/time_fs").sum(axis=1)
    functions, field_names = result.names("/functions/name"), result.names("/fields/field")
    writes = result.array("/fields/stores") + result.array("/fields/atomics")
    found: dict[str, tuple[dict[str, None], int, int]] = {}
    for use in sorted(here.tolist(), key=lambda i: -int(time[i])):
        if field_names[use]:
            who, loads, written = found.get(field_names[use], ({}, 0, 0))
            who[functions[int(result.array("/fields/function")[use])]] = None
            found[field_names[use]] = (who, loads + int(result.array("/fields/loads")[use]), written + int(writes[use]))
    return [FieldOnLine(field, tuple(who), loads, written) for field, (who, loads, written) in found.items()]


def _suggestions(result: Result, line: dict[str, Any], fields: Sequence[FieldOnLine]) -> tuple[Suggestion, ...]:
    """Layouts to try: the costliest field alone, and the readers away from what is written. Only where something else is on the line."""
    written = [f for f in fields if f.writes]
    if result.settings["recorded"] or not written or len(fields) < 2:
        return ()
    name = line["object"].removesuffix("[*]")
    struct = result.names("/objects/struct")[result.names("/objects/name").index(name)]

    def try_moving(question: str, moved: Sequence[FieldOnLine]) -> Suggestion:
        return Suggestion(question, command_of(result, [word for f in moved for word in ("--layout", f"{struct}.{f.name}:own-line")]))

    found = [try_moving(f"What is it worth to give {fields[0].name}, the costliest field of the line, a line of its own?", fields[:1])]
    readers = [f for f in fields if not f.writes and f.loads][:2]
    if readers and readers != [fields[0]]:
        found.append(try_moving(f"What is it worth to move {_names({f.name: None for f in readers})} away from what is written?", readers))
    return tuple(found)


def command_of(result: Result, more: Sequence[str] = ()) -> str:
    """The command line that repeats a run, with options added."""
    s = result.settings
    words = ["cohsim", "run", s["machine_file"], s["workload_file"], "--cpus", str(s["cpus"])]
    if list(s["pin"]) != list(range(s["cpus"])):
        words += ["--pin", ",".join(map(str, s["pin"]))]
    for option, key in (("--variant", "variants"), ("--layout", "layouts"), ("--lock", "locks"), ("--isa", "isa_options"), ("--set", "overrides")):
        for value in s.get(key, ()):
            words += [option, value]
    single = (("--kernel", "kernel", None), ("--warmup", "warmup_ns", "ns"), ("--measure", "measure_ns", "ns"), ("--load", "load_pps", "pps"))
    for option, key, unit in single:
        if s.get(key) is not None:
            words += [option, s[key] if unit is None else f"{s[key]:.10g}{unit}"]
    if s.get("governor", PERFORMANCE) != PERFORMANCE:
        words += ["--governor", s["governor"]]
    if s["seed"] != 1:
        words += ["--seed", str(s["seed"])]
    return shlex.join([*words, *more])

