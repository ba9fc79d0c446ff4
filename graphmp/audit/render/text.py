"""An audit as plain text.

What was measured, losses, roles, exponents beside the format's range, the worst tensors, what to do
next.
"""

from __future__ import annotations

import json
import math
import shlex
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence

from graphmp.audit.agreement import LOSSES
from graphmp.audit.audit import Audit, LossFinding, TensorFinding
from graphmp.audit.measure.rows import ROLES, WEIGHT_GRADIENT
from graphmp.audit.measure.tally import added_up
from graphmp.config import Config
from graphmp.policy.formats import EXPONENT_BIAS, FORMATS, Format
from graphmp.wording import labelled, plural, printable

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
_MOST_CHARACTERS = 160  # of a name
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
        yield StyledLine(
            ROW, labelled("", "and %s more" % format(len(audit.losses) - _MOST_LOSSES, ","))
        )
    yield StyledLine(
        PASSED if audit.agrees else FAILED, labelled("agreement", agreement_of_all(audit))
    )
    yield from _roles(audit)
    yield from _histograms(audit, _ASCII_BLOCKS if ascii_only else _BLOCKS)
    yield from _worst(audit, most)
    yield from _left_out(audit)
    yield StyledLine(ROW, "")
    yield StyledLine(NEXT, labelled("next", next_step(audit)))


def share(value: float) -> str:
    """A share or a relative error in percent: `0`, `<0.0001%`, `0.021%`, `12%`."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "infinite"
    percent = 100 * value
    if percent == 0 or percent >= 10:
        return "{:,.0f}{}".format(percent, "%" if percent else "")
    return "%s%%" % ("%.2g" % percent if percent >= 0.95e-4 else "<0.0001")


def power(scale: float) -> str:
    """A power of two: `256`, or `2^40` if it is long."""
    exponent = round(math.log2(scale))
    return format(int(scale), ",") if 0 <= exponent <= 20 else "2^%d" % exponent


def shown(name: str) -> str:
    """A name of a graph file, without control characters, and shortened."""
    text = printable(name)
    return (
        text
        if len(text) <= _MOST_CHARACTERS
        else "%s...%s" % (text[: _MOST_CHARACTERS // 2], text[-_MOST_CHARACTERS // 2 :])
    )


def arithmetic(audit: Audit) -> str:
    """How half precision was computed."""
    dtype = audit.compute_dtype
    if audit.arithmetic == "simulated":
        return (
            "simulated: %s ops compute in float32 and round what they give to %s, as Tensor"
            " Cores do" % (dtype, dtype)
        )
    return "native: %s ops run by this machine's own kernels" % dtype


def measured(audit: Audit) -> str:
    """The steps and their time."""
    seconds = sum(audit.seconds.values())
    return "%s, all tensors measured in %s of them; %.1f s" % (
        plural(audit.steps, "training step"),
        format(audit.measured, ","),
        seconds,
    )


def loss_name(loss: LossFinding) -> str:
    """The tensors of a loss."""
    return ", ".join(map(shown, loss.loss)) or "(no name)"


def agreement(loss: LossFinding) -> str:
    """The difference between the losses of the converted graph and the original."""
    if math.isinf(loss.difference):
        return "not finite in the converted graph, where the original's is"
    return "original and converted differ by %s at most" % share(loss.difference)


def scale_now(loss: LossFinding) -> str:
    """Skipped steps and the present scale."""
    scale = power(loss.scales[-1]) if loss.scales else "none"
    return "%d of %s skipped; loss scale now %s" % (
        loss.skipped,
        plural(len(loss.original), "step"),
        scale,
    )


def range_used(loss: LossFinding, dtype: str) -> str:
    """The powers of two that gradients use."""
    advice = loss.advice
    if advice.largest is None:
        return "no gradient other than zero was seen"
    used = "use %d of the %d powers of two of %s" % (advice.used, advice.powers, dtype)
    return "%s; the largest is 2^%d, %d above it are unused" % (
        used,
        advice.largest,
        advice.unused_above,
    )


def scale_advice(loss: LossFinding) -> str:
    """The loss scale to use and its effect."""
    advice = loss.advice
    if not advice.flushed:
        return "no loss scale needed: no gradient becomes zero without one"
    rates = [share(value) for value in (advice.flushed, advice.flushed_scaled, advice.flushed_now)]
    return "loss scale %s; gradients that become zero: %s without a scale, %s with it, %s now" % (
        power(advice.scale),
        *rates,
    )


def range_advice(loss: LossFinding, dtype: str) -> str:
    """Advice on gradients that no loss scale can represent.

    Only for float16: bfloat16 has float32's range.
    """
    advice = loss.advice
    numbers = (
        share(advice.flushed_scaled),
        advice.largest - advice.smallest + 1,
        dtype,
        advice.powers,
    )
    return (
        "%s become zero whatever the loss scale: they span %d powers of two, %s holds %d;"
        " --compute_dtype=bfloat16 holds all" % numbers
    )


def wrong(finding: TensorFinding) -> str:
    """The effect of half precision on a tensor."""
    r = finding.range
    parts = []
    if r.not_finite and not r.original_not_finite:
        parts.append("%s not finite" % plural(r.not_finite, "value"))
    elif r.original_not_finite:
        parts.append("not finite in the original too")
    if finding.half and r.overflow:
        parts.append("%s overflow (%s)" % (format(r.overflow, ","), share(r.share(r.overflow))))
    if finding.half and r.flushed:
        parts.append("%s become zero (%s)" % (format(r.flushed, ","), share(r.share(r.flushed))))
    if not math.isnan(r.error):
        parts.append("relative error %s" % share(r.error))
    return ", ".join(parts) or "nothing to compare with"


def agreement_of_all(audit: Audit) -> str:
    """Whether the converted graph agrees with the original, within the audit's tolerance."""
    for_losses, for_gradients = (
        "(tolerance %s)" % share(part * audit.tolerance) for part in (LOSSES, 1)
    )
    if audit.agrees:
        return "losses %s and weight gradients %s agree" % (for_losses, for_gradients)
    losses = [loss for loss in audit.losses if not loss.agrees(audit.tolerance)]
    parts = (
        ["%d of %s %s" % (len(losses), plural(len(audit.losses), "loss", "losses"), for_losses)]
        if losses
        else []
    )
    if audit.disagreeing:
        count = "%s of %s" % (
            format(len(audit.disagreeing), ","),
            plural(len(audit.by_role()[WEIGHT_GRADIENT]), "weight gradient"),
        )
        parts.append("%s %s" % (count, for_gradients))
    return "%s disagree" % " and ".join(parts)


