"""The memory image: values of words, and what may be left out of it."""

from __future__ import annotations

import numpy as np
import pytest
from cohsim._core import Simulation

from cohsim.machine import compile_machine, load_machine
from cohsim.protocols import flat_tables
from cohsim.workload import load_workload


def simulation(name: str, cpus: int = 4) -> Simulation:
    machine = compile_machine(load_machine("t4240"))
    workload = load_workload(name, isa=machine.isa, cpus=cpus)
    node, home = flat_tables(machine.protocol)
    sim = Simulation(machine, node, home, workload.uops, workload.entry, tuple(range(cpus)), from_fs=0, until_fs=20_000_000_000)
    for address, size, value in workload.memory:
        sim.write_memory(address, size, value)
    return sim


def test_do_words_at_the_same_place_of_many_lines_all_find_room() -> None:
    sim = simulation("micro/atomic_inc")
    for i in range(5000):
        sim.write_memory(0x10000 + 64 * i, 8, i)
    assert [sim.read_memory(0x10000 + 64 * i, 8) for i in range(5000)] == list(range(5000))


def test_do_parts_of_a_word_keep_the_rest() -> None:
    sim = simulation("micro/atomic_inc")
    sim.write_memory(0x10000, 8, 0x1122334455667788)
    sim.write_memory(0x10002, 2, 0xABCD)
    assert sim.read_memory(0x10000, 8) == 0x11223344ABCD7788 and sim.read_memory(0x10003, 1) == 0xAB


@pytest.mark.parametrize("name", ["micro/spinlock", "micro/atomic_inc", "micro/cas_inc"])
def test_is_a_run_the_same_when_unread_words_are_left_out(name: str) -> None:
    whole, less = simulation(name), simulation(name)
    assert less.keep_read_words_only((1, 4, 1, 1, 4, 0))
    for sim in (whole, less):
        sim.start()
        while sim.run(100_000) == "budget":
            pass
        sim.finish(20_000_000_000)
    for key, array in whole.arrays.items():
        assert np.array_equal(array, less.arrays[key]), key


def test_is_a_value_behind_a_register_address_never_left_out() -> None:
    assert not simulation("micro/pointer_chase").keep_read_words_only((1, 4, 1, 1, 4, 0))
