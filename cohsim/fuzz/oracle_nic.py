"""What a NIC and its drivers may have seen of each other.

Rules, by the name they are reported under:

descriptor    the device took descriptors out of turn, wrote a frame elsewhere than to where it read its pointer, reported a descriptor before
              its frame was written or its command read, or the driver saw a descriptor done with another frame's number in it
doorbell      the device read a descriptor's word as it was before the doorbell that offered it, or as it was not before the driver saw it done
own store     the driver did not find its own latest pointer
final         a descriptor is not done at the end, or done again, or does not hold its latest pointer

What lies in the frames is judged with all other words of several writers (oracle.py).
"""
from __future__ import annotations

from collections.abc import Iterator

from cohsim.fuzz.history_nic import NicHistory, Ring, Store, command_serial
from cohsim.fuzz.nic import DONE_AT

MOST = 5
Problem = tuple[str, str]


def judge_nic(h: NicHistory | None, final: dict[int, int], sizes: dict[int, int]) -> list[Problem]:
    """(rule, what) of everything wrong, at most MOST of each check; nothing without a NIC."""
    if h is None:
        return []
    found: list[Problem] = []
    for check in (_turns(h), _frames(h, sizes), _reports(h), _pointers(h), _commands(h), _driver(h), _final(h, final)):
        found += [problem for problem, _ in zip(check, range(MOST), strict=False)]
    return found


def _turns(h: NicHistory) -> Iterator[Problem]:
    for touch in h.stray:
        yield "descriptor", f"the device read {touch.address:#x}, which is no descriptor"
    for name, ring in (("receive", h.receive), ("transmit", h.transmit)):
        for n, touch in enumerate(ring.reads):
            if touch.address != ring.word(n):
                yield "descriptor", f"the device read a {name} descriptor at {touch.address:#x}, number {n} lies at {ring.word(n):#x}"
                break
        for order, value in ring.odd:
            yield "thin air", f"{name} driver, step {order}: done word is {value:#x}"


def _frames(h: NicHistory, sizes: dict[int, int]) -> Iterator[Problem]:
    latest: dict[int, int] = {}
    for frame in h.frames:
        if sizes.get(frame.address) != 4:
            yield "descriptor", f"the device wrote {frame.new:#x} to {frame.address:#x}, which no descriptor names"
        elif frame.new <= latest.get(frame.address, 0):       # of two lines either may be first
            yield "descriptor", f"frame {frame.new} was written to {frame.address:#x} after frame {latest[frame.address]}"
        latest[frame.address] = frame.new


def _reports(h: NicHistory) -> Iterator[Problem]:
    """Of descriptors in two lines either may be reported first."""
    frames = {frame.new: frame for frame in h.frames}
    before = 0
    for n in sorted(h.numbers):
        number = h.numbers[n]
        frame = frames.get(number.new)
        if number.new <= before:
            yield "descriptor", f"frame {number.new} in receive descriptor {n} follows frame {before}"
        elif n not in h.receive.done or n >= len(h.receive.reads) or h.receive.reads[n].row > number.row:
            yield "descriptor", f"the device reported receive descriptor {n} before it read it, or only half"
        elif frame is None or frame.row > number.row:
            yield "descriptor", f"the device reported frame {number.new} in descriptor {n} before it was written"
        elif frame.address != h.receive.reads[n].new + h.nic.flow_at:
            yield "descriptor", (f"the device read pointer {h.receive.reads[n].new:#x} in descriptor {n} and wrote frame {number.new} to "
                                 f"{frame.address:#x}")
        before = number.new
    for name, ring in (("receive", h.receive), ("transmit", h.transmit)):
        for n, done in ring.done.items():
            if n >= len(ring.reads) or ring.reads[n].row > done.row:
                yield "descriptor", f"the device reported {name} descriptor {n} before it read it"


def _window(ring: Ring, n: int) -> list[int] | None:
    """Indices of the stores to descriptor ``n`` that the device may have read; None if it was not offered."""
    bell = ring.covered(n)
    if bell is None or n >= len(ring.stores):
        return None
    stores = ring.stores[n]
    first = max((i for i, s in enumerate(stores) if s.order <= bell), default=0)
    until = ring.taken[n] if n < len(ring.taken) else None
    return [i for i in range(first, len(stores)) if until is None or stores[i].order < until]


def _pointers(h: NicHistory) -> Iterator[Problem]:
    for n, read in enumerate(h.receive.reads):
        window = _window(h.receive, n)
        if window is None:
            yield "doorbell", f"the device read receive descriptor {n}, which was not offered"
            return
        allowed = [h.receive.stores[n][i].value for i in window]
        if read.new not in allowed:
            yield "doorbell", f"the device read pointer {read.new:#x} in receive descriptor {n}, which held {' or '.join(map(hex, allowed))}"


def _commands(h: NicHistory) -> Iterator[Problem]:
    for n, read in enumerate(h.transmit.reads):
        window = _window(h.transmit, n)
        if window is None:
            yield "doorbell", f"the device read transmit descriptor {n}, which was not offered"
            return
        allowed = [h.transmit.stores[n][i].serial for i in window]
        if command_serial(read.new) not in allowed:
            yield "doorbell", (f"the device read command {read.new:#x} = store {command_serial(read.new)} in transmit descriptor {n}, which "
                               f"held store {' or '.join(map(str, allowed))}")


def _driver(h: NicHistory) -> Iterator[Problem]:
    for n, reap in enumerate(h.reaps):
        expected = h.numbers[n].new if n in h.numbers else None
        if reap.number != expected:
            wanted = "it was never reported" if expected is None else f"frame {expected} was reported there"
            yield "descriptor", f"receive driver, step {reap.order}: descriptor {n} is done and holds number {reap.number}; {wanted}"
        pointer = next(s.value for s in reversed(h.receive.stores[n]) if s.order < reap.order)
        if reap.pointer != pointer:
            yield "own store", f"receive driver, step {reap.order}: descriptor {n} points to {reap.pointer:#x}, its own latest store {pointer:#x}"
    for name, ring in (("receive", h.receive), ("transmit", h.transmit)):
        for n, order in enumerate(ring.taken):
            if n not in ring.done:
                yield "descriptor", f"{name} driver, step {order}: descriptor {n} is done, it was never reported"


def _final(h: NicHistory, final: dict[int, int]) -> Iterator[Problem]:
    for name, ring in (("receive", h.receive), ("transmit", h.transmit)):
        waiting = {ring.word(n, DONE_AT) for n in ring.done if n >= len(ring.taken)}
        for place in range(ring.entries):
            address = ring.word(place, DONE_AT)
            right = int(address in waiting)
            if final[address] != right:
                yield "final", f"done word at {address:#x} ({name}) ends as {final[address]}, {right} is right"
    last: dict[int, Store] = {}
    for store in (s for group in h.receive.stores for s in group):
        if store.address not in last or store.order > last[store.address].order:
            last[store.address] = store
    for address, store in last.items():
        if final[address] != store.value:
            yield "final", f"pointer at {address:#x} ends as {final[address]:#x}, the last store wrote {store.value:#x}"
