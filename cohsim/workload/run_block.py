"""The ``run`` block: source of packets, who runs what, how long."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cohsim.workload import syntax as s
from cohsim.workload.compiled import Source
from cohsim.workload.program import Program

BIT_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
PACKET_RATES = {"pps": 1.0, "kpps": 1e3, "Mpps": 1e6}
TIMES_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
DEFAULT_RING, DEFAULT_POOL, DEFAULT_QUEUES = 128, 1024, 128


@dataclass(frozen=True)
class Task:
    """What one CPU does; path None is idle."""

    path: str | None
    once: bool
    pos: s.Pos


@dataclass
class RunPlan:
    """The run block, resolved for a number of CPUs."""

    tasks: list[Task]
    source: Source | None
    warmup_ns: float = 50_000.0
    measure_ns: float = 500_000.0

    @property
    def pool(self) -> int:
        return self.source.pool if self.source else 1

    @property
    def flows(self) -> int:
        return self.source.flows if self.source else 1


def quantity(program: Program, text: str, units: dict[str, float], pos: s.Pos, what: str) -> float:
    """Number with unit in base units; 1 after reporting a wrong one."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]+(?:/s)?)", text)
    if not match or match.group(2) not in units:
        program.problem(pos, f"{what} {text!r} has no known unit", "use " + ", ".join(units))
        return 1.0
    value = float(match.group(1)) * units[match.group(2)]
    if value <= 0:
        program.problem(pos, f"{what} {text!r} is not above 0", "give a positive value")
        return 1.0
    return value


def times_ns(program: Program, text: str, pos: s.Pos, what: str) -> float:
    """A time in nanoseconds that may be 0."""
    return 0.0 if re.fullmatch(r"0(\.0*)?[a-z]+", text) else quantity(program, text, TIMES_NS, pos, what)


