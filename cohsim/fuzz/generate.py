"""A random case from a seed: same seed, machine and protocol, same case, on every host."""
from __future__ import annotations

import random
from collections.abc import Sequence

from cohsim.fuzz.case import (
    ADD_CAS,
    ADD_LLSC,
    ADD_RMW,
    ADD_SUB,
    DEP_ADDRESS,
    DEP_FLAG,
    DEP_NONE,
    PUT_CAS,
    PUT_LLSC,
    PUT_STORE,
    PUT_XCHG,
    Action,
    Area,
    Case,
    Guard,
    ThreadCase,
    Word,
)
from cohsim.fuzz.execute import base_machine
from cohsim.fuzz.generate_nic import add_nic, device_geometry, drive
from cohsim.fuzz.generate_words import SLOTS, words_of_slots
from cohsim.machine.compiled import CompiledMachine
from cohsim.uops import Alu, Cond, Fence

MACHINES = ("corei7", "xeon_x5550", "t4240")
PROTOCOLS = ("msi", "mesi", "mesif", "moesi")
MOST_THREADS = 24
MOST_ITERATIONS = 8000           # a thread's mark and the iteration share two bytes
MOST_ITERATIONS_BYTES = 255      # a byte holds the iteration
NIC_SHARE = 0.25


def has_nic(seed: int) -> bool:
    """Whether the case of ``seed`` has a NIC, if that is left to it: one in four."""
    return random.Random(f"{seed} NIC").random() < NIC_SHARE


def generate(seed: int, machine: str | None = None, protocol: str | None = None, devices: bool | None = None) -> Case:
    """The case of ``seed``. ``machine`` and ``protocol`` None: any of MACHINES and PROTOCOLS; ``devices`` None: see ``has_nic``."""
    rng = random.Random(seed)
    picked = rng.choice(MACHINES), rng.choice(PROTOCOLS)
    machine, protocol = machine or picked[0], protocol or picked[1]
    rng = random.Random(f"{seed} {machine} {protocol}")
    base = base_machine(machine)
    native = "broadcast" if base.home_broadcast else "directory"
    home = native if rng.random() < 0.75 else {"broadcast": "directory", "directory": "broadcast"}[native]
    geometry = _geometry(rng, base, home)
    cpus = _cpus(rng, base)
    areas = _areas(rng, len(cpus), geometry, base)
    nic = None
    if has_nic(seed) if devices is None else devices:
        geometry |= device_geometry(rng, base)
        areas, nic = add_nic(rng, areas, len(cpus))
    narrow = any(w.size == 1 and w.kind == "single" for area in areas for w in area.words)
    length = rng.randrange(5, 41)
    wanted = int(2 ** rng.uniform(11, 15.5)) // (len(cpus) * length)
    iterations = max(4, min(wanted, MOST_ITERATIONS_BYTES if narrow else MOST_ITERATIONS))
    waits = rng.random() < 0.4
    bodies = []
    for t in range(len(cpus)):
        salt, body = rng.getrandbits(48), _body(rng, areas, t, len(cpus), length, waits, base.isa)
        bodies.append((salt, body if nic is None else drive(rng, nic, areas, t, body, base.isa)))
    threads = tuple(ThreadCase(t, cpu, *body) for (t, cpu), body in zip(enumerate(cpus), bodies, strict=True))
    return Case(seed=seed, machine=machine, protocol=protocol, home=home, geometry=geometry, iterations=iterations,
                run_seed=rng.randrange(1, 1 << 30), lookahead=rng.random() < 0.8, log_skew=rng.choice((0, 1, 3, 21)), areas=areas,
                threads=threads, nic=nic)


