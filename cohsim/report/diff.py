"""Two results side by side: what differs in their settings, what moved, by how much, and conditions on that for CI.

A is before, B is after. Counts and times are per iteration of the workload, so that windows and numbers of CPUs may differ; per millisecond
of the measured window if one of the runs completed no iteration.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cohsim.errors import InputError, Problem
from cohsim.report.table import count, percent, shorten, table
from cohsim.report.text import line_name
from cohsim.results.result import Result
from cohsim.results.summary import FS_PER_NS, IDLE, summarize

WIDTH = 100
NAME_WIDTH = 40
SMALLEST_SHOWN = 5e-6  # relative to the largest cost of a table: what a report with four digits cannot show did not move
OPERATORS: dict[str, Callable[[float, float], bool]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
UNITS = {"throughput": ("%",), "ns_per_iteration": ("%", "ns"), "cpu_utilization": ("%", "pt"), "retries": ("%", "")}
THROUGHPUT = {"bit/s": "throughput_bps", "iterations/s": "iterations_per_second"}
SHARE_OF = ("function", "primitive")  # function:NAME and primitive:NAME are shares of busy time
_CONDITION = re.compile(r"\s*([^<>=]+?)\s*(<=|>=|<|>)\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*(%|pt|ns|)\s*")


@dataclass(frozen=True)
class Pair:
    """A quantity before and after; None where a run has no such quantity."""

    a: float | None
    b: float | None

    @property
    def change(self) -> float | None:
        """B - A in the quantity's own unit."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def change_percent(self) -> float | None:
        """B relative to A; infinite where something came from nothing."""
        if self.a is None or self.b is None:
            return None
        if self.a == 0:
            return 0.0 if self.b == 0 else math.copysign(math.inf, self.b)
        return 100 * (self.b - self.a) / self.a

    def as_json(self) -> dict[str, float | None]:
        relative = self.change_percent
        return {"a": self.a, "b": self.b, "change": self.change, "change_percent": relative if relative is None or math.isfinite(relative) else None}


@dataclass(frozen=True)
class Row:
    """One function, primitive, line, field or category in both runs."""

    name: str
    values: Mapping[str, Pair]
    fields: Sequence[str] = ()  # of a line


@dataclass(frozen=True)
class Difference:
    """Something about how the runs were made that is not the same."""

    what: str
    a: str
    b: str


@dataclass(frozen=True)
class Comparison:
    """Everything ``cohsim diff`` prints."""

    workload: str
    machine: str
    differs: list[Difference]
    per: str  # "iteration" or "ms": what counts and ``ns`` of rows are divided by
    throughput_unit: str  # bit/s if both runs forward packets, else iterations/s
    rates: dict[str, Pair]
    groups: dict[str, list[Row]]  # time, functions, primitives, lines, fields: largest move first, what did not move last
    known: dict[str, frozenset[str]] = field(repr=False)  # names a condition may ask for, those that never ran included

    def as_json(self) -> dict[str, Any]:
        """JSON-ready values; ``change_percent`` is null where A is zero and B is not."""
        return {
            "workload": self.workload,
            "machine": self.machine,
            "differs": [{"what": d.what, "a": d.a, "b": d.b} for d in self.differs],
            "per": self.per,
            "throughput_unit": self.throughput_unit,
            "rates": {name: pair.as_json() for name, pair in self.rates.items()},
            **{group: [_row_json(row, group == "lines") for row in rows] for group, rows in self.groups.items()},
        }


def _row_json(row: Row, with_fields: bool) -> dict[str, Any]:
    extra = {"fields": list(row.fields)} if with_fields else {}
    return {"name": row.name, **extra, **{key: pair.as_json() for key, pair in row.values.items()}}


