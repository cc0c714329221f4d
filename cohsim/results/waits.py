"""CPUs that spin without an end: found when a run is over, from its counts and from where its programs stand. Costs the run nothing.

A *wait loop* is one that the workload calls ``spin while``, or any other loop that a CPU executed alone through all the measured time and
that carries nothing from one round to the next: it goes on until another CPU, or a device, writes what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cohsim.results.lines import ObjectMap, Placement
from cohsim.results.rundata import WAIT_COLUMNS
from cohsim.uops import Alu, Cond, Flag, Op
from cohsim.workload.compiled import CompiledWorkload

LONG = 0.5
"""Share of the measured time from which on a wait that has not ended is reported: a shorter one is what locks are for."""

QUIET_FS = 10 * 10**9
"""10 us: everything that was under way when the last CPU began to wait is over, the loops have gone round with what it left."""

LIVELY = 4
"""Iterations of one other CPU during a wait that a first-come-first-served lock cannot explain. Whoever waits in its queue for half of the
measured time sees each other CPU finish three at most: the one it is at, one in each half."""

IDLE_UNTIL_INTERRUPT = 5  # state of Simulation.places
_READS = (Op.LOAD, Op.LL, Op.RMW)
_CHANGES_NOTHING = (Op.WORK, Op.LOAD, Op.LL, Op.FENCE, Op.ALU, Op.BR, Op.PAUSE, Op.ENTER, Op.PREFETCH)
_SAME_AGAIN = (Alu.AND, Alu.OR, Alu.XCHG, Alu.CAS)  # done a second time with the same value, they change nothing


class Machine(Protocol):
    """What is asked of the core."""

    def places(self) -> np.ndarray: ...
    def operand_address(self, cpu: int, level: int, uop: int) -> int: ...
    def read_memory(self, address: int, size: int) -> int: ...


@dataclass(frozen=True)
class _Loop:
    """Micro-ops of a wait loop that count, and the time from which on the CPU was in it."""

    rows: np.ndarray
    since_fs: int


def find_waits(sim: Machine, workload: CompiledWorkload, count: np.ndarray, start_fs: int, end_fs: int) -> tuple[np.ndarray, bool]:
    """(RunData.waits of a finished run, whether no CPU can ever go on).

    ``count``: executions ``[T, U]`` in the measured time from ``start_fs`` to ``end_fs``. The second is claimed only where it follows from the
    state: all CPUs that have not ended wait in loops that change nothing, no store is under way, and no device or interrupt is to come.
    """
    rows, never = [], not _devices_act(workload)
    for cpu, level, pc, edge, state, stores in sim.places().tolist():
        if state == IDLE_UNTIL_INTERRUPT:
            continue
        loop = _flagged(workload.uops, pc, edge)
        if loop is None and level == 0 and edge <= start_fs:
            loop = _unflagged(workload, count[cpu], pc, start_fs)
        if loop is None or end_fs - loop.since_fs < LONG * (end_fs - start_fs) or count[cpu][loop.rows].max() < 2:
            never = False
            continue
        ran = loop.rows[count[cpu][loop.rows] > 0] if loop.since_fs <= start_fs else loop.rows
        branch, read = _condition(workload.uops, ran)
        address, value = -1, 0
        if read >= 0:
            address = sim.operand_address(cpu, level, read)
            value = sim.read_memory(address, int(workload.uops["size"][read]))
        rows.append((cpu, branch, read, end_fs - loop.since_fs, address, value - (value >> 63 << 64)))
        never &= not stores and end_fs - loop.since_fs >= QUIET_FS and _repeats(workload.uops, ran)
    return np.array(rows, np.int64).reshape(-1, len(WAIT_COLUMNS)), never and bool(rows)


def _devices_act(workload: CompiledWorkload) -> bool:
    """Whether something that is no CPU may write memory or interrupt one."""
    devices = workload.devices
    return devices is not None and bool(devices.nics or devices.traffic or any(vector.period_ns for vector in devices.vectors))


def _flagged(uops: np.ndarray, pc: int, edge_fs: int) -> _Loop | None:
    """The ``spin while`` loop that the program stands in: its rows follow each other, and it was entered at its latest edge."""
    spin = (uops["flags"] & Flag.SPIN) != 0
    if not spin[pc]:
        return None
    others = np.flatnonzero(~spin)
    after = int(np.searchsorted(others, pc))
    first = int(others[after - 1]) + 1 if after else 0
    last = int(others[after]) if after < len(others) else len(uops)
    return _Loop(np.arange(first, last), edge_fs)


def _unflagged(workload: CompiledWorkload, count: np.ndarray, pc: int, start_fs: int) -> _Loop | None:
    """The loop that was all the program did in the measured time, if it waits."""
    program = next(((first, last) for first, last, _ in workload.programs if first <= pc < last), None)
    if program is None:
        return None
    rows = program[0] + np.flatnonzero(count[program[0] : program[1]])
    uops = workload.uops
    if not len(rows) or uops["op"][rows[-1]] != Op.BR or uops["target"][rows[-1]] != rows[0]:
        return None
    return _Loop(rows, start_fs) if _condition(uops, rows)[1] >= 0 and _repeats(uops, rows) else None


def _condition(uops: np.ndarray, rows: np.ndarray) -> tuple[int, int]:
    """(the branch that may leave the loop, the access whose value it tests; -1: the loop reads no such value)."""
    inside = set(rows.tolist())
    branch, read = int(rows[-1]), -1
    for i in rows[::-1].tolist():
        u = uops[i]
        leaves = u["op"] == Op.BR and u["fn"] != Cond.ALWAYS and (int(u["target"]) not in inside or i + 1 not in inside)
        if not leaves:
            continue
        found = _origin(uops, rows, i)
        if read < 0:
            branch, read = i, found
        if found >= 0:
            break
    return branch, read


def _origin(uops: np.ndarray, rows: np.ndarray, branch: int) -> int:
    """The access inside the loop that the branch's operands come from, -1: none."""
    order = rows.tolist()
    at = order.index(branch)
    wanted = {int(uops[branch]["a"]), int(uops[branch]["b"])} - {-1}
    for i in order[:at][::-1] + order[at + 1 :][::-1]:  # the round before goes on behind the branch
        u = uops[i]
        if int(u["dst"]) not in wanted or u["dst"] < 0:
            continue
        if u["op"] in _READS:
            return int(i)
        wanted = wanted - {int(u["dst"])} | ({int(u["a"]), int(u["b"])} - {-1})
    return -1


