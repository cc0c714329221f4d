"""Prints one digest of all result arrays for every bundled workload on every machine: equal for equal results.

    python tests/flavour_digest.py > digest.txt

.ci/run compares the output of the release, checked and sanitizer builds. Not a test by itself.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from cohsim.datafiles import bundled_names
from cohsim.errors import InputError
from cohsim.machine import compile_machine, load_machine
from cohsim.simulate import simulate
from cohsim.workload import load_workload
from cohsim.workload.compiled import CompiledWorkload

ARRAYS = ("time_fs", "count", "served", "sc_failures", "iterations", "received", "dropped", "line_address", "line_stats", "node_transfers",
          "latency_hist", "pairs", "uop_latency", "nic_stats", "interrupts")
DRIVER_SETUP_NS = 500_000
"""Drivers fill their rings first."""


@cache
def compiled(name: str, isa: str, cpus: int) -> CompiledWorkload:
    """Kernel paths take seconds to compile."""
    return load_workload(name, isa=isa, cpus=cpus)


def digest(machine_name: str, name: str, cpus: int, lookahead: bool) -> str:
    """Digest of a short run."""
    machine = compile_machine(load_machine(machine_name))
    workload = compiled(name, machine.isa, cpus)
    warmup = DRIVER_SETUP_NS if workload.devices is not None and cpus == 2 else 2_000
    data = simulate(machine, workload, warmup_ns=warmup, measure_ns=15_000, lookahead=lookahead)
    text = hashlib.sha256()
    for array in ARRAYS:
        text.update(np.ascontiguousarray(getattr(data, array)).tobytes())
    text.update(repr((data.measured_fs, data.memory_operations, data.events, sorted(data.counters.items()))).encode())
    return text.hexdigest()


def main() -> None:
    """All workloads, with and without look-ahead."""
    for machine in bundled_names("machines", ".yaml"):
        for name in bundled_names("workloads", ".trace"):
            for cpus in (2, 8):
                for lookahead in (True, False):
                    try:
                        print(machine, name, cpus, digest(machine, name, cpus, lookahead))
                    except InputError as error:
                        print(machine, name, cpus, "does not apply:", error.problems[0].what)


if __name__ == "__main__":
    main()
