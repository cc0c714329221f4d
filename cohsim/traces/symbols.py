"""Kernel symbols of a recorded trace: the ``NAME.syms.xz`` sidecar, lines of ``address type name`` as in /proc/kallsyms."""
from __future__ import annotations

import bisect
import lzma
from dataclasses import dataclass, field
from pathlib import Path

from cohsim.errors import Problem, TraceError
from cohsim.traces.mtc import fail

LAST_SYMBOL_BYTES = 256      # the end of the highest data symbol is not known: addresses further off are not taken for it
SYMBOL_BYTES = 32 << 10      # no data symbol is taken to reach further: what lies there is something else (freed init memory)
CODE_BLOCK_BYTES = 256       # without symbols, instructions are put together by blocks of this size
KERNEL = 1 << 63             # addresses from here up are the kernel's, on every architecture recorded


@dataclass
class SymbolTable:
    """Text and data symbols, ascending. A sidecar lists every symbol a traced address falls in, so the nearest one below is
    right."""

    text: list[tuple[int, str]] = field(default_factory=list)
    data: list[tuple[int, str]] = field(default_factory=list)
    absolute: list[tuple[int, str]] = field(default_factory=list)    # type A: offsets in the per-CPU area (x86)

    def __post_init__(self) -> None:
        self._text_at = [address for address, _ in self.text]
        self._data_at = [address for address, _ in self.data]

    def text_at(self, pc: int) -> tuple[int, str] | None:
        """Address and name of the text symbol ``pc`` lies in."""
        i = bisect.bisect_right(self._text_at, pc) - 1
        return self.text[i] if pc >= KERNEL and i >= 0 else None

    def data_at(self, va: int) -> tuple[int, str] | None:
        """Address and name of the data symbol a virtual address lies in, None if it lies in none."""
        i = bisect.bisect_right(self._data_at, va) - 1
        last = i == len(self.data) - 1
        return None if i < 0 or va - self._data_at[i] >= (LAST_SYMBOL_BYTES if last else SYMBOL_BYTES) else self.data[i]

    def function(self, pc: int) -> str:
        """Name of the function ``pc`` lies in; ``[user]`` below the kernel; the hexadecimal address of its 256-byte block if
        unknown.

        The leading dot of ELFv1 entry points (big-endian 64-bit Power) is left out, as perf does.
        """
        if pc < KERNEL:
            return "[user]"
        symbol = self.text_at(pc)
        return symbol[1].removeprefix(".") if symbol else f"0x{pc & -CODE_BLOCK_BYTES:x}"


def sidecar(trace: Path, suffix: str) -> Path:
    """The file beside a trace: ``a/NAME.mtc.xz`` and ``.syms.xz`` give ``a/NAME.syms.xz``."""
    name = trace.name.removesuffix(".xz").removesuffix(".mtc")
    return trace.with_name(name + suffix)


def read_symbols(path: Path) -> SymbolTable:
    """Parse a symbol sidecar. Raises TraceError naming every malformed line."""
    try:
        text = lzma.decompress(path.read_bytes()).decode()
    except OSError as error:
        fail(path, f"cannot read the file ({error.strerror or error})", "check its name and permissions")
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        fail(path, f"not an xz-compressed symbol list ({error})", "copy it again or remove it")
    found: dict[str, dict[int, str]] = {"text": {}, "data": {}, "absolute": {}}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        if not parts:
            continue
        try:
            address = int(parts[0], 16)
            if not 0 <= address < 1 << 64 or len(parts) not in (3, 4) or len(parts[1]) != 1:
                raise ValueError
        except ValueError:
            what = f'"{line[:60]}" is not a symbol'
            problems.append(Problem(f"{path}:{number}", what, 'write "address type name", address in hexadecimal'))
            continue
        table = "absolute" if parts[1] in "aA" else "text" if parts[1] in "tTwW" else "data"
        found[table].setdefault(address, "".join(parts[2:]))
    if problems:
        raise TraceError(problems)
    return SymbolTable(**{name: sorted(symbols.items()) for name, symbols in found.items()})


def write_symbols(path: Path, symbols: SymbolTable) -> None:
    """Write a sidecar that :func:`read_symbols` reads back."""
    tables = (("T", symbols.text), ("D", symbols.data), ("A", symbols.absolute))
    lines = [f"{address:016x} {kind} {name}\n" for kind, table in tables for address, name in table]
    path.write_bytes(lzma.compress("".join(lines).encode(), preset=9))
