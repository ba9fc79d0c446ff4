"""A training graph in a session of its own: initialised, stepped, traced."""

from __future__ import annotations

import gc
import time
from typing import Any, Dict, List, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from graphmp.graph.io.files import read_graph
from graphmp.graph.structure.view import GraphView
from graphmp.session.session_config import with_session_config

_ROUNDS = 4  # an initialiser may read another variable
_MEGABYTE = 1 << 20


class Training(NamedTuple):
    """A graph in a file, and how it trains.

    Attributes:
        path: of the MetaGraphDef.
        targets: nodes that a step runs.
        initializers: nodes that give variables and tables their first values.
    """

    path: str
    targets: List[str]
    initializers: List[str]


class TrainingSession:
    """A graph that is ready to train.

    Attributes:
        graph: the tf.Graph.
        view: what it was imported from.
        session: the tf.Session.
        targets: ops that a step runs.
    """

    def __init__(self, training: Training, gpu_memory: int = 0):
        """Imports and initialises it.

        Args:
            training: the graph.
            gpu_memory: bytes of a GPU that the process may take; 0 for all.

        Raises:
            Exception: what TensorFlow raises where it doesn't import the graph or has no memory.
        """
        meta_graph = read_graph(training.path)
        self.view = GraphView(meta_graph.graph_def)
        self.graph = tf.Graph()
        with self.graph.as_default():
            _import(meta_graph)
        self.targets = [self.graph.get_operation_by_name(name) for name in training.targets]
        self.session = tf.Session(graph=self.graph, config=_config(gpu_memory))
        self._initialise([self.graph.get_operation_by_name(name) for name in training.initializers])

    def _initialise(self, waiting: List[Any]) -> None:
        for _ in range(_ROUNDS):
            waiting = [op for op in waiting if not self._runs(op)]

    def _runs(self, op: Any) -> bool:
        try:
            self.session.run(op)
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError:
            return False
        return True

    def step(self, feeds: Dict[str, Any]) -> None:
        """Trains one step."""
        self.session.run(self.targets, feeds)

    def timed(self, batches: Sequence[Dict[str, Any]], count: int) -> List[float]:
        """Seconds of each of some steps, the batches in turn; Python collects no garbage meanwhile."""
        found = []
        gc.collect()
        gc.disable()
        try:
            for number in range(count):
                feeds = batches[number % len(batches)]
                start = time.perf_counter()
                self.step(feeds)
                found.append(time.perf_counter() - start)
        finally:
            gc.enable()
        return found

    def traced(self, feeds: Dict[str, Any]) -> tf.RunMetadata:
        """TensorFlow's own record of a step."""
        metadata = tf.RunMetadata()
        self.session.run(
            self.targets, feeds, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata
        )
        return metadata

    def close(self) -> None:
        """Gives the variables' memory back."""
        self.session.close()


def _import(meta_graph: tf.MetaGraphDef) -> None:
    """Imports by names alone; without the recorded shapes where TensorFlow contradicts them."""
    producer = (
        meta_graph.meta_info_def.stripped_op_list
        if meta_graph.meta_info_def.HasField("stripped_op_list")
        else None
    )
    try:
        tf.import_graph_def(_copy(meta_graph.graph_def), name="", producer_op_list=producer)
    except ValueError:
        bare = _copy(meta_graph.graph_def)
        for node in bare.node:
            if "_output_shapes" in node.attr:
                del node.attr["_output_shapes"]
        tf.import_graph_def(bare, name="", producer_op_list=producer)


def _copy(graph_def: tf.GraphDef) -> tf.GraphDef:
    """TensorFlow writes defaults into what it imports."""
    copy = tf.GraphDef()
    copy.CopyFrom(graph_def)
    return copy


def _config(gpu_memory: int) -> tf.ConfigProto:
    """As `graphmp.session_config()`; a device that isn't there is replaced, and a GPU's memory is taken as it is needed."""
    config = with_session_config(tf.ConfigProto(allow_soft_placement=True))
    config.gpu_options.allow_growth = True
    if gpu_memory:
        config.gpu_options.experimental.virtual_devices.add(
            memory_limit_mb=[max(1, gpu_memory // _MEGABYTE)]
        )
    return config
