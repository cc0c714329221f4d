"""Receive-side scaling: which queue of a NIC a flow goes to."""

from __future__ import annotations

# The verification key of the RSS specification, which drivers used as default.
KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
TABLE = 128  # entries of the redirection table, dealt to the queues in turn


def toeplitz(data: bytes) -> int:
    """32-bit Toeplitz hash of ``data`` (at most 36 bytes) under :data:`KEY`."""
    key, bits = int.from_bytes(KEY, "big"), 8 * len(KEY)
    result = 0
    for i in range(8 * len(data)):
        if data[i // 8] >> (7 - i % 8) & 1:
            result ^= key >> (bits - 32 - i) & 0xFFFFFFFF
    return result


def queue_of_flow(spread: str, flows: int, queues: int) -> tuple[int, ...]:
    """Queue of every flow. ``even``: in turn; ``rss``: by the hash of the IPv4 pair whose source is the flow number, destination 0."""
    if spread == "even":
        return tuple(flow % queues for flow in range(flows))
    return tuple(toeplitz(flow.to_bytes(4, "big") + bytes(4)) % TABLE % queues for flow in range(flows))
