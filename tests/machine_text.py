"""A small valid machine as text, for tests to break one key at a time."""

from __future__ import annotations

from pathlib import Path

SMALL = """\
schema: 1
name: small
title: two clusters of two cores
isa: power
protocol: mesi
clocks:
  core: 2 GHz [a]
  fabric: 1 GHz [a]
topology:
  sockets: 1 [a]
  clusters: 2 [a]
  cores_per_cluster: 2 [a]
  threads_per_core: 2 [a]
  numbering: siblings-adjacent
cores:
  width: 2 [a]
  instructions_per_cycle: 0.8 [a]
  dispatch: private
  window: 16 [a]
  window_smt: 12 [a]
  store_queue: 7 [a]
  store_queue_smt: 5 [a]
  store_order: out-of-order
  store_gathering: yes
  mshrs: 4 [a]
  store_forward: 3 cycles [a]
  mispredict: 7 cycles [a]
  pause: 1 cycle [a]
  fences:
    sync: 30 cycles [a]
    lwsync: 8 cycles [a]
    isync: 10 cycles [a]
    eieio: 6 cycles [a]
caches:
  line: 64 B [a]
  l1d:
    size: 32 KiB [a]
    ways: 8 [a]
    hit: 3 cycles [a]
    write: through
    port: 1 cycle [a]
  l2:
    scope: cluster
    size: 1 MiB [a]
    ways: 16 [a]
    hit: 12 cycles [a]
    mshrs: 16 [a]
    banks: 4 [a]
    hop: 3 cycles [a]
    bank_occupancy: 1 cycle [a]
    load_occupancy: 8 cycles [a]
    store_occupancy: 18 cycles [a]
    l1_invalidate: 6 cycles [a]
  cpc:
    size: 1536 KiB [a]
    ways: 16 [a]
    slices: 3 [a]
    side: memory
    hit: 90 cycles [cal]
network:
  hop: 5 fabric cycles [a]
  line_transfer: 2 fabric cycles [a]
home:
  snoops: broadcast
  slices: 1 [a]
  lookup: 4 fabric cycles [a]
  occupancy: 1 fabric cycle [a]
snoop:
  remote_clean: 80 cycles [cal]
  remote_dirty: 95 cycles [cal]
  port: 1 fabric cycle [a]
  first: yes
memory:
  channels: 2 [a]
  latency: 100 ns [a]
  channel_bandwidth: 12.8 GB/s [a]
sources:
  a: {kind: assumed, why: test}
  cal: {kind: calibrated, against: a figure, range: 50..110 cycles}
"""


def line_of(text: str, start: str) -> int:
    """Number of the first line that starts with ``start`` after its indentation."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.strip().startswith(start))


def write(folder: Path, text: str, name: str = "machine.yaml") -> str:
    """Write ``text`` as a machine file and return its path."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)
