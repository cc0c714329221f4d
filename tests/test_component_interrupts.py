"""Interrupts and idle CPUs, one question at a time: when is a handler entered, what does it leave of the interrupted program?

Every time is arithmetic on the machine's numbers and checked to the femtosecond. T4240's file has no devices: it gets the Core i7's times.
"""

from __future__ import annotations

import numpy as np
import pytest
from cohsim._core import Simulation
from device_program import US, clock_fs, device_machine, devices, sleep, timer, vector
from program import LINE, Program, X, assemble, at, halts_exactly_at, placed, run, start_fs, tiny

from cohsim.machine.compiled import CompiledMachine
from cohsim.protocols import flat_tables
from cohsim.results.rundata import CATEGORIES
from cohsim.uops import Cond, Fence, Flag, Op
from cohsim.workload.compiled import Devices

T = 2 * US
Y, Z = X + 16 * LINE, X + 32 * LINE


@pytest.fixture(params=["corei7", "t4240"])
def m(request: pytest.FixtureRequest) -> CompiledMachine:
    """A thread alone on its core, so that dispatch has one speed."""
    return device_machine(request.param)


def knows_fs(m: CompiledMachine, raised_fs: int = T) -> int:
    """When the core knows of an interrupt."""
    return raised_fs + m.interrupt_latency_fs


def handler(p: Program, *, halt: bool = False) -> int:
    """An interrupt path that does nothing, or that ends the thread."""
    entry = p.add(Op.ENTER)
    p.add(Op.HALT if halt else Op.IRET)
    return entry


def begins(m: CompiledMachine, *programs: Program) -> int:
    """When the first CPU is through its ``delay_until``."""
    return assemble(m, programs)[2][0]


def memory_fs(m: CompiledMachine, address: int = X) -> int:
    """From the dispatch of a load that misses everywhere until its value is there, measured alone."""
    p = at(T)
    p.load(address, 0)
    p.branch(Cond.NE, 0, 1, 3, flags=Flag.PRED_TAKEN)
    p.halt()
    r = run(m, [p])
    return r.end_fs() - r.begin_fs[0] - m.issue_fs


def test_when_does_an_idle_thread_enter_its_handler(m: CompiledMachine) -> None:
    p = Program()
    sleep(p)
    h = handler(p, halt=True)
    d = devices(timer(0, h, T))
    r = run(m, [p], devices=d)
    awake = knows_fs(m) + m.idle_exit_fs
    assert r.time_fs(0, "idle") == awake and r.time_fs(0, "issue", h) == m.interrupt_entry_fs
    assert clock_fs(r) == awake + m.interrupt_entry_fs
    assert halts_exactly_at(m, [p], 0, awake + m.interrupt_entry_fs, devices=d)
    assert r.arrays["vector_raised"].tolist() == [1] and r.count(0, h) == 1


def test_when_does_the_program_go_on_behind_its_wait(m: CompiledMachine) -> None:
    p = Program()
    p.add(Op.WAIT)
    p.halt()
    h = handler(p)
    d = devices(timer(0, h, T))
    back = knows_fs(m) + m.idle_exit_fs + m.interrupt_entry_fs + m.interrupt_exit_fs
    assert halts_exactly_at(m, [p], 0, back, devices=d)
    r = run(m, [p], devices=d)
    assert r.time_fs(0, "issue", h + 1) == m.interrupt_exit_fs and r.time_fs(0, "idle") == knows_fs(m) + m.idle_exit_fs


def test_is_time_before_the_window_and_behind_it_left_out(m: CompiledMachine) -> None:
    """Idle from the window's begin until its end, in the middle of the way out of the sleep."""
    p = Program()
    sleep(p)
    d = devices(timer(0, handler(p), T))
    end = knows_fs(m) + m.idle_exit_fs // 2
    r = run(m, [p], devices=d, from_fs=T, until_fs=end)
    assert r.time_fs(0, "idle") == end - T == clock_fs(r)
    r = run(m, [p], devices=d, from_fs=T, until_fs=knows_fs(m))
    assert r.time_fs(0, "idle") == knows_fs(m) - T and r.arrays["vector_raised"].tolist() == [0]