def verdict(audit: Audit) -> str:
    """The number of tensors that overflow."""
    count = len(audit.offenders)
    if not count:
        return "no tensor overflows"
    return "%s %s, or %s" % (
        plural(count, "tensor"),
        *(("overflows", "is not finite") if count == 1 else ("overflow", "are not finite")),
    )


def next_step(audit: Audit) -> str:
    """The next command to try."""
    return "nothing to repair: " * audit.agrees + next_command(audit)


def next_command(audit: Audit) -> str:
    """The command of the next step."""
    source = shlex.quote(printable(audit.source))
    if audit.compute_dtype != Config.compute_dtype:
        source += " --compute_dtype=%s" % audit.compute_dtype
    if audit.agrees:
        return "graphmp convert %s" % source
    data = (
        "--random_data"
        if audit.data.startswith("random, ")
        else "--data=%s" % shlex.quote(printable(audit.data))
    )
    return "graphmp audit %s %s --fix=%s" % (
        source,
        data,
        shlex.quote(printable(_stem(audit.source)) + ".policy"),
    )


def _stem(source: str) -> str:
    """The file name without folders and endings: `model` for `dir/model.ckpt.meta`."""
    return source.rstrip("/").split("/")[-1].split(".")[0] or "model"


def role_rows(form: Dict[str, Any]) -> List[List[str]]:
    """A row of texts for each role: tensors, those in half, shares of values, errors.

    `form` is the audit's JSON.
    """
    found = []
    for role in ROLES:
        sums = form["roles"][role]
        shares = [share(sums[name + "_share"]) for name in ("overflow", "flushed", "subnormal")]
        errors = [
            share(float("nan") if sums[name] is None else sums[name])
            for name in ("median_error", "worst_error")
        ]
        found.append(
            [role, format(sums["tensors"], ","), format(sums["half"], ","), *shares, *errors]
        )
    return found


ROLE_TITLES = (
    "role",
    "tensors",
    "in half",
    "overflow",
    "become zero",
    "subnormal",
    "median error",
    "worst error",
)


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
    yield StyledLine(ROW, labelled("arithmetic", arithmetic(audit)))
    yield StyledLine(ROW, labelled("data", printable(audit.data)))
    yield StyledLine(ROW, labelled("steps", measured(audit)))


def _loss(loss: LossFinding, audit: Audit) -> Iterator[StyledLine]:
    kind = PASSED if loss.agrees(audit.tolerance) else FAILED
    yield StyledLine(
        kind, labelled("loss", "%s: %s; %s" % (loss_name(loss), agreement(loss), scale_now(loss)))
    )
    yield StyledLine(ROW, labelled("gradients", range_used(loss, audit.compute_dtype)))
    if loss.advice.largest is not None:
        yield StyledLine(ROW, labelled("advice", scale_advice(loss)))
    if loss.advice.too_wide:
        yield StyledLine(NOTE, labelled("vanishing", range_advice(loss, audit.compute_dtype)))


def _roles(audit: Audit) -> Iterator[StyledLine]:
    rows = [list(ROLE_TITLES), *role_rows(json.loads(audit.to_json()))]
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
                ROW, "  %-*s |%s|  %s zero" % (width, role, drawn, share(exponents[0] / total))
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
    yield StyledLine(FAILED if count else HEADING, "%s; the worst first" % verdict(audit))
    first = audit.first_not_finite
    if first is not None:
        yield StyledLine(
            NOTE,
            "  not finite first in a step: %s  %s"
            % (shown(first.range.row.name), printable(first.range.row.op)),
        )
    for finding in findings:
        yield from _tensor(finding)
    if len(audit.findings) > len(findings):
        yield StyledLine(ROW, "  and %s more" % format(len(audit.findings) - len(findings), ","))


def _tensor(finding: TensorFinding) -> Iterator[StyledLine]:
    row = finding.range.row
    bad = finding.severity[0] or finding.severity[1]
    yield StyledLine(
        NOTE if bad else ROW,
        "  %s  %s, %s: %s" % (shown(row.name), printable(row.op), row.role, wrong(finding)),
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
    yield StyledLine(
        NOTE,
        "%s of while loops not measured: nothing reads them in the same step of the loop"
        % plural(len(audit.left_out), "tensor"),
    )
    yield from (StyledLine(ROW, "  " + shown(name)) for name in audit.left_out[:_MOST_LEFT_OUT])
    if len(audit.left_out) > _MOST_LEFT_OUT:
        yield StyledLine(ROW, "  and %s more" % format(len(audit.left_out) - _MOST_LEFT_OUT, ","))
