"""Pins: units whose dtype must stay what it is, each with its reason.

Rules, in order; the first that holds is the reason.

1. Loss scaling, which is in the graph already. A reference or a resource is read: the dtype is the variable's.
2. Statistics of a batch normalisation (`U`).
3. The op takes no half precision, or has no kernel of it; a TensorArray's flow.
4. What is fetched: signatures, --fetch, definitions of variables, and in collections the outputs of the model.
5. --keep_float32.
6. A cast of the model's own, but for one from bool, uint8 or int8, which half precision holds exactly.
7. Look-ups in a variable: the rows are cast, not the table, unless the rows are known to be the larger by far.
8. Update math: what depends on gradients outside gradient code (clips, norms, averages, optimizers).
"""

from __future__ import annotations

import re
from typing import AbstractSet, Any, Dict, Iterator, List, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.shapes.shapes import recorded_size
from graphmp.graph.state.state import definitions, variable_behind
from graphmp.graph.structure.view import Port, parse_input
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import BY_NAME, RESOURCE
from graphmp.policy.policy import Policy
from graphmp.policy.traits import (
    EXACT_INTEGERS,
    HANDLE_OPS,
    LOOK_UPS,
    PASSES_ON,
    WIDER_STATISTICS,
    without_kernel,
)
from graphmp.rewrite.units import FIXED, TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs

FETCHED = "fetched: keeps its dtype"
_SMALL_TABLE = 8  # a table of which a look-up gives so many times its size may be cast itself


def pin(
    graph: TypedGraph,
    op_defs: OpDefs,
    config: Config,
    policy: Policy,
    fetched: Dict[str, str],
    gradients: AbstractSet[str],
) -> Dict[int, str]:
    """Pinned units and why.

    Args:
        graph: the graph body.
        op_defs: definitions of its ops.
        config: compute dtype and the user's rules.
        policy: its allow list ends update math.
        fetched: nodes that keep their dtype because someone may fetch them, and why.
        gradients: names of the nodes of gradient code.
    """
    pins: Dict[int, str] = {}
    updates = update_math(graph, gradients, policy.allow)
    keep = [re.compile(pattern) for pattern in config.keep_float32 + policy.keep_float32]
    flow = _flow(graph)
    for number, unit in enumerate(graph.units):
        reason = (
            _own(unit.node)
            or _variable(graph, unit.node)
            or (
                "statistics: a normalisation keeps its mean and variance in float32"
                if unit.attribute == "U" and graph.node(number).op in WIDER_STATISTICS
                else ""
            )
            or unsupported(graph, number, op_defs, config.compute_dtype)
            or ("flow: orders the operations on a TensorArray" if unit.node in flow else "")
            or fetched.get(unit.node, "")
            or next(
                ("user rule: --keep_float32=%s" % p.pattern for p in keep if p.search(unit.node)),
                "",
            )
            or _own_cast(graph, number)
            or _look_up(graph, unit.node)
            or ("update math: computes in float32 on gradients" if unit.node in updates else "")
        )
        if reason:
            pins[number] = reason
    return pins


def unsupported(graph: TypedGraph, number: int, op_defs: OpDefs, compute_dtype: str) -> str:
    """Why a unit can't be half whatever anyone asks; empty where it can."""
    unit, op = graph.units[number], graph.node(number).op
    if not op_defs.allows(op, unit.attribute, BY_NAME[compute_dtype]):
        return "no kernel: %s takes no %s" % (op, compute_dtype)
    if op in without_kernel(compute_dtype):
        return "no kernel: %s has none of %s on every device" % (op, compute_dtype)
    return ""


def update_math(
    graph: TypedGraph, gradients: AbstractSet[str], allow: AbstractSet[str]
) -> AbstractSet[str]:
    """Nodes outside gradient code that depend on it by data, up to the next matmul or convolution and what reads one."""
    nodes = graph.view.nodes
    seen: Set[str] = set()
    waiting = list(gradients)
    while waiting:
        for consumer in graph.view.consumers(waiting.pop()):
            name = consumer.node
            if name in seen or name in gradients or nodes[name].op in allow:
                continue
            if not any(
                nodes[port.node].op in allow and port.node not in gradients
                for port in graph.view.inputs(name)
            ):
                seen.add(name)
                waiting.append(name)
    return seen


