"""NICs, interrupts, timers and traffic of the workload language: what text turns into, worked out by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
from workload_interpreter import Interpreter

from cohsim.errors import WorkloadError
from cohsim.uops import Flag, Op, Slot
from cohsim.workload.check import check_file
from cohsim.workload.compiled import CompiledWorkload, Devices, Nic, Ring, Traffic
from cohsim.workload.info import describe
from cohsim.workload.load import Compilation, compile_text
from cohsim.workload.rss import queue_of_flow, toeplitz

TEXT = """cohsim-trace 1
struct buf size 128
    len 0 4
object rx bytes 8192 per-queue
object tx bytes 4096 per-queue
object state bytes 64 per-queue
object bufs buf per-packet pool 8
nic eth0
    port 10Gbit/s overhead 24B
    queues cpus
    rx ring rx entries 512
    tx ring tx entries 128 descriptor 32 done 24 command 16
    irq rx runs receive on queue
    irq tx runs sent on queue+1
    moderation rx 10us
    writeback 4 timeout 1us
nic eth1
    port 1Gbit/s
    queues 1
    rx ring rx1 entries 16 address 8 done 0 info 4
    tx ring tx1 entries 16
    irq rx runs receive on cpu 1
    irq tx runs sent on cpu 0
    flow 30
    fifo 64KiB
    flow-control none
    full drop
    rx service 50ns
    tx service 60ns
    moderation tx 5us
object rx1 bytes 256 per-queue
object tx1 bytes 256 per-queue
path main
    q = load this_cpu.number
    mmio eth1.tx_enable, 0, 1
    mmio eth0.rx_tail, q, q + 5
    irq_on
    forever
        wait
path receive
    prefetch state+0:64
    i = load state+0:4
    count frames
    if i == 3
        drop
    irq_off
    ipi kick, i
path sent
    count frames
    work 1
path tick
    work 2
path kicked
    ipi kick, 1
run
    traffic 1Gbit/s frame 64B flows 5 into eth0
    acks eth1 every 2 moderation 20us delay 50us frame 78B
    timer 1ms runs tick
    interrupt kick runs kicked
    output eth1
    cpu 0.. runs main once
