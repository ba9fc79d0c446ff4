"""The final check: the result must be a valid graph, and load wherever the original does."""

from __future__ import annotations

import gc
import re
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.glass import guarded, raise_memory_error
from graphmp.graph.io.stored import Readable, StoredMetaGraph, copied, stored
from graphmp.graph.structure.view import GraphView
from graphmp.policy.dtypes import INVALID
from graphmp.rewrite.graph_parts import parts
from graphmp.tf_hooks.internals import load_graph
from graphmp.tf_hooks.op_defs import OpDefs

_STALE = re.compile(r"Node '([^']+)' has an _output_shapes attribute inconsistent")
_MOST_STALE = 20
MOST_AT_ONCE = 5000  # nodes that TensorFlow imports at once


def check_types(view: GraphView, op_defs: OpDefs) -> None:
    """Check that names are unique, inputs exist, and dtypes agree at both ends of every edge.

    Raises:
        GraphmpError: GMP021, naming the node.
    """
    signatures = {name: op_defs.signature(node) for name, node in view.nodes.items()}
    for name, reads in signatures.items():
        if reads is None or len(reads.inputs) != len(view.inputs(name)):
            continue
        for slot, port in enumerate(view.inputs(name)):
            writes = signatures[port.node]
            if writes is None or port.output >= len(writes.outputs):
                continue
            found, expected = writes.outputs[port.output].dtype, reads.inputs[slot].dtype
            if found != expected and INVALID not in (found, expected):
                text = "node %s reads %s as %s, which is %s"
                raise GraphmpError(
                    "GMP021",
                    text % (name, port, tf.as_dtype(expected).name, tf.as_dtype(found).name),
                )


def loaded(original: Readable, converted: Readable) -> StoredMetaGraph:
    """The result without stale `_output_shapes`.

    TensorFlow imports it wherever it imports the original.

    A large graph is imported in parts; as a whole only if that fails.

    Raises:
        GraphmpError: GMP021, with TensorFlow's words.
    """
    converted = stored(converted)
    if len(converted.graph_def.node) > MOST_AT_ONCE and _parts_load(converted):
        return converted
    graph = converted.parsed()
    for dropped in range(_MOST_STALE):
        problem = _import_error(graph.graph_def)
        if problem is None:
            return stored(graph) if dropped else converted
        stale = _STALE.search(problem)
        if not stale or not _drop_shapes(graph.graph_def, stale.group(1)):
            break
    bare = copied(original).graph_def
    for node in bare.node:
        node.attr.pop("_output_shapes", None)
    if _import_error(bare) is None:
        raise GraphmpError(
            "GMP021", "TensorFlow loads the original and not the converted graph: %s" % problem
        )
    return stored(graph)


def _parts_load(meta_graph: StoredMetaGraph) -> bool:
    def load() -> bool:
        made = parts(meta_graph.graph_def, OpDefs(meta_graph), MOST_AT_ONCE)
        try:
            return all(_imported(part) is None for part in made)
        except LookupError:
            return False

    return bool(guarded(load, "importing the graph", meta_graph.graph_def))


def _import_error(graph_def: tf.GraphDef) -> Optional[str]:
    return guarded(lambda: _imported(graph_def), "importing the graph", graph_def)


def _imported(graph_def: tf.GraphDef) -> Optional[str]:
    try:
        load_graph(graph_def)
    except Exception as error:  # TensorFlow raises errors of any type here
        raise_memory_error(error)
        return " ".join(str(error).split())[:300]
    finally:
        gc.collect(0)  # TensorFlow's graphs refer to themselves
    return None


def _drop_shapes(graph_def: tf.GraphDef, name: str) -> bool:
    """Remove `_output_shapes` from all nodes with a node's op; return whether there were any."""
    ops = {node.op for node in graph_def.node if node.name == name}
    found: Any = [
        node for node in graph_def.node if node.op in ops and "_output_shapes" in node.attr
    ]
    for node in found:
        del node.attr["_output_shapes"]
    return bool(found)
