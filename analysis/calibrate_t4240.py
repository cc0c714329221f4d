"""How the calibrated numbers of machines/t4240.yaml were found: random search at 16 threads only.

    python analysis/calibrate_t4240.py [--samples 80] [--seed 1] [--jobs 2]

Every sample draws each calibrated parameter inside its range, runs ipv6_fwd at 16 CPUs, and is judged against the 16-thread column of R1 alone
(rate relative to its 10 % tolerance, shares relative to their 3 points). The 24-thread column is never looked at here. The
ten best are printed with their mean, which the machine file takes: one best sample would be fitted to the noise of its seed.
"""
from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from random import Random

import click
import numpy as np

from cohsim.machine import compile_machine, load_machine
from cohsim.simulate import simulate
from cohsim.workload import load_workload

TARGET_GBPS = 3.3
ON_THEIR_OWN = {"atomic_dec_return": 17.26, "atomic_inc": 13.45, "ip6_pol_route": 5.53, "__netif_receive_skb_core": 5.02}
INLINED = {"ip6_pol_route": 19.59, "dst_release": 18.07}
"""R1, 16 threads, % of cycles with atomics on their own and inside their callers (netdev, 2014-12-10)."""
NOT_LISTED = {"_raw_read_lock_bh": 4.0}
"""Not on the published list, which ends near 5 %: only more than this counts as an error."""

RANGES: dict[str, tuple[float, float, str]] = {
    "cores.instructions_per_cycle": (0.9, 1.1, ""),
    "snoop.remote_clean": (70, 82, " cycles"),
    "snoop.remote_dirty": (92, 115, " cycles"),
    "caches.l2.store_occupancy": (14, 25, " cycles"),
    "cores.fences.sync": (15, 90, " cycles"),
    "cores.fences.lwsync": (3, 20, " cycles"),
}
"""Inside the ranges of the machine file (facts: T4240 latency table), narrowed by a first, wider search. A load holds its line for the L2's own
lookup time (5 cycles: the 11-cycle hit less both ways), the smallest value the model knows; the 16-thread column cannot tell 5 from 6."""


def sample(rng: Random) -> list[str]:
    """One draw of all parameters, as --set texts."""
    out = []
    for key, (low, high, unit) in RANGES.items():
        value = rng.uniform(low, high)
        out.append(f"{key}={value:.2f}" if not unit else f"{key}={value:.0f}{unit}")
        if key == "snoop.remote_clean":
            out.append(f"caches.cpc.hit={value:.0f}{unit}")      # a broadcast home answers after the last snoop response
    return out


def judge(sets: list[str], cpus: int = 16, seed: int = 1) -> tuple[float, dict[str, float], list[str]]:
    """(error, figures, parameters) of one sample; the error is the mean square in units of the tolerances."""
    machine = compile_machine(load_machine("t4240", sets))
    workload = load_workload("ipv6_fwd", isa="power", cpus=cpus)
    data = simulate(machine, workload, seed=seed, warmup_ns=300_000, measure_ns=500_000)
    time = data.time_fs[:, :, :-1].sum(axis=(0, 2))
    atomic = workload.uops["prim"] >= 0

    def share(mask: np.ndarray) -> float:
        return float(100 * time[mask].sum() / time.sum())

    def function(name: str) -> np.ndarray:
        return workload.uops["func"] == workload.func_names.index(name)

    gbps = data.iterations.sum() / (data.measured_fs / 1e15) * 78 * 8 / 1e9
    figures = {"gbps": gbps}
    errors = [(gbps / TARGET_GBPS - 1) / 0.1]
    for name, target in ON_THEIR_OWN.items():
        known = name in workload.prim_names
        figures[name] = share(workload.uops["prim"] == workload.prim_names.index(name) if known else function(name) & ~atomic)
        errors.append((figures[name] - target) / 3)
    for name, target in INLINED.items():
        figures[name + "+atomics"] = share(function(name))
        errors.append((figures[name + "+atomics"] - target) / 3)
    for name, limit in NOT_LISTED.items():
        figures[name] = share(function(name))
        errors.append(max(0.0, figures[name] - limit) / 0.3)
    return sum(e * e for e in errors) / len(errors), figures, sets


@click.command(help=__doc__)
@click.option("--samples", default=80, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--jobs", default=2, show_default=True)
def main(samples: int, seed: int, jobs: int) -> None:
    rng = Random(seed)
    draws = [sample(rng) for _ in range(samples)]
    with ProcessPoolExecutor(jobs) as pool:
        results = sorted(pool.map(judge, draws), key=lambda r: r[0])
    best = results[:10]
    for error, figures, sets in best:
        click.echo(f"{error:.3f}  " + "  ".join(f"{k} {v:.2f}" for k, v in figures.items()) + "  " + " ".join(sets))
    for number, key in enumerate(s.split("=")[0] for s in best[0][2]):
        values = [float(sets[number].split("=")[1].split()[0]) for _, _, sets in best]
        click.echo(f"mean of the ten best: {key} {np.mean(values):.2f} (from {min(values):g} to {max(values):g})")


if __name__ == "__main__":
    main()
