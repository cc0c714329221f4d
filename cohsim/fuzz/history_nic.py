"""What a NIC and its drivers did: the device's log by descriptor, and the drivers' programs replayed with the values they logged.

Descriptors are numbered from 0 without end, number n lies at place ``n % entries``. ``order`` is the place in a thread's program, as in
history.py; a driver's prologue has -1, initial memory -2. The device's order is the row of its log.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cohsim.fuzz.case import DRIVES, Case, NicCase
from cohsim.fuzz.nic import COMMAND_SERIAL_BITS, DONE_AT, INFO_AT, first_targets, receive_base, transmit_base

if TYPE_CHECKING:
    from cohsim.fuzz.history import ThreadHistory

DEVICE = 255
"""The device as a thread of the history."""
INITIAL, PROLOGUE = -2, -1


@dataclass(frozen=True)
class Touch:
    """The device read or wrote a word: log ``row``, the word's address, what it held and what it holds now."""

    row: int
    address: int
    old: int
    new: int


@dataclass(frozen=True)
class Store:
    """A driver's store to a descriptor's pointer or command: address of the word, what it stored; serial of a command."""

    order: int
    address: int
    value: int
    serial: int = 0


@dataclass(frozen=True)
class Reap:
    """The receive driver found a descriptor done, and in it ``number`` and ``pointer``; ``found`` where the pointer leads."""

    order: int
    number: int
    pointer: int
    found: int


@dataclass
class Ring:
    """One direction. Lists and ``done`` are indexed by descriptor number; ``bells``: (order, descriptors offered from then on)."""

    base: int
    stride: int
    entries: int
    reads: list[Touch] = field(default_factory=list)
    done: dict[int, Touch] = field(default_factory=dict)    # as are numbers of a NicHistory: those of one place come one after the other
    stores: list[list[Store]] = field(default_factory=list)
    bells: list[tuple[int, int]] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)          # order in which the driver saw it done
    odd: list[tuple[int, int]] = field(default_factory=list)    # order, done word that is neither 0 nor 1

    def word(self, number: int, at: int = 0) -> int:
        """Address of a word of a descriptor."""
        return self.base + number % self.entries * self.stride + at

    def covered(self, number: int) -> int | None:
        """Order of the first doorbell that offered the descriptor; None if none did."""
        return next((order for order, offered in self.bells if offered > number), None)


@dataclass
class NicHistory:
    """Everything about the NIC. ``numbers``: frame numbers written to receive descriptors; ``frames``: to buffers, in order of time."""

    nic: NicCase
    receive: Ring
    transmit: Ring
    numbers: dict[int, Touch] = field(default_factory=dict)
    frames: list[Touch] = field(default_factory=list)
    reaps: list[Reap] = field(default_factory=list)
    stray: list[Touch] = field(default_factory=list)        # reads of what is no descriptor
    early: list[Store] = field(default_factory=list)        # amended commands of places that had not been filled yet


def nic_history(case: Case, threads: dict[int, ThreadHistory], log: np.ndarray) -> NicHistory:
    """The NIC's side of a run of a case that has one."""
    nic = case.nic
    assert nic is not None
    h = NicHistory(nic, Ring(receive_base(case, nic), nic.descriptor, nic.entries), Ring(transmit_base(case, nic), nic.descriptor, nic.entries))
    _device(h, log)
    if nic.receiver in threads:
        _receiver(h, threads[nic.receiver], first_targets(case, nic))
    if nic.sender in threads:
        _sender(h, threads[nic.sender])
    return h


def _device(h: NicHistory, log: np.ndarray) -> None:
    reads: dict[int, list[Touch]] = {}
    reports: dict[int, tuple[int, dict[int, Touch]]] = {}
    for n in range(h.nic.entries):
        reads[h.receive.word(n)], reads[h.transmit.word(n)] = h.receive.reads, h.transmit.reads
        reports[h.receive.word(n, DONE_AT)] = n, h.receive.done
        reports[h.receive.word(n, INFO_AT)] = n, h.numbers
        reports[h.transmit.word(n, DONE_AT)] = n, h.transmit.done
    times: Counter[int] = Counter()
    for row, (_, _, wrote, address, old, new) in enumerate(log.tolist()):
        if not wrote:
            reads.get(address, h.stray).append(Touch(row, address, old & 0xFFFF_FFFF_FFFF_FFFF, new & 0xFFFF_FFFF_FFFF_FFFF))
        elif address in reports:
            place, into = reports[address]
            into[place + h.nic.entries * times[address]] = Touch(row, address, old, new)
            times[address] += 1
        else:
            h.frames.append(Touch(row, address, old, new))


def _steps(t: ThreadHistory) -> list[tuple[int, int, int]]:
    """(order, iteration, place in the body) of the thread's driver actions, in program order."""
    places = [k for k, a in enumerate(t.thread.body) if a.kind in DRIVES]
    return [(i * t.stride + k, i, k) for i in range(t.case.iterations) for k in places]


def _receiver(h: NicHistory, t: ThreadHistory, first: list[int]) -> None:
    ring, nic = h.receive, h.nic
    ring.stores = [[Store(INITIAL, ring.word(n), target - nic.flow_at)] for n, target in enumerate(first)]
    ring.bells.append((PROLOGUE, nic.entries - 1))
    targets = {k: t.line(k) + (t.case.word(a).offset - nic.flow_at) for k, a in enumerate(t.thread.body) if a.kind in ("receive", "retarget")}
    for order, i, k in _steps(t):
        action, taken = t.thread.body[k], len(ring.taken)
        if action.kind == "retarget":
            number = taken + nic.entries - 1 - action.value
            ring.stores[number].append(Store(order, ring.word(number), int(targets[k][i])))
        elif action.kind == "receive":
            done, number, pointer, found = (int(t.log[i, slot]) for slot in t.program.slots[k])
            if done not in (0, 1):
                ring.odd.append((order, done))
            if not done:
                continue
            h.reaps.append(Reap(order, number, pointer, found))
            ring.taken.append(order)
            ring.stores.append([Store(order, ring.word(taken), int(targets[k][i]))])
            if (taken + 1) % nic.batch == 0:
                ring.bells.append((order, taken + nic.entries))


def _sender(h: NicHistory, t: ThreadHistory) -> None:
    ring, nic = h.transmit, h.nic
    for order, i, k in _steps(t):
        action = t.thread.body[k]
        if action.kind not in ("send", "amend"):
            continue
        serial = i * t.program.stores + t.serials_before[k] + 1
        if action.kind == "amend":
            number = len(ring.stores) - action.value
            # Before the first descriptors: a place that is filled anew before it is offered.
            store = Store(order, ring.word(number), 0, serial)
            if number >= 0:
                ring.stores[number].append(store)
            else:
                h.early.append(store)
            continue
        done = int(t.log[i, t.program.slots[k][0]])
        if done not in (0, 1):
            ring.odd.append((order, done))
        if done:
            ring.taken.append(order)
        if len(ring.stores) - len(ring.taken) < nic.entries - 1:
            ring.stores.append([Store(order, ring.word(len(ring.stores)), 0, serial)])
            if len(ring.stores) % nic.batch == 0:
                ring.bells.append((order, len(ring.stores)))


def command_serial(word: int) -> int:
    """Serial of a command."""
    return word & ((1 << COMMAND_SERIAL_BITS) - 1)
