"""Devices for tests: machines that have some, vectors, timers, a NIC of round numbers, and drivers written as micro-ops."""

from __future__ import annotations

import dataclasses
from functools import cache

from program import Program, Run, machine, tiny

from cohsim.machine.compiled import CompiledMachine
from cohsim.results.rundata import NIC_STATS
from cohsim.uops import Cond, Flag, Op
from cohsim.workload.compiled import Devices, Nic, Ring, Traffic, Vector

NS = 1_000_000
US = 1000 * NS
ONCE_NS = 2e9
"""Period of a timer that fires once: longer than any run."""

RX, TX, BUFFER = 0x100000, 0x200000, 0x400000
"""Descriptor rings and receive buffers, 2 KiB each."""
DESCRIPTOR, BUFFER_BYTES, RING_STRIDE = 16, 2048, 0x10000
DONE_AT, INFO_AT, FLOW_AT = 8, 12, 26
END, STATUS, SEGMENT = 1 << 24, 1 << 25, 1 << 26
"""Bits of a transmit command."""
RX_TAIL, TX_TAIL, RX_ENABLE, TX_ENABLE = range(4)
"""Registers of MMIO."""


@cache
def device_machine(name: str, dma_write: str = "memory", **geometry: object) -> CompiledMachine:
    """A bundled machine with devices of the Core i7's times; the others' files have none."""
    m, times = machine(name), machine("corei7")
    fields = ("dma_fs", "mmio_fs", "interrupt_latency_fs", "interrupt_entry_fs", "interrupt_exit_fs", "idle_exit_fs")
    return tiny(m, has_devices=True, dma_to_l3=dma_write == "l3", **({f: getattr(times, f) for f in fields} | geometry))


def timer(cpu: int, entry: int, first_fs: int, *, queue: int = 0) -> Vector:
    """A timer interrupt that is raised once."""
    return Vector("timer", cpu, entry, queue, ONCE_NS, first_fs / NS)


def vector(cpu: int, entry: int, *, queue: int = 0) -> Vector:
    """An interrupt of a device or of another CPU."""
    return Vector("vector", cpu, entry, queue)


def devices(*vectors: Vector, nics: tuple[Nic, ...] = (), traffic: tuple[Traffic, ...] = ()) -> Devices:
    return Devices(nics, vectors, traffic, ("dropped", "other"))


def nic(*, queues: int = 1, entries: int = 8, tx_entries: int = 8, rx_vectors: tuple[int, ...] = (0,), tx_vectors: tuple[int, ...] = (0,),
        **fields: object) -> Nic:
    """8 Gbit/s: a byte a nanosecond."""
    base = Nic("eth0", 8e9, 24, queues, Ring(RX, RING_STRIDE, entries, DESCRIPTOR, 0, -1, DONE_AT, INFO_AT),
               Ring(TX, RING_STRIDE, tx_entries, DESCRIPTOR, -1, 0, DONE_AT, -1), FLOW_AT, 65536, True, False, 0.0, 0.0, 1, 2000.0, 0.0, 0.0,
               rx_vectors, tx_vectors)
    return dataclasses.replace(base, **fields)  # type: ignore[arg-type]


def traffic(rate_pps: float, *, frame: int = 64, queue_of_flow: tuple[int, ...] = (0,), arrivals: str = "constant", to: int = 0) -> Traffic:
    return Traffic(to, rate_pps, frame, 20, queue_of_flow, arrivals)


def descriptor(ring: int, index: int, queue: int = 0) -> int:
    return ring + queue * RING_STRIDE + index * DESCRIPTOR


def buffer(index: int, queue: int = 0) -> int:
    return BUFFER + queue * 0x100000 + index * BUFFER_BYTES


def post(p: Program, count: int, *, queue: int = 0, first: int = 0) -> None:
    """Buffers into descriptors ``first`` to ``first + count - 1``, then the doorbell."""
    for i in range(first, first + count):
        p.store(descriptor(RX, i, queue), buffer(i, queue))
    mmio(p, RX_TAIL, first + count, queue=queue)


def posted(count: int, *, queue: int = 0) -> list[tuple[int, int, int]]:
    """The same as initial memory: only the doorbell is missing."""
    return [(descriptor(RX, i, queue), 8, buffer(i, queue)) for i in range(count)]


def mmio(p: Program, register: int, value: int, *, queue: int = 0, nic_index: int = 0, b: int = -1) -> int:
    return p.add(Op.MMIO, fn=nic_index * 16 + register, base=queue, imm=value, b=b)


def sleep(p: Program) -> int:
    """Idle for ever but for interrupts. Index of the WAIT."""
    top = p.add(Op.WAIT)
    p.branch(Cond.ALWAYS, -1, 0, top, flags=Flag.PRED_TAKEN)
    return top


def counter(r: Run, name: str, index: int = 0) -> int:
    """A counter of a NIC, by its name in NIC_STATS."""
    return int(r.arrays["nic_counters"][index, NIC_STATS.index(name)])


def clock_fs(r: Run, cpu: int = 0) -> int:
    """When a halted thread halted: all its time, idle time too, from 0."""
    return int(r.arrays["time_fs"][cpu].sum())
