"""One experiment: a machine, a workload and settings in, a :class:`Result` out. Commands, sweeps and tests run this way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cohsim.datafiles import find_data
from cohsim.errors import InputError, Problem
from cohsim.governor import governed, p_states
from cohsim.machine import compile_machine, load_machine
from cohsim.machine.compiled import CompiledMachine
from cohsim.machine.spec import MachineSpec
from cohsim.results.build import build_result
from cohsim.results.lines import log_addresses
from cohsim.results.provenance import GOVERNORS, PERFORMANCE, Settings, collect
from cohsim.results.result import Result
from cohsim.simulate import simulate
from cohsim.traces import RecordedTrace, compile_recorded, load_recorded
from cohsim.workload import load_workload
from cohsim.workload.compiled import CompiledWorkload
from cohsim.workload.lower import FAR

RECORDED_SUFFIX = ".mtc.xz"
CHUNK_RECORDS = 1 << 16  # operations handed to the core at a time
LOG_EVENTS = 20_000  # events kept of the logged lines, unless asked otherwise


@dataclass(frozen=True)
class Experiment:
    """Everything decided, nothing run yet."""

    settings: Settings
    machine_spec: MachineSpec
    machine: CompiledMachine
    workload: CompiledWorkload
    trace: RecordedTrace | None = None  # its streams run in place of the workload's program
    log_addresses: tuple[int, ...] = ()  # of the lines in settings.log_lines

    def run(self, progress: Callable[[float], None] | None = None, command: list[str] | None = None) -> Result:
        """Simulate and aggregate. Raises SimulationError if the simulated system fails; an interrupt gives a partial result whose
        ``/run/stop`` is ``interrupted``. ``command`` is recorded as provenance (default: this process's command line). With a
        governor that chooses it is the run at the clock that it settles on (:func:`cohsim.governor.governed`).
        """
        if self.settings.governor != PERFORMANCE and self.machine_spec.clock is None:
            return governed(self, progress=progress, command=command)[0]
        provenance = collect(self.settings, self.machine_spec.files, command)
        s = self.settings
        trace = self.trace
        streams = None if trace is None else [trace.chunks(vcpu, CHUNK_RECORDS) for vcpu in trace.vcpus]
        data = simulate(
            self.machine,
            self.workload,
            pin=s.pin,
            seed=s.seed,
            lookahead=s.lookahead,
            check=s.check,
            warmup_ns=s.warmup_ns,
            measure_ns=s.measure_ns,
            progress=progress,
            streams=streams,
            log_lines=self.log_addresses,
            log_events=s.log_events,
        )
        return build_result(self.machine_spec, self.machine, self.workload, data, provenance)


def prepare(
    machine: str,
    workload: str,
    *,
    cpus: int | None = None,
    pin: Sequence[int] | None = None,
    variants: Sequence[str] = (),
    layouts: Sequence[str] = (),
    kernel: str | None = None,
    overrides: Sequence[str] = (),
    locks: Sequence[str] = (),
    isa_options: Sequence[str] = (),
    seed: int = 1,
    warmup_ns: float | None = None,
    measure_ns: float | None = None,
    lookahead: bool = True,
    check: bool = False,
    load_pps: float | None = None,
    log_lines: Sequence[str] = (),
    log_events: int = LOG_EVENTS,
    governor: str = PERFORMANCE,
) -> Experiment:
    """Load and compile both inputs (a file, or the name of one that comes with cohsim).

    ``cpus`` defaults to the length of ``pin``, or all CPUs of the machine; ``load_pps`` to the offered load that the workload states;
    ``log_lines`` name lines (``route+128``) whose first ``log_events`` events are kept; ``governor`` is one of GOVERNORS. Raises InputError
    (MachineError, WorkloadError, TraceError) with every problem found.
    """
    wanted = Settings(
        machine_file=machine,
        workload_file=workload,
        cpus=0,  # this and the next are decided below
        pin=(),
        variants=tuple(variants),
        layouts=tuple(layouts),
        kernel=kernel,
        overrides=tuple(overrides),
        locks=tuple(locks),
        isa_options=tuple(isa_options),
        seed=seed,
        warmup_ns=warmup_ns,
        measure_ns=measure_ns,
        lookahead=lookahead,
        check=check,
        recorded=workload.endswith(RECORDED_SUFFIX),
        load_pps=load_pps,
        log_lines=tuple(log_lines),
        log_events=log_events if log_lines else 0,
        governor=governor,
    )
    spec = load_machine(machine, wanted.overrides)
    compiled = compile_machine(spec)
    if governor not in GOVERNORS:
        raise InputError(Problem("--governor", f"{governor!r} is not modelled", f"choose from {', '.join(GOVERNORS)}"))
    if governor != PERFORMANCE:
        p_states(spec)  # its errors now
    trace = None
    if wanted.recorded:
        trace, program = _recorded(wanted, compiled, cpus)
        placed = place_cpus(len(compiled.cpu_core), compiled.name, program.cpus, pin)
    else:
        placed = place_cpus(len(compiled.cpu_core), compiled.name, cpus, pin)
        program = _written(wanted, compiled, len(placed))
    settings = replace(wanted, cpus=len(placed), pin=placed)
    logged = log_addresses(settings.log_lines, program.objects, compiled.line_bytes)
    return Experiment(settings, spec, compiled, program, trace, logged)


def _recorded(wanted: Settings, machine: CompiledMachine, cpus: int | None) -> tuple[RecordedTrace, CompiledWorkload]:
    """A recorded trace, and the micro-ops its records point to."""
    of_text = {
        "--variant": wanted.variants,
        "--layout": wanted.layouts,
        "--kernel": wanted.kernel,
        "--load": wanted.load_pps,
        "--lock": wanted.locks,
        "--isa": wanted.isa_options,
    }
    for option, value in of_text.items():
        if value:
            raise InputError(Problem(option, "applies to .trace workloads, not to a recorded trace", "leave it out"))
    trace = load_recorded(find_data("workloads", wanted.workload_file, RECORDED_SUFFIX))
    program, _ = compile_recorded(trace, machine.isa, machine.line_bytes)
    if cpus is not None and cpus != program.cpus:
        raise InputError(Problem("--cpus", f"{wanted.workload_file} was recorded on {program.cpus} CPUs, not {cpus}", "leave it out"))
    return trace, program


def _written(wanted: Settings, machine: CompiledMachine, cpus: int) -> CompiledWorkload:
    """A .trace workload with the wanted options."""
    program = load_workload(
        wanted.workload_file,
        isa=machine.isa,
        cpus=cpus,
        variants=wanted.variants,
        layouts=wanted.layouts,
        kernel=wanted.kernel,
        locks=wanted.locks,
        isa_options=wanted.isa_options,
    )
    if wanted.load_pps is not None:
        program = with_load(program, wanted.load_pps)
    if machine.l2_private and f"atomics={FAR}" in wanted.isa_options:
        what = f"atomics={FAR}: {machine.name} has no L2 that cores share and that could perform an atomic"
        raise InputError(Problem("--isa", what, "leave it out, or choose a machine with cluster L2s"))
    return program


def offered_pps(workload: CompiledWorkload) -> float:
    """Packets per second that the workload is offered, all queues and NICs; 0 without a source."""
    if workload.source is not None:
        return workload.source.rate_pps
    return sum(t.rate_pps for t in workload.devices.traffic) if workload.devices else 0.0


def with_load(workload: CompiledWorkload, load_pps: float) -> CompiledWorkload:
    """The workload with another offered load; several traffic sources keep their proportions. Raises InputError if it has none."""
    stated = offered_pps(workload)
    if load_pps <= 0:
        raise InputError(Problem("--load", "the offered load must be above 0", "give a rate such as 1.4Mpps"))
    if not stated:
        raise InputError(Problem("--load", f"{workload.name} has no packet source", "leave it out"))
    if workload.source is not None:
        return replace(workload, source=replace(workload.source, rate_pps=load_pps))
    assert workload.devices is not None
    traffic = tuple(replace(t, rate_pps=t.rate_pps * load_pps / stated) for t in workload.devices.traffic)
    return replace(workload, devices=replace(workload.devices, traffic=traffic))


def place_cpus(available: int, machine: str, cpus: int | None, pin: Sequence[int] | None) -> tuple[int, ...]:
    """Machine CPU of each CPU of the run. Raises InputError if the machine has no such CPU or ``cpus`` and ``pin`` disagree."""
    problems = []
    if cpus is not None and not 1 <= cpus <= available:
        problems.append(Problem("--cpus", f"{cpus} CPUs asked for, {machine} has {available}", f"choose 1 to {available}"))
    if pin is not None:
        problems += [
            Problem("--pin", f"{machine} has no CPU {cpu}", f"choose from 0 to {available - 1}")
            for cpu in pin
            if not 0 <= cpu < available
        ]
        problems += [
            Problem("--pin", f"CPU {cpu} is named {pin.count(cpu)} times", "name each CPU once")
            for cpu in sorted(set(pin))
            if pin.count(cpu) > 1
        ]
        if cpus is not None and len(pin) != cpus:
            problems.append(Problem("--pin", f"names {len(pin)} CPUs, --cpus says {cpus}", "make them agree or leave --cpus out"))
    if problems:
        raise InputError(problems)
    return tuple(pin) if pin is not None else tuple(range(cpus if cpus is not None else available))
