"""Rules between the values of a machine: geometry, ranges of sources, what the core can model, latencies that add up."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from cohsim.errors import Problem
from cohsim.machine.latency import NegativeStage, Stages, at_core_clock, derive_stages
from cohsim.machine.schema import LAST_LEVEL, LEAVES, Number
from cohsim.machine.spec import MachineSpec
from cohsim.machine.units import Dimension, time_fs

MAX_NODES = 64  # the core keeps the nodes that may hold a line in one 64-bit word
MAX_P_STATES = 256  # of a clock multiplier of eight bits


def check_rules(spec: MachineSpec, *, complete: bool = True) -> list[Problem]:
    """All problems between values. ``complete=False``: other problems are known, a rule whose values are missing is skipped."""
    problems: list[Problem] = []
    for rule in (_ranges, _p_states, _geometry_l1, _geometry_l2, _geometry_last_level, _inclusion, _cores, _roles, _hits, _latencies):
        try:
            problems.extend(rule(spec))
        except KeyError:
            if complete:
                raise
    return problems


def total_paths(spec: MachineSpec) -> dict[str, str]:
    """Key path of each stated total, by name of the load's path (see latency.PATHS)."""
    paths = {"remote_clean": "snoop.remote_clean", "remote_dirty": "snoop.remote_dirty", "memory": "memory.latency"}
    if spec.last_level:
        paths["home"] = f"{spec.last_level}.hit"
    return paths


def stages_of(spec: MachineSpec) -> tuple[Stages, list[NegativeStage]]:
    """The stages of the machine's misses, and the totals that cannot be met.

    The totals hold at the clock that the file states, so they are taken apart there; at a lower P-state the parts are put together again.
    """
    nominal = spec.at_clock(None)
    stages, faults = derive_stages(
        {name: nominal.time_fs(path) for name, path in total_paths(spec).items()},
        l2_hit_fs=nominal.time_fs("caches.l2.hit"),
        hop_fs=nominal.time_fs("network.hop"),
        home_lookup_fs=nominal.time_fs("home.lookup"),
        line_transfer_fs=nominal.time_fs("network.line_transfer"),
        home_broadcast=spec.word("home.snoops") == "broadcast",
    )
    if spec.clock is not None:
        slower = Fraction(spec.core_period_fs, nominal.core_period_fs)
        stages = at_core_clock(stages, slower, l2_hit_fs=spec.time_fs("caches.l2.hit"))
    return stages, faults


def _problem(spec: MachineSpec, path: str, what: str, remedy: str) -> Problem:
    return Problem(spec.values[path].where, f"{path}: {what}", remedy)


def _ranges(spec: MachineSpec) -> Iterator[Problem]:
    for path, value in spec.values.items():
        source = spec.sources.get(value.source) if value.source else None
        key = LEAVES[path]
        if source is None or source.range is None or value.quantity is None or not isinstance(key, Number):
            continue
        low, high = source.range.low, source.range.high
        if low.unit != value.quantity.unit and low.unit not in key.dimension.units:
            yield _problem(
                spec,
                path,
                f"{value.text} has a source [{source.key}] whose range is {source.range}",
                "give it a source of its own",
            )
            continue
        if key.dimension is Dimension.TIME:
            clocks = spec.nominal_core_period_fs, spec.fabric_period_fs
            inside = time_fs(low, *clocks) <= time_fs(value.quantity, *clocks) <= time_fs(high, *clocks)
        else:
            inside = low.base <= value.quantity.base <= high.base
        if not inside:
            yield _problem(
                spec,
                path,
                f"{value.text} is outside the range {source.range} of its source [{source.key}]",
                "correct the value, or the range and say why",
            )


def _p_states(spec: MachineSpec) -> Iterator[Problem]:
    given = [path for path in ("clocks.lowest", "clocks.step") if path in spec.values]
    if len(given) == 1:
        other = "step" if given[0] == "clocks.lowest" else "lowest"
        yield _problem(spec, given[0], f"has no meaning without clocks.{other}", f"add {other}: N MHz [source], or remove it")
    if len(given) < 2:
        return
    lowest, step, core = (spec.quantity(f"clocks.{name}") for name in ("lowest", "step", "core"))
    if lowest.base > core.base:
        yield _problem(spec, "clocks.lowest", f"{lowest} is more than clocks.core, {core}", "core is the highest clock: correct one of them")
    elif (core.base - lowest.base) / step.base >= MAX_P_STATES:
        what = f"{step} from {lowest} to {core} are more than {MAX_P_STATES} P-states"
        yield _problem(spec, "clocks.step", what, "it is the distance of two P-states")


