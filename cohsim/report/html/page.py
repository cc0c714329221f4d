"""The page of a result: what the template shows, and the data its script draws.

The page fetches nothing: style, script and data are inline, and its content security policy forbids everything else. Text of a workload is
escaped by the template engine, data by its JSON filter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cohsim.errors import InputError
from cohsim.report.c2c import SharedLine, Verdict, shared_lines
from cohsim.report.palette import CATEGORY_COLOURS
from cohsim.report.plots.runs import node_names, rate
from cohsim.report.story import command_of, tell
from cohsim.report.text import CATEGORY_MEANING, line_name, megahertz, nanoseconds, notices
from cohsim.results.result import Result
from cohsim.results.summary import summarize

FIRST_ROWS = 20  # rows of a table before "show all"
PROFILE_BARS = 14
SMALLEST_QUEUE = 0.1  # CPUs that wait at a lock on average, below which it is not worth a sentence
MOST_MATRICES = 3  # lines whose takers are drawn CPU by CPU
MEANING = {**CATEGORY_MEANING, "idle": "nothing to do"}
NOT_RECORDED = "This file does not say who took lines from whom; run again with this cohsim to have it."


@dataclass(frozen=True)
class Column:
    """``kind``: text, count (integer), share (fraction shown as %), number (with ``digits``)."""

    title: str
    kind: str = "count"
    digits: int = 0
    meaning: str = ""  # shown when the pointer rests on the heading

    def show(self, value: Any) -> str:
        """The cell's text."""
        if value is None or value == "":
            return "–" if self.kind != "text" else ""
        if self.kind == "share":
            return f"{100 * value:.2f} %"
        return str(value) if self.kind == "text" else f"{value:,.{self.digits}f}"


@dataclass(frozen=True)
class Table:
    """A sortable table; rows are values in the order of the columns, largest first in column ``sorted_by``."""

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: list[list[Any]]
    sorted_by: int
    note: str = ""
    empty: str = "Nothing to show."
    first_rows: int = field(default=FIRST_ROWS)


def render_page(result: Result) -> str:
    """The whole page as text. Raises nothing a valid result could cause."""
    summary = summarize(result)
    shared = _shared(result)
    explanation = f"Verdict on {shared[0].label}: {shared[0].verdict}. {shared[0].reason}" if shared else ""
    loader = PackageLoader("cohsim.report", "html")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    style, script = (Markup(loader.get_source(environment, name)[0]) for name in ("page.css", "page.js"))
    return environment.get_template("page.html").render(
        title=f"{summary['workload']} on {summary['machine']}, {summary['cpus']} CPUs",
        style=style,
        script=script,
        summary=summary,
        story=tell(result, summary, explanation, _lock(shared)),
        notices=[line.removeprefix("note: ") for line in notices(summary)],
        facts=_facts(summary),
        tables=_tables(result, summary, shared),
        charts=_charts(result, summary, shared),
        command=command_of(result),
        provenance=_provenance(result),
    )


def _shared(result: Result) -> list[SharedLine] | None:
    """Who took which line from whom; None where the file does not have it."""
    try:
        return shared_lines(result)
    except InputError:
        return None


def _lock(shared: list[SharedLine] | None) -> str:
    """The lock most CPUs wait at, in a sentence; empty if none is known or nobody waits."""
    line = max((line for line in shared or [] if line.lock is not None), key=lambda line: line.lock.queue_length if line.lock else 0.0, default=None)
    if line is None or line.lock is None or line.lock.queue_length < SMALLEST_QUEUE:
        return ""
    lock = line.lock
    return f"At the {lock.kind} lock {lock.field}, on line {line.label}, {lock.queue_length:.1f} CPUs wait on average."


