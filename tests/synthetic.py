"""A run small enough to aggregate by hand: two threads, eleven micro-ops, five lines. Nothing is simulated."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from cohsim.machine import load_machine
from cohsim.machine.compiled import CompiledMachine
from cohsim.results.build import build_result
from cohsim.results.provenance import Provenance, Settings
from cohsim.results.result import Result
from cohsim.results.rundata import CATEGORIES, LINE_STATS, SERVED, RunData
from cohsim.uops import UOP, Cond, Op, uop
from cohsim.workload.compiled import CompiledWorkload, FieldRef, PlacedObject, Source

PERIOD_FS = 500_000  # 2 GHz
MEASURED_FS = 1_000_000_000_000  # 1 ms
BUSY_FS = (600_000_000_000, 1_000_000_000_000)  # thread 0 idles for 0.4 ms


def category(name: str) -> int:
    return CATEGORIES.index(name)


def machine() -> CompiledMachine:
    """Two cores on one node each; every value that results do not look at is 1."""
    values: dict[str, object] = {}
    for field in dataclasses.fields(CompiledMachine):
        values[field.name] = {"str": "x", "int": 1, "bool": False}.get(str(field.type), (0,))
    values |= {
        "name": "tiny",
        "isa": "power",
        "protocol": "mesi",
        "nodes": 2,
        "cpu_core": (0, 1),
        "cpu_thread": (0, 0),
        "core_period_fs": PERIOD_FS,
        "line_bytes": 64,
    }
    return CompiledMachine(**values)  # type: ignore[arg-type]


def workload(packets: bool = True) -> CompiledWorkload:
    """``forward`` calls ``dst_release``, which increments route.refcnt with LL/SC, loads route.flags and stores skb.len."""

    def op(kind: Op, func: int, **fields: int) -> np.void:
        return uop(kind, func=func, **fields)

    uops = np.array(
        [
            op(Op.PACKET, 0),
            op(Op.ENTER, 0),
            op(Op.ENTER, 1),
            op(Op.WORK, 1, imm=10),
            op(Op.LL, 1, prim=0, field=0, line_no=9, dst=1),
            op(Op.ALU, 1, prim=0, line_no=9, dst=1, a=1, imm=1),
            op(Op.SC, 1, prim=0, field=0, line_no=9, dst=2, b=1),
            op(Op.BR, 1, prim=0, line_no=9, fn=Cond.EQ, a=2, target=4),
            op(Op.LOAD, 1, field=1, line_no=10),
            op(Op.STORE, 1, field=2, line_no=11),
            op(Op.DONE, 0),
        ],
        UOP,
    )
    source = Source(2000.0, 100, 20, 64, (0.5, 0.5), 1, 0.0, "constant", 4)
    return CompiledWorkload(
        "tiny_path",
        "cohsim-trace 1\n# tiny\n",
        "power",
        2,
        (),
        uops,
        np.zeros(2, np.int32),
        ["forward", "dst_release"],
        ["atomic_inc"],
        [FieldRef("route", "refcnt", 64, 4), FieldRef("route", "flags", 8, 8), FieldRef("skb", "len", 0, 4)],
        [
            PlacedObject("route", "rt6_info", "shared", 0x1000, 128, 0, 1),
            PlacedObject("skb", "sk_buff", "per-packet", 0x2000, 32, 64, 4),
            PlacedObject("lock", "spinlock", "shared", 0x1080, 8, 0, 1),
            PlacedObject("hint", "hint", "shared", 0x1088, 8, 0, 1),
        ],
        source=source if packets else None,
        assumptions=["packets do not age"],
    )


def run_data() -> RunData:
    """1000 packets on each thread; 200 lost reservations on thread 1."""
    count = np.array([[1000] * 11, [1000] * 11], np.int64)
    count[1, 4:8] += 200
    time = np.zeros((2, 11, len(CATEGORIES)), np.int64)
    ns = 1_000_000
    time[0, 0, category("idle")] = 400_000 * ns
    time[0, 1, category("issue")] = 100_000 * ns  # forward
    time[0, 3, category("issue")] = 200_000 * ns
    time[0, 6, category("remote_dirty")] = 300_000 * ns
    time[1, 3, category("issue")] = 200_000 * ns
    time[1, 4, category("remote_dirty")] = 400_000 * ns
    time[1, 6, category("retry")] = 300_000 * ns
    time[1, 8, category("l1")] = 60_000 * ns
    time[1, 9, category("store_buffer")] = 40_000 * ns
    served = np.zeros((2, 11, len(SERVED)), np.int64)
    served[:, [4, 6], SERVED.index("remote_dirty")] = count[:, [4, 6]]
    served[:, [8, 9], SERVED.index("l1")] = count[:, [8, 9]]
    failures = np.zeros((2, 11), np.int64)
    failures[1, 6] = 200
    return RunData(
        "finished",
        "",
        MEASURED_FS,
        MEASURED_FS + 50_000 * ns,
        time,
        count,
        served,
        failures,
        iterations=np.array([1000, 1000]),
        received=np.array([1000, 1000]),
        dropped=np.array([0, 0]),
        line_address=np.array([0x2040, 0x1000, 0x1040, 0x2000, 0x1080, 0x9000]),
        line_stats=_line_stats(),
        line_overflow=0,
        node_transfers=np.array([[0, 700], [600, 0]]),
        latency_hist=np.ones((len(SERVED), 64), np.int64),
        transitions={"l2": (["I", "M"], ["GetM", "Inv"], np.array([[5, 0], [0, 7]]))},
        counters={"home_requests": 11, "memory_reads": 3},
        memory_operations=8400,
        events=99,
        host_seconds=0.5,
    )


def _line_stats() -> np.ndarray:
    """Rows in the order of ``line_address``: skb[1], route+0, route+64 (the hot one), skb[0], lock with hint, unknown."""
    stats = np.zeros((6, len(LINE_STATS)), np.int64)

    def put(row: int, **values: int) -> None:
        for name, value in values.items():
            stats[row, LINE_STATS.index(name)] = value

    put(0, stores=500, transfers_far=10, stall_fs=10_000_000_000)
    put(1, loads=5)
    put(
        2,
        loads=2200,
        atomics=2200,
        transfers_near=100,
        transfers_far=1200,
        remote_dirty=1300,
        invalidations=1250,
        sc_failures=200,
        stall_fs=800_000_000_000,
    )
    put(3, stores=500, transfers_far=20, stall_fs=30_000_000_000)
    put(4, stall_fs=1)
    put(5, stall_fs=2)
    return stats


def provenance(seed: int = 7) -> Provenance:
    settings = Settings("tiny.yaml", "tiny.trace", 2, (0, 1), variants=("fast",), seed=seed)
    return Provenance(
        settings,
        "name: tiny\n",
        {"cohsim_version": "0.1.0", "command": "cohsim run tiny tiny", "host": "here", "started": "2026-11-30T00:00:00+00:00"},
    )


def result(run: RunData | None = None, packets: bool = True) -> Result:
    """The aggregated synthetic run."""
    spec = load_machine(str(Path(__file__).resolve().parent.parent / "machines" / "t4240.yaml"))
    return build_result(spec, machine(), workload(packets), run if run is not None else run_data(), provenance())
