"""A diff as a page: one file that loads nothing, the original left and the converted graph right. page/ has its parts."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import io
import json
import pkgutil
from string import Template
from typing import TYPE_CHECKING, Any, Iterable, List

from graphmp.diff.page_data import page_data
from graphmp.diff.text import plural, summary
from graphmp.diff.values import printable

if TYPE_CHECKING:
    from graphmp.diff.model import Diff

# The parts of the script, joined in this order.
SCRIPTS = (
    ("dom", "decode", "graph", "changes", "filters", "rows")  # the data
    + ("list", "marks", "tree", "panel", "header", "details", "overview", "layout", "drawing")  # what shows it
    + ("state", "keys", "page", "main")
)
MOST_NAMED = 20  # unexplained changes, and rows of a stale report, on the page without scripts


def render(diff: Diff) -> str:
    """The page as text. Its content security policy admits its own style sheet and script and nothing else."""
    style = _resource("page.css")
    script = "'use strict';\n" + "\n".join(_resource(name + ".js") for name in SCRIPTS)
    return Template(_resource("page.html")).substitute(
        policy="default-src 'none'; style-src %s; script-src %s; base-uri 'none'; form-action 'none'" % (_hash(style), _hash(script)),
        title="%s | %s" % (_escape(diff.names[0]), _escape(diff.names[1])),
        style=style,
        before=_escape(diff.names[0]),
        after=_escape(diff.names[1]),
        summary=_escape(summary(diff)),
        plain=_plain(diff),
        data=_packed(page_data(diff)),
        script=script,
    )


def embed(page: str) -> str:
    """The page inside a frame of its own, for a notebook: its style and script stay in, and the frame may do nothing but run them."""
    return '<iframe sandbox="allow-scripts" srcdoc="%s" width="100%%" height="640" frameborder="0"></iframe>' % html.escape(page)


def _resource(name: str) -> str:
    data = pkgutil.get_data("graphmp.diff", "page/" + name)
    assert data is not None  # package data, installed with this file
    return data.decode("utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _packed(value: Any) -> str:
    """JSON, by gzip, in base64. The same value gives the same text at any time."""
    target = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as file:
        file.write(json.dumps(value, separators=(",", ":")).encode("ascii"))
    return base64.b64encode(target.getvalue()).decode("ascii")


def _escape(text: str) -> str:
    return html.escape(printable(text))


def _plain(diff: Diff) -> str:
    """What can be said without a script: checks, what is unexplained or stale, counts."""
    unexplained = ["%s: %s" % (change.path, change.category) for change in diff.unexplained]
    parts = [
        _list("Checks", ["%s %s: %s" % (check.name, check.status, check.text) for check in diff.checks]),
        _list("%s unexplained" % plural(len(unexplained), "change"), _first(unexplained)),
        _list("The report is stale", _first(diff.stale)),
        _list("Changes", ["%s %s" % (format(count, ","), category) for category, count in diff.counts().items()]),
    ]
    return "".join(parts)


def _first(lines: Iterable[str]) -> List[str]:
    found = list(lines)
    return found[:MOST_NAMED] + (["and %s more" % format(len(found) - MOST_NAMED, ",")] if len(found) > MOST_NAMED else [])


def _list(title: str, lines: List[str]) -> str:
    """A headed list; nothing where it would be empty."""
    return "<h2>%s</h2>\n<ul>\n%s</ul>\n" % (_escape(title), "".join("<li>%s</li>\n" % _escape(line) for line in lines)) if lines else ""
