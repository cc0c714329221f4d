"""A NIC's receive side and its registers: when does a frame reach the driver, what do its writes do to the caches, who waits when it is full?

Times are arithmetic on the machine's numbers. The frames' first arrival depends on the seed: ``first_arrival_fs`` works it out.
"""

from __future__ import annotations

import numpy as np
import pytest
from device_program import (
    DONE_AT,
    FLOW_AT,
    INFO_AT,
    NS,
    RX,
    RX_ENABLE,
    RX_TAIL,
    US,
    buffer,
    counter,
    descriptor,
    device_machine,
    devices,
    mmio,
    nic,
    posted,
    sleep,
    traffic,
    vector,
)
from program import LINE, Program, Run, X, assemble, at, halts_exactly_at, run

from cohsim.machine.compiled import CompiledMachine
from cohsim.uops import Cond, Fence, Flag, Op
from cohsim.workload.compiled import Devices

RARE = 1000.0
"""Frames a second: one in a millisecond, long after the driver has done its part."""
ENTRIES = 8
APART = {"corei7": (0, 1, 2, 3), "t4240": (0, 4, 8, 5)}
"""The driver's CPU and three more: in clusters of their own, two share one."""


@pytest.fixture(params=["corei7", "t4240"])
def m(request: pytest.FixtureRequest) -> CompiledMachine:
    return device_machine(request.param)


def device_draws(seed: int = 1) -> np.random.Generator:
    """What decides the devices' phases."""
    thread = int(np.random.Generator(np.random.PCG64(seed)).integers(1, 2**63))
    return np.random.Generator(np.random.PCG64([thread, 1]))


def first_arrival_fs(rate: float, source: int = 0, rng: np.random.Generator | None = None) -> int:
    """A source begins anywhere in its first period."""
    rng = rng or device_draws()
    x = 0
    for _ in range(source + 1):
        x = int(rng.integers(1, 2**63))
    mask = 2**64 - 1
    x ^= x >> 12
    x = (x ^ x << 25) & mask
    x ^= x >> 27
    return (x * 0x2545F4914F6CDD1D & mask) % round(1e15 / rate)


def taken_fs(m: CompiledMachine) -> int:
    """From the arrival of a device's write at the home until no node holds the line and the bytes are there."""
    return m.home_lookup_fs + (2 * m.hop_fs + m.snoop_fs if m.home_broadcast else 0)


def driver(count: int = ENTRIES - 1, *, enable: bool = True, queues: int = 1) -> tuple[Program, int]:
    """Gives the device ``count`` buffers (already in memory, see ``posted``) and sleeps. The handler halts. (program, handler)"""
    p = Program()
    for queue in range(queues):
        if count:
            mmio(p, RX_TAIL, count, queue=queue)
        if enable:
            mmio(p, RX_ENABLE, 1, queue=queue)
    sleep(p)
    entry = p.add(Op.ENTER)
    p.halt()
    return p, entry


def one_nic(entry: int, rate: float = RARE, *, source: dict[str, object] | None = None, **fields: object) -> Devices:
    return devices(vector(0, entry), nics=(nic(**fields),), traffic=(traffic(rate, **(source or {})),))  # type: ignore[arg-type]


def becomes_at(m: CompiledMachine, programs: list[Program], d: Devices, address: int, values: tuple[int, int], time_fs: int) -> bool:
    """The word of 4 bytes has its first value when the run is cut at the time and its second 1 fs later."""
    cuts = [run(m, programs, devices=d, memory=posted(ENTRIES), until_fs=time_fs + k) for k in (0, 1)]
    return tuple(r.sim.read_memory(address, 4) for r in cuts) == values


