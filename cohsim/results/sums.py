"""From micro-ops to what results are about: sums that every part of a result shares."""

from __future__ import annotations

import numpy as np

from cohsim.results.rundata import RunData
from cohsim.uops import Op
from cohsim.workload.compiled import CompiledWorkload

LOADS = (Op.LOAD, Op.LL)
STORES = (Op.STORE,)
ATOMICS = (Op.RMW, Op.SC)


def sum_by(key: np.ndarray, groups: int, values: np.ndarray) -> np.ndarray:
    """Sum ``values[T, U, ...]`` over the micro-ops of equal ``key[U]`` into ``[T, groups, ...]``, exactly (integers)."""
    out = np.zeros((values.shape[0], groups, *values.shape[2:]), np.int64)
    if len(key):
        order = np.argsort(key, kind="stable")
        present, starts = np.unique(key[order], return_index=True)
        out[:, present] = np.add.reduceat(values[:, order], starts, axis=1)
    return out


def field_uses(workload: CompiledWorkload, run: RunData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(micro-ops used, rows of /fields as (field, function, primitive), the row of each micro-op used)."""
    uops = workload.uops
    used = np.flatnonzero((uops["field"] >= 0) & (run.count.sum(axis=0) > 0))
    if not len(used):
        return used, np.zeros((0, 3), np.int64), np.zeros(0, np.int64)
    uses = np.stack([uops["field"][used], uops["func"][used], uops["prim"][used]], axis=1).astype(np.int64)
    rows, row_of = np.unique(uses, axis=0, return_inverse=True)
    return used, rows, row_of.reshape(-1)
