"""Shares of a step's time by TensorFlow's trace.

Matmuls and convolutions, casts, loss scaling, and other ops by name.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, NamedTuple

import tensorflow.compat.v1 as tf

from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.graph.structure.view import GraphView
from graphmp.inspect.tensor_cores import misfit
from graphmp.naming import SCOPE
from graphmp.policy.policy import tensor_core_ops
from graphmp.session.steps.step_stats import seconds_by_op

_STREAMS = "/stream:all"
# Ops made by TensorFlow's optimizers: _FusedMatMul, _MklNativeConv2DBackpropFilterWithBias.
_REPLACED = re.compile(r"_+(?:Mkl)?(?:Native)?(?:PadWith)?(?:Fused)?(\w+?)(?:WithBias)?$")


class Shares(NamedTuple):
    """Seconds of the kernels of one step, added up.

    Attributes:
        total: of all.
        products: of matmuls, convolutions and RNN kernels.
        casts: of Cast ops.
        scaling: of loss scaling, finite check and clip.
        misfits: of products with a dimension that is no multiple of 8.
        gpu: on a GPU, copies included.
    """

    total: float = 0.0
    products: float = 0.0
    casts: float = 0.0
    scaling: float = 0.0
    misfits: float = 0.0
    gpu: float = 0.0

    def share(self, name: str) -> float:
        """A field's share of the total."""
        return float(getattr(self, name)) / self.total if self.total else 0.0


def shares(run_metadata: tf.RunMetadata, graph_def: tf.GraphDef) -> Shares:
    """Add up the trace of a step of a graph."""
    seconds = seconds_by_op(run_metadata)
    view = GraphView(with_inferred_shapes(graph_def))
    unfit = {name for name in view.nodes if misfit(view, name)}
    scaling = _part(run_metadata, lambda node: node.startswith(SCOPE + "/"))
    on_gpu = tf.RunMetadata()
    on_gpu.step_stats.dev_stats.extend(
        stats for stats in run_metadata.step_stats.dev_stats if stats.device.endswith(_STREAMS)
    )
    return Shares(
        sum(seconds.values()),
        sum(value for op, value in seconds.items() if is_product(op)),
        seconds.get("Cast", 0.0),
        sum(value for op, value in seconds_by_op(scaling).items() if op != "Cast"),
        sum(seconds_by_op(_part(run_metadata, lambda node: node in unfit)).values()),
        sum(seconds_by_op(on_gpu).values()),
    )


def other_ops(run_metadata: tf.RunMetadata) -> Dict[str, float]:
    """Seconds by op of what is no product, no cast and no loss scaling."""
    model = _part(run_metadata, lambda node: not node.startswith(SCOPE + "/"))
    return {
        op: value
        for op, value in seconds_by_op(model).items()
        if op != "Cast" and not is_product(op)
    }


def is_product(op: str) -> bool:
    """Whether an executed op is one that half precision makes fast."""
    replaced = _REPLACED.match(op)
    return (replaced.group(1) if replaced else op) in tensor_core_ops()


def _part(run_metadata: tf.RunMetadata, wanted: Callable[[str], bool]) -> tf.RunMetadata:
    """The trace of some nodes, by name; streams name them `node:Op`."""
    part = tf.RunMetadata()
    for stats in run_metadata.step_stats.dev_stats:
        nodes: Any = part.step_stats.dev_stats.add(device=stats.device).node_stats
        nodes.extend(node for node in stats.node_stats if wanted(node.node_name.split(":")[0]))
    return part
