"""Random programs for tests: few threads on few lines, every operation, so that races, evictions and full queues are the normal case."""

from __future__ import annotations

import random

from program import LINE, Program, machine, tiny

from cohsim.machine.compiled import CompiledMachine
from cohsim.uops import Alu, Cond, Fence, Flag, Op

BASE = 0x10000


def tiny_machine(name: str, **geometry: object) -> CompiledMachine:
    """A bundled machine with caches of a few lines (every access may evict), two MSHRs and three-entry store buffers."""
    m = machine(name)
    small: dict[str, object] = {"l1_sets": 2, "l1_ways": 1, "l2_sets": 2, "l2_ways": 2, "mshrs": 2, "store_queue": 3, "store_queue_smt": 2,
                                "window": 12, "window_smt": 8, "l3_sets": 3, "l3_ways": 3 if m.l3_inclusive else 1}
    return tiny(m, **(small | geometry))


def random_program(rng: random.Random, isa: str, *, lines: int, operations: int) -> Program:
    """A straight program with forward branches and LL/SC retry loops over ``lines`` lines of two words each."""
    p = Program()

    def address() -> int:
        return BASE + LINE * rng.randrange(lines) + 8 * rng.randrange(2)

    def register() -> int:
        return rng.randrange(2, 8)

    pending: list[int] = []
    for _ in range(operations):
        kind = rng.choices(("work", "load", "store", "rmw", "add", "sc", "fence", "alu", "branch", "pause"),
                           (4, 8, 6, 2, 3, 1, 1, 2, 1, 1))[0]
        if kind == "work":
            p.work(rng.randrange(1, 60))
        elif kind == "load":
            p.load(address(), register(), size=rng.choice((1, 4, 8)), dep=rng.random() < 0.3)
        elif kind == "store":
            p.store(address(), rng.randrange(256), b=rng.choice((-1, register())), size=rng.choice((1, 4, 8)))
        elif kind == "rmw":
            p.rmw(address(), rng.randrange(256), fn=rng.choice((Alu.ADD, Alu.XCHG, Alu.CAS, Alu.OR)), dst=register(), a=register())
        elif kind == "add":
            p.atomic_add(address(), isa)
        elif kind == "sc":                      # reserve, dawdle, try once: mostly fails
            where = address()
            p.ll(where, dst=0)
            p.work(rng.randrange(1, 100))
            p.sc(where, dst=1, value=rng.randrange(256))
        elif kind == "fence":
            p.fence(rng.choice(tuple(Fence)))
        elif kind == "alu":
            p.alu(register(), register(), rng.randrange(256), fn=rng.choice((Alu.ADD, Alu.XOR, Alu.SHR)))
        elif kind == "pause":
            p.add(Op.PAUSE)
        else:
            pending.append(p.branch(rng.choice((Cond.EQ, Cond.NE, Cond.BITS, Cond.LTU)), register(), rng.randrange(8),
                                    flags=rng.choice((0, Flag.PRED_TAKEN))))
        if pending and rng.random() < 0.3:
            p.land(pending.pop())
    for branch in pending:
        p.land(branch)
    p.halt()
    return p


def random_programs(seed: int, isa: str, *, cpus: int, lines: int = 6, operations: int = 60) -> list[Program]:
    """One random program for each CPU; the same for the same seed."""
    rng = random.Random(seed)
    return [random_program(rng, isa, lines=lines, operations=operations) for _ in range(cpus)]
