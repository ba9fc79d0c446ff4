"""What a terminal gets beyond plain text: progress on anything that takes long."""

from __future__ import annotations

import contextlib
import sys
from typing import Callable, Iterator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


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
