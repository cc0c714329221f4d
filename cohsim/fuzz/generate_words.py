"""The words of a line of a random case."""
from __future__ import annotations

import random
from collections.abc import Sequence

from cohsim.fuzz.case import LINE_BYTES, Word

SLOTS = tuple(range(LINE_BYTES // 8))
SLOT_KINDS = ("single8", "single4", "single2", "single1", "counter", "multi", "bits", "scratch")


def words_of_slots(rng: random.Random, threads: int, slots: Sequence[int]) -> tuple[Word, ...]:
    """Words for some of a line's slots of 8 bytes."""
    words: list[Word] = []
    kinds = rng.choices(SLOT_KINDS, (5, 4, 2, 1, 2, 3, 1, 1), k=len(slots))
    if rng.random() < 0.6:
        kinds = ["single8" if kind == "single1" else kind for kind in kinds]
    for slot, kind in zip(slots, kinds, strict=True):
        if kind.startswith("single"):
            size = int(kind[6:])
            words += [Word("single", 8 * slot + k, size, rng.randrange(threads)) for k in range(0, 8, size)]
        elif kind in ("counter", "multi"):
            size = rng.choice((4, 8))
            words += [Word(kind, 8 * slot + k, size) for k in range(0, 8, size)]  # type: ignore[arg-type]
        elif kind == "bits":
            words.append(Word("bits", 8 * slot, 8))
        else:
            size = rng.choice((1, 2, 4, 8))
            words += [Word("scratch", 8 * slot + k, size, rng.randrange(threads)) for k in range(0, 8, size)]
    return tuple(words)
