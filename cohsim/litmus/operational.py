"""All outcomes of a test on two abstract machines, by exhaustive search of their states.

Sequential consistency: Lamport 1979; instructions of the threads interleave. x86-TSO: Sewell, Sarkar, Owens, Zappa
Nardelli, Myreen, "x86-TSO: a rigorous and usable programmer's model for x86 multiprocessors", CACM 53(7), 2010: a
FIFO store buffer per thread, loads read the newest own buffered store first, mfence and locked instructions need an
empty buffer. LL/SC exists under sequential consistency only, where a store-conditional fails exactly if another
thread wrote the location since the load-and-reserve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cohsim.errors import Problem, WorkloadError
from cohsim.litmus.test import (
    SUCCESS,
    Instruction,
    Kind,
    LitmusTest,
    Outcome,
    apply_alu,
    branch_taken,
    compare,
    operand,
    rmw_result,
    signed,
)
from cohsim.uops import Fence

STATES_LIMIT = 2_000_000


@dataclass(frozen=True)
class _Thread:
    pc: int
    registers: tuple[tuple[str, int], ...]
    buffer: tuple[tuple[str, int], ...] = ()  # oldest first
    reserved: str | None = None

    def set(self, name: str | None, value: int) -> _Thread:
        """With a register's new value, past the current instruction."""
        if name is None:
            return replace(self, pc=self.pc + 1)
        registers = dict(self.registers)
        registers[name] = value
        return replace(self, pc=self.pc + 1, registers=tuple(sorted(registers.items())))


_State = tuple[tuple[_Thread, ...], tuple[tuple[str, int], ...]]


def outcomes(test: LitmusTest, *, buffered: bool) -> frozenset[Outcome]:
    """Every outcome of sequential consistency, or of x86-TSO if ``buffered``. Raises WorkloadError if the test has
    too many states.
    """
    start: _State = (tuple(_Thread(0, tuple(sorted(r.items()))) for r in test.registers), tuple(sorted(test.memory.items())))
    seen, todo, found = {start}, [start], set()
    while todo:
        state = todo.pop()
        following = list(_steps(test, state, buffered))
        if not following:
            found.add(test.outcome([dict(t.registers) for t in state[0]], dict(state[1])))
        for successor in following:
            if successor not in seen:
                seen.add(successor)
                todo.append(successor)
        if len(seen) > STATES_LIMIT:
            raise WorkloadError(Problem(test.path, f"more than {STATES_LIMIT:,} states", "make the test smaller"))
    return frozenset(found)


def _steps(test: LitmusTest, state: _State, buffered: bool) -> list[_State]:
    threads, memory = state
    following = []
    for i, thread in enumerate(threads):
        if thread.buffer:
            name, value = thread.buffer[0]
            following.append(_write(threads, memory, i, replace(thread, buffer=thread.buffer[1:]), name, value))
        if thread.pc < len(test.threads[i]):
            following += _execute(threads, memory, i, test.threads[i][thread.pc], buffered)
    return following


def _write(
    threads: tuple[_Thread, ...], memory: tuple[tuple[str, int], ...], i: int, thread: _Thread, name: str, value: int
) -> _State:
    """Thread i (in its new state) writes memory: other threads lose their reservation."""
    changed = tuple(thread if k == i else replace(t, reserved=None) if t.reserved == name else t for k, t in enumerate(threads))
    return changed, tuple((n, value if n == name else v) for n, v in memory)


def _execute(
    threads: tuple[_Thread, ...], memory: tuple[tuple[str, int], ...], i: int, u: Instruction, buffered: bool
) -> list[_State]:
    thread, registers = threads[i], dict(threads[i].registers)

    def become(changed: _Thread) -> list[_State]:
        return [((*threads[:i], changed, *threads[i + 1 :]), memory)]

    if u.kind in (Kind.LOAD, Kind.LL):
        own = [v for n, v in thread.buffer if n == u.location]
        loaded = thread.set(u.dst, own[-1] if own else dict(memory)[u.location or ""])
        return become(replace(loaded, reserved=u.location) if u.kind is Kind.LL else loaded)
    if u.kind is Kind.STORE:
        assert u.location is not None
        if buffered:
            return become(replace(thread, pc=thread.pc + 1, buffer=(*thread.buffer, (u.location, operand(u, registers)))))
        return [_write(threads, memory, i, replace(thread, pc=thread.pc + 1), u.location, operand(u, registers))]
    if u.kind is Kind.RMW:
        assert u.location is not None
        if thread.buffer:
            return []
        old = dict(memory)[u.location]
        return [
            _write(threads, memory, i, thread.set(u.dst, old), u.location, signed(rmw_result(u, old, registers), u.size_bytes))
        ]
    if u.kind is Kind.SC:
        assert u.location is not None
        done = replace(thread.set(SUCCESS, int(thread.reserved == u.location)), reserved=None)
        return (
            [_write(threads, memory, i, done, u.location, operand(u, registers))]
            if thread.reserved == u.location
            else become(done)
        )
    if u.kind is Kind.FENCE:
        return [] if u.fence is Fence.FULL and thread.buffer else become(thread.set(None, 0))
    return become(_local(thread, u, registers))


def _local(thread: _Thread, u: Instruction, registers: dict[str, int]) -> _Thread:
    if u.kind is Kind.BRANCH:
        return replace(thread, pc=u.target if branch_taken(u, registers) else thread.pc + 1)
    if u.kind is Kind.COMPARE:
        return thread.set(u.dst, compare(u, registers))
    return thread.set(u.dst, apply_alu(u.alu, registers.get(u.a or "", 0), operand(u, registers), u.size_bytes))
