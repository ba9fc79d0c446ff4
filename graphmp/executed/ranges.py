"""Causes of differing steps: values that overflow or are subnormal in one graph, and their effects.

TensorFlow flushes subnormal numbers to zero: a value may be one only with a certain loss scale.
"""

from __future__ import annotations

from typing import List, Mapping, NamedTuple, Set

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.executed.order import in_this_order
from graphmp.executed.same import Expected
from graphmp.executed.variables import VariableSession, changed
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.dtypes import FLOAT32
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.verify.sides import Side

_NORMAL = float(np.finfo(np.float32).tiny)


class Excuse(NamedTuple):
    """Nodes with out-of-range values in the first differing step.

    Also whether they explain the whole difference.
    """

    nodes: List[str]
    explains: bool


def out_of_range(
    original: tf.MetaGraphDef,
    other: tf.MetaGraphDef,
    wanted: Expected,
    given: Mapping[str, np.ndarray],
    scale: float,
) -> Excuse:
    """Compare the values of both graphs, step by step from the original's variables.

    Values inside loops and conditionals aren't compared.

    Args:
        original: the one graph.
        other: the other one.
        wanted: the original's steps.
        given: values of variables that only the other graph has.
        scale: its loss scale.
    """
    side = Side(original, original.graph_def)
    steps, view, state = wanted.steps, side.view, side.state
    names = {train: _compared(side, other, train) for train in steps.train}
    graphs = [in_this_order(graph, steps.order) for graph in (original, other)]
    with VariableSession(graphs[0], steps.train, wanted.start) as one, VariableSession(
        graphs[1], steps.train, wanted.start
    ) as two:
        for number in range(steps.number):
            two.load(dict(one.values(), **given))
            nodes: Set[str] = set()
            for train, tensors in names.items():
                pairs = zip(
                    tensors,
                    *(
                        session.fetched(
                            train, [name + ":0" for name in tensors], steps.batches(number)
                        )
                        for session in (one, two)
                    ),
                )
                nodes |= {name for name, a, b in pairs if _is_out(a, b, scale)}
            after = one.values()
            differing = changed(
                after, {name: value for name, value in two.values().items() if name in after}
            )
            if differing:
                behind = view.descendants(nodes)
                excused = {
                    variable
                    for name in state.writes
                    if name in behind
                    for variable in state.written(name)
                }
                return Excuse(
                    [name for name in view.nodes if name in nodes], excused >= set(differing)
                )
    return Excuse([], False)


def _compared(side: Side, other: tf.MetaGraphDef, train: str) -> List[str]:
    """The nodes of a run that both graphs always compute, whose first outputs are float32."""
    view, after = side.view, GraphView(other.graph_def)
    inside, left_out = frames(view), conditional(view) | conditional(after)
    writes, step = set(side.state.writes), view.ancestors([train])
    found = [
        name for name in view.nodes if name in step and name in after.nodes and not inside.get(name)
    ]
    return [
        name
        for name in found
        if name not in left_out
        and name not in writes
        and view.nodes[name].op not in VARIABLE_OPS
        and side.dtype(Port(name, 0)) == FLOAT32
    ]


def _is_out(one: np.ndarray, other: np.ndarray, scale: float) -> bool:
    """Whether an element is out of range in one of the graphs.

    It is infinite, NaN or subnormal, or zero in only one of them and tiny in the other.
    """
    if one.shape != other.shape or one.dtype != np.float32 or other.dtype != np.float32:
        return False
    if not (np.all(np.isfinite(one)) and np.all(np.isfinite(other))):
        return True
    sizes = np.abs(one), np.abs(other)
    subnormal = any(np.any((size > 0) & (size < _NORMAL)) for size in sizes)
    return bool(
        subnormal
        or np.any(((sizes[0] == 0) != (sizes[1] == 0)) & (np.maximum(*sizes) < _NORMAL * scale**2))
    )
