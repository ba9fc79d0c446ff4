"""A diff as Markdown for a pull request, short enough for a comment.

The summary of the review, the claims, then a fenced diff of the changes.
"""

from __future__ import annotations

import html
import re
from typing import Iterator, List, Tuple

from graphmp.compare.patterns import ChangePattern
from graphmp.compare.render.text import MOST_GROUPS, group_row, more_row, rows, summary
from graphmp.compare.review import importance, words
from graphmp.compare.review.reviewed import Reviewed
from graphmp.verify import FAILED, NOT_APPLICABLE, NOT_PROVED, PROVED
from graphmp.wording import plural, printable

MOST_BYTES = 60000  # GitHub's limit for a comment is 65,536 characters
_MARKS = {PROVED: "- [x]", FAILED: "- [ ]", NOT_PROVED: "- [ ]", NOT_APPLICABLE: "-"}


def render(diff: Reviewed, expand: bool = False) -> str:
    """The summary, the claims, and the changes, by importance or, expanded, by category.

    A last line gives the number of omitted lines.
    """
    told = [
        c for c in diff.claims if expand or diff.summary is None or c.verdict != NOT_APPLICABLE
    ]  # the summary counts the others
    claims = [
        "%s **%s** %s: %s" % (_MARKS[c.verdict], c.name, c.verdict, _words(c.text)) for c in told
    ]
    head = [
        "**%s**" % _words(summary(diff)),
        *("\n".join(each) for each in (_table(diff), claims) if each),
    ]
    body, left_out = _capped(
        list(_fenced_lines(diff, expand)), MOST_BYTES - _size("\n\n".join(head)) - 200
    )
    fence = "`" * max(
        3, 1 + max((len(run) for line in body for run in re.findall("`+", line)), default=0)
    )
    fenced = ["\n".join([fence + "diff", *body, fence])] if body else []
    more = (
        ["%s left out: `graphmp diff --all` prints all." % plural(left_out, "line")]
        if left_out
        else []
    )
    return "\n\n".join(head + fenced + more) + "\n"


def _table(diff: Reviewed) -> List[str]:
    """The summary of the review as a table; empty if the graphs aren't known."""
    if diff.summary is None:
        return []
    (title, nodes), *rows = words.rows(diff.summary)
    return [
        "| %s | %s |" % (_words(title), _words(nodes)),
        "|---|---|",
        *("| %s | %s |" % (row.label, _words(row.text)) for row in rows),
    ]


def _fenced_lines(diff: Reviewed, expand: bool) -> Iterator[str]:
    """Lines of a diff: old and new value, and under `@@` the section, or expanded the category."""
    yield from _by_category(diff) if expand else _by_importance(diff)
    for row in diff.stale:
        yield "! stale: " + printable(row)


def _by_importance(diff: Reviewed) -> Iterator[str]:
    for section in importance.sections(diff):
        yield "@@ %s (%s) @@" % (section.name, format(section.size, ","))
        for group in section.groups[:MOST_GROUPS]:
            yield _sign(group.patterns[0], diff.has_report) + " " + printable(group_row(group))
        if len(section.groups) > MOST_GROUPS:
            yield "  " + more_row(section.groups[MOST_GROUPS:])


def _by_category(diff: Reviewed) -> Iterator[str]:
    counts = diff.counts()
    category = ""
    for pattern in diff.patterns():
        if pattern.category != category:
            category = pattern.category
            yield "@@ %s (%s) @@" % (category, format(counts[category], ","))
        for text in rows(pattern, True):
            yield _sign(pattern, diff.has_report) + " " + printable(text)


def _sign(pattern: ChangePattern, has_report: bool) -> str:
    """`!` for unexplained changes, as in a context diff, else `+`, `-` or nothing."""
    first = pattern.changes[0]
    if has_report and not pattern.reason:
        return "! unexplained:"
    return "+" if first.before is None else "-" if first.after is None else " "


def _capped(lines: List[str], most: int) -> Tuple[List[str], int]:
    """The first lines within `most` bytes, and the number of the others."""
    used = 0
    for number, line in enumerate(lines):
        used += _size(line) + 1
        if used > most:
            return lines[:number], len(lines) - number
    return lines, 0


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _words(text: str) -> str:
    """`text` escaped for Markdown."""
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", html.escape(printable(text), quote=False))
