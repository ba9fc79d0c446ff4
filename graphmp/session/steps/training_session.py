"""A training graph in a session of its own: import, initialise, step, trace."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, List, Mapping, Optional, Tuple, Type, TypeVar

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.glass import guarded, open_glass, raise_memory_error
from graphmp.graph.io.older import imported
from graphmp.graph.shapes.shapes import records_shapes
from graphmp.process_memory import collector_paused
from graphmp.session.session_config import with_session_config
from graphmp.session.steps.initialising import initialise, restore
from graphmp.session.steps.limited import LimitedSession
from graphmp.tf_hooks.internals import load_graph, register_contrib
from graphmp.wording import first_line

Importer = Callable[[tf.MetaGraphDef], Any]
_T = TypeVar("_T", bound="TrainingSession")


def import_all(meta_graph: tf.MetaGraphDef) -> Any:
    """Import a graph with its collections into the default one, on any device.

    Return its Saver, or None.

    Raises:
        GraphmpError: GMP029 if TensorFlow refuses it.
        ValueError: if it refuses the graph with its recorded shapes, perhaps for them.
    """
    try:
        return tf.train.import_meta_graph(meta_graph, clear_devices=True)
    except Exception as error:  # TensorFlow raises errors of any type
        if isinstance(error, ValueError) and records_shapes(meta_graph.graph_def):
            raise
        raise not_imported(error) from None


def not_imported(error: Exception) -> GraphmpError:
    """The error for a graph that TensorFlow refuses."""
    text = "TensorFlow does not import the graph: %s: %s; accepted is a graph that it imports"
    return GraphmpError("GMP029", text % (type(error).__name__, first_line(error)))


def import_nodes(meta_graph: tf.MetaGraphDef) -> None:
    """Import the nodes of a graph into the default one, with their devices."""
    producer = (
        meta_graph.meta_info_def.stripped_op_list
        if meta_graph.meta_info_def.HasField("stripped_op_list")
        else None
    )
    tf.import_graph_def(_copy(meta_graph.graph_def), name="", producer_op_list=producer)


def _try_import(meta_graph: tf.MetaGraphDef) -> None:
    """Import a graph in a child first, if there is glass: GMP028 if TensorFlow crashes on it."""
    guarded(lambda: _imports(meta_graph), "importing the graph", meta_graph.graph_def)
    open_glass()


def _imports(meta_graph: tf.MetaGraphDef) -> None:
    try:
        load_graph(_copy(meta_graph.graph_def))
    except Exception as error:  # TensorFlow raises errors of any type: the import itself says it
        raise_memory_error(error)


class TrainingSession:
    """A graph that trains in a session, to be closed after use.

    Attributes:
        graph: the tf.Graph.
        session: the tf.Session.
        targets: ops of a step.
        made_up: placeholders of initial values that were made up; empty after a checkpoint.
    """

    def __init__(
        self,
        meta_graph: tf.MetaGraphDef,
        targets: Iterable[str],
        config: tf.ConfigProto,
        importer: Importer = import_all,
    ):
        """Import the graph; nothing is initialised yet.

        Recorded shapes are dropped if TensorFlow contradicts them.

        Args:
            meta_graph: the graph.
            targets: names of the ops of a step.
            config: options of the session, in addition to those for a converted graph.
            importer: imports a graph into the default one.

        Raises:
            Exception: errors of TensorFlow's import.
        """
        with _quiet():
            register_contrib(meta_graph.graph_def)
        _try_import(meta_graph)
        with collector_paused(), _quiet():
            try:
                self.graph, self._saver = _imported(importer, meta_graph)
            except ValueError:
                self.graph, self._saver = _imported(importer, _without_shapes(meta_graph))
        self.targets = self.ops(targets)
        self.made_up: List[str] = []
        self._config = with_session_config(config)
        self.session = LimitedSession(self.graph, self._config)

    def ops(self, names: Iterable[str]) -> List[Any]:
        """The graph's ops of these names."""
        return [self.graph.get_operation_by_name(name) for name in names]

    def initialise(
        self, initializers: Iterable[str], checkpoint: str = "", sparing: bool = False
    ) -> None:
        """Initialise variables and tables.

        Args:
            initializers: names of ops to run, besides those that `initialising` finds.
            checkpoint: prefix of a checkpoint with the variables' values; may be empty.
            sparing: whether memory is short, as for `initialising.initialise`.

        Raises:
            GraphmpError: GMP003 if the checkpoint can't be restored.
            tf.errors.ResourceExhaustedError: with `sparing`, if an initialiser runs out of memory.
        """
        self.made_up = initialise(self.session, self.ops(initializers), sparing)
        if checkpoint:
            restore(self.session, self._saver, checkpoint)
            self.made_up = []

    def reopen(self) -> None:
        """Close the session and open a new one: nothing is initialised, nothing was drawn."""
        self.session.close()
        self.session = LimitedSession(self.graph, self._config)

    def step(self, feeds: Mapping[str, Any]) -> None:
        """Trains one step."""
        self.session.run(self.targets, feeds)

    def traced(self, feeds: Mapping[str, Any]) -> tf.RunMetadata:
        """Train one step and return TensorFlow's trace of it."""
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        metadata = tf.RunMetadata()
        self.session.run(self.targets, feeds, options, metadata)
        return metadata

    def close(self) -> None:
        """Free the variables' memory."""
        self.session.close()

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def _imported(importer: Importer, meta_graph: tf.MetaGraphDef) -> Tuple[tf.Graph, Any]:
    def import_it(given: tf.MetaGraphDef) -> Tuple[tf.Graph, Any]:
        with tf.Graph().as_default() as graph:
            return graph, importer(given)

    return imported(import_it, meta_graph)


def _without_shapes(meta_graph: tf.MetaGraphDef) -> tf.MetaGraphDef:
    bare = tf.MetaGraphDef()
    bare.CopyFrom(meta_graph)
    for node in bare.graph_def.node:
        if "_output_shapes" in node.attr:
            del node.attr["_output_shapes"]
    return bare


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress TensorFlow's own messages: of deprecated calls, of collections that it skips."""
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.FATAL)
    try:
        yield
    finally:
        tf.logging.set_verbosity(verbosity)


def _copy(graph_def: tf.GraphDef) -> tf.GraphDef:
    """TensorFlow writes defaults into graphs that it imports."""
    copy = tf.GraphDef()
    copy.CopyFrom(graph_def)
    return copy
