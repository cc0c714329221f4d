"""Random programs with devices: same inputs, same bits, with and without look-ahead and the second time.

Every CPU runs a random program, is interrupted by random handlers, and shares its few lines with a NIC: all descriptors of a queue lie in one
of these lines, and all frames go to another.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from device_program import END, RX_ENABLE, RX_TAIL, SEGMENT, STATUS, TX_ENABLE, TX_TAIL, US, device_machine, mmio, nic, sleep
from program import LINE, Program, Run, run
from random_programs import BASE, random_program

from cohsim.machine.compiled import CompiledMachine
from cohsim.results.rundata import NIC_STATS
from cohsim.uops import Op
from cohsim.workload.compiled import Devices, Ring, Traffic, Vector

ENTRIES = 4096
MACHINES = ("corei7", "t4240")


def splice(p: Program, other: Program) -> None:
    """The other program's micro-ops without its end."""
    offset = p.here
    p.ops += other.ops[:-1]
    p.targets.update({index + offset: target + offset for index, target in other.targets.items()})


@dataclass
class Case:
    """A machine with small caches and quick devices, programs, devices and the words they begin with."""

    machine: CompiledMachine
    programs: list[Program]
    devices: Devices
    memory: list[tuple[int, int, int]]
    pin: tuple[int, ...]

    def run(self, seed: int, **options: object) -> Run:
        return run(self.machine, self.programs, devices=self.devices, memory=self.memory, pin=self.pin, seed=seed + 1, until_fs=40 * US,
                   from_fs=2 * US * (seed % 2), **options)  # type: ignore[arg-type]


def small_machine(rng: random.Random, name: str) -> CompiledMachine:
    base = device_machine(name, rng.choice(("memory", "l3")))
    hop = max(base.hop_fs, base.l2_hop_fs)
    geometry = {"l1_sets": 2, "l1_ways": 1, "l2_sets": 2, "l2_ways": rng.choice((1, 2)), "mshrs": 2, "store_queue": 3, "store_queue_smt": 2,
                "window": 12, "window_smt": 8, "l3_sets": rng.choice((1, 3)), "l3_ways": 5 if base.l3_inclusive else 1,
                "dma_fs": rng.randrange(1, 8 * hop), "mmio_fs": rng.randrange(1, 8 * hop), "interrupt_latency_fs": rng.randrange(1, 20 * hop),
                "interrupt_entry_fs": rng.randrange(10 * hop), "interrupt_exit_fs": rng.randrange(10 * hop), "idle_exit_fs": rng.randrange(20 * hop)}
    return device_machine(name, "l3" if base.dma_to_l3 else "memory", **geometry)


