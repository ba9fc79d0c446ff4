"""A live graph's losses, gradients and loss scales to watch, from its conversion's record."""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, Iterable, List, Optional, Tuple

from graphmp.config import Config
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.report.record import Record
from graphmp.session.live.finite import WatchedLoss

_SCALES_ITSELF = (
    "GMP107",
    "GMP108",
)  # warnings of a graph whose own code decides whether a step counts


def watched_losses(
    record: Record,
    after: GraphView,
    in_loops: AbstractSet[str],
    config: Config,
    op: Callable[[str], Any],
) -> List[WatchedLoss]:
    """The losses of a conversion.

    Args:
        record: the record of the rewrite.
        after: the converted graph.
        in_loops: its nodes inside while loops.
        config: the options.
        op: returns the op of the live graph for a node's name.
    """
    if any(row["code"] in _SCALES_ITSELF for row in record.warnings):
        return []
    unseen = conditional(after) | in_loops

    def tensors(ports: Iterable[str]) -> List[Any]:
        found = [parse_input(port) for port in ports]
        outputs = [
            op(port.node).outputs[port.output]
            for port in found
            if port.node in after.nodes and port.node not in unseen
        ]
        return [tensor for tensor in outputs if tensor.dtype.is_floating or tensor.dtype.is_bool]

    found = [_loss(row, config, tensors) for row in record.losses]
    return [
        loss._replace(scale=_scale(row["scale"], after, op))
        for row, loss in zip(record.losses, found)
        if loss.flags or loss.gradients
    ]


def _loss(
    row: Dict[str, Any], config: Config, tensors: Callable[[Iterable[str]], List[Any]]
) -> WatchedLoss:
    """A row's loss without the scale; without flags and gradients where no tensor is in reach."""
    flags = tensors([row["finite"]] if row["finite"] else [])
    gradients = [] if flags else tensors(_unscaled(row))
    kind = "dynamic" if flags else "fixed" if row["scale"] else "none"
    floor = config.loss_scale_min if flags else 0.0
    name = " + ".join(row["loss"])
    return WatchedLoss(
        name,
        kind,
        flags,
        gradients,
        tensors(row["loss"]),
        None,
        floor,
        config.loss_scale_backoff_factor,
    )


def _unscaled(row: Dict[str, Any]) -> List[str]:
    """The unscaled gradients of a loss: in its graph, returned by calls, and leaving loops."""
    returned = [text for text in row["gradients"] if parse_input(text).node in row["through"]]
    return list(dict.fromkeys([*(row["unscale"] or row["gradients"]), *returned, *row["emerging"]]))


def _scale(current: str, after: GraphView, op: Callable[[str], Any]) -> Optional[Tuple[Any, Any]]:
    """The scale in a step and before it: a first step may use another."""
    if not current:
        return None
    in_step = "%s/in_step" % current.rpartition("/")[0]
    return op(in_step if in_step in after.nodes else current).outputs[0], op(current).outputs[0]
