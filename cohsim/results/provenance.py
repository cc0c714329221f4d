"""Where a result comes from: settings that decide it, and the host it was made on."""

from __future__ import annotations

import platform
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import cohsim

PERFORMANCE, ONDEMAND, ONDEMAND_LINEAR = "performance", "ondemand", "ondemand-3.17"
GOVERNORS = (PERFORMANCE, ONDEMAND, ONDEMAND_LINEAR)
"""Who chooses the clock of the cores: performance keeps the highest, the one the machine file states (:mod:`cohsim.governor`)."""

LIBRARIES = ("numpy", "h5py", "PyYAML", "lark", "click", "rich", "msgspec", "matplotlib")


@dataclass(frozen=True)
class Settings:
    """What the command line (or a caller) asked for; with the two files it decides the result."""

    machine_file: str
    workload_file: str
    cpus: int
    pin: tuple[int, ...]  # machine CPU of each CPU of the run
    variants: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    kernel: str | None = None
    overrides: tuple[str, ...] = ()  # --set key=value
    locks: tuple[str, ...] = ()  # --lock OBJECT.FIELD=kind
    isa_options: tuple[str, ...] = ()  # --isa atomics=far
    seed: int = 1
    warmup_ns: float | None = None  # None: what the workload says
    measure_ns: float | None = None
    lookahead: bool = True
    check: bool = False
    recorded: bool = False  # the workload is a recorded trace
    load_pps: float | None = None  # offered load, packets per second
    log_lines: tuple[str, ...] = ()  # --log-line
    log_events: int = 0
    governor: str = PERFORMANCE  # --governor, one of GOVERNORS


@dataclass(frozen=True)
class Provenance:
    """Settings, the machine files as they were read, and the host-dependent rest as plain attributes."""

    settings: Settings
    machine_text: str = ""
    host: dict[str, str | int | float] = field(default_factory=dict)

    def settings_dict(self) -> dict[str, object]:
        """The settings as JSON-ready values."""
        return asdict(self.settings)


def collect(settings: Settings, machine_files: Sequence[Path], command: list[str] | None = None) -> Provenance:
    """Provenance of a run that begins now on this host. ``command`` defaults to the command line of this process.

    ``machine_files`` are the machine file and what it extends; their texts are kept one after the other, each under its name.
    """
    host: dict[str, str | int | float] = {
        "command": shlex.join(command if command is not None else ["cohsim", *sys.argv[1:]]),
        "cohsim_version": cohsim.__version__,
        "git_commit": git_commit(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "python_version": platform.python_version(),
    }
    for library in LIBRARIES:
        try:
            host[f"{library.lower()}_version"] = version(library)
        except PackageNotFoundError:  # an optional library that this run did not need
            continue
    machine_text = "".join(f"# ---- {file.name}\n{file.read_text(encoding='utf-8')}" for file in machine_files)
    return Provenance(settings, machine_text, host)


def git_commit() -> str:
    """Commit of the checkout this package runs from, "+" appended if it has local changes; "" if it is not run from one."""
    package = Path(cohsim.__file__).resolve().parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(package), *arguments], capture_output=True, text=True, timeout=10, check=False
            )
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    top = git("rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != package.parent:  # a virtual environment inside somebody else's checkout
        return ""
    commit = git("rev-parse", "HEAD")
    if commit is None:
        return ""
    return commit + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
