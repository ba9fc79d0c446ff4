"""The registry of training programs: names, builders, feeds, training steps, and expectations."""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

NORM = 0.125  # the clip norm of programs that clip: less than any of their global norms
STEPS = 3
TINY = 2.0**-30  # the factor of losses whose gradients are to be too small for float16


class Program(NamedTuple):
    """One program.

    Attributes:
        build: builds the graph; its argument is a function of the list of all gradients, called
            before they are applied, which clips them or returns them unchanged.
        train: names of the ops that a step runs, in turn.
        scales: the expected number of loss scales.
        exceptions: groups of variables that a skipped step may write if they are finite, all of a
            group or none.
        put_back: variables that it may change and restore, up to rounding.
        clips: whether a clip by global norm makes sense where it calls that function.
        half: whether it has matmuls or convolutions in half precision.
    """

    build: Callable[[Callable[[Sequence[Any]], List[Any]]], Any]
    train: Tuple[str, ...]
    scales: int
    exceptions: Tuple[Tuple[str, ...], ...]
    put_back: Tuple[str, ...]
    clips: bool
    half: bool


class Call(NamedTuple):
    """One call of `tf.gradients`.

    Attributes:
        seeds: names of the tensors given as `grad_ys`.
        results: names of the returned tensors.
        ops: names of the ops that it added.
    """

    seeds: Tuple[str, ...]
    results: Tuple[str, ...]
    ops: FrozenSet[str]


class Built(NamedTuple):
    """A program's graph, a reference to its Python functions, and its calls of `tf.gradients`."""

    meta_graph: Any
    graph: Any
    calls: List[Call]


PROGRAMS: Dict[str, Program] = {}


def program(
    train: Sequence[str] = ("train",),
    scales: int = 1,
    exceptions: Sequence[str] = (),
    put_back: Sequence[str] = (),
    clips: bool = True,
    half: bool = True,
) -> Any:
    """Register a function that builds a program."""

    def register(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
        groups = tuple(tuple(group.split()) for group in exceptions)
        PROGRAMS[build.__name__] = Program(
            build, tuple(train), scales, groups, tuple(put_back), clips, half
        )
        return build

    return register


def built(name: str, use_resource: bool, form: str = "") -> Built:
    """A program's graph with reference or resource variables; each is built once.

    Args:
        name: the program.
        use_resource: whether its variables are resources.
        form: "clipped": gradients are clipped by tf.clip_by_global_norm; "tiny": losses are
            multiplied by TINY, and gradients divided by it.
    """
    return _built(name, use_resource, form)


@functools.lru_cache(maxsize=None)
def _built(name: str, use_resource: bool, form: str) -> Built:
    done = {"": list, "clipped": clip, "tiny": lambda gradients: [g / TINY for g in gradients]}[
        form
    ]
    with tf.Graph().as_default() as graph, recorded(graph) as calls, losses_times(
        TINY if form == "tiny" else 1.0
    ):
        tf.set_random_seed(1)
        with tf.variable_scope(tf.get_variable_scope(), use_resource=use_resource):
            PROGRAMS[name].build(lambda gradients: taken(done(gradients)))
        tf.global_variables_initializer()
        return Built(tf.train.export_meta_graph(), graph, calls)


def taken(gradients: Sequence[Any]) -> List[Any]:
    """The gradients, each of which waits for all: no update runs before a read of its variable."""
    return tf.tuple(list(gradients))


def clip(gradients: Sequence[Any]) -> List[Any]:
    """tf.clip_by_global_norm, which takes gradients of one dtype, for several dtypes."""
    if len({g.dtype for g in gradients}) == 1:
        return list(tf.clip_by_global_norm(list(gradients), NORM)[0])
    norm = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(tf.cast(g, tf.float64))) for g in gradients]))
    return [g * tf.cast(NORM / tf.maximum(norm, NORM), g.dtype) for g in gradients]


_FACTOR = [1.0]


@contextlib.contextmanager
def losses_times(factor: float) -> Iterator[None]:
    """Multiply the results of `error`."""
    _FACTOR[0] = factor
    try:
        yield
    finally:
        _FACTOR[0] = 1.0


@contextlib.contextmanager
def recorded(graph: Any) -> Iterator[List[Call]]:
    """Yield a list to which each call of `tf.gradients` in a graph is added.

    Calls by optimizers are included.
    """
    util = importlib.import_module("tensorflow.python.ops.gradients_util")
    helper, calls = util._GradientsHelper, []

    def recording(ys: Any, xs: Any, grad_ys: Any = None, *args: Any, **kwargs: Any) -> Any:
        before = {op.name for op in graph.get_operations()}
        found = helper(ys, xs, grad_ys, *args, **kwargs)
        if tf.get_default_graph() is graph:
            made = frozenset(op.name for op in graph.get_operations()) - before
            calls.append(Call(_names(grad_ys), _names(found), made))
        return found

    util._GradientsHelper = recording
    try:
        yield calls
    finally:
        util._GradientsHelper = helper


def _names(tensors: Any) -> Tuple[str, ...]:
    """Names of tensors; for sparse gradients, of their values."""
    listed = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    return tuple(getattr(t, "values", t).name for t in listed if t is not None)


RNG = np.random.RandomState(3)
BATCHES = [
    {
        "x": RNG.randn(8, 6).astype(np.float32),
        "y": RNG.randn(8, 1).astype(np.float32),
        "ids": np.array([[0, 1, 2, 2], [3, 1, 4, 0], [4, 4, 3, 2]][step] * 2),
        "rows": np.array([[0, 1, 2, 3], [3, 1, 4, 0], [4, 0, 3, 2]][step] * 2)[:4],
        "z": RNG.randn(8, 3).astype(np.float32),
    }
    for step in range(STEPS)
]


def data() -> Tuple[Any, Any]:
    """Placeholders of eight vectors of size six and of their targets."""
    return tf.placeholder(tf.float32, (8, 6), "x"), tf.placeholder(tf.float32, (8, 1), "y")


def weights(name: str, *shape: int, start: float = 0.5) -> Any:
    """A trained variable whose values are of the size of its updates."""
    return tf.get_variable(
        name,
        shape,
        initializer=tf.initializers.random_uniform(-start, start, seed=len(name) + sum(shape)),
    )


def error(prediction: Any, target: Any, name: str = "loss") -> Any:
    """The mean squared error of a prediction."""
    squares = tf.square(prediction - target)
    return (
        tf.reduce_mean(squares, name=name)
        if _FACTOR[0] == 1
        else tf.multiply(tf.reduce_mean(squares), _FACTOR[0], name=name)
    )


def net(x: Any, first: Any, second: Any) -> Any:
    return tf.matmul(tf.tanh(tf.matmul(x, first)), second)


def two_weights(prefix: str = "", width: int = 1) -> List[Any]:
    return [weights(prefix + "first", 6, 4), weights(prefix + "second", 4, width)]


def apply(
    gradients: Sequence[Any], variables: Sequence[Any], name: str = "train", rate: float = 0.25
) -> Any:
    return sgd(rate).apply_gradients(zip(gradients, variables), name=name)


def sgd(rate: float = 0.25) -> Any:
    return tf.train.GradientDescentOptimizer(rate)
