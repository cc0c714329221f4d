"""What a driver does while the device works: descriptors changed under its hands, moderation set at run time, queues not yet enabled."""

from __future__ import annotations

import pytest
from device_program import (
    END,
    RX_ENABLE,
    RX_TAIL,
    STATUS,
    TX,
    TX_TAIL,
    US,
    counter,
    descriptor,
    device_machine,
    devices,
    mmio,
    nic,
    posted,
    sleep,
    traffic,
    vector,
)
from program import Program, Run, at, run

from cohsim.machine.compiled import CompiledMachine
from cohsim.uops import Cond, Flag, Op, Register


@pytest.fixture(params=["corei7", "t4240"])
def m(request: pytest.FixtureRequest) -> CompiledMachine:
    return device_machine(request.param)


def rewriter() -> Program:
    """Writes the first command again and again, a byte longer each time, from before the doorbell until long after the device has read it."""
    p = at(US // 2)
    top = p.alu(0, 0, 1)
    p.store(descriptor(TX, 0), END | STATUS, b=0)
    p.branch(Cond.LT, 0, 4000, top, flags=Flag.PRED_TAKEN)
    p.halt()
    return p


def ringer() -> Program:
    p = at(US)
    mmio(p, TX_TAIL, 1)
    p.halt()
    return p


@pytest.mark.parametrize("seed", range(1, 9))
def test_does_the_device_read_what_memory_holds_at_that_moment_however_far_cores_run_ahead(m: CompiledMachine, seed: int) -> None:
    far = (0, 1) if m.l2_private else (0, 8)           # another core, another cluster

    def sent(lookahead: bool) -> int:
        r = run(m, [ringer(), rewriter()], pin=far, seed=seed, devices=devices(vector(0, 0), nics=(nic(),)), memory=[(descriptor(TX, 0), 8, END)],
                lookahead=lookahead, until_fs=40 * US)
        return counter(r, "tx_bytes")

    assert sent(True) == sent(False) > 0


def enabling_handler(p: Program) -> int:
    entry = p.add(Op.ENTER)
    mmio(p, RX_ENABLE, 1)
    p.add(Op.IRET)
    return entry


def receive(m: CompiledMachine, moderation_ns: int | None) -> Run:
    """A frame each 10 us for 200 us; the driver sets the moderation itself, over the 1 us that the NIC begins with."""
    p = Program()
    if moderation_ns is not None:
        p.add(Op.MMIO, fn=Register.RX_MODERATION, base=0, imm=moderation_ns)
    mmio(p, RX_TAIL, 127)
    mmio(p, RX_ENABLE, 1)
    sleep(p)
    h = enabling_handler(p)
    d = devices(vector(0, h), nics=(nic(entries=128, rx_moderation_ns=1000.0),), traffic=(traffic(1e5),))
    return run(m, [p], devices=d, memory=posted(128), until_fs=200 * US)


def test_does_a_driver_set_the_moderation_of_a_vector(m: CompiledMachine) -> None:
    """About 20 frames: each interrupts at 1 us; at 50 us there is one at the first, then at most one each 50 us (4 in 200 us)."""
    assert counter(receive(m, None), "rx_interrupts") >= 18
    assert 3 <= counter(receive(m, 50_000), "rx_interrupts") <= 4
    with pytest.raises(AssertionError, match="a driver gave a device"):
        receive(m, 2_000_000_000)


def test_is_a_frame_nobodys_loss_before_its_queue_is_enabled(m: CompiledMachine) -> None:
    """Frames for a queue without any descriptor yet do not fill the FIFO, are not lost and pause nobody; later ones are received."""
    p = at(100 * US)
    mmio(p, RX_TAIL, 7)
    sleep(p)
    d = devices(vector(0, 0), nics=(nic(fifo_bytes=128),), traffic=(traffic(1e5),))
    before = run(m, [p], devices=d, memory=posted(8), until_fs=100 * US)
    assert [counter(before, name) for name in ("arrived", "missed", "paused_fs", "rx_frames")] == [0, 0, 0, 0]
    after = run(m, [p], devices=d, memory=posted(8), until_fs=150 * US)
    assert counter(after, "missed") == 0 and 4 <= counter(after, "rx_frames") <= 5
