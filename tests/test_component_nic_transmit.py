"""A NIC's transmit side: when is a frame read, when is its status written, when is it through the wire, and what is a frame?

The port carries a byte a nanosecond. Times are arithmetic on the machine's numbers.
"""

from __future__ import annotations

import pytest
from device_program import (
    BUFFER,
    DONE_AT,
    END,
    FLOW_AT,
    INFO_AT,
    NS,
    RX,
    RX_TAIL,
    SEGMENT,
    STATUS,
    TX,
    TX_ENABLE,
    TX_TAIL,
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
    vector,
)
from program import LINE, Program, Run, assemble, at, halts_exactly_at, run

from cohsim.machine.compiled import CompiledMachine
from cohsim.results.rundata import NIC_STATS
from cohsim.simulate import simulate
from cohsim.uops import Op
from cohsim.workload.compiled import CompiledWorkload, Devices, Nic

OVERHEAD = 24
PLAIN = END | STATUS


@pytest.fixture(params=["corei7", "t4240"])
def m(request: pytest.FixtureRequest) -> CompiledMachine:
    return device_machine(request.param)


def commands(*words: int, queue: int = 0) -> list[tuple[int, int, int]]:
    """Descriptors as initial memory."""
    return [(descriptor(TX, i, queue), 8, word) for i, word in enumerate(words)]


def sender(tail: int, *more: int) -> Program:
    """Rings at 1 us (and again, for each further tail)."""
    p = at(US)
    for value in (tail, *more):
        mmio(p, TX_TAIL, value)
    p.halt()
    return p


def read_fs(m: CompiledMachine, p: Program) -> int:
    """When the engine reads the first descriptor behind the doorbell."""
    return assemble(m, [p])[2][0] + m.mmio_fs + 2 * m.dma_fs


def status_fs(m: CompiledMachine) -> int:
    """From the end of a frame's reading until its status is in memory."""
    return m.dma_fs + m.home_lookup_fs + (2 * m.hop_fs + m.snoop_fs if m.home_broadcast else 0)


def only(**fields: object) -> Devices:
    """A NIC whose vector 0 nobody enables."""
    return devices(vector(0, 0), nics=(nic(**fields),))  # type: ignore[arg-type]


def cut(m: CompiledMachine, p: Program, words: list[tuple[int, int, int]], time_fs: int, d: Devices, **options: object) -> Run:
    return run(m, [p], devices=d, memory=words, until_fs=time_fs, **options)  # type: ignore[arg-type]


def steps(m: CompiledMachine, p: Program, words: list[tuple[int, int, int]], name: str, time_fs: int, d: Devices) -> tuple[int, int]:
    """A counter when the run is cut at the time, and 1 fs later."""
    return counter(cut(m, p, words, time_fs, d), name), counter(cut(m, p, words, time_fs + 1, d), name)


def done(r: Run, index: int, queue: int = 0) -> int:
    return r.sim.read_memory(descriptor(TX, index, queue) + DONE_AT, 4)


def test_when_is_a_frame_through_the_wire_and_when_is_its_status_written(m: CompiledMachine) -> None:
    p, words, d = sender(1), commands(60 | PLAIN), only()
    read = read_fs(m, p)
    assert steps(m, p, words, "tx_frames", read + (60 + OVERHEAD) * NS, d) == (0, 1)
    assert [done(cut(m, p, words, read + status_fs(m) + k, d), 0) for k in (0, 1)] == [0, 1]
    r = cut(m, p, words, 100 * US, d)
    assert (counter(r, "tx_bytes"), counter(r, "dma_reads"), counter(r, "dma_writes"), counter(r, "tx_interrupts")) == (60, 1, 1, 0)


def test_when_does_a_sent_frame_interrupt(m: CompiledMachine) -> None:
    p = at(US)
    mmio(p, TX_ENABLE, 1)
    mmio(p, TX_TAIL, 1)
    sleep(p)
    h = p.add(Op.ENTER)
    p.halt()
    d = devices(vector(0, h), nics=(nic(),))
    rung = assemble(m, [p])[2][0] + 2 * (m.mmio_fs + m.issue_fs) - m.issue_fs
    written = rung + 2 * m.dma_fs + status_fs(m)
    assert halts_exactly_at(m, [p], 0, written + m.interrupt_latency_fs + m.idle_exit_fs + m.interrupt_entry_fs, devices=d,
                            memory=commands(60 | PLAIN))


