"""Divisions by constants in bfloat16 on TensorFlow 1.15, at which a step ends in an error.

Its optimizer of graphs computes what is the same in each run, and makes a product with the
`Reciprocal` of a divisor that is. It does so after ops were placed, on the CPU, which has no
bfloat16 kernel for that (seen in 1.15.5).
"""

from __future__ import annotations

from typing import Hashable, Mapping, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.made_of_constants import Look, made_of_constants

NO_RECIPROCAL = (
    "TensorFlow 1.15's optimizer of graphs makes a Reciprocal of a division by a constant, for"
    " which its CPU has no kernel of bfloat16"
)
_DIVISIONS = frozenset(("Div", "RealDiv"))


def becomes_reciprocal(
    op_type: str, compute_dtype: str, inputs: Sequence[Hashable], look: Look
) -> bool:
    """Whether an op is such a division: its divisor is made of constants and shapes alone.

    Args:
        op_type: the op's type.
        compute_dtype: its type of numbers.
        inputs: its inputs.
        look: returns the op's type and the inputs behind an input; None if they are unknown.
    """
    is_old = compute_dtype == "bfloat16" and tf.__version__.startswith("1.")
    return is_old and op_type in _DIVISIONS and made_of_constants(inputs[1], look)


def in_body(nodes: Mapping[str, tf.NodeDef]) -> Look:
    """The `look` for inputs of a graph's or function's nodes, by name; an argument is unknown."""

    def look(text: str) -> Optional[Tuple[str, Sequence[str]]]:
        node = nodes.get(text.split(":")[0])
        if node is None:
            return None
        return node.op, [each for each in node.input if not each.startswith("^")]

    return look
