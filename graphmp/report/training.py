"""The ops that a session runs for a training step, found below the updates of each loss."""

from __future__ import annotations

from typing import Any, Dict, List

from graphmp.errors import GraphmpError
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.view import GraphView
from graphmp.wording import some

INSIDE = "gradients are taken in a function or a loop, into which an audit does not look"


def with_train_ops(losses: List[Dict[str, Any]], view: GraphView) -> List[Dict[str, Any]]:
    """The rows of a report's `losses`, each with `train_ops`.

    These are the last descendants of the updates, which nothing else reads: the train op, with the
    step counter and the moving averages that it waits for. For an update inside a function they are
    the function's calls. Two losses that are trained together have the same op.

    Args:
        losses: rows with `updates` and `scale`.
        view: the converted graph.
    """
    inside = frames(view) if losses else {}

    def train_ops(loss: Dict[str, Any]) -> List[str]:
        below = view.descendants(
            [name for name in [*loss["updates"], *loss.get("calls", ())] if name in view.nodes]
        )
        last = sorted(
            name
            for name in below
            if not inside.get(name)
            and not view.consumers(name)
            and not view.control_consumers(name)
        )
        found = [name for name in last if view.nodes[name].op != "ReadVariableOp"] or last
        adapts = loss["scale"].rpartition("/")[0] + "/update/step"
        return found + [adapts] * (adapts in view.nodes and adapts not in view.ancestors(found))

    return [dict(loss, train_ops=train_ops(loss)) for loss in losses]


def nothing_trains(source: str) -> GraphmpError:
    """The error of a graph in which no training step was found."""
    text = (
        "%s: no training step was found in the graph; name it with --train_op=OP or --loss=TENSOR"
    )
    return GraphmpError("GMP023", text % source)


def not_audited(source: str) -> GraphmpError:
    """The error of an audit of a graph that trains, without `fetchable` losses."""
    text = (
        "%s: %s; `graphmp verify` proves the conversion of such a graph, and `graphmp run` says"
        " which steps are not finite"
    )
    return GraphmpError("GMP020", text % (source, INSIDE))


def not_compared(losses: List[Dict[str, Any]]) -> str:
    """The losses that an audit leaves out, in words; empty if it compares all, or none."""
    found = fetchable(losses)
    names = [name for loss in losses if loss not in found for name in loss["loss"]]
    return "%s: not compared: %s" % (some(names), INSIDE) if found and names else ""


def fetchable(losses: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The rows of a report's `losses` whose loss and gradients a session can fetch.

    If some are taken inside a function or a loop, they can't be fetched, only what comes out.
    """
    return [loss for loss in losses if not loss.get("calls") and not loss.get("in_loop")]
