"""From the load-to-use totals a machine file states to the stages the core executes, and back.

The one place that knows how stages add up. Everything is in femtoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction


@dataclass(frozen=True)
class Stages:
    """The stages of a miss of the node; ``l2_hit_fs`` includes both ways between core and a cluster's L2."""

    l2_hit_fs: int
    hop_fs: int
    home_lookup_fs: int
    line_transfer_fs: int
    snoop_fs: int
    snoop_dirty_fs: int
    l3_data_fs: int
    memory_fs: int
    home_broadcast: bool


PATHS = ("home", "remote_clean", "remote_dirty", "memory")


def load_to_use_fs(stages: Stages, path: str) -> int:
    """Unloaded load-to-use time of a load served at the home, by another node (clean or modified), or by memory.

    Every miss of the node pays ``l2_hit + hop`` to the home (the miss is known after the L2 lookup) and ``hop +
    line_transfer`` back. At the home::

        remote   home_lookup + [hop + snoop + hop]        data passes through the home; + snoop_dirty if modified
        home     home_lookup + l3_data                    a broadcast home looks up its cache while the snoops are
        memory   home_lookup + memory                     under way but answers after the last of them:
                                                          max(that, home_lookup + hop + snoop + hop)
    """
    snooped = stages.home_lookup_fs + 2 * stages.hop_fs + stages.snoop_fs
    if path == "remote_clean":
        at_home = snooped
    elif path == "remote_dirty":
        at_home = snooped + stages.snoop_dirty_fs
    else:
        at_home = stages.home_lookup_fs + {"home": stages.l3_data_fs, "memory": stages.memory_fs}[path]
        if stages.home_broadcast:
            at_home = max(at_home, snooped)
    return stages.l2_hit_fs + 2 * stages.hop_fs + at_home + stages.line_transfer_fs


def at_core_clock(stages: Stages, slower: Fraction, *, l2_hit_fs: int) -> Stages:
    """The stages when a cycle of the cores takes ``slower`` times as long, with their L2 hit then (a file may state it in ns).

    A snoop is answered by the L1 and L2 of a node, which run at the clock of its cores; network, home and memory have clocks of their own.
    """
    return replace(stages, l2_hit_fs=l2_hit_fs, snoop_fs=round(stages.snoop_fs * slower), snoop_dirty_fs=round(stages.snoop_dirty_fs * slower))


class NegativeStage(ValueError):
    """A stated total is less than its parts: by how much (``short_fs``) and what the parts are (``parts_fs`` by name)."""

    def __init__(self, path: str, total_fs: int, parts_fs: dict[str, int]):
        self.path = path
        self.total_fs = total_fs
        self.parts_fs = parts_fs
        super().__init__(f"{path}: {total_fs} fs is less than its parts, {sum(parts_fs.values())} fs")


def derive_stages(
    totals_fs: dict[str, int], *, l2_hit_fs: int, hop_fs: int, home_lookup_fs: int, line_transfer_fs: int, home_broadcast: bool
) -> tuple[Stages, list[NegativeStage]]:
    """The inverse of :func:`load_to_use_fs`: stages that give ``totals_fs`` (keys of PATHS, "home" only with a cache there).

    A remainder below zero is returned as NegativeStage (its stage is then 0), so that all of them can be reported.
    """
    faults: list[NegativeStage] = []
    common = {"L2 hit": l2_hit_fs, "2 x hop": 2 * hop_fs, "home lookup": home_lookup_fs, "line transfer": line_transfer_fs}

    def remainder(path: str, parts: dict[str, int]) -> int:
        rest = totals_fs[path] - sum(parts.values())
        if rest < 0:
            faults.append(NegativeStage(path, totals_fs[path], parts))
        return max(rest, 0)

    snoop = remainder("remote_clean", common | {"2 x hop to the other node": 2 * hop_fs})
    dirty = remainder("remote_dirty", {"clean transfer (snoop.remote_clean)": totals_fs["remote_clean"]})
    # what the answer waits for at least: nothing at a directory, all snoop responses at a broadcasting home
    waited = {"2 x hop to the other nodes": 2 * hop_fs, "their snoop": snoop} if home_broadcast else {}
    data = {}
    for path in ("home", "memory"):
        data[path] = remainder(path, common | waited) + sum(waited.values()) if path in totals_fs else 0
    return Stages(
        l2_hit_fs, hop_fs, home_lookup_fs, line_transfer_fs, snoop, dirty, data["home"], data["memory"], home_broadcast
    ), faults
