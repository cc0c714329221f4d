"""Parse trees of one line to syntax nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lark import Token, Transformer, v_args

from cohsim.errors import Problem, WorkloadError
from cohsim.workload import syntax as s

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def integer(text: str) -> int:
    """Value of an INT token."""
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(text[:-3]) * factor
    return int(text, 16) if text[:2].lower() == "0x" else int(text)


@dataclass(frozen=True)
class OrElse(s.Statement):
    """``else`` (or ``else if``) before it is joined to its ``if`` or ``when``."""

    condition: s.Condition | None = None
    hint: str = ""


@v_args(inline=True)
class NodeBuilder(Transformer):
    """Lark trees of one line to syntax nodes; ``pos`` is set by the caller before each line."""

    def __init__(self) -> None:
        super().__init__()
        self.pos = s.Pos("", 0, 0)

    def at(self, token: Any) -> s.Pos:
        return replace(self.pos, column=getattr(token, "column", None) or self.pos.column)

    # terms
    def int_number(self, t: Token) -> int:
        return integer(t)

    def int_negative(self, t: Token) -> int:
        return -integer(t)

    def int_name(self, t: Token) -> str:
        return str(t)

    def int_literal(self, t: Token) -> Token:
        return t

    def dotted(self, t: Token) -> Token:
        return t

    anyname = option_name = counted_name = sized_name = amount_name = hint = calling = dotted
    overlaps = dependent = low = once = direction = ring_field = flow_control = full = dotted

    def number(self, t: Token) -> tuple:
        return s.Num(integer(t)), self.at(t)

    def negative(self, t: Token) -> tuple:
        return s.Num(-integer(t)), self.at(t)

    def ref(self, t: Token) -> tuple:
        return s.Ref(str(t)), self.at(t)

    def deref(self, e: s.Expr) -> tuple:
        return s.Deref(e), e.pos

    def arrow(self, r: Token, path: Token) -> tuple:
        return s.Arrow(str(r), str(path)), self.at(r)

    def addr(self, t: Token) -> tuple:
        return s.AddrOf(str(t), None), self.at(t)

    def addr_index(self, t: Token, r: Token) -> tuple:
        return s.AddrOf(str(t), str(r)), self.at(t)

    def addr_scaled(self, t: Token, r: Token, scale: Any) -> tuple:
        return s.AddrOf(str(t), str(r), scale), self.at(t)

    def addr_arrow(self, r: Token, path: Token) -> tuple:
        return s.AddrOf(str(r), None, arrow=str(path)), self.at(r)

    def scale(self, n: s.Int) -> s.Int:
        return n

    def scale_size(self, name: Token) -> s.SizeOf:
        return s.SizeOf(str(name))

    def sizeof(self, name: Token) -> tuple:
        return s.SizeOf(str(name)), self.at(name)

    def expr(self, first: tuple, *more: Any) -> s.Expr:
        rest = tuple((str(more[i]), more[i + 1][0]) for i in range(0, len(more) - 1, 2))
        return s.Expr(first[1], first[0], rest, more[-1])

    def compare(self, a: s.Expr, rel: Token, b: s.Expr) -> s.Condition:
        return s.Condition(a, str(rel), b)

    def bits(self, e: s.Expr) -> s.Condition:
        return self._bit_test(e, False)

    def no_bits(self, e: s.Expr) -> s.Condition:
        return self._bit_test(e, True)

    def _bit_test(self, e: s.Expr, negated: bool) -> s.Condition:
        if len(e.rest) != 1 or e.rest[0][0] != "&":
            raise WorkloadError(
                Problem(
                    str(e.pos), "a condition compares two values or tests bits", "write a == b, a < b, a & mask or not a & mask"
                )
            )
        return s.Condition(s.Expr(e.pos, e.first), "&", s.Expr(e.pos, e.rest[0][1]), negated)

    # top level
    def kernel(self, v: Token) -> s.Kernel:
        return s.Kernel(self.pos, str(v))

    def title(self, t: Token) -> s.Title:
        return s.Title(self.pos, t[1:-1])

    def assume(self, t: Token) -> s.Assume:
        return s.Assume(self.pos, t[1:-1])

    def param(self, n: Token, v: s.Int) -> s.Param:
        return s.Param(self.at(n), str(n), v)

    def struct(self, n: Token, size: s.Int) -> s.Struct:
        return s.Struct(self.at(n), str(n), size)

    def bytes(self, n: s.Int) -> tuple:
        return None, n

    def structured(self, n: Token) -> tuple:
        return str(n), None

    def option(self, name: Token, value: s.Int) -> tuple:
        return str(name), value

    def beside(self, name: Token, offset: s.Int | None) -> tuple:
        return "at", str(name), offset or 0

    def init_int(self, f: Token, v: s.Int) -> s.Init:
        return s.Init(str(f), v)

    def init_cpu(self, f: Token, v: s.Int) -> s.Init:
        return s.Init(str(f), v, plus_instance=True)

    def init_cpu0(self, f: Token) -> s.Init:
        return s.Init(str(f), 0, plus_instance=True)

    def init_addr(self, f: Token, target: Token) -> s.Init:
        return s.Init(str(f), None, address=str(target))

    def object(self, name: Token, shape: tuple, scope: Token, *more: Any) -> s.Object:
        options: dict[str, s.Int] = {}
        at = None
        init = []
        for item in more:
            if isinstance(item, s.Init):
                init.append(item)
            elif isinstance(item, tuple) and item[0] == "at":
                at = (item[1], item[2])
            elif isinstance(item, tuple):
                if item[0] in options:
                    raise WorkloadError(Problem(str(self.at(name)), f"option {item[0]!r} is given twice", "keep one"))
                options[item[0]] = item[1]
        return s.Object(self.at(name), str(name), shape[0], shape[1], str(scope), options, at, tuple(init))

    def parameter(self, name: Token, initially: s.Int | None) -> s.Parameter:
        return s.Parameter(str(name), initially)

    def replace(self, *words: Any) -> bool:
        return bool([w for w in words if w is not None])

    def function(self, replaces: bool, name: Token, symbol: Token | None, *parameters: Any) -> s.Function:
        return s.Function(self.at(name), str(name), tuple(p for p in parameters if p), replaces, symbol=str(symbol or ""))

    def path(self, replaces: bool, name: Token) -> s.Path:
        return s.Path(self.at(name), str(name))

    def include(self, file: Token) -> s.Include:
        return s.Include(self.at(file), file[1:-1])

    def nic(self, name: Token) -> s.Nic:
        return s.Nic(self.at(name), str(name))

    def variant(self, name: Token, text: Token | None) -> s.Variant:
        return s.Variant(self.at(name), str(name), text[1:-1] if text else "")

    def choice(self, name: Token, *variants: Token) -> s.Choice:
        return s.Choice(self.at(name), str(name), tuple(str(v) for v in variants))

    def layout(self, option: Token) -> s.LayoutLine:
        return s.LayoutLine(self.at(option), option.strip("'"))

    def test_isa(self, name: Token) -> s.Test:
        if name not in ("x86", "power"):
            raise WorkloadError(Problem(str(self.at(name)), f"unknown instruction set {str(name)!r}", "use x86 or power"))
        return s.Test("isa", "==", str(name))

    def test_kernel(self, rel: Token, version: Token) -> s.Test:
        return s.Test("kernel", str(rel), str(version))

    def test_cpus(self, rel: Token, n: Token) -> s.Test:
        return s.Test("cpus", str(rel), str(integer(n)))

    def test_variant(self, name: Token) -> s.Test:
        return s.Test("variant", "==", str(name))

    def when(self, test: s.Test) -> s.When:
        return s.When(self.pos, test, False)

    def unless(self, test: s.Test) -> s.When:
        return s.When(self.pos, test, True)

    def orelse(self) -> OrElse:
        return OrElse(self.pos)

    def orelse_if(self, condition: s.Condition, hint: Token | None) -> OrElse:
        return OrElse(self.pos, condition, str(hint or ""))

    def run(self) -> s.Run:
        return s.Run(self.pos)

    def field(self, name: Token, offset: s.Int, size: s.Int, overlaps: Token | None) -> s.Field:
        return s.Field(self.at(name), str(name), offset, size, overlaps is not None)

    # statements
    def amount(self, kind: Token, n: s.Int) -> tuple:
        return str(kind), n

    def traffic(self, *parts: Any) -> s.Traffic:
        amounts = dict(parts[:-1])
        return s.Traffic(amounts.get("loads", 0), amounts.get("stores", 0), parts[-1])

    def work(self, n: s.Int, *traffic: s.Traffic) -> s.Work:
        return s.Work(self.pos, n, traffic)

    def load(self, address: s.Expr, times: s.Int | None, dep: Token | None) -> s.Load:
        return s.Load(self.pos, None, address, 1 if times is None else times, dep is not None)

    def load_to(self, dst: Token, address: s.Expr, times: s.Int | None, dep: Token | None) -> s.Load:
        return s.Load(self.pos, str(dst), address, 1 if times is None else times, dep is not None)

    def store(self, address: s.Expr, value: s.Expr | None, times: s.Int | None) -> s.Store:
        return s.Store(self.pos, address, value, 1 if times is None else times)

    def rmw(self, fn: Token, address: s.Expr, *operands: s.Expr) -> s.Rmw:
        return s.Rmw(self.at(fn), None, str(fn), address, operands)

    def rmw_to(self, dst: Token, fn: Token, address: s.Expr, *operands: s.Expr) -> s.Rmw:
        return s.Rmw(self.at(fn), str(dst), str(fn), address, operands)

    def ll(self, dst: Token, address: s.Expr) -> s.LoadLinked:
        return s.LoadLinked(self.pos, str(dst), address)

    def sc(self, dst: Token, address: s.Expr, value: s.Expr) -> s.StoreConditional:
        return s.StoreConditional(self.pos, str(dst), address, value)

    def assign(self, dst: Token, value: s.Expr) -> s.Assign:
        return s.Assign(self.pos, str(dst), value)

    def invoke(self, name: Token, *args: Any) -> s.Invoke:
        return s.Invoke(self.at(name), None, str(name), tuple(a for a in args if a is not None), "plain")

    def invoke_to(self, dst: Token, name: Token, *args: s.Expr) -> s.Statement:
        if len(args) == 1 and isinstance(args[0].first, s.Num) and args[0].first.value < 0:  # `r = a -1`
            minus = ("-", s.Num(-args[0].first.value))
            return s.Assign(self.pos, str(dst), s.Expr(self.at(name), s.Ref(str(name)), (minus, *args[0].rest)))
        return s.Invoke(self.at(name), str(dst), str(name), args, "plain")

    def call(self, mode: Token, name: Token, *args: Any) -> s.Invoke:
        return s.Invoke(self.at(name), None, str(name), tuple(a for a in args if a is not None), str(mode))

    def call_to(self, dst: Token, mode: Token, name: Token, *args: Any) -> s.Invoke:
        return s.Invoke(self.at(name), str(dst), str(name), tuple(a for a in args if a is not None), str(mode))

    def fence(self, kind: Token) -> s.FenceStatement:
        return s.FenceStatement(self.at(kind), str(kind))

    def pause(self, low: Token | None) -> s.Pause:
        return s.Pause(self.pos, low is not None)

    def if_block(self, condition: s.Condition, hint: Token | None) -> s.If:
        return s.If(self.pos, condition, None, str(hint or ""))

    def if_goto(self, condition: s.Condition, label: Token, hint: Token | None) -> s.If:
        return s.If(self.pos, condition, str(label), str(hint or ""))

    def while_block(self, condition: s.Condition) -> s.While:
        return s.While(self.pos, condition, False)

    def spin_block(self, condition: s.Condition) -> s.While:
        return s.While(self.pos, condition, True)

    def repeat(self, n: s.Int) -> s.Repeat:
        return s.Repeat(self.pos, n, False)

    def unroll(self, n: s.Int) -> s.Repeat:
        return s.Repeat(self.pos, n, True)

    def label(self, name: Token) -> s.Label:
        return s.Label(self.at(name), str(name))

    def goto(self, name: Token) -> s.Goto:
        return s.Goto(self.at(name), str(name))

    def return_(self, value: s.Expr | None) -> s.Return:
        return s.Return(self.pos, value)

    def halt(self) -> s.Halt:
        return s.Halt(self.pos)

    def forever(self, _: Token) -> s.Forever:
        return s.Forever(self.pos)

    def break_(self, _: Token) -> s.Leave:
        return s.Leave(self.pos, False)

    def continue_(self, _: Token) -> s.Leave:
        return s.Leave(self.pos, True)

    def wait(self, _: Token) -> s.Wait:
        return s.Wait(self.pos)

    def irq_off(self, _: Token) -> s.Irq:
        return s.Irq(self.pos, False)

    def irq_on(self, _: Token) -> s.Irq:
        return s.Irq(self.pos, True)

    def drop(self, _: Token) -> s.Count:
        return s.Count(self.pos, "dropped")

    def count(self, name: Token) -> s.Count:
        return s.Count(self.at(name), str(name))

    def prefetch(self, address: s.Expr) -> s.Prefetch:
        return s.Prefetch(self.pos, address)

    def mmio(self, register: Token, queue: s.Expr, value: s.Expr) -> s.Mmio:
        return s.Mmio(self.at(register), str(register), queue, value)

    def ipi(self, name: Token, cpu: s.Expr) -> s.Ipi:
        return s.Ipi(self.at(name), str(name), cpu)

    # NIC lines
    def _nic_line(self, key: str, **values: Any) -> s.NicLine:
        return s.NicLine(self.pos, key, values)

    def nic_port(self, rate: Token, overhead: Token | None) -> s.NicLine:
        return self._nic_line("port", rate=str(rate), overhead=str(overhead or "0B"))

    def nic_queues(self, n: s.Int) -> s.NicLine:
        return self._nic_line("queues", count=n)

    def nic_queues_cpus(self) -> s.NicLine:
        return self._nic_line("queues", count=None)

    def nic_ring(self, side: Token, name: Token, entries: s.Int, *options: tuple) -> s.NicLine:
        known = ("descriptor", "address", "done", "info") if side == "rx" else ("descriptor", "command", "done")
        found: dict[str, s.Int] = {}
        for option, value in options:
            if option not in known:
                raise WorkloadError(Problem(str(self.pos), f"the {side} ring has no {option!r}", "known: " + ", ".join(known)))
            if option in found:
                raise WorkloadError(Problem(str(self.pos), f"ring option {option!r} is given twice", "keep one"))
            found[option] = value
        return self._nic_line(f"{side} ring", object=str(name), entries=entries, options=found)

    def ring_option(self, name: Token, value: s.Int) -> tuple:
        return str(name), value

    def nic_flow(self, offset: s.Int) -> s.NicLine:
        return self._nic_line("flow", offset=offset)

    def nic_fifo(self, size: s.Int) -> s.NicLine:
        return self._nic_line("fifo", size=size)

    def nic_flow_control(self, _: Token, word: Token) -> s.NicLine:
        return self._nic_line("flow-control", pause=word == "pause")

    def nic_full(self, word: Token) -> s.NicLine:
        return self._nic_line("full", drop=word == "drop")

    def nic_service(self, side: Token, time: Token) -> s.NicLine:
        return self._nic_line(f"{side} service", time=str(time))

    def nic_writeback(self, n: s.Int, timeout: Token | None) -> s.NicLine:
        return self._nic_line("writeback", count=n, timeout=str(timeout) if timeout else None)

    def nic_moderation(self, side: Token, time: Token) -> s.NicLine:
        return self._nic_line(f"moderation {side}", time=str(time))

    def nic_irq(self, side: Token, path: Token, place: tuple) -> s.NicLine:
        return self._nic_line(f"irq {side}", path=str(path), place=place[0], number=place[1])

    def on_queue(self, offset: s.Int | None) -> tuple:
        return "queue", 0 if offset is None else offset

    def on_cpu(self, n: s.Int) -> tuple:
        return "cpu", n

    # run lines
    def sized(self, name: Token, value: Token) -> tuple:
        return str(name), (str(value),)

    def counted(self, name: Token, value: s.Int) -> tuple:
        return str(name), (value,)

    def link(self, value: Token) -> tuple:
        return "link", (str(value),)

    def arrivals(self, value: Token) -> tuple:
        return "arrivals", (str(value),)

    def even(self) -> tuple:
        return "spread", ("even",)

    def single(self) -> tuple:
        return "spread", ("single",)

    def rss(self, queues: s.Int | None) -> tuple:
        return "spread", ("rss", 128 if queues is None else queues)

    def weights(self, *values: Token) -> tuple:
        return "spread", ("weights", *(integer(v) for v in values))

    def source(self, rate: Token, *options: tuple) -> s.SourceLine:
        return s.SourceLine(self.at(rate), str(rate), self._options("source", rate, options))

    def _options(self, what: str, rate: Token, options: tuple[tuple, ...]) -> dict[str, tuple]:
        found: dict[str, tuple] = {}
        for name, values in options:
            if name in found:
                raise WorkloadError(Problem(str(self.at(rate)), f"{what} option {name!r} is given twice", "keep one"))
            found[name] = values
        return found

    def traffic_line(self, rate: Token, *rest: Any) -> s.TrafficLine:
        return s.TrafficLine(self.at(rate), str(rate), self._options("traffic", rate, rest[:-1]), str(rest[-1]))

    def acks(self, nic: Token, every: s.Int, moderation: Token | None, delay: Token, frame: Token) -> s.AcksLine:
        return s.AcksLine(self.at(nic), str(nic), every, str(moderation or "0ns"), str(delay), str(frame))

    def timer(self, period: Token, path: Token) -> s.TimerLine:
        return s.TimerLine(self.at(path), str(period), str(path))

    def interrupt(self, name: Token, path: Token) -> s.InterruptLine:
        return s.InterruptLine(self.at(name), str(name), str(path))

    def output(self, *names: Token) -> s.OutputLine:
        return s.OutputLine(self.at(names[0]), tuple(str(n) for n in names))

    def on_packet(self, name: Token) -> s.OnPacket:
        return s.OnPacket(self.at(name), str(name))

    def loop(self, name: Token) -> s.Loop:
        return s.Loop(self.at(name), str(name))

    def cpu_one(self, n: Token) -> tuple:
        return integer(n), integer(n)

    def cpu_range(self, first: Token, last: Token | None) -> tuple:
        return integer(first), None if last is None else integer(last)

    def runs(self, cpus: tuple, name: Token, once: Token | None) -> s.CpuRuns:
        return s.CpuRuns(self.at(name), cpus[0], cpus[1], str(name), once is not None)

    def idle(self, cpus: tuple) -> s.CpuRuns:
        return s.CpuRuns(self.pos, cpus[0], cpus[1], None, True)

    def cpu_count(self, cpus: tuple) -> s.CpuCount:
        return s.CpuCount(self.pos, cpus[0], cpus[1])

    def times(self, warmup: Token, measure: Token | None) -> s.Times:
        return s.Times(self.at(warmup), str(warmup), str(measure) if measure else None)

    def measure(self, value: Token) -> s.Times:
        return s.Times(self.at(value), None, str(value))