def compare(a: Result, b: Result) -> Comparison:
    """Compare two results. Whether they may be compared is for the caller to decide (``differs``)."""
    results = (a, b)
    summaries = (summarize(a, top_lines=None), summarize(b, top_lines=None))
    per = "iteration" if all(s["iterations"] for s in summaries) else "ms"
    units = [float(s["iterations"]) if per == "iteration" else s["measured_ns"] / 1e6 for s in summaries]
    busy_ns = [s["cpu_utilization"] * s["cpus"] * s["measured_ns"] for s in summaries]
    tables: dict[str, list[dict[str, dict[str, float]]]] = {"time": [], "functions": [], "primitives": [], "lines": [], "fields": []}
    for result, summary, unit, busy in zip(results, summaries, units, busy_ns, strict=True):
        scale = 1 / unit if unit else 0.0
        tables["time"].append({name: {"ns": share * busy * scale, "share": share} for name, share in summary["time_shares"].items()})
        for group in ("functions", "primitives"):
            tables[group].append({row["name"]: _profile_values(row, busy, scale) for row in summary[group]})
        tables["lines"].append({line_name(line): _line_values(line, scale) for line in summary["lines"]})
        tables["fields"].append(_fields(result, scale))
    line_fields: dict[str, dict[str, None]] = {}  # of both runs, in order: a field that is no longer used tells what changed
    for line in (line for s in summaries for line in s["lines"]):
        line_fields.setdefault(line_name(line), {}).update(dict.fromkeys(line["fields"]))
    unit_of_throughput = "bit/s" if all(s["throughput_bps"] is not None for s in summaries) else "iterations/s"
    return Comparison(
        workload=_both(*(s["workload"] for s in summaries)),
        machine=_both(*(s["machine"] for s in summaries)),
        differs=differences(a, b, *summaries),
        per=per,
        throughput_unit=unit_of_throughput,
        rates={"throughput": Pair(*(s[THROUGHPUT[unit_of_throughput]] for s in summaries)), **_rates(*summaries, *units)},
        groups={group: _rows(before, after, line_fields if group == "lines" else {}) for group, (before, after) in tables.items()},
        known={kind: frozenset(n for r in results for n in _names(r, kind)) for kind in SHARE_OF},
    )


def _names(result: Result, kind: str) -> list[str]:
    """The de-inlined profile has functions as well as primitives."""
    functions = result.names("/functions/name")
    return functions if kind == "function" else [*functions, *result.names("/primitives/name")]


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a} -> {b}"


def _profile_values(row: dict[str, Any], busy_ns: float, scale: float) -> dict[str, float]:
    return {"ns": row["share"] * busy_ns * scale, "share": row["share"], "calls": row["calls"] * scale, "retries": row["retries"] * scale}


def _line_values(line: dict[str, Any], scale: float) -> dict[str, float]:
    values = {key: line[source] * scale for key, source in (("ns", "stall_ns"), ("moves", "transfers"), ("retries", "retries"))}
    return {**values, "invalidations": line["invalidations"] * scale, "share": line["stall_share"]}


def _fields(result: Result, scale: float) -> dict[str, dict[str, float]]:
    """Fields by ``object.field``, over all functions; bytes without a name by ``object+offset:size``."""
    time = result.array("/fields/time_fs")
    busy = (time.sum(axis=1) - time[:, IDLE]).tolist()
    objects = result.names("/objects/name")
    columns = [result.array(f"/fields/{name}").tolist() for name in ("object", "offset_bytes", "size_bytes", "sc_failures")]
    found: dict[str, dict[str, float]] = {}
    for name, spent, obj, offset, size, retries in zip(result.names("/fields/field"), busy, *columns, strict=True):
        label = f"{objects[obj]}.{name}" if name else f"{objects[obj]}+{offset}:{size}"
        values = found.setdefault(label, {"ns": 0.0, "retries": 0.0})
        values["ns"] += spent / FS_PER_NS * scale
        values["retries"] += retries * scale
    return found


def _rates(a: dict[str, Any], b: dict[str, Any], unit_a: float, unit_b: float) -> dict[str, Pair]:
    """What one number says of a whole run, but for the throughput."""

    def pair(key: str) -> Pair:
        return Pair(a[key], b[key])

    def lost(s: dict[str, Any]) -> float | None:
        offered = (s["received"] or 0) + (s["dropped"] or 0)
        return None if s["dropped"] is None else s["dropped"] / offered if offered else 0.0

    def per_unit(group: str, key: str) -> Pair:
        return Pair(*(sum(row[key] for row in s[group]) / unit if unit else 0.0 for s, unit in ((a, unit_a), (b, unit_b))))

    return {
        "iterations_per_second": pair("iterations_per_second"),
        "ns_per_iteration": pair("ns_per_iteration_per_cpu"),
        "cpu_utilization": pair("cpu_utilization"),
        "dropped_share": Pair(lost(a), lost(b)),
        "retries": per_unit("functions", "retries"),
        "line_moves": per_unit("lines", "transfers"),
    }


def _rows(a: dict[str, dict[str, float]], b: dict[str, dict[str, float]], fields: Mapping[str, Mapping[str, None]]) -> list[Row]:
    """Rows of both sides; what one side lacks cost nothing there."""
    rows = []
    for name in {**a, **b}:
        keys = a.get(name) or b[name]
        pairs = {key: Pair(a.get(name, {}).get(key, 0.0), b.get(name, {}).get(key, 0.0)) for key in keys}
        rows.append(Row(name, pairs, list(fields.get(name, ()))))
    return sorted(rows, key=lambda row: (-abs(row.values["ns"].change or 0.0), row.name))