def _repeats(uops: np.ndarray, rows: np.ndarray) -> bool:
    """Whether one round of the loop is like the next while memory stays as it is: it changes no memory, and no register is read before it is
    written that the loop writes (a counter, a pointer that walks a list)."""
    loop = uops[rows]
    pending = set(loop["dst"].tolist()) - {-1}
    same = np.isin(loop["op"], _CHANGES_NOTHING) | ((loop["op"] == Op.RMW) & np.isin(loop["fn"], _SAME_AGAIN))
    same |= (loop["op"] == Op.SC) & ~np.isin(loop["b"], sorted(pending))  # an xchg or cas by LL/SC; adding writes a register of the loop
    if not same.all():
        return False
    for u in loop:
        if pending & {int(u["a"]), int(u["b"]), int(u["areg"])}:
            return False
        pending.discard(int(u["dst"]))
    return True


def name_waits(workload: CompiledWorkload, waits: np.ndarray) -> list[dict[str, Any]]:
    """The rows with names, as the summary has them, but for ``others``."""
    objects = workload.objects
    columns = ([getattr(o, name) for o in objects] for name in ("base", "size_bytes", "stride_bytes", "instances"))
    places = ObjectMap(*(np.array(column, np.int64) for column in columns))
    found = []
    for cpu, branch, read, waited_fs, address, value in waits.tolist():
        at = read if read >= 0 else branch
        row = {
            "cpu": cpu,
            "function": workload.func_names[int(workload.uops["func"][at])],
            "line": int(workload.uops["line_no"][at]),
            "object": "",
            "offset": -1,
            "field": "",
            "lock": "",
            "value": value % (1 << 64) if read >= 0 else None,
            "waited_ns": waited_fs / 10**6,
        }
        here = places.on_line(address, 1) if read >= 0 else []
        if here:
            item = objects[here[0].object]
            row["object"] = item.name + (f"[{here[0].instance}]" if item.instances > 1 else "")
            row["offset"] = here[0].offset_bytes
            row["field"] = _field(workload, item.name, here[0], read)
            row["lock"] = _lock(workload, read, here[0])
        elif read >= 0:
            row["object"] = f"{address:#x}"
        found.append(row)
    return found


def _field(workload: CompiledWorkload, name: str, place: Placement, read: int) -> str:
    """Field of the byte: the one the access names, else one that another access of the workload names there."""
    number = int(workload.uops["field"][read])
    if number >= 0:
        return workload.fields[number].field
    at = place.offset_bytes
    covering = (r.field for r in workload.fields if r.object == name and r.offset_bytes <= at < r.offset_bytes + r.size_bytes)
    return next(covering, "")


def _lock(workload: CompiledWorkload, read: int, place: Placement) -> str:
    """The lock whose wait this is, if its word is another than the one that is read (a queue node)."""
    number = -1 if workload.uop_lock is None else int(workload.uop_lock[read])
    if number < 0 or workload.locks[number].field < 0:
        return ""
    use = workload.locks[number]
    word = workload.fields[use.field]
    same = word.object == workload.objects[place.object].name and word.offset_bytes <= place.offset_bytes < word.offset_bytes + word.size_bytes
    return "" if same else f"{use.kind} lock {word.object}" + (f".{word.field}" if word.field else f"+{word.offset_bytes}")


def sentence(rows: Iterable[dict[str, Any]]) -> str:
    """Who spins where, on what, how long: ``CPUs 0, 2 spin in ticket_lock (line 12) on lock.word, which is 1, for 550.0 us``; equal ones as one."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["function"], row["line"], row["object"], row["offset"], row["field"], row["lock"], row["value"]), []).append(row)
    return "; ".join(_clause(group) for group in groups.values())


def _clause(rows: Sequence[dict[str, Any]]) -> str:
    row = rows[0]
    cpus = ", ".join(str(r["cpu"]) for r in rows)
    if row["value"] is None:
        what = "nothing that it reads from memory"
    else:
        where = f".{row['field']}" if row["field"] else f"+{row['offset']}" if row["offset"] >= 0 else ""
        lock = f" (of the {row['lock']})" if row["lock"] else ""
        what = f"{row['object']}{where}{lock}, which is {row['value']}"
    longest, shortest = (f(r["waited_ns"] for r in rows) / 1000 for f in (max, min))
    time = f"{shortest:,.1f} us" if longest == shortest else f"{shortest:,.1f} to {longest:,.1f} us"
    return f"{f'CPUs {cpus} spin' if len(rows) > 1 else f'CPU {cpus} spins'} in {row['function']} (line {row['line']}) on {what}, for {time}"