def test_when_do_a_frames_bytes_its_status_and_its_interrupt_appear(m: CompiledMachine) -> None:
    p, h = driver()
    arrival = first_arrival_fs(RARE) + 2 * 1000 * US            # flows in turn: the third frame is the first with a number to see
    d = one_nic(h, source={"queue_of_flow": (0,) * 5})
    written = arrival + m.dma_fs + taken_fs(m)
    assert becomes_at(m, [p], d, buffer(2) + FLOW_AT, (0, 2), written)
    status = written + m.dma_fs + taken_fs(m)
    assert becomes_at(m, [p], d, descriptor(RX, 2) + DONE_AT, (0, 1), status)
    assert becomes_at(m, [p], d, descriptor(RX, 2) + INFO_AT, (0, 2), status)
    first = first_arrival_fs(RARE) + 2 * (m.dma_fs + taken_fs(m))
    assert halts_exactly_at(m, [p], 0, first + m.interrupt_latency_fs + m.idle_exit_fs + m.interrupt_entry_fs, devices=d,
                            memory=posted(ENTRIES))
    r = run(m, [p], devices=d, memory=posted(ENTRIES), until_fs=first + US)
    assert (counter(r, "arrived"), counter(r, "rx_frames"), counter(r, "rx_bytes"), counter(r, "dma_writes")) == (1, 1, 64, 2)
    assert counter(r, "rx_interrupts") == 1 and counter(r, "doorbells") == 1


