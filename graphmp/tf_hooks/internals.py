"""All of TensorFlow's private modules that graphmp needs.

They are imported by name, so that everything else imports TensorFlow only as
`tensorflow.compat.v1`. Each exists with these names in 1.15.5, 2.15.1 and 2.21.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from types import ModuleType
from typing import Any, Iterable, Iterator, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.io.older import imported

_BUILDING = threading.RLock()


def gradients_util() -> ModuleType:
    """Holds `_GradientsHelper`, used by every symbolic gradient, and `_AggregatedGrads`."""
    return importlib.import_module("tensorflow.python.ops.gradients_util")


def framework_ops() -> ModuleType:
    """Holds `_get_graph_from_inputs` and the registry of collections."""
    return importlib.import_module("tensorflow.python.framework.ops")


def op_creation() -> Tuple[Any, int]:
    """The owner of `_apply_op_helper`, and the number of arguments before the op type.

    A method of OpDefLibrary in 1.15.5; a function of the module in 2.15 and 2.21.
    """
    module = importlib.import_module("tensorflow.python.framework.op_def_library")
    owner = getattr(module, "OpDefLibrary", None)
    return (module, 0) if owner is None or hasattr(module, "_apply_op_helper") else (owner, 1)


def meta_graphs() -> ModuleType:
    """Holds `export_scoped_meta_graph`, by which every Saver and builder makes a MetaGraphDef."""
    return importlib.import_module("tensorflow.python.framework.meta_graph")


def collection_message(key: str) -> Any:
    """The class of a collection's serialized messages; None for names or plain values."""
    return framework_ops().get_collection_proto_type(key)


def whole_graph_def(graph: Any, add_shapes: bool = False) -> tf.GraphDef:
    """A tf.Graph's GraphDef, with what conversions in sessions added, which scripts don't see."""
    graph_def: tf.GraphDef = graph._as_graph_def(add_shapes=add_shapes)[0]
    return graph_def


def random_seed() -> ModuleType:
    """Holds `get_seed`, which every random op calls for its seeds."""
    return importlib.import_module("tensorflow.python.framework.random_seed")


def counts_ops_for_seeds() -> bool:
    """Whether default seeds count the ops before (1.15.5), not the calls (2.15.1, 2.21)."""
    return not hasattr(random_seed(), "_graph_to_seed_dict")


def op_count(graph: Any) -> int:
    """The number of ops in a graph if seeds depend on it; else 0."""
    return graph._last_id if counts_ops_for_seeds() else 0


def awaited(graph: Any) -> Tuple[Any, ...]:
    """The ops that the next op waits for: those of `tf.control_dependencies` around it."""
    return tuple(op for op in graph._current_control_dependencies() if hasattr(op, "inputs"))


def base_session() -> Any:
    """`BaseSession`: the base class of tf.Session and tf.InteractiveSession."""
    return tf.Session.__mro__[1]


def config_of(session: Any) -> Any:
    """The ConfigProto that a session was made with; None if it was made without."""
    return getattr(session, "_config", None)


def run_options(buffer: Any) -> tf.RunOptions:
    """The options of a run, from the buffer that `_do_run` receives; None is a default."""
    if buffer is None:
        return tf.RunOptions()
    session = importlib.import_module("tensorflow.python.client.session")
    return tf.RunOptions.FromString(session.tf_session.TF_GetBuffer(buffer))


def variable_class() -> Any:
    """The base class of all variables: of compat.v1's tf.Variable and of resource variables."""
    return tf.Variable.__mro__[1]


def init_scope() -> Any:
    """`init_scope`, which lifts ops out of control flow and control dependencies.

    1.15.5's compat.v1 doesn't have it under one name.
    """
    return framework_ops().init_scope()


def op_def(op_type: str) -> Any:
    """The OpDef of a registered op, or of one in a loaded library."""
    registry = importlib.import_module("tensorflow.python.framework.op_def_registry")
    return (
        registry.get(op_type)
        if hasattr(registry, "get")
        else registry.get_registered_ops()[op_type]
    )


