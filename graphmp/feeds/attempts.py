"""Guesses of unknown dimensions, and the first that runs."""

from __future__ import annotations

import collections
from typing import Any, Counter, Iterable, Iterator, List, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.feeds.batches import Batches, random_batches
from graphmp.feeds.shapes import Guess, Shapes
from graphmp.feeds.wanted import Dimensions, Wanted, described, static_shape, wanted_tensors
from graphmp.graph.state.live import fills_table, is_initializer
from graphmp.graph.structure.view import GraphView, Port
from graphmp.tf_hooks.internals import prepare_run
from graphmp.wording import first_line

_MOST_COMMON = 2
_LARGEST_BATCH = 4096
_ONE, _PICTURES, _LARGE_PICTURES = 1, 64, 224
_USUAL_PICTURES = 28, 32, 84, 96, 128, 256, 299  # other usual sizes, the cheapest first
_A_QUARTER = 4  # as after two poolings
_MOST_NAMED = 6  # tensors in an error
# Ops whose first dimension is independent of their input's.
_TURN = frozenset(
    (
        "BatchMatMul",
        "BatchMatMulV2",
        "Conv2DBackpropFilter",
        "Gather",
        "GatherV2",
        "MatMul",
        "Shape",
        "Transpose",
        "UnsortedSegmentSum",
    )
)
# Errors of a wrong shape, the last within oneDNN; other errors don't depend on the shape.
_MAY_BE_A_SHAPE = (
    tf.errors.InvalidArgumentError,
    tf.errors.OutOfRangeError,
    ValueError,
    tf.errors.AbortedError,
)


def shape_attempts(
    graph: tf.Graph, view: GraphView, wanted: Sequence[Wanted], batch_size: int
) -> List[Guess]:
    """Guesses of the unknown dimensions, the likeliest first; only one if all are known."""
    default = Guess(batch_size)
    if all(tensor.shape is not None and None not in tensor.shape for tensor in wanted):
        return [default]
    leading = _most_common(
        [tensor.shape[0] for tensor in wanted if tensor.shape] + _insisted_on(graph, view, wanted)
    )
    second = _most_common(
        [tensor.shape[1] for tensor in wanted if tensor.shape and len(tensor.shape) > 1]
    )
    guesses = (
        [default] + [Guess(size) for size in leading] + [Guess(batch_size, size) for size in second]
    )
    guesses += [Guess(size, other) for size in leading for other in second]
    if sum(1 for tensor in wanted if None in (tensor.shape or ())[1:]) > 1:
        guesses += [
            Guess(batch_size, joined=True),
            Guess(batch_size, _PICTURES, joined=True),
            Guess(_ONE, _PICTURES, joined=True),
        ]
    guesses += [Guess(batch_size, batch_size), Guess(batch_size, flat=True)]
    guesses += [Guess(size, size) for size in leading] + [
        Guess(size, size, flat=True) for size in leading
    ]
    guesses += [
        Guess(batch_size, _PICTURES),
        Guess(_ONE),
        Guess(_ONE, _ONE),
        Guess(_PICTURES, _PICTURES),
        Guess(batch_size, _LARGE_PICTURES),
    ]
    if any(tensor.dtype.is_integer and len(tensor.shape or "?") == 1 for tensor in wanted):
        guesses += [
            Guess(batch_size, part=_A_QUARTER),  # these integers may be lengths of sequences
            Guess(_ONE, part=_A_QUARTER),
            Guess(_ONE, _PICTURES, part=_PICTURES),
        ]
    if any(tensor.shape is None or tensor.shape[1:].count(None) > 1 for tensor in wanted):
        guesses += [Guess(batch_size, size) for size in _USUAL_PICTURES]
    return list(collections.OrderedDict.fromkeys(guesses))


def random_attempts(
    graph: tf.Graph, view: GraphView, targets: Iterable[str], batch_size: int, seed: int
) -> Iterator[Batches]:
    """Random batches for each guess, made on demand."""
    targets = list(targets)
    for guess in shape_attempts(graph, view, wanted_tensors(graph, view, targets), batch_size):
        yield random_batches(graph, view, targets, batch_size, seed, guess)


