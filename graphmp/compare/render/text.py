"""A diff as plain text: the summary of the review, then the changes by importance.

Changes that repeat, or have one meaning, are on one line. Expanded, all claims and a line for each
change, by category.
"""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Optional, Sequence

from graphmp.compare import categories
from graphmp.compare.patterns import ChangePattern
from graphmp.compare.review import importance, words
from graphmp.compare.review.reviewed import Reviewed
from graphmp.wording import labelled, more, plural, printable

HEAD, ROW, SUMMARY, HEADING, BLANK = "head", "row", "summary", "heading", "blank"
CHANGE, ADDED, REMOVED, REWIRED, UNEXPLAINED = (
    "change",
    "added",
    "removed",
    "rewired",
    "unexplained",
)
_KINDS = {categories.ADDED: ADDED, categories.REMOVED: REMOVED, categories.REWIRED: REWIRED}
# Categories that a row shows without a word.
_SPEAKS_FOR_ITSELF = (
    categories.ADDED,
    categories.REMOVED,
    categories.DTYPE,
    categories.REWIRED,
    categories.VIA_CAST,
)
MOST_STALE = 10
MOST_GROUPS = 20


class Line(NamedTuple):
    """A line and its kind, for colouring."""

    kind: str
    text: str


def render(diff: Reviewed, expand: bool = False) -> str:
    """The whole text, each line ended."""
    return "".join(line.text + "\n" for line in lines(diff, expand))


def lines(diff: Reviewed, expand: bool = False) -> Iterator[Line]:
    """The lines of the text.

    Control characters in names are escaped, so that they don't reach a terminal.
    """
    yield Line(SUMMARY, summary(diff))
    yield from _summary(diff)
    if expand or diff.summary is None:
        yield from _claims(diff)
    yield from _stale(diff)
    yield from _changes(diff, diff.patterns(), expand) if expand else _sections(diff)


def _summary(diff: Reviewed) -> Iterator[Line]:
    if diff.summary is not None:
        yield Line(BLANK, "")
        yield from (
            Line(HEAD if number == 0 else ROW, printable(labelled(*row)))
            for number, row in enumerate(words.rows(diff.summary))
        )


def check_lines(diff: Reviewed) -> Iterator[Line]:
    """The lines that decide whether a conversion passes: claims, stale and unexplained changes."""
    yield Line(SUMMARY, summary(diff))
    yield from _claims(diff)
    yield from _stale(diff)
    if diff.has_report:
        yield from _changes(
            diff, [pattern for pattern in diff.patterns() if not pattern.reason], False
        )


def _sections(diff: Reviewed) -> Iterator[Line]:
    for section in importance.sections(diff):
        yield Line(BLANK, "")
        yield Line(HEADING, "%s (%s)" % (section.name, format(section.size, ",")))
        missing = section.name == importance.UNEXPLAINED
        for group in section.groups[:MOST_GROUPS]:
            kind = UNEXPLAINED if missing else _KINDS.get(group.patterns[0].category, CHANGE)
            yield Line(
                kind, "  " + printable(group_row(group) + ("  # unexplained" if missing else ""))
            )
        if len(section.groups) > MOST_GROUPS:
            yield Line(CHANGE, "  " + more_row(section.groups[MOST_GROUPS:]))


def _changes(diff: Reviewed, patterns: Sequence[ChangePattern], expand: bool) -> Iterator[Line]:
    counts = diff.counts()
    category = ""
    for pattern in patterns:
        if pattern.category != category:
            category = pattern.category
            yield Line(BLANK, "")
            yield Line(HEADING, "%s (%s)" % (category, format(counts[category], ",")))
        missing = diff.has_report and not pattern.reason
        for text in rows(pattern, expand):
            yield Line(
                UNEXPLAINED if missing else _KINDS.get(category, CHANGE),
                "  " + printable(text + ("  # unexplained" if missing else "")),
            )


def summary(diff: Reviewed) -> str:
    """One line: `412 changes: 96 dtype, 120 node added; 3 unexplained`."""
    if diff.identical and not diff.stale:
        return "no changes"
    counts = ", ".join(
        "%s %s" % (format(count, ","), category) for category, count in diff.counts().items()
    )
    line = "%s: %s" % (plural(len(diff.changes), "change"), counts) if counts else "no changes"
    if not diff.has_report:
        return line
    explained = (
        "%s unexplained" % format(len(diff.unexplained), ",")
        if diff.unexplained
        else "all explained"
    )
    return "%s; %s%s" % (line, explained, "; the report is stale" if diff.stale else "")


