"""The shape of a tensor from what it is combined with element by element.

Labels for each pixel are as large as what the network makes of its pictures. TensorFlow infers that
size from the pictures' in a copy of the nodes between.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, Sequence

import tensorflow.compat.v1 as tf

from graphmp.feeds.shapes import Guess, Shapes, refined
from graphmp.feeds.uses import uses_of_shape
from graphmp.feeds.wanted import Dimensions, Shape, Wanted, port_of
from graphmp.graph.shapes.shapes import dimensions_of, inferred_shapes
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.op_sets import ADDS, COMPARISONS

_ELEMENTWISE = ADDS | COMPARISONS | {"Mul", "SquaredDifference", "Sub"}
_OF_OTHER_GRAPHS = ("_class", "_output_shapes")  # attributes that a copy must not have


def joined(
    shapes: Shapes, wanted: Sequence[Wanted], known: Mapping[str, Dimensions], guess: Guess
) -> Dict[str, Dimensions]:
    """The shapes of all tensors, completed by what the others determine.

    Args:
        shapes: static shapes of the graph.
        wanted: the tensors that are fed.
        known: what is known of the shape of each, by its name.
        guess: sizes of the others' unknown dimensions.
    """
    sizes = {name: guess.sizes(shape) for name, shape in known.items()}
    found = dict(known)
    for tensor in wanted:
        if None in known[tensor.name]:
            partners = _partners(shapes.view, tensor)
            inferred = [_inferred(shapes, wanted, sizes, partner) for partner in partners]
            found[tensor.name] = refined(known[tensor.name], list(map(_not_broadcast, inferred)))
    return found


def _not_broadcast(shape: Shape) -> Shape:
    """A shape without its dimensions of 1, which may be broadcast."""
    return shape and tuple(None if size == 1 else size for size in shape)


def _partners(view: GraphView, tensor: Wanted) -> Iterator[Port]:
    """Values that a tensor is combined with, and that don't depend on it."""
    after = view.descendants([tensor.node], control=False)
    for use in uses_of_shape(view, port_of(tensor)):
        if use.node.op in _ELEMENTWISE:
            other = view.inputs(use.node.name)[1 - use.slot]
            if other.node not in after:
                yield other


def _inferred(
    shapes: Shapes, wanted: Sequence[Wanted], sizes: Mapping[str, List[int]], port: Port
) -> Shape:
    """The shape of a value for the sizes of what is fed; None if TensorFlow can't tell."""
    fed = {port_of(tensor): tensor for tensor in wanted}
    if port in fed:
        return tuple(sizes[fed[port].name])
    names = {port_of(tensor): "fed_%d" % number for number, tensor in enumerate(wanted)}
    view, part = shapes.view, tf.GraphDef()
    for tensor in wanted:
        part.node.add(
            name=names[port_of(tensor)],
            op="Placeholder",
            attr={
                "dtype": tf.AttrValue(type=tensor.dtype.as_datatype_enum),
                "shape": tf.AttrValue(shape=tf.TensorShape(sizes[tensor.name]).as_proto()),
            },
        )
    sources = {tensor.node for tensor in wanted}
    for name in view.in_graph_order(view.ancestors([port.node], control=False) - sources):
        node = part.node.add()
        node.CopyFrom(view.nodes[name])
        node.input[:] = [names.get(read, "%s:%d" % read) for read in view.inputs(name)]
        node.device = ""
        for key in _OF_OTHER_GRAPHS:
            node.attr.pop(key, None)
    found = inferred_shapes(part).get(port.node)
    return None if found is None else dimensions_of(found[port.output])