def fetched_nodes(
    meta_graph: tf.MetaGraphDef, config: Config, nodes: AbstractSet[str], outputs: AbstractSet[str]
) -> Dict[str, str]:
    """Nodes that keep their dtype because a signature, a flag, a variable's definition or a collection names them.

    Args:
        meta_graph: where signatures and collections are.
        config: its `fetch`.
        nodes: the graph's node names.
        outputs: nodes behind the last matmul or convolution. A collection may name every layer's activation (tf-slim's
            end points do); of such a list only the model's outputs keep their dtype.

    Raises:
        LookupError: for a --fetch that names no node; its argument is the name.
    """
    found: Dict[str, str] = {}
    for name in config.fetch:
        node = parse_input(name.lstrip("^")).node
        if node not in nodes:
            raise LookupError(name)
        found[node] = "user rule: --fetch=%s" % name
    for key in sorted(meta_graph.signature_def):
        for info in [
            *meta_graph.signature_def[key].inputs.values(),
            *meta_graph.signature_def[key].outputs.values(),
        ]:
            for name in _tensor_names(info):
                found.setdefault(parse_input(name).node, "%s (signature %s)" % (FETCHED, key))
    for key, listed in sorted(_collected(meta_graph)):
        for name in listed:
            node = parse_input(name).node
            if node in outputs:
                found.setdefault(node, "%s (collection %s)" % (FETCHED, key))
    for key, listed in sorted(_defined(meta_graph)):
        for name in listed:
            found.setdefault(
                parse_input(name).node, "variable: named by its definition (collection %s)" % key
            )
    return found


def _tensor_names(info: Any) -> List[str]:
    if info.WhichOneof("encoding") == "coo_sparse":
        sparse = info.coo_sparse
        return [
            sparse.values_tensor_name,
            sparse.indices_tensor_name,
            sparse.dense_shape_tensor_name,
        ]
    return [info.name] if info.name else []


def _collected(meta_graph: tf.MetaGraphDef) -> Iterator[Tuple[str, List[str]]]:
    for key, collection in meta_graph.collection_def.items():
        if collection.WhichOneof("kind") == "node_list":
            yield key, list(collection.node_list.value)


def _defined(meta_graph: tf.MetaGraphDef) -> Iterator[Tuple[str, List[str]]]:
    """Names in collections of variables: their reads and initial values."""
    for key in (key for key in meta_graph.collection_def if "variables" in key):
        for definition in definitions(meta_graph, key):
            yield (
                key,
                [
                    name
                    for name in (definition.snapshot_name, definition.initial_value_name)
                    if name
                ],
            )


def _own(name: str) -> str:
    return "loss scale: computes in float32" if name.startswith(SCOPE + "/") else ""


def _variable(graph: TypedGraph, name: str) -> str:
    """Why a node that reads a variable's reference or resource keeps its dtype."""
    signature = graph.signature(name)
    op = graph.view.nodes[name].op
    for slot, port in enumerate(graph.view.inputs(name)):
        producer = graph.signature(port.node)
        is_ref = (
            producer is not None
            and port.output < len(producer.outputs)
            and producer.outputs[port.output].is_ref
        )
        if op not in HANDLE_OPS and (
            is_ref or (signature is not None and signature.inputs[slot].is_ref)
        ):
            return "variable: reads %s" % port.node
        if (
            signature is not None
            and signature.inputs[slot].dtype == RESOURCE
            and op not in HANDLE_OPS
            and op not in PASSES_ON
        ):
            return "resource: read from %s" % port.node
    return ""


def _flow(graph: TypedGraph) -> AbstractSet[str]:
    """Nodes that carry a TensorArray's flow, the float that orders its operations."""
    seen = set()
    waiting = [n for n, node in graph.view.nodes.items() if node.op.startswith("TensorArray")]
    while waiting:
        name = waiting.pop()
        op = graph.view.nodes[name].op
        for consumer in graph.view.consumers(name):
            follows = consumer.node not in seen and graph.view.nodes[consumer.node].op in PASSES_ON
            if follows and (op in PASSES_ON or _is_flow(graph, Port(name, consumer.output))):
                seen.add(consumer.node)
                waiting.append(consumer.node)
    return seen


def _is_flow(graph: TypedGraph, port: Port) -> bool:
    """Whether an output of a TensorArray op is its flow: a float that follows no attribute."""
    return graph.writer(port) == FIXED


def _own_cast(graph: TypedGraph, number: int) -> str:
    unit = graph.units[number]
    node = graph.node(number)
    if node.op not in ("Cast", "Bitcast"):
        return ""
    exact = (
        unit.attribute == "DstT"
        and "SrcT" in node.attr
        and node.attr["SrcT"].type in EXACT_INTEGERS
    )
    return "" if exact else "own cast: the model casts here itself"


def _look_up(graph: TypedGraph, name: str) -> str:
    if graph.view.nodes[name].op not in LOOK_UPS or not graph.view.inputs(name):
        return ""
    table = graph.view.inputs(name)[0]
    variable = variable_behind(graph.view, table.node)
    size, given = (
        recorded_size(graph.view.nodes[table.node], table.output),
        recorded_size(graph.view.nodes[name], 0),
    )
    small = size is not None and given is not None and size * _SMALL_TABLE <= given
    return (
        "look-up: the rows of %s are cast, not the table" % variable
        if variable and not small
        else ""
    )