def side(part: str, value: Optional[str]) -> str:
    """One side of a change, such as `T float32`."""
    return "" if value is None else " ".join(filter(None, (part, value)))


def rows(pattern: ChangePattern, expand: bool) -> List[str]:
    """The line of a pattern, or a line for each of its changes."""
    if expand or len(pattern.changes) == 1:
        return [_row(c.path, c.part, c.before, c.after, c.reason, 1) for c in pattern.changes]
    before, after = (
        None if getattr(pattern.changes[0], name) is None else getattr(pattern, name)
        for name in ("before", "after")
    )
    return [_row(pattern.text, pattern.part, before, after, pattern.reason, len(pattern.changes))]


def group_row(group: importance.PatternGroup) -> str:
    """The line of a group: its patterns if their nodes are equal, else the number of nodes.

    The latter with what the changes have in common.
    """
    first, changes = group.patterns[0], group.changes
    alike = {(change.part, change.before, change.after) for change in changes}
    nodes = len({change.path for change in changes})
    name, times = group.scope, ""
    if len({pattern.text for pattern in group.patterns}) == 1:
        name, what = first.text, ", ".join(_what_of(pattern) for pattern in group.patterns)
        times = _times(len(first.changes))
    elif first.category in (categories.ADDED, categories.REMOVED) and len(alike) > 1:
        what = "%s %s" % ("+" if first.category == categories.ADDED else "-", plural(nodes, "node"))
    else:
        what, times = _what_of(first) if len(alike) == 1 else first.category, _times(len(changes))
    if not name:
        noun = "more field" if first.category == categories.META_GRAPH else "more node"
        name = first.changes[0].path + (" and %s" % plural(nodes - 1, noun) if nodes > 1 else "")
    return "  ".join(filter(None, (name, what, times, "# " + group.reason if group.reason else "")))


def _what_of(pattern: ChangePattern) -> str:
    """A change in words, after its category unless the change itself shows it."""
    change = pattern.changes[0]
    sides = (
        None if getattr(change, name) is None else getattr(pattern, name)
        for name in ("before", "after")
    )
    what = _what(pattern.part, *sides)
    return what if pattern.category in _SPEAKS_FOR_ITSELF else "%s %s" % (pattern.category, what)


def more_row(groups: Sequence[importance.PatternGroup]) -> str:
    """The line for groups that aren't shown."""
    return "and %s in %s: --all shows them" % (
        plural(sum(len(group.changes) for group in groups), "more change"),
        plural(len(groups), "line"),
    )


def _claims(diff: Reviewed) -> Iterator[Line]:
    if diff.claims:
        yield Line(BLANK, "")
        yield Line(HEADING, "claims")
    width = max((len(claim.name) for claim in diff.claims), default=0)
    for claim in diff.claims:
        yield Line(
            claim.verdict,
            "  %-14s  %-*s  %s" % (claim.verdict, width, claim.name, printable(claim.text)),
        )


def _stale(diff: Reviewed) -> Iterator[Line]:
    if not diff.stale:
        return
    yield Line(BLANK, "")
    yield Line(
        HEADING, "in the report, but not in these graphs (%s)" % format(len(diff.stale), ",")
    )
    yield from (Line(UNEXPLAINED, "  " + printable(row)) for row in diff.stale[:MOST_STALE])
    if len(diff.stale) > MOST_STALE:
        yield Line(UNEXPLAINED, "  " + more(len(diff.stale) - MOST_STALE))


def _row(
    path: str, part: str, before: Optional[str], after: Optional[str], reason: str, count: int
) -> str:
    return "  ".join(
        filter(
            None, (path, _what(part, before, after), _times(count), "# " + reason if reason else "")
        )
    )


def _what(part: str, before: Optional[str], after: Optional[str]) -> str:
    if before is None or after is None:
        sign, value = ("+", after) if before is None else ("-", before)
        return "%s %s" % (sign, side(part, value))
    return "%s -> %s" % (side(part, before), after)


def _times(count: int) -> str:
    return "x%s" % format(count, ",") if count > 1 else ""
