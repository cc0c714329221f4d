"""Names of data: the ``NAME.objects`` sidecar, and the names a ``NAME.c2c.txt`` report beside the trace holds.

``NAME.objects`` is text, one range per line, ``#`` starts a comment::

    # ADDRESS (physical, hexadecimal)  SIZE (bytes)  OBJECT  FIELD ("-": this line is the extent of the object)
    1a44a00  232  rt6_info  -
    1a44a40    4  rt6_info  dst.__refcnt
"""
from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from cohsim.errors import Problem, TraceError
from cohsim.traces.mtc import fail


@dataclass(frozen=True)
class NamedRange:
    """Bytes with a name. ``field`` is "" for the extent of the object; ``size_bytes`` 0 means: as large as the accesses to it."""

    address: int
    size_bytes: int
    object: str
    field: str
    scope: str = "shared"


def read_objects(path: Path) -> list[NamedRange]:
    """Parse an ``.objects`` sidecar. Raises TraceError naming every wrong line."""
    try:
        text = path.read_text()
    except OSError as error:
        fail(path, f"cannot read the file ({error.strerror or error})", "check its name and permissions")
    except UnicodeDecodeError as error:
        fail(path, f"not a text file ({error.reason})", "write lines of ADDRESS SIZE OBJECT FIELD")
    ranges, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.partition("#")[0].split()
        if not parts:
            continue
        try:
            address_text, size_text, name, field = parts
            address, size = int(address_text, 16), int(size_text)
        except ValueError:
            what = f'"{line.strip()[:60]}" is not a named range'
            problems.append(Problem(f"{path}:{number}", what, "write ADDRESS SIZE OBJECT FIELD"))
            continue
        if not 0 <= address < 1 << 63 or not 0 < size <= 1 << 30:
            problems.append(Problem(f"{path}:{number}", f"address {address_text} or size {size_text} is out of range",
                                    "give a physical address below 2^63 and 1 byte to 1 GiB"))
            continue
        ranges.append(NamedRange(address, size, name, "" if field == "-" else field, _scope(name)))
    if problems:
        raise TraceError(problems)
    return ranges


def write_objects(path: Path, ranges: list[NamedRange], comment: str) -> None:
    """Write a sidecar that :func:`read_objects` reads back."""
    lines = [f"# {line}\n" for line in comment.splitlines()]
    ordered = sorted(ranges, key=lambda r: (r.address, r.field))
    lines += [f"{r.address:x} {r.size_bytes} {r.object} {r.field or '-'}\n" for r in ordered]
    path.write_text("".join(lines))


def _scope(name: str) -> str:
    return "per-cpu" if PER_CPU.match(name) else "shared"


PER_CPU = re.compile(r"^(.+)\[cpu(\d+)\]$")        # name of the copy of a per-CPU variable
_LINE = re.compile(r"^LINE pa=([0-9a-f]+) ")
_OFFSET = re.compile(r"^ +\+([0-9a-f]+) L\d+ S\d+ A\d+  (\S.*?)   <- ")
_DATA = re.compile(r"^(?:data|percpu\[(\d+)\]):(\S+)\+0x([0-9a-f]+)$")
_SLAB = re.compile(r"^slab:([^@\s]+)@([0-9a-f]+)\+0x([0-9a-f]+)(?: (?!\{)([^.\s]+)\.(\S+))?")


def read_c2c(path: Path) -> list[NamedRange]:
    """Names in a report of the capture tools' c2c.py, which looked into the guest's memory (slab caches, BTF).

    It lists the hottest shared lines only, and is a report for people: what is not a named line is passed over.
    """
    found: list[tuple[int, int, str, str]] = []       # object base, address, object, field
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        fail(path, f"cannot read the file ({error.strerror or error})", "check its name and permissions")
    line_at = 0
    for line in text.splitlines():
        if header := _LINE.match(line):
            line_at = int(header[1], 16)
        elif offset := _OFFSET.match(line):
            address, what = line_at + int(offset[1], 16), offset[2]
            if data := _DATA.match(what):
                into = int(data[3], 16)
                owner = data[2] + (f"[cpu{data[1]}]" if data[1] else "")
                found.append((address - into, address, owner, f"+0x{into:x}"))
            elif slab := _SLAB.match(what):
                field = (slab[5] or f"+0x{int(slab[3], 16):x}").removesuffix(".counter")
                found.append((int(slab[2], 16), address, slab[4] or slab[1], field))
    found = _every_cpu(found)
    bases = defaultdict(set)
    for base, _, name, _ in found:
        bases[name].add(base)
    ranges = []
    for base, address, name, field in found:
        unique = name if len(bases[name]) == 1 else f"{name}@{base:x}"
        ranges.append(NamedRange(address, 0, unique, field, _scope(name)))
        ranges.append(NamedRange(base, 0, unique, "", _scope(name)))
    return sorted(set(ranges), key=lambda r: (r.address, r.object, r.field))


def _every_cpu(found: list[tuple[int, int, str, str]]) -> list[tuple[int, int, str, str]]:
    """Per-CPU variables of CPUs the report does not list: any two CPUs' copies lie at the same distance for every variable."""
    base: dict[tuple[str, int], int] = {}
    for at, _, name, _ in found:
        if per_cpu := PER_CPU.match(name):
            base[per_cpu[1], int(per_cpu[2])] = at
    distance = {min((cpu for _, cpu in base), default=0): 0}     # from the first CPU's area, found by way of shared variables
    reach = 0
    while reach != len(distance):
        reach = len(distance)
        for (name, cpu), at in base.items():
            known = next((base[name, c] - d for c, d in distance.items() if (name, c) in base), None)
            if known is not None:
                distance.setdefault(cpu, at - known)
    out = set(found)
    for at, address, name, field in found:
        per_cpu = PER_CPU.match(name)
        if per_cpu and int(per_cpu[2]) in distance:
            for cpu, d in distance.items():
                step = d - distance[int(per_cpu[2])]
                out.add((at + step, address + step, f"{per_cpu[1]}[cpu{cpu}]", field))
    return sorted(out)
