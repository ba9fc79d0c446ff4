"""The definitions of a graph's ops, from the first source that has them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Union

import tensorflow.compat.v1 as tf

from graphmp.tf_hooks.internals import op_def

_OF_REGISTERED: Dict[str, Dict[str, Any]] = {}  # the defaults of op types, which don't change


def op_definitions(meta_graph: tf.MetaGraphDef) -> Callable[[str], Optional[Any]]:
    """A function that returns the OpDef of an op type; None for an unknown one.

    Sources are the graph's functions, the TensorFlow in the process, and the graph's own
    `stripped_op_list`. Nothing is registered.
    """
    stripped = {op.name: op for op in meta_graph.meta_info_def.stripped_op_list.op}
    functions = {f.signature.name: f.signature for f in meta_graph.graph_def.library.function}
    found: Dict[str, Optional[Any]] = {}

    def definition(op_type: str) -> Optional[Any]:
        if op_type not in found:
            found[op_type] = functions.get(op_type) or registered(op_type) or stripped.get(op_type)
        return found[op_type]

    return definition


def registered(op_type: str) -> Optional[Any]:
    """The OpDef of an op type registered in the process; None for any other."""
    try:
        return op_def(op_type)
    except KeyError:
        return None


def defaults(op: Union[str, Any]) -> Dict[str, Any]:
    """Defaults of a node's missing attributes, by op type or OpDef.

    None for unregistered op types.
    """
    if not isinstance(op, str):
        return _defaults(op)
    if op not in _OF_REGISTERED:
        definition = registered(op)
        if definition is None:  # it may be registered later
            return {}
        _OF_REGISTERED[op] = _defaults(definition)
    return _OF_REGISTERED[op]


def _defaults(definition: Any) -> Dict[str, Any]:
    return {a.name: a.default_value for a in definition.attr if a.HasField("default_value")}
