"""The tensors to feed, with their dtypes and shapes in the graph."""

from __future__ import annotations

import re
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.feeds.sources import SOURCES, needed, sources
from graphmp.graph.shapes.shapes import dimensions_of, recorded_dimensions
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.op_sets import FED

Dimensions = Tuple[Optional[int], ...]
Shape = Optional[Dimensions]


class Wanted(NamedTuple):
    """A tensor that needs a value.

    Attributes:
        name: of the tensor, such as `x:0`.
        dtype: its dtype.
        shape: its static shape with None for unknown dimensions; None if the rank is unknown.
        source: what it is, in words, if the script doesn't feed it.
    """

    name: str
    dtype: tf.DType
    shape: Shape
    source: str = ""

    def __str__(self) -> str:
        """For a message: `x:0 (float32 [?, 28])`."""
        return "%s (%s)" % (self.name, described(self.dtype.name, self.shape))

    @property
    def asked(self) -> str:
        """For a message that asks for it: what it is, too."""
        return "%s%s" % (self, self.source and ", " + self.source)

    @property
    def node(self) -> str:
        """The node whose output it is."""
        return self.name.rpartition(":")[0]


def described(dtype: str, shape: Optional[Sequence[Optional[int]]]) -> str:
    """`float32 [?, 28]`; a tensor of unknown rank is `float32 of any shape`."""
    if shape is None:
        return "%s of any shape" % dtype
    return "%s [%s]" % (dtype, ", ".join("?" if d is None else str(d) for d in shape))


def wanted_tensors(graph: tf.Graph, view: GraphView, targets: Iterable[str]) -> List[Wanted]:
    """The feeds that `targets` need without their script: outputs of sources, and placeholders.

    Args:
        graph: the imported graph.
        view: the graph that was imported, with its recorded shapes.
        targets: names of nodes.

    Raises:
        GraphmpError: GMP002 for a placeholder of a resource, for which there is no data.
    """
    targets = list(targets)
    run = needed(view, targets)
    found = []
    for name in sources(view, targets):
        whole = name in targets or view.nodes[name].op in FED
        read = {consumer.output for consumer in view.consumers(name) if consumer.node in run}
        outputs = graph.get_operation_by_name(name).outputs
        found += [
            _wanted(view, tensor) for tensor in outputs if whole or tensor.value_index in read
        ]
        shape = re.sub("/indices$", "/shape", name)
        if shape != name and shape in run and _is_open(graph.get_tensor_by_name(shape + ":0")):
            found.append(_wanted(view, graph.get_tensor_by_name(shape + ":0")))
    return found


def port_of(tensor: Wanted) -> Port:
    """The output that a wanted tensor is."""
    return Port(tensor.node, int(tensor.name.rpartition(":")[2]))


def default_value(tensor: Any) -> Any:
    """The value of a constant, or of a placeholder with a constant default.

    None for other tensors.
    """
    return tf.get_static_value(
        tensor.op.inputs[0] if tensor.op.type == "PlaceholderWithDefault" else tensor
    )


def static_shape(tensor: Any) -> Shape:
    """A tensor's static shape, None if the rank is unknown."""
    return None if tensor.shape.rank is None else tuple(tensor.shape.as_list())


def _is_open(tensor: Any) -> bool:
    """Whether a sparse placeholder's shape has an unusable default: -1 where it is unknown."""
    default = default_value(tensor) if tensor.op.type == "PlaceholderWithDefault" else None
    return default is not None and bool(np.any(np.less(default, 0)))


def _wanted(view: GraphView, tensor: Any) -> Wanted:
    dtype = tensor.dtype.base_dtype
    if not (
        dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype in (tf.bool, tf.string)
    ):
        raise GraphmpError(
            "GMP002",
            "%s is a %s, which has no data to feed; accepted are tensors of numbers, bools and"
            " strings" % (tensor.name, dtype.name),
        )
    node = view.nodes[tensor.op.name]
    recorded = recorded_dimensions(node, tensor.value_index, -1)
    shape = _joined(
        static_shape(tensor),
        None if recorded is None else tuple(None if size < 0 else size for size in recorded),
    )
    shape = _joined(shape, _of_queue(view, node, tensor.value_index))
    source = "" if node.op in FED else SOURCES.get(node.op, "")
    return Wanted(tensor.name, dtype, shape, source)


def _joined(one: Shape, other: Shape) -> Shape:
    """Two merged shapes; the first counts if they contradict each other."""
    if one is None or other is None or len(one) != len(other):
        return other if one is None else one
    return tuple(b if a is None else a for a, b in zip(one, other))


def _of_queue(view: GraphView, node: tf.NodeDef, output: int) -> Shape:
    """The shape of a queue's elements, if the queue has it."""
    if not node.op.startswith("QueueDequeue"):
        return None
    queue = view.nodes[view.inputs(node.name)[0].node]
    shapes = queue.attr["shapes"].list.shape if "shapes" in queue.attr else ()
    element = dimensions_of(shapes[output]) if output < len(shapes) else None
    if element is None:
        return None
    return element if node.op in ("QueueDequeue", "QueueDequeueV2") else (None,) + element
