"""First values of a step: of its variables and a batch, with a description to draw similar ones."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.audit.options import AuditOptions
from graphmp.audit.run import batches_for
from graphmp.errors import GraphmpError
from graphmp.feeds.attempts import first_that_runs, random_attempts, shape_attempts
from graphmp.feeds.batches import Batch, Batches, random_batches
from graphmp.feeds.sources import needed
from graphmp.feeds.wanted import wanted_tensors
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.wording import first_line
from hlo.step import Step

_ROUNDS = 4  # an initialiser may read another variable
_SMALL_BATCH = 3
_FLOATS = (tf.bfloat16, tf.float16, tf.float32, tf.float64)


class Values(NamedTuple):
    """Arrays by name.

    Attributes:
        batch: a batch on which the step runs, by tensor.
        variables: the first values of the step's variables.
    """

    batch: Dict[str, np.ndarray]
    variables: Dict[str, np.ndarray]


class _Session(NamedTuple):
    """The session interface of `batches_for`: the graph, the fetches, and a trial run."""

    graph: tf.Graph
    session: tf.Session
    targets: List[Any]
    probe: List[Any]
    read: Sequence[str] = ()


def first_values(meta_graph: tf.MetaGraphDef, step: Step, options: AuditOptions) -> Values:
    """Initialise the graph in a session, and take a batch on which its step runs.

    The batch is the first one of the data, or made up.

    Raises:
        GraphmpError: GMP002 or GMP003 for data that can't be read or don't fit, GMP024 if no
            made-up batch runs, GMP024 for a variable without an initial value.
    """
    view = GraphView(meta_graph.graph_def)
    run = needed(view, step.targets)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(_importable(meta_graph.graph_def, options.seed), name="")
        names = [name for name in view.nodes if name in run and view.nodes[name].op in VARIABLE_OPS]
        reads = {name: _value(graph, view.nodes[name]) for name in names}
        updates, targets = [
            [graph.get_operation_by_name(name) for name in names]
            for names in (step.updates, step.targets)
        ]
        gradients = [tensor for op in updates for tensor in op.inputs if tensor.dtype in _FLOATS]
        with tf.Session() as session:
            _initialise(session, State(meta_graph, view).initializers)
            variables = _read(session, reads)
            return Values(
                _batch(_Session(graph, session, targets, gradients), view, meta_graph, options),
                variables,
            )


def described(array: np.ndarray) -> Dict[str, Any]:
    """How to draw an array like this one: a JSON value.

    `constant` with its value, `integers` from low to high, both included, or `normal` with mean and
    std, clipped to low and high.
    """
    if not array.size:
        return {"kind": "constant", "value": 0}
    low, high = array.min().item(), array.max().item()
    if low == high or array.dtype == bool:
        return (
            {"kind": "constant", "value": low}
            if low == high
            else {"kind": "integers", "low": 0, "high": 1}
        )
    if array.dtype.kind in "iu":
        return {"kind": "integers", "low": low, "high": high}
    wide = array.astype(np.float64)
    return {
        "kind": "normal",
        "mean": wide.mean(),
        "std": wide.std(),
        "low": float(low),
        "high": float(high),
    }


def _batch(
    running: _Session, view: GraphView, meta_graph: tf.MetaGraphDef, options: AuditOptions
) -> Batch:
    """The first batch of the data, or a made-up one.

    A step with a small batch shows which unknown dimensions are the batch's.
    """
    names = [op.name for op in running.targets]
    wanted = wanted_tensors(running.graph, view, names)
    guesses, small = (
        shape_attempts(running.graph, view, wanted, size)
        for size in (options.batch_size, _SMALL_BATCH)
    )
    if options.data or options.batch_size <= _SMALL_BATCH or len(guesses) != len(small):
        return batches_for(running, meta_graph, options)(0)
    tried: List[Batches] = []
    attempts = random_attempts(running.graph, view, names, _SMALL_BATCH, options.seed)
    first_that_runs(
        running.session, running.probe, (tried.append(batches) or batches for batches in attempts)
    )
    return random_batches(
        running.graph, view, names, options.batch_size, options.seed, guesses[len(tried) - 1]
    )(0)


def _importable(graph_def: tf.GraphDef, seed: int) -> tf.GraphDef:
    """A copy that can be imported and draws the same random numbers each time.

    It has no devices, and no recorded shapes, which may contradict the inferred ones.
    """
    copy = tf.GraphDef()
    copy.CopyFrom(graph_def)
    for number, node in enumerate(copy.node):
        node.device = ""
        node.attr.pop("_output_shapes", None)
        if "seed2" in node.attr:
            node.attr["seed"].i, node.attr["seed2"].i = seed + 1, number
    return copy


def _value(graph: tf.Graph, node: tf.NodeDef) -> Any:
    tensor = graph.get_tensor_by_name(node.name + ":0")
    return (
        tf.raw_ops.ReadVariableOp(resource=tensor, dtype=node.attr["dtype"].type)
        if node.op == "VarHandleOp"
        else tensor
    )


def _initialise(session: tf.Session, initializers: Any) -> None:
    """Run all initialisers together, or one by one in several rounds if that fails."""
    waiting = [session.graph.get_operation_by_name(name) for name in sorted(initializers)]
    for _ in range(_ROUNDS if waiting and not _runs(session, waiting) else 0):
        waiting = [op for op in waiting if not _runs(session, op)]


def _runs(session: tf.Session, ops: Any) -> bool:
    try:
        session.run(ops)
    except tf.errors.OpError:
        return False
    return True


def _read(session: tf.Session, tensors: Dict[str, Any]) -> Dict[str, np.ndarray]:
    """All values in one run: each run of new fetches costs a pass over the whole graph."""
    try:
        return {name: np.asarray(value) for name, value in session.run(tensors).items()}
    except tf.errors.OpError as error:
        name = next(name for name, tensor in tensors.items() if not _runs(session, tensor))
        raise GraphmpError(
            "GMP024",
            "variable %s: no initialiser in the graph gives it a value: %s"
            % (name, first_line(error)),
        ) from None
