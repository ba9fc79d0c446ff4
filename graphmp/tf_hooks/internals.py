"""TensorFlow's private modules that graphmp needs, all in one table.

They are imported by name, so that everything else imports TensorFlow as `tensorflow.compat.v1` alone.
Each was seen with these names in 1.15.5, 2.15.1 and 2.21.
"""

from __future__ import annotations

import contextlib
import importlib
from types import ModuleType
from typing import Any, Iterator, Tuple

import tensorflow.compat.v1 as tf


def gradients_util() -> ModuleType:
    """Holds `_GradientsHelper`, which every symbolic gradient goes through, and `_AggregatedGrads`."""
    return importlib.import_module("tensorflow.python.ops.gradients_util")


def framework_ops() -> ModuleType:
    """Holds `_get_graph_from_inputs` and the registry of collections."""
    return importlib.import_module("tensorflow.python.framework.ops")


def op_creation() -> Tuple[Any, int]:
    """Where `_apply_op_helper` lives, and how many leading arguments come before the op type.

    A method of OpDefLibrary in 1.15.5; a function of the module in 2.15 and 2.21.
    """
    module = importlib.import_module("tensorflow.python.framework.op_def_library")
    owner = getattr(module, "OpDefLibrary", None)
    return (module, 0) if owner is None or hasattr(module, "_apply_op_helper") else (owner, 1)


def collection_message(key: str) -> Any:
    """The class of the messages that a collection is serialized to; None for one of names or plain values."""
    return framework_ops().get_collection_proto_type(key)


def random_seed() -> ModuleType:
    """Holds `get_seed`, which every random op asks for its seeds."""
    return importlib.import_module("tensorflow.python.framework.random_seed")


def counts_ops_for_seeds() -> bool:
    """Whether the seed of an op without one comes from the number of ops before it (1.15.5), not of calls (2.15.1, 2.21)."""
    return not hasattr(random_seed(), "_graph_to_seed_dict")


def op_count(graph: Any) -> int:
    """How many ops a graph has, where seeds come from that; else 0."""
    return graph._last_id if counts_ops_for_seeds() else 0


def base_session() -> Any:
    """`BaseSession`: tf.Session and tf.InteractiveSession are made of it."""
    return tf.Session.__mro__[1]


def variable_class() -> Any:
    """The base class of all variables: tf.Variable of compat.v1 is derived from it, and so are resource variables."""
    return tf.Variable.__mro__[1]


def init_scope() -> Any:
    """`init_scope`: lifts ops out of control flow and control dependencies. Not in 1.15.5's compat.v1 under one name."""
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


def load_graph(graph_def: tf.GraphDef) -> None:
    """Has TensorFlow import a graph as `tf.import_graph_def` does, without a Python object for each op (1.2 s for 20,000 nodes on 2.21, 0.3 s so).

    Raises:
        Exception: what the importer raises: ValueError or an error of tf.errors.
    """
    util = importlib.import_module("tensorflow.python.framework.c_api_util")
    options = util.ScopedTFImportGraphDefOptions()
    owner = tf.Graph()  # kept: 1.15.5's handle dies with it
    graph = owner._c_graph  # in 1.15.5 the handle itself, in 2.x what lends it
    with util.tf_buffer(graph_def.SerializeToString()) as data:
        if hasattr(graph, "get"):
            with graph.get() as handle:
                util.c_api.TF_GraphImportGraphDefWithResults(handle, data, options.options)
        else:
            util.c_api.TF_GraphImportGraphDefWithResults(graph, data, options.options)


def accepts(op_type: str, dtype: Any) -> bool:
    """Whether an op's main type attribute, T, may be `dtype`; True for ops without one. GRUBlockCell takes float32 alone (1.15.5, 2.21)."""
    allowed = [
        attribute.allowed_values.list.type
        for attribute in op_def(op_type).attr
        if attribute.name == "T"
    ]
    return not allowed or not allowed[0] or tf.as_dtype(dtype).as_datatype_enum in allowed[0]


def place(op: Any, device: str) -> None:
    """Puts an op of a graph on a device; it stays where it is for an empty one."""
    if device:
        op._set_device(device)


@contextlib.contextmanager
def outside(graph: Any) -> Iterator[None]:
    """Adds nodes to a graph outside of the caller's scopes, devices and control dependencies, to a finalised one too."""
    with opened(graph), graph.as_default(), tf.control_dependencies(None), tf.device(
        None
    ), graph.name_scope(None):
        yield


@contextlib.contextmanager
def opened(graph: Any) -> Iterator[None]:
    """Lets a finalised graph (MonitoredSession) grow while it lasts."""
    finalised = graph.finalized
    if finalised:
        graph._unsafe_unfinalize()
    try:
        yield
    finally:
        if finalised:
            graph.finalize()
