"""The memory of a graph's step and of its conversion's, which is made only for this."""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.structure.view import parse_input
from graphmp.inspect.attempt import attempt
from graphmp.inspect.memory.memory import KeptTensors, Memory, Tensor, memory
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import Decisions, decide

_INSERTED = "_graphmp_"  # in the name of a cast, after that of its source


class MemoryComparison(NamedTuple):
    """The memory of a graph and of its conversion.

    Attributes:
        unknown: the assumed size of an unknown dimension.
        inferred: whether TensorFlow inferred others from that.
        original: the original graph.
        converted: its conversion; None without one.
        error: why a graph that needs conversion has none.
        notes: special cases of the graph: rows `code`, `node`, `message`.
    """

    unknown: int
    inferred: bool
    original: Memory
    converted: Optional[Memory]
    error: str
    notes: List[Dict[str, str]]


class Compared(NamedTuple):
    """The numbers, and the conversion for running it."""

    comparison: MemoryComparison
    converted: Optional[tf.MetaGraphDef]


def compare(
    meta_graph: tf.MetaGraphDef,
    config: Config,
    policy: Policy,
    batch_size: int = 0,
    progress: Callable[[str], None] = lambda stage: None,
) -> Compared:
    """Measure a graph and its conversion.

    Arguments and errors are those of `attempt.attempt`.
    """
    found = attempt(memory, meta_graph, config, policy, batch_size, progress)
    after = found.after
    if after is not None:
        reasons = _Reasons(decide(meta_graph, config, policy)[""])
        after = after._replace(activations=_explained(after.activations, reasons))
    return Compared(
        MemoryComparison(
            found.unknown, bool(batch_size), found.before, after, found.error, found.notes
        ),
        found.converted,
    )


def _explained(kept: KeptTensors, reasons: _Reasons) -> KeptTensors:
    return kept._replace(
        tensors=[tensor._replace(reason=reasons.of(tensor)) for tensor in kept.tensors]
    )


class _Reasons:
    def __init__(self, decisions: Decisions):
        self._graph, self._placed = decisions.graph, decisions.placed

    def of(self, tensor: Tensor) -> str:
        """Why a tensor is float32."""
        port = parse_input(tensor.tensor)
        if tensor.dtype != "float32":
            return ""
        if port.node in self._graph.view.nodes:
            return self._painted_as(self._graph.writer(port), port.node) or "the op fixes its type"
        reader = tensor.reader.split(_INSERTED)[0]  # the source of a cast back in the backward pass
        reason = self._painted_as(-1, reader) if reader in self._graph.view.nodes else ""
        return (
            "a cast for a reader that is float32: %s" % reason
            if reason
            else "a cast, where float32 and half precision meet"
        )

    def _painted_as(self, unit: int, node: str) -> str:
        """The reason of a unit, else of the first unit of a node; empty without one."""
        units = [unit] if unit >= 0 else self._graph.units_of(node)[:1]
        return self._placed[units[0]].reason.text if units else ""