def is_op(op_type: str) -> bool:
    """Whether an op of this name is registered."""
    try:
        return op_def(op_type) is not None
    except KeyError:
        return False


def register_contrib(graph_def: tf.GraphDef) -> None:
    """Load 1.15.5's tf.contrib if a node's op is unknown: it registers its ops when it is used."""
    if tf.__version__ < "2" and not all(is_op(op) for op in {node.op for node in graph_def.node}):
        dir(importlib.import_module("tensorflow.contrib"))  # the module loads what is asked of it


def load_graph(graph_def: tf.GraphDef) -> None:
    """Import a graph like `tf.import_graph_def`, without a Python object for each op.

    Importing 20,000 nodes on 2.21 takes 0.3 s, not 1.2 s.

    Raises:
        Exception: errors of the importer: ValueError or an error of tf.errors.
    """
    imported(_load_graph, graph_def)


def _load_graph(graph_def: tf.GraphDef) -> None:
    util = importlib.import_module("tensorflow.python.framework.c_api_util")
    options = util.ScopedTFImportGraphDefOptions()
    owner = tf.Graph()  # kept: 1.15.5's handle is deleted with it
    graph = owner._c_graph  # in 1.15.5 the handle itself, in 2.x a provider of it
    with util.tf_buffer(graph_def.SerializeToString()) as data:
        if hasattr(graph, "get"):
            with graph.get() as handle:
                util.c_api.TF_GraphImportGraphDefWithResults(handle, data, options.options)
        else:
            util.c_api.TF_GraphImportGraphDefWithResults(graph, data, options.options)


def prepare_run(session: tf.Session, targets: Iterable[str], feeds: Iterable[str]) -> None:
    """Let a session make its executors for ops and fed tensors; nothing runs.

    Raises:
        tf.errors.OpError: if TensorFlow can't run the graph, for the form of its loops for example.
    """
    proto = importlib.import_module("tensorflow.core.protobuf.config_pb2")
    options = proto.CallableOptions(target=list(targets), feed=list(feeds))
    session._make_callable_from_options(options)


def accepts(op_type: str, dtype: Any) -> bool:
    """Whether an op's main type attribute, T, may be `dtype`; True for ops without one.

    GRUBlockCell accepts only float32 (1.15.5, 2.21).
    """
    allowed = [
        attribute.allowed_values.list.type
        for attribute in op_def(op_type).attr
        if attribute.name == "T"
    ]
    return not allowed or not allowed[0] or tf.as_dtype(dtype).as_datatype_enum in allowed[0]


def place(op: Any, device: str) -> None:
    """Put an op of a graph on a device; an empty device changes nothing."""
    if device:
        op._set_device(device)


def in_loop(graph: Any) -> bool:
    """Whether the next op is made in a `tf.while_loop` of TensorFlow 1's kind."""
    context = graph._get_control_flow_context()
    return context is not None and context.GetWhileContext() is not None


@contextlib.contextmanager
def outside(graph: Any) -> Iterator[None]:
    """Add nodes to a graph, even a finalised one, outside of the caller's scopes.

    Name scopes, devices and control dependencies don't apply. The threads of a script, whose runs
    add nodes, do so one at a time: they share the graph's scopes.
    """
    with _BUILDING, opened(graph), graph.as_default(), tf.control_dependencies(None), tf.device(
        None
    ), graph.name_scope(None):
        yield


@contextlib.contextmanager
def waiting_as(op: Any) -> Iterator[None]:
    """Ops that are made of an op here have control inputs only where it has the same.

    They are in the conditional or loop around them.
    """
    graph = tf.get_default_graph()
    if not graph._control_dependencies_for_inputs([op]):
        yield
        return
    context = graph._get_control_flow_context()
    with tf.control_dependencies(None):
        graph._set_control_flow_context(context)
        yield


@contextlib.contextmanager
def opened(graph: Any) -> Iterator[None]:
    """Let a finalised graph (MonitoredSession) grow inside the context."""
    finalised = graph.finalized
    if finalised:
        graph._unsafe_unfinalize()
    try:
        yield
    finally:
        if finalised:
            graph.finalize()
