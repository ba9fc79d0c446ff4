"""The summary of a review as labelled lines, for a terminal, Markdown and the page."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence, Tuple

from graphmp.compare.review.flow import Flow
from graphmp.compare.review.stayed import Op, Stayed
from graphmp.compare.review.summary import ModelClip, ReportedLoss, Summary
from graphmp.verify import FAILED, NOT_APPLICABLE, NOT_PROVED, PROVED
from graphmp.wording import more, plural, some

_MOST_LOSSES = 4
_MOST_OPS = 8
_MOST_MATMULS, _MOST_STAYED = 6, 4
_WORTH_A_LINE = 0.01  # of the bytes that a step's ops move
_SIDES = {True: ", after the unscale", False: ", BEFORE the unscale", None: ""}
_NO_REPORT = "not known without the report of the conversion"


class Row(NamedTuple):
    """A line: its label, empty if it continues the previous line, and its text."""

    label: str
    text: str


def rows(summary: Summary) -> Iterator[Row]:
    """The lines of a summary."""
    yield Row(
        title(summary),
        "%s -> %s nodes%s"
        % (
            *map(_n, summary.nodes),
            ", TensorFlow " + summary.tensorflow if summary.tensorflow else "",
        ),
    )
    yield Row("engine", _engine(summary))
    if summary.unexplained or summary.stale:
        yield Row(
            "report",
            "DOES NOT FIT: explains all but %s; tells of %s that are not there"
            % (plural(summary.unexplained, "change"), _n(summary.stale)),
        )
    yield from _coverage(summary)
    yield from _stayed(summary)
    yield Row("variables", _variables(summary))
    yield from _losses(summary)
    half = "half precision" if summary.compute_dtype == "float32" else summary.compute_dtype
    yield Row("casts", "%s between float32 and %s" % (_n(summary.coverage.casts), half))
    yield from _claims(summary)
    if summary.reported and summary.reported.graphmp:
        yield Row(
            "versions",
            "converted by graphmp %s on TensorFlow %s"
            % (summary.reported.graphmp, summary.reported.tensorflow),
        )


def title(summary: Summary) -> str:
    """The name of the model's file."""
    source = (
        summary.reported.source
        if summary.reported and summary.reported.source
        else summary.names[0]
    )
    return source.rstrip("/").split("/")[-1]


def flow_text(flow: Flow) -> str:
    """The path of one loss scale.

    For example `graphmp/loss_scale/current -> x loss at gradients/Fill -> 7 unscales -> all_finite
    -> 9 writes gated`.
    """
    steps = [flow.scale, _entry(flow), plural(flow.unscales, "unscale")]
    steps += [flow.check.rpartition("/")[2]] if flow.check else []
    steps += [flow.clip.rpartition("/")[2]] if flow.clip else []
    steps += [
        "%s gated" % plural(flow.gates, "write")
        if flow.check
        else "no finite check: no step is skipped"
    ]
    return " -> ".join(steps)


def _entry(flow: Flow) -> str:
    """The tensor that the scale multiplies: the loss itself, or its initial gradients."""
    if not flow.enters:
        return "multiplies nothing"
    at = "" if "/scaled_loss" in flow.enters[0][1] else "at "
    return "x loss %s%s" % (at, some([value for value, _ in flow.enters], 1))


def op_text(op: Op, stayed: Stayed) -> str:
    """Ops that stayed float32: their number, their share of the bytes, and why."""
    share = _share(op.bytes / stayed.bytes) + " " if stayed.bytes else ""
    count = " x%s" % _n(len(op.nodes)) if len(op.nodes) > 1 else ""
    why = ": " + op.reason if op.reason else ""
    if op.is_matmul:
        return "%s%s%s%s" % (share, op.text, count, why)
    return "%s%s%s%s; %s%s" % (share, op.op, count, why, "such as " if count else "", op.text)