def _sets(spec: MachineSpec, cache: str, parts: int, parts_name: str) -> Iterator[Problem]:
    """``size = parts * sets * ways * line`` with sets a power of two."""
    size, ways, line = spec.count(f"{cache}.size"), spec.count(f"{cache}.ways"), spec.count("caches.line")
    each = parts * ways * line
    sizes = f"{parts} {parts_name} x {ways} ways x {line} B" if parts > 1 else f"{ways} ways x {line} B"
    if size % each:
        yield _problem(
            spec, f"{cache}.size", f"{spec.values[f'{cache}.size'].text} is not a multiple of {sizes}", "correct size or ways"
        )
    elif (sets := size // each) & (sets - 1):
        yield _problem(
            spec,
            f"{cache}.size",
            f"{spec.values[f'{cache}.size'].text} / ({sizes}) = {sets} sets, not a power of two",
            f"correct size or ways{', or say in how many slices it is' if parts == 1 and cache in LAST_LEVEL else ''}",
        )


def _geometry_l1(spec: MachineSpec) -> Iterator[Problem]:
    line = spec.count("caches.line")
    if line & (line - 1):
        yield _problem(spec, "caches.line", f"{line} B is not a power of two", "lines are 32, 64 or 128 B")
    yield from _sets(spec, "caches.l1d", 1, "")


def _geometry_l2(spec: MachineSpec) -> Iterator[Problem]:
    yield from _sets(spec, "caches.l2", 1, "")
    if "caches.l2.banks" in spec.values and (banks := spec.count("caches.l2.banks")) & (banks - 1):
        yield _problem(spec, "caches.l2.banks", f"{banks} is not a power of two", "banks are chosen by address bits")


def _geometry_last_level(spec: MachineSpec) -> Iterator[Problem]:
    cache = spec.last_level
    if cache:
        yield from _sets(spec, cache, spec.count(f"{cache}.slices"), "slices")


def _inclusion(spec: MachineSpec) -> Iterator[Problem]:
    clustered = spec.word("caches.l2.scope") == "cluster"
    l1s = spec.count("topology.cores_per_cluster") if clustered else 1
    l1, l2 = spec.count("caches.l1d.size"), spec.count("caches.l2.size")
    if l2 < l1 * l1s:
        yield _problem(spec, "caches.l2.size", f"{l2} B is less than the {l1s} L1 of {l1} B above it", "correct one of the sizes")
    cache = spec.last_level
    if cache and spec.word(f"{cache}.side") == "inclusive":
        size, parts = spec.count(f"{cache}.size"), nodes_of(spec)
        if size < parts * l2:
            yield _problem(
                spec,
                f"{cache}.size",
                f"{size} B cannot include {parts} L2 of {l2} B",
                "correct one of the sizes, or side: memory",
            )


def nodes_of(spec: MachineSpec) -> int:
    """Coherence agents: clusters where the L2 is shared, else cores."""
    clusters = spec.count("topology.clusters")
    return clusters if spec.word("caches.l2.scope") == "cluster" else clusters * spec.count("topology.cores_per_cluster")


def _cores(spec: MachineSpec) -> Iterator[Problem]:
    width, rate = spec.count("cores.width"), spec.quantity("cores.instructions_per_cycle")
    if rate.base > width:
        yield _problem(spec, "cores.instructions_per_cycle", f"{rate} is more than the width of {width}", "correct one of them")
    for name in ("window", "store_queue"):
        both = f"cores.{name}_smt"
        if both in spec.values and spec.count(both) > spec.count(f"cores.{name}"):
            yield _problem(
                spec,
                both,
                f"{spec.values[both].text} is more than {name} {spec.count(f'cores.{name}')} of a thread alone",
                "a running sibling does not add entries",
            )


def _roles(spec: MachineSpec) -> Iterator[Problem]:
    """Combinations the core has controllers for."""
    nodes, cache = nodes_of(spec), spec.last_level
    if nodes > MAX_NODES:
        yield _problem(spec, "topology.clusters", f"{nodes} coherence nodes", f"the core models up to {MAX_NODES}")
    scope, write = spec.word("caches.l2.scope"), spec.word("caches.l1d.write")
    if (scope, write) not in (("cluster", "through"), ("core", "back")):
        yield _problem(
            spec,
            "caches.l1d.write",
            f"write-{write} L1 under an L2 of scope {scope} is not modelled",
            "use through with cluster, back with core",
        )
    if spec.word("home.snoops") == "directory" and (cache is None or spec.word(f"{cache}.side") != "inclusive"):
        yield _problem(
            spec,
            "home.snoops",
            "a directory keeps its core-valid bits in an inclusive cache at the home, and there is none",
            "use broadcast, or add caches.l3 with side: inclusive",
        )


def _hits(spec: MachineSpec) -> Iterator[Problem]:
    l1, l2 = spec.time_fs("caches.l1d.hit"), spec.time_fs("caches.l2.hit")
    if l2 < l1:
        yield _problem(
            spec,
            "caches.l2.hit",
            f"{spec.values['caches.l2.hit'].text} is less than an L1 hit",
            "totals are load to use from the core",
        )
    if "caches.l2.hop" in spec.values and l2 <= 2 * spec.time_fs("caches.l2.hop"):
        yield _problem(
            spec,
            "caches.l2.hit",
            f"{spec.values['caches.l2.hit'].text} leaves no time for the L2 between two hops of "
            f"{spec.values['caches.l2.hop'].text}",
            "raise hit or lower hop",
        )


def _latencies(spec: MachineSpec) -> Iterator[Problem]:
    paths, period = total_paths(spec), spec.nominal_core_period_fs
    for fault in stages_of(spec)[1]:
        path = paths[fault.path]
        parts = " + ".join(f"{name} {fs / period:.1f}" for name, fs in fault.parts_fs.items())
        yield _problem(
            spec,
            path,
            f"{spec.values[path].text} is less than its parts: {parts} = {sum(fault.parts_fs.values()) / period:.1f} core cycles",
            "raise the total or lower a part",
        )
