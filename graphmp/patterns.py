"""Regular expressions of users: of limited length and number, searched in limited time.

Python's engine takes exponential time on some of them. It looks for signals while it searches: a
timer ends it, in the main thread of the process; in other threads there is no limit.
"""

from __future__ import annotations

import contextlib
import functools
import re
import signal
import threading
from typing import Any, Iterable, Iterator, Optional, Sequence

from graphmp.errors import GraphmpError

LONGEST = 20_100  # characters of a regular expression; the gate's longest name, escaped, fits
MOST = 1000  # regular expressions of one kind
SECONDS = 5.0  # of the processor, for all searches of one kind
_WHOLE = "^(?:%s)$"


class Pattern:
    """A regular expression that is searched for in names."""

    latest = ""  # the expression that is searched for now, for the error

    def __init__(self, pattern: str):
        """Raise ValueError with the reason if it is not a regular expression."""
        self.pattern = pattern
        if len(pattern) > LONGEST:
            text = "%s characters, accepted are at most %s"
            raise ValueError(text % (format(len(pattern), ","), format(LONGEST, ",")))
        try:
            self._search = re.compile(pattern).search
        except (re.error, OverflowError, RecursionError, MemoryError) as error:
            raise ValueError(str(error) or type(error).__name__) from None

    def search(self, name: str) -> bool:
        """Whether the expression is found in a name."""
        Pattern.latest = self.pattern
        return self._search(name) is not None


@functools.lru_cache(maxsize=2 * MOST)
def pattern(text: str) -> Pattern:
    """A regular expression, compiled once; ValueError with the reason if it is none."""
    return Pattern(text)


def patterns(texts: Iterable[str]) -> Sequence[Pattern]:
    """Regular expressions that were checked before.

    Raises:
        GraphmpError: GMP002 if there are more than MOST.
    """
    found = [pattern(text) for text in texts]
    if len(found) > MOST:
        text = "%s regular expressions for names of nodes; accepted are at most %s"
        raise GraphmpError("GMP002", text % (format(len(found), ","), format(MOST, ",")))
    return found


def whole_names(names: Iterable[str]) -> Iterator[str]:
    """Regular expressions that find these names alone, as few as their limited length permits."""
    most, part = LONGEST - len(_WHOLE % ""), ""
    for name in map(re.escape, names):
        longer = "%s|%s" % (part, name) if part else name
        if part and len(longer) > most:
            yield _WHOLE % part
            longer = name
        part = longer
    if part:
        yield _WHOLE % part


def matches(texts: Iterable[str], name: str) -> bool:
    """Whether any of the regular expressions is found in a name."""
    found = patterns(texts)
    if not found:
        return False
    with limited_time():
        return any(each.search(name) for each in found)


@contextlib.contextmanager
def limited_time() -> Iterator[None]:
    """Limit the time of all searches inside.

    Raises:
        GraphmpError: GMP002, naming the expression.
    """
    timer: Optional[int] = getattr(signal, "ITIMER_VIRTUAL", None)
    is_main = threading.current_thread() is threading.main_thread()
    if timer is None or not is_main or signal.getitimer(timer)[0]:
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    signal.setitimer(timer, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(signal.SIGVTALRM, before)


def _too_slow(number: int, frame: Any) -> None:
    shown = Pattern.latest if len(Pattern.latest) <= 80 else Pattern.latest[:80] + "..."
    text = "the regular expression %s takes more than %d s; accepted is one without nested repeats"
    raise GraphmpError("GMP002", text % (shown, SECONDS))
