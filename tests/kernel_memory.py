"""Runs workload text on the real core and reads the kernel's data structures back from simulated memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from cohsim._core import Simulation

from cohsim.machine.compile import compile_machine
from cohsim.machine.compiled import CompiledMachine
from cohsim.machine.load import load_machine
from cohsim.protocols import flat_tables
from cohsim.workload.compiled import CompiledWorkload
from cohsim.workload.load import Compilation, compile_text

ROOT = Path(__file__).resolve().parents[1]
PAGE, PAGE_STRUCT = 4096, 56
LOCKED, FROZEN, SLAB, TAIL = 1, 0x40, 0x80, 0x8000


@cache
def corei7() -> CompiledMachine:
    return compile_machine(load_machine("corei7"))


@dataclass
class Memory:
    """Objects of a workload by name, in whatever executes it: ``read(address, size)``."""

    compiled: Compilation
    read: Any
    counted: dict[str, int]
    sim: Any = None

    def at(self, name: str, instance: int = 0) -> int:
        item = self.compiled.objects[name]
        return item.base + instance * item.stride

    def offset(self, struct: str, field: str) -> tuple[int, int]:
        item = next(o for o in self.compiled.objects.values() if o.layout and o.layout.name == struct)
        assert item.layout is not None
        return item.layout.fields[field]

    def get(self, name: str, field: str, instance: int = 0) -> int:
        """A field of an object's instance."""
        layout = self.compiled.objects[name].layout
        assert layout is not None
        offset, size = layout.fields[field]
        return int(self.read(self.at(name, instance) + offset, size))

    def word(self, address: int, size: int = 8) -> int:
        return int(self.read(address, size))


def simulated(text: str, *, cpus: int, variants: tuple[str, ...] = (), until_ns: float = 2e6, from_ns: float = 0.0, lookahead: bool = True,
              rate_pps: float | None = None, file: str = "test.trace", seed: int = 1) -> Memory:
    """The workload after ``until_ns`` of simulated time, or when every CPU has halted."""
    compiled = compile_text(text, file, isa="x86", cpus=cpus, variants=variants)
    w: CompiledWorkload = compiled.workload
    if rate_pps is not None:
        assert w.devices is not None
        w = replace(w, devices=replace(w.devices, traffic=tuple(replace(t, rate_pps=rate_pps) for t in w.devices.traffic)))
    m = corei7()
    node, home = flat_tables(m.protocol)
    sim = Simulation(m, node, home, w.uops, w.entry, tuple(range(cpus)), from_fs=round(from_ns * 1e6), until_fs=round(until_ns * 1e6), seed=seed,
                     lookahead=lookahead, check=False)
    for address, size, value in w.memory:
        sim.write_memory(address, size, value)
    if w.devices is not None:
        sim.devices(w.devices, m)
    sim.start()
    while (stop := sim.run(400_000)) == "budget":
        pass
    assert stop in ("finished", "empty"), sim.report()
    assert stop == "finished" or sim.halted == cpus, sim.report()
    counters = w.devices.counters if w.devices else ()
    totals = sim.arrays["counts"].sum(axis=0) if counters else ()
    return Memory(compiled, sim.read_memory, {n: int(c) for n, c in zip(counters, totals, strict=True)}, sim)


def chain(memory: Memory, first: int, limit: int) -> list[int]:
    """Objects of a freelist, each with the next one's address in its first word."""
    found = []
    while first:
        found.append(first)
        assert len(found) <= limit, "the freelist is a loop"
        first = memory.word(first)
    return found


def check_slabs(m: Memory, cache_name: str, cpu: str, node: str, pages: str, page_map: str, pool: str, *, cpus: int, held: Sequence[int]) -> int:
    """Every object is in one place, every count and list agrees; returns the number of slabs. ``held``: objects the program has."""
    size, per_slab, order = (m.get(cache_name, f) for f in ("size", "objects", "order"))
    slab_bytes = PAGE << order
    chunk = 1 << m.get(cache_name, "chunk_shift")
    given_back = set()
    for k in range(cpus):
        page = m.get(pool, "free", k)
        while page:
            given_back.add(page)
            page = m.word(page + 40)
    current = {m.get(cpu, "page", k): k for k in range(cpus)} if cpus else {}
    places: dict[int, str] = {}
    partial, slabs = set(), 0
    for k in range(cpus):
        fresh = m.get(pool, "fresh", k)
        for start in range(m.at(pages) + k * chunk, fresh, slab_bytes):
            page = m.at(page_map) + (start - m.at(pages)) // PAGE * PAGE_STRUCT
            for i in range(1, 1 << order):
                assert m.word(page + i * PAGE_STRUCT) == TAIL and m.word(page + i * PAGE_STRUCT + 16) == page
            if page in given_back:
                assert m.word(page) == 0
                continue
            slabs += 1
            flags, inuse, objects = m.word(page), m.word(page + 12, 2), m.word(page + 14, 2)
            free = chain(m, m.word(page + 32), per_slab)
            assert flags == SLAB | (FROZEN if page in current else 0)
            assert objects == per_slab and inuse == per_slab - len(free)
            on_cpu = chain(m, m.get(cpu, "freelist", current[page]), per_slab) if page in current else []
            mine = [x for x in held if start <= x < start + slab_bytes]
            assert sorted(free + on_cpu + mine) == [start + i * size for i in range(per_slab)]
            for x in free + on_cpu + mine:
                assert places.setdefault(x, hex(page)) == hex(page)
            if page not in current and free:
                assert inuse > 0                  # an empty one is given back
                partial.add(page)
    head = m.at(node) + 16
    listed, entry = [], m.word(head)
    while entry != head:
        listed.append(entry - 40)
        assert m.word(m.word(entry) + 8) == entry and m.word(m.word(entry + 8)) == entry
        assert len(listed) <= slabs, "the partial list is a loop"
        entry = m.word(entry)
    assert set(listed) == partial and len(listed) == len(partial)
    assert m.get(node, "nr_partial") == len(partial)
    assert m.get(node, "nr_slabs") == slabs and m.get(node, "total_objects") == slabs * per_slab
    lock = m.get(node, "list_lock")
    assert lock & 0xFF == lock >> 8 & 0xFF        # a ticket lock that nobody holds
    assert len([x for x in held if x not in places]) == 0
    return slabs
