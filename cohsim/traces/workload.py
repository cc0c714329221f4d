"""A recorded trace as the workload the core, the reports and the result file know."""
from __future__ import annotations

import json

import numpy as np

from cohsim.errors import Problem, TraceError
from cohsim.traces.load import RecordedTrace
from cohsim.traces.names import Names
from cohsim.traces.records import RecordFlag
from cohsim.traces.symbols import sidecar
from cohsim.uops import Op
from cohsim.workload.compiled import CompiledWorkload


def compile_recorded(trace: RecordedTrace, isa: str, line_bytes: int = 64) -> tuple[CompiledWorkload, list[np.ndarray]]:
    """The workload, and for each of its CPUs the RECORD stream to run in place of micro-op text (``entry`` is 0 and means
    nothing).

    Raises TraceError if the trace was recorded on another instruction set than ``isa``: its atomics and barriers are that one's.
    """
    if isa != trace.isa:
        raise TraceError(Problem(str(trace.path), f'the trace was recorded on "{trace.isa}", the machine is "{isa}"',
                                 f'choose a machine of instruction set "{trace.isa}", or record the path on a guest of "{isa}"'))
    names = trace.names_for(line_bytes)
    uops = trace.uops.copy()
    uops["field"] = _fields_of_uops(trace, names)
    name = str(trace.meta.get("scenario") or sidecar(trace.path, "").name)
    text = json.dumps({"recorded": trace.path.name, "sha256": trace.sha256, "keep_interrupts": trace.keep_interrupts,
                       "header": trace.meta}, indent=1)
    workload = CompiledWorkload(
        name=name, text=text, isa=isa, cpus=len(trace.vcpus), variants=(), uops=uops, entry=np.zeros(len(trace.vcpus), np.int32),
        func_names=trace.func_names, prim_names=trace.prim_names, fields=names.fields, objects=names.objects,
        assumptions=[*trace.assumptions, *_assumptions(trace)])
    return workload, trace.streams


def _fields_of_uops(trace: RecordedTrace, names: Names) -> np.ndarray:
    """The field a micro-op touches, -1 if it touches several or bytes without a name."""
    touch = trace.touch
    at = names.field_at(touch["address"])
    low, high = np.full(len(trace.uops), np.iinfo(np.int64).max), np.full(len(trace.uops), -1)
    np.minimum.at(low, touch["uop"], at)
    np.maximum.at(high, touch["uop"], at)
    return np.where(low == high, high, -1)


def _assumptions(trace: RecordedTrace) -> list[str]:
    lines = ["memory latency does not change which instructions run: wait loops have the length they had in the recording",
             "failed store-conditionals are not recorded; they arise anew from the emulated machine",
             "lines are identified by guest physical address"]
    if not trace.keep_interrupts:
        lines.append(f"interrupt context is left out: {trace.stored_records - trace.records} of {trace.stored_records} records "
                     "(with idle events and returns)")
    lone = sum(int(np.count_nonzero(s["kind"] == Op.LL) - np.count_nonzero(s["back"])) for s in trace.streams)
    if lone:
        lines.append(f"{lone} load-reserves without a store-conditional are loads")
    if not any(np.any(s["flags"] & RecordFlag.DEP) for s in trace.streams):
        lines.append("loads do not depend on each other: there are no instruction bytes to tell")
    return lines