def differences(a: Result, b: Result, summary_a: dict[str, Any], summary_b: dict[str, Any]) -> list[Difference]:
    """What was not the same about how the runs were made; a result depends on nothing else but uncommitted changes of cohsim ("+")."""
    settings_a, settings_b = a.settings, b.settings
    found: list[Difference] = []

    def add(what: str, left: str, right: str) -> None:
        if left != right:
            found.append(Difference(what, left, right))

    for what in ("machine", "workload"):
        add(what, summary_a[what], summary_b[what])
        if summary_a[what] == summary_b[what] and a.text(f"/provenance/{what}_text") != b.text(f"/provenance/{what}_text"):
            found.append(Difference(f"text of the {what} file", settings_a[f"{what}_file"], settings_b[f"{what}_file"]))
    options = {"variants": "--variant", "layouts": "--layout", "overrides": "--set", "locks": "--lock", "isa_options": "--isa"}
    for key, what in options.items():
        add(what, *(" ".join(s.get(key, ())) or "none" for s in (settings_a, settings_b)))  # older results have no --lock
    add("--kernel", *(s["kernel"] or "default" for s in (settings_a, settings_b)))
    add("seed", str(summary_a["seed"]), str(summary_b["seed"]))
    add("CPUs", str(summary_a["cpus"]), str(summary_b["cpus"]))
    if summary_a["cpus"] == summary_b["cpus"]:
        add("--pin", *(",".join(map(str, r.array("/threads/machine_cpu").tolist())) for r in (a, b)))
    add("warm-up", *(f"{s['warmup_ns'] / 1e3:g} us" for s in (summary_a, summary_b)))
    add("measured", *(f"{s['measured_ns'] / 1e3:g} us" for s in (summary_a, summary_b)))
    add("end of the run", summary_a["stop"], summary_b["stop"])
    add("cohsim", *(" ".join(str(r.host.get(k, "")) for k in ("cohsim_version", "git_commit")).strip() for r in (a, b)))
    return found


@dataclass(frozen=True)
class Condition:
    """``throughput < -2%``: a bound on the change of a metric from A to B."""

    text: str
    metric: str
    operator: str
    bound: float
    unit: str  # "%": relative to A; "pt": percentage points of a share; "ns" or "": the metric's own unit


@dataclass(frozen=True)
class Verdict:
    """A condition on two runs; ``change`` is in the unit of the condition, infinite where something came from nothing."""

    condition: Condition
    change: float
    holds: bool

    def as_json(self) -> dict[str, Any]:
        change = self.change if math.isfinite(self.change) else None
        return {"condition": self.condition.text, "change": change, "unit": self.condition.unit, "holds": self.holds}

    def __str__(self) -> str:
        moved = f"{self.change:+.4g}{' ' if self.condition.unit == 'ns' else ''}{self.condition.unit}" if math.isfinite(self.change) else "from zero"
        return f"{self.condition.text}: {'holds' if self.holds else 'does not hold'}, the change is {moved}"