def _engine(summary: Summary) -> str:
    if summary.reported is None or not summary.reported.engine:
        return _NO_REPORT
    return "%s (%s)" % (summary.reported.engine, summary.reported.engine_reason)


def _coverage(summary: Summary) -> Iterator[Row]:
    found, reported = summary.coverage, summary.reported
    if not found.dtype and summary.compute_dtype == "float32":
        yield Row("float32", "nothing computes in half precision: %s" % _matmuls(found.matmuls))
        return
    others = sum(number for _, number in found.half_ops) - found.half_matmuls
    counts = "%s of %s matmuls and convolutions (forward and backward)" % (
        _n(found.half_matmuls),
        _n(found.matmuls),
    )
    text = "%s, %s" % (counts if found.matmuls else _matmuls(0), plural(others, "other op"))
    text += (
        "; %s kept float32 by the range guard" % _n(reported.guarded)
        if reported and reported.guarded
        else ""
    )
    yield Row(summary.compute_dtype, text)
    if reported and reported.repaired:
        ops = ": " + _list(reported.repaired_ops) if reported.repaired_ops else ""
        yield Row(
            "",
            "%s between them computed in float32 and cast back, as the policy says%s"
            % (plural(reported.repaired, "op"), ops),
        )
    if found.half_ops:
        yield Row("", _list(found.half_ops))


def _list(ops: Sequence[Tuple[str, int]]) -> str:
    return ", ".join("%s %s" % (op, _n(number)) for op, number in ops[:_MOST_OPS])


def _stayed(summary: Summary) -> Iterator[Row]:
    """Matmuls and convolutions by name; other ops if they move enough to matter.

    All of them in a graph without shapes.
    """
    stayed = summary.stayed
    if not stayed.ops:
        return
    matmuls = [op for op in stayed.ops if op.is_matmul]
    others = [op for op in stayed.ops if not op.is_matmul]
    count = sum(len(op.nodes) for op in matmuls)
    beside = summary.coverage.matmuls - summary.coverage.half_matmuls - count
    text = "%s%s; %s" % (
        _matmuls(count),
        " in a training step, %s outside it" % _n(beside) if beside > 0 else "",
        plural(sum(len(op.nodes) for op in others), "other op"),
    )
    if stayed.bytes:
        text += ", %s of the bytes that a step's float ops move" % _share(
            sum(op.bytes for op in others) / stayed.bytes
        )
    yield Row("float32", text)
    heavy = [op for op in others if not stayed.bytes or op.bytes >= _WORTH_A_LINE * stayed.bytes]
    for shown, most in ((matmuls, _MOST_MATMULS), (heavy, _MOST_STAYED)):
        yield from (Row("", op_text(op, stayed)) for op in shown[:most])
        if len(shown) > most:
            yield Row(
                "",
                "%s in %s"
                % (
                    more(sum(len(op.nodes) for op in shown[most:])),
                    plural(len(shown) - most, "pattern"),
                ),
            )


def _variables(summary: Summary) -> str:
    failed = {claim.name: claim.text for claim in summary.claims if claim.verdict == FAILED}
    kept = failed.get(
        "variables", "%s of %s float32" % (_n(summary.variables[1]), _n(summary.variables[0]))
    )
    if "variables" not in failed and "checkpoint" not in failed:
        loads = ", names unchanged; float32 checkpoints load"
        return kept + loads if summary.variables[0] else "no float32 variable"
    return "; ".join(
        filter(
            None, (kept, failed.get("checkpoint") and "in checkpoints %s" % failed["checkpoint"])
        )
    )