def _geometry(rng: random.Random, base: CompiledMachine, home: str) -> dict[str, int]:
    """As built, or with caches of a few lines, few MSHRs and short store buffers."""
    if rng.random() < 0.25:
        return {}
    out: dict[str, int] = {}
    if rng.random() < 0.8:
        out |= {"l1_sets": rng.choice((1, 2, 4)), "l1_ways": rng.choice((1, 2, 4))}
    if rng.random() < 0.7:
        out |= {"l2_sets": rng.choice((1, 2, 4, 8)), "l2_ways": rng.choice((2, 3, 4, 8))}
    if rng.random() < 0.7:
        out |= {"l3_sets": rng.choice((1, 2, 3, 8)), "l3_ways": rng.choice((2, 4, 8) if home == "directory" else (1, 2, 4))}
    if rng.random() < 0.5:
        out["mshrs"] = rng.choice((1, 2, 3))
    if rng.random() < 0.5:
        out["store_queue"] = rng.choice((1, 2, 3, 5))
        out["store_queue_smt"] = rng.randrange(1, out["store_queue"] + 1)
    if rng.random() < 0.3:
        out["window"] = rng.choice((2, 8, 24))
        out["window_smt"] = max(2, out["window"] // 2)
    if rng.random() < 0.3:
        out["snoop_first"] = int(not base.snoop_first)
    if rng.random() < 0.3:
        out["home_slices"] = rng.choice((1, 2, 3))
    return out


def _cpus(rng: random.Random, base: CompiledMachine) -> list[int]:
    most = min(MOST_THREADS, len(base.cpu_core))
    count = most if rng.random() < 0.2 else rng.randrange(2, most + 1)
    cpus = list(range(len(base.cpu_core)))
    if rng.random() < 0.3:          # SMT siblings together
        cpus.sort(key=lambda c: (base.cpu_core[c], base.cpu_thread[c]))
        first = rng.randrange(len(cpus) - count + 1)
        return cpus[first:first + count]
    if rng.random() < 0.3:          # one thread a core, as far as they go
        cpus.sort(key=lambda c: (base.cpu_thread[c], base.cpu_core[c]))
        return cpus[:count]
    return rng.sample(cpus, count)


# ---- memory ----------------------------------------------------------------------------------------------------------------
def _areas(rng: random.Random, threads: int, geometry: dict[str, int], base: CompiledMachine) -> tuple[Area, ...]:
    """Hot areas next to each other, one whose lines collide in a cache, and the flags."""
    areas = [Area(rng.choice((1, 1, 2, 4, 8, 16)), 6, words_of_slots(rng, threads, SLOTS)) for _ in range(rng.choice((1, 1, 2, 3)))]
    if rng.random() < 0.7:
        sets = rng.choice((geometry.get("l1_sets", base.l1_sets), geometry.get("l2_sets", base.l2_sets)))
        areas.append(Area(rng.choice((8, 16, 32, 64)), 6 + sets.bit_length() - 1, words_of_slots(rng, threads, SLOTS)))
    flags = tuple(Word("flag", 2 * t, 2, t) for t in range(threads))
    if threads <= 8 and rng.random() < 0.5:
        flags = tuple(Word("flag", 8 * t, 8, t) for t in range(threads))
    return (*areas, Area(1, 6, flags))


# ---- programs --------------------------------------------------------------------------------------------------------------
class _Body:
    """Chooses the actions of one thread."""

    def __init__(self, rng: random.Random, areas: Sequence[Area], thread: int, threads: int, isa: str):
        self.rng, self.areas, self.thread, self.threads = rng, areas, thread, threads
        # x86 has no load-and-reserve; Power no locked operations, but the core's far atomics are at a cluster's L2 as well.
        self.adds = (ADD_RMW, ADD_SUB, ADD_CAS) if isa == "x86" else (ADD_RMW, ADD_SUB, ADD_LLSC, ADD_LLSC, ADD_CAS)
        self.puts = (PUT_STORE, PUT_XCHG, PUT_CAS) if isa == "x86" else (PUT_STORE, PUT_STORE, PUT_XCHG, PUT_CAS, PUT_LLSC)
        self.flags = len(areas) - 1
        self.narrow_used: set[tuple[int, int]] = set()
        self.guarded = False
        # A thread that looks at one other's words meets message passing far more often than one that looks at all.
        self.partner = rng.randrange(threads)
        everything = [(a, w, word) for a, area in enumerate(areas[:-1]) for w, word in enumerate(area.words)]
        self.mine = [x for x in everything if x[2].kind == "single" and x[2].owner == thread]
        self.theirs = [x for x in everything if x[2].kind in ("single", "command")]
        self.partners = [x for x in self.theirs if x[2].owner == self.partner] or self.theirs
        self.shared = {kind: [x for x in everything if x[2].kind == kind] for kind in ("counter", "multi", "bits")}
        self.scratch = [x for x in everything if x[2].kind == "scratch" and x[2].owner == thread]
        self.weights = [rng.choice((0.3, 1, 1, 2, 4)) for _ in range(9)]

    def line(self, area: int) -> int:
        lines = self.areas[area].lines
        return self.rng.randrange(lines) if self.rng.random() < 0.3 else -1 - self.rng.randrange(0, 24)

    def common(self) -> dict[str, object]:
        rng = self.rng
        out: dict[str, object] = {"flush": rng.random() < 0.15}
        if self.guarded and rng.random() < 0.2:
            condition = rng.choice((Cond.EQ, Cond.NE, Cond.LT, Cond.GE, Cond.LTU, Cond.GEU, Cond.BITS, Cond.NOBITS))
            out["guard"] = Guard(int(condition), rng.choice((0, 1, 2, 3, 5, 17, 64)), rng.random() < 0.5)
        return out

    def choose(self, words: list[tuple[int, int, Word]]) -> tuple[Word, dict[str, int]] | None:
        if not words:
            return None
        a, w, word = self.rng.choice(words)
        return word, {"area": a, "word": w, "line": self.line(a)}

    def load(self) -> Action | None:
        rng = self.rng
        found = self.choose(rng.choice((self.theirs, self.partners, self.partners, self.mine)))
        if found is None:
            return None
        word, where = found
        size = rng.choice((word.size, word.size, word.size, 8, 4, 2, 1))
        extra = self.common()
        if "guard" not in extra and rng.random() < 0.15:
            self.guarded = True
            extra["sets_guard"] = True
        return Action("load", size=size, dep=rng.choice((DEP_NONE, DEP_NONE, DEP_FLAG, DEP_ADDRESS)), **where, **extra)  # type: ignore[arg-type]

    def store(self) -> Action | None:
        found = self.choose(self.mine)
        if found is None:
            return None
        word, where = found
        if word.counts_iterations:
            if (where["area"], where["word"]) in self.narrow_used:
                return None
            self.narrow_used.add((where["area"], where["word"]))
        return Action("store", **where, **self.common())  # type: ignore[arg-type]

    def add(self) -> Action | None:
        found = self.choose(self.shared["counter"])
        if found is None:
            return None
        return Action("add", way=self.rng.choice(self.adds), **found[1], **self.common())  # type: ignore[arg-type]

    def multi(self) -> Action | None:
        found = self.choose(self.shared["multi"])
        if found is None:
            return None
        if self.rng.random() < 0.4:
            return Action("get", **found[1], **self.common())  # type: ignore[arg-type]
        return Action("put", way=self.rng.choice(self.puts), **found[1], **self.common())  # type: ignore[arg-type]

    def alter(self) -> Action | None:
        found = self.choose(self.shared["bits"])
        if found is None:
            return None
        bit = 1 << self.thread
        way, value = self.rng.choice(((Alu.OR, bit), (Alu.AND, ~bit), (Alu.XOR, bit)))
        return Action("alter", way=int(way), value=value, **found[1], **self.common())  # type: ignore[arg-type]

    def private(self) -> Action | None:
        found = self.choose(self.scratch)
        if found is None:
            return None
        rng = self.rng
        kind = rng.choice(("alter", "alter", "set", "look"))
        functions = (Alu.ADD, Alu.SUB, Alu.AND, Alu.OR, Alu.XOR, Alu.XCHG, Alu.SHL, Alu.SHR)
        way = int(rng.choice(functions)) if kind == "alter" else 0
        value = rng.choice((0, 1, 3, 7, 0xA5, 1 << 40)) if kind != "look" else 0
        return Action(kind, way=way, value=value, **found[1], **self.common())  # type: ignore[arg-type]

    def fence(self) -> Action:
        return Action("fence", way=int(self.rng.choice((Fence.FULL, Fence.FULL, Fence.LIGHT, Fence.LIGHT, *Fence))))

    def work(self) -> Action:
        if self.rng.random() < 0.2:
            return Action("pause")
        return Action("work", value=self.rng.choice((1, 2, 5, 10, 30, 100, 300)), **self.common())  # type: ignore[arg-type]

    def any(self) -> Action:
        makers = (self.load, self.load, self.store, self.store, self.add, self.multi, self.alter, self.private, self.fence, self.work)
        weights = (2, 2, 2, 2, *(0.6 * w for w in self.weights[:4]), 0.5 * self.weights[4], 0.5 * self.weights[5])
        while True:
            action = self.rng.choices(makers, weights)[0]()
            if action is not None:
                return action


def _body(rng: random.Random, areas: Sequence[Area], thread: int, threads: int, length: int, waits: bool,
          isa: str) -> tuple[Action, ...]:
    """``waits``: the threads report each iteration and wait for one another."""
    body = _Body(rng, areas, thread, threads, isa)
    actions = [body.any() for _ in range(length)]
    if waits:
        others = [w for w in range(threads) if w != thread]
        actions.insert(rng.randrange(len(actions) + 1), Action("store", area=body.flags, word=thread))
        for _ in range(rng.randrange(0, 3)):
            actions.insert(rng.randrange(len(actions) + 1), Action("await", area=body.flags, word=rng.choice(others), value=rng.choice((0, 1, 2, 8))))
    return tuple(actions)
