"""Where the files that come with cohsim are: machines and workloads, from a source tree or an installed wheel."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from cohsim.errors import InputError, MachineError, Problem, WorkloadError

PACKAGE = Path(__file__).resolve().parent
INCLUDE_FOLDER = "lib"  # below workloads
_ERRORS: dict[str, type[InputError]] = {"machines": MachineError, "workloads": WorkloadError}


def data_folders(kind: str) -> list[Path]:
    """Folders that may hold bundled ``kind`` ("machines", "workloads"): package data first, then the source tree."""
    return [folder for folder in (PACKAGE / "data" / kind, PACKAGE.parent / kind) if folder.is_dir()]


def bundled_names(kind: str, suffix: str) -> list[str]:
    """Names that :func:`find_data` resolves without a path, sorted: ``t4240``, ``micro/atomic_inc``.

    Files below ``lib`` are for others to include and are left out.
    """
    names = {
        path.relative_to(folder).with_suffix("").as_posix()
        for folder in data_folders(kind)
        for path in folder.rglob(f"*{suffix}")
        if path.relative_to(folder).parts[0] != INCLUDE_FOLDER
    }
    return sorted(names)


def find_data(kind: str, name: str, suffix: str) -> Path:
    """The file ``name`` means: a path as given, else a bundled file (``t4240``, ``t4240.yaml``, ``micro/atomic_inc``).

    Raises MachineError or WorkloadError (by ``kind``) with one line that names the nearest bundled file.
    """
    error = _ERRORS.get(kind, InputError)
    singular = kind.removesuffix("s")
    try:
        given = Path(name)
        if given.is_file():
            return given
        if given.exists() and not given.is_dir():
            raise error(Problem(name, "is not a regular file", f"give a {suffix} file"))
        if given.is_dir() and (given.is_absolute() or name.startswith(".") or name.endswith("/")):
            raise error(Problem(name, f"is a directory, not a {singular} file", f"name a {suffix} file in it"))
        if not given.is_absolute():
            for folder in data_folders(kind):
                for candidate in (folder / f"{name}{suffix}", folder / name):
                    if name and candidate.is_file() and candidate.resolve().is_relative_to(folder.resolve()):
                        return candidate
    except (OSError, ValueError) as fault:  # name too long, no permission, embedded NUL
        raise error(Problem(repr(name), f"cannot be used as a file name: {fault}", "check the path")) from fault
    raise error(Problem(name or "''", f"no such {singular} file", _remedy(name, bundled_names(kind, suffix), suffix)))


def _remedy(name: str, names: Iterable[str], suffix: str) -> str:
    names = list(names)
    close = nearest(name.removesuffix(suffix), names)
    if close:
        return f"did you mean {close!r}?"
    return f"give a path, or one of: {', '.join(names)}" if names else "give a path to a file"


def nearest(word: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The candidate a typist most likely meant, or None; case is ignored."""
    folded = {candidate.lower(): candidate for candidate in candidates}
    hits = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=cutoff)
    return folded[hits[0]] if hits else None