def random_case(seed: int, name: str) -> Case:
    rng = random.Random(seed)
    m = small_machine(rng, name)
    cpus, queues, lines = rng.randrange(2, 6), rng.randrange(1, 4), 8
    programs, vectors = [Program() for _ in range(cpus)], []
    tails = {RX_TAIL: 0, TX_TAIL: 0}
    for cpu, p in enumerate(programs):
        for step in range(6):
            splice(p, random_program(rng, m.isa, lines=lines, operations=8))
            if cpu == step % cpus:
                for register in tails:
                    if cpu == register - RX_TAIL:        # one CPU rings for each direction: its doorbells are in order
                        tails[register] += rng.randrange(1, 200)
                for queue in range(queues):
                    for register in (r for r in tails if r - RX_TAIL == cpu):
                        mmio(p, register, tails[register], queue=queue)
                    mmio(p, rng.choice((RX_ENABLE, TX_ENABLE)), rng.randrange(4) and 1, queue=queue)
            for _ in range(rng.randrange(3)):
                kind = rng.randrange(6)
                if kind == 0:
                    p.add(Op.IPI, base=0, imm=rng.randrange(cpus))
                elif kind == 1:
                    p.add(Op.IRQ, imm=0)
                    splice(p, random_program(rng, m.isa, lines=lines, operations=4))
                    p.add(Op.IRQ, imm=1)
                elif kind == 2:
                    p.add(Op.COUNT, base=rng.randrange(2))
                elif kind == 3:
                    p.add(Op.IPI, base=0, imm=cpu)       # a wait that ends
                    p.add(Op.WAIT)
                else:
                    p.add(Op.PREFETCH, base=BASE + LINE * rng.randrange(lines), size=8)
        sleep(p)
    entries = []
    for cpu, p in enumerate(programs):
        entries.append(p.add(Op.ENTER))
        splice(p, random_program(rng, m.isa, lines=lines, operations=rng.randrange(1, 10)))
        p.add(Op.COUNT, base=1)
        p.add(Op.MMIO, fn=RX_ENABLE, base=cpu % queues, imm=1)
        p.add(Op.MMIO, fn=TX_ENABLE, base=cpu % queues, imm=1)
        p.add(Op.IRET)
    ticks = []
    for p in programs:                                   # may be interrupted in its turn, but not by the next tick
        ticks.append(p.add(Op.ENTER))
        p.add(Op.IRQ, imm=1)
        splice(p, random_program(rng, m.isa, lines=lines, operations=6))
        p.add(Op.COUNT, base=0)
        p.add(Op.IRET)
    vectors = [Vector("ipi", cpu, entries[cpu], 0) for cpu in range(cpus)]
    vectors += [Vector("tick", cpu, ticks[cpu], 0, 11_000.0, rng.randrange(3000)) for cpu in range(cpus)]
    vectors += [Vector("queue", q % cpus, entries[q % cpus], q) for q in range(queues)]
    of_queue = tuple(range(2 * cpus, 2 * cpus + queues))
    device = nic(queues=queues, rx=Ring(BASE, LINE, ENTRIES, 0, 16, -1, 8, 12), tx=Ring(BASE + LINE * 3, LINE, ENTRIES, 0, -1, 16, 8, -1), flow_at=8,
                 fifo_bytes=rng.choice((200, 5000)), pause=rng.random() < 0.5, drop=rng.random() < 0.5, rx_service_ns=rng.choice((0.0, 40.0)),
                 writeback=rng.choice((1, 4)), writeback_timeout_ns=300.0, rx_moderation_ns=rng.choice((0.0, 500.0)), rx_vectors=of_queue,
                 tx_vectors=of_queue, ack_every=rng.choice((0, 2)), ack_moderation_ns=rng.choice((0.0, 900.0)),
                 ack_delay_ns=700.0, ack_bytes=64)
    traffic = Traffic(0, rng.choice((1e6, 8e6)), rng.choice((64, 150)), 20, tuple(q % queues for q in range(5)), rng.choice(("constant", "poisson")))
    command = rng.choice((60 | END | STATUS, 60 | END, 400 | END | STATUS | SEGMENT | 100 << 32 | 40 << 48))
    memory = [(BASE + LINE * q + 16, 8, BASE + LINE * rng.randrange(lines - 2)) for q in range(queues)]
    memory += [(BASE + LINE * (3 + q) + 16, 8, command) for q in range(queues)]
    pin = tuple(i * 5 % len(m.cpu_core) for i in range(cpus))
    return Case(m, programs, Devices((device,), tuple(vectors), (traffic,), ("dropped", "handled")), memory, pin)


def everything(r: Run) -> dict[str, np.ndarray]:
    """All arrays of the core (lines sorted), its counters, and the words of the lines."""
    order = np.argsort(r.arrays["line_key"], kind="stable")
    out = {name: a for name, a in r.arrays.items() if name not in ("line_key", "line_stats", "pairs")}
    out |= {"line_key": r.arrays["line_key"][order], "line_stats": r.arrays["line_stats"][order]}
    out["pairs"] = np.sort(r.arrays["pairs"].reshape(-1, r.arrays["pairs"].shape[-1]).view(np.int64), axis=0)
    out["counters"] = np.array(list(r.sim.counters().values()))
    out["memory"] = np.array([r.sim.read_memory(BASE + 8 * k, 8) for k in range(8 * 10)], np.uint64)
    out["operations"] = np.array(r.sim.totals()[0])
    return out


def different(a: Run, b: Run) -> list[str]:
    x, y = everything(a), everything(b)
    assert x.keys() == y.keys()
    return [name for name in x if not np.array_equal(x[name], y[name])]


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(0, 90, 10))
def test_are_random_drivers_the_same_without_look_ahead_and_the_second_time(name: str, seed: int) -> None:
    for s in range(seed, seed + 10):
        case = random_case(s, name)
        first = case.run(s)
        assert different(first, case.run(s, lookahead=False)) == [], f"seed {s}, look-ahead"
        assert different(first, case.run(s)) == [], f"seed {s}, again"


@pytest.mark.parametrize("name", MACHINES)
def test_do_the_random_drivers_reach_everything(name: str) -> None:
    """The comparison above is worth what its programs reach."""
    total: dict[str, int] = {}
    for seed in range(40):
        r = random_case(seed, name).run(seed)
        for index, column in enumerate(NIC_STATS):
            total[column] = total.get(column, 0) + int(r.arrays["nic_counters"][0, index])
        total["handled"] = total.get("handled", 0) + int(r.arrays["counts"][:, 1].sum())
        total["failed SC"] = total.get("failed SC", 0) + int(r.arrays["sc_failures"].sum())
        for row in (("node", "M", "SnpM"), ("node", "MI", "SnpM"), ("home", "Free", "Recall"), ("home", "Free", "PutMStale")):
            total[" ".join(row)] = total.get(" ".join(row), 0) + r.fired(*row)
    assert {key for key, value in total.items() if not value} == set()
