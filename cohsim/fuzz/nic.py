"""A case's NIC: where its descriptors lie, as a device of the core, and its two drivers' micro-ops.

The receive driver always offers all descriptors but one. The NIC writes each frame's number over the ``multi`` word that the descriptor
points to, in lines that all threads use; descriptors share their lines with words of all threads too. Frames are numbered from 1, so
that no two values of a word are alike.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from cohsim.fuzz.case import RECEIVE_DEP, RECEIVE_FENCE, Action, Case, NicCase, Word
from cohsim.uops import Alu, Cond, Fence, Op, Register
from cohsim.workload.compiled import Devices, Nic, Ring, Traffic, Vector

if TYPE_CHECKING:
    from cohsim.fuzz.assemble import Assembler

DONE_AT, INFO_AT = 8, 12
DESCRIPTOR_BYTES = 16
SENT_FLAGS = 3 << 24            # end of packet, report status
COMMAND_SERIAL_BITS = 24        # the length field of a command
R_RECEIVED, R_SENT, R_COMPLETED, R_PLACE, R_TEMPORARY = 16, 17, 18, 19, 20
FLOWS_BEFORE_START = 8192       # frames that may come before the driver's first doorbell
HANDLER_LINES = 2


def receive_base(case: Case, nic: NicCase) -> int:
    """Address of the first receive descriptor."""
    return case.line_address(nic.receive, 0) + nic.receive_at


def transmit_base(case: Case, nic: NicCase) -> int:
    """Address of the first transmit descriptor."""
    return case.line_address(nic.transmit, 0) + nic.transmit_at


def first_targets(case: Case, nic: NicCase) -> list[int]:
    """The word that each receive descriptor points to at first."""
    area = case.areas[0]
    return [case.line_address(0, i % area.lines) + area.words[nic.target].offset for i in range(nic.entries)]


def receive_words(nic: NicCase, at: int) -> list[Word]:
    """Words of a receive descriptor ``at`` bytes behind the line's first."""
    return [Word("pointer", at, 8, nic.receiver), Word("done", at + DONE_AT, 4, nic.receiver), Word("info", at + INFO_AT, 4)]


def transmit_words(nic: NicCase, at: int) -> list[Word]:
    """Words of a transmit descriptor."""
    return [Word("command", at, 8, nic.sender), Word("done", at + DONE_AT, 4, nic.sender)]


def most(case: Case, kind: str) -> int:
    """How often the threads do an action at most."""
    return case.iterations * sum(a.kind == kind for t in case.threads for a in t.body)


def log_rows(case: Case, nic: NicCase) -> int:
    """Words that the NIC reads and writes at most."""
    return 4 * (nic.entries + most(case, "receive")) + 2 * most(case, "send")


def initial_memory(case: Case, nic: NicCase) -> list[tuple[int, int, int]]:
    """(address, size, value) of the receive descriptors' first pointers."""
    base = receive_base(case, nic)
    return [(base + i * nic.descriptor, 8, target - nic.flow_at) for i, target in enumerate(first_targets(case, nic))]


def devices(case: Case, nic: NicCase, handlers: tuple[int, int]) -> Devices:
    """The device as the core takes it. ``handlers``: first micro-op of the receive and the transmit interrupt."""
    cpu = {t.id: i for i, t in enumerate(case.threads)}
    vectors = (Vector("receive", cpu.get(nic.receiver, 0), handlers[0], 0), Vector("transmit", cpu.get(nic.sender, 0), handlers[1], 0))
    fast = 1e15
    device = Nic("eth0", fast, 0, 2, Ring(receive_base(case, nic), 1 << 20, nic.entries, nic.descriptor, 0, -1, DONE_AT, INFO_AT),
                 Ring(transmit_base(case, nic), 1 << 20, nic.entries, nic.descriptor, -1, 0, DONE_AT, -1), nic.flow_at,
                 nic.fifo_frames * nic.frame_bytes, True, False, nic.service_ns, nic.service_ns, nic.writeback, nic.timeout_ns,
                 nic.moderation_ns, nic.moderation_ns, (0, 0), (1, 1), ack_every=0 if nic.period_ns else nic.ack_every,
                 ack_delay_ns=float(nic.timeout_ns), ack_bytes=nic.frame_bytes)
    traffic: tuple[Traffic, ...] = ()
    if nic.period_ns:
        # The first frame would have number 0, as memory has at first: it goes to a queue that nobody serves.
        frames = nic.entries + most(case, "receive") + nic.fifo_frames + FLOWS_BEFORE_START
        traffic = (Traffic(0, 1e9 / nic.period_ns, nic.frame_bytes, 0, (1, *[0] * frames), "constant"),)
    return Devices((device,), vectors, traffic, ("dropped",))


# ---- programs --------------------------------------------------------------------------------------------------------------
def prologue(a: Assembler, nic: NicCase) -> None:
    """What a driver does before its loop."""
    if a.thread.id == nic.receiver:
        a.emit(Op.MMIO, fn=Register.RX_TAIL, imm=nic.entries - 1)
        if nic.interrupts:
            a.emit(Op.MMIO, fn=Register.RX_ENABLE, imm=1)
    if a.thread.id == nic.sender and nic.interrupts:
        a.emit(Op.MMIO, fn=Register.TX_ENABLE, imm=1)


