"""A live graph's losses, gradients and loss scales to watch, from its conversion's record."""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, Iterable, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.state.live import variable_in_branch, variable_op
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.view import GraphView, Port, parse_input
from graphmp.report.record import Record
from graphmp.report.training import fetchable
from graphmp.session.live.not_finite.finite import WatchedLoss

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
    reach = _Reach(after, conditional(after) | in_loops, op)
    found = [_loss(row, config, reach) for row in record.losses]
    return [
        loss._replace(scale=_scale(row["scale"], after, op))
        for row, loss in zip(record.losses, found)
        if loss.flags or loss.gradients
    ]


class _Reach(NamedTuple):
    """The nodes of a converted graph whose tensors any run of them can fetch.

    Attributes:
        after: the converted graph, whose functions have no nodes in it.
        unseen: its nodes in while loops and branches.
        op: returns the op of the live graph for a node's name.
    """

    after: GraphView
    unseen: AbstractSet[str]
    op: Callable[[str], Any]

    def has(self, node: str) -> bool:
        """Whether a node's outputs can be fetched."""
        return node in self.after.nodes and node not in self.unseen

    def tensors(self, ports: Iterable[Port]) -> List[Any]:
        """Those of some outputs that can be fetched and tested, without references."""
        outputs = [self.op(p.node).outputs[p.output] for p in ports if self.has(p.node)]
        return [
            tensor
            for tensor in outputs
            if tensor.dtype == tensor.dtype.base_dtype
            and (tensor.dtype.is_floating or tensor.dtype.is_bool)
        ]

    def counts_steps(self, name: str) -> bool:
        """Whether a write advances the global step."""
        write = self.op(name) if self.has(name) else None
        variable = variable_in_branch(write.inputs[0]) if write is not None else None
        if write is None or variable is None:
            return False
        counts = map(variable_op, write.graph.get_collection(tf.GraphKeys.GLOBAL_STEP))
        return variable.name in {op.name for op in counts if op is not None}

    def gradients(self, row: Dict[str, Any]) -> List[Any]:
        """The unscaled gradients of a loss.

        If some are computed in a loop, a branch or a function: the inputs of the loss's updates.
        """
        unscaled = list(map(parse_input, row["unscale"] or row["gradients"]))
        if unscaled and all(self.has(port.node) for port in unscaled):
            return self.tensors(unscaled)
        read = (
            port for name in row["updates"] if self.has(name) for port in self.after.inputs(name)
        )
        return self.tensors(dict.fromkeys(read))


def _loss(row: Dict[str, Any], config: Config, reach: _Reach) -> WatchedLoss:
    """A row's loss without the scale; without flags and gradients where none can be fetched."""
    flags = reach.tensors([parse_input(row["finite"])] if row["finite"] else [])
    gradients = [] if row["finite"] else reach.gradients(row)
    kind = "dynamic" if flags else "fixed" if row["scale"] else "none"
    floor = config.loss_scale_min if flags else 0.0
    return WatchedLoss(
        " + ".join(row["loss"]),
        kind,
        flags,
        gradients,
        reach.tensors(map(parse_input, row["loss"])),
        None,
        floor,
        config.loss_scale_backoff_factor,
        bool(fetchable([row])),
        half=config.compute_dtype,
        stands=any(reach.counts_steps(name) for name in row["gated"]),
    )


def _scale(current: str, after: GraphView, op: Callable[[str], Any]) -> Optional[Any]:
    """The scale in a step: a first step may use another than the current one."""
    if not current:
        return None
    in_step = "%s/in_step" % current.rpartition("/")[0]
    return op(in_step if in_step in after.nodes else current).outputs[0]
