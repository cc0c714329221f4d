"""Compiled machines: integers by arithmetic from the file's numbers."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_text import SMALL, write

from cohsim.errors import MachineError
from cohsim.machine import CompiledMachine, compile_machine, load_machine
from cohsim.machine.latency import PATHS, Stages, derive_stages, load_to_use_fs
from cohsim.machine.rules import stages_of

CORE = 500_000  # fs, 2 GHz
FABRIC = 1_000_000  # fs, 1 GHz


@pytest.fixture
def small(tmp_path: Path) -> CompiledMachine:
    return compile_machine(load_machine(write(tmp_path, SMALL)))


def test_every_field_of_the_small_machine(small: CompiledMachine) -> None:
    common = 12 * CORE + 2 * 5 * FABRIC + 4 * FABRIC + 2 * FABRIC  # L2 hit, two hops, home lookup, line transfer
    assert small == CompiledMachine(
        name="small",
        isa="power",
        protocol="mesi",
        nodes=2,
        cores_per_node=2,
        threads_per_core=2,
        cpu_core=(0, 0, 1, 1, 2, 2, 3, 3),
        cpu_thread=(0, 1) * 4,
        core_period_fs=CORE,
        fabric_period_fs=FABRIC,
        issue_fs=625_000,
        smt_shared_dispatch=False,
        window=16,
        window_smt=12,
        store_queue=7,
        store_queue_smt=5,
        store_in_order=False,
        store_gathering=True,
        mshrs=4,
        l1_port_fs=CORE,
        store_forward_fs=3 * CORE,
        mispredict_fs=7 * CORE,
        locked_fs=0,
        pause_fs=CORE,
        fence_full_fs=30 * CORE,
        fence_light_fs=8 * CORE,
        fence_instr_fs=10 * CORE,
        fence_load_fs=8 * CORE,
        fence_store_fs=6 * CORE,
        line_bytes=64,
        l1_sets=64,
        l1_ways=8,
        l1_hit_fs=3 * CORE,
        l1_write_through=True,
        l2_private=False,
        l2_sets=1024,
        l2_ways=16,
        l2_banks=4,
        l2_hit_fs=12 * CORE,
        l2_hop_fs=3 * CORE,
        l2_bank_fs=CORE,
        l2_load_line_fs=8 * CORE,
        l2_store_line_fs=18 * CORE,
        l1_invalidate_fs=6 * CORE,
        l2_mshrs=16,
        snoop_fs=80 * CORE - common - 10 * FABRIC,
        snoop_dirty_fs=15 * CORE,
        snoop_bank_fs=FABRIC,
        snoop_first=True,
        hop_fs=5 * FABRIC,
        home_broadcast=True,
        home_slices=1,
        home_lookup_fs=4 * FABRIC,
        home_occupancy_fs=FABRIC,
        line_transfer_fs=2 * FABRIC,
        l3_sets=1536,
        l3_ways=16,
        l3_inclusive=False,
        l3_data_fs=90 * CORE - common,
        memory_fs=100_000_000 - common,
        memory_channels=2,
        memory_line_fs=5_000_000,
    )


def test_l1_and_x86_specifics() -> None:
    machine = compile_machine(load_machine("corei7"))
    period = machine.core_period_fs
    assert (machine.nodes, machine.cores_per_node, machine.l2_private, machine.l2_banks, machine.l2_hop_fs) == (4, 1, True, 1, 0)
    assert machine.cpu_core == (0, 1, 2, 3) * 2 and machine.cpu_thread == (0,) * 4 + (1,) * 4
    assert (machine.locked_fs, machine.fence_full_fs, machine.fence_light_fs) == (20 * period, 23 * period, 0)
    assert machine.l3_inclusive and not machine.home_broadcast and machine.store_in_order and machine.smt_shared_dispatch


def test_t4240_topology() -> None:
    machine = compile_machine(load_machine("t4240"))
    assert (machine.nodes, machine.cores_per_node, len(machine.cpu_core)) == (3, 4, 24)
    assert machine.cpu_core[:4] == (0, 0, 1, 1) and machine.cpu_thread[:4] == (0, 1, 0, 1)
    assert machine.core_period_fs == 600_000


def test_one_thread_per_core_has_the_whole_core(tmp_path: Path) -> None:
    text = (
        SMALL.replace("threads_per_core: 2", "threads_per_core: 1")
        .replace("  window_smt: 12 [a]\n", "")
        .replace("  store_queue_smt: 5 [a]\n", "")
    )
    machine = compile_machine(load_machine(write(tmp_path, text)))
    assert (machine.window_smt, machine.store_queue_smt, machine.cpu_core) == (16, 7, (0, 1, 2, 3))


@pytest.mark.parametrize("name", ["t4240", "corei7", "xeon_x5550"])
def test_stated_totals_come_out_exactly(name: str) -> None:
    spec = load_machine(name)
    stages, faults = stages_of(spec)
    assert not faults
    assert load_to_use_fs(stages, "home") == spec.time_fs(f"{spec.last_level}.hit")
    assert load_to_use_fs(stages, "remote_clean") == spec.time_fs("snoop.remote_clean")
    assert load_to_use_fs(stages, "remote_dirty") == spec.time_fs("snoop.remote_dirty")
    assert load_to_use_fs(stages, "memory") == spec.time_fs("memory.latency")


def test_fabric_clock_moves_stages_not_totals() -> None:
    slow, fast = (compile_machine(load_machine("corei7", [f"clocks.fabric={mhz} MHz"])) for mhz in (2000, 2500))
    assert slow.hop_fs * 4 == fast.hop_fs * 5
    assert fast.l3_data_fs - slow.l3_data_fs == (2 * 6 + 8 + 2) * 100_000  # two hops, lookup, line transfer are that much faster


def test_compile_checks_what_it_is_given(tmp_path: Path) -> None:
    spec = load_machine(write(tmp_path, SMALL))
    values = dict(spec.values)
    values["memory.latency"] = replace(values["memory.latency"], quantity=values["caches.l1d.hit"].quantity)
    with pytest.raises(MachineError, match=r"memory\.latency: 3 cycles is less than its parts"):
        compile_machine(replace(spec, values=values))


def test_all_times_are_whole_and_not_negative() -> None:
    for name in ("t4240", "corei7", "xeon_x5550"):
        machine = compile_machine(load_machine(name))
        for item in fields(machine):
            if item.name.endswith("_fs"):
                value = getattr(machine, item.name)
                assert type(value) is int and value >= 0, (name, item.name)


STAGE = st.integers(0, 10**9)


@given(STAGE, STAGE, STAGE, STAGE, STAGE, STAGE, STAGE, STAGE, st.booleans())
def test_deriving_inverts_adding_up(
    l2: int, hop: int, lookup: int, line: int, snoop: int, dirty: int, data: int, memory: int, broadcast: bool
) -> None:
    stages = Stages(l2, hop, lookup, line, snoop, dirty, data, memory, broadcast)
    totals = {path: load_to_use_fs(stages, path) for path in PATHS}
    derived, faults = derive_stages(
        totals, l2_hit_fs=l2, hop_fs=hop, home_lookup_fs=lookup, line_transfer_fs=line, home_broadcast=broadcast
    )
    assert not faults
    assert {path: load_to_use_fs(derived, path) for path in PATHS} == totals
    assert (derived.snoop_fs, derived.snoop_dirty_fs) == (snoop, dirty)
    if not broadcast:
        assert derived == stages


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("broadcast", [False, True])
def test_one_femtosecond_too_little_is_noticed(path: str, broadcast: bool) -> None:
    least = Stages(10, 7, 5, 3, 0, 0, 0, 0, broadcast)
    totals = {name: load_to_use_fs(least, name) for name in PATHS}
    fixed = {"l2_hit_fs": 10, "hop_fs": 7, "home_lookup_fs": 5, "line_transfer_fs": 3}
    assert not derive_stages(totals, **fixed, home_broadcast=broadcast)[1]
    faults = derive_stages(totals | {path: totals[path] - 1}, **fixed, home_broadcast=broadcast)[1]
    assert [fault.path for fault in faults] == [path]
    assert sum(faults[0].parts_fs.values()) == totals[path]


def test_broadcast_home_waits_for_snoops() -> None:
    stages = Stages(10, 7, 5, 3, 20, 4, 6, 8, True)
    assert (
        load_to_use_fs(stages, "home")
        == load_to_use_fs(stages, "memory")
        == load_to_use_fs(stages, "remote_clean")
        == 10 + 14 + 5 + 34 + 3
    )
    assert load_to_use_fs(replace(stages, home_broadcast=False), "home") == 10 + 14 + 5 + 6 + 3