def _facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The headline figures."""
    each = summary["ns_per_iteration_per_cpu"]
    one = "packet" if summary["packet_rate_pps"] is not None else "iteration"
    facts = [("rate", rate(summary)), (f"one {one}, per CPU", nanoseconds(each) if each is not None else "–")]
    facts.append(("CPU utilization", f"{100 * summary['cpu_utilization']:.1f} %"))
    if summary["dropped"] is not None:
        facts.append(("dropped", f"{summary['dropped']:,}"))
    if summary["clock"]["trials"]:
        facts.append(("core clock", f"{megahertz(summary['clock']['core_hz'])}, {summary['clock']['governor']}"))
    facts.append(("measured", f"{summary['measured_ns'] / 1e3:,.0f} µs after {summary['warmup_ns'] / 1e3:,.0f} µs of warm-up"))
    return facts


# ------------------------------------------------------------------------------------------------------------- tables


def _tables(result: Result, summary: dict[str, Any], shared: list[SharedLine] | None) -> list[Table]:
    return [
        _profile_table("functions", "Functions, atomics inside their callers", "function", summary["functions"]),
        _profile_table("primitives", "Functions, atomics on their own", "primitive or function", summary["primitives"]),
        _line_table(summary, shared),
        _field_table(result),
        _thread_table(result, summary),
        *([_take_table(shared)] if shared is not None else []),
    ]


def _profile_table(name: str, title: str, what: str, rows: list[dict[str, Any]]) -> Table:
    columns = (
        Column(what, "text"),
        Column("share", "share", meaning="of busy time of all CPUs"),
        Column("cycles", "number", 0, "busy core cycles per call, without callees"),
        Column("calls"),
        Column("retries", meaning="store-conditionals that failed"),
        Column("mostly", "text", meaning="largest categories of its time"),
    )
    cells = [[row["name"], row["share"], row["self_cycles"], row["calls"], row["retries"], _mostly(row["time_shares"])] for row in rows]
    return Table(name, title, columns, cells, 1, empty="No function ran in the measured window.")


def _mostly(shares: dict[str, float]) -> str:
    largest = sorted(shares.items(), key=lambda item: -item[1])[:2]
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in largest if share >= 0.05)


def _line_table(summary: dict[str, Any], shared: list[SharedLine] | None) -> Table:
    verdicts = {} if shared is None else {line.label: str(line.verdict) for line in shared}
    columns = (
        Column("line", "text"),
        Column("stall", "share", meaning="share of busy time spent waiting for it"),
        Column("moves", meaning="from another core or node"),
        Column("modified", meaning="moves in which another node supplied it modified"),
        Column("invalidations", meaning="copies dropped because of another CPU's store"),
        Column("retries", meaning="store-conditionals that failed"),
        Column("atomics", meaning="that left the core"),
        Column("stores", meaning="that left the core"),
        Column("loads", meaning="that left the core"),
        Column("queued µs", "number", 1, "time requests waited in its queues at L2 and home"),
        *([Column("verdict", "text")] if verdicts else []),
        Column("fields", "text"),
    )
    keys = ("stall_share", "transfers", "remote_dirty", "invalidations", "retries", "atomics", "stores", "loads")
    rows = [
        [line_name(line), *(line[key] for key in keys)]
        + [line["queue_ns"] / 1e3, *([verdicts.get(line_name(line), "")] if verdicts else []), _fields_of(line)]
        for line in summary["lines"]
        if line["stall_ns"] or line["transfers"]
    ]
    return Table("lines", "Cache lines", columns, rows, 1, "" if shared is not None else NOT_RECORDED, "No line was waited for or moved.")


def _fields_of(line: dict[str, Any]) -> str:
    text = ", ".join(line["fields"])
    return f"{text} (shared with {', '.join(line['shared_with'])})" if line["shared_with"] else text


def _field_table(result: Result) -> Table:
    objects, functions, primitives = (result.names(f"/{group}/name") for group in ("objects", "functions", "primitives"))
    time = result.array("/fields/time_fs")
    idle = result.names("/axes/category").index("idle")
    busy = result.array("/threads/time_fs")
    total = int(busy.sum() - busy[:, idle].sum()) or 1
    levels = result.names("/axes/level")
    near = [levels.index("forward"), levels.index("l1")]
    served = result.array("/fields/served")
    columns = (
        Column("field", "text"),
        Column("used by", "text"),
        Column("time", "share", meaning="of busy time of all CPUs"),
        Column("loads"),
        Column("stores"),
        Column("atomics", meaning="read-modify-writes and store-conditionals"),
        Column("beyond L1", "share", meaning="accesses that neither the store buffer nor L1 served"),
        Column("retries", meaning="store-conditionals that failed"),
        Column("offset", meaning="bytes from the start of the object"),
    )
    rows: list[list[Any]] = []
    for i, name in enumerate(result.names("/fields/field")):
        obj = objects[int(result.array("/fields/object")[i])]
        offset, size = int(result.array("/fields/offset_bytes")[i]), int(result.array("/fields/size_bytes")[i])
        primitive = int(result.array("/fields/primitive")[i])
        user = functions[int(result.array("/fields/function")[i])] + (f" ({primitives[primitive]})" if primitive >= 0 else "")
        counts = [int(result.array(f"/fields/{kind}")[i]) for kind in ("loads", "stores", "atomics", "sc_failures")]
        all_served = int(served[i].sum())
        far = float((all_served - served[i, near].sum()) / all_served) if all_served else None
        share = float((time[i].sum() - time[i, idle]) / total)
        rows.append([f"{obj}.{name}" if name else f"{obj}+{offset}:{size}", user, share, *counts[:3], far, counts[3], offset])
    rows.sort(key=lambda row: (-row[2], row[0], row[1]))
    return Table("fields", "Fields", columns, rows, 2, empty="The workload names no fields.")


def _thread_table(result: Result, summary: dict[str, Any]) -> Table:
    packets = summary["packet_rate_pps"] is not None
    columns = (
        Column("CPU", meaning="number in the machine"),
        Column("core"),
        Column("node", meaning="private L2 or cluster"),
        Column("busy", "share"),
        Column("packets" if packets else "iterations"),
        *([Column("dropped", meaning="its receive queue was full")] if packets else []),
        Column("retries", meaning="store-conditionals that failed"),
        Column("mostly", "text", meaning="largest categories of its time"),
    )
    time = result.array("/threads/time_fs")
    names = result.names("/axes/category")
    failures = result.array("/functions/sc_failures").sum(axis=1)
    rows: list[list[Any]] = []
    for cpu in range(result.cpus):
        place = [int(result.array(f"/threads/{key}")[cpu]) for key in ("machine_cpu", "core", "node")]
        done = [int(result.array("/threads/iterations")[cpu]), *([int(result.array("/threads/dropped")[cpu])] if packets else [])]
        shares = {n: float(t / max(1, time[cpu].sum())) for n, t in zip(names, time[cpu].tolist(), strict=True)}
        rows.append([*place, summary["cpu_utilization_per_cpu"][cpu], *done, int(failures[cpu]), _mostly(shares)])
    rows.sort(key=lambda row: -row[3])
    return Table("threads", "CPUs", columns, rows, 3, first_rows=64)


def _take_table(shared: list[SharedLine]) -> Table:
    columns = (
        Column("line", "text"),
        Column("taken by", "text"),
        Column("from", "text", meaning="function that had used it last"),
        Column("how", "text", meaning="who served the taker"),
        Column("times"),
        Column("total µs", "number", 1, "latency of these accesses"),
        Column("mean ns", "number", 0),
        Column("same bytes", "text", meaning="whether both wanted the same bytes; if not, the sharing is false"),
    )
    rows: list[list[Any]] = [
        [
            line.label,
            f"{take.taker}: {take.taker_field}" if take.taker_field else take.taker,
            (f"{take.holder}: {take.holder_field}" if take.holder_field else take.holder) or "unknown",
            take.how,
            take.count,
            take.latency_ns / 1e3,
            take.latency_ns / take.count if take.count else None,
            {True: "yes", False: "no", None: "unknown"}[take.same_bytes],
        ]
        for line in shared
        for take in line.takers
    ]
    rows.sort(key=lambda row: -row[5])
    return Table("takes", "Who took lines from whom", columns, rows, 5, empty="No CPU took a line from another.")


# ------------------------------------------------------------------------------------------------------------- charts


def _charts(result: Result, summary: dict[str, Any], shared: list[SharedLine] | None) -> dict[str, Any]:
    """Data of the charts, ready for JSON."""
    names = result.names("/axes/category")
    return {
        "categories": [{"name": n, "colour": CATEGORY_COLOURS[n], "meaning": MEANING[n]} for n in names],
        "bars": [_cpu_bars(result), _profile_bars(result)],
        "heats": [_latency_heat(result), *_transfer_heats(result, shared)],
    }


def _cpu_bars(result: Result) -> dict[str, Any]:
    time = result.array("/threads/time_fs") / max(1, result.number("/run/measured_fs"))
    cpus = result.array("/threads/machine_cpu").tolist()
    rows = [{"label": f"CPU {cpu}", "parts": [round(100 * v, 4) for v in row]} for cpu, row in zip(cpus, time.tolist(), strict=True)]
    return {"id": "cpus", "title": "Where each CPU's time goes", "unit": "% of time", "limit": 100, "rows": rows}


def _profile_bars(result: Result) -> dict[str, Any]:
    time = result.array("/primitives/time_fs").sum(axis=0).astype(float)
    idle = result.names("/axes/category").index("idle")
    time[:, idle] = 0
    busy = time.sum() or 1.0
    names = result.names("/primitives/name")
    order = [i for i in np.argsort(-time.sum(axis=1), kind="stable")[:PROFILE_BARS] if time[i].any()]
    rows = [{"label": names[i], "parts": [round(100 * v / busy, 4) for v in time[i].tolist()]} for i in order]
    return {"id": "profile", "title": "The costliest functions, atomics on their own", "unit": "% of busy time", "limit": None, "rows": rows}


def _latency_heat(result: Result) -> dict[str, Any]:
    counts = result.array("/latency/operations")
    levels = result.names("/axes/level")
    used = [i for i in range(len(levels)) if counts[i].any()]
    last = int(np.flatnonzero(counts.sum(axis=0)).max()) + 1 if used else 0
    marks = ["< 2", *(f"{2**b}" if b < 14 else f"2^{b}" for b in range(1, last))]
    return {
        "id": "latency",
        "title": "Latency of memory operations",
        "note": "Rows: who served them. Columns: core cycles, from the number to the next. Shade: logarithm of the count.",
        "rows": [levels[i] for i in used],
        "columns": marks,
        "values": counts[used, :last].tolist(),
        "log": True,
        "unit": "operations",
        "axis": "cycles",
    }


def _transfer_heats(result: Result, shared: list[SharedLine] | None) -> list[dict[str, Any]]:
    moved = result.array("/transfers/nodes")
    names = node_names(result, len(moved))
    heats = [_matrix("transfers", "Lines that moved between nodes", "Row: who had the line. Column: who took it.", names, moved.tolist(), "lines")]
    if shared:
        cpus = [str(cpu) for cpu in result.array("/threads/machine_cpu").tolist()]
        matter = [line for line in shared if line.take_count and line.verdict != Verdict.DOES_NOT_MATTER]
        for number, line in enumerate(matter[:MOST_MATRICES]):
            values = np.zeros((len(cpus), len(cpus)), np.int64)
            for take in line.cpu_takers:
                if take.holder >= 0:
                    values[take.holder, take.taker] += take.count
            title = f"Who took {line.label} from whom"
            note = "Row: the CPU that had used it. Column: the CPU that took it."
            heats.append(_matrix(f"takes-{number}", title, note, cpus, values.tolist(), "times"))
    return heats


def _matrix(name: str, title: str, note: str, names: list[str], values: list[list[int]], unit: str) -> dict[str, Any]:
    return {"id": name, "title": title, "note": note, "rows": names, "columns": names, "values": values, "log": False, "unit": unit, "axis": ""}


def _provenance(result: Result) -> list[tuple[str, str]]:
    host = result.host
    shown = (("cohsim", "cohsim_version"), ("commit", "git_commit"), ("command", "command"), ("started", "started"), ("host", "host"))
    return [(label, str(host[key])) for label, key in shown if key in host]