def parse_condition(text: str) -> Condition:
    """Parse a condition. Raises ValueError that says what to write instead."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a condition; write METRIC, < <= > or >=, and a change: 'throughput < -2%'")
    metric, sign, bound, unit = match[1], match[2], float(match[3]), match[4]
    kind, colon, name = metric.partition(":")
    if colon and kind in SHARE_OF and name:
        units: tuple[str, ...] = ("pt", "%")
    elif metric in UNITS:
        units = UNITS[metric]
    else:
        raise ValueError(f"{text!r}: there is no metric {metric!r}; choose {', '.join(UNITS)}, {' or '.join(f'{k}:NAME' for k in SHARE_OF)}")
    if unit not in units:
        wanted = " or ".join(f"{match[3]}{u}" for u in units)
        raise ValueError(f"{text!r}: a change of {metric} is written {wanted}")
    return Condition(" ".join(text.split()), metric, sign, bound, unit)


def judge(comparison: Comparison, conditions: Sequence[Condition]) -> list[Verdict]:
    """Evaluate the conditions. Raises InputError for those that ask for what neither run has, all at once."""
    verdicts, problems = [], []
    for condition in conditions:
        try:
            change = _change(comparison, condition)
        except LookupError as error:
            problems.append(Problem("--fail-if", f"{condition.text!r}: {error.args[0]}", "such a condition cannot be judged"))
            continue
        verdicts.append(Verdict(condition, change, OPERATORS[condition.operator](change, condition.bound)))
    if problems:
        raise InputError(problems)
    return verdicts


def _change(comparison: Comparison, condition: Condition) -> float:
    kind, colon, name = condition.metric.partition(":")
    if not colon:
        pair = comparison.rates[condition.metric]
    elif name not in comparison.known[kind]:
        raise LookupError(f"neither run has a {kind} {name!r}")
    else:
        rows = comparison.groups[f"{kind}s"]
        pair = next((row.values["share"] for row in rows if row.name == name), Pair(0.0, 0.0))
    change = pair.change_percent if condition.unit == "%" else pair.change
    if change is None:
        raise LookupError(f"a run has no {condition.metric}: it completed no iteration")
    return 100 * change if condition.unit == "pt" else change


def render(comparison: Comparison, top: int = 12) -> str:
    """The comparison as text that ends in a newline. ``top`` bounds the rows of each table."""
    blocks = [_rate_table(comparison)]
    titles = {
        "time": f"busy time by cause, ns per {comparison.per}",
        "functions": f"functions, atomics inlined, ns per {comparison.per}",
        "primitives": f"functions, atomics on their own, ns per {comparison.per}",
        "lines": f"lines, ns waited for them per {comparison.per} and moves between cores or nodes",
        "fields": f"fields, ns spent at them per {comparison.per}",
    }
    blocks += [_group(group, title, comparison.groups[group], top) for group, title in titles.items()]
    cut = [[shorten(line, WIDTH) for line in block] for block in blocks]
    return "\n\n".join("\n".join(block) for block in [_headline(comparison), *cut]) + "\n"


def _headline(comparison: Comparison) -> list[str]:
    head = f"{comparison.workload} on {comparison.machine}: A (before) and B (after)"
    if not comparison.differs:
        return [head, "  same settings"]
    return [head, *(f"note: {d.what} differs: {d.a} -> {d.b}" for d in comparison.differs)]


def _rate_table(comparison: Comparison) -> list[str]:
    bits = comparison.throughput_unit == "bit/s"
    shares = ("cpu_utilization", "dropped_share")
    labels = {
        "throughput": f"throughput, {comparison.throughput_unit}",
        "iterations_per_second": "iterations/s",
        "ns_per_iteration": "ns per iteration and CPU",
        "cpu_utilization": "CPU utilization",
        "dropped_share": "packets dropped on receipt",
        "retries": f"lost reservations per {comparison.per}",
        "line_moves": f"moves of lines per {comparison.per}",
    }
    rows = []
    for key, pair in comparison.rates.items():
        if pair == Pair(None, None) or (key == "iterations_per_second" and not bits):
            continue
        show = _share if key in shares else _number
        rows.append([labels[key], show(pair.a), show(pair.b), _points(pair) if key in shares else _relative(pair)])
    return table(["", "A", "B", "change"], rows, "<>>>")


def _group(group: str, title: str, rows: Sequence[Row], top: int) -> list[str]:
    largest = max((abs(v) for row in rows for v in (row.values["ns"].a, row.values["ns"].b) if v is not None), default=0.0)
    moved = [row for row in rows if any(pair.change for key, pair in row.values.items() if key != "share")]
    moved = [row for row in moved if abs(row.values["ns"].change or 0.0) > SMALLEST_SHOWN * largest or "moves" in row.values]
    if not moved:
        return [f"{title}: nothing moved"]
    extra = {"time": ["share"], "functions": ["share"], "primitives": ["share"], "lines": ["moves"], "fields": []}[group]
    header = ["A", "B", "change", *(f"{name} {side}" for name in extra for side in "AB"), *(["change"] if "share" in extra else []), group]
    body = []
    for row in moved[:top]:
        ns = row.values["ns"]
        cells = [_number(ns.a), _number(ns.b), _signed(ns.change)]
        for name in extra:
            pair = row.values[name]
            cells += [_share(pair.a), _share(pair.b), _points(pair)] if name == "share" else [_number(pair.a), _number(pair.b)]
        body.append([*cells, shorten(row.name, NAME_WIDTH) + (f"  {', '.join(row.fields)}" if row.fields else "")])
    lines = [title, *table(header, body, ">" * (len(header) - 1) + "<")]
    rest = moved[top:]
    return [*lines, f"{_signed(sum(row.values['ns'].change or 0.0 for row in rest))} in {len(rest)} more"] if rest else lines


def _number(value: float | None) -> str:
    """Four digits, so that small changes of large numbers show."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 1e4:
        return count(value, " ").strip()
    return f"{value:.1f}" if size >= 1000 else f"{value:.4g}" if size >= 0.001 else f"{value:.1g}"


def _signed(value: float | None) -> str:
    return "-" if value is None else "0" if value == 0 else f"{'+' if value > 0 else '-'}{_number(abs(value))}"


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _points(pair: Pair) -> str:
    return "-" if pair.change is None else f"{_rounded(100 * pair.change):+.2f}pt"


def _relative(pair: Pair) -> str:
    relative = pair.change_percent
    return "-" if relative is None else f"{_rounded(relative):+.2f}%" if math.isfinite(relative) else "from zero"


def _rounded(value: float) -> float:
    """To two decimals, without a negative zero."""
    return round(value, 2) + 0.0
