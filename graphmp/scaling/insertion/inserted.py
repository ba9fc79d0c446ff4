"""The inserted nodes as rows of the report."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional

from graphmp.errors import warning
from graphmp.naming import in_body
from graphmp.policy.reason import Done
from graphmp.scaling.insertion.arithmetic import Arithmetic
from graphmp.scaling.insertion.as_built import AsBuilt
from graphmp.scaling.insertion.first_step import FirstStep
from graphmp.scaling.insertion.gated_step import Gated
from graphmp.scaling.losses.inside import OpenBody
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.model import ScalePlan


class Inserted(NamedTuple):
    """The changes made, for the report and the painter.

    Attributes:
        losses: rows of the report, one for each loss.
        scales: rows of the report, one for each scale: scope, kind, initial value, whether
            functions or a loop have handles of its state.
        done: added or changed nodes.
        first_steps: what a first step measures once the graph is painted, by function; "" is the
            main graph.
        warnings: rows of the report.
        as_built: the values of gradient code of the main graph.
    """

    losses: List[Dict[str, Any]]
    scales: List[Dict[str, Any]]
    done: List[Done]
    first_steps: Dict[str, List[FirstStep]]
    warnings: List[Dict[str, str]]
    as_built: List[AsBuilt]


def row_of(
    loss: Loss,
    arithmetic: Optional[Arithmetic] = None,
    gated: Optional[Gated] = None,
    body: Optional[OpenBody] = None,
) -> Dict[str, Any]:
    """A row of the report's `losses`; `calls` are the calls of the function that contains it."""
    function = body.name if body else ""

    def named(names: Iterable[str]) -> List[str]:
        return [in_body(function, name) for name in names]

    return {
        "gradient_scope": ", ".join(named(scope.scope for scope in loss.scopes)),
        "loss": sorted(set(named(loss.tensors))),
        "seeds": named(port.node for scope in loss.scopes for port in scope.seeds),
        "gradients": named(str(port) for port in loss.gradients),
        "updates": named(loss.updates),
        "scale": in_body(function, arithmetic.current) if arithmetic and arithmetic.current else "",
        "unscale": named(arithmetic.unscaled) if arithmetic else [],
        "finite": in_body(function, arithmetic.finite) if arithmetic and arithmetic.finite else "",
        "clip": in_body(function, arithmetic.clip) if arithmetic and arithmetic.clip else "",
        "gated": named(gated.writes) if gated else [],
        "not_skipped": (
            [dict(row, node=in_body(function, row["node"])) for row in gated.goes_on]
            if gated
            else []
        ),
        "calls": sorted(body.calls) if body else [],
        "through": named(scope.call for scope in loss.scopes if scope.call),
    }


def taken_inside(graph: TrainingGraph, loss: Loss) -> bool:
    """Whether gradients of a loss are taken in while loops, or in functions that are called."""
    return any(graph.looped(port.node) for port in loss.gradients) or any(
        scope.call for scope in loss.scopes
    )


def add_inner(result: Inserted, plan: ScalePlan, body: OpenBody, inner: Dict[str, Any]) -> None:
    """Add the work of gradient-taking functions to the rows of the losses that they serve."""
    calls = body.calls | {
        in_body(each.body.name, call)
        for each in plan.inside
        for call, names in each.graph.returning.items()
        if body.name in names
    }
    for row in result.losses:
        if not calls.isdisjoint(row["through"]):
            scopes = [
                name for name in row["gradient_scope"].split(", ") if name not in row["through"]
            ]
            row["gradient_scope"] = ", ".join([*scopes, inner["gradient_scope"]])
            for key in ("loss", "seeds", "unscale"):
                row[key] = sorted({*row[key], *inner[key]})


def doubts(loss: Loss, arithmetic: Arithmetic, scope: str) -> Iterator[Dict[str, str]]:
    """Warnings: what may see scaled gradients, and what isn't clipped."""
    for each in loss.scopes:
        for name in sorted(set(each.degrees.unclear)):
            yield warning(
                "GMP111",
                name,
                "it is not linear, and reads a list or a value of unknown type: it sees gradients "
                "multiplied by the loss scale",
            )
    if arithmetic.clipped and arithmetic.clipped.apart:
        scopes = ", ".join(each.scope for each in loss.scopes)
        yield warning(
            "GMP103",
            "graphmp/" + scope,
            "the gradients of %s are clipped one scope by the other" % scopes,
        )
    if arithmetic.clipped and arithmetic.clipped.nowhere:
        scopes = ", ".join(each.scope for each in loss.scopes)
        yield warning(
            "GMP103",
            "graphmp/" + scope,
            "what comes of the gradients of %s, taken in a loop or a function, is not clipped"
            % scopes,
        )
