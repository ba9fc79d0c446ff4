"""The variables of a graph, reference and resource ones alike, and their names in a checkpoint."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Set, Tuple, Union

import tensorflow.compat.v1 as tf

from graphmp.graph.io.stored import StoredGraphDef
from graphmp.graph.structure.values import strings
from graphmp.graph.structure.view import GraphView
from graphmp.once import remembered
from graphmp.policy.dtypes import FLOAT32
from graphmp.policy.op_sets import SAVES, VARIABLE_OPS

_ABSENT = tf.AttrValue()  # node.attr["x"] would add an empty x to the graph


class Variable(NamedTuple):
    """A variable as its node declares it.

    Attributes:
        name: the node's name, which is also the variable's name in a checkpoint.
        op: one of VARIABLE_OPS.
        dtype: what it stores, as a number of the DataType enum.
        shape: one number a dimension, -1 where unknown; None if even the rank is.
    """

    name: str
    op: str
    dtype: int
    shape: Optional[Tuple[int, ...]]


def variables(graph_def: Union[tf.GraphDef, StoredGraphDef]) -> List[Variable]:
    """The variables in the order of the graph; those inside functions are not looked for."""
    return _of_stored(graph_def) if isinstance(graph_def, StoredGraphDef) else _declared(graph_def)


def _declared(graph_def: Union[tf.GraphDef, StoredGraphDef]) -> List[Variable]:
    nodes = (node for node in graph_def.node if node.op in VARIABLE_OPS)
    return [
        Variable(node.name, node.op, node.attr.get("dtype", _ABSENT).type, _shape(node))
        for node in nodes
    ]


_of_stored = remembered(_declared)


def float32_kept(before: tf.GraphDef, after: tf.GraphDef) -> Tuple[int, int]:
    """The number of float32 variables in the original, and of those float32 after conversion."""
    names = {v.name for v in variables(before) if v.dtype == FLOAT32}
    return len(names), sum(v.name in names and v.dtype == FLOAT32 for v in variables(after))


def saved_names(view: GraphView) -> Set[str]:
    """The names under which the Savers in a graph write tensors to a checkpoint."""
    saves = [
        name for name, node in view.nodes.items() if node.op in SAVES and len(view.inputs(name)) > 1
    ]
    return {text for name in saves for text in strings(view.nodes[view.inputs(name)[1].node])}


def _shape(node: tf.NodeDef) -> Optional[Tuple[int, ...]]:
    """The declared shape.

    The op Variable writes an unknown shape as a scalar's, so a scalar's there means unknown.
    """
    shape = node.attr.get("shape", _ABSENT).shape
    sizes = tuple(dim.size for dim in shape.dim)
    unknown = shape.unknown_rank or (node.op == "Variable" and not sizes)
    return None if unknown else sizes
