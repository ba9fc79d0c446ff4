"""Progress of long work, on stderr."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Callable, Iterator, Optional, Tuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

Tell = Callable[[str, Optional[float]], None]
_AT_ONCE = 5.0  # seconds: shorter work needs no lines
_EVERY = 10.0  # seconds between equal lines
_LOOK = 0.25  # seconds
_SILENT = 60.0  # seconds without a word where there is no terminal


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with each of `total` stages as it begins.

    It shows them on stderr: on a terminal at once, elsewhere the present one each minute.
    """
    if not sys.stderr.isatty():
        with _each_minute(total) as begin:
            yield begin
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)

        def begin(stage: str) -> None:
            bar.update(task, description=stage, advance=1)

        yield begin


@contextlib.contextmanager
def _each_minute(total: int) -> Iterator[Callable[[str], None]]:
    began, over, begun = time.monotonic(), threading.Event(), ["starting"]

    def watch() -> None:
        while not over.wait(_SILENT):
            text = "[%s] %s, %d of %d\n"
            elapsed = clock(time.monotonic() - began)
            sys.stderr.write(text % (elapsed, begun[-1], len(begun) - 1, total))
            sys.stderr.flush()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield begun.append
    finally:
        over.set()
        watching.join()


@contextlib.contextmanager
def counter(what: str, total: Optional[int]) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of finished items, of `total` if known.

    It shows a bar on stderr if that is a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextlib.contextmanager
def reporter(began: float) -> Iterator[Tell]:
    """Show on stderr the present work, its elapsed and its remaining time.

    A bar on a terminal, lines elsewhere. Yields a function to call with the stage that begins, and
    the expected end by `time.monotonic()`; None if it is unknown.

    Args:
        began: the start of the work, by `time.monotonic()`.
    """
    with _bar(began) if sys.stderr.isatty() else _lines(began) as tell:
        yield tell


def time_left(ends: Optional[float]) -> str:
    """The time until then, in words."""
    if ends is None:
        return "time left not known yet"
    left = ends - time.monotonic()
    if left < -1:
        return "%s longer than planned: steps are long" % clock(-left)
    return "about %s left" % clock(left) if left >= 1 else "nearly done"


def clock(seconds: float) -> str:
    """`1:05`."""
    return "%d:%02d" % divmod(round(seconds), 60)


class _Times(ProgressColumn):
    """The elapsed and remaining time of a task, by its fields `began` and `ends`."""

    def render(self, task: Task) -> Text:
        """Both in words, for a line."""
        return Text(
            "%s; %s"
            % (clock(time.monotonic() - task.fields["began"]), time_left(task.fields["ends"]))
        )


class _Elapsed(BarColumn):
    """A bar of the elapsed share of the expected time."""

    def render(self, task: Task) -> object:  # type: ignore[override]
        """A task's `total` and `completed` are seconds; without a known end the bar pulses."""
        ends, began = task.fields["ends"], task.fields["began"]
        task.total = None if ends is None else max(ends, time.monotonic()) - began
        task.completed = time.monotonic() - began
        return super().render(task)


@contextlib.contextmanager
def _bar(began: float) -> Iterator[Tell]:
    columns = (TextColumn("{task.description}"), _Elapsed(bar_width=24), _Times())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None, ends=None, began=began)
        yield lambda what, ends: bar.update(task, description=what, ends=ends)


class _Lines(threading.Thread):
    """Prints a line when another stage begins, and every few seconds meanwhile."""

    def __init__(self, began: float):
        super().__init__(daemon=True)
        self._began = began
        self._over = threading.Event()
        self._now: Optional[Tuple[str, Optional[float]]] = None
        self._said: Tuple[str, float] = ("", began + _AT_ONCE - _EVERY)

    def tell(self, what: str, ends: Optional[float]) -> None:
        """Set the name of the present work."""
        self._now = (what, ends)
        self._look()

    def run(self) -> None:
        """Watch until it is over."""
        while not self._over.wait(_LOOK):
            self._look()

    def stop(self) -> None:
        """Stop printing."""
        self._over.set()
        self.join()

    def _look(self) -> None:
        said, when = self._said
        now = time.monotonic()
        what, ends = self._now or (said, None)
        if not self._now or now - self._began < _AT_ONCE or (what == said and now - when < _EVERY):
            return
        self._said = (what, now)
        sys.stderr.write("[%s] %s; %s\n" % (clock(now - self._began), what, time_left(ends)))
        sys.stderr.flush()


@contextlib.contextmanager
def _lines(began: float) -> Iterator[Tell]:
    lines = _Lines(began)
    lines.start()
    try:
        yield lines.tell
    finally:
        lines.stop()
