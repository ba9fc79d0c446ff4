"""Running a graph unoptimised, and the values of its variables.

In one thread, with random numbers by the names of their nodes, without TensorFlow's graph
optimizer.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import with_nodes_reversed
from graphmp.graph.state.state import State
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.session.steps.as_written import one_by_one, seeded, unoptimised
from graphmp.session.steps.training_session import TrainingSession

Values = Dict[str, np.ndarray]


class VariableSession(TrainingSession):
    """A session of a graph with readable and writable variables, to be closed after use."""

    def __init__(
        self,
        meta_graph: tf.MetaGraphDef,
        train: Sequence[str],
        start: Optional[Mapping[str, np.ndarray]] = None,
        checkpoint: str = "",
        backwards: bool = False,
        on_gpu: bool = False,
    ):
        """Import and initialise.

        Args:
            meta_graph: the graph.
            train: names of the ops of a step, run one after the other.
            start: values of variables; the others get their initial values.
            checkpoint: prefix of a checkpoint with the variables' values; may be empty.
            on_gpu: whether it may run on a GPU, whose kernels may give other bits from run to run.
            backwards: whether the nodes are imported in reverse order, in which independent ones
                then run.

        Raises:
            GraphmpError: GMP003 if the checkpoint can't be restored.
            Exception: errors of TensorFlow's import.
        """
        copy = seeded(with_nodes_reversed(meta_graph) if backwards else meta_graph)
        super().__init__(copy, train, _one_thread(copy.graph_def, on_gpu))
        view = GraphView(copy.graph_def)
        inside = frames(view)  # what a loop holds there is one more handle of a variable outside
        names = [
            name
            for name, node in view.nodes.items()
            if node.op in VARIABLE_OPS and not inside.get(name)
        ]
        with self.graph.as_default():
            self._set, self._reads, self._loads = (
                dict(zip(names, map(made, self.ops(names)))) for made in (_is_set, _read, _load)
            )
        self.initialise(sorted(State(copy, view).initializers), checkpoint)
        self.load(start or {})

    def values(self) -> Values:
        """The values of all initialised variables."""
        there = self.session.run(self._set)
        return dict(
            self.session.run({name: read for name, read in self._reads.items() if there[name]})
        )

    def load(self, values: Mapping[str, np.ndarray]) -> None:
        """Set variables; those that the graph lacks are ignored."""
        loads = {self._loads[name]: value for name, value in values.items() if name in self._loads}
        if loads:
            self.session.run(
                [op for _, op in loads],
                {placeholder: value for (placeholder, _), value in loads.items()},
            )

    def step(self, feeds: Mapping[str, Any]) -> None:
        """Trains one step, op by op."""
        for op in self.targets:
            self.session.run([op], feeds)

    def fetched(
        self, train: str, tensors: Sequence[str], feeds: Mapping[str, Any]
    ) -> List[np.ndarray]:
        """Run an op of a step, and return tensors of that run."""
        _, found = self.session.run(
            [
                self.graph.get_operation_by_name(train),
                [self.graph.get_tensor_by_name(name) for name in tensors],
            ],
            feeds,
        )
        return list(found)


def same_value(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are the same, bit by bit."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return (
        bool(np.array_equal(one, other))
        if one.dtype == object
        else one.tobytes() == other.tobytes()
    )


def changed(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> List[str]:
    """The variables with different values, or with a value only on one side."""
    names = list(dict.fromkeys([*before, *after]))
    return [
        name
        for name in names
        if name not in before or name not in after or not same_value(before[name], after[name])
    ]


def not_finite(values: Mapping[str, np.ndarray]) -> List[str]:
    """The variables that are not finite everywhere."""
    return [
        name
        for name, value in values.items()
        if value.dtype.kind == "f" and not np.all(np.isfinite(value))
    ]


def _one_thread(graph_def: tf.GraphDef, on_gpu: bool) -> tf.ConfigProto:
    config = one_by_one(unoptimised(graph_def))
    config.allow_soft_placement = True  # functions name devices
    if not on_gpu:
        config.device_count["GPU"] = 0
    config.intra_op_parallelism_threads = 1
    return config


def _is_resource(op: Any) -> bool:
    return bool(op.type == "VarHandleOp")


def _is_set(op: Any) -> Any:
    variable = op.outputs[0]
    return (
        tf.raw_ops.VarIsInitializedOp(resource=variable)
        if _is_resource(op)
        else tf.raw_ops.IsVariableInitialized(ref=variable)
    )


def _read(op: Any) -> Any:
    variable = op.outputs[0]
    return (
        tf.raw_ops.ReadVariableOp(resource=variable, dtype=op.get_attr("dtype"))
        if _is_resource(op)
        else tf.identity(variable)
    )


def _load(op: Any) -> Any:
    value = tf.placeholder(op.get_attr("dtype"))
    if _is_resource(op):
        return value, tf.raw_ops.AssignVariableOp(resource=op.outputs[0], value=value)
    return value, tf.assign(op.outputs[0], value, validate_shape=False).op
