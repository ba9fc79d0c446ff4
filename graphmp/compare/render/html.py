"""A diff as a page in one file that loads nothing: original left, converted graph right.

page/ has its parts.
"""

from __future__ import annotations

import html
from pathlib import PurePosixPath
from string import Template
from typing import Iterable, List, Sequence

from graphmp.compare.render.page_data import page_data
from graphmp.compare.render.single_page import escape, packed, resource, security_policy
from graphmp.compare.render.text import summary
from graphmp.compare.review import words
from graphmp.compare.review.reviewed import Reviewed
from graphmp.wording import more, plural

# The parts of the script, in order.
SCRIPTS = (
    ("dom", "decode", "graph", "changes", "filters", "rows")  # the data
    + (
        "list",
        "marks",
        "tree",
        "panel",
        "header",
        "ask",
        "map",
        "flow",
        "details",
        "overview",
        "layout",
        "drawing",
    )  # what shows it
    + ("state", "keys", "page", "main")
)
STYLES = ("page", "review", "map", "narrow")
MOST_NAMED = 20  # unexplained changes and stale rows on the page without scripts


def render(diff: Reviewed) -> str:
    """The page as text. Its content security policy only allows its own style sheet and script."""
    style = "".join(resource("graphmp.compare.render", name + ".css") for name in STYLES)
    script = "'use strict';\n" + "\n".join(
        resource("graphmp.compare.render", name + ".js") for name in SCRIPTS
    )
    about, *lines = (
        words.rows(diff.summary) if diff.summary else (words.Row("", ""),)
    )  # first of the model, which the title names
    return Template(resource("graphmp.compare.render", "page.html")).substitute(
        policy=security_policy(style, script),
        title=escape(_title(diff)),
        style=style,
        heading=escape(_title(diff)),
        review=_review(lines),
        before=escape(diff.names[0]),
        after=escape(diff.names[1]),
        summary=escape(" \u00b7 ".join(filter(None, (summary(diff), about.text)))),
        plain=_plain(diff),
        data=packed(page_data(diff)),
        script=script,
    )


def embed(page: str) -> str:
    """The page in a sandboxed frame, for a notebook: it may only run its own style and script."""
    return (
        '<iframe sandbox="allow-scripts" srcdoc="%s" width="100%%" height="640"'
        ' frameborder="0"></iframe>' % html.escape(page)
    )


def _title(diff: Reviewed) -> str:
    """A conversion's model, or the names of two graphs; with dtype and coverage if it has matmuls.

    For example `simple_cnn, float16, 9 of 9 matmuls and convolutions`.
    """
    names = "%s | %s" % diff.names
    if diff.summary is None:
        return names
    if diff.summary.reported is not None:
        names = PurePosixPath(words.title(diff.summary)).stem
    counts = diff.summary.coverage
    if not counts.matmuls:
        return names
    done = "%s of %s matmuls and convolutions" % (
        format(counts.half_matmuls, ","),
        format(counts.matmuls, ","),
    )
    return " \u00b7 ".join((names, diff.summary.compute_dtype, done))


def _review(lines: Sequence[words.Row]) -> str:
    """The lines of a summary, grouped by label; empty without lines."""
    terms: List[str] = []
    for label, text in lines:
        if label:
            terms.append("<dt>%s</dt>" % escape(label))
        terms[-1] += "<dd>%s</dd>" % escape(text)
    return (
        '<dl id="summary">\n%s</dl>\n' % "".join("<div>%s</div>\n" % term for term in terms)
        if terms
        else ""
    )


def _plain(diff: Reviewed) -> str:
    """The page's text without a script: checks, unexplained and stale changes, counts."""
    unexplained = ["%s: %s" % (change.path, change.category) for change in diff.unexplained]
    parts = [
        _list(
            "Claims",
            ["%s %s: %s" % (claim.name, claim.verdict, claim.text) for claim in diff.claims],
        ),
        _list("%s unexplained" % plural(len(unexplained), "change"), _first(unexplained)),
        _list("The report is stale", _first(diff.stale)),
        _list(
            "Changes",
            ["%s %s" % (format(count, ","), category) for category, count in diff.counts().items()],
        ),
    ]
    return "".join(parts)


def _first(lines: Iterable[str]) -> List[str]:
    found = list(lines)
    return [*found[:MOST_NAMED], *filter(None, [more(len(found) - MOST_NAMED)])]


def _list(title: str, lines: List[str]) -> str:
    """A list with a heading; empty for an empty list."""
    return (
        "<h2>%s</h2>\n<ul>\n%s</ul>\n"
        % (escape(title), "".join("<li>%s</li>\n" % escape(line) for line in lines))
        if lines
        else ""
    )
