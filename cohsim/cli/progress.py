"""How far a run is, on stderr: a bar on a terminal for anything over a second, plain lines elsewhere if asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

DELAY_S = 1.0  # a run shorter than this shows no bar
INTERVAL_S = 5.0  # between plain lines


@contextmanager
def progress_bar(title: str, wanted: bool | None) -> Iterator[Callable[[float], None] | None]:
    """Give a function that takes the fraction done, or None where no progress is wanted (``wanted`` None: only on a terminal)."""
    terminal = sys.stderr.isatty()
    if wanted is False or (wanted is None and not terminal):
        yield None
    elif terminal:
        with _bar(title) as advance:
            yield advance
    else:
        yield _lines(title)


def _lines(title: str) -> Callable[[float], None]:
    last = -INTERVAL_S

    def advance(fraction: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= INTERVAL_S:
            last = now
            print(f"{title}: {fraction:.0%}", file=sys.stderr, flush=True)

    return advance


@contextmanager
def _bar(title: str) -> Iterator[Callable[[float], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(title, total=1.0)
    begun = time.monotonic()
    shown = False

    def advance(fraction: float) -> None:
        nonlocal shown
        if not shown and time.monotonic() - begun >= DELAY_S:
            bar.start()
            shown = True
        bar.update(task, completed=fraction)

    try:
        yield advance
    finally:
        if shown:
            bar.stop()