def test_how_many_frames_does_the_port_send_in_a_time(m: CompiledMachine) -> None:
    """200 frames of 60 bytes behind one doorbell: 84 ns each, none faster."""
    p, d = sender(200), only(tx_entries=256)
    words = commands(*[60 | END] * 200)
    read = read_fs(m, p)
    for k in (1, 100, 200):
        assert steps(m, p, words, "tx_frames", read + 84 * k * NS, d) == (k - 1, k)


def test_does_a_device_with_a_service_time_send_no_faster_than_that(m: CompiledMachine) -> None:
    p, d = sender(5), only(tx_service_ns=500.0)
    words = commands(*[60 | END] * 5)
    read = read_fs(m, p)
    for k in range(1, 6):
        assert steps(m, p, words, "tx_frames", read + (500 * k + 84) * NS, d) == (k - 1, k)


def test_is_a_frame_of_several_descriptors_one_frame(m: CompiledMachine) -> None:
    p, d = sender(3), only()
    words = commands(100, 200, 1000 | PLAIN)
    assert steps(m, p, words, "tx_frames", read_fs(m, p) + (1300 + OVERHEAD) * NS, d) == (0, 1)
    r = cut(m, p, words, 100 * US, d)
    assert (counter(r, "tx_bytes"), counter(r, "dma_reads"), counter(r, "dma_writes")) == (1300, 21, 1)
    assert [done(r, i) for i in range(3)] == [0, 0, 1]


def test_when_is_the_status_of_a_frame_written_that_the_buffer_of_the_port_does_not_hold(m: CompiledMachine) -> None:
    """3000 bytes through a buffer of 1000: its last byte is read 1000 ns before the frame is through the wire."""
    p, words, d = sender(1), commands(3000 | PLAIN), only(fifo_bytes=1000)
    last = read_fs(m, p) + (3000 + OVERHEAD - 1000) * NS
    assert [done(cut(m, p, words, last + status_fs(m) + k, d), 0) for k in (0, 1)] == [0, 1]


@pytest.mark.parametrize("where", ["first", "last"])
def test_how_many_segments_and_bytes_does_a_large_send_become(m: CompiledMachine, where: str) -> None:
    """54 bytes of header, 4000 of payload, 1460 a segment: 3 frames of 1514, 1514 and 1134 bytes, each with its header and overhead."""
    tso = SEGMENT | 1460 << 32 | 54 << 48
    words = commands(54 | (tso if where == "first" else 0), 4000 | PLAIN | (tso if where == "last" else 0))
    p, d = sender(2), only()
    wire = 4054 + 2 * 54
    assert wire == 1514 + 1514 + 1134
    assert steps(m, p, words, "tx_frames", read_fs(m, p) + (wire + 3 * OVERHEAD) * NS, d) == (0, 3)
    assert counter(cut(m, p, words, 100 * US, d), "tx_bytes") == wire
    exact = commands(54 + 2920 | PLAIN | tso)
    assert counter(cut(m, sender(1), exact, 100 * US, d), "tx_frames") == 2


