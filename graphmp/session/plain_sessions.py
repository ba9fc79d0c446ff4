"""Sessions that run a graph as it is written, from the same values and with the same random numbers each time."""

from __future__ import annotations

import contextlib
import zlib
from typing import Any, Iterator, Sequence

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.state.live import ancestors
from graphmp.policy.op_sets import OVERWRITES, VARIABLE_OPS
from graphmp.wording import first_line

_CHANNELS_FIRST = (b"NCHW", b"NCDHW")
_ROUNDS = 4  # an initialiser may read another variable


def seeded(meta_graph: tf.MetaGraphDef) -> tf.MetaGraphDef:
    """A copy whose random ops have seeds by their names, so that original and clone draw the same; in loops step by step, in order."""
    copy = tf.MetaGraphDef()
    copy.CopyFrom(meta_graph)
    for nodes in [
        copy.graph_def.node,
        *(function.node_def for function in copy.graph_def.library.function),
    ]:
        for node in nodes:
            if "parallel_iterations" in node.attr:
                node.attr["parallel_iterations"].i = 1
            if "seed" in node.attr and "seed2" in node.attr:
                node.attr["seed"].i, node.attr["seed2"].i = (
                    1 + zlib.crc32(node.name.encode("utf-8")) % 100000,
                    7,
                )
    return copy


@contextlib.contextmanager
def quiet_logging() -> Iterator[None]:
    """Keeps TensorFlow's own warnings back: what it calls deprecated is not the user's code."""
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.ERROR)
    try:
        yield
    finally:
        tf.logging.set_verbosity(verbosity)


def unoptimised(graph_def: tf.GraphDef) -> tf.ConfigProto:
    """Options of a session that runs a graph as it is: optimising thousands of measurements takes longer than computing them.

    Channels-first convolutions need one optimizer on a CPU, that of layouts.
    """
    config = tf.ConfigProto()
    if any(
        "data_format" in node.attr and node.attr["data_format"].s in _CHANNELS_FIRST
        for node in graph_def.node
    ):
        config.graph_options.rewrite_options.optimizers.append("layout")
    else:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return config


def initialise(session: Any, initializers: Sequence[Any]) -> None:
    """Gives variables and tables their first values.

    Args:
        session: of the graph.
        initializers: ops that do so, besides those of the variables in its collections.
    """
    with session.graph.as_default():
        variables = tf.global_variables() + tf.local_variables()
    collected = [
        getattr(variable.initializer, "op", variable.initializer) for variable in variables
    ]
    waiting = list(dict.fromkeys([*collected, *initializers]))
    at_once = set(filter(_needs_nothing, waiting))
    if _runs(session, list(at_once)):
        waiting = [op for op in waiting if op not in at_once]
    for _ in range(_ROUNDS):
        waiting = [op for op in waiting if not _runs(session, op)]
    for op in session.graph.get_collection(tf.GraphKeys.TABLE_INITIALIZERS):
        _runs(session, op)


def restore(session: Any, saver: Any, checkpoint: str) -> None:
    """Gives variables the values of a checkpoint.

    Raises:
        GraphmpError: GMP003 where that can't be restored.
    """
    if saver is None:
        raise GraphmpError(
            "GMP003", "--checkpoint=%s: the graph has no Saver to restore it with" % checkpoint
        )
    try:
        saver.restore(session, checkpoint)
    except (tf.errors.OpError, ValueError) as error:
        raise GraphmpError(
            "GMP003", "--checkpoint=%s: cannot be restored: %s" % (checkpoint, first_line(error))
        ) from None


def _runs(session: Any, ops: Any) -> bool:
    try:
        session.run(ops)
    except tf.errors.OpError:
        return False
    return True


def _needs_nothing(initializer: Any) -> bool:
    """Whether an assignment reads nothing that may not be there yet: no variable, no other resource, nothing fed."""
    if initializer.type not in OVERWRITES:
        return False
    read = ancestors(
        [*(tensor.op for tensor in initializer.inputs[1:]), *initializer.control_inputs]
    )
    return not any(
        op.type in VARIABLE_OPS
        or op.type.startswith("Placeholder")
        or tf.resource in [t.dtype for t in op.outputs]
        for op in read
    )
