"""Programs to micro-operations: base programs of CPUs and interrupt paths, with what emitting them has found out."""

from __future__ import annotations

from cohsim.uops import Op
from cohsim.workload import syntax as s
from cohsim.workload.call_statements import CallStatements
from cohsim.workload.control_statements import ControlStatements
from cohsim.workload.device_statements import DeviceStatements
from cohsim.workload.devices import DevicePlan
from cohsim.workload.emit import Emitter
from cohsim.workload.layout import StructLayout
from cohsim.workload.locks import Locks
from cohsim.workload.lower import Lowering
from cohsim.workload.memory_statements import MemoryStatements
from cohsim.workload.operands import Frame, Operands
from cohsim.workload.program import Program, suggest


class Builder(MemoryStatements, ControlStatements, CallStatements, DeviceStatements):
    """Emits the programs of a workload."""

    def __init__(
        self,
        program: Program,
        structs: dict[str, StructLayout],
        low: Lowering,
        emitter: Emitter,
        devices: DevicePlan | None = None,
        locks: Locks | None = None,
        batches: dict[tuple[str, str], int] | None = None,
    ):
        self.program = program
        self.batches = batches or {}
        self.gathered = set()
        self.lock_words = {}
        self.devices = devices or DevicePlan()
        self.locks = locks or Locks(program)
        self.interrupt = False
        self.low = low
        self.e = emitter
        self.o = Operands(program, structs, emitter, self.devices.queues)
        self.stack = []
        self.initially = {}
        self.assumptions: list[str] = []
        self.called = set()
        self.programs: list[tuple[int, int, str]] = []  # rows [first, last) of each program, and its path
        self.library_rows = {}
        # What the syntax tree says, once per node: functions are inlined many times. The nodes outlive the builder, so their ids are names.
        self.handlers = {}
        self.labels = {}
        self.returned = {}
        self.orders = {}

    def path(self, name: str, pos: s.Pos, *, once: bool) -> int:
        """Emit the program that runs path ``name``; returns its first row."""
        start = len(self.e.rows)
        path = self.begin(name, pos)
        if path is None:
            return start
        top = self.e.label()
        self.e.bind(top)
        if not once:
            self.e.add(Op.PACKET)
        self.e.add(Op.ENTER)
        self.body_of(path.body, Frame(name, False, self.e.func))
        self.e.pos, self.e.func = path.pos, self.e.function(name)
        if once:
            self.e.add(Op.HALT)
        else:
            self.e.add(Op.DONE)
            self.e.jump(top)
        self.programs.append((start, len(self.e.rows), name))
        return start

    def interrupt_path(self, name: str, pos: s.Pos) -> int:
        """Emit the program that interrupts run; returns its first row."""
        start = len(self.e.rows)
        path = self.begin(name, pos)
        if path is None:
            return start
        self.interrupt = True
        self.e.add(Op.ENTER)
        self.body_of(path.body, Frame(name, False, self.e.func))
        self.e.pos, self.e.func = path.pos, self.e.function(name)
        self.e.add(Op.IRET)
        self.interrupt = False
        self.programs.append((start, len(self.e.rows), name))
        return start

    def begin(self, name: str, pos: s.Pos) -> s.Path | None:
        """The path of a program, with position and attribution set to it; None after reporting."""
        path = self.program.paths.get(name)
        if path is None:
            self.program.problem(pos, f"unknown path {name!r}", suggest(name, self.program.paths))
            return None
        self.called.add(name)
        self.e.pos, self.e.func = path.pos, self.e.function(name)
        return path

    def idle(self) -> int:
        """Emit the program of a CPU that does nothing."""
        self.e.func = self.e.function("idle")
        self.e.add(Op.HALT)
        self.programs.append((len(self.e.rows) - 1, len(self.e.rows), "idle"))
        return len(self.e.rows) - 1

    def do_Assume(self, node: s.Assume, frame: Frame) -> None:
        if node.text not in self.assumptions:
            self.assumptions.append(node.text)
