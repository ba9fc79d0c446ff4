"""An audit as a page: one file that loads nothing.

page/ has its parts; figures are drawn here, the table of tensors by its script.
"""

from __future__ import annotations

import json
from string import Template
from typing import Any, Dict, Iterator, List, Sequence

from graphmp.audit.advice import advise
from graphmp.audit.agreement import loss_difference
from graphmp.audit.audit import Audit, LossFinding, TensorFinding
from graphmp.audit.measure.rows import ACTIVATION_GRADIENT, WEIGHT_GRADIENT
from graphmp.audit.measure.tally import added_up
from graphmp.audit.render import words
from graphmp.audit.render.drawing import (
    BOTTOM,
    DECADES,
    TOP,
    HistogramFrame,
    drawn,
    loss_chart,
    scaled,
    scales,
    superscript,
)
from graphmp.compare.render.single_page import escape, packed, resource, security_policy
from graphmp.policy.formats import FORMATS
from graphmp.wording import more, printable

# The parts of the script, joined in this order: package and name.
SCRIPTS = (
    *(("graphmp.compare.render", name) for name in ("dom", "decode")),
    *(("graphmp.audit.render", name) for name in ("copy", "figure", "table", "main")),
)
_GRADIENTS = (ACTIVATION_GRADIENT, WEIGHT_GRADIENT)
_MOST_LOSSES = 8
_MOST_WORST = 10  # tensors on the page without scripts, and on paper
_MOST_LEFT_OUT = 200


def render(audit: Audit) -> str:
    """The page as text. Its content security policy only allows its own style sheet and script."""
    style = resource("graphmp.audit.render", "page.css")
    script = "'use strict';\n" + "\n".join(
        resource(package, name + ".js") for package, name in SCRIPTS
    )
    figures, form = _Figures(audit), json.loads(audit.to_json())
    return Template(resource("graphmp.audit.render", "page.html")).substitute(
        policy=security_policy(style, script),
        style=style,
        source=escape(audit.source),
        dtype=audit.compute_dtype,
        state="good" if audit.agrees else "bad",
        agreement=escape(words.agreement_of_all(audit)),
        verdict=escape(words.verdict(audit)),
        facts=_facts(audit),
        next=_copied(escape(words.next_step(audit)), words.next_command(audit)),
        fix=_fix(audit),
        figures="".join(figures.roles()),
        losses=_losses(audit),
        roles=_table([words.ROLE_TITLES, *words.role_rows(form)]),
        worst="".join(figures.tensor(finding) for finding in audit.findings[:_MOST_WORST])
        or "<p>No tensor was measured.</p>\n",
        left_out=_left_out(audit),
        frame=figures.frame.svg(scales(), "histogram of exponents of the selected tensor"),
        data=packed(figures.data(form["tensors"])),
        script=script,
    )


class _Figures:
    """The histograms of a page."""

    def __init__(self, audit: Audit):
        self._audit = audit
        self._format = FORMATS[audit.compute_dtype]
        self._sums = {
            role: added_up([f.range.exponents for f in findings])
            for role, findings in audit.by_role().items()
        }
        self._ghosts = (
            {role: self._ghost(audit.by_role()[role]) for role in _GRADIENTS}
            if self._scales()
            else {}
        )
        self.frame = HistogramFrame(self._format, [*self._sums.values(), *self._ghosts.values()])

    def _scales(self) -> Dict[int, float]:
        """The advised scale of each loss that needs one; empty if none changes a value."""
        found = {
            number: loss.advice.scale
            for number, loss in enumerate(self._audit.losses)
            if loss.advice.flushed
        }
        return found if any(scale != 1 for scale in found.values()) else {}

    def _ghost(self, findings: Sequence[TensorFinding]) -> Any:
        """The exponents of gradients under the advised loss scale."""
        factors = self._scales()
        return added_up(
            [scaled(f.range.exponents, factors.get(f.range.row.loss, 1.0)) for f in findings]
        )

    def roles(self) -> Iterator[str]:
        """A figure for each role that has a value."""
        for role, exponents in self._sums.items():
            if exponents.any():
                caption = self._caption(role)
                bars = drawn(
                    self.frame, exponents, self._ghosts.get(role), "\u00d7 " + self._factors()
                )
                picture = self.frame.svg(bars, "%s: %s" % (role, " ".join(caption)))
                lines = "".join("<p>%s</p>\n" % escape(line) for line in caption)
                yield "<figure>\n<h3>%s</h3>\n%s\n<figcaption>\n%s</figcaption>\n</figure>\n" % (
                    role.capitalize() + "s",
                    picture,
                    lines,
                )

    def _caption(self, role: str) -> List[str]:
        dtype, exponents = self._audit.compute_dtype, self._sums[role]
        found = advise([exponents], self._format, 1.0)
        zeros = "%s of the values are zero." % words.share(
            float(exponents[0]) / float(exponents.sum())
        )
        if found.largest is None:
            return [zeros]
        used = (
            "%d of the %d powers of two of %s are used; the largest value is near 2%s, %d above it"
            " are unused. %s"
            % (
                *(
                    found.used,
                    found.powers,
                    dtype,
                    superscript(found.largest),
                    found.unused_above,
                    zeros,
                ),
            )
        )
        if role not in self._ghosts:
            return [used, "Of the others %s become zero in %s." % (_percent(found.flushed), dtype)]
        after = advise([self._ghosts[role]], self._format, 1.0)
        rates = (_percent(found.flushed), dtype, _percent(after.flushed), self._factors())
        return [
            used,
            "Of the others %s become zero in %s without a loss scale, %s times the advised %s"
            " (outline)." % rates,
        ]

    def _factors(self) -> str:
        return ", ".join(dict.fromkeys(words.power(scale) for scale in self._scales().values()))

    def tensor(self, finding: TensorFinding) -> str:
        """A tensor in the list for pages without scripts."""
        row = finding.range.row
        rows = [
            (
                "why half" if finding.half else "why float32",
                escape(finding.reason or "no reason given"),
            )
        ]
        rows += [("keep float32", "<code>%s</code>" % escape(finding.flag))] if finding.flag else []
        facts = "".join("<dt>%s</dt><dd>%s</dd>\n" % pair for pair in rows)
        title = "<h3><code>%s</code></h3>\n<p>%s, %s: <b>%s</b></p>\n" % (
            *map(escape, (row.name, row.op, row.role)),
            escape(words.wrong(finding)),
        )
        picture = self.frame.svg(
            drawn(self.frame, finding.range.exponents), "exponents of the tensor"
        )
        return "<article>\n%s<dl>\n%s</dl>\n%s\n</article>\n" % (title, facts, picture)

    def data(self, tensors: List[Dict[str, Any]]) -> Dict[str, Any]:
        """The data for the script.

        The JSON's tensors with their faults in words, and the positions of a figure's bars.
        """
        shown = []
        for tensor, finding in zip(tensors, self._audit.findings):
            texts = {name: printable(tensor[name]) for name in ("name", "op", "reason", "flag")}
            shown.append({**tensor, **texts, "wrong": words.wrong(finding)})
        frame = {
            "bins": self.frame.bins,
            "fields": self.frame.fields,
            "top": TOP,
            "bottom": BOTTOM,
            "decades": DECADES,
        }
        return {"dtype": self._audit.compute_dtype, "frame": frame, "tensors": shown}


