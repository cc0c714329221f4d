"""Who took which line from whom, lost reservations, latency per field, locks, logged events: their datasets of a result."""

from __future__ import annotations

import numpy as np

from cohsim.results.result import Value
from cohsim.results.rundata import CATEGORIES, LOG_COLUMNS, LOG_KINDS, PAIR_CPU_KILL, PAIR_CPU_TAKE, PAIR_KILL, PAIR_TAKE, RunData
from cohsim.results.sums import ATOMICS, LOADS, STORES, field_uses, sum_by
from cohsim.workload.compiled import CompiledWorkload

NOT_WAITING = (CATEGORIES.index("issue"), CATEGORIES.index("idle"))


def sharing(workload: CompiledWorkload, run: RunData) -> dict[str, Value]:
    """The datasets declared in ``registry.SHARING``; none if the run did not record them."""
    if run.uop_latency is None:
        return {}
    used, rows, row_of = field_uses(workload, run)
    use = np.full(len(workload.uops) + 1, -1, np.int64)  # index -1, no micro-op, is the last element
    use[used] = row_of
    function = np.append(workload.uops["func"].astype(np.int64), -1)
    data: dict[str, Value] = {"/run/pairs_lost": int(run.pairs_lost)}
    lock_rows, lock_of = _lock_rows(workload)
    data |= _pairs(run.pairs, use, function, lock_of)
    data |= _field_columns(workload, run, used, row_of, len(rows))
    data |= _locks(workload, run, lock_rows)
    if run.log is not None:
        operation = np.append(workload.uops["op"].astype(np.int64), 0)
        data |= _log(run.log, run.log_lost, function, use, operation)
    return data


