"""A diff as plain text: a summary of one line, the checks, then the changes by category, those that repeat on one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, List, NamedTuple, Optional, Sequence

from graphmp.diff import categories
from graphmp.diff.values import plural, printable

if TYPE_CHECKING:
    from graphmp.diff.model import Diff
    from graphmp.diff.patterns import Pattern

SUMMARY, HEADING, BLANK = "summary", "heading", "blank"
CHANGE, ADDED, REMOVED, REWIRED, UNEXPLAINED = "change", "added", "removed", "rewired", "unexplained"
_KINDS = {categories.ADDED: ADDED, categories.REMOVED: REMOVED, categories.REWIRED: REWIRED}
MOST_STALE = 10


class Line(NamedTuple):
    """A line and what it is, for whoever colours it."""

    kind: str
    text: str


def render(diff: Diff, expand: bool = False) -> str:
    """The whole text, each line ended."""
    return "".join(line.text + "\n" for line in lines(diff, expand))


def lines(diff: Diff, expand: bool = False) -> Iterator[Line]:
    """The lines of the text. Control characters in names are shown escaped: a terminal must not obey a file."""
    yield Line(SUMMARY, summary(diff))
    yield from _checks(diff)
    yield from _stale(diff)
    yield from _changes(diff, diff.patterns(), expand)


def check_lines(diff: Diff) -> Iterator[Line]:
    """The lines that decide whether a conversion passes: the checks, what is stale and what is unexplained."""
    yield Line(SUMMARY, summary(diff))
    yield from _checks(diff)
    yield from _stale(diff)
    if diff.has_report:
        yield from _changes(diff, [pattern for pattern in diff.patterns() if not pattern.reason], False)


def _changes(diff: Diff, patterns: Sequence[Pattern], expand: bool) -> Iterator[Line]:
    counts = diff.counts()
    category = ""
    for pattern in patterns:
        if pattern.category != category:
            category = pattern.category
            yield Line(BLANK, "")
            yield Line(HEADING, "%s (%s)" % (category, format(counts[category], ",")))
        missing = diff.has_report and not pattern.reason
        for text in rows(pattern, expand):
            yield Line(UNEXPLAINED if missing else _KINDS.get(category, CHANGE), "  " + printable(text + ("  # unexplained" if missing else "")))


def summary(diff: Diff) -> str:
    """One line: `412 changes: 96 dtype, 120 node added; 3 unexplained`."""
    if diff.identical and not diff.stale:
        return "no changes"
    counts = ", ".join("%s %s" % (format(count, ","), category) for category, count in diff.counts().items())
    line = "%s: %s" % (plural(len(diff.changes), "change"), counts) if counts else "no changes"
    if not diff.has_report:
        return line
    explained = "%s unexplained" % format(len(diff.unexplained), ",") if diff.unexplained else "all explained"
    return "%s; %s%s" % (line, explained, "; the report is stale" if diff.stale else "")


def side(part: str, value: Optional[str]) -> str:
    """One side of a change, such as `T float32`."""
    return "" if value is None else " ".join(filter(None, (part, value)))


def rows(pattern: Pattern, expand: bool) -> List[str]:
    """The line of a pattern, or a line for each of its changes."""
    if expand or len(pattern.changes) == 1:
        return [_row(c.path, c.part, c.before, c.after, c.reason, 1) for c in pattern.changes]
    before, after = (None if getattr(pattern.changes[0], name) is None else getattr(pattern, name) for name in ("before", "after"))
    return [_row(pattern.text, pattern.part, before, after, pattern.reason, len(pattern.changes))]


def _checks(diff: Diff) -> Iterator[Line]:
    if diff.checks:
        yield Line(BLANK, "")
        yield Line(HEADING, "checks")
    width = max((len(check.name) for check in diff.checks), default=0)
    for check in diff.checks:
        yield Line(check.status, "  %-11s  %-*s  %s" % (check.status, width, check.name, printable(check.text)))


def _stale(diff: Diff) -> Iterator[Line]:
    if not diff.stale:
        return
    yield Line(BLANK, "")
    yield Line(HEADING, "in the report, but not in these graphs (%s)" % format(len(diff.stale), ","))
    yield from (Line(UNEXPLAINED, "  " + printable(row)) for row in diff.stale[:MOST_STALE])
    if len(diff.stale) > MOST_STALE:
        yield Line(UNEXPLAINED, "  and %s more" % format(len(diff.stale) - MOST_STALE, ","))


def _row(path: str, part: str, before: Optional[str], after: Optional[str], reason: str, count: int) -> str:
    if before is None or after is None:
        sign, value = ("+", after) if before is None else ("-", before)
        what = "%s %s" % (sign, side(part, value))
    else:
        what = "%s -> %s" % (side(part, before), after)
    times = "x%s" % format(count, ",") if count > 1 else ""
    return "  ".join(filter(None, (path, what, times, "# " + reason if reason else "")))
