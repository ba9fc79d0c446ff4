"""Initial values of variables and tables."""

from __future__ import annotations

import zlib
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.shapes.shapes import elements
from graphmp.graph.state.live import ancestors, fills_table, variable_op, writes_constants
from graphmp.policy.op_sets import FED, OVERWRITES
from graphmp.wording import first_line

_SPREAD = 0.05  # standard deviation of made-up initial values


def initialise(session: Any, initializers: Sequence[Any], sparing: bool = False) -> List[str]:
    """Initialise variables and tables: run initialisers repeatedly until no more succeed.

    They are repeated because an initialiser may read another variable. Return the placeholders of
    initial values, for which values are made up: a script feeds them.

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
    waiting = _left(session, waiting, fatal)
    fed = {tensor: value for op in waiting for tensor, value in _made_up(op)}
    if fed:
        _left(session, waiting, fatal, fed)
    return [str(tensor.name) for tensor in fed]


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


def _left(
    session: Any, ops: List[Any], fatal: Any, fed: Optional[Mapping[Any, Any]] = None
) -> List[Any]:
    """The ops that fail, when all have been run as often as more of them succeed."""
    before: List[Any] = []
    while ops != before:
        before, ops = ops, [op for op in ops if not _runs(session, op, fatal, fed)]
    return ops


def _made_up(initializer: Any) -> Iterator[Tuple[Any, np.ndarray]]:
    """Small values for the placeholders that an initialiser reads, always the same for a name.

    A placeholder without a whole shape has its variable's.
    """
    variable = variable_op(initializer.inputs[0]) if initializer.inputs else None
    fed = [op.outputs[0] for op in ancestors([initializer], control=False) if op.type in FED]
    for tensor in fed if variable is not None else ():
        sizes, dtype = _sizes(tensor, variable), tensor.dtype.base_dtype
        if sizes is not None and (dtype.is_floating or dtype.is_integer):
            random = np.random.RandomState(zlib.crc32(tensor.name.encode()))
            drawn = _SPREAD * np.asarray(random.standard_normal(sizes))
            yield tensor, drawn.astype(dtype.as_numpy_dtype)


def _sizes(tensor: Any, variable: Any) -> Optional[List[int]]:
    """The shape of a tensor, or of the variable that starts from it; None if neither is whole."""
    of_variable = tf.TensorShape(variable.node_def.attr["shape"].shape)
    whole = [shape for shape in (tensor.shape, of_variable) if shape.is_fully_defined()]
    return list(whole[0].as_list()) if whole else None


def _runs(session: Any, ops: Any, fatal: Any, fed: Optional[Mapping[Any, Any]] = None) -> bool:
    try:
        session.run(ops, fed)
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
