"""The summary of a result: what ``--json`` writes and the text report prints.

Shares are of busy (non-idle) time in the measured window, over all CPUs of the run or of one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cohsim.errors import InputError, Problem
from cohsim.results.lines import Placement, field_table, object_map
from cohsim.results.provenance import PERFORMANCE
from cohsim.results.result import Result
from cohsim.results.rundata import CATEGORIES, LINE_STATS, NIC_STATS

IDLE = CATEGORIES.index("idle")
STAT = {name: column for column, name in enumerate(LINE_STATS)}
NIC_STAT = {name: column for column, name in enumerate(NIC_STATS)}
FS_PER_NS = 1_000_000
FS_PER_S = 10**15
SUMMARY_LINES = 256  # rows of the summary's list of lines; /lines of the result file has all


def summarize(result: Result, cpu: int | None = None, top_lines: int | None = SUMMARY_LINES) -> dict[str, Any]:
    """Summary of all CPUs, or of CPU ``cpu`` of the run (rates, shares and profile are then that CPU's; lines always concern the
    whole machine). ``top_lines`` bounds the list of lines; None gives all. Raises InputError if the run had no such CPU.
    """
    chosen = _chosen(result, cpu)
    time = result.array("/threads/time_fs")
    measured_fs, total_fs = result.number("/run/measured_fs"), result.number("/run/total_fs")
    busy = time.sum(axis=1) - time[:, IDLE]
    utilization = busy / measured_fs if measured_fs else np.zeros(len(busy))
    host_seconds = float(result.host["host_seconds"])
    operations = result.number("/run/memory_operations")
    return {
        "cohsim": result.host["cohsim_version"],
        "machine": result.text("/run/machine"),
        "workload": result.text("/run/workload"),
        "cpus": result.cpus,
        "cpu": cpu,
        "seed": result.number("/run/seed"),
        "stop": result.text("/run/stop"),
        "simulated_seconds": measured_fs / FS_PER_S,
        "measured_ns": measured_fs / FS_PER_NS,
        "warmup_ns": (total_fs - measured_fs) / FS_PER_NS,
        "host_seconds": host_seconds,
        "memory_operations": operations,
        "events": result.number("/run/events"),
        "local_turns": result.host.get("local_turns"),
        "memory_operations_per_host_second": operations / host_seconds if host_seconds else None,
        **_rates(result, chosen, measured_fs),
        "cpu_utilization": float(utilization[chosen].mean()),
        "cpu_utilization_per_cpu": utilization.tolist(),
        "time_shares": _shares(time[chosen].sum(axis=0)),
        "cpus_detail": cpu_details(result),
        "stuck": stuck_rows(result),
        "nics": nic_rows(result, measured_fs),
        "counters": _counters(result, chosen),
        "programs": program_rows(result, chosen, measured_fs),
        "clock": clock(result),
        "functions": profile(result, "functions", chosen),
        "primitives": profile(result, "primitives", chosen),
        "lines": hot_lines(result, top_lines),
        "line_overflow": result.number("/run/line_overflow"),
        "recorded": result.settings["recorded"],
        "assumptions": result.names("/run/assumptions"),
        "settings": result.settings,
    }


def check_cpu(cpu: int | None, cpus: int) -> None:
    """Raise InputError unless CPU ``cpu`` (None: all) is one of the run's ``cpus``."""
    if cpu is not None and not 0 <= cpu < cpus:
        raise InputError(Problem("--cpu", f"the run has no CPU {cpu}", f"choose 0 to {cpus - 1}"))


def _chosen(result: Result, cpu: int | None) -> np.ndarray:
    """Thread numbers the summary covers."""
    check_cpu(cpu, result.cpus)
    return np.arange(result.cpus) if cpu is None else np.array([cpu])


