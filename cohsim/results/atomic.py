"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cohsim.errors import InputError, Problem


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary name beside ``path``; rename it to ``path`` if the block succeeds, remove it if it does not.

    A file that was there before stays untouched until the rename.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes it private; a result is an ordinary file
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(path: Path, option: str) -> None:
    """Raise InputError unless :func:`whole_file` can create ``path``; asked before a run, so that no run is lost at its end."""
    if path.is_dir():
        raise InputError(Problem(option, f"{path} is a directory", "give the name of a file"))
    if not path.parent.is_dir():
        raise InputError(Problem(option, f"directory {path.parent} does not exist", "create it first"))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise InputError(Problem(option, f"cannot write {path}: {error.strerror}", "choose a place you may write to")) from error
    os.close(handle)
    Path(name).unlink()