"""


def compilation(text: str = TEXT, *variants: str, isa: str = "x86", cpus: int = 3) -> Compilation:
    return compile_text(text, "t.trace", isa=isa, cpus=cpus, variants=variants)


def compiled(text: str = TEXT, *variants: str, isa: str = "x86", cpus: int = 3) -> CompiledWorkload:
    return compilation(text, *variants, isa=isa, cpus=cpus).workload


def devices(text: str = TEXT, *variants: str, cpus: int = 3) -> Devices:
    found = compiled(text, *variants, cpus=cpus).devices
    assert found is not None
    return found


def problems(old: str, new: str, cpus: int = 3) -> list[str]:
    assert old in TEXT
    with pytest.raises(WorkloadError) as caught:
        compiled(TEXT.replace(old, new), cpus=cpus)
    return [str(p) for p in caught.value.problems]


def test_nics_as_said_and_by_default() -> None:
    w = compiled()
    d = devices()
    at = {o.name: (o.base, o.stride_bytes) for o in w.objects}
    assert d.nics[0] == Nic(
        "eth0", 10e9, 24, 3,
        Ring(*at["rx"], 512, 16, 0, -1, 8, 12), Ring(*at["tx"], 128, 32, -1, 16, 24, -1),
        26, 512 << 10, True, False, 0.0, 0.0, 4, 1000.0, 10_000.0, 0.0, (0, 1, 2), (3, 4, 5), output=False,
    )  # fmt: skip
    assert d.nics[1] == Nic(
        "eth1", 1e9, 0, 1,
        Ring(*at["rx1"], 16, 16, 8, -1, 0, 4), Ring(*at["tx1"], 16, 16, -1, 0, 8, -1),
        30, 64 << 10, False, True, 50.0, 60.0, 1, 2000.0, 0.0, 5000.0, (6,), (7,), 2, 50_000.0, 20_000.0, 78, True,
    )  # fmt: skip
    assert d.counters == ("dropped", "frames")


def test_vectors() -> None:
    w, d = compiled(), devices()
    first = {name: start for start, _, name in w.programs}
    assert [(v.name, v.cpu, v.entry, v.queue) for v in d.vectors[:8]] == [
        ("eth0-rx-0", 0, first["receive"], 0), ("eth0-rx-1", 1, first["receive"], 1), ("eth0-rx-2", 2, first["receive"], 2),
        ("eth0-tx-0", 1, first["sent"], 0), ("eth0-tx-1", 2, first["sent"], 1), ("eth0-tx-2", 0, first["sent"], 2),
        ("eth1-rx-0", 1, first["receive"], 0), ("eth1-tx-0", 0, first["sent"], 0),
    ]  # fmt: skip
    ticks = [v for v in d.vectors if v.name == "timer"]
    assert [(v.cpu, v.entry, v.queue, v.period_ns) for v in ticks] == [(c, first["tick"], c, 1e6) for c in range(3)]
    assert [v.first_ns for v in ticks] == pytest.approx([1e6 / 3, 2e6 / 3, 1e6])
    assert [(v.name, v.cpu, v.entry, v.period_ns) for v in d.vectors[11:]] == [("kick", c, first["kicked"], 0.0) for c in range(3)]


def test_traffic() -> None:
    assert devices().traffic == (Traffic(0, 1e9 / (84 * 8), 64, 20, (0, 1, 2, 0, 1), "constant"),)
    text = TEXT.replace("1Gbit/s frame 64B flows 5", "2Mpps frame 100B overhead 24B flows 300 spread rss arrivals poisson")
    (traffic,) = devices(text, cpus=4).traffic
    assert (traffic.rate_pps, traffic.frame_bytes, traffic.overhead_bytes, traffic.arrivals) == (2e6, 100, 24, "poisson")
    assert traffic.queue_of_flow == queue_of_flow("rss", 300, 4)


def test_toeplitz_is_the_published_hash() -> None:
    """Verification suite of the RSS specification: IPv4, then IPv4 with TCP ports."""
    pairs = bytes([66, 9, 149, 187, 161, 142, 100, 80])
    assert toeplitz(pairs) == 0x323E8FC2
    assert toeplitz(pairs + bytes([2794 >> 8, 2794 & 255, 1766 >> 8, 1766 & 255])) == 0x51CCC178
    assert toeplitz(bytes([199, 92, 111, 2, 65, 69, 140, 83])) == 0xD718262A


def test_rss_uses_every_queue() -> None:
    queues = queue_of_flow("rss", 1000, 6)
    shares = np.bincount(queues, minlength=6)
    assert len(shares) == 6 and shares.min() > 100 and len(set(shares.tolist())) > 1


def test_programs_and_micro_operations() -> None:
    w = compiled()
    ops = {name: [Op(o).name for o in w.uops["op"][a:b]] for a, b, name in w.programs}
    assert ops == {
        "main": ["ENTER", "LOAD", "MMIO", "ALU", "MMIO", "IRQ", "WAIT", "BR", "HALT"],
        "receive": ["ENTER", "PREFETCH", "LOAD", "COUNT", "BR", "COUNT", "IRQ", "IPI", "IRET"],
        "sent": ["ENTER", "COUNT", "WORK", "IRET"],
        "tick": ["ENTER", "WORK", "IRET"],
        "kicked": ["ENTER", "IPI", "IRET"],
    }
    assert w.programs[-1][1] == len(w.uops) and list(w.entry) == [0, 0, 0]
    rows = {name: w.uops[a:b] for a, b, name in w.programs}
    enable, tail = (row for row in rows["main"] if row["op"] == Op.MMIO)
    assert (enable["fn"], enable["base"], enable["areg"], enable["imm"], enable["b"]) == (1 * 16 + 3, 0, -1, 1, -1)
    number, added = rows["main"][1]["dst"], rows["main"][3]["dst"]
    assert (tail["fn"], tail["base"], tail["areg"], tail["imm"], tail["b"]) == (0, 0, number, 0, added)
    assert rows["main"][5]["imm"] == 1 and rows["receive"][6]["imm"] == 0
    prefetch, load = rows["receive"][1], rows["receive"][2]
    assert (prefetch["slot"], prefetch["dst"], prefetch["base"]) == (Slot.QUEUE, -1, load["base"])
    assert [row["base"] for row in rows["receive"] if row["op"] == Op.COUNT] == [1, 0]
    assert [int(rows[name][at]["base"]) for name, at in (("receive", 7), ("kicked", 1))] == [11, 11]
    assert rows["receive"][7]["b"] == load["dst"] and (rows["kicked"][1]["imm"], rows["kicked"][1]["b"]) == (1, -1)


def test_mmio_queue_and_value_at_run_time() -> None:
    w = compiled()
    m = Interpreter(w)
    m.run(1)
    assert m.written == [entry for cpu in range(3) for entry in ((19, 0, 1), (0, cpu, cpu + 5))]


def test_a_nic_as_argument() -> None:
    functions = "function enable(n, ring)\n    call really(n)\n    load ring+0:8\nfunction really(n)\n    mmio n.tx_enable, 0, 1\n"
    text = TEXT.replace("    mmio eth1.tx_enable, 0, 1\n", "    call enable(eth1, rx1)\n    call enable(eth0, rx)\n")
    w = compiled(text.replace("path main", functions + "path main"))
    assert [int(u["fn"]) for u in w.uops if u["op"] == Op.MMIO] == [19, 3, 0]
    with pytest.raises(WorkloadError, match="'n' is a nic, not a value; write to its registers"):
        compiled(text.replace("path main", functions.replace("mmio n.tx_enable, 0, 1", "r = n + 1") + "path main"))


def test_an_interrupt_works_on_its_queue() -> None:
    w, d = compiled(), devices()
    m = Interpreter(w)
    state = next(o for o in w.objects if o.name == "state")
    m.write(state.base + 2 * state.stride_bytes, 4, 3, -1)
    for queue, counted in ((2, [1, 1]), (1, [1, 2])):
        m.pc[0], m.queue[0], m.halted[0] = d.vectors[0].entry, queue, False
        while not m.halted[0]:
            m.step(0)
        assert m.counted == counted


def test_nothing_of_it_in_a_plain_workload() -> None:
    plain = "cohsim-trace 1\nobject x bytes 8 shared\npath p\n    prefetch x+0:8\nrun\n    loop p\n"
    assert compiled(plain).devices is None
    waiting = compiled(plain.replace("prefetch x+0:8", "wait"))
    assert waiting.devices == Devices((), (), (), ("dropped",))
    assert compiled(plain.replace("prefetch x+0:8", "count n")).devices == Devices((), (), (), ("dropped", "n"))
    assert waiting.programs == [(0, len(waiting.uops), "p")]


def test_a_variant_replaces_lines_of_a_nic_and_of_the_run() -> None:
    text = TEXT + """variant other
    nic eth0
        moderation rx 20us
        full drop
        irq tx runs sent on cpu 2
    run
        traffic 2Gbit/s frame 64B flows 5 into eth0
        traffic 100kpps frame 64B into eth1
        timer 2ms runs tick
