"""A diff as plain text: a summary of one line, then the changes by category, one a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional

from graphmp.diff.values import printable

if TYPE_CHECKING:
    from graphmp.diff.model import Change, Diff

SUMMARY, HEADING, CHANGE, UNEXPLAINED, BLANK = "summary", "heading", "change", "unexplained", "blank"


class Line(NamedTuple):
    """A line and what it is, for whoever colours it."""

    kind: str
    text: str


def render(diff: Diff) -> str:
    """The whole text, each line ended."""
    return "".join(line.text + "\n" for line in lines(diff))


def lines(diff: Diff) -> Iterator[Line]:
    """The lines of the text. Control characters in names are shown escaped: a terminal must not obey a file."""
    yield Line(SUMMARY, summary(diff))
    for category, changes in diff.groups().items():
        yield Line(BLANK, "")
        yield Line(HEADING, "%s (%s)" % (category, format(len(changes), ",")))
        for change in changes:
            missing = diff.has_report and not change.reason
            yield Line(UNEXPLAINED if missing else CHANGE, "  " + printable(_row(change, "unexplained" if missing else change.reason)))


def summary(diff: Diff) -> str:
    """One line: `412 changes: 96 dtype, 120 node added; 3 unexplained`."""
    if diff.identical:
        return "no changes"
    counts = ", ".join("%s %s" % (format(count, ","), category) for category, count in diff.counts().items())
    line = "%s: %s" % (plural(len(diff.changes), "change"), counts)
    if not diff.has_report:
        return line
    return "%s; %s" % (line, "%s unexplained" % format(len(diff.unexplained), ",") if diff.unexplained else "all explained")


def plural(count: int, noun: str) -> str:
    """`1 change`, `2,000 changes`."""
    return "%s %s%s" % (format(count, ","), noun, "" if count == 1 else "s")


def side(part: str, value: Optional[str]) -> str:
    """One side of a change, such as `T float32`."""
    return "" if value is None else " ".join(filter(None, (part, value)))


def _row(change: Change, reason: str) -> str:
    if change.before is None or change.after is None:
        sign, value = ("+", change.after) if change.before is None else ("-", change.before)
        what = "%s %s" % (sign, side(change.part, value))
    else:
        what = "%s -> %s" % (side(change.part, change.before), change.after)
    return "  ".join(filter(None, (change.node, what, "# " + reason if reason else "")))