def test_does_a_busy_thread_take_it_between_two_micro_ops(m: CompiledMachine) -> None:
    p = at(T - 10 * m.issue_fs)
    for _ in range(3 * m.interrupt_latency_fs // m.issue_fs // 100):
        p.work(100)
    h = handler(p, halt=True)
    d = devices(timer(0, h, T))
    r = run(m, [p], devices=d)
    done = -((r.begin_fs[0] - knows_fs(m)) // (100 * m.issue_fs))       # micro-ops that begin before the core knows run to their end
    assert halts_exactly_at(m, [p], 0, r.begin_fs[0] + 100 * m.issue_fs * done + m.interrupt_entry_fs, devices=d)
    assert r.count(0, done) == 1 and r.count(0, done + 1) == 0


def test_does_an_interrupt_that_arrives_at_the_very_end_of_a_micro_op_come_before_the_next(m: CompiledMachine) -> None:
    p = at(T)
    p.work(1)
    last = p.work(1)
    p.add(Op.WAIT)
    h = handler(p, halt=True)
    begin = begins(m, p)
    for raised, ran in ((begin + m.issue_fs, 0), (begin + m.issue_fs + 1, 1)):
        d = devices(timer(0, h, raised - m.interrupt_latency_fs))
        r = run(m, [p], devices=d)
        assert r.count(0, last) == ran
        assert halts_exactly_at(m, [p], 0, begin + (1 + ran) * m.issue_fs + m.interrupt_entry_fs, devices=d)


def test_is_a_handler_entered_only_when_the_loads_before_it_are_complete(m: CompiledMachine) -> None:
    """The load misses; the interrupt comes 10 instructions later, and nothing dispatches from then on."""
    p = at(T)
    p.load(X)
    first = len(p.ops)
    for _ in range(60):
        p.work(1)
    h = handler(p, halt=True)
    took = memory_fs(m)
    begin = begins(m, p)
    d = devices(timer(0, h, begin + 10 * m.issue_fs + 1 - m.interrupt_latency_fs))
    r = run(m, [p], devices=d)
    assert r.count(0, first + 9) == 1 and r.count(0, first + 10) == 0
    assert halts_exactly_at(m, [p], 0, begin + took + m.interrupt_entry_fs, devices=d)
    assert r.time_fs(0, "memory", 1) == took - 11 * m.issue_fs           # the load is to blame for the wait


def test_does_a_masked_interrupt_wait_for_the_unmasking(m: CompiledMachine) -> None:
    p = Program()
    p.add(Op.IRQ, imm=0)
    n = (knows_fs(m) + US) // m.issue_fs
    p.work(n)
    p.add(Op.IRQ, imm=1)
    behind = p.work(1)
    h = handler(p, halt=True)
    d = devices(timer(0, h, T))
    assert halts_exactly_at(m, [p], 0, start_fs(m, 1)[0] + (n + 2) * m.issue_fs + m.interrupt_entry_fs, devices=d)
    assert run(m, [p], devices=d).count(0, behind) == 0


def test_does_a_wait_with_an_interrupt_pending_go_to_sleep(m: CompiledMachine) -> None:
    """Masked, raised, then `wait`: it does not sleep, and the interrupt comes with the unmasking."""
    p = Program()
    p.add(Op.IRQ, imm=0)
    n = (knows_fs(m) + US) // m.issue_fs
    p.work(n)
    p.add(Op.WAIT)
    p.add(Op.IRQ, imm=1)
    h = handler(p, halt=True)
    d = devices(timer(0, h, T))
    r = run(m, [p], devices=d)
    assert r.time_fs(0, "idle") == start_fs(m, 1)[0]
    assert halts_exactly_at(m, [p], 0, start_fs(m, 1)[0] + (n + 2) * m.issue_fs + m.interrupt_entry_fs, devices=d)


def test_is_a_sleeping_thread_with_interrupts_masked_woken_without_a_handler(m: CompiledMachine) -> None:
    p = Program()
    p.add(Op.IRQ, imm=0)
    p.add(Op.WAIT)
    p.halt()
    h = handler(p)
    d = devices(timer(0, h, T))
    assert halts_exactly_at(m, [p], 0, knows_fs(m) + m.idle_exit_fs, devices=d)
    assert run(m, [p], devices=d).count(0, h) == 0


@pytest.mark.parametrize("delta_fs", [-2, -1, 0, 1])
def test_is_a_wake_up_lost_when_it_comes_just_as_the_thread_goes_to_sleep(m: CompiledMachine, delta_fs: int) -> None:
    p = at(T)
    p.add(Op.WAIT)
    p.halt()
    h = handler(p)
    begin = begins(m, p)
    d = devices(timer(0, h, begin + delta_fs - m.interrupt_latency_fs))
    if delta_fs <= 0:       # taken before the WAIT, which then sleeps: for good
        r = run(m, [p], devices=d)
        assert r.count(0, h) == 1 and r.count(0, 2) == 0
        assert r.time_fs(0, "issue", h) == m.interrupt_entry_fs
    else:
        assert halts_exactly_at(m, [p], 0, begin + delta_fs + m.idle_exit_fs + m.interrupt_entry_fs + m.interrupt_exit_fs, devices=d)


@pytest.mark.parametrize("first_is_late", [False, True])
def test_in_which_order_are_two_pending_interrupts_taken(m: CompiledMachine, first_is_late: bool) -> None:
    """The vector that was declared first, whichever came first."""
    p = Program()
    p.add(Op.IRQ, imm=0)
    n = (knows_fs(m) + 2 * US) // m.issue_fs
    p.work(n)
    p.add(Op.IRQ, imm=1)
    p.work(1)
    a = handler(p)
    b = handler(p, halt=True)
    d = devices(timer(0, a, T + US * first_is_late), timer(0, b, T + US * (not first_is_late)))
    entered = start_fs(m, 1)[0] + (n + 2) * m.issue_fs
    assert halts_exactly_at(m, [p], 0, entered + 2 * m.interrupt_entry_fs + m.interrupt_exit_fs, devices=d)
    assert run(m, [p], devices=d).count(0, a) == 1


@pytest.mark.parametrize("unmask", [False, True])
def test_does_an_interrupt_interrupt_a_handler_that_unmasks(m: CompiledMachine, unmask: bool) -> None:
    p = Program()
    sleep(p)
    a = p.add(Op.ENTER)
    p.add(Op.IRQ, imm=1) if unmask else p.work(1)
    works = [p.work(1000) for _ in range(100)]
    p.add(Op.IRET)
    b = handler(p, halt=True)
    d = devices(timer(0, a, T), timer(0, b, T + m.idle_exit_fs + m.interrupt_entry_fs))
    body = knows_fs(m) + m.idle_exit_fs + m.interrupt_entry_fs + m.issue_fs
    n = -((body - knows_fs(m, T + m.idle_exit_fs + m.interrupt_entry_fs)) // (1000 * m.issue_fs))
    n = max(n, 0) if unmask else len(works)
    left = body + n * 1000 * m.issue_fs + (0 if unmask else m.interrupt_exit_fs)
    assert halts_exactly_at(m, [p], 0, left + m.interrupt_entry_fs, devices=d)
    assert run(m, [p], devices=d).count(0, works[-1]) == (not unmask)


def nesting(p: Program, depth_word: int) -> int:
    """A handler that interrupts itself until the word has counted down to 0."""
    entry = p.add(Op.ENTER)
    p.load(depth_word, 2)
    p.alu(2, 2, -1)
    p.store(depth_word, 0, b=2)
    out = p.branch(Cond.EQ, 2, 0)
    p.add(Op.IPI, base=0, imm=0)
    p.add(Op.IRQ, imm=1)
    p.add(Op.WAIT)
    p.land(out)
    p.add(Op.IRET)
    return entry


def test_how_deep_may_interrupts_nest(m: CompiledMachine) -> None:
    p = Program()
    p.add(Op.WAIT)
    p.halt()
    h = nesting(p, Y)
    d = devices(timer(0, h, T))
    r = run(m, [p], devices=d, memory=[(Y, 8, 8)])
    assert r.sim.halted == 1 and r.count(0, h) == 8
    with pytest.raises(AssertionError, match="fault: interrupts nest too deep"):
        run(m, [p], devices=d, memory=[(Y, 8, 9)])


def test_is_an_iret_without_an_interrupt_a_fault(m: CompiledMachine) -> None:
    p = at(T)
    p.add(Op.IRET)
    with pytest.raises(AssertionError, match="fault: an interrupt path's end without an interrupt"):
        run(m, [p], devices=devices())


def test_does_a_program_find_its_registers_again(m: CompiledMachine) -> None:
    p = Program()
    for reg in range(32):
        p.alu(reg, -1, 1000 + reg)
    p.add(Op.WAIT)
    for reg in range(32):
        p.store(Y + 8 * reg, 0, b=reg)
    p.halt()
    h = p.add(Op.ENTER)
    for reg in range(32):
        p.alu(reg, -1, 5)
    p.load(X, 7)
    p.add(Op.IRET)
    r = run(m, [p], devices=devices(timer(0, h, T)))
    assert r.count(0, h) == 1
    assert [r.sim.read_memory(Y + 8 * reg, 8) for reg in range(32)] == [1000 + reg for reg in range(32)]


def test_whose_queue_do_program_and_handler_work_on(m: CompiledMachine) -> None:
    """Context slot QUEUE: the CPU's number in programs, the vector's queue in its handler, and again the CPU's behind it."""
    cpu = Program()
    queue_slot = 4
    cpu.add(Op.STORE, base=Y, stride=LINE, slot=queue_slot, size=8, imm=1)
    cpu.add(Op.WAIT)
    cpu.add(Op.STORE, base=Y + 8, stride=LINE, slot=queue_slot, size=8, imm=2)
    cpu.halt()
    h = cpu.add(Op.ENTER)
    cpu.add(Op.STORE, base=Y + 16, stride=LINE, slot=queue_slot, size=8, imm=3)
    cpu.add(Op.IRET)
    other = Program()
    other.halt()
    r = run(m, [other, cpu], devices=devices(timer(1, h, T, queue=5)))
    found = {(i, k): r.sim.read_memory(Y + LINE * i + 8 * k, 8) for i in range(8) for k in range(3)}
    assert {k: v for k, v in found.items() if v} == {(1, 0): 1, (1, 1): 2, (5, 2): 3}


def test_is_the_rest_of_an_interrupted_stretch_of_work_done_afterwards(m: CompiledMachine) -> None:
    """The window is full in the middle of the work when the interrupt comes; the handler has work of its own."""
    m = tiny(m, window=50)
    p = at(T)
    p.load(X)
    i = p.work(1000)
    p.halt()
    h = p.add(Op.ENTER)
    inner = p.work(300)
    p.add(Op.IRET)
    begin = begins(m, p)
    d = devices(timer(0, h, begin + 100 * m.issue_fs - m.interrupt_latency_fs))
    r = run(m, [p], devices=d)
    assert (r.count(0, i), r.count(0, h), r.count(0, inner)) == (1, 1, 1)
    assert r.time_fs(0, "issue", i) == 1000 * m.issue_fs and r.time_fs(0, "issue", inner) == 300 * m.issue_fs
    handled = m.interrupt_entry_fs + 300 * m.issue_fs + m.interrupt_exit_fs
    assert clock_fs(r) == begin + memory_fs(m) + handled + (1000 - 49) * m.issue_fs       # 49: what the window took beside the load


@pytest.mark.parametrize("interrupted", [False, True])
def test_does_an_interrupt_take_the_reservation(interrupted: bool) -> None:
    m = device_machine("t4240")
    p = at(T)
    p.ll(X, 0)
    p.branch(Cond.NE, 0, 1, 3)          # the reservation is set when the value is there
    for _ in range(100):
        p.work(100)
    sc = p.sc(X, 1, value=7)
    p.branch(Cond.NE, 1, 5, len(p.ops) + 1)
    p.halt()
    h = handler(p)
    r = run(m, [p], devices=devices(timer(0, h, T if interrupted else 500 * US)), until_fs=100 * US)
    assert r.count(0, h) == interrupted
    assert (r.sc_failures(0, sc), r.sim.read_memory(X, 8)) == ((1, 0) if interrupted else (0, 7))


@pytest.mark.parametrize("isa", ["corei7", "t4240"])
def test_does_an_increment_that_is_interrupted_again_and_again_lose_or_double_one(isa: str) -> None:
    m = device_machine(isa)
    programs, vectors = [], []
    for cpu in range(3):
        p = Program()
        body = p.here
        p.atomic_add(X, m.isa)
        p.counted_loop(8, 2000, body)
        p.halt()
        h = p.add(Op.ENTER)
        p.atomic_add(Y, m.isa)
        p.add(Op.IRET)
        programs.append(p)
        vectors += [timer(cpu, h, US * (k + 1) + cpu * 1_000_007) for k in range(20)]
    r = run(m, programs, devices=devices(*vectors))
    assert r.sim.read_memory(X, 8) == 6000
    handled = sum(r.count(cpu, [int(op["op"]) for op in programs[cpu].ops].index(Op.ENTER)) for cpu in range(3))
    assert 20 < handled <= 60 and r.sim.read_memory(Y, 8) == handled


def test_does_a_handler_end_its_own_threads_spinning(m: CompiledMachine) -> None:
    p = Program()
    top = p.add(Op.LOAD, base=X, size=8, dst=2, flags=Flag.SPIN)
    p.branch(Cond.EQ, 2, 0, top, flags=Flag.SPIN | Flag.PRED_TAKEN)
    p.halt()
    h = p.add(Op.ENTER)
    p.store(X, 1)
    p.add(Op.IRET)
    r = run(m, [p], devices=devices(timer(0, h, T)))
    assert r.sim.halted == 1 and r.count(0, h) == 1
    assert r.time_fs(0, "spin") > 0 and r.time_fs(0, "spin", h) == 0
    assert r.time_fs(0, "issue", h) == m.interrupt_entry_fs


def test_does_a_handler_see_the_stores_that_are_still_in_the_buffer(m: CompiledMachine) -> None:
    """Stores that miss are no reason to wait; the handler's load is served by the buffer."""
    p = at(T)
    p.store(X, 41)
    p.store(X + 8, 42)
    p.add(Op.WAIT)
    p.halt()
    h = p.add(Op.ENTER)
    seen = p.load(X + 8, 2)
    p.store(X + 16, 0, b=2)
    p.add(Op.IRET)
    m = tiny(m, interrupt_entry_fs=m.issue_fs)
    begin = begins(m, p)
    r = run(m, [p], devices=devices(timer(0, h, begin + 2 * m.issue_fs - m.interrupt_latency_fs)), until_fs=20 * US)
    assert r.served(0, seen) == {"forward": 1}
    assert [r.sim.read_memory(X + 8 * k, 8) for k in range(3)] == [41, 42, 42]


@pytest.mark.parametrize("neighbour", ["none", "idle", "waking", "busy"])
def test_does_an_idle_or_waking_thread_leave_the_core_to_its_sibling(neighbour: str) -> None:
    """Threads of a Core i7 share dispatch: half the speed beside one that dispatches, the whole beside one that sleeps or wakes up."""
    m = device_machine("corei7")
    p = at(10 * US)
    n = 8_000
    i = p.work(n)
    p.halt()
    other = Program()
    if neighbour == "busy":
        for _ in range(1000):
            other.work(1000)
    if neighbour != "none":
        sleep(other)
    h = handler(other) if neighbour != "none" else other.halt()
    # Its way out of the sleep covers the other's work.
    d = devices(timer(1, h, 10 * US - m.idle_exit_fs // 4 - m.interrupt_latency_fs)) if neighbour == "waking" else devices()
    assert n * m.issue_fs < m.idle_exit_fs * 3 // 4
    r = run(m, [p, other], pin=(0, 4), devices=d, until_fs=100 * US)
    assert r.time_fs(0, "issue", i) == n * m.issue_fs * (2 if neighbour == "busy" else 1)


def test_when_does_an_interrupt_reach_another_cpu(m: CompiledMachine) -> None:
    p = at(T)
    p.add(Op.IPI, base=0, imm=1)
    p.halt()
    target = Program()
    sleep(target)
    h = handler(target, halt=True)
    unused = handler(p)
    d = devices(vector(0, unused), vector(1, h))
    begin = begins(m, p, target)
    assert halts_exactly_at(m, [p, target], 1, begin + m.interrupt_latency_fs + m.idle_exit_fs + m.interrupt_entry_fs, devices=d)
    assert halts_exactly_at(m, [p, target], 0, begin + m.mmio_fs, devices=d)
    r = run(m, [p, target], devices=d)
    assert r.count(0, unused) == 0 and r.arrays["vector_raised"].tolist() == [0, 1]


def test_can_a_cpu_interrupt_itself(m: CompiledMachine) -> None:
    p = at(T)
    p.alu(3, -1, 0)
    p.add(Op.IPI, base=0, b=3)
    p.add(Op.WAIT)
    h = handler(p, halt=True)
    r = run(m, [p], devices=devices(vector(0, h)))
    assert r.count(0, h) == 1


def test_does_a_cpu_that_is_interrupted_by_another_see_what_that_one_stored_before(m: CompiledMachine) -> None:
    """The store comes behind one that misses, and the interrupt is faster than memory: it still may not overtake the store."""
    m = tiny(m, interrupt_latency_fs=1, idle_exit_fs=0, interrupt_entry_fs=m.issue_fs, mmio_fs=m.issue_fs)
    p = at(T)
    p.store(Z)
    p.fence(Fence.LIGHT)
    p.store(X, 9)
    p.add(Op.IPI, base=0, imm=1)
    p.halt()
    target = Program()
    sleep(target)
    h = target.add(Op.ENTER)
    target.load(X, 2)
    target.store(Y, 0, b=2)
    target.halt()
    r = run(m, [p, target], devices=devices(vector(0, 2), vector(1, h)))
    assert r.count(1, h) == 1 and r.sim.read_memory(Y, 8) == 9


def test_is_an_interrupt_for_a_cpu_that_does_not_exist_a_fault(m: CompiledMachine) -> None:
    p = at(T)
    p.add(Op.IPI, base=0, imm=1)
    p.halt()
    with pytest.raises(AssertionError, match="fault: a driver gave a device"):
        run(m, [p], devices=devices(vector(0, 2)))


def refused(m: CompiledMachine, match: str, d: Devices | None, **fields: int) -> None:
    p = Program()
    p.add(**fields)  # type: ignore[arg-type]
    p.halt()
    with pytest.raises(ValueError, match=match):
        run(m, [p], devices=d)


def test_are_micro_ops_refused_whose_device_vector_or_counter_does_not_exist(m: CompiledMachine) -> None:
    refused(m, "no NIC 0", devices(), op=Op.MMIO, fn=0)
    refused(m, "vector", devices(vector(0, 1)), op=Op.IPI, base=1)
    refused(m, "counter", devices(), op=Op.COUNT, base=2)
    for op in (Op.WAIT, Op.IRET, Op.IRQ, Op.MMIO, Op.IPI, Op.COUNT):
        refused(m, "run without devices", None, op=op)


def test_does_a_timer_come_while_its_cpu_waits_for_a_packet(m: CompiledMachine) -> None:
    """A polling thread between two packets: the handler begins at once, not with the next packet, and what was idle until then stays so."""
    p = Program()
    p.add(Op.PACKET)
    p.add(Op.DONE)
    p.branch(Cond.ALWAYS, -1, 0, 0)
    h = handler(p, halt=True)
    uops, entry, _ = assemble(m, [p])
    node, home = flat_tables(m.protocol)
    sim = Simulation(m, node, home, uops, entry, (0,), from_fs=0, until_fs=900 * US)
    sim.source(np.array([10_000 * US]), 4, 1, 0, False, 0, 0)
    sim.devices(placed(devices(timer(0, h, T)), entry), m)
    sim.start()
    assert sim.run(1 << 20) == "empty" or sim.halted
    sim.finish(900 * US)
    idle = int(sim.arrays["time_fs"][0, :, CATEGORIES.index("idle")].sum())
    assert idle == knows_fs(m) and int(sim.arrays["time_fs"].sum()) == knows_fs(m) + m.interrupt_entry_fs
