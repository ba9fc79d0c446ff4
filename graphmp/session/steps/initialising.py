"""Initial values of variables and tables."""

from __future__ import annotations

from typing import Any, Iterator, List, Sequence

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.shapes.shapes import elements
from graphmp.graph.state.live import fills_table, writes_constants
from graphmp.policy.op_sets import OVERWRITES
from graphmp.wording import first_line


def initialise(session: Any, initializers: Sequence[Any], sparing: bool = False) -> None:
    """Initialise variables and tables: run initialisers repeatedly until no more succeed.

    They are repeated because an initialiser may read another variable.

    Args:
        session: of the graph.
        initializers: ops to run besides those of variables in its collections, and of tables.
        sparing: whether memory is short: as many run at once as write no more than the largest
            alone, and running out of memory raises.

    Raises:
        tf.errors.ResourceExhaustedError: with `sparing`, if one runs out of memory.
    """
    waiting = list(dict.fromkeys([*_initialisers(session.graph), *initializers]))
    fatal = (tf.errors.ResourceExhaustedError,) if sparing else ()
    ready = [op for op in waiting if op.type in OVERWRITES and writes_constants(op)]
    for group in map(set, _groups(ready) if sparing else [ready]):
        if _runs(session, list(group), ()):
            waiting = [op for op in waiting if op not in group]
    before: List[Any] = []
    while waiting != before:
        before, waiting = waiting, [op for op in waiting if not _runs(session, op, fatal)]


def restore(session: Any, saver: Any, checkpoint: str) -> None:
    """Set variables to the values of a checkpoint.

    Raises:
        GraphmpError: GMP003 if that can't be restored.
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


def _initialisers(graph: Any) -> List[Any]:
    """The initialisers of the variables in a graph's collections, and those of its tables.

    Collections may hold tensors that are no variables, and a GraphDef has no collections.
    """
    with graph.as_default():
        variables = tf.global_variables() + tf.local_variables()
    initializers = [getattr(variable, "initializer", None) for variable in variables]
    return [
        *(getattr(found, "op", found) for found in initializers if found is not None),
        *graph.get_collection(tf.GraphKeys.TABLE_INITIALIZERS),
        *(op for op in graph.get_operations() if fills_table(op)),
    ]


def _runs(session: Any, ops: Any, fatal: Any) -> bool:
    try:
        session.run(ops)
    except fatal:
        raise
    except tf.errors.OpError:
        return False
    return True


def _groups(assignments: Sequence[Any]) -> Iterator[List[Any]]:
    """Assignments in groups that write no more elements than the largest one."""
    sizes = [elements(op.inputs[1].shape.as_proto()) for op in assignments]
    most, size = max(sizes, default=0), 0
    group: List[Any] = []
    for op, more in zip(assignments, sizes):
        if group and size + more > most:
            yield group
            group, size = [], 0
        group.append(op)
        size += more
    yield group