def _losses(summary: Summary) -> Iterator[Row]:
    """The losses in the report, each with the path of its scale, and other scales of the graph."""
    losses: Tuple[ReportedLoss, ...] = summary.reported.losses if summary.reported else ()
    flows = {flow.scale: flow for flow in summary.flows}
    others = [flow for flow in summary.flows if flow.scale not in {loss.scale for loss in losses}]
    if not losses and not others:
        yield Row(
            "loss",
            "no gradients found: nothing scaled or clipped"
            if summary.reported
            else "no loss scale in the graph",
        )
    for loss in losses[:_MOST_LOSSES]:
        flow = flows.get(loss.scale)
        yield Row("loss", _loss(loss, flow, summary))
        if flow and loss == next(first for first in losses if first.scale == loss.scale):
            yield Row("", flow_text(flow))
        if loss.clips:
            also = more(len(loss.clips) - 1)
            left = " (%s in report.json)" % also if also else ""
            yield Row(
                "",
                "the model's own clip: %s%s%s"
                % (loss.clips[0].node, left, _SIDES[loss.clips[0].after_unscale]),
            )
    for flow in others[:_MOST_LOSSES]:
        yield Row("loss", "%s; %s" % (_scale(flow), _clip(None, flow, summary)))
        yield Row("", flow_text(flow))
    hidden = max(0, len(losses) - _MOST_LOSSES) + max(0, len(others) - _MOST_LOSSES)
    if hidden:
        yield Row("", more(hidden) + " in report.json")


def _loss(loss: ReportedLoss, flow: Optional[Flow], summary: Summary) -> str:
    counts = ", ".join(
        (
            plural(loss.seeds, "seed"),
            plural(loss.gradients, "gradient"),
            plural(loss.updates, "update"),
        )
    )
    return "%s: %s; %s; %s" % (
        loss.scope,
        counts,
        _scale(flow) if flow else "scale by " + loss.scale if loss.scale else "scale none",
        _clip(loss, flow, summary),
    )


def _scale(flow: Flow) -> str:
    if flow.initial is None:
        return "scale dynamic" if flow.is_dynamic else "scale fixed, a tensor"
    return "scale %s %s" % ("dynamic from" if flow.is_dynamic else "fixed", _n(flow.initial))


def _clip(loss: Optional[ReportedLoss], flow: Optional[Flow], summary: Summary) -> str:
    """The clip and its owner.

    graphmp's is in the graph below a loss scale, else in the report; the model's own in the report.
    """
    norm = summary.reported.clip_norm if summary.reported else None
    clips = (
        ["global norm%s (graphmp's)" % (" %g" % norm if norm else "")]
        if (flow.clip if flow else norm and (loss is None or loss.is_clipped))
        else []
    )
    clips += dict.fromkeys(
        "%s (the model's own)" % _own_clip(clip) for clip in (loss.clips or () if loss else ())
    )
    if clips:
        return "clip %s" % " and ".join(clips)
    return "clip none" if loss and loss.clips is not None else "no clip of graphmp's"


def _own_clip(clip: ModelClip) -> str:
    if clip.limits:
        return "%s to [%s]" % (
            clip.kind,
            ", ".join("?" if limit is None else "%g" % limit for limit in clip.limits),
        )
    return clip.kind + (" %g" % clip.norm if clip.norm is not None else "")


def _claims(summary: Summary) -> Iterator[Row]:
    """The claims by their verdicts: those that need attention in full, the others by name."""
    for verdict in (FAILED, NOT_PROVED):
        for claim in summary.claims:
            if claim.verdict == verdict:
                yield Row(
                    verdict.upper() if verdict == FAILED else verdict,
                    "%s: %s" % (claim.name, claim.text),
                )
    proved = [claim.name for claim in summary.claims if claim.verdict == PROVED]
    left = sum(claim.verdict == NOT_APPLICABLE for claim in summary.claims)
    if proved or left:
        yield Row(
            PROVED,
            (", ".join(proved) or "nothing") + ("; %d not applicable" % left if left else ""),
        )


def _matmuls(count: int) -> str:
    return (
        plural(count, "matmul or convolution", "matmuls and convolutions")
        if count
        else "no matmul or convolution"
    )


def _share(part: float) -> str:
    return "under 0.1%" if part < 0.001 else "%.2g%%" % (100 * part) if part < 0.995 else "100%"


def _n(number: float) -> str:
    return f"{number:,.10g}"
