"""Statements about interrupts and devices to micro-operations: the part of the builder that knows NICs."""

from __future__ import annotations

from cohsim.uops import Op
from cohsim.workload import syntax as s
from cohsim.workload.devices import REGISTERS, find_nic
from cohsim.workload.operands import Bad, Frame
from cohsim.workload.program import suggest
from cohsim.workload.statements import Statements


class DeviceStatements(Statements):
    """Waits, interrupts, counters, prefetches and registers of devices."""

    def do_Wait(self, node: s.Wait, frame: Frame) -> None:
        if self.interrupt:
            raise self.o.bad(node.pos, "'wait' in an interrupt path", "only a base program is idle; return instead")
        self.devices.waits = True
        self.e.add(Op.WAIT)

    def do_Irq(self, node: s.Irq, frame: Frame) -> None:
        self.e.add(Op.IRQ, imm=int(node.on))

    def do_Count(self, node: s.Count, frame: Frame) -> None:
        self.e.add(Op.COUNT, offset=self.devices.counter(node.name))

    def do_Prefetch(self, node: s.Prefetch, frame: Frame) -> None:
        self.e.memory(Op.PREFETCH, self.o.address(frame, node.address), size=1)

    def do_Mmio(self, node: s.Mmio, frame: Frame) -> None:
        name, _, register = node.register.partition(".")
        name = frame.nics.get(name, name)
        nic = find_nic(self.program, self.devices, name, node.pos)
        if register not in REGISTERS:
            raise self.o.bad(node.pos, f"unknown device register {register!r}", suggest(register, REGISTERS))
        if nic is None:
            raise Bad
        queue, temp = self.o.value(frame, node.queue)
        value, temp2 = self.o.value(frame, node.value)
        queues = self.devices.nics[nic].queues
        if queue.reg < 0 and not 0 <= queue.imm < queues:
            raise self.o.bad(node.pos, f"queue {queue.imm} of nic {name!r}, which has {queues}", "queues count from 0")
        self.e.add(
            Op.MMIO, fn=nic * 16 + REGISTERS[register], areg=queue.reg, offset=queue.imm, b=value.reg, imm=value.imm
        )
        self.e.release(temp, temp2)

    def do_Ipi(self, node: s.Ipi, frame: Frame) -> None:
        known = self.devices.interrupts
        if node.name not in known:
            raise self.o.bad(
                node.pos,
                f"unknown interrupt {node.name!r}",
                suggest(node.name, known) if known else f"add to the run block: interrupt {node.name} runs PATH",
            )
        cpu, temp = self.o.value(frame, node.cpu)
        if cpu.reg < 0 and not 0 <= cpu.imm < self.program.env.cpus:
            raise self.o.bad(node.pos, f"CPU {cpu.imm} in a run of {self.program.env.cpus} CPUs", "CPUs count from 0")
        self.e.add(Op.IPI, offset=known[node.name], b=cpu.reg, imm=cpu.imm)
        self.e.release(temp)
