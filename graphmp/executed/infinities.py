"""Graphs in which chosen values can be made infinite in a step, also inside while loops.

Each value is replaced by `Maximum(value, x)`, where x is an element of a fed vector: minus infinity
doesn't change the value.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import Consumer, Port
from graphmp.policy.dtypes import FLOAT32, INT32
from graphmp.verify.sides import Side

_SCOPE = "graphmp_executed"


class Spot(NamedTuple):
    """A value that can be made infinite.

    Attributes:
        port: the output.
        readers: its consumers that are affected.
        inside: its while frames, outermost first.
    """

    port: Port
    readers: Tuple[Consumer, ...]
    inside: Tuple[str, ...]


class Infinities:
    """A copy of a graph with such values.

    Attributes:
        meta_graph: the copy.
    """

    def __init__(self, side: Side, spots: Sequence[Spot]):
        """The given graph isn't changed.

        Args:
            side: the graph.
            spots: the values.
        """
        self.meta_graph = tf.MetaGraphDef()
        self.meta_graph.CopyFrom(side.meta_graph)
        self._side, self._count = side, len(spots)
        self._editor = Editor(self.meta_graph.graph_def)
        self._vector = self._editor.add(
            "%s/infinite" % _SCOPE,
            "Placeholder",
            dtype=FLOAT32,
            shape=tf.AttrValue(shape=tf.TensorShape([len(spots)]).as_proto()),
        )
        for number, spot in enumerate(spots):
            self._put(number, spot)

    def feeds(self, *numbers: int) -> Dict[str, np.ndarray]:
        """Feeds that make exactly the spots with these indices infinite."""
        vector = np.full([self._count], -np.inf, np.float32)
        vector[list(numbers)] = np.inf
        return {"%s:0" % self._vector.node: vector}

    def _put(self, number: int, spot: Spot) -> None:
        add, name = self._editor.add, "%s/%d" % (_SCOPE, number)
        dtype = self._side.dtype(spot.port)
        index = add(
            name + "/index", "Const", dtype=INT32, value=tf.make_tensor_proto(np.int32(number))
        )
        bound = add(
            name + "/element", "Gather", [self._vector, index], Tparams=FLOAT32, Tindices=INT32
        )
        if dtype != FLOAT32:
            bound = add(name + "/cast", "Cast", [bound], SrcT=FLOAT32, DstT=dtype)
        for frame in spot.inside:
            bound = add(
                name + "/enter",
                "Enter",
                [bound],
                T=dtype,
                frame_name=tf.AttrValue(s=frame.encode("utf-8")),
                is_constant=True,
                parallel_iterations=tf.AttrValue(i=1),
            )
        self._editor.read_instead(
            spot.readers, add(name + "/value", "Maximum", [spot.port, bound], T=dtype)
        )
