"""The audit as a claim: a step in half precision compared with the same step of the original."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import tensorflow.compat.v1 as tf

from graphmp.audit.agreement import LOSSES
from graphmp.audit.audit import Audit
from graphmp.audit.options import AuditOptions
from graphmp.audit.run import audit
from graphmp.conversion.conversion import Conversion
from graphmp.errors import GraphmpError
from graphmp.executed.rounded import rounded
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.report.training import INSIDE, fetchable
from graphmp.verify.proof import FAILED, NOT_APPLICABLE, NOT_PROVED, PROVED, Claim
from graphmp.wording import first_line, some

AGREES = "agrees in half"
# times the effect of rounding batch and weights: a step also rounds its intermediate results
_NOISE = 3.0


def agreement(
    conversion: Conversion,
    exact: Callable[[], Conversion],
    train: Sequence[str],
    options: AuditOptions,
    tolerance: float,
) -> Claim:
    """Whether losses and weight gradients of some steps are the original's, up to a tolerance.

    Rectifiers and batch normalisations amplify small differences: if rounding only batches and
    weights of the original has a larger effect than the tolerance, that effect is the measure.

    Args:
        conversion: the original, the given graph, and the report of a conversion by the same flags.
        exact: makes a conversion of the original that stays float32, without a loss scale.
        train: the ops of a step of the original.
        options: data and steps.
        tolerance: relative, of the audit.
    """
    why = _not_audited(GraphView(conversion.original.graph_def), train, conversion.report["losses"])
    if why:
        return Claim(AGREES, NOT_APPLICABLE, why)
    try:
        found = audit(conversion, options, tolerance)
        if found.agrees:
            text = (
                "losses and weight gradients of %d steps are the original's up to a relative %g"
                % (found.steps, tolerance)
            )
            return Claim(AGREES, PROVED, text)
        return _beside_noise(found, _noise(exact(), found.compute_dtype, options, tolerance))
    except GraphmpError as error:
        verdict = NOT_APPLICABLE if error.code == "GMP020" else NOT_PROVED
        return Claim(AGREES, verdict, error.message)
    except Exception as error:  # TensorFlow raises errors of any type
        return Claim(AGREES, NOT_PROVED, "the given graph does not run: %s" % first_line(error))


def _noise(exact: Conversion, dtype: str, options: AuditOptions, tolerance: float) -> Audit:
    """The audit of a graph that differs from its original only by rounded batches and weights."""
    graph = rounded(exact.meta_graph, tf.as_dtype(dtype).as_datatype_enum)
    return audit(
        Conversion(exact.original, graph, dict(exact.report, compute_dtype=dtype)),
        options,
        tolerance,
    )


def _beside_noise(found: Audit, noise: Audit) -> Claim:
    """Disagreements beyond the tolerance and beyond the effect of rounding alone."""
    errors = {finding.range.row.name: _NOISE * finding.range.error for finding in noise.findings}
    worse = tuple(
        f.range.row.name
        for f in found.disagreeing
        if not f.range.error <= errors.get(f.range.row.name, 0.0)
    )
    if worse:
        return Claim(
            AGREES,
            FAILED,
            "the weight gradients %s are not the original's up to a relative %g"
            % (some(worse), found.tolerance),
            worse,
        )
    floor = _NOISE * max((loss.difference for loss in noise.losses), default=0.0)
    if not all(loss.agrees(max(found.tolerance, floor / LOSSES)) for loss in found.losses):
        return Claim(
            AGREES,
            FAILED,
            "the losses, or which steps are skipped, are not the original's up to a relative %g"
            % found.tolerance,
        )
    text = (
        "losses and weight gradients of %d steps are the original's up to a relative %g, "
        "or to %g times what rounding its batches and weights changes"
    )
    return Claim(AGREES, PROVED, text % (found.steps, found.tolerance, _NOISE))


def _not_audited(view: GraphView, train: Sequence[str], losses: List[Dict[str, Any]]) -> str:
    """Why an audit can't compare two steps; empty if it can."""
    step = view.ancestors(train)
    updates = {name for loss in losses for name in loss["updates"]}
    if not fetchable(losses):
        return INSIDE
    for loss in fetchable(losses):
        gradients = [parse_input(text).node for text in loss["gradients"]]
        if not step.issuperset(gradients):
            return (
                "an update takes gradients that are fed: there are no two steps to hold against"
                " each other"
            )
        if view.ancestors(gradients) & updates:
            return (
                "gradients are computed behind the update of another loss: the two steps can't be"
                " computed side by side"
            )
    return ""
