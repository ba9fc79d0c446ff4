"""The peak memory of a training step that runs: what TensorFlow's own trace says of its allocators."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.feeds.attempts import first_that_runs, random_attempts
from graphmp.feeds.batches import Batch
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView
from graphmp.inspect.training_step import find_training
from graphmp.session.session_config import with_session_config
from graphmp.session.step_stats import peak_bytes
from graphmp.wording import first_line

_REFUSALS = (
    tf.errors.OpError,
    ValueError,
    TypeError,
)  # what TensorFlow raises for a graph that it doesn't import or run


class Peak(NamedTuple):
    """The most bytes that a step allocated and had at one time, by allocator: all, and without the scratch memory of kernels."""

    allocated: Dict[str, int]
    tensors: Dict[str, int]


class Measured(NamedTuple):
    """The memory that a step took.

    Attributes:
        original: of the original graph; None where it doesn't run.
        converted: of the converted one; None where there is none, or it doesn't run.
        error: why one doesn't run.
    """

    original: Optional[Peak]
    converted: Optional[Peak]
    error: str


def measure(
    original: tf.MetaGraphDef,
    converted: Optional[tf.MetaGraphDef],
    config: Config,
    batch_size: int,
    seed: int = 0,
) -> Measured:
    """Runs a step of each graph on one batch of random data, ops one after the other, so that the peak is the same every time.

    Args:
        original: the graph.
        converted: its conversion, if there is one.
        config: names the training step, where it is not found by itself.
        batch_size: of dimensions that the graph leaves open.
        seed: of the data.
    """
    updates = sorted(find_training(original, config).updates)
    found: List[Optional[Peak]] = [None, None]
    batch: Optional[Batch] = None
    for place, graph in enumerate([original] if converted is None else [original, converted]):
        try:
            with _Runner(graph, updates) as runner:
                batch = runner.batch(batch_size, seed) if batch is None else batch
                trace = runner.traced(batch)
                found[place] = Peak(peak_bytes(trace), peak_bytes(trace, scratch=False))
        except _REFUSALS as error:
            return Measured(
                found[0],
                None,
                "the %s graph does not run here: %s"
                % (("original", "converted")[place], first_line(error)),
            )
        except GraphmpError as error:
            return Measured(None, None, error.message)
    return Measured(found[0], found[1], "")


class _Runner:
    """A session of one graph with its variables initialised, to be closed after use."""

    def __init__(self, meta_graph: tf.MetaGraphDef, updates: Iterable[str]):
        self._view = GraphView(meta_graph.graph_def)
        with tf.Graph().as_default() as self._graph:
            tf.train.import_meta_graph(meta_graph, clear_devices=True)
        config = with_session_config(tf.ConfigProto(inter_op_parallelism_threads=1))
        self._session = tf.Session(graph=self._graph, config=config)
        self._updates = [self._graph.get_operation_by_name(name) for name in updates]
        self._initialise(State(meta_graph, self._view).initializers)

    def _initialise(self, initializers: Iterable[str]) -> None:
        """Runs initialisers until no more of them run: one may read another variable."""
        waiting = [self._graph.get_operation_by_name(name) for name in sorted(initializers)]
        left = waiting + self._graph.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
        waiting = []
        while left != waiting:
            waiting = left
            left = [op for op in waiting if not self._runs(op)]

    def _runs(self, op: Any) -> bool:
        try:
            self._session.run(op)
        except tf.errors.OpError:
            return False
        return True

    def batch(self, batch_size: int, seed: int) -> Batch:
        """Random data that the step runs on; it is run with it. Raises GMP013 where there is none."""
        names = [op.name for op in self._updates]
        with self._graph.as_default():
            attempts = random_attempts(self._graph, self._view, names, batch_size, seed)
            return first_that_runs(self._session, self._updates, attempts)(0)

    def traced(self, batch: Batch) -> tf.RunMetadata:
        """The trace of a step, behind one that isn't traced."""
        options, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
        self._session.run(self._updates, batch)
        self._session.run(self._updates, batch, options=options, run_metadata=metadata)
        return metadata

    def __enter__(self) -> _Runner:
        return self

    def __exit__(self, *_: Any) -> None:
        self._session.close()