"""
    old, new = devices(text), devices(text, "other")
    assert (new.nics[0].rx_moderation_ns, new.nics[0].drop, new.nics[0].writeback) == (20_000.0, True, old.nics[0].writeback)
    assert [v.cpu for v in new.vectors[3:6]] == [2, 2, 2]
    assert [(t.nic, t.rate_pps) for t in new.traffic] == [(0, pytest.approx(2e9 / 672)), (1, 1e5)]
    assert {v.period_ns for v in new.vectors if v.name == "timer"} == {2e6}
    assert [v.name for v in new.vectors].count("kick") == 3
    assert old.nics[1] == new.nics[1]


def test_more_queues_than_cpus() -> None:
    text = TEXT.replace("queues cpus", "queues 5").replace("    q = load this_cpu.number\n", "    q = 4\n    p = addr state[q]\n")
    w = compiled(text, cpus=2)
    assert w.devices is not None and [v.cpu for v in w.devices.vectors[:5]] == [0, 1, 0, 1, 0]
    state = next(o for o in w.objects if o.name == "state")
    assert state.instances == 5
    m = Interpreter(w)
    m.run(1)
    pointer = w.uops[np.flatnonzero(w.uops["op"] == Op.LOAD)[0]]["dst"]
    assert m.registers[0][pointer] == state.base + 4 * state.stride_bytes


def test_check_and_info(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "w.trace"
    path.write_text(TEXT.replace("object bufs buf per-packet pool 8\n", ""))
    assert check_file(path).startswith("5 functions")
    text = describe(compilation())
    assert re.search(r"eth0 +10 Gbit/s, 3 queues", text)
    assert re.search(r"eth0-tx-1 +CPU 2 +queue 1 +sent", text)
    assert re.search(r"timer +CPU 0 +every 1 ms.* +tick", text)
    assert "main: 5 instructions" in text  # load, two MMIO, add, sti; then it waits


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("    port 10Gbit/s overhead 24B\n", "", "8:5", "nic 'eth0' has no line 'port'"),
        ("    queues cpus\n", "    queues cpus\n    queues 2\n", "11:5", "'queues' is said twice .first on line 10"),
        ("    queues cpus", "    queues 0", "10:5", "0 queues; a NIC has 1 to 128"),
        ("10Gbit/s overhead", "10Gb overhead", "9:5", "port rate '10Gb' has no known unit"),
        ("rx entries 512", "nix entries 512", "11:5", "unknown object 'nix'"),
        ("rx entries 512", "bufs entries 512", "11:5", "object 'bufs' is per-packet; a ring is a per-queue object"),
        ("rx entries 512", "rx entries 513", "11:5", "513 descriptors of 16 bytes do not fit into the 8192 bytes of 'rx'"),
        ("rx entries 512", "rx entries 1", "11:5", "a ring of 1 entries"),
        ("rx entries 512", "tx entries 128", "12:5", "object 'tx' is the rx ring of eth0 already"),
        ("rx entries 512", "rx entries 512 command 8", "11:5", "the rx ring has no 'command'; known: descriptor, address"),
        ("rx entries 512", "rx entries 512 done 8 done 8", "11:5", "ring option 'done' is given twice"),
        ("rx entries 512", "rx entries 512 done 12", "11:5", "done and info of the descriptor overlap"),
        ("rx entries 512", "rx entries 512 done 6", "11:5", "done at 6 of a descriptor of 16 bytes"),
        ("rx entries 512", "rx entries 512 info 16", "11:5", "info at 16 of a descriptor of 16 bytes"),
        ("rx entries 512", "rx entries 512 descriptor 12", "11:5", "descriptors of 12 bytes"),
        ("rx bytes 8192 per-queue", "rx bytes 8192 per-queue offset 4", "11:5", "object 'rx' is not aligned to 8 bytes"),
        ("receive on queue", "receive on cpu 3", "13:5", "cpu 3 in a run of 3 CPUs; name one of 0..2"),
        ("receive on queue", "recieve on queue", "13:5", "unknown path 'recieve'; did you mean 'receive'"),
        ("receive on queue", "main on queue", "13:5", "path 'main' is both a base program and an interrupt"),
        ("receive on queue", "receive on core 3", "13:28", "unexpected 'core'; expected cpu, queue"),
        ("writeback 4", "writeback 0", "16:5", "writeback 0; give at least 1"),
        ("fifo 64KiB", "fifo 99999999999", "25:5", "fifo 99999999999; give at most 1073741824"),
        ("flows 5", "flows 65537", "56:13", "65537 flows; at most 65536"),
        ("bufs buf per-packet pool 8", "bufs buf per-packet pool 99999999999", "7:8", "per-packet objects up to 'bufs' take more than 4 GiB"),
        ("    work 2\n", "    r = 0x10000000000000000\n", "52:5", "18446744073709551616 does not fit into 64 bits"),
        ("full drop", "full wait", "27:10", "unexpected 'wait'; expected block, drop"),
        ("nic eth1", "nic eth0", "17:5", "nic 'eth0' is defined twice .first on line 8"),
        ("eth1.tx_enable", "eth2.tx_enable", "35:10", "unknown nic 'eth2'; did you mean 'eth1'"),
        ("eth1.tx_enable", "eth1.tx_enabel", "35:10", "unknown device register 'tx_enabel'; did you mean 'tx_enable'"),
        ("eth1.tx_enable, 0", "eth1.tx_enable, 1", "35:10", "queue 1 of nic 'eth1', which has 1"),
        ("ipi kick, i", "ipi kik, i", "47:9", "unknown interrupt 'kik'"),
        ("ipi kick, 1", "ipi kick, 3", "54:9", "CPU 3 in a run of 3 CPUs"),
        ("    work 2\n", "    wait\n", "52:5", "'wait' in an interrupt path"),
        ("    work 2\n", "    halt\n", "52:5", "'halt' in an interrupt path"),
        ("    work 2\n", "    break\n", "52:5", "'break' outside a loop"),
        ("    work 2\n", "    load bufs.len\n", "52:5", "object 'bufs' is per-packet, and there is no current packet"),
        ("    work 2\n", "    p = addr bufs\n", "52:5", "object 'bufs' is per-packet, and there is no current packet"),
        ("traffic 1Gbit/s", "traffic 11Gbit/s", "56:13", "11 Gbit/s of traffic into the 10 Gbit/s port of eth0"),
        ("into eth0", "into eth7", "56:13", "unknown nic 'eth7'"),
        ("frame 64B flows", "frame 29B flows", "56:13", "a frame of 29 bytes has no flow number at byte 26"),
        ("flows 5", "flows 0", "56:13", "flows 0; give at least 1"),
        ("flows 5", "spread single", "56:13", "traffic has no 'spread single'"),
        ("flows 5", "ring 5", "56:13", "traffic has no 'ring'"),
        ("frame 64B flows 5", "flows 5", "56:13", "the traffic has no frame size"),
        ("    output eth1", "    traffic 1kpps frame 64B into eth0\n    output eth1", "56:13|60:13", "a second traffic into eth0|stands twice"),
        ("    output eth1", "    source 1kpps frame 64B", "56:13", "'traffic' beside a source"),
        ("acks eth1 every 2", "acks eth1 every 0", "57:10", "every 0; give at least 1"),
        ("moderation 20us delay", "moderation 5 delay", "57:34", "unexpected '5'; expected a number with its unit"),
        ("delay 50us", "delay 50", "57:45", "unexpected '50'; expected a number with its unit"),
        ("timer 1ms", "timer 0ms", "58:20", "timer period '0ms' is not above 0"),
        ("interrupt kick runs kicked", "interrupt kick runs tock", "59:15", "unknown path 'tock'"),
        ("output eth1", "output eth1 eth4", "60:12", "unknown nic 'eth4'"),
    ],
)  # fmt: skip
def test_one_line_names_the_place(old: str, new: str, where: str, what: str) -> None:
    found = problems(old, new)
    matching = [line for line in found if re.search(what, line)]
    assert matching, found
    assert re.match(rf"t\.trace:({where}): ", matching[0]), matching


def test_too_many_nics() -> None:
    rings = "".join(f"object r{i} bytes 64 per-queue\nobject t{i} bytes 64 per-queue\n" for i in range(17))
    nic = "nic n{0}\n    port 1Gbit/s\n    queues 1\n    rx ring r{0} entries 4\n    tx ring t{0} entries 4\n"
    nic += "    irq rx runs i on queue\n    irq tx runs i on queue\n"
    text = "cohsim-trace 1\n" + rings + "{}path i\n    work 1\npath p\n    wait\nrun\n    loop p\n"
    assert len(devices(text.format("".join(nic.format(i) for i in range(16)))).nics) == 16
    with pytest.raises(WorkloadError, match="more than 16 NICs"):
        devices(text.format("".join(nic.format(i) for i in range(17))))


def test_spin_flag_does_not_leak_into_interrupt_paths() -> None:
    assert not (compiled().uops["flags"] & Flag.SPIN).any()
