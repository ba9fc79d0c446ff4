"""Nodes that nothing reads because TensorFlow made them on the way to others: nobody fetches them.

Under `tf.control_dependencies` they wait for a write all the same, and don't show that it is run
for another end than training.
"""

from __future__ import annotations

import re

from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import SWITCHES

_PACKED = re.compile(r"packed(_\d+)?$")  # a list that became a tensor without being asked to
_SLICED_WRITES = frozenset(("ResourceStridedSliceAssign", "StridedSliceAssign"))


def is_by_product(view: GraphView, name: str) -> bool:
    """Whether a node without readers is one.

    A constant, as the message of an assertion is; the pivot of a `tf.cond` that its branch doesn't
    need; a list of numbers, packed for an op that was then computed without it; the slice that
    is read where a slice of a variable is assigned.
    """
    op, inputs = view.nodes[name].op, view.inputs(name)
    if op == "Identity" and inputs:
        return view.nodes[inputs[0].node].op in SWITCHES
    if op == "Pack":
        return _PACKED.fullmatch(name.rpartition("/")[2]) is not None
    if op == "StridedSlice":
        readers = view.consumers(inputs[1].node)  # of its beginning
        return any(view.nodes[reader.node].op in _SLICED_WRITES for reader in readers)
    return op == "Const"
