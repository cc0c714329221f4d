"""``cohsim machine show``: every effective value with its source, the latencies that follow, the sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cohsim.machine.compile import compile_machine
from cohsim.machine.latency import PATHS, load_to_use_fs
from cohsim.machine.rules import stages_of
from cohsim.machine.schema import LEAVES, Number
from cohsim.machine.spec import MachineSpec
from cohsim.machine.units import FS_PER_NS, Dimension

_SKIPPED = ("name", "title")


def effective_rows(spec: MachineSpec) -> list[dict[str, Any]]:
    """Each effective value: key, value (as text), cycles and ns (times only, else None), source, kind, where."""
    rows = []
    for path, value in spec.values.items():
        key = LEAVES[path]
        is_time = isinstance(key, Number) and key.dimension is Dimension.TIME
        fs = spec.time_fs(path) if is_time else None
        rows.append(
            {
                "key": path,
                "value": value.text,
                "cycles": None if fs is None else fs / spec.core_period_fs,
                "ns": None if fs is None else fs / FS_PER_NS,
                "source": value.source,
                "kind": spec.sources[value.source].kind if value.source else None,
                "where": value.where,
            }
        )
    return rows


def derived_rows(spec: MachineSpec) -> list[dict[str, Any]]:
    """Stages and totals the core runs with: name, meaning, cycles (of the core), ns."""
    machine = compile_machine(spec)
    stages, _ = stages_of(spec)
    paths = [path for path in PATHS if path != "home" or machine.l3_sets]
    rows = [
        ("issue", "per instruction, one thread alone", machine.issue_fs),
        ("l1_hit", "load to use", machine.l1_hit_fs),
        ("l2_hit", "load to use", machine.l2_hit_fs),
    ]
    if not machine.l2_private:
        rows.append(("l2_service", "in the L2: l2_hit - 2 x l2_hop", machine.l2_hit_fs - 2 * machine.l2_hop_fs))
    rows += [(path, "load to use", load_to_use_fs(stages, path)) for path in paths]
    rows += [
        ("snoop", "at a node until its answer leaves", machine.snoop_fs),
        ("snoop_dirty", "more when modified data is read out", machine.snoop_dirty_fs),
    ]
    if machine.l3_sets:
        rows.append(("l3_data", "after the lookup until data leaves the home", machine.l3_data_fs))
    rows += [
        ("memory_access", "after the lookup until the line is at the home", machine.memory_fs),
        ("memory_line", "a line occupies its channel", machine.memory_line_fs),
    ]
    return [
        {"name": name, "meaning": meaning, "cycles": fs / machine.core_period_fs, "ns": fs / FS_PER_NS}
        for name, meaning, fs in rows
    ]


def as_json(spec: MachineSpec) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": spec.name,
        "title": spec.word("title"),
        "files": [str(file) for file in spec.files],
        "overrides": list(spec.overrides),
        "values": effective_rows(spec),
        "derived": derived_rows(spec),
        "sources": {key: {"kind": source.kind, "text": source.text} for key, source in spec.sources.items()},
    }


def as_text(spec: MachineSpec) -> str:
    """Plain aligned text; depends on nothing but the machine."""
    extends = "".join(f", extends {file}" for file in spec.files[1:])
    values = [
        [row["key"], row["value"], _number(row["cycles"]), _number(row["ns"]), row["source"] or "", row["kind"] or ""]
        for row in effective_rows(spec)
        if row["key"] not in _SKIPPED
    ]
    derived = [[row["name"], row["meaning"], _number(row["cycles"]), _number(row["ns"])] for row in derived_rows(spec)]
    sources = [[key, source.kind, source.text] for key, source in spec.sources.items()]
    return (
        "\n".join(
            [
                f"{spec.name}: {spec.word('title')}",
                f"file {spec.files[0]}{extends}",
                *(f"--set {override}" for override in spec.overrides),
                "",
                *_aligned(["key", "value", "cycles", "ns", "source", "kind"], values, right=(2, 3)),
                "",
                *_aligned(["derived", "meaning", "cycles", "ns"], derived, right=(2, 3)),
                "",
                *_aligned(["source", "kind", "text"], sources),
            ]
        )
        + "\n"
    )


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def _aligned(header: list[str], rows: Sequence[list[str]], right: tuple[int, ...] = ()) -> list[str]:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]

    def line(row: list[str]) -> str:
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return [line(header), "  ".join("-" * width for width in widths), *(line(row) for row in rows)]
