"""An audit as plain text.

What was measured, losses, roles, exponents beside the format's range, the worst tensors, what to do
next.
"""

from __future__ import annotations

import json
import math
from typing import Iterator, List, NamedTuple, Sequence

from graphmp.audit.audit import Audit, LossFinding, TensorFinding
from graphmp.audit.measure.rows import ROLES
from graphmp.audit.measure.tally import added_up
from graphmp.audit.render import words
from graphmp.policy.formats import EXPONENT_BIAS, FORMATS, Format
from graphmp.wording import labelled, more, plural, printable

HEAD, ROW, HEADING, NOTE, FAILED, PASSED, NEXT = (
    "head",
    "row",
    "heading",
    "note",
    "failed",
    "passed",
    "next",
)
LOWEST = -40  # first exponent of a histogram, unless the format's range begins lower
_BLOCKS = "▁▂▃▄▅▆▇█"  # one for each power of ten of the share
_ASCII_BLOCKS = ".:-=+*#@"
_MOST_LOSSES = 4
_MOST_LEFT_OUT = 5
_COLUMNS = 64


class StyledLine(NamedTuple):
    """A line and its kind, for colouring."""

    kind: str
    text: str


def can_draw(encoding: str) -> bool:
    """Whether an encoding has the characters of the histograms."""
    try:
        _BLOCKS.encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def lines(audit: Audit, most: int = 10, ascii_only: bool = False) -> Iterator[StyledLine]:
    """The lines of the text. Names are untrusted: invisible characters are shown escaped."""
    yield from _head(audit)
    for loss in audit.losses[:_MOST_LOSSES]:
        yield from _loss(loss, audit)
    if len(audit.losses) > _MOST_LOSSES:
        yield StyledLine(ROW, labelled("", more(len(audit.losses) - _MOST_LOSSES)))
    yield StyledLine(
        PASSED if audit.agrees else FAILED, labelled("agreement", words.agreement_of_all(audit))
    )
    yield from _roles(audit)
    yield from _histograms(audit, _ASCII_BLOCKS if ascii_only else _BLOCKS)
    yield from _worst(audit, most)
    yield from _left_out(audit)
    yield StyledLine(ROW, "")
    yield StyledLine(NEXT, labelled("next", words.next_step(audit)))


def _head(audit: Audit) -> Iterator[StyledLine]:
    source = printable(audit.source)
    yield StyledLine(
        HEAD,
        labelled(
            source.rstrip("/").split("/")[-1],
            "%s against float32, on the same batches" % audit.compute_dtype,
        ),
    )
    yield StyledLine(ROW, labelled("source", source))
    yield StyledLine(ROW, labelled("arithmetic", words.arithmetic(audit)))
    yield StyledLine(ROW, labelled("data", printable(audit.data)))
    yield StyledLine(ROW, labelled("steps", words.measured(audit)))


def _loss(loss: LossFinding, audit: Audit) -> Iterator[StyledLine]:
    kind = PASSED if loss.agrees(audit.tolerance) else FAILED
    yield StyledLine(
        kind,
        labelled(
            "loss",
            "%s: %s; %s" % (words.loss_name(loss), words.agreement(loss), words.scale_now(loss)),
        ),
    )
    yield StyledLine(ROW, labelled("gradients", words.range_used(loss, audit.compute_dtype)))
    if loss.advice.largest is not None:
        yield StyledLine(ROW, labelled("advice", words.scale_advice(loss)))
    if loss.advice.too_wide:
        yield StyledLine(NOTE, labelled("vanishing", words.range_advice(loss, audit.compute_dtype)))


def _roles(audit: Audit) -> Iterator[StyledLine]:
    rows = [list(words.ROLE_TITLES), *words.role_rows(json.loads(audit.to_json()))]
    widths = [max(map(len, column)) for column in zip(*rows)]
    yield StyledLine(ROW, "")
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0])] + [
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:])
        ]
        yield StyledLine(ROW if number else HEADING, "  " + "  ".join(cells))


