"""The NIC of a random case: its rings among the threads' words, its rates, and what its drivers and onlookers do."""
from __future__ import annotations

import random
from collections.abc import Sequence

from cohsim.fuzz.case import (
    LINE_BYTES,
    PUT_CAS,
    PUT_LLSC,
    PUT_STORE,
    PUT_XCHG,
    RECEIVE_DEP,
    RECEIVE_FENCE,
    RECEIVE_PLAIN,
    Action,
    Area,
    NicCase,
    Word,
)
from cohsim.fuzz.generate_words import words_of_slots
from cohsim.fuzz.nic import DESCRIPTOR_BYTES, receive_words, transmit_words
from cohsim.machine.compiled import CompiledMachine

FLOW_AT = (0, 4, 40, 100)
HASH_BITS = 24


def device_geometry(rng: random.Random, base: CompiledMachine) -> dict[str, int]:
    """Times of the machine file, or quick ones of a few messages: the core makes them long enough for its look-ahead."""
    hop = max(base.hop_fs, base.l2_hop_fs)
    out = {"has_devices": 1, "dma_to_l3": rng.randrange(2)}
    if base.has_devices and rng.random() < 0.3:
        return out
    return out | {"dma_fs": rng.randrange(1, 10 * hop), "mmio_fs": rng.randrange(1, 8 * hop), "idle_exit_fs": 10 * hop,
                  "interrupt_latency_fs": rng.randrange(1, 20 * hop), "interrupt_entry_fs": rng.randrange(10 * hop),
                  "interrupt_exit_fs": rng.randrange(10 * hop)}


def add_nic(rng: random.Random, areas: tuple[Area, ...], threads: int) -> tuple[tuple[Area, ...], NicCase]:
    """``areas`` with the rings before the last one (flags), and words for frames in the first."""
    slot = rng.randrange(LINE_BYTES // 8)
    kept = tuple(w for w in areas[0].words if w.offset // 8 != slot)
    words = (*kept, Word("multi", 8 * slot, 4), Word("multi", 8 * slot + 4, 4))
    descriptor = rng.choice((16, 32, 32, 64, 64))
    entries = rng.choice((4, 4, 8, 8, 16, 32))
    together = descriptor > DESCRIPTOR_BYTES and rng.random() < 0.5
    acks = rng.random() < 0.25
    first = len(areas) - 1
    nic = NicCase(receive=first, receive_at=0, transmit=first if together else first + 1, transmit_at=DESCRIPTOR_BYTES if together else 0,
                  descriptor=descriptor, entries=entries, receiver=rng.randrange(threads), sender=rng.randrange(threads), target=len(kept),
                  flow_at=rng.choice(FLOW_AT), frame_bytes=rng.choice((104, 104, 150, 300)),
                  period_ns=0 if acks else rng.choice((40, 100, 300, 1000)),
                  ack_every=rng.choice((1, 2)), batch=rng.choice((1, 1, 2)), writeback=rng.choice((1, 1, 2, 4)),
                  timeout_ns=rng.choice((50, 300, 1000)), fifo_frames=rng.choice((1, 4, 64)), service_ns=rng.choice((0, 10, 60)),
                  interrupts=rng.random() < 0.5, moderation_ns=rng.choice((0, 500, 3000)))
    per_line = LINE_BYTES // descriptor
    rings = []
    for parts in ((receive_words, transmit_words),) if together else ((receive_words,), (transmit_words,)):
        ring: list[Word] = []
        for begin in range(0, LINE_BYTES, descriptor):
            for k, part in enumerate(parts):
                ring += part(nic, begin + k * DESCRIPTOR_BYTES)
            ring += words_of_slots(rng, threads, range((begin + len(parts) * DESCRIPTOR_BYTES) // 8, (begin + descriptor) // 8))
        rings.append(Area(max(1, entries // per_line), 6, tuple(ring)))
    return (Area(areas[0].lines, areas[0].shift, words), *areas[1:-1], *rings, areas[-1]), nic


def _find(areas: Sequence[Area], kind: str, size: int) -> list[tuple[int, int]]:
    return [(a, w) for a, area in enumerate(areas) for w, word in enumerate(area.words) if word.kind == kind and word.size == size]


def drive(rng: random.Random, nic: NicCase, areas: Sequence[Area], thread: int, body: tuple[Action, ...], isa: str) -> tuple[Action, ...]:
    """``body`` with the NIC's driver, if the thread is one, and looks and stores at what the NIC writes."""
    actions = list(body)
    targets = [(0, nic.target), (0, nic.target), *_find(areas, "multi", 4)]
    numbers = _find(areas, "info", 4)
    puts = (PUT_STORE, PUT_XCHG, PUT_CAS) if isa == "x86" else (PUT_STORE, PUT_XCHG, PUT_CAS, PUT_LLSC, PUT_LLSC, PUT_LLSC)
    orders = (RECEIVE_PLAIN,) if isa == "x86" else (RECEIVE_FENCE, RECEIVE_DEP)

    def line(area: int) -> int:
        return rng.randrange(areas[area].lines) if rng.random() < 0.3 else -1 - rng.randrange(HASH_BITS)

    def add(kind: str, where: tuple[int, int], **more: int) -> None:
        action = Action(kind, area=where[0], word=where[1], line=line(where[0]), **more)  # type: ignore[arg-type]
        actions.insert(rng.randrange(len(actions) + 1), action)

    for _ in range(rng.choice((0, 1, 2, 4))):
        where = rng.choice(targets)
        if rng.random() < 0.5:
            add("get", where)
        else:
            add("put", where, way=rng.choice(puts))
    for _ in range(rng.choice((0, 0, 1, 2))):
        add("get", rng.choice(numbers))
    if thread == nic.receiver:
        for _ in range(rng.choice((1, 2, 4))):
            add("receive", rng.choice(targets), way=rng.choice(orders))
        for _ in range(rng.choice((0, 1, 2))):
            add("retarget", rng.choice(targets), value=rng.choice((1, 2)))
    if thread == nic.sender:
        command = (nic.transmit, next(w for w, word in enumerate(areas[nic.transmit].words) if word.kind == "command"))
        for _ in range(rng.choice((1, 2, 4))):
            add("send", command)
        for _ in range(rng.choice((0, 1, 2))):
            add("amend", command, value=rng.choice((1, 2)))
    return tuple(actions)