def _rates(result: Result, chosen: np.ndarray, measured_fs: int) -> dict[str, Any]:
    """Rates of the chosen threads; packet figures are None where the workload has no packet source.

    ``dropped``: the receive queue was full; ``tx_dropped``: the egress link, which all CPUs share, was too far behind.
    """
    seconds = measured_fs / FS_PER_S
    if result.has("/nics/name") and result.names("/nics/name"):
        return _nic_rates(result, seconds)
    iterations = int(result.array("/threads/iterations")[chosen].sum())
    per_second = iterations / seconds if seconds else 0.0
    frame_bytes = result.number("/run/frame_bytes")
    packets = frame_bytes > 0
    return {
        "iterations": iterations,
        "iterations_per_second": per_second,
        "ns_per_iteration_per_cpu": measured_fs * len(chosen) / FS_PER_NS / iterations if iterations else None,
        "packet_rate_pps": per_second if packets else None,
        "throughput_bps": per_second * frame_bytes * 8 if packets else None,
        "received": int(result.array("/threads/received")[chosen].sum()) if packets else None,
        "dropped": int(result.array("/threads/dropped")[chosen].sum()) if packets else None,
        "tx_dropped": result.data.get("/network/tx_dropped", 0) if packets else None,
    }


def _nic_rates(result: Result, seconds: float) -> dict[str, Any]:
    """Rates where NICs carry the packets: frames that the output NICs sent. They concern the whole machine: a frame belongs to no CPU.

    ``dropped``: lost in a NIC's FIFO or ring, or dropped by the workload's own queues; ``paused``: share of the time a sender was held back.
    """
    stats = result.array("/nics/stats")
    out = stats[result.array("/nics/output") == 1]
    frames, sent_bytes = int(out[:, NIC_STAT["tx_frames"]].sum()), int(out[:, NIC_STAT["tx_bytes"]].sum())
    counted = result.array("/counters/count")
    dropped = int(stats[:, NIC_STAT["missed"]].sum()) + int(counted[:, 0].sum() if counted.shape[1] else 0)
    return {
        "iterations": frames,
        "iterations_per_second": frames / seconds if seconds else 0.0,
        "ns_per_iteration_per_cpu": seconds * 1e9 * result.cpus / frames if frames else None,
        "packet_rate_pps": frames / seconds if seconds else 0.0,
        "throughput_bps": sent_bytes * 8 / seconds if seconds else 0.0,
        "received": int(stats[:, NIC_STAT["rx_frames"]].sum()),
        "dropped": dropped,
        "tx_dropped": 0,
        "offered_pps": float(result.data["/run/offered_pps"]),  # type: ignore[arg-type]
        "paused": float(stats[:, NIC_STAT["paused_fs"]].max(initial=0) / FS_PER_S / seconds) if seconds else 0.0,
    }


def nic_rows(result: Result, measured_fs: int) -> list[dict[str, Any]]:
    """One row per network device: counts in the window, and shares of it for the times."""
    rows: list[dict[str, Any]] = []
    if not result.has("/nics/name"):
        return rows
    for i, name in enumerate(result.names("/nics/name")):
        values = dict(zip(NIC_STATS, result.array("/nics/stats")[i].tolist(), strict=True))
        paused, blocked = values.pop("paused_fs"), values.pop("blocked_fs")
        share = {"paused": paused / measured_fs if measured_fs else 0.0, "blocked": blocked / measured_fs if measured_fs else 0.0}
        rows.append({"name": name, "offered_pps": float(result.array("/nics/offered_pps")[i]), **values, **share})
    return rows


def _counters(result: Result, chosen: np.ndarray) -> dict[str, int]:
    if not result.has("/counters/count"):
        return {}
    counts = result.array("/counters/count")[chosen].sum(axis=0).tolist()
    return dict(zip(result.names("/counters/name"), counts, strict=True))


def clock(result: Result) -> dict[str, Any]:
    """The cores' clock, who chose it, and the runs that decided it (none with ``performance``): clock, load of the busiest CPU, clock asked for.

    ``alternates``: the clocks between which the governor goes round for ever, in the order of the trials; empty where it settles on one.
    """
    governor = result.settings.get("governor", PERFORMANCE)  # files of earlier versions do not say
    if not result.has("/clock/chosen"):
        return {"governor": governor, "core_hz": FS_PER_S / result.number("/run/core_period_fs"), "trials": [], "alternates": []}
    hz, load, wanted = (result.array(f"/clock/{column}").tolist() for column in ("trial_hz", "load", "next_hz"))
    circle = hz[hz.index(wanted[-1]) :]
    return {
        "governor": governor,
        "core_hz": hz[result.number("/clock/chosen")],
        "trials": [{"core_hz": a, "load": b, "next_hz": c} for a, b, c in zip(hz, load, wanted, strict=True)],
        "alternates": circle if len(circle) > 1 else [],
    }


