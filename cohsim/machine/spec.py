"""The effective machine: every value with its unit, source and the place it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from cohsim.machine.schema import LAST_LEVEL, LEAVES, SCHEMA_VERSION
from cohsim.machine.units import FS_PER_S, Quantity, Range, period_fs, time_fs

OWN_CLOCK = ("network.", "home.", "memory.", "snoop.remote_", *(f"{cache}.hit" for cache in LAST_LEVEL))
"""Beginnings of the paths of times that a P-state of the cores leaves as they are, in whatever unit the file states them: those of the
network, the home and memory, and the totals, of which only the parts in the cores change (:func:`cohsim.machine.rules.stages_of`)."""


@dataclass(frozen=True)
class Source:
    """Where a number comes from. ``kind`` is documented, measured, calibrated or assumed."""

    key: str
    kind: str
    ref: str = ""
    against: str = ""  # calibrated: the figure it was fitted to
    why: str = ""  # assumed
    range: Range | None = None  # calibrated (always) and assumed: plausible bounds
    where: str = ""

    @property
    def text(self) -> str:
        """One line for people."""
        parts = [
            self.ref,
            f"against {self.against}" if self.against else "",
            self.why,
            f"range {self.range}" if self.range else "",
        ]
        return "; ".join(part for part in parts if part)


@dataclass(frozen=True)
class Value:
    """One effective value: ``quantity`` for numbers, ``word`` for words and text."""

    path: str
    where: str  # "file:line" or the --set option
    word: str = ""
    quantity: Quantity | None = None
    source: str | None = None  # key into MachineSpec.sources

    @property
    def text(self) -> str:
        """As a machine file would hold it, without the source."""
        return str(self.quantity) if self.quantity is not None else self.word


@dataclass(frozen=True)
class MachineSpec:
    """A valid machine. ``values`` is by key path in schema order; ``files`` are the file and what it extends."""

    values: Mapping[str, Value]
    sources: Mapping[str, Source]
    files: tuple[Path, ...]
    overrides: tuple[str, ...] = ()
    clock: Fraction | None = None  # Hz, where the cores run in a P-state below clocks.core

    def at_clock(self, clock: Fraction | None) -> MachineSpec:
        """The same machine with its cores at ``clock`` Hz; None: at ``clocks.core``, for which the file's values are stated.

        What is stated in ``cycles`` follows the clock, but for OWN_CLOCK. It is not what ``--set clocks.core=...`` gives: that is another
        machine, whose totals in cycles are met at its own clock.
        """
        return replace(self, clock=clock)

    @property
    def name(self) -> str:
        return self.word("name")

    @property
    def isa(self) -> str:
        return self.word("isa")

    @property
    def core_period_fs(self) -> int:
        """Of the clock that the cores run at."""
        return self.nominal_core_period_fs if self.clock is None else round(FS_PER_S / self.clock)

    @property
    def nominal_core_period_fs(self) -> int:
        """Of ``clocks.core``."""
        return period_fs(self.quantity("clocks.core"))

    @property
    def fabric_period_fs(self) -> int:
        return period_fs(self.quantity("clocks.fabric"))

    @property
    def last_level(self) -> str | None:
        """Path of the cache at the home (``caches.l3`` or ``caches.cpc``), None if there is none."""
        return next((path for path in LAST_LEVEL if f"{path}.size" in self.values), None)

    def word(self, path: str) -> str:
        """A word or text; KeyError where the machine has no such key."""
        return self.values[path].word

    def flag(self, path: str) -> bool:
        """A yes/no as bool."""
        return self.word(path) == "yes"

    def quantity(self, path: str) -> Quantity:
        """A number with its unit; KeyError where the machine has no such key."""
        quantity = self.values[path].quantity
        if quantity is None:
            raise KeyError(f"{path} is not a number")
        return quantity

    def count(self, path: str) -> int:
        """A count, or a size in bytes."""
        return self.quantity(path).count

    def time_fs(self, path: str) -> int:
        """A time in femtoseconds, with the cores at their present clock."""
        core = self.nominal_core_period_fs if path.startswith(OWN_CLOCK) else self.core_period_fs
        return time_fs(self.quantity(path), core, self.fabric_period_fs)

    def dump(self) -> str:
        """The effective machine as one self-contained machine file; loading it gives the same machine."""
        tree: dict[str, Any] = {"schema": str(SCHEMA_VERSION)}
        for path in LEAVES:
            if path not in self.values:
                continue
            value = self.values[path]
            *parents, last = path.split(".")
            node = tree
            for parent in parents:
                node = node.setdefault(parent, {})
            node[last] = f"{value.text} [{value.source}]" if value.source else value.text
        tree["sources"] = {
            key: {field: str(text) for field in ("kind", "ref", "against", "range", "why") if (text := getattr(source, field))}
            for key, source in self.sources.items()
        }
        return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=10_000))
