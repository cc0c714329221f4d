"""Random litmus tests: whatever the modelled machines do, the architecture's model must allow it."""

from __future__ import annotations

import numpy as np
import pytest

from cohsim.litmus import axiomatic, operational
from cohsim.litmus.parse import parse_litmus
from cohsim.litmus.run import run_litmus
from cohsim.litmus.test import LitmusTest
from cohsim.machine import compile_machine, load_machine

LOCATIONS = ("x", "y", "z")


def _frame(arch: str, init: str, threads: list[list[str]], atoms: list[str]) -> LitmusTest:
    """A test that shows all atoms; its condition cannot hold, so nothing but the outcomes counts."""
    height = max(map(len, threads))
    rows = [" | ".join(f"P{i}" for i in range(len(threads))) + " ;"]
    rows += [" | ".join(t[k] if k < len(t) else "" for t in threads) + " ;" for k in range(height)]
    text = "\n".join([f"{arch} RANDOM", "{ " + init + " }", *rows, f"locations [{'; '.join(atoms)};]", "~exists (x=99)"])
    return parse_litmus(text, "random.litmus")


def random_x86(rng: np.random.Generator, locked: tuple[str, ...] = ("xadd", "xchg")) -> LitmusTest:
    """Two or three threads of two to four loads, stores, locked operations and fences on two or three locations."""
    count, places = int(rng.integers(2, 4)), LOCATIONS[: int(rng.integers(2, 4))]
    threads, atoms, value = [], list(places), 0
    for i in range(count):
        code, registers = [], ["EAX", "EBX", "ECX", "EDX"]
        for _ in range(int(rng.integers(2, 5 if count == 2 else 3))):
            place, value = str(rng.choice(places)), value + 1
            kind = rng.choice(("load", "load", "load", "store", "store", "store", "mfence", *locked))
            if kind == "store":
                code.append(f"MOV [{place}],${value}")
            elif kind == "mfence":
                code.append("MFENCE")
            else:
                register = registers.pop(0)
                atoms.append(f"{i}:{register}")
                code += {
                    "load": [f"MOV {register},[{place}]"],
                    "xchg": [f"MOV {register},${value}", f"XCHG [{place}],{register}"],
                    "xadd": [f"MOV {register},${64 * value}", f"LOCK XADD [{place}],{register}"],
                }[str(kind)]
        threads.append(code)
    return _frame("X86", "x=0; y=0; z=0;", threads, atoms)


def random_power(rng: np.random.Generator) -> LitmusTest:
    """Two or three threads of two to four loads and stores on two or three locations, joined by nothing, fences or dependencies."""
    count, places = int(rng.integers(2, 4)), LOCATIONS[: int(rng.integers(2, 4))]
    threads, atoms, value, init = [], list(places), 0, ["x=0; y=0; z=0;"]
    for i in range(count):
        init += [f"{i}:r2{k}={place};" for k, place in enumerate(places)]
        code: list[str] = []
        last: str | None = None  # register of a load that something may depend on
        for k in range(int(rng.integers(2, 4 if count == 2 else 3))):
            pointer, value, register = f"r2{int(rng.integers(0, len(places)))}", value + 1, f"r{k + 1}"
            join = str(
                rng.choice(("po", "po", "sync", "lwsync", "lwsync", "isync", "eieio", "addr", "data", "ctrl", "ctrlisync"))
            )
            store = bool(rng.random() < 0.5)
            if k and join in ("sync", "lwsync", "isync", "eieio"):
                code.append(join)
            if last and join.startswith("ctrl"):
                code += [f"cmpw {last},{last}", f"beq L{k}", f"L{k}: isync" if join == "ctrlisync" else f"L{k}:"]
            if last and join in ("addr", "data"):
                code.append(f"xor r10,{last},{last}")
            indexed = f"r10,{pointer}" if last and join == "addr" else None
            if store and last and join == "data":
                code += [f"addi r9,r10,{value}", f"stw r9,0({pointer})"]
            elif store:
                code += [f"li r9,{value}", f"stwx r9,{indexed}" if indexed else f"stw r9,0({pointer})"]
            else:
                code.append(f"lwzx {register},{indexed}" if indexed else f"lwz {register},0({pointer})")
                atoms.append(f"{i}:{register}")
                last = register
        threads.append(code)
    return _frame("PPC", " ".join(init), threads, atoms)


@pytest.mark.parametrize("seed", range(24))
def test_x86_stays_within_tso(seed: int) -> None:
    test = random_x86(np.random.Generator(np.random.PCG64(seed)))
    run = run_litmus(test, compile_machine(load_machine("corei7", ())), rounds=256, simulations=4, seed=seed + 1)
    assert not run.violations, (seed, [test.describe(o) for o in run.violations], test.threads)


@pytest.mark.parametrize("seed", range(24))
def test_power_stays_within_the_architecture(seed: int) -> None:
    test = random_power(np.random.Generator(np.random.PCG64(seed)))
    run = run_litmus(test, compile_machine(load_machine("t4240", ())), rounds=256, simulations=4, seed=seed + 1)
    assert not run.violations, (seed, [test.describe(o) for o in run.violations], test.threads)


@pytest.mark.parametrize("seed", range(100, 120))
def test_both_tso_models_agree(seed: int) -> None:
    test = random_x86(
        np.random.Generator(np.random.PCG64(seed)), ("xchg",)
    )  # sums of sums would make too many candidate executions
    assert operational.outcomes(test, buffered=True) == axiomatic.outcomes(test)


@pytest.mark.parametrize("seed", range(100, 120))
def test_power_allows_sequential_consistency(seed: int) -> None:
    test = random_power(np.random.Generator(np.random.PCG64(seed)))
    assert operational.outcomes(test, buffered=False) <= axiomatic.outcomes(test)