def first_that_runs(session: tf.Session, fetches: Any, candidates: Iterable[Batches]) -> Batches:
    """The first candidate whose first batch runs.

    For some wrong shapes TensorFlow 1.15.5 ends the process instead of raising an error: a softmax
    loss with one column of labels and more of logits.

    Args:
        session: with everything initialised.
        fetches: the ops to run, with all their effects.
        candidates: batches, from `random_attempts`.

    Raises:
        GraphmpError: GMP024 with the first error if none runs; at once if the error can't be a
            shape's, and if TensorFlow can't run the graph whatever is fed.
    """
    tried, first, names = 0, None, []  # type: int, Optional[Exception], List[str]
    for batches in candidates:
        tried, batch = tried + 1, batches(0)
        names = names or list(batch)
        try:
            session.run(fetches, batch)
            return batches
        except _MAY_BE_A_SHAPE as error:
            unfit = None if first else _fault_of_graph(session, fetches, names)
            if unfit:
                raise _failed(session, unfit, 0, names) from error
            first = first or error
        except tf.errors.FailedPreconditionError as error:
            raise _uninitialised(session, error) or _failed(session, error, tried, names) from error
        except tf.errors.OpError as error:
            raise _failed(session, error, tried, names) from error
    raise _failed(session, first, tried, names) from first


def _fault_of_graph(
    session: tf.Session, fetches: Any, names: Sequence[str]
) -> Optional[tf.errors.OpError]:
    """TensorFlow's error for a graph that it can't run, whatever is fed: in the form of its loops.

    TensorFlow prepares the run, and computes nothing.
    """
    targets = [getattr(fetch, "op", fetch).name for fetch in tf.nest.flatten(fetches)]
    try:
        prepare_run(session, targets, names)
    except tf.errors.OpError as error:
        return error
    return None


def _uninitialised(session: tf.Session, error: tf.errors.OpError) -> Optional[GraphmpError]:
    """The error of an initialiser of what a node reads; None if all run."""
    node = getattr(error, "node_def", None)
    read = [] if node is None else session.graph.get_operation_by_name(node.name).inputs
    readers = [op for tensor in read for op in tensor.consumers()]
    for op in (op for op in readers if fills_table(op) or is_initializer(op)):
        try:
            session.run(op)
        except tf.errors.OpError as failure:
            words = "%s, which initialises what the step reads, fails: %s: %s"
            accepted = "; accepted is a graph whose initialisers run here"
            found = op.name, type(failure).__name__, first_line(failure)
            return GraphmpError("GMP024", words % found + accepted)
    return None


def _insisted_on(graph: tf.Graph, view: GraphView, wanted: Sequence[Wanted]) -> List[Optional[int]]:
    """First dimensions that the graph has as constants though its input leaves them open."""
    shapes = Shapes(graph, view)
    found: List[Optional[int]] = []
    for name in view.descendants([tensor.node for tensor in wanted], control=False):
        if view.nodes[name].op in _TURN or not graph.get_operation_by_name(name).outputs:
            continue
        result = shapes.of(Port(name, 0))
        open_ones = [
            shape for shape in map(shapes.of, view.inputs(name)) if shape and shape[0] is None
        ]
        if view.nodes[name].op == "Reshape" and open_ones and result and None not in result:
            found.append(_of_elements(result, open_ones[0][1:]))
        elif (
            result
            and result[0] is not None
            and any(len(shape) == len(result) for shape in open_ones)
        ):
            found.append(result[0])
    return found


def _of_elements(result: Dimensions, row: Dimensions) -> Optional[int]:
    """The first dimension of what is reshaped to `result`, by its other ones; None if open."""
    sizes, known = ([size for size in shape if size] for shape in (result, row))
    if len(sizes) < len(result) or len(known) < len(row):
        return None
    return int(np.prod(sizes, dtype=np.int64) // np.prod(known, dtype=np.int64))


def _most_common(sizes: Iterable[Optional[int]]) -> List[int]:
    counted: Counter[int] = collections.Counter(
        sorted(size for size in sizes if size is not None and 1 < size <= _LARGEST_BATCH)
    )
    return [size for size, _ in counted.most_common(_MOST_COMMON)]


def _failed(
    session: tf.Session, error: Optional[Exception], tried: int, names: Sequence[str]
) -> GraphmpError:
    node = getattr(error, "node_def", None)
    where = "" if node is None else "%s: " % node.name
    words = "%s: %s%s" % (type(error).__name__, where, first_line(error))
    if not tried:
        text = "TensorFlow can't run the graph, whatever is fed: %s; accepted is a graph that runs"
        return GraphmpError("GMP024", text % words)
    if not names:
        text = "no input of the graph is fed, and its step fails: %s; accepted is a graph that runs"
        return GraphmpError("GMP024", text % words)
    tensors = [session.graph.get_tensor_by_name(name) for name in names]
    fed = [
        "%s (%s)" % (each.name, described(each.dtype.base_dtype.name, static_shape(each)))
        for each in tensors[:_MOST_NAMED]
    ] + ["..."] * (len(tensors) > _MOST_NAMED)
    batches = "the graph runs with none of %d made-up batches; the first" % tried
    found = batches if tried > 1 else "the graph fails with a made-up batch"
    return GraphmpError("GMP024", "%s: %s; give %s with --data" % (found, words, ", ".join(fed)))
