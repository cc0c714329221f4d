"""RunData (per micro-op) -> Result (per thread, function, primitive, field and line). Pure aggregation: every sum is exact."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np

from cohsim.machine.compiled import CompiledMachine
from cohsim.machine.spec import MachineSpec
from cohsim.results.lines import busiest, field_table, object_map
from cohsim.results.provenance import Provenance
from cohsim.results.registry import COUNTERS
from cohsim.results.result import Result, Value
from cohsim.results.rundata import CATEGORIES, LINE_STATS, NIC_STATS, SERVED, WAIT_COLUMNS, RunData
from cohsim.results.sharing import sharing
from cohsim.results.sums import ATOMICS, LOADS, STORES, field_uses, sum_by
from cohsim.results.waits import name_waits
from cohsim.uops import Op
from cohsim.workload.compiled import CompiledWorkload


def build_result(
    machine_spec: MachineSpec, machine: CompiledMachine, workload: CompiledWorkload, run: RunData, provenance: Provenance
) -> Result:
    """Aggregate one run.

    Raises ValueError if the arrays of ``run`` do not have the shapes its contract states, KeyError for a counter that has no
    declaration; both are errors of the core, not of the user.
    """
    _check_shapes(run, workload)
    data: dict[str, Value] = {}
    data |= _run(machine, workload, run, provenance)
    data |= _threads(machine, run, provenance)
    data |= _functions(workload, run)
    data |= _primitives(workload, run)
    data |= _objects(workload)
    data |= _fields(workload, run)
    data |= _lines(machine, run, data)
    data |= sharing(workload, run)
    data |= _hardware(run)
    data |= _programs(workload, run)
    data |= _devices(workload, run)
    data |= _waits(workload, run)
    data |= {
        "/provenance/machine_text": provenance.machine_text,
        "/provenance/machine_effective": machine_spec.dump(),
        "/provenance/machine_compiled": _json(asdict(machine)),
        "/provenance/workload_text": workload.text,
        "/provenance/settings": _json(provenance.settings_dict()),
    }
    host = dict(provenance.host) | {"host_seconds": float(run.host_seconds), "local_turns": int(run.local_turns)}
    return Result(data, host)


def _json(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, default=str)


def _check_shapes(run: RunData, workload: CompiledWorkload) -> None:
    threads, uops, lines = workload.cpus, len(workload.uops), len(run.line_address)
    for name, shape in (
        ("time_fs", (threads, uops, len(CATEGORIES))),
        ("count", (threads, uops)),
        ("sc_failures", (threads, uops)),
        ("served", (threads, uops, len(SERVED))),
        ("iterations", (threads,)),
        ("received", (threads,)),
        ("dropped", (threads,)),
        ("line_stats", (lines, len(LINE_STATS))),
    ):
        if getattr(run, name).shape != shape:
            raise ValueError(f"RunData.{name} has shape {getattr(run, name).shape}, its contract says {shape}")


def _run(machine: CompiledMachine, workload: CompiledWorkload, run: RunData, provenance: Provenance) -> dict[str, Value]:
    source, traffic = workload.source, workload.devices.traffic if workload.devices else ()
    return {
        "/run/machine": machine.name,
        "/run/workload": workload.name,
        "/run/stop": run.stop,
        "/run/stop_report": run.stop_report,
        "/run/seed": provenance.settings.seed,
        "/run/measured_fs": int(run.measured_fs),
        "/run/total_fs": int(run.total_fs),
        "/run/core_period_fs": machine.core_period_fs,
        "/run/line_bytes": machine.line_bytes,
        "/run/memory_operations": int(run.memory_operations),
        "/run/events": int(run.events),
        "/run/line_overflow": int(run.line_overflow),
        "/run/frame_bytes": source.frame_bytes if source else traffic[0].frame_bytes if traffic else 0,
        "/run/offered_pps": float(source.rate_pps) if source else float(sum(t.rate_pps for t in traffic)),
        "/run/assumptions": list(workload.assumptions),
        "/axes/category": list(CATEGORIES),
        "/axes/level": list(SERVED),
        "/axes/line_stat": list(LINE_STATS),
    }


def _threads(machine: CompiledMachine, run: RunData, provenance: Provenance) -> dict[str, Value]:
    cpu = np.array(provenance.settings.pin, np.int64)
    core = np.array(machine.cpu_core, np.int64)[cpu]
    return {
        "/threads/machine_cpu": cpu,
        "/threads/core": core,
        "/threads/node": core // machine.cores_per_node,
        "/threads/time_fs": _int(run.time_fs.sum(axis=1)),
        "/threads/iterations": _int(run.iterations),
        "/threads/received": _int(run.received),
        "/threads/dropped": _int(run.dropped),
        "/caches/served": _int(run.served.sum(axis=1)),
    }


def _int(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, np.int64)


def _profile(group: str, names: list[str], key: np.ndarray, calls: np.ndarray, run: RunData) -> dict[str, Value]:
    return {
        f"/{group}/name": names,
        f"/{group}/calls": calls,
        f"/{group}/time_fs": sum_by(key, len(names), run.time_fs),
        f"/{group}/served": sum_by(key, len(names), run.served),
        f"/{group}/sc_failures": sum_by(key, len(names), run.sc_failures),
    }


def _function_calls(workload: CompiledWorkload, run: RunData) -> np.ndarray:
    enters = np.where(workload.uops["op"] == Op.ENTER, run.count, 0)
    return sum_by(workload.uops["func"], len(workload.func_names), enters)


def _functions(workload: CompiledWorkload, run: RunData) -> dict[str, Value]:
    return _profile("functions", workload.func_names, workload.uops["func"], _function_calls(workload, run), run)


def _primitives(workload: CompiledWorkload, run: RunData) -> dict[str, Value]:
    """Primitives first, then all functions: a micro-op inside a primitive counts there and nowhere else."""
    uops, offset = workload.uops, len(workload.prim_names)
    key = np.where(uops["prim"] >= 0, uops["prim"], uops["func"] + offset)
    calls = np.concatenate([primitive_calls(uops, run.count, run.sc_failures, offset), _function_calls(workload, run)], axis=1)
    return _profile("primitives", workload.prim_names + workload.func_names, key, calls, run)


def primitive_calls(uops: np.ndarray, count: np.ndarray, sc_failures: np.ndarray, primitives: int) -> np.ndarray:
    """Times each primitive was begun, ``[T, primitives]``.

    A *site* is a run of neighbouring micro-ops of one primitive, function and source line. It is begun as often as its first
    micro-op is executed, less the returns to it from inside: an LL/SC loop comes back once per failed store-conditional.
    A site without branches (x86; a recorded trace, where neighbours are neighbours by address only) is as many calls as it has
    atomic operations that succeeded.
    """
    calls = np.zeros((count.shape[0], primitives), np.int64)
    prim = uops["prim"]
    inside = prim >= 0
    change = np.ones(len(uops), bool)
    change[1:] = (prim[1:] != prim[:-1]) | (uops["func"][1:] != uops["func"][:-1]) | (uops["line_no"][1:] != uops["line_no"][:-1])
    starts = np.flatnonzero(change)
    ends = np.append(starts[1:], len(uops))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if not inside[start]:
            continue
        op = uops["op"][start:end]
        atomic = np.isin(op, ATOMICS)
        failed = sc_failures[:, start:end].sum(axis=1)
        if atomic.any() and not np.any(op == Op.BR):
            begun = count[:, start:end][:, atomic].sum(axis=1) - failed
        else:
            loops = np.any((op == Op.BR) & (uops["target"][start:end] == start))
            begun = count[:, start] - (failed if loops else 0)
        calls[:, prim[start]] += begun
    return calls


def _objects(workload: CompiledWorkload) -> dict[str, Value]:
    objects = workload.objects

    def numbers(attribute: str) -> np.ndarray:
        return np.array([getattr(o, attribute) for o in objects], np.int64)

    return {
        "/objects/name": [o.name for o in objects],
        "/objects/struct": [o.struct for o in objects],
        "/objects/scope": [o.scope for o in objects],
        "/objects/base": numbers("base"),
        "/objects/size_bytes": numbers("size_bytes"),
        "/objects/stride_bytes": numbers("stride_bytes"),
        "/objects/instances": numbers("instances"),
    }


def _fields(workload: CompiledWorkload, run: RunData) -> dict[str, Value]:
    """One row per (field, function, primitive) that was executed."""
    uops = workload.uops
    count = run.count.sum(axis=0)
    used, rows, row_of = field_uses(workload, run)

    def total(per_uop: np.ndarray) -> np.ndarray:
        return sum_by(row_of, len(rows), per_uop[used][None])[0]

    def executed(kinds: tuple[Op, ...]) -> np.ndarray:
        return total(np.where(np.isin(uops["op"], kinds), count, 0))

    position = {o.name: i for i, o in enumerate(workload.objects)}
    refs = [workload.fields[i] for i in rows[:, 0].tolist()]
    return {
        "/fields/object": np.array([position[r.object] for r in refs], np.int64),
        "/fields/field": [r.field for r in refs],
        "/fields/offset_bytes": np.array([r.offset_bytes for r in refs], np.int64),
        "/fields/size_bytes": np.array([r.size_bytes for r in refs], np.int64),
        "/fields/function": rows[:, 1].copy(),
        "/fields/primitive": rows[:, 2].copy(),
        "/fields/loads": executed(LOADS),
        "/fields/stores": executed(STORES),
        "/fields/atomics": executed(ATOMICS),
        "/fields/sc_failures": total(run.sc_failures.sum(axis=0)),
        "/fields/served": total(run.served.sum(axis=0)),
        "/fields/time_fs": total(run.time_fs.sum(axis=0)),
    }


def _lines(machine: CompiledMachine, run: RunData, data: dict[str, Value]) -> dict[str, Value]:
    """Lines by address, each with the object it is reported under."""
    order = np.argsort(run.line_address, kind="stable")
    objects, fields = object_map(data), field_table(data)
    owner = np.full((len(order), 4), (-1, -1, 0, 0), np.int64)  # object, instance, offset, instances on the line
    for row, address in enumerate(run.line_address[order].tolist()):
        places = objects.on_line(address, machine.line_bytes)
        place = busiest(places, fields)
        if place is not None:
            owner[row] = place.object, place.instance, place.offset_bytes, len(places)
    return {
        "/lines/address": _int(run.line_address[order]),
        "/lines/object": owner[:, 0].copy(),
        "/lines/instance": owner[:, 1].copy(),
        "/lines/offset_bytes": owner[:, 2].copy(),
        "/lines/objects_on_line": owner[:, 3].copy(),
        "/lines/stats": _int(run.line_stats[order]),
    }


def _programs(workload: CompiledWorkload, run: RunData) -> dict[str, Value]:
    """Time by program: what a CPU did as a process and what in which interrupt. Empty for workloads that do not name their programs."""
    programs = workload.programs
    time = [run.time_fs[:, first:last].sum(axis=1) for first, last, _ in programs]
    shape = (workload.cpus, 0, len(CATEGORIES))
    return {
        "/programs/name": [name for _, _, name in programs],
        "/programs/time_fs": _int(np.stack(time, axis=1) if time else np.zeros(shape)),
    }


def _devices(workload: CompiledWorkload, run: RunData) -> dict[str, Value]:
    devices = workload.devices
    nics, vectors = (devices.nics, devices.vectors) if devices else ((), ())
    names = list(devices.counters) if devices else []
    counts = np.zeros((workload.cpus, 0)) if run.workload_counters is None else run.workload_counters[:, : len(names)]
    traffic = devices.traffic if devices else ()
    return {
        "/axes/nic_stat": list(NIC_STATS),
        "/nics/name": [nic.name for nic in nics],
        "/nics/stats": _int(run.nic_stats),
        "/nics/output": np.array([nic.output for nic in nics], np.int64),
        "/nics/offered_pps": np.array([sum(t.rate_pps for t in traffic if t.nic == i) for i in range(len(nics))], np.float64),
        "/counters/name": names,
        "/counters/count": _int(counts),
        "/interrupts/name": [vector.name for vector in vectors],
        "/interrupts/cpu": np.array([vector.cpu for vector in vectors], np.int64),
        "/interrupts/raised": _int(run.interrupts),
    }


def _waits(workload: CompiledWorkload, run: RunData) -> dict[str, Value]:
    """Only where there are any: the results of sound runs stay as they are."""
    rows = name_waits(workload, run.waits)
    if not rows:
        return {}
    column = dict(zip(WAIT_COLUMNS, run.waits.T, strict=True))
    return {
        "/waits/cpu": _int(column["cpu"]),
        "/waits/function": [row["function"] for row in rows],
        "/waits/line": np.array([row["line"] for row in rows], np.int64),
        "/waits/object": [row["object"] for row in rows],
        "/waits/offset_bytes": np.array([row["offset"] for row in rows], np.int64),
        "/waits/field": [row["field"] for row in rows],
        "/waits/lock": [row["lock"] for row in rows],
        "/waits/address": _int(column["address"]),
        "/waits/value": _int(column["value"]),
        "/waits/waited_fs": _int(column["waited_fs"]),
    }


def _hardware(run: RunData) -> dict[str, Value]:
    data: dict[str, Value] = {"/transfers/nodes": _int(run.node_transfers), "/latency/operations": _int(run.latency_hist)}
    for controller, (states, events, counts) in sorted(run.transitions.items()):
        data[f"/transitions/{controller}/states"] = list(states)
        data[f"/transitions/{controller}/events"] = list(events)
        data[f"/transitions/{controller}/count"] = _int(counts)
    for name, value in run.counters.items():
        if name not in COUNTERS:
            raise KeyError(f"counter {name!r} of the core has no declaration in cohsim/results/registry.py COUNTERS")
        data[COUNTERS[name].path] = int(value)
    return data
