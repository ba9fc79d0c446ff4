"""The audit as a claim: a step in half precision beside the same step of the original."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from graphmp.errors import GraphmpError
from graphmp.graph.view import GraphView, parse_input
from graphmp.report.training import fetchable
from graphmp.runtime.audit.options import Options
from graphmp.runtime.audit.run import audit
from graphmp.runtime.conversion import Conversion
from graphmp.runtime.feeds.attempts import first_line
from graphmp.verify.proof import FAILED, NOT_APPLICABLE, NOT_PROVED, PROVED, Claim
from graphmp.words import some

AGREES = "agrees in half"


def agreement(conversion: Conversion, train: Sequence[str], options: Options, tolerance: float) -> Claim:
    """Whether losses and weight gradients of some steps are the original's, up to a relative tolerance.

    Args:
        conversion: the original, the given graph, and the report of a conversion by the same flags.
        train: the ops that a step of the original runs.
        options: data and steps.
        tolerance: of the audit.
    """
    why = _not_audited(GraphView(conversion.original.graph_def), train, conversion.report["losses"])
    if why:
        return Claim(AGREES, NOT_APPLICABLE, why)
    try:
        found = audit(conversion, options, tolerance)
    except GraphmpError as error:
        return Claim(AGREES, NOT_PROVED, error.message)
    except Exception as error:  # TensorFlow raises what it likes
        return Claim(AGREES, NOT_PROVED, "the given graph does not run: %s" % first_line(error))
    if found.agrees:
        return Claim(AGREES, PROVED, "losses and weight gradients of %d steps are the original's up to a relative %g" % (found.steps, tolerance))
    nodes = tuple(finding.range.row.name for finding in found.disagreeing)
    what = "the weight gradients %s" % some(nodes) if nodes else "the losses, or which steps are skipped,"
    return Claim(AGREES, FAILED, "%s are not the original's up to a relative %g" % (what, tolerance), nodes)


def _not_audited(view: GraphView, train: Sequence[str], losses: List[Dict[str, Any]]) -> str:
    """Why an audit can't hold two steps side by side; empty where it can."""
    step = view.ancestors(train)
    updates = {name for loss in losses for name in loss["updates"]}
    if not fetchable(losses):
        return "gradients are taken in a function or a loop that trains, into which an audit does not look"
    for loss in fetchable(losses):
        gradients = [parse_input(text).node for text in loss["gradients"]]
        if not step.issuperset(gradients):
            return "an update takes gradients that are fed: there are no two steps to hold against each other"
        if view.ancestors(gradients) & updates:
            return "gradients are computed behind the update of another loss: the two steps can't be computed side by side"
    return ""