def test_is_status_written_only_where_it_is_asked_for(m: CompiledMachine) -> None:
    """Twelve descriptors in three lines; one asks, in the last: one write, and the other lines stay in the caches."""
    p = at(US)
    for line in range(3):
        p.load(TX + LINE * line, 2)
    p.fence()
    mmio(p, TX_TAIL, 12)
    p.work(10 * US // m.issue_fs)
    again = [p.load(TX + LINE * line) for line in range(3)]
    p.halt()
    d = only(tx_entries=16)
    words = commands(*[60] * 11, 60 | PLAIN)
    r = cut(m, p, words, 100 * US, d)
    assert [done(r, i) for i in range(12)] == [0] * 11 + [1]
    assert counter(r, "dma_writes") == 1
    assert [r.served(0, i) for i in again] == [{"l1": 1}, {"l1": 1}, {"memory": 1}]
    quiet = commands(*[60 | END] * 12)
    r = cut(m, p, quiet, 100 * US, d)
    assert counter(r, "dma_writes") == 0 and counter(r, "tx_frames") == 12


def test_does_the_status_wait_for_the_receive_sides_batch(m: CompiledMachine) -> None:
    p, words = sender(1), commands(60 | PLAIN)
    t = read_fs(m, p) + status_fs(m)
    assert [done(cut(m, p, words, t + k, only(writeback=8, writeback_timeout_ns=50_000.0)), 0) for k in (0, 1)] == [0, 1]


def test_how_far_ahead_of_the_wire_are_frames_read(m: CompiledMachine) -> None:
    """Frames of 976 bytes, 1000 ns each; the device's buffer holds 2000: frame k has been read when the wire has 2000 ns to do with it."""
    p, d = sender(7), only(fifo_bytes=2000)
    words = commands(*[976 | PLAIN] * 7)
    read = read_fs(m, p)
    for k in range(7):
        t = read + max(0, k - 1) * 1000 * NS + status_fs(m)
        # The first two come at once: their status words share a line, whose home serves one write after the other.
        r = [done(cut(m, p, words, t + c, d), k) for c in (0, 1)]
        if k != 1:
            assert r == [0, 1], k
    assert [done(cut(m, p, words, read + status_fs(m) + 100 * NS, d), k) for k in range(3)] == [1, 1, 0]


def test_a_large_send_is_read_behind_those_before_it(m: CompiledMachine) -> None:
    """Two sends of 3000 bytes on the wire through a buffer of 1000: the first is read at 2000 ns, the second at 5000 ns, not before its own begin
    plus what the buffer does not hold."""
    tso = SEGMENT | 952 << 32 | 24 << 48
    words = commands(24 + 3 * 952 | PLAIN | tso, 24 + 3 * 952 | PLAIN | tso)
    p, d = sender(2), only(fifo_bytes=1000)
    assert 3 * (24 + 952 + OVERHEAD) == 3000
    for k, ns in enumerate((2000, 5000)):
        t = read_fs(m, p) + ns * NS + status_fs(m)
        assert [done(cut(m, p, words, t + c, d), k) for c in (0, 1)] == [0, 1]


def test_do_two_queues_share_the_wire(m: CompiledMachine) -> None:
    p = at(US)
    mmio(p, TX_TAIL, 10, queue=0)
    mmio(p, TX_TAIL, 10, queue=1)
    p.halt()
    d = only(queues=2, rx_vectors=(0, 0), tx_vectors=(0, 0), fifo_bytes=1000, tx_entries=16)
    words = commands(*[976 | PLAIN] * 10) + commands(*[976 | PLAIN] * 10, queue=1)
    read = read_fs(m, p)
    assert steps(m, p, words, "tx_frames", read + 20_000 * NS, d) == (19, 20)
    # The first queue is alone for two frames: one at once, one as soon as there is room. Then the queues take turns, a frame a microsecond:
    # the second's at 2000, 4000, 6000 and 8000 ns, the first's at 3000, 5000, 7000 and 9000.
    r = cut(m, p, words, read + 9_000 * NS + 2 * status_fs(m), d)
    assert [sum(done(r, i, q) for i in range(10)) for q in range(2)] == [6, 4]


def test_when_do_the_peers_acknowledgements_come(m: CompiledMachine) -> None:
    """Every second of 7 frames, 50 us after it has left: 3, with the number of frames acknowledged so far."""
    p = at(US)
    mmio(p, RX_TAIL, 7)
    mmio(p, TX_TAIL, 7)
    p.halt()
    d = only(ack_every=2, ack_delay_ns=50_000.0, ack_bytes=64)
    words = commands(*[976 | END] * 7) + posted(8)
    read = assemble(m, [p])[2][0] + 2 * m.mmio_fs + m.issue_fs + 2 * m.dma_fs
    for k in range(3):
        assert steps(m, p, words, "arrived", read + (2000 * (k + 1) + 50_000) * NS, d) == (k, k + 1)
    r = cut(m, p, words, 1000 * US, d)
    assert [r.sim.read_memory(descriptor(RX, i) + INFO_AT, 4) for i in range(4)] == [2, 4, 6, 0]
    assert r.sim.read_memory(buffer(2) + FLOW_AT, 4) == 6 and counter(r, "rx_bytes") == 3 * 64


def test_are_the_segments_of_a_large_send_acknowledged_one_by_one(m: CompiledMachine) -> None:
    """5 segments of 1000 bytes of payload and a rest: the peer answers the second and the fourth, when each is through the wire."""
    p = at(US)
    mmio(p, RX_TAIL, 7)
    mmio(p, TX_TAIL, 1)
    p.halt()
    d = only(ack_every=2, ack_delay_ns=1000.0, ack_bytes=64)
    words = commands(40 + 4100 | END | SEGMENT | 1000 << 32 | 40 << 48) + posted(8)
    read = assemble(m, [p])[2][0] + 2 * m.mmio_fs + m.issue_fs + 2 * m.dma_fs
    for k in range(2):
        assert steps(m, p, words, "arrived", read + (2 * (k + 1) * (1040 + OVERHEAD) + 1000) * NS, d) == (k, k + 1)
    assert counter(cut(m, p, words, 100 * US, d), "arrived") == 2


def test_a_peer_with_moderated_interrupts_acknowledges_what_has_come_until_its_next_one(m: CompiledMachine) -> None:
    """Frames are through at 1, 2 ... 7 us; the peer is interrupted at 1, 3.5, 6 and 8.5 us. The second frame is handled at 3.5, the fourth and
    the sixth (which comes just then) together at 6 us; an acknowledgement takes 88 ns on the wire. After a pause an interrupt comes at once."""
    p = at(US)
    mmio(p, RX_TAIL, 7)
    mmio(p, TX_TAIL, 7)
    p.work(50 * US // m.issue_fs)
    mmio(p, TX_TAIL, 9)
    p.halt()
    d = only(ack_every=2, ack_moderation_ns=2500.0, ack_delay_ns=1000.0, ack_bytes=64, tx_entries=16)
    words = commands(*[976 | END] * 9) + posted(8)
    read = assemble(m, [p])[2][0] + 2 * m.mmio_fs + m.issue_fs + 2 * m.dma_fs
    for k, ns in enumerate((4_500, 7_000, 7_000 + 64 + OVERHEAD)):
        assert steps(m, p, words, "arrived", read + ns * NS, d) == (k, k + 1)
    again = read + (50 * US // m.issue_fs) * m.issue_fs + m.mmio_fs + m.issue_fs
    assert steps(m, p, words, "arrived", again + 2_000 * NS, d) == (3, 4)
    r = cut(m, p, words, 1000 * US, d)
    assert [r.sim.read_memory(descriptor(RX, i) + INFO_AT, 4) for i in range(5)] == [2, 4, 6, 8, 0]


def test_segments_of_a_large_send_come_to_a_moderated_peer_one_by_one(m: CompiledMachine) -> None:
    """Segments are through at 1064, 2128, 3192, 4256, 5320 and 5384 + 140 ns; the peer is interrupted at 1064, 4064 and 7064 ns."""
    p = at(US)
    mmio(p, RX_TAIL, 7)
    mmio(p, TX_TAIL, 1)
    p.halt()
    d = only(ack_every=2, ack_moderation_ns=3000.0, ack_delay_ns=1000.0, ack_bytes=64)
    words = commands(40 + 5100 | END | SEGMENT | 1000 << 32 | 40 << 48) + posted(8)
    read = assemble(m, [p])[2][0] + 2 * m.mmio_fs + m.issue_fs + 2 * m.dma_fs
    for k, ns in enumerate((5_064, 8_064, 8_064 + 64 + OVERHEAD)):
        assert steps(m, p, words, "arrived", read + ns * NS, d) == (k, k + 1)


def test_do_acknowledgements_wait_for_room_like_any_other_frame(m: CompiledMachine) -> None:
    """No receive descriptor and a FIFO of one frame: with pause frames the second and third wait at the peer until there is room."""
    p = at(US)
    mmio(p, TX_TAIL, 6)
    p.work(100 * US // m.issue_fs)
    mmio(p, RX_TAIL, 7)
    p.halt()
    words = commands(*[976 | END] * 6) + posted(8)
    for pause in (True, False):
        r = cut(m, p, words, 1000 * US, only(ack_every=2, ack_delay_ns=1000.0, ack_bytes=64, fifo_bytes=100, pause=pause))
        received = [r.sim.read_memory(descriptor(RX, i) + INFO_AT, 4) for i in range(3)]
        assert (received, counter(r, "missed")) == (([2, 4, 6], 0) if pause else ([2, 0, 0], 2))
        assert (counter(r, "paused_fs") > 80 * US) == pause


@pytest.mark.parametrize(("words", "tail"), [
    ([60, 60], 2),                                                  # no end of packet
    ([60 | END], 8),                                                # beyond the ring
    ([60 | END | SEGMENT | 54 << 48], 1),                           # segments of no bytes
    ([54 | END | SEGMENT | 1460 << 32 | 54 << 48], 1),              # nothing but a header
])
def test_is_a_descriptor_that_cannot_be_a_fault(m: CompiledMachine, words: list[int], tail: int) -> None:
    with pytest.raises(AssertionError, match="fault: a driver gave a device"):
        cut(m, sender(tail), commands(*words), 100 * US, only())


def test_may_a_driver_give_a_descriptor_away_that_the_device_still_has(m: CompiledMachine) -> None:
    """Eight entries, a frame a microsecond, the FIFO for one: 5 and then 4 more at once would be 9."""
    words = commands(*[976 | PLAIN] * 8)
    assert counter(cut(m, sender(5, 0), words, 100 * US, only(fifo_bytes=1000)), "tx_frames") == 8
    with pytest.raises(AssertionError, match="fault: a driver gave a device"):
        cut(m, sender(5, 1), words, 100 * US, only(fifo_bytes=1000))


def test_are_sent_frames_counted_when_they_have_left(m: CompiledMachine) -> None:
    p, d = sender(7), only()
    words = commands(*[976 | END] * 7)
    read = read_fs(m, p)
    r = cut(m, p, words, read + 4 * 1000 * NS, d, from_fs=read + 2 * 1000 * NS)
    assert (counter(r, "tx_frames"), counter(r, "tx_bytes")) == (2, 1952)         # at 2000 ns and at 3000


def test_does_a_doorbell_for_nothing_new_do_nothing(m: CompiledMachine) -> None:
    r = cut(m, sender(2, 2, 2), commands(60 | PLAIN, 60 | PLAIN), 100 * US, only())
    assert (counter(r, "tx_frames"), counter(r, "doorbells")) == (2, 3)


def test_does_the_device_find_descriptors_that_no_instruction_reads(m: CompiledMachine) -> None:
    """Through ``simulate``, which forgets stores to words that nobody reads: a device reads, too."""
    p = at(US)
    p.store(descriptor(TX, 0), 60 | PLAIN)
    p.store(descriptor(RX, 0), BUFFER)
    mmio(p, RX_TAIL, 1)
    mmio(p, TX_TAIL, 1)
    p.halt()
    device: Nic = nic(ack_every=1, ack_bytes=64)
    uops, entry, _ = assemble(m, [p])
    w = CompiledWorkload(name="p", text="", isa=m.isa, cpus=1, variants=(), uops=uops, entry=entry, func_names=["f"], prim_names=[], fields=[],
                         objects=[], warmup_ns=0.0, measure_ns=100_000.0, devices=devices(vector(0, 0), nics=(device,)))
    nic_stats = simulate(m, w).nic_stats
    assert [int(nic_stats[0, NIC_STATS.index(k)]) for k in ("tx_frames", "rx_frames")] == [1, 1]


def test_does_a_handler_find_the_values_of_a_queue_beyond_the_number_of_cpus(m: CompiledMachine) -> None:
    """Two queues, one CPU: the second queue's words are as good as the first's."""
    p = at(US)
    mmio(p, TX_ENABLE, 1, queue=1)
    p.add(Op.MMIO, fn=TX_TAIL, base=1, imm=1)
    sleep(p)
    h = p.add(Op.ENTER)
    word = BUFFER
    p.add(Op.STORE, base=word, stride=LINE, slot=4, size=8, imm=7)
    p.add(Op.LOAD, base=word, stride=LINE, slot=4, size=8, dst=2)
    p.branch(3, 2, 0, len(p.ops) + 2)            # 3: less than 0, never
    p.fence()
    p.fence()
    p.add(Op.LOAD, base=word, stride=LINE, slot=4, size=8, dst=2)
    skip = p.branch(1, 2, 7)
    p.add(Op.COUNT, base=0)
    p.land(skip)
    p.add(Op.IRET)
    uops, entry, _ = assemble(m, [p])
    device = nic(queues=2, rx_vectors=(0, 0), tx_vectors=(0, 0))
    w = CompiledWorkload(name="p", text="", isa=m.isa, cpus=1, variants=(), uops=uops, entry=entry, func_names=["f"], prim_names=[], fields=[],
                         objects=[], memory=commands(60 | PLAIN, queue=1), warmup_ns=0.0, measure_ns=100_000.0,
                         devices=devices(vector(0, h, queue=1), nics=(device,)))
    r = simulate(m, w)
    assert int(r.count[0, h]) == 1 and int(r.workload_counters.sum()) == 0
