"""NICs, interrupts, timers and traffic: from their lines to the tables of the core.

Two steps, because addresses and entries are known last: :func:`plan_devices` resolves and checks what the file says, and
:func:`finish_devices` puts ring addresses and entries in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from cohsim.uops import Register
from cohsim.workload import syntax as s
from cohsim.workload.compiled import Devices, Nic, Ring, Traffic, Vector
from cohsim.workload.layout import Placed
from cohsim.workload.program import Program, suggest
from cohsim.workload.rss import queue_of_flow
from cohsim.workload.run_block import BIT_RATES, PACKET_RATES, TIMES_NS, quantity, times_ns

MAX_NICS = 16  # MMIO has 4 bits for the NIC
MAX_QUEUES = 128
MAX_FLOWS = 1 << 16
MAX_NUMBER = 1 << 30  # sizes and counts of a NIC
REQUIRED = ("port", "queues", "rx ring", "tx ring", "irq rx", "irq tx")
REGISTERS = {r.name.lower(): r for r in Register}
DROPPED = "dropped"
NO_RING = Ring(0, 0, 1, 16, -1, -1, -1, -1)
BYTES = {"B": 1.0}


@dataclass
class VectorPlan:
    """A vector whose path has no entry yet."""

    vector: Vector
    path: str
    pos: s.Pos


@dataclass
class DevicePlan:
    """Devices of a run, checked but for what placement decides."""

    nics: list[Nic] = field(default_factory=list)
    rings: list[tuple[s.NicLine, s.NicLine]] = field(default_factory=list)  # RX and TX line of each NIC
    vectors: list[VectorPlan] = field(default_factory=list)
    interrupts: dict[str, int] = field(default_factory=dict)  # name -> vector of CPU 0
    traffic: list[Traffic] = field(default_factory=list)
    counters: list[str] = field(default_factory=lambda: [DROPPED])
    waits: bool = False  # a program waits or counts

    @property
    def queues(self) -> int:
        return max((nic.queues for nic in self.nics), default=1)

    @property
    def flows(self) -> int:
        return max((len(t.queue_of_flow) for t in self.traffic), default=1)

    @property
    def present(self) -> bool:
        return bool(self.nics or self.vectors or self.waits)

    def counter(self, name: str) -> int:
        """Number of a counter, made where it is new."""
        self.waits = True
        if name not in self.counters:
            self.counters.append(name)
        return self.counters.index(name)


def plan_devices(program: Program) -> DevicePlan:
    """Resolve NICs and the run lines that concern them; every problem is reported."""
    result = DevicePlan()
    if len(program.nics) > MAX_NICS:
        program.problem(list(program.nics.values())[MAX_NICS].pos, f"more than {MAX_NICS} NICs", "remove some")
    for node in program.nics.values():
        _plan_nic(program, node, result)
    _rings_of_their_own(program, result)
    for line in program.run:
        if isinstance(line, s.TimerLine):
            _plan_timer(program, line, result)
        elif isinstance(line, s.InterruptLine):
            _plan_interrupt(program, line, result)
    for line in program.run:
        if isinstance(line, s.TrafficLine):
            _plan_traffic(program, line, result)
        elif isinstance(line, s.AcksLine):
            _plan_acks(program, line, result)
        elif isinstance(line, s.OutputLine):
            _plan_output(program, line, result)
    return result


def find_nic(program: Program, result: DevicePlan, name: str, pos: s.Pos) -> int | None:
    """Index of a NIC, or None after reporting."""
    names = [nic.name for nic in result.nics]
    if name in names:
        return names.index(name)
    program.problem(pos, f"unknown nic {name!r}", suggest(name, names) if names else "declare it: nic " + name)
    return None


# ---- NICs -------------------------------------------------------------------------------------------------------------------


def _plan_nic(program: Program, node: s.Nic, result: DevicePlan) -> None:
    lines = {line.key: line for line in node.body if isinstance(line, s.NicLine)}
    missing = [key for key in REQUIRED if key not in lines]
    if missing:
        program.problem(node.pos, f"nic {node.name!r} has no line {', '.join(repr(m) for m in missing)}", "add what is missing")
        return

    def values(key: str, **default: Any) -> tuple[dict[str, Any], s.Pos]:
        return (lines[key].values, lines[key].pos) if key in lines else (default, node.pos)

    def time(key: str, name: str = "time") -> float:
        found, pos = values(key)
        return times_ns(program, found[name], pos, key) if found.get(name) else 0.0

    port, pos = values("port")
    fifo, fifo_pos = values("fifo", size=512 << 10)
    flow, flow_pos = values("flow", offset=26)
    writeback, writeback_pos = values("writeback", count=1, timeout=None)
    queues = _queues(program, lines["queues"])
    rx_vectors, tx_vectors = (_nic_vectors(program, node, lines[f"irq {side}"], side, queues, result) for side in ("rx", "tx"))
    result.rings.append((lines["rx ring"], lines["tx ring"]))
    result.nics.append(
        Nic(
            node.name,
            quantity(program, port["rate"], BIT_RATES, pos, "port rate"),
            _bytes(program, port["overhead"], pos, "overhead"),
            queues,
            _plan_ring(program, lines["rx ring"]),
            _plan_ring(program, lines["tx ring"]),
            _at_least(program, flow["offset"], 0, flow_pos, "flow"),
            _at_least(program, fifo["size"], 1, fifo_pos, "fifo"),
            values("flow-control", pause=True)[0]["pause"],
            values("full", drop=False)[0]["drop"],
            time("rx service"),
            time("tx service"),
            _at_least(program, writeback["count"], 1, writeback_pos, "writeback"),
            time("writeback", "timeout") or 2000.0,
            time("moderation rx"),
            time("moderation tx"),
            rx_vectors,
            tx_vectors,
        )
    )


def _queues(program: Program, line: s.NicLine) -> int:
    count = line.values["count"]
    queues = program.env.cpus if count is None else program.int(count, line.pos)
    if not 1 <= queues <= MAX_QUEUES:
        program.problem(line.pos, f"{queues} queues", f"a NIC has 1 to {MAX_QUEUES}")
        return 1
    return queues


def _nic_vectors(program: Program, node: s.Nic, line: s.NicLine, side: str, queues: int, result: DevicePlan) -> tuple[int, ...]:
    """One vector for each queue; returns their numbers."""
    place, number = line.values["place"], program.int(line.values["number"], line.pos)
    cpus, first = program.env.cpus, len(result.vectors)
    if number < 0 or (place == "cpu" and number >= cpus):
        program.problem(line.pos, f"{place} {number} in a run of {cpus} CPUs", f"name one of 0..{cpus - 1}, or write 'on queue'")
        number = 0
    for queue in range(queues):
        cpu = number if place == "cpu" else (queue + number) % cpus
        result.vectors.append(VectorPlan(Vector(f"{node.name}-{side}-{queue}", cpu, -1, queue), line.values["path"], line.pos))
    return tuple(range(first, first + queues))


def _plan_ring(program: Program, line: s.NicLine) -> Ring:
    """A ring without its address. Parts that the NIC and the driver exchange are naturally aligned, so that none crosses a line."""
    rx = line.key == "rx ring"
    options = {name: program.int(value, line.pos) for name, value in line.values["options"].items()}
    size = options.get("descriptor", 16)
    parts = {"address": 0, "done": 8, "info": 12} if rx else {"command": 0, "done": 8}
    parts |= {name: at for name, at in options.items() if name != "descriptor"}
    widths = {"address": 8, "command": 8, "done": 4, "info": 4}
    entries = program.int(line.values["entries"], line.pos)
    if entries < 2:
        program.problem(line.pos, f"a ring of {entries} entries", "give at least 2")
        entries = 2
    if size < 8 or size % 8:
        program.problem(line.pos, f"descriptors of {size} bytes", "a descriptor is a multiple of 8 bytes")
        size = 16
    for name, at in parts.items():
        if at < 0 or at % widths[name] or at + widths[name] > size:
            program.problem(
                line.pos,
                f"{name} at {at} of a descriptor of {size} bytes",
                f"it has {widths[name]} bytes, is aligned to them and inside the descriptor",
            )
    placed = sorted((at, name) for name, at in parts.items())
    for (at, name), (other, name2) in zip(placed, placed[1:], strict=False):
        if at + widths[name] > other:
            program.problem(line.pos, f"{name} and {name2} of the descriptor overlap", "move one")
    return Ring(
        0, 0, entries, size, parts.get("address", -1), parts.get("command", -1), parts["done"], parts.get("info", -1)
    )


def _rings_of_their_own(program: Program, result: DevicePlan) -> None:
    owner: dict[str, str] = {}
    for nic, lines in zip(result.nics, result.rings, strict=True):
        for line in lines:
            name = line.values["object"]
            mine = f"the {line.key} of {nic.name}"
            if name in owner:
                program.problem(line.pos, f"object {name!r} is {owner[name]} already", "give each ring an object of its own")
            owner[name] = mine
            _check_ring_object(program, name, line)


def _check_ring_object(program: Program, name: str, line: s.NicLine) -> None:
    node = program.objects.get(name)
    if node is None:
        program.problem(line.pos, f"unknown object {name!r}", suggest(name, program.objects))
    elif node.scope != "per-queue":
        program.problem(line.pos, f"object {name!r} is {node.scope}", "a ring is a per-queue object: every queue has its own")


# ---- run lines ----------------------------------------------------------------------------------------------------------------


def _plan_timer(program: Program, line: s.TimerLine, result: DevicePlan) -> None:
    """A timer on every CPU; their first ticks are spread over one period, so that CPUs do not tick together."""
    period, cpus = quantity(program, line.period, TIMES_NS, line.pos, "timer period"), program.env.cpus
    for cpu in range(cpus):
        result.vectors.append(
            VectorPlan(Vector("timer", cpu, -1, cpu, period, period * (cpu + 1) / cpus), line.path, line.pos)
        )


def _plan_interrupt(program: Program, line: s.InterruptLine, result: DevicePlan) -> None:
    if line.name in result.interrupts:
        program.problem(line.pos, f"interrupt {line.name!r} stands twice", "rename or remove one")
        return
    result.interrupts[line.name] = len(result.vectors)
    for cpu in range(program.env.cpus):
        result.vectors.append(VectorPlan(Vector(line.name, cpu, -1, cpu), line.path, line.pos))


def _plan_traffic(program: Program, line: s.TrafficLine, result: DevicePlan) -> None:
    options, pos = line.options, line.pos
    spread = options.get("spread", ("even",))
    unknown = sorted(set(options) - {"frame", "overhead", "flows", "spread", "arrivals"})
    if unknown or spread[0] not in ("even", "rss") or spread[1:] not in ((), (128,)):
        what = unknown[0] if unknown else "spread " + " ".join(map(str, spread))
        program.problem(pos, f"traffic has no {what!r}", "known: frame, overhead, flows, spread even|rss, arrivals")
        return
    if "frame" not in options:
        program.problem(pos, "the traffic has no frame size", "add: frame 64B")
        return
    frame = _bytes(program, options["frame"][0], pos, "frame")
    overhead = _bytes(program, options.get("overhead", ("20B",))[0], pos, "overhead")
    wire_bits = 8 * (frame + overhead) or 1
    rate = quantity(program, line.rate, {**BIT_RATES, **PACKET_RATES}, pos, "rate")
    pps = rate if line.rate.endswith("pps") else rate / wire_bits
    flows = _at_least(program, options.get("flows", (1,))[0], 1, pos, "flows")
    if flows > MAX_FLOWS:
        program.problem(pos, f"{flows} flows", f"at most {MAX_FLOWS}")
        flows = 1
    arrivals = options.get("arrivals", ("constant",))[0]
    if arrivals not in ("constant", "poisson"):
        program.problem(pos, f"unknown arrivals {arrivals!r}", "use constant or poisson")
    index = find_nic(program, result, line.nic, pos)
    if index is None:
        return
    nic = result.nics[index]
    if any(t.nic == index for t in result.traffic):
        program.problem(pos, f"a second traffic into {nic.name}", "keep one")
    if pps * wire_bits > nic.port_bps * (1 + 1e-9):
        program.problem(
            pos,
            f"{pps * wire_bits / 1e9:.4g} Gbit/s of traffic into the {nic.port_bps / 1e9:.4g} Gbit/s port of {nic.name}",
            "offer no more than the port can carry",
        )
    _check_flow(program, nic, frame, pos)
    result.traffic.append(Traffic(index, pps, frame, overhead, queue_of_flow(spread[0], flows, nic.queues), arrivals))


def _check_flow(program: Program, nic: Nic, frame: int, pos: s.Pos) -> None:
    if frame < nic.flow_at + 4:
        program.problem(
            pos,
            f"a frame of {frame} bytes has no flow number at byte {nic.flow_at}",
            f"a frame has at least {nic.flow_at + 4} bytes, or move it: 'flow' of nic {nic.name}",
        )


def _plan_acks(program: Program, line: s.AcksLine, result: DevicePlan) -> None:
    index = find_nic(program, result, line.nic, line.pos)
    if index is None:
        return
    nic = result.nics[index]
    if nic.ack_every:
        program.problem(line.pos, f"a second acks line for {nic.name}", "keep one")
    frame = _bytes(program, line.frame, line.pos, "frame")
    _check_flow(program, nic, frame, line.pos)
    result.nics[index] = replace(
        nic,
        ack_every=_at_least(program, line.every, 1, line.pos, "every"),
        ack_delay_ns=times_ns(program, line.delay, line.pos, "delay"),
        ack_moderation_ns=times_ns(program, line.moderation, line.pos, "moderation"),
        ack_bytes=frame,
    )


def _plan_output(program: Program, line: s.OutputLine, result: DevicePlan) -> None:
    chosen = {find_nic(program, result, name, line.pos) for name in line.nics}
    result.nics[:] = [replace(nic, output=i in chosen) for i, nic in enumerate(result.nics)]


def _bytes(program: Program, text: str, pos: s.Pos, what: str) -> int:
    return 0 if text == "0B" else int(quantity(program, text, BYTES, pos, what))


def _at_least(program: Program, value: s.Int, least: int, pos: s.Pos, what: str) -> int:
    number = program.int(value, pos)
    if number < least:
        program.problem(pos, f"{what} {number}", f"give at least {least}")
    if number > MAX_NUMBER:
        program.problem(pos, f"{what} {number}", f"give at most {MAX_NUMBER}")
        return least
    return max(number, least)


# ---- addresses and entries ----------------------------------------------------------------------------------------------------


def finish_devices(
    program: Program, plan: DevicePlan, objects: dict[str, Placed], entries: dict[str, int]
) -> Devices | None:
    """The tables of the core, or None for a workload without devices. ``entries``: first micro-op of each interrupt path."""
    if not plan.present:
        return None
    nics = [
        replace(nic, rx=_placed_ring(program, nic.rx, rx, objects), tx=_placed_ring(program, nic.tx, tx, objects))
        for nic, (rx, tx) in zip(plan.nics, plan.rings, strict=True)
    ]
    vectors = tuple(replace(v.vector, entry=entries.get(v.path, 0)) for v in plan.vectors)
    return Devices(tuple(nics), vectors, tuple(plan.traffic), tuple(plan.counters))


def _placed_ring(program: Program, ring: Ring, line: s.NicLine, objects: dict[str, Placed]) -> Ring:
    item = objects.get(line.values["object"])
    if item is None:
        return ring  # reported
    if ring.entries * ring.descriptor > item.size:
        program.problem(
            line.pos,
            f"{ring.entries} descriptors of {ring.descriptor} bytes do not fit into the {item.size} bytes of {item.name!r}",
            f"give it {ring.entries * ring.descriptor} bytes",
        )
    if item.base % 8 or item.stride % 8:
        program.problem(line.pos, f"object {item.name!r} is not aligned to 8 bytes", "mend its offset or stride")
    return replace(ring, base=item.base, stride=item.stride)
