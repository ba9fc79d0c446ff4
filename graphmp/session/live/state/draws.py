"""The random numbers that runs draw, noted so that the generator of a clone can draw them too.

A stateful random op has a generator of its own, and its clone another one with the same seeds. How
much an op draws depends on the values of its inputs (shapes), which are fetched with the run.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

import numpy as np

from graphmp.graph.state.live import ancestors
from graphmp.graph.state.state_kinds import kind
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.frames import loop_depths
from graphmp.graph.structure.view import GraphView
from graphmp.session.live.state.as_they_are import run_itself
from graphmp.tf_hooks.internals import whole_graph_def

_KIND = "random"
Inputs = Dict[str, List[Any]]  # of each random op, by the original's name; None for a constant


class Draws(NamedTuple):
    """The random ops of a run.

    Attributes:
        names: of the original ops.
        inputs: for each the names of its inputs, empty for a constant.
        fetches: the inputs that are neither constant nor fed.
        feeds: the values of those that are fed, by name.
    """

    names: List[str]
    inputs: List[List[str]]
    fetches: List[Any]
    feeds: Mapping[str, Any]

    def noted(self, values: Sequence[Any]) -> Inputs:
        """The inputs of the ops, with the values of `fetches`."""
        known = dict(self.feeds)
        known.update(zip((tensor.name for tensor in self.fetches), values))
        return {
            name: [known.get(tensor) for tensor in tensors]
            for name, tensors in zip(self.names, self.inputs)
        }


NO_DRAWS = Draws([], [], [], {})


def draws_of(
    graph: Any,
    ops: Sequence[Any],
    feeds: Mapping[str, Any],
    nodes: Callable[[AbstractSet[str]], Mapping[str, str]],
) -> Draws:
    """The random numbers that a run draws.

    Args:
        graph: the tf.Graph.
        ops: what the run computes.
        feeds: the values that are fed, by the names of the tensors.
        nodes: given the names of all ops that are computed, the random ones that count: the
            original's name, and the name of the one that runs.
    """
    fed = {graph.get_tensor_by_name(name).op for name in feeds}
    found = nodes({op.name for op in ancestors(ops, stop=lambda op: op in fed) - fed})
    inputs = [graph.get_operation_by_name(node).inputs for node in found.values()]
    varying = {
        tensor.name: tensor
        for tensors in inputs
        for tensor in tensors
        if tensor.name in feeds or not is_constant(tensor)
    }
    return Draws(
        list(found),
        [[t.name if t.name in varying else "" for t in tensors] for tensors in inputs],
        [tensor for name, tensor in varying.items() if name not in feeds],
        {name: feeds[name] for name in varying if name in feeds},
    )


def draw(session: Any, inputs: Inputs, nodes: Mapping[str, str]) -> None:
    """Let generators draw what others have drawn.

    Args:
        session: the session.
        inputs: of the ops that drew.
        nodes: the names of the ops that draw, by those of the originals; others draw nothing.
    """
    names = [name for name in inputs if name in nodes]
    ops = [session.graph.get_operation_by_name(nodes[name]) for name in names]
    feeds = {
        tensor.name: np.asarray(value, tensor.dtype.as_numpy_dtype)
        for op, name in zip(ops, names)
        for tensor, value in zip(op.inputs, inputs[name])
        if value is not None
    }
    if ops:
        run_itself(session, ops, feeds)


def unfetchable(graph: Any) -> AbstractSet[str]:
    """Names of the nodes that can't be fetched: those in loops and branches."""
    view = GraphView(whole_graph_def(graph))
    looped = {name for name, depth in loop_depths(view).items() if depth}
    return frozenset(conditional(view) | looped)


def is_constant(tensor: Any) -> bool:
    """Whether a tensor has one value in all runs that don't feed it.

    TensorFlow lets no tensor be fed whose value it has asked for while the graph was built. This
    one isn't asked for: the script may feed it.
    """
    return tensor.op.type == "Const" or not tensor.graph.is_feedable(tensor)


def draws_alone(graph: Any, name: str) -> bool:
    """Whether a node is a random op with a seed, which runs without other effects."""
    try:
        op = graph.get_operation_by_name(name)
    except KeyError:  # a node that a conversion inserted
        return False
    if kind(op.type) != _KIND or op.control_inputs or "seed2" not in op.node_def.attr:
        return False
    return bool(op.get_attr("seed") or op.get_attr("seed2"))