def _histograms(audit: Audit, blocks: str) -> Iterator[StyledLine]:
    """A line for each role, a column for each exponent, or several for a format with many."""
    format_ = FORMATS[audit.compute_dtype]
    low, high = min(LOWEST, format_.bottom - 2), format_.top + 1
    step = -(-(high - low + 1) // _COLUMNS)
    high += (low - high - 1) % step  # whole columns
    width = max(map(len, ROLES))
    yield StyledLine(ROW, "")
    many = "" if step == 1 else ", %d a column" % step
    legend = "%s 10%% or more of the values, %s less than 0.0001%%" % (blocks[-1], blocks[0])
    yield StyledLine(
        HEADING, "exponents from 2^%d to 2^%d%s, not scaled; %s" % (low, high, many, legend)
    )
    for role, findings in audit.by_role().items():
        exponents = added_up(f.range.exponents for f in findings).tolist()
        total = sum(exponents)
        if total:
            columns = _columns(exponents, low, high, step)
            drawn = "".join(_block(count / total, blocks) for count in columns)
            yield StyledLine(
                ROW,
                "  %-*s |%s|  %s zero" % (width, role, drawn, words.share(exponents[0] / total)),
            )
    yield StyledLine(ROW, "  %-*s %s" % (width, audit.compute_dtype, _ruler(format_, low, step)))


def _columns(exponents: Sequence[int], low: int, high: int, step: int) -> List[int]:
    """Counts by column, without zeros and values that aren't finite.

    The first and the last include everything beyond.
    """
    columns = [0] * ((high - low + 1) // step)
    for field in range(1, 255):
        columns[min(max((field - EXPONENT_BIAS - low) // step, 0), len(columns) - 1)] += exponents[
            field
        ]
    return columns


def _block(part: float, blocks: str) -> str:
    return (
        blocks[max(0, min(len(blocks) - 1, len(blocks) + math.floor(math.log10(part))))]
        if part
        else " "
    )


def _ruler(format_: Format, low: int, step: int) -> str:
    """The zones of a format below the columns; the last name may need more room than its zone."""
    ends = [
        (exponent - low) // step
        for exponent in (format_.bottom - 1, format_.normal, format_.top + 1)
    ]
    zones = zip([0, *ends], ends, ("zero", "subnormal", "normal"))
    return (
        "".join(
            "|" + name.ljust(end - start - 1)[: end - start - 1]
            for start, end, name in zones
            if end > start
        )
        + "|overflow"
    )


def _worst(audit: Audit, most: int) -> Iterator[StyledLine]:
    count = len(audit.offenders)
    findings: Sequence[TensorFinding] = audit.findings[:most]
    yield StyledLine(ROW, "")
    if not findings:
        yield StyledLine(
            HEADING,
            (
                "no tensor was measured"
                if not audit.findings
                else "%s measured" % plural(len(audit.findings), "tensor")
            ),
        )
        return
    yield StyledLine(FAILED if count else HEADING, "%s; the worst first" % words.verdict(audit))
    first = audit.first_not_finite
    if first is not None:
        yield StyledLine(
            NOTE,
            "  not finite first in a step: %s  %s"
            % (words.shown(first.range.row.name), printable(first.range.row.op)),
        )
    for finding in findings:
        yield from _tensor(finding)
    if len(audit.findings) > len(findings):
        yield StyledLine(ROW, "  " + more(len(audit.findings) - len(findings)))


def _tensor(finding: TensorFinding) -> Iterator[StyledLine]:
    row = finding.range.row
    bad = finding.severity[0] or finding.severity[1]
    yield StyledLine(
        NOTE if bad else ROW,
        "  %s  %s, %s: %s"
        % (words.shown(row.name), printable(row.op), row.role, words.wrong(finding)),
    )
    yield StyledLine(
        ROW,
        "      %s: %s"
        % (
            "half precision" if finding.half else "float32",
            printable(finding.reason or "no reason given"),
        ),
    )
    if finding.flag:
        yield StyledLine(ROW, "      keep float32: %s" % printable(finding.flag))


def _left_out(audit: Audit) -> Iterator[StyledLine]:
    if not audit.left_out:
        return
    yield StyledLine(ROW, "")
    yield StyledLine(NOTE, words.left_out(audit))
    yield from (
        StyledLine(ROW, "  " + words.shown(name)) for name in audit.left_out[:_MOST_LEFT_OUT]
    )
    if len(audit.left_out) > _MOST_LEFT_OUT:
        yield StyledLine(ROW, "  " + more(len(audit.left_out) - _MOST_LEFT_OUT))