def handler(case: Case, register: Register) -> list[dict[str, int]]:
    """An interrupt path: it takes hot lines away from the program and lets the next interrupt come."""
    lines = [case.line_address(0, k % case.areas[0].lines) for k in range(HANDLER_LINES)]
    return [{"op": Op.ENTER}, *[{"op": Op.LOAD, "base": line, "size": 8} for line in lines], {"op": Op.WORK, "imm": 20},
            {"op": Op.MMIO, "fn": register, "imm": 1}, {"op": Op.IRET}]


def _place(a: Assembler, nic: NicCase, count: int, back: int = 0) -> None:
    """R_PLACE: bytes from the first descriptor to number ``registers[count] - back``."""
    a.alu(R_PLACE, count, Alu.SUB, back)
    a.alu(R_PLACE, R_PLACE, Alu.AND, nic.entries - 1)
    a.alu(R_PLACE, R_PLACE, Alu.SHL, nic.descriptor.bit_length() - 1)


def _doorbell(a: Assembler, nic: NicCase, register: Register, count: int, ahead: int) -> None:
    """Every ``batch``-th time."""
    skip = a.emit(Op.BR, fn=Cond.BITS, a=count, imm=nic.batch - 1) if nic.batch > 1 else -1
    a.alu(R_TEMPORARY, count, Alu.ADD, ahead)
    a.alu(R_TEMPORARY, R_TEMPORARY, Alu.AND, nic.entries - 1)
    a.emit(Op.MMIO, fn=register, b=R_TEMPORARY)
    if skip >= 0:
        a.rows[skip]["target"] = len(a.rows)


def _store_pointer(a: Assembler, nic: NicCase, action: Action, base: int) -> None:
    where = a.place(action, a.case.word(action).offset)
    a.emit(Op.STORE, base=base, areg=R_PLACE, size=8, imm=where["base"] - nic.flow_at, b=where.get("areg", -1))


def receive(a: Assembler, nic: NicCase, action: Action) -> None:
    """Logs done, and behind it the frame's number, the pointer, and what lies where the pointer leads."""
    base = receive_base(a.case, nic)
    a.flush()
    _place(a, nic, R_RECEIVED)
    done, number, pointer, found = (a.register() for _ in range(4))
    a.emit(Op.LOAD, dst=done, base=base + DONE_AT, areg=R_PLACE, size=4)
    a.keep(done)
    a.latest = done
    skip = a.emit(Op.BR, fn=Cond.EQ, a=done, imm=0)
    if action.way == RECEIVE_FENCE:
        a.emit(Op.FENCE, imm=Fence.LIGHT)
    elif action.way == RECEIVE_DEP:
        a.alu(R_TEMPORARY, done, Alu.XOR, b=done)
        a.alu(R_PLACE, R_PLACE, Alu.ADD, b=R_TEMPORARY)
    a.emit(Op.LOAD, dst=number, base=base + INFO_AT, areg=R_PLACE, size=4)
    a.emit(Op.LOAD, dst=pointer, base=base, areg=R_PLACE, size=8)
    a.emit(Op.LOAD, dst=found, base=nic.flow_at, areg=pointer, size=4)
    for register in (number, pointer, found):
        a.keep(register)
    a.emit(Op.STORE, base=base + DONE_AT, areg=R_PLACE, size=4)
    _store_pointer(a, nic, action, base)
    a.alu(R_RECEIVED, R_RECEIVED, Alu.ADD, 1)
    _doorbell(a, nic, Register.RX_TAIL, R_RECEIVED, nic.entries - 1)
    a.flush(3)
    a.rows[skip]["target"] = len(a.rows)


def retarget(a: Assembler, nic: NicCase, action: Action) -> None:
    """Another pointer for a descriptor that was offered before."""
    _place(a, nic, R_RECEIVED, 1 + action.value - nic.entries)
    _store_pointer(a, nic, action, receive_base(a.case, nic))


def _store_command(a: Assembler, nic: NicCase, mark: int) -> None:
    a.store_serial(mark, 8, {"base": transmit_base(a.case, nic), "areg": R_PLACE})


def send(a: Assembler, nic: NicCase, mark: int) -> None:
    """Logs done. ``mark``: the command apart from its serial."""
    base = transmit_base(a.case, nic)
    a.flush()
    _place(a, nic, R_COMPLETED)
    done = a.register()
    a.emit(Op.LOAD, dst=done, base=base + DONE_AT, areg=R_PLACE, size=4)
    a.keep(done)
    a.latest = done
    skip = a.emit(Op.BR, fn=Cond.EQ, a=done, imm=0)
    a.emit(Op.STORE, base=base + DONE_AT, areg=R_PLACE, size=4)
    a.alu(R_COMPLETED, R_COMPLETED, Alu.ADD, 1)
    a.rows[skip]["target"] = len(a.rows)
    a.alu(R_TEMPORARY, R_SENT, Alu.SUB, b=R_COMPLETED)
    full = a.emit(Op.BR, fn=Cond.GEU, a=R_TEMPORARY, imm=nic.entries - 1)
    _place(a, nic, R_SENT)
    _store_command(a, nic, mark)
    a.alu(R_SENT, R_SENT, Alu.ADD, 1)
    _doorbell(a, nic, Register.TX_TAIL, R_SENT, 0)
    a.rows[full]["target"] = len(a.rows)


def amend(a: Assembler, nic: NicCase, action: Action, mark: int) -> None:
    """Another command for a descriptor that may have been sent."""
    _place(a, nic, R_SENT, action.value)
    _store_command(a, nic, mark)