def test_does_a_frame_of_several_lines_report_when_all_are_written(m: CompiledMachine) -> None:
    """1500 bytes are 24 lines; the home takes one after the other, each for its occupancy."""
    p, h = driver()
    d = one_nic(h, source={"frame": 1500})
    arrival = first_arrival_fs(RARE)
    lines = [buffer(0) // LINE + i for i in range(24)]
    per_slice = max(sum(line % m.home_slices == k for line in lines) for k in range(m.home_slices))
    status = arrival + m.dma_fs + (per_slice - 1) * m.home_occupancy_fs + taken_fs(m) + m.dma_fs + taken_fs(m)
    if m.home_broadcast:                  # snoops of different slices meet in the nodes' tag pipelines, which take them one by one
        r = run(m, [p], devices=d, memory=posted(ENTRIES), until_fs=status)
        assert r.sim.read_memory(descriptor(RX, 0) + DONE_AT, 4) == 0
        status += 24 * m.snoop_bank_fs
        r = run(m, [p], devices=d, memory=posted(ENTRIES), until_fs=status)
        assert r.sim.read_memory(descriptor(RX, 0) + DONE_AT, 4) == 1
    else:
        assert becomes_at(m, [p], d, descriptor(RX, 0) + DONE_AT, (0, 1), status)
    assert counter(run(m, [p], devices=d, memory=posted(ENTRIES), until_fs=status + US), "dma_writes") == 25


@pytest.mark.parametrize("dma_write", ["memory", "l3"])
@pytest.mark.parametrize("name", ["corei7", "t4240"])
@pytest.mark.parametrize("op", ["load", "store"])
def test_from_where_does_a_core_read_what_a_device_wrote_over_its_copy(name: str, dma_write: str, op: str) -> None:
    m = device_machine(name, dma_write)
    p, h = driver(enable=False)
    where = (buffer(0), descriptor(RX, 0))
    holder = Program()
    for address in where:
        if op == "store":
            holder.store(address + 16, 77)    # another word of the line
        holder.load(address, 2)
    holder.fence()
    holder.work((first_arrival_fs(RARE) + 20 * US) // m.issue_fs)
    again = [holder.load(address + offset, 3 + k, size=4) for k, (address, offset) in
             enumerate([(where[0], FLOW_AT), (where[1], INFO_AT), (where[1], DONE_AT)])]
    for k in range(3):
        holder.store(X + 8 * k, 0, b=3 + k)
    kept = holder.load(descriptor(RX, 0), 6)
    holder.store(X + 24, 0, b=6)
    holder.halt()
    pin = (0, len(m.cpu_core) // 2 - 1)
    d = one_nic(h)
    r = run(m, [p, holder], devices=d, memory=posted(ENTRIES), pin=pin, until_fs=first_arrival_fs(RARE) + 100 * US)
    level = "memory" if dma_write == "memory" else "home"
    assert r.served(1, again[0]) == {level: 1} and r.served(1, again[1]) == {level: 1}
    assert [r.sim.read_memory(X + 8 * k, 8) for k in range(4)] == [0, 0, 1, buffer(0)] and r.served(1, kept) == {"l1": 1}
    if op == "store":
        assert r.sim.read_memory(buffer(0) + 16, 8) == 77        # bytes of the line without a meaning stay
    # The copy of the line's one holder went, at the node and (in a cluster) in its L1; the descriptor's home asked once.
    assert r.line(buffer(0), "invalidations") == (1 if m.l2_private else 2)
    assert r.sim.counters()["recalls"] == 0


def test_how_many_copies_does_a_device_write_invalidate() -> None:
    m = device_machine("corei7")
    p, h = driver(enable=False)
    readers = []
    for _ in range(3):
        q = at(US)
        q.load(buffer(0))
        q.halt()
        readers.append(q)
    r = run(m, [p, *readers], devices=one_nic(h), memory=posted(ENTRIES), until_fs=first_arrival_fs(RARE) + 100 * US)
    assert r.line(buffer(0), "invalidations") == 3


def test_is_a_dirty_line_that_a_device_overwrites_written_back_first() -> None:
    """The line's other bytes come to the home with the answer, and go to memory with the device's own."""
    m = device_machine("corei7")
    p, h = driver(enable=False)
    owner = at(US)
    owner.store(buffer(0) + 8, 5)
    owner.halt()
    r = run(m, [p, owner], devices=one_nic(h), memory=posted(ENTRIES), until_fs=first_arrival_fs(RARE) + 100 * US)
    assert r.sim.counters()["memory_writes"] == 2         # the buffer's line once, the descriptor's once
    assert r.fired("node", "M", "SnpM") == 1 and r.sim.read_memory(buffer(0) + 8, 8) == 5


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dma_write", ["memory", "l3"])
@pytest.mark.parametrize("name", ["corei7", "t4240"])
@pytest.mark.parametrize("geometry", ["file", "tiny"])
def test_does_anything_get_lost_when_cores_and_a_device_write_the_same_lines(name: str, dma_write: str, geometry: str, seed: int) -> None:
    """Three cores add to words of the very lines that frames and descriptors are written to: upgrades, evictions, recalls and write-backs
    meet the device's writes. Every increment counts, and every frame is where it belongs."""
    small: dict[str, object] = {"l1_sets": 1, "l1_ways": 2, "l2_sets": 1, "l2_ways": 2, "mshrs": 2, "l3_sets": 1, "l3_ways": 4}
    m = device_machine(name, dma_write, **(small if geometry == "tiny" else {}))
    frames, entries = 400, 512
    memory = [(descriptor(RX, i), 8, buffer(i % 4)) for i in range(entries)]
    p = Program()
    mmio(p, RX_TAIL, frames)
    sleep(p)
    d = devices(vector(0, p.add(Op.ENTER)), nics=(nic(entries=entries),), traffic=(traffic(20e6, queue_of_flow=(0,) * frames),))
    p.halt()
    cores = []
    words = [buffer(0) + 40, buffer(1) + 32, buffer(2), buffer(0)]
    for cpu in range(3):
        q = Program()
        top = q.here
        for k, word in enumerate(words):
            q.atomic_add(word, m.isa)
            q.store(buffer(3) + 32 + 8 * cpu, cpu * 100 + k)
            q.work(7 * cpu + 3 * k)
        q.counted_loop(8, 300, top)
        q.halt()
        cores.append(q)
    r = run(m, [p, *cores], devices=d, memory=memory, seed=seed + 1, until_fs=2000 * US, pin=APART[name])
    assert r.sim.halted == 3
    assert [r.sim.read_memory(w, 8) for w in words] == [900] * 4
    assert [r.sim.read_memory(buffer(3) + 32 + 8 * cpu, 8) for cpu in range(3)] == [cpu * 100 + 3 for cpu in range(3)]
    assert counter(r, "rx_frames") == frames
    flows = [r.sim.read_memory(descriptor(RX, i) + INFO_AT, 4) for i in range(frames)]
    assert flows == [(flows[0] + i) % frames for i in range(frames)]
    assert [r.sim.read_memory(descriptor(RX, i) + DONE_AT, 4) for i in range(frames + 1)] == [1] * frames + [0]
    assert sorted(r.sim.read_memory(buffer(i) + FLOW_AT, 4) for i in range(4)) == sorted(flows[-4:])


@pytest.mark.parametrize("name", ["corei7", "t4240"])
def test_do_those_races_reach_what_they_are_meant_to_reach(name: str) -> None:
    """The test above is worth what it meets: requests of the line that wait, evictions under way, upgrades that lose their copy."""
    m = device_machine(name, l1_sets=1, l1_ways=1, l2_sets=1, l2_ways=1, mshrs=2, l3_sets=1, l3_ways=3)
    entries = 2048
    p = Program()
    mmio(p, RX_TAIL, entries - 1)
    sleep(p)
    d = devices(vector(0, p.add(Op.ENTER)), nics=(nic(entries=entries),), traffic=(traffic(20e6),))
    p.halt()
    cores = []
    for cpu in range(3):
        q = Program()
        top = q.here
        for k in range(3):
            q.load(buffer(0) + 8)
            q.store(buffer(0) + 8 * cpu, k)
            q.store(buffer(1) + 64 * k + 8 * cpu, k)
            if m.l3_inclusive:
                q.load(buffer(2) + LINE * k)          # dropped silently: the home believes it there and recalls it
        q.counted_loop(8, 1000, top)
        q.halt()
        cores.append(q)
    r = run(m, [p, *cores], devices=d, memory=[(descriptor(RX, i), 8, buffer(0)) for i in range(entries)], until_fs=1000 * US,
            pin=APART[name])
    rows = [("node", "MI", "SnpM"), ("node", "M", "SnpM"), ("node", "II", "PutAck"), ("home", "Free", "PutMStale"), ("home", "Free", "Recall")]
    if m.home_broadcast:
        rows += [("node", "IM", "SnpM"), ("node", "SM", "SnpM"), ("node", "II", "SnpM")]
    for row in rows:
        assert r.fired(*row) > 0, row
    if m.l3_inclusive:
        assert r.sim.counters()["recalls"] > 0
    assert r.line(buffer(0), "queue_fs") > 0


def reporting(m: CompiledMachine, d: Devices, p: Program, from_: int, until: int, index: int) -> int:
    """When descriptor ``index`` was reported, by bisection of the run's end."""
    while from_ + 1 < until:
        middle = (from_ + until) // 2
        r = run(m, [p], devices=d, memory=posted(ENTRIES), until_fs=middle)
        from_, until = (from_, middle) if r.sim.read_memory(descriptor(RX, index) + DONE_AT, 4) else (middle, until)
    return from_


def test_are_descriptors_written_back_in_batches_or_after_the_timeout(m: CompiledMachine) -> None:
    """Four a batch, frames 10 us apart. With a long timeout the fourth frame reports all; with one of 25 us two follow the first."""
    p, h = driver(enable=False)
    a = first_arrival_fs(1e5)
    written = a + m.dma_fs + taken_fs(m)
    assert a > 2 * US
    for timeout_us, reported_fs, together in ((100, written + 30 * US, 4), (25, written + 25 * US, 3)):
        d = one_nic(h, 1e5, writeback=4, writeback_timeout_ns=1000.0 * timeout_us)
        status = reported_fs + m.dma_fs + taken_fs(m)
        for i in range(together):
            assert becomes_at(m, [p], d, descriptor(RX, i) + DONE_AT, (0, 1), status), i
        r = run(m, [p], devices=d, memory=posted(ENTRIES), until_fs=status + US)
        assert r.sim.read_memory(descriptor(RX, together) + DONE_AT, 4) == 0
        assert counter(r, "dma_writes") == together + 1        # four descriptors share a line


def test_does_the_timeout_of_a_batch_that_is_gone_cut_the_next_one_short(m: CompiledMachine) -> None:
    """Batches of two, frames 10 us apart, 25 us: the third frame's batch begins with it and ends with the fourth, not 5 us after."""
    p, h = driver(enable=False)
    a = first_arrival_fs(1e5)
    d = one_nic(h, 1e5, writeback=2, writeback_timeout_ns=25_000.0)
    fourth = a + 30 * US + 2 * (m.dma_fs + taken_fs(m))
    assert becomes_at(m, [p], d, descriptor(RX, 2) + DONE_AT, (0, 1), fourth)


@pytest.mark.parametrize("full", ["block", "drop"])
def test_what_happens_to_frames_without_a_descriptor(m: CompiledMachine, full: str) -> None:
    p, h = driver(2, enable=False)
    a = first_arrival_fs(1e5)
    d = one_nic(h, 1e5, drop=full == "drop")
    end = a + 100 * US + 1            # frames at a, a + 10 us, ... a + 100 us
    r = run(m, [p], devices=d, memory=posted(ENTRIES), until_fs=end)
    assert a > 2 * (m.mmio_fs + m.dma_fs)
    assert (counter(r, "arrived"), counter(r, "rx_frames")) == (11, 2)
    assert counter(r, "missed") == (9 if full == "drop" else 0)
    assert counter(r, "blocked_fs") == (0 if full == "drop" else end - (a + 20 * US))


def test_does_a_blocked_port_go_on_with_the_next_buffers(m: CompiledMachine) -> None:
    p, h = driver(2, enable=False)
    late = Program()
    late.delay_until(first_arrival_fs(1e5) + 50 * US)
    mmio(late, RX_TAIL, 5)
    late.halt()
    d = one_nic(h, 1e5)
    a = first_arrival_fs(1e5)
    rings = assemble(m, [p, late])[2][1] + m.mmio_fs + m.dma_fs
    r = run(m, [p, late], devices=d, memory=posted(ENTRIES), until_fs=rings + m.dma_fs + 1)
    # Five descriptors for six frames: the sixth is blocked as soon as the fifth is gone, for the last femtosecond.
    assert counter(r, "rx_frames") == 5 and counter(r, "blocked_fs") == rings - (a + 20 * US) + 1
    before = run(m, [p, late], devices=d, memory=posted(ENTRIES), until_fs=rings + m.dma_fs)
    assert counter(before, "rx_frames") == 2
    assert [r.sim.read_memory(descriptor(RX, i) + DONE_AT, 4) for i in range(3)] == [1, 1, 0]


@pytest.mark.parametrize("pause", [True, False])
def test_who_waits_when_the_fifo_is_full(m: CompiledMachine, pause: bool) -> None:
    """One descriptor, and a FIFO of two frames: the fourth waits at the sender, or it and all later ones are lost."""
    p, h = driver(1, enable=False)
    d = one_nic(h, 1e5, fifo_bytes=130, pause=pause)
    a = first_arrival_fs(1e5)
    end = a + 100 * US + 1
    r = run(m, [p], devices=d, memory=posted(ENTRIES), until_fs=end)
    assert counter(r, "arrived") == 3
    assert counter(r, "missed") == (0 if pause else 8)
    assert counter(r, "paused_fs") == (end - (a + 30 * US) if pause else 0)
    assert counter(r, "blocked_fs") == end - (a + 10 * US)


def test_are_paused_and_blocked_times_those_of_the_window(m: CompiledMachine) -> None:
    p, h = driver(1, enable=False)
    late = Program()
    late.delay_until(200 * US)
    mmio(late, RX_TAIL, 7)
    late.halt()
    d = one_nic(h, 1e5, fifo_bytes=130)
    rings = assemble(m, [p, late])[2][1] + m.mmio_fs + m.dma_fs
    r = run(m, [p, late], devices=d, memory=posted(ENTRIES), from_fs=100 * US, until_fs=300 * US)
    assert counter(r, "blocked_fs") == rings - 100 * US + (300 * US - blocked_again(m, rings))
    assert counter(r, "paused_fs") == rings + m.dma_fs - 100 * US + (300 * US - paused_again(m, rings))


def blocked_again(m: CompiledMachine, rings: int) -> int:
    """Six more buffers: two frames of the FIFO, the one that waited, and three more, 10 us apart; the next finds none."""
    return rings + m.dma_fs + 40 * US


def paused_again(m: CompiledMachine, rings: int) -> int:
    """Behind that one another fits into the FIFO; then the sender waits."""
    return blocked_again(m, rings) + 20 * US


def test_is_the_time_counted_once_when_two_senders_wait(m: CompiledMachine) -> None:
    p, h = driver(1, enable=False)
    d = devices(vector(0, h), nics=(nic(fifo_bytes=130),), traffic=(traffic(1e5), traffic(3e4)))
    a, b = first_arrival_fs(1e5), first_arrival_fs(3e4, 1)
    times = sorted([a + 10 * k * US for k in range(4)] + [b])
    end = times[-1] + 40 * US
    r = run(m, [p], devices=d, memory=posted(ENTRIES), until_fs=end)
    assert min(np.diff(times)) > 84 * NS      # no frame waits for the wire
    assert counter(r, "paused_fs") == end - times[3]


def test_are_counters_those_of_the_window(m: CompiledMachine) -> None:
    p, h = driver(7, enable=False)
    a = first_arrival_fs(1e5)
    r = run(m, [p], devices=one_nic(h, 1e5), memory=posted(ENTRIES), from_fs=a + 15 * US, until_fs=a + 45 * US)
    assert [counter(r, c) for c in ("arrived", "rx_frames", "rx_bytes", "dma_writes", "doorbells")] == [3, 3, 192, 6, 0]


def test_do_frames_follow_each_other_no_faster_than_the_port(m: CompiledMachine) -> None:
    """Two senders offer 5 times what 8 Gbit/s carry: 84 bytes with what lies between frames, 84 ns."""
    p, h = driver(1, enable=False)
    d = devices(vector(0, h), nics=(nic(pause=False),), traffic=(traffic(3e7), traffic(3e7)))
    r = run(m, [p], devices=d, memory=posted(ENTRIES), from_fs=10 * US, until_fs=10 * US + 840 * 84 * NS)
    assert counter(r, "arrived") + counter(r, "missed") == 840


def handler_that_enables(p: Program) -> int:
    entry = p.add(Op.ENTER)
    mmio(p, RX_ENABLE, 1)
    p.add(Op.IRET)
    return entry


def test_how_far_apart_are_the_interrupts_of_a_moderated_vector(m: CompiledMachine) -> None:
    """A frame every 10 us, at most an interrupt every 50: the first with the first frame, then each as soon as it may. The first interval is
    longer by the vector's phase. At 7 us each frame interrupts; at 15 the causes of 20, 30, 50 ... us wait for their time or find it over."""
    p = Program()
    mmio(p, RX_TAIL, 63)
    mmio(p, RX_ENABLE, 1)
    sleep(p)
    h = handler_that_enables(p)
    memory = posted(64)
    for moderation_us in (0, 50, 7, 15):
        rng = device_draws()
        phase = int(rng.integers(0, moderation_us * US)) if moderation_us else 0
        cause = first_arrival_fs(1e5, rng=rng) + 2 * (m.dma_fs + taken_fs(m))
        d = devices(vector(0, h), nics=(nic(entries=64, rx_moderation_ns=1000.0 * moderation_us),), traffic=(traffic(1e5),))
        t, may, last = cause, 0, cause
        for k in range(5):
            counts = [counter(run(m, [p], devices=d, memory=memory, until_fs=t + c), "rx_interrupts") for c in (0, 1)]
            assert counts == [k, k + 1], (moderation_us, k)
            may = t + moderation_us * US + (phase if k == 0 else 0)
            last = t if (t - cause) % (10 * US) == 0 else t - (t - cause) % (10 * US)        # the latest frame that this one reported
            t = max(may, last + 10 * US)


@pytest.mark.parametrize("enable", [False, True])
def test_does_a_vector_mask_itself_until_the_driver_enables_it(m: CompiledMachine, enable: bool) -> None:
    """Three frames: one interrupt. A cause that came while it was masked interrupts as soon as the driver enables."""
    p = Program()
    mmio(p, RX_TAIL, 7)
    mmio(p, RX_ENABLE, 1)
    sleep(p)
    h = p.add(Op.ENTER)
    p.add(Op.IRET)
    a = first_arrival_fs(1e5)
    q = Program()
    q.delay_until(a + 25 * US)
    if enable:
        mmio(q, RX_ENABLE, 1)
    q.halt()
    d = one_nic(h, 1e5)
    written = assemble(m, [p, q])[2][1] + m.mmio_fs + m.dma_fs
    counts = []
    for cut in (written, written + 1, a + 45 * US):
        counts.append(counter(run(m, [p, q], devices=d, memory=posted(ENTRIES), until_fs=cut), "rx_interrupts"))
    assert counts == ([1, 2, 2] if enable else [1, 1, 1])


def test_does_a_vector_without_a_cause_interrupt_when_it_is_enabled(m: CompiledMachine) -> None:
    p = Program()
    for _ in range(3):
        mmio(p, RX_ENABLE, 1)
    sleep(p)
    h = p.add(Op.ENTER)
    p.add(Op.IRET)
    r = run(m, [p], devices=one_nic(h), until_fs=100 * US)
    assert r.count(0, h) == 0 and counter(r, "rx_interrupts") == 0


def test_do_frames_go_to_the_queue_of_their_flow_and_interrupt_its_cpu(m: CompiledMachine) -> None:
    """Flows 0 to 3 to queues 0, 1, 1, 2 of CPUs 0, 1, 0."""
    programs, entries = [], []
    for cpu in range(2):
        p = Program()
        for queue in ((0, 2), (1,))[cpu]:
            mmio(p, RX_TAIL, 7, queue=queue)
            mmio(p, RX_ENABLE, 1, queue=queue)
        sleep(p)
        entry = p.add(Op.ENTER)
        p.add(Op.STORE, base=X, stride=LINE, slot=4, size=8, imm=1)
        p.add(Op.MMIO, fn=RX_ENABLE, base=cpu, imm=1)
        p.add(Op.IRET)
        programs.append(p)
        entries.append(entry)
    vectors = (vector(0, entries[0]), vector(1, entries[1], queue=1), vector(0, entries[0], queue=2))
    d = devices(*vectors, nics=(nic(queues=3, rx_vectors=(0, 1, 2), tx_vectors=(0, 1, 2)),), traffic=(traffic(1e5, queue_of_flow=(0, 1, 1, 2)),))
    a = first_arrival_fs(1e5)
    memory = [w for q in range(3) for w in posted(ENTRIES, queue=q)]
    r = run(m, programs, devices=d, memory=memory, until_fs=a + 35 * US)       # one frame of each flow
    found = [[r.sim.read_memory(descriptor(RX, i, q) + DONE_AT, 4) for i in range(3)] for q in range(3)]
    assert found == [[1, 0, 0], [1, 1, 0], [1, 0, 0]]
    assert [r.sim.read_memory(descriptor(RX, i, 1) + INFO_AT, 4) for i in range(2)] == [1, 2]
    assert [r.sim.read_memory(X + LINE * q, 8) for q in range(3)] == [1, 1, 1]
    assert r.arrays["vector_raised"].tolist() == [1, 2, 1]


def test_are_poisson_arrivals_random_in_time_and_flow_and_the_same_for_the_same_seed(m: CompiledMachine) -> None:
    p = Program()
    mmio(p, RX_TAIL, 4095)
    sleep(p)
    h = p.add(Op.ENTER)
    p.halt()
    memory = [(descriptor(RX, i), 8, buffer(i % 8)) for i in range(4096)]
    d = devices(vector(0, h), nics=(nic(entries=4096),), traffic=(traffic(1e6, queue_of_flow=(0,) * 7, arrivals="poisson"),))

    def flows(seed: int) -> list[int]:
        r = run(m, [p], devices=d, memory=memory, seed=seed, until_fs=2000 * US)
        return [r.sim.read_memory(descriptor(RX, i) + INFO_AT, 4) for i in range(counter(r, "rx_frames"))]

    first, second, other = flows(1), flows(1), flows(2)
    assert first == second != other
    assert abs(len(first) - 2000) < 5 * 2000**0.5                      # a Poisson number's standard deviation is the root of its mean
    assert {first.count(k) > 200 for k in range(7)} == {True}


def test_how_long_is_a_register_write_and_what_does_it_wait_for(m: CompiledMachine) -> None:
    d = devices(vector(0, 0), nics=(nic(),))
    alone = at(2 * US)
    mmio(alone, RX_TAIL, 1)
    alone.halt()
    r = run(m, [alone], devices=d, until_fs=100 * US)
    assert r.end_fs() - r.begin_fs[0] == m.mmio_fs + m.issue_fs
    behind: dict[str, Run] = {}
    for op in ("load", "store"):
        p = at(2 * US)
        getattr(p, op)(X)
        i = mmio(p, RX_TAIL, 1)
        p.halt()
        behind[op] = run(m, [p], devices=d, until_fs=100 * US)
        fenced = at(2 * US)
        getattr(fenced, op)(X)
        fenced.fence(Fence.FULL)
        fenced.halt()
        takes = run(m, [fenced]).end_fs() - run(m, [fenced]).begin_fs[0] - m.fence_full_fs - m.issue_fs
        assert behind[op].end_fs() - behind[op].begin_fs[0] == takes + m.mmio_fs + m.issue_fs
        assert behind[op].time_fs(0, "fence", i) == m.mmio_fs
    assert behind["store"].time_fs(0, "store_buffer") > 0


def test_do_two_doorbells_of_a_core_arrive_in_order(m: CompiledMachine) -> None:
    """The second goes back: an error of the driver if it were first, 7 descriptors more if it is second."""
    p = Program()
    mmio(p, RX_TAIL, 3)
    mmio(p, RX_TAIL, 5)
    p.halt()
    d = one_nic(0)
    r = run(m, [p], devices=d, memory=posted(ENTRIES), until_fs=100 * US)
    assert counter(r, "doorbells") == 2
    q = Program()
    mmio(q, RX_TAIL, 5)
    mmio(q, RX_TAIL, 3)
    q.halt()
    with pytest.raises(AssertionError, match="fault: a driver gave a device"):
        run(m, [q], devices=d, memory=posted(ENTRIES), until_fs=100 * US)


@pytest.mark.parametrize(("register", "value", "queue"), [(RX_TAIL, 8, 0), (RX_TAIL, -1, 0), (RX_TAIL, 1, 1), (RX_TAIL, 1, -1), (RX_ENABLE, 1, 2)])
def test_are_a_tail_beyond_the_ring_and_an_unknown_queue_faults(m: CompiledMachine, register: int, value: int, queue: int) -> None:
    p = at(US)
    mmio(p, register, value, queue=queue)
    p.halt()
    with pytest.raises(AssertionError, match="fault: a driver gave a device a queue, ring index"):
        run(m, [p], devices=one_nic(0), memory=posted(ENTRIES), until_fs=100 * US)


def test_is_a_descriptor_without_a_buffer_a_fault(m: CompiledMachine) -> None:
    p, h = driver(3, enable=False)
    with pytest.raises(AssertionError, match="fault: a driver gave a device"):
        run(m, [p], devices=one_nic(h, 1e5), memory=posted(0), until_fs=100 * US)


def test_is_a_frame_that_can_never_fit_refused(m: CompiledMachine) -> None:
    p, h = driver(3)
    with pytest.raises(ValueError, match="does not fit into the FIFO"):
        run(m, [p], devices=one_nic(h, fifo_bytes=1000, source={"frame": 1500}))


@pytest.mark.parametrize("name", ["corei7", "t4240"])
def test_can_a_full_fifo_of_large_frames_go_to_a_large_ring_at_once(name: str) -> None:
    """4000 buffers at once for 5 MiB of waiting frames, whose lines a core holds: more writes than the homes' tables were made for."""
    m = device_machine(name)
    entries = 4096
    p = Program()
    mmio(p, RX_TAIL, 1)
    top = p.here                              # into its caches
    p.add(Op.LOAD, base=buffer(0), areg=2, size=8)
    p.alu(2, 2, LINE)
    p.branch(Cond.LT, 2, 300 * 2048, top, flags=Flag.PRED_TAKEN)
    p.work(6_000 * US // m.issue_fs)
    mmio(p, RX_TAIL, entries - 1)
    p.halt()
    d = devices(vector(0, 0), nics=(nic(entries=entries, fifo_bytes=5 << 20),), traffic=(traffic(1e6, frame=1500),))
    memory = [(descriptor(RX, i), 8, buffer(i % 300)) for i in range(entries)]
    r = run(m, [p], devices=d, memory=memory, until_fs=8_000 * US)
    assert counter(r, "rx_frames") > 3400 and counter(r, "dma_writes") > 24 * 3400