def _percent(value: float) -> str:
    return words.share(value) if value else "none"


def _facts(audit: Audit) -> str:
    rows = [
        ("arithmetic", words.arithmetic(audit)),
        ("data", audit.data),
        ("steps", words.measured(audit)),
    ]
    return "".join("<dt>%s</dt><dd>%s</dd>\n" % (name, escape(value)) for name, value in rows)


def _fix(audit: Audit) -> str:
    """The flags that keep overflowing nodes float32, if the graphs disagree."""
    flags = list(dict.fromkeys(finding.flag for finding in audit.offenders if finding.flag))
    if audit.agrees or not flags:
        return ""
    said = (
        "to keep float32 what overflows; <code>--fix</code> finds the fewest that make the graphs"
        " agree"
    )
    shown = " ".join("<span>%s</span>" % escape(flag) for flag in flags)
    return '<dt>or flags</dt><dd>%s<div class="fix">%s</div></dd>\n' % (
        said,
        _copied(shown, " ".join(flags)),
    )


def _copied(shown: str, copied: str) -> str:
    """Code, as HTML, with a button that copies it."""
    return '<code data-copy="%s">%s</code>' % (escape(copied), shown)


def _losses(audit: Audit) -> str:
    if not audit.losses:
        return "<p>No loss was found.</p>\n"
    hidden = len(audit.losses) - _MOST_LOSSES
    return "".join(_loss(loss, audit) for loss in audit.losses[:_MOST_LOSSES]) + (
        "<p>%s</p>\n" % more(hidden) if hidden > 0 else ""
    )


def _loss(loss: LossFinding, audit: Audit) -> str:
    differences = [loss_difference(a, b) for a, b in zip(loss.original, loss.converted)]
    chart = loss_chart(
        loss.original,
        loss.converted,
        differences,
        "%s: %s" % (words.loss_name(loss), words.agreement(loss)),
    )
    lines = [
        words.agreement(loss) + "; " + words.scale_now(loss),
        "Gradients " * (loss.advice.largest is not None)
        + words.range_used(loss, audit.compute_dtype),
        "Advice: " + words.scale_advice(loss),
    ]
    if loss.advice.too_wide:
        lines.append("Of the gradients " + words.range_advice(loss, audit.compute_dtype))
    kind = "" if loss.agrees(audit.tolerance) else ' class="bad"'
    caption = "".join(
        "<p%s>%s.</p>\n" % (kind if not number else "", escape(line[:1].upper() + line[1:]))
        for number, line in enumerate(lines)
    )
    return "<figure>\n<h3><code>%s</code></h3>\n%s\n<figcaption>\n%s</figcaption>\n</figure>\n" % (
        escape(words.loss_name(loss)),
        chart,
        caption,
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    """A table with a heading for each column and row."""
    head = "".join('<th scope="col">%s</th>' % escape(cell) for cell in rows[0])
    body = "".join(
        '<tr><th scope="row">%s</th>%s</tr>\n'
        % (escape(row[0]), "".join("<td>%s</td>" % escape(c) for c in row[1:]))
        for row in rows[1:]
    )
    return "<table>\n<thead><tr>%s</tr></thead>\n<tbody>\n%s</tbody>\n</table>\n" % (head, body)


def _left_out(audit: Audit) -> str:
    names = audit.left_out
    if not names:
        return ""
    items = "".join("<li><code>%s</code></li>\n" % escape(name) for name in names[:_MOST_LEFT_OUT])
    hidden = len(names) - _MOST_LEFT_OUT
    rest = "<li>%s</li>\n" % more(hidden) if hidden > 0 else ""
    return '<details id="left-out">\n<summary>%s</summary>\n<ul>\n%s%s</ul>\n</details>\n' % (
        words.left_out(audit),
        items,
        rest,
    )
