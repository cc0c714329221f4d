"""A whole driver in the workload language, run on the core: what it reads from memory is what the NIC wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
DRIVER = """cohsim-trace 1
title "receive on eth0, answer on eth0: a driver in 60 lines"
struct state size 64
    next_rx 0 4
    next_tx 4 4
    clean 8 4
struct buf size 2048
    flow 26 4
object rx_desc bytes 4096 per-queue
object tx_desc bytes 4096 per-queue
object q state per-queue
object bufs buf per-packet pool 1024
param ENTRIES 256
nic eth0
    port 10Gbit/s overhead 24B
    queues cpus
    rx ring rx_desc entries ENTRIES
    tx ring tx_desc entries ENTRIES
    irq rx runs rx_interrupt on queue
    irq tx runs tx_interrupt on queue
path main
    me = load this_cpu.number
    first = me * ENTRIES
    i = 0
    while i < 256
        n = first + i
        p = addr bufs[n]
        d = i * 16
        store rx_desc+d:8 = p
        i = i + 1
    mmio eth0.rx_tail, me, 255
    mmio eth0.rx_enable, me, 1
    mmio eth0.tx_enable, me, 1
    irq_on
    forever
        wait
path rx_interrupt
    me = load this_cpu.number
    i = load q.next_rx
    budget = 0
    while budget < 64
        d = addr rx_desc[i * 16]
        done = load [d+8]:4
        if done == 0
            break
        flow = load [d+12]:4
        n = me * ENTRIES
        n = n + i
        p = addr bufs[n]
        inflow = load p->buf.flow
        if inflow != flow
            drop
        call xmit(p, me)
        store [d+8]:4 = 0
        store [d]:8 = p
        tail = i + 255
        tail = tail & 255
        i = i + 1 & 255
        budget = budget + 1
    store q.next_rx = i
    if budget > 0
        mmio eth0.rx_tail, me, tail
    mmio eth0.rx_enable, me, 1
function xmit(p, me)
    t = load q.next_tx
    d = addr tx_desc[t * 16]
    command = 64 | 0x3000000
    store [d]:8 = command
    t = t + 1 & 255
    store q.next_tx = t
    smp_wmb
    mmio eth0.tx_tail, me, t
    count sent
path tx_interrupt
    me = load this_cpu.number
    c = load q.clean
    forever
        d = addr tx_desc[c * 16]
        done = load [d+8]:4
        if done == 0
            break
        store [d+8]:4 = 0
        c = c + 1 & 255
    store q.clean = c
    mmio eth0.tx_enable, me, 1
run
    traffic 2Mpps frame 64B flows 16 into eth0
    cpu 0.. runs main once
    warmup 50us measure 500us
"""


def test_every_frame_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "driver.trace"
    path.write_text(DRIVER)
    command = [sys.executable, "-m", "cohsim", "run", "machines/corei7.yaml", str(path), "--cpus", "2", "--json", "-"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=True)
    result = json.loads(done.stdout)
    nic = result["nics"][0]
    assert abs(nic["rx_frames"] - 1000) <= 1  # 2 Mpacket/s for 500 us
    assert result["counters"]["dropped"] == 0  # each buffer holds the flow number that its descriptor names
    # what is on its way at either end of the measured time: up to the 64 frames that one interrupt handles, on two CPUs
    assert abs(result["counters"]["sent"] - nic["rx_frames"]) <= 128 and abs(nic["tx_frames"] - nic["rx_frames"]) <= 128
    assert 0 < nic["rx_interrupts"] <= nic["rx_frames"]
    # every receive interrupt that found frames tells the NIC of them once, every frame sent rings once
    assert nic["doorbells"] <= nic["rx_interrupts"] + result["counters"]["sent"] + 2
    assert {p["name"] for p in result["programs"] if p["utilization"] > 0} >= {"rx_interrupt", "tx_interrupt"}
