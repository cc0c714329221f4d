"""From the effective machine to the integers the core runs on."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from cohsim.errors import MachineError
from cohsim.machine.compiled import CompiledMachine
from cohsim.machine.latency import Stages
from cohsim.machine.rules import check_rules, nodes_of, stages_of
from cohsim.machine.spec import MachineSpec
from cohsim.machine.units import FS_PER_S


def compile_machine(spec: MachineSpec) -> CompiledMachine:
    """The machine in femtoseconds and counts. Raises MachineError where stated totals leave a stage less than nothing."""
    problems = check_rules(spec)  # a spec need not come from load_machine
    if problems:
        raise MachineError(problems)
    stages, _ = stages_of(spec)
    line = spec.count("caches.line")
    bandwidth = spec.quantity("memory.channel_bandwidth").base
    return CompiledMachine(
        name=spec.name,
        isa=spec.isa,
        protocol=spec.word("protocol"),
        core_period_fs=spec.core_period_fs,
        fabric_period_fs=spec.fabric_period_fs,
        **_topology(spec),
        **_core(spec),
        **_fences(spec),
        **_private(spec),
        **_l2(spec),
        **_stages(spec, stages),
        **_last_level(spec, stages),
        **_devices(spec),
        line_bytes=line,
        memory_channels=spec.count("memory.channels"),
        memory_line_fs=round(Fraction(line * FS_PER_S) / bandwidth),
    )


def _topology(spec: MachineSpec) -> dict[str, Any]:
    cores = spec.count("topology.clusters") * spec.count("topology.cores_per_cluster")
    threads = spec.count("topology.threads_per_core")
    nodes = nodes_of(spec)
    cpus = range(cores * threads)
    adjacent = spec.word("topology.numbering") == "siblings-adjacent"
    return {
        "nodes": nodes,
        "cores_per_node": cores // nodes,
        "threads_per_core": threads,
        "cpu_core": tuple(cpu // threads if adjacent else cpu % cores for cpu in cpus),
        "cpu_thread": tuple(cpu % threads if adjacent else cpu // cores for cpu in cpus),
    }


def _core(spec: MachineSpec) -> dict[str, Any]:
    window, store_queue = spec.count("cores.window"), spec.count("cores.store_queue")
    smt = spec.count("topology.threads_per_core") > 1
    return {
        "issue_fs": round(spec.core_period_fs / spec.quantity("cores.instructions_per_cycle").base),
        "smt_shared_dispatch": spec.word("cores.dispatch") == "shared",
        "window": window,
        "window_smt": spec.count("cores.window_smt") if smt else window,
        "store_queue": store_queue,
        "store_queue_smt": spec.count("cores.store_queue_smt") if smt else store_queue,
        "store_in_order": spec.word("cores.store_order") == "in-order",
        "store_gathering": spec.flag("cores.store_gathering"),
        "mshrs": spec.count("cores.mshrs"),
        "store_forward_fs": spec.time_fs("cores.store_forward"),
        "mispredict_fs": spec.time_fs("cores.mispredict"),
        "pause_fs": spec.time_fs("cores.pause"),
    }


def _fences(spec: MachineSpec) -> dict[str, Any]:
    """Costs of the portable fence kinds (:class:`cohsim.uops.Fence`) as the instruction set does them.

    x86: a light fence is free (TSO keeps every order but store to later load); waiting for earlier instructions is lfence.
    Power: a load fence is lwsync; no operation is locked: an indivisible one (of a recorded trace) costs its L2 access only.
    """

    def fence(name: str) -> int:
        return spec.time_fs(f"cores.fences.{name}")

    if spec.isa == "x86":
        return {
            "locked_fs": spec.time_fs("cores.locked"),
            "fence_full_fs": fence("mfence"),
            "fence_light_fs": 0,
            "fence_instr_fs": fence("lfence"),
            "fence_load_fs": fence("lfence"),
            "fence_store_fs": fence("sfence"),
        }
    return {
        "locked_fs": 0,
        "fence_full_fs": fence("sync"),
        "fence_light_fs": fence("lwsync"),
        "fence_instr_fs": fence("isync"),
        "fence_load_fs": fence("lwsync"),
        "fence_store_fs": fence("eieio"),
    }


def _geometry(spec: MachineSpec, cache: str) -> tuple[int, int]:
    """Sets (of all slices together) and ways."""
    ways = spec.count(f"{cache}.ways")
    return spec.count(f"{cache}.size") // (ways * spec.count("caches.line")), ways


def _private(spec: MachineSpec) -> dict[str, Any]:
    sets, ways = _geometry(spec, "caches.l1d")
    return {
        "l1_sets": sets,
        "l1_ways": ways,
        "l1_hit_fs": spec.time_fs("caches.l1d.hit"),
        "l1_port_fs": spec.time_fs("caches.l1d.port"),
        "l1_write_through": spec.word("caches.l1d.write") == "through",
    }


def _l2(spec: MachineSpec) -> dict[str, Any]:
    sets, ways = _geometry(spec, "caches.l2")
    shared = spec.word("caches.l2.scope") == "cluster"

    def only_shared(name: str) -> int:
        return spec.time_fs(f"caches.l2.{name}") if shared else 0

    return {
        "l2_private": not shared,
        "l2_sets": sets,
        "l2_ways": ways,
        "l2_banks": spec.count("caches.l2.banks") if shared else 1,
        "l2_hit_fs": spec.time_fs("caches.l2.hit"),
        "l2_mshrs": spec.count("caches.l2.mshrs"),
        "l2_adjacent_line": not shared and spec.flag("caches.l2.adjacent_line"),
        "l2_hop_fs": only_shared("hop"),
        "l2_bank_fs": only_shared("bank_occupancy"),
        "l2_load_line_fs": only_shared("load_occupancy"),
        "l2_store_line_fs": only_shared("store_occupancy"),
        "l1_invalidate_fs": only_shared("l1_invalidate"),
    }


def _stages(spec: MachineSpec, stages: Stages) -> dict[str, Any]:
    return {
        "snoop_fs": stages.snoop_fs,
        "snoop_dirty_fs": stages.snoop_dirty_fs,
        "snoop_bank_fs": spec.time_fs("snoop.port"),
        "snoop_first": spec.flag("snoop.first"),
        "hop_fs": stages.hop_fs,
        "home_broadcast": stages.home_broadcast,
        "home_slices": spec.count("home.slices"),
        "home_lookup_fs": stages.home_lookup_fs,
        "home_occupancy_fs": spec.time_fs("home.occupancy"),
        "line_transfer_fs": stages.line_transfer_fs,
        "memory_fs": stages.memory_fs,
    }


def _devices(spec: MachineSpec) -> dict[str, Any]:
    if "devices.dma" not in spec.values:
        return {}
    times = {
        "dma_fs": "dma",
        "mmio_fs": "mmio_write",
        "interrupt_latency_fs": "interrupt",
        "interrupt_entry_fs": "interrupt_entry",
        "interrupt_exit_fs": "interrupt_exit",
        "idle_exit_fs": "idle_exit",
    }
    return {
        "has_devices": True,
        "dma_to_l3": spec.word("devices.dma_write") == "l3",
        **{name: spec.time_fs(f"devices.{key}") for name, key in times.items()},
    }


def _last_level(spec: MachineSpec, stages: Stages) -> dict[str, Any]:
    cache = spec.last_level
    sets, ways = _geometry(spec, cache) if cache else (0, 0)
    return {
        "l3_sets": sets,
        "l3_ways": ways,
        "l3_inclusive": cache is not None and spec.word(f"{cache}.side") == "inclusive",
        "l3_data_fs": stages.l3_data_fs,
    }
