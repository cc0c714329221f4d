"""Columns of LEB128 varints and zigzag differences, decoded and encoded as whole numpy arrays.

A varint is unsigned, 7 bits per byte, least significant first, the top bit set on every byte but the last.
Zigzag maps 0, -1, 1, -2, ... to 0, 1, 2, 3, ... so that small differences of either sign are short.
"""
from __future__ import annotations

import numpy as np

MAX_VARINT_BYTES = 10     # 64 bits in groups of 7


def decode_varints(column: np.ndarray) -> np.ndarray:
    """All varints of a ``uint8`` column as ``uint64``. Raises ValueError if the last one is cut off or one exceeds 64 bits."""
    if not len(column):
        return np.zeros(0, np.uint64)
    last = np.flatnonzero(column < 0x80)
    if not len(last) or last[-1] != len(column) - 1:
        raise ValueError("the last varint is cut off")
    first = np.empty_like(last)
    first[0] = 0
    first[1:] = last[:-1] + 1
    length = last - first + 1
    longest = int(length.max())
    if longest > MAX_VARINT_BYTES or (longest == MAX_VARINT_BYTES and np.any(column[last[length == longest]] > 1)):
        raise ValueError("a varint exceeds 64 bits")
    value = (column[first] & 0x7F).astype(np.uint64)
    todo = np.arange(len(first))
    for k in range(1, longest):                      # few values are long, so each round touches fewer
        todo = todo[length[todo] > k]
        value[todo] |= (column[first[todo] + k] & 0x7F).astype(np.uint64) << np.uint64(7 * k)
    return value


def encode_varints(values: np.ndarray) -> bytes:
    """The inverse of :func:`decode_varints`; shortest form."""
    rest = np.ascontiguousarray(values, dtype=np.uint64)
    if not len(rest):
        return b""
    groups = np.zeros((len(rest), MAX_VARINT_BYTES), np.uint8)
    length = np.ones(len(rest), np.int64)
    for k in range(MAX_VARINT_BYTES):
        groups[:, k] = (rest & np.uint64(0x7F)).astype(np.uint8)
        rest = rest >> np.uint64(7)
        length[rest != 0] = k + 2
        if not rest.any():
            break
    place = np.arange(MAX_VARINT_BYTES)
    groups[place < length[:, None] - 1] |= 0x80
    return groups[place < length[:, None]].tobytes()


def unzigzag(values: np.ndarray) -> np.ndarray:
    """Zigzag ``uint64`` to ``int64`` differences (two's complement, so sums wrap as the writer's did)."""
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)


def zigzag(differences: np.ndarray) -> np.ndarray:
    """``int64`` differences to zigzag ``uint64``."""
    d = np.ascontiguousarray(differences, dtype=np.int64)
    return ((d << np.int64(1)) ^ (d >> np.int64(63))).view(np.uint64)