def spread_weights(program: Program, spread: tuple, pos: s.Pos) -> tuple[float, ...]:
    """Share of the load of each CPU."""
    cpus = program.env.cpus
    kind = spread[0]
    if kind == "rss":
        queues = program.int(spread[1], pos)
        if queues < 1:
            program.problem(pos, f"rss over {queues} queues", "give at least one")
            queues = cpus
        counts = [queues // cpus + (1 if cpu < queues % cpus else 0) for cpu in range(cpus)]
    elif kind == "single":
        counts = [1] + [0] * (cpus - 1)
    elif kind == "weights":
        counts = list(spread[1:])
        if len(counts) != cpus or sum(counts) <= 0:
            program.problem(pos, f"{len(counts)} weights for {cpus} CPUs", "give one per CPU, not all 0")
            counts = [1] * cpus
    else:
        counts = [1] * cpus
    return tuple(c / sum(counts) for c in counts)


def make_source(program: Program, line: s.SourceLine) -> Source:
    """Source of packets. A bit rate counts the frame and its overhead on the wire."""
    options, pos = line.options, line.pos
    unit = {"B": 1.0}
    if "frame" not in options:
        program.problem(pos, "the source has no frame size", "add: frame 78B")
    frame = quantity(program, options.get("frame", ("64B",))[0], unit, pos, "frame")
    overhead = (
        0.0
        if options.get("overhead") == ("0B",)
        else quantity(program, options.get("overhead", ("20B",))[0], unit, pos, "overhead")
    )
    if line.rate.endswith("pps"):
        rate_pps = quantity(program, line.rate, PACKET_RATES, pos, "rate")
    else:
        rate_pps = quantity(program, line.rate, {**BIT_RATES, **PACKET_RATES}, pos, "rate") / (8 * (frame + overhead))
    link_bps = quantity(program, options["link"][0], BIT_RATES, pos, "link rate") if "link" in options else 0.0
    counts = {}
    for name, default in (("ring", DEFAULT_RING), ("flows", 1), ("pool", DEFAULT_POOL)):
        counts[name] = program.int(options.get(name, (default,))[0], pos)
        if counts[name] < 1:
            program.problem(pos, f"{name} {counts[name]}", "give at least 1")
    arrivals = options.get("arrivals", ("constant",))[0]
    if arrivals not in ("constant", "poisson"):
        program.problem(pos, f"unknown arrivals {arrivals!r}", "use constant or poisson")
    return Source(
        rate_pps,
        int(frame),
        int(overhead),
        counts["ring"],
        spread_weights(program, options.get("spread", ("even",)), pos),
        counts["flows"],
        link_bps,
        arrivals,
        counts["pool"],
    )


def plan(program: Program) -> RunPlan:
    """Resolve the run block; every problem is reported."""
    pos = program.run_pos or s.Pos(program.file, 1, 1)
    if program.run_pos is None:
        program.problem(pos, "no 'run' block", "add one: run / loop PATH")
    sources = [line for line in program.run if isinstance(line, s.SourceLine)]
    if len(sources) > 1:
        program.problem(sources[1].pos, "a second source", "keep one")
    for line in program.run:
        if sources and isinstance(line, s.TrafficLine):
            program.problem(line.pos, "'traffic' beside a source", "a source feeds CPUs directly, traffic goes through a NIC: keep one")
    result = RunPlan([], make_source(program, sources[0]) if sources else None)
    result.tasks = assign(program, pos, bool(sources))
    for line in program.run:
        if isinstance(line, s.CpuCount) and not suits(line, program.env.cpus):
            upper = "" if line.last == line.first else f" to {line.last}" if line.last else " or more"
            program.problem(
                line.pos, f"this workload is for {line.first}{upper} CPUs, not {program.env.cpus}", f"give --cpus {line.first}"
            )
        if isinstance(line, s.Times):
            if line.warmup:
                result.warmup_ns = times_ns(program, line.warmup, line.pos, "warmup")
            if line.measure:
                result.measure_ns = quantity(program, line.measure, TIMES_NS, line.pos, "measured time")
    return result


def suits(line: s.CpuCount, cpus: int) -> bool:
    """Whether the workload is meant for this number of CPUs."""
    return line.first <= cpus and (line.last is None or cpus <= line.last)


def assign(program: Program, pos: s.Pos, has_source: bool) -> list[Task]:
    """Task of every CPU."""
    cpus = program.env.cpus
    everywhere = [line for line in program.run if isinstance(line, s.OnPacket | s.Loop)]
    own = [line for line in program.run if isinstance(line, s.CpuRuns)]
    if len(everywhere) > 1 or (everywhere and own):
        program.problem(
            (own or everywhere[1:])[0].pos,
            "what the CPUs run is said twice",
            "keep one of: on packet PATH, loop PATH, cpu … runs PATH",
        )
    for line in everywhere:
        if isinstance(line, s.OnPacket) and not has_source:
            program.problem(line.pos, "'on packet' without a source", "add a source, or use 'loop PATH'")
        if isinstance(line, s.Loop) and has_source:
            program.problem(line.pos, "'loop' beside a source", "use 'on packet PATH', or remove the source")
    if everywhere:
        return [Task(everywhere[0].path, False, everywhere[0].pos)] * cpus
    tasks: list[Task | None] = [None] * cpus
    for task in own:
        first = program.int(task.first, task.pos)
        last = cpus - 1 if task.last is None else program.int(task.last, task.pos)
        if first > last and task.last is not None:
            program.problem(task.pos, f"CPUs {first}..{last}", "write the lower number first")
        for cpu in range(first, min(last, cpus - 1) + 1):
            if tasks[cpu] is not None:
                program.problem(task.pos, f"CPU {cpu} is given two programs", "make the ranges disjoint")
            tasks[cpu] = Task(task.path, task.once, task.pos)
    unsuitable = any(isinstance(line, s.CpuCount) and not suits(line, cpus) for line in program.run)  # reported by plan
    missing = [] if unsuitable else [str(i) for i, t in enumerate(tasks) if t is None]
    if missing and program.run_pos is not None:
        program.problem(
            pos,
            f"nothing is said about CPU {', '.join(missing)}",
            "add 'cpu N runs PATH' or 'cpu N.. idle'" if own else "add: loop PATH",
        )
    return [t or Task(None, True, pos) for t in tasks]