def program_rows(result: Result, chosen: np.ndarray, measured_fs: int) -> list[dict[str, Any]]:
    """Busy time of the chosen threads by program (process or interrupt path), as a share of all their time, largest first."""
    if not result.has("/programs/time_fs"):
        return []
    time = result.array("/programs/time_fs")[chosen].sum(axis=0)
    busy = time.sum(axis=1) - time[:, IDLE]
    whole = measured_fs * len(chosen)
    rows = [
        {"name": name, "utilization": float(busy[i] / whole) if whole else 0.0} for i, name in enumerate(result.names("/programs/name"))
    ]
    return sorted(rows, key=lambda row: (-row["utilization"], row["name"]))


def cpu_details(result: Result) -> list[dict[str, Any]]:
    """Every CPU: how busy, in which categories (shares of all its time, idle included), and the functions it spends most time in."""
    time, functions, names = result.array("/threads/time_fs"), result.array("/functions/time_fs"), result.names("/functions/name")
    busy = functions.sum(axis=2) - functions[:, :, IDLE]
    rows = []
    for cpu in range(result.cpus):
        whole = int(time[cpu].sum())
        order = np.argsort(-busy[cpu], kind="stable")[:3]
        rows.append(
            {
                "cpu": cpu,
                "utilization": float((whole - time[cpu, IDLE]) / whole) if whole else 0.0,
                "shares": {name: float(time[cpu, i] / whole) for i, name in enumerate(CATEGORIES) if whole and time[cpu, i]},
                "functions": [
                    {"name": names[i], "share": float(busy[cpu, i] / whole)} for i in order.tolist() if whole and busy[cpu, i]
                ],
            }
        )
    return rows


def stuck_rows(result: Result) -> list[dict[str, Any]]:
    """CPUs that were spinning when the run ended, for half of the measured time or longer: where, on what, how long.

    ``offset`` -1 and ``value`` None: the loop reads no value that it tests. ``others``: most iterations that one other CPU completed in the
    measured time; where NICs carry the packets, frames sent per CPU.
    """
    if not result.has("/waits/cpu"):
        return []
    iterations = result.array("/threads/iterations")
    frames = 0
    if result.has("/nics/name") and result.names("/nics/name"):
        sent = result.array("/nics/stats")[result.array("/nics/output") == 1]
        frames = int(sent[:, NIC_STAT["tx_frames"]].sum()) // result.cpus
    rows = []
    for i, cpu in enumerate(result.array("/waits/cpu").tolist()):
        reads = int(result.array("/waits/address")[i]) >= 0
        rows.append(
            {
                "cpu": cpu,
                "function": result.names("/waits/function")[i],
                "line": int(result.array("/waits/line")[i]),
                "object": result.names("/waits/object")[i],
                "offset": int(result.array("/waits/offset_bytes")[i]),
                "field": result.names("/waits/field")[i],
                "lock": result.names("/waits/lock")[i],
                "value": int(result.array("/waits/value")[i]) % (1 << 64) if reads else None,
                "waited_ns": int(result.array("/waits/waited_fs")[i]) / FS_PER_NS,
                "others": max(frames, int(np.delete(iterations, cpu).max(initial=0))),
            }
        )
    return rows


def _shares(time_fs: np.ndarray) -> dict[str, float]:
    """Share of busy time of every category but idle."""
    busy = int(time_fs.sum() - time_fs[IDLE])
    return {name: float(time_fs[i] / busy) if busy else 0.0 for i, name in enumerate(CATEGORIES) if i != IDLE}


def profile(result: Result, group: str, threads: np.ndarray) -> list[dict[str, Any]]:
    """Rows of the inlined (``functions``) or de-inlined (``primitives``) profile, largest share first, without what never ran.

    ``self_cycles`` is busy time per call without callees; None where the run counted no call of it.
    """
    time = result.array(f"/{group}/time_fs")[threads].sum(axis=0)
    calls = result.array(f"/{group}/calls")[threads].sum(axis=0).tolist()
    retries = result.array(f"/{group}/sc_failures")[threads].sum(axis=0).tolist()
    busy = time.sum(axis=1) - time[:, IDLE]
    total = int(busy.sum())
    period = result.number("/run/core_period_fs")
    rows = []
    for i, name in enumerate(result.names(f"/{group}/name")):
        if not busy[i] and not calls[i]:
            continue
        rows.append(
            {
                "name": name,
                "share": float(busy[i] / total) if total else 0.0,
                "self_cycles": float(busy[i] / calls[i] / period) if calls[i] else None,
                "calls": calls[i],
                "retries": retries[i],
                "time_shares": {k: v for k, v in _shares(time[i]).items() if v},
            }
        )
    return sorted(rows, key=lambda row: (-row["share"], row["name"]))