def _grouped(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different rows of ``keys[n, k]`` in order, and the sums of ``values[n, v]`` over each."""
    if not len(keys):
        return keys, values
    different, place = np.unique(keys, axis=0, return_inverse=True)
    sums = np.zeros((len(different), values.shape[1]), np.int64)
    np.add.at(sums, place.reshape(-1), values)
    return different, sums


def _pairs(pairs: np.ndarray, use: np.ndarray, function: np.ndarray, lock_of: np.ndarray) -> dict[str, Value]:
    kind, address, first, second = pairs[:, :4].T
    data: dict[str, Value] = {}
    for group, a, b, chosen in (
        ("takes", "taker", "holder", (kind >= PAIR_TAKE) & (kind < PAIR_KILL)),
        ("kills", "killer", "victim", kind == PAIR_KILL),
    ):
        where, a_uop, b_uop = address[chosen], first[chosen], second[chosen]
        columns = [where, function[a_uop], use[a_uop], function[b_uop], use[b_uop]]
        names = ["address", f"{a}_function", f"{a}_use", f"{b}_function", f"{b}_use"]
        columns += list(pairs[chosen, 6:].T)
        names += [f"{who}_{what}_bytes" for who in (a, b) for what in ("offset", "size")]
        if group == "takes":
            columns, names = [*columns, kind[chosen] - PAIR_TAKE, lock_of[a_uop]], [*names, "level", "taker_lock"]
        keys, sums = _grouped(np.stack(columns, axis=1), pairs[chosen, 4:6])
        data |= {f"/{group}/{name}": np.ascontiguousarray(keys[:, i]) for i, name in enumerate(names)}
        data[f"/{group}/count"] = np.ascontiguousarray(sums[:, 0])
        if group == "takes":
            data["/takes/latency_fs"] = np.ascontiguousarray(sums[:, 1])
    for group, names, wanted in (
        ("cpu_takes", ["address", "taker", "holder", "count", "latency_fs"], PAIR_CPU_TAKE),
        ("cpu_kills", ["address", "killer", "victim", "count"], PAIR_CPU_KILL),
    ):
        found = pairs[kind == wanted]
        data |= {f"/{group}/{name}": np.ascontiguousarray(found[:, 1 + i]) for i, name in enumerate(names)}
    return data


def _field_columns(workload: CompiledWorkload, run: RunData, used: np.ndarray, row_of: np.ndarray, rows: int) -> dict[str, Value]:
    assert run.uop_latency is not None
    op = workload.uops["op"][used]
    count = run.count[:, used]

    def by_cpu(kinds: tuple[int, ...]) -> np.ndarray:
        return np.ascontiguousarray(sum_by(row_of, rows, np.where(np.isin(op, kinds), count, 0)).T)

    latency = run.uop_latency[used]
    longest = np.zeros(rows, np.int64)
    np.maximum.at(longest, row_of, latency[:, 1])
    return {
        "/fields/reads_by_cpu": by_cpu(LOADS),
        "/fields/writes_by_cpu": by_cpu(STORES + ATOMICS),
        "/fields/latency_fs": sum_by(row_of, rows, latency[None, :, 0])[0],
        "/fields/latency_max_fs": longest,
        "/fields/latency_operations": sum_by(row_of, rows, latency[None, :, 2:])[0],
    }


def _lock_rows(workload: CompiledWorkload) -> tuple[list[tuple[str, int, str]], np.ndarray]:
    """Rows of /locks as (kind, field or -1, site), and the row of each micro-op; index -1, no micro-op, is the last element."""
    rows = sorted({(use.kind, use.field, use.site) for use in workload.locks})
    lock_of = np.full(len(workload.uops) + 1, -1, np.int64)
    if workload.uop_lock is not None:
        row_of = np.array([rows.index((use.kind, use.field, use.site)) for use in workload.locks] + [-1], np.int64)
        lock_of[:-1] = row_of[workload.uop_lock]
    return rows, lock_of


def _locks(workload: CompiledWorkload, run: RunData, words: list[tuple[str, int, str]]) -> dict[str, Value]:
    """One row per lock word and kind of lock; of locks behind pointers, per function."""
    waited = dict.fromkeys(words, 0)
    if workload.uop_lock is not None:
        waiting = run.time_fs.sum(axis=0)
        waiting[:, NOT_WAITING] = 0
        per_uop = waiting.sum(axis=1)
        for i, use in enumerate(workload.locks):
            if use.acquires:
                waited[use.kind, use.field, use.site] += int(per_uop[workload.uop_lock == i].sum())
    position = {o.name: i for i, o in enumerate(workload.objects)}
    refs = [workload.fields[field] if field >= 0 else None for _, field, _ in words]
    return {
        "/locks/kind": [kind for kind, *_ in words],
        "/locks/object": np.array([-1 if r is None else position[r.object] for r in refs], np.int64),
        "/locks/field": ["" if r is None else r.field for r in refs],
        "/locks/offset_bytes": np.array([0 if r is None else r.offset_bytes for r in refs], np.int64),
        "/locks/size_bytes": np.array([0 if r is None else r.size_bytes for r in refs], np.int64),
        "/locks/wait_fs": np.array([waited[word] for word in words], np.int64),
    }


def _log(log: np.ndarray, lost: int, function: np.ndarray, use: np.ndarray, operation: np.ndarray) -> dict[str, Value]:
    column = dict(zip(LOG_COLUMNS, log.T, strict=True))
    return {
        "/axes/log_kind": list(LOG_KINDS),
        "/log/lost": int(lost),
        "/log/time_fs": np.ascontiguousarray(column["time_fs"]),
        "/log/kind": np.ascontiguousarray(column["kind"]),
        "/log/address": np.ascontiguousarray(column["address"]),
        "/log/cpu": np.ascontiguousarray(column["thread"]),
        "/log/function": function[column["uop"]],
        "/log/use": use[column["uop"]],
        "/log/operation": operation[column["uop"]],
        "/log/by_cpu": np.ascontiguousarray(column["by_thread"]),
        "/log/by_function": function[column["by_uop"]],
        "/log/level": np.ascontiguousarray(column["level"]),
        "/log/writable": np.ascontiguousarray(column["writable"]),
    }
