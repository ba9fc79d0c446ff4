"""A diff as a page: one file, no script, nothing loaded from elsewhere, the original left and the converted right."""

from __future__ import annotations

import base64
import hashlib
import html
import pkgutil
from string import Template
from typing import TYPE_CHECKING, List, Optional

from graphmp.diff.text import plural, side, summary
from graphmp.diff.values import printable

if TYPE_CHECKING:
    from graphmp.diff.model import Change, Diff

MOST_ROWS = 2000  # a category


def render(diff: Diff) -> str:
    """The page as text. Its content security policy admits its own style sheet and nothing else."""
    style = _resource("diff.css")
    return Template(_resource("diff.html")).substitute(
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii"),
        title="%s | %s" % (_escape(diff.names[0]), _escape(diff.names[1])),
        before=_escape(diff.names[0]),
        after=_escape(diff.names[1]),
        summary=_escape(summary(diff)),
        counts="".join(_count(category, count) for category, count in diff.counts().items()),
        groups="".join(_group(diff, category, changes) for category, changes in diff.groups().items()),
    )


def embed(page: str) -> str:
    """The page inside a frame of its own, for a notebook: its style stays in, the notebook's stays out."""
    return '<iframe sandbox srcdoc="%s" width="100%%" height="480" frameborder="0"></iframe>' % html.escape(page)


def _resource(name: str) -> str:
    data = pkgutil.get_data("graphmp.diff", "page/" + name)
    assert data is not None  # package data, installed with this file
    return data.decode("utf-8")


def _escape(text: str) -> str:
    return html.escape(printable(text))


def _anchor(category: str) -> str:
    return category.replace(" ", "-")


def _count(category: str, count: int) -> str:
    return '<li><a href="#%s"><b>%s</b> %s</a></li>\n' % (_anchor(category), format(count, ","), category)


def _group(diff: Diff, category: str, changes: List[Change]) -> str:
    shown = changes[:MOST_ROWS]
    rows = "".join(_name(change) * (not index or change.node != shown[index - 1].node) + _row(diff, change) for index, change in enumerate(shown))
    left_out = len(changes) - MOST_ROWS
    note = (
        '<p class="left-out">%s more not shown here; <code>graphmp diff</code> prints all.</p>\n' % plural(left_out, "change") if left_out > 0 else ""
    )
    heading = '<summary><h2 id="%s">%s</h2> <span>%s</span></summary>\n' % (_anchor(category), category, format(len(changes), ","))
    head = "<thead><tr><th>%s</th><th>%s</th><th>reason</th></tr></thead>\n" % (_escape(diff.names[0]), _escape(diff.names[1]))
    return "<details open>\n%s<table>\n%s<tbody>\n%s</tbody>\n</table>\n%s</details>\n" % (heading, head, rows, note)


def _name(change: Change) -> str:
    return '<tr class="node"><th colspan="3" scope="rowgroup">%s</th></tr>\n' % _escape(change.node)


def _row(diff: Diff, change: Change) -> str:
    unexplained = diff.has_report and not change.reason
    attribute, reason = (' class="unexplained"', "unexplained") if unexplained else ("", change.reason)
    cells = _cell("before", change.part, change.before) + _cell("after", change.part, change.after)
    return '<tr%s>%s<td class="reason">%s</td></tr>\n' % (attribute, cells, _escape(reason))


def _cell(name: str, part: str, value: Optional[str]) -> str:
    return '<td class="%s%s">%s</td>' % (name, "" if value is not None else " none", _escape(side(part, value)).replace("/", "/<wbr>"))
