"""A diff as Markdown tables, short enough for a comment in a code review."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Iterator, List, Optional

from graphmp.diff.text import plural, side, summary
from graphmp.diff.values import printable

if TYPE_CHECKING:
    from graphmp.diff.model import Change, Diff

MOST_ROWS = 50  # a category; GitHub takes 65,536 characters a comment


def render(diff: Diff) -> str:
    """A summary, then one table a category with its first rows and a line that says how many were left out."""
    blocks = ["**%s**" % summary(diff)]
    for category, changes in diff.groups().items():
        blocks.append("### %s (%s)" % (category, format(len(changes), ",")))
        blocks.append("\n".join(_table(diff, changes)))
        if len(changes) > MOST_ROWS:
            blocks.append("and %s more" % plural(len(changes) - MOST_ROWS, "change"))
    return "\n\n".join(blocks) + "\n"


def _table(diff: Diff, changes: List[Change]) -> Iterator[str]:
    yield "| node | %s | %s | reason |" % (_words(diff.names[0]), _words(diff.names[1]))
    yield "| --- | --- | --- | --- |"
    for change in changes[:MOST_ROWS]:
        reason = _words(change.reason) or ("**unexplained**" if diff.has_report else "")
        yield "| %s | %s | %s | %s |" % (_code(change.node), _code(_side(change, change.before)), _code(_side(change, change.after)), reason)


def _side(change: Change, value: Optional[str]) -> str:
    return side(change.part, value)


def _code(text: str) -> str:
    """`text` as code, whatever it holds: fenced by more backticks than it has, and a pipe must not end the cell."""
    if not text:
        return ""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if "`" in text else ""
    return fence + space + printable(text).replace("|", "\\|") + space + fence


def _words(text: str) -> str:
    """`text` with nothing in it that Markdown would act upon."""
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", html.escape(printable(text), quote=False))
