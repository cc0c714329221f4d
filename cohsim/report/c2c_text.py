"""The table of shared lines as text and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cohsim.report.c2c import CpuTake, Kill, SharedField, SharedLine, Take, Transfers, Verdict
from cohsim.report.table import count, percent, shorten, table
from cohsim.results.result import Result

WIDTH = 132
NAME_WIDTH = 34
PAIRS_SHOWN = 8


def as_json(result: Result, lines: Sequence[SharedLine], threshold: float) -> dict[str, Any]:
    """JSON-ready: the run, and each line as its dataclass plus ``label``, ``takes`` and ``take_ns``."""
    return {
        "workload": result.text("/run/workload"),
        "machine": result.text("/run/machine"),
        "cpus": result.cpus,
        "measured_ns": result.number("/run/measured_fs") / 1e6,
        "threshold": threshold,
        "pairs_lost": result.number("/run/pairs_lost"),
        "line_overflow": result.number("/run/line_overflow"),
        "lines": [{"label": line.label, "takes": line.take_count, "take_ns": line.take_ns, **asdict(line)} for line in lines],
    }


def render(result: Result, lines: Sequence[SharedLine], top: int, pairs: int = PAIRS_SHOWN, only: SharedLine | None = None) -> str:
    """The table of the ``top`` lines and, below, each of them that matters in detail; or only line ``only``. Ends in a newline."""
    shown = list(lines[:top]) if only is None else [only]
    blocks = [_head(result), _overview(shown)]
    for line in shown:
        if only is not None or line.verdict is not Verdict.DOES_NOT_MATTER:
            blocks.append(_detail(line, pairs))
    if only is None and len(lines) > top:
        share = sum(line.stall_share for line in lines[top:])
        blocks.append([f"{len(lines) - top} more lines: {percent(share)} of busy time is stall for them"])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _head(result: Result) -> list[str]:
    head = [f"{result.text('/run/workload')} on {result.text('/run/machine')}, {result.cpus} CPUs: shared lines by cost"]
    for what, name in (("/run/pairs_lost", "takes and lost reservations"), ("/run/line_overflow", "line events")):
        if lost := result.number(what):
            head.append(f"note: the table was full: {lost:,} {name} are counted, not attributed")
    return head


def _overview(lines: Sequence[SharedLine]) -> list[str]:
    if not lines:
        return ["no line was missed or fought for"]
    rows = []
    for line in lines:
        fields = line.fields
        rows.append(
            [
                percent(line.cost_share),
                percent(line.stall_share),
                shorten(line.label, NAME_WIDTH),
                str(line.verdict),
                count(line.take_count),
                _mean(line.take_ns, line.take_count),
                *(count(sum(getattr(f, name) for f in fields)) for name in ("hitm_local", "hitm_remote", "loads", "stores", "atomics")),
                count(line.retries),
                count(line.invalidations),
            ]
        )
    header = ["cost", "stall", "line", "verdict", "takes", "ns each", "LclHitm", "RmtHitm", "loads", "stores", "atomics", "retries", "inval"]
    return table(header, rows, ">><<>>>>>>>>>")


def _mean(total: float, number: int) -> str:
    return count(total / number) if number else "-"


def _detail(line: SharedLine, pairs: int) -> list[str]:
    struct = f" of struct {line.struct}" if line.struct else ""
    several = f", {line.lines} lines alike" if line.lines > 1 else ""
    beside = f"; beside it {', '.join(line.shared_with)}" if line.shared_with else ""
    out = [f"==== {line.label}{struct}{several}{beside}: {line.verdict}", *textwrap.wrap(line.reason, WIDTH)]
    if line.lock:
        out += ["", f"lock: {line.lock.kind} ({line.lock.field}); {count(line.lock.queue_length)} CPUs wait at it on average"]
    for block in (
        _fields(line.fields),
        _takers(line.takers, pairs),
        _cpu_pairs(line.cpu_takers, pairs),
        _distances(line.transfers),
        _killers(line.killers, line.retries, pairs),
    ):
        if block:
            out += ["", *block]
    return out


def _cpus(counts: Sequence[int]) -> int:
    return sum(1 for n in counts if n)


def _fields(fields: Sequence[SharedField]) -> list[str]:
    rows = [
        [
            percent(f.time_share),
            f"{f.offset}:{f.size}",
            shorten(f.label, NAME_WIDTH) + (f" [{f.lock}]" if f.lock else ""),
            f"{_cpus(f.reads_by_cpu)}/{_cpus(f.writes_by_cpu)}",
            *(count(n) for n in (f.loads, f.stores, f.atomics, f.hitm_local, f.hitm_remote)),
            *(count(ns) if f.accesses_beyond_l1 else "-" for ns in (f.mean_ns, f.p95_ns, f.p99_ns, f.max_ns)),
            shorten(", ".join(f.functions), NAME_WIDTH),
        ]
        for f in fields
    ]
    header = ["time", "bytes", "field", "R/W CPUs", "loads", "stores", "atomics", "LclHitm", "RmtHitm", "mean ns", "p95", "p99", "max", "functions"]
    return table(header, rows, "><<>>>>>>>>>><") if rows else []


def _site(function: str, label: str) -> str:
    return f"{function or '(prefetch or unknown)'}: {label or '?'}"


def _more(shown: Sequence[object], total: Sequence[CpuTake] | Sequence[Kill]) -> list[str]:
    rest = total[len(shown) :]
    return [f"{count(sum(r.count for r in rest))} in {len(rest)} more pairs"] if rest else []


def _takers(takers: Sequence[Take], most: int) -> list[str]:
    """Pairs of functions, whoever served them."""
    total = sum(t.latency_ns for t in takers)
    merged: dict[tuple[str, str, bool | None], list[Take]] = {}
    for t in takers:
        merged.setdefault((_site(t.taker, t.taker_field), _site(t.holder, t.holder_field), t.same_bytes), []).append(t)
    pairs = [
        (sum(t.latency_ns for t in ways), sum(t.count for t in ways), key, ", ".join(t.how for t in sorted(ways, key=lambda t: -t.count)))
        for key, ways in merged.items()
    ]
    pairs.sort(key=lambda pair: (-pair[0], -pair[1], pair[2][:2]))
    bytes_ = {True: "same", False: "other", None: "?"}
    rows = [
        [percent(spent / total) if total else "-", count(n), _mean(spent, n), taker, holder, bytes_[same], ways]
        for spent, n, (taker, holder, same), ways in pairs[:most]
    ]
    if not rows:
        return []
    rest = [f"{count(sum(n for _, n, *_ in pairs[most:]))} in {len(pairs) - most} more pairs"] if len(pairs) > most else []
    return [*table(["cycles", "takes", "ns each", "taken by", "from", "bytes", "served by"], rows, ">>><<<<"), *rest]


def _cpu_pairs(pairs: Sequence[CpuTake], most: int) -> list[str]:
    total = sum(p.latency_ns for p in pairs)
    rows = [
        [
            percent(p.latency_ns / total) if total else "-",
            count(p.count),
            _mean(p.latency_ns, p.count),
            str(p.taker),
            str(p.holder) if p.holder >= 0 else "?",
            str(p.distance),
        ]
        for p in pairs[:most]
    ]
    if not rows:
        return []
    return [*table(["cycles", "takes", "ns each", "by CPU", "from CPU", "distance"], rows, ">>>>><"), *_more(rows, pairs)]


def _distances(transfers: Sequence[Transfers]) -> list[str]:
    total = sum(t.latency_ns for t in transfers)
    rows = [[str(t.distance), count(t.count), _mean(t.latency_ns, t.count), percent(t.latency_ns / total) if total else "-"] for t in transfers]
    return table(["distance", "takes", "ns each", "cycles"], rows, "<>>>") if rows else []


def _killers(kills: Sequence[Kill], retries: int, most: int) -> list[str]:
    rows = [
        [count(k.count), _site(k.killer, k.killer_field) if k.killer or k.killer_field else "(eviction or device)", _site(k.victim, k.victim_field)]
        for k in kills[:most]
    ]
    if not rows:
        return []
    title = f"{count(sum(k.count for k in kills))} reservations lost, {count(retries)} store-conditionals failed"
    return [title, *table(["lost", "ended by a store of", "reservation of"], rows, "><<"), *_more(rows, kills)]