def hot_lines(result: Result, top: int | None = None) -> list[dict[str, Any]]:
    """Lines by stall share. Lines of objects with many instances (per-CPU, per-packet) are one row per offset, ``object[*]``."""
    stats, owner = result.array("/lines/stats"), result.array("/lines/object")
    offset, address = result.array("/lines/offset_bytes"), result.array("/lines/address")
    time = result.array("/threads/time_fs")
    busy = int(time.sum() - time[:, IDLE].sum())
    groups: dict[tuple[int, int], list[int]] = {}
    for row, (obj, start, where) in enumerate(zip(owner.tolist(), offset.tolist(), address.tolist(), strict=True)):
        groups.setdefault((obj, start) if obj >= 0 else (-1, where), []).append(row)
    sums = {key: stats[rows].sum(axis=0) for key, rows in groups.items()}
    order = sorted(sums, key=lambda key: (-int(sums[key][STAT["stall_fs"]]), key))
    naming = _Naming(result)
    return [_line_row(naming, key, groups[key], sums[key], busy) for key in order[:top]]


def _line_row(naming: _Naming, key: tuple[int, int], rows: list[int], stats: np.ndarray, busy_fs: int) -> dict[str, Any]:
    def stat(name: str) -> int:
        return int(stats[STAT[name]])

    name, offset, others, fields = naming.of(key, rows)
    return {
        "object": name,
        "offset": offset,
        "stall_share": stat("stall_fs") / busy_fs if busy_fs else 0.0,
        "transfers": stat("transfers_near") + stat("transfers_far"),
        "remote_dirty": stat("remote_dirty"),
        "retries": stat("sc_failures"),
        "fields": fields,
        "lines": len(rows),
        "shared_with": others,
        "stall_ns": stat("stall_fs") / FS_PER_NS,
        "queue_ns": stat("queue_fs") / FS_PER_NS,
        **{
            k: stat(k)
            for k in (
                "loads",
                "stores",
                "atomics",
                "fills",
                "upgrades",
                "transfers_near",
                "transfers_far",
                "remote_clean",
                "memory",
                "invalidations",
            )
        },
    }


class _Naming:
    """Names of lines: object, what shares the line with it, and the fields the run used there."""

    def __init__(self, result: Result):
        self._names = result.names("/objects/name")
        self._instances = result.array("/objects/instances").tolist()
        self._objects, self._fields = object_map(result.data), field_table(result.data)
        self._address, self._instance = result.array("/lines/address").tolist(), result.array("/lines/instance").tolist()
        self._line_bytes = result.number("/run/line_bytes")

    def of(self, key: tuple[int, int], rows: list[int]) -> tuple[str, int, list[str], list[str]]:
        """(object name, offset in it, other objects on these lines, fields; those of other objects carry their name)."""
        obj, offset = key
        if obj < 0:
            return f"0x{offset:x}", 0, [], []
        own: dict[str, int] = {}
        foreign: dict[str, int] = {}
        others: set[str] = set()
        for row in rows:
            for place in self._objects.on_line(self._address[row], self._line_bytes):
                mine = place.object == obj and place.instance == self._instance[row]
                if not mine:
                    others.add(self._label(place.object))
                self._collect(place, own if place.object == obj else foreign, place.object != obj)
        fields = [name for name, _ in sorted((own | foreign).items(), key=lambda item: (-item[1], item[0]))]
        return self._label(obj), offset, sorted(others), fields

    def _label(self, obj: int) -> str:
        return self._names[obj] + ("[*]" if self._instances[obj] > 1 else "")

    def _collect(self, place: Placement, into: dict[str, int], prefixed: bool) -> None:
        """Add the names of the fields on the placed bytes; an anonymous range of the line's own object says nothing new."""
        for name, weight in self._fields.on(place):
            shown = ".".join(part for part in (self._names[place.object] if prefixed else "", name) if part)
            if shown:
                into[shown] = into.get(shown, 0) + weight
