"""What a terminal gets beyond plain text: progress on anything that takes long."""

from __future__ import annotations

import contextlib
import sys
from typing import Callable, Iterator, Optional

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yields a function to call with each of `total` stages as it begins; shows them on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda stage: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:.0f}/{task.total:.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)

        def begin(stage: str) -> None:
            bar.update(task, description=stage, advance=1)

        yield begin


@contextlib.contextmanager
def counter(what: str, total: Optional[int]) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with how many of `total`, where that is known, are done; shows a bar on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
