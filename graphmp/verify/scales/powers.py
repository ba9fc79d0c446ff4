"""The powers of the loss scales in the values of a converted graph, for measurements."""

from __future__ import annotations

from typing import Dict

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port
from graphmp.policy.half_kernels import DEVICES
from graphmp.verify.functions import compared
from graphmp.verify.scales.degrees import Degrees
from graphmp.verify.sides import Side, Sides


def powers(original: tf.MetaGraphDef, converted: tf.MetaGraphDef) -> Dict[Port, float]:
    """The sum of the powers of all scales by output, where known.

    Not for zeros, and empty for a graph that isn't the original's conversion.
    """
    body, functions = compared(
        Sides(Side(original, original.graph_def), Side(converted, converted.graph_def)), DEVICES
    )
    degrees = Degrees(body.sides, body.erasure, body.scales.nodes, functions.called, body.named)
    if body.sides.faults or functions.faults or degrees.problems:
        return {}
    return {
        port: sum(power for _, power in degree)
        for port, degree in degrees.of.items()
        if degree is not None
    }
