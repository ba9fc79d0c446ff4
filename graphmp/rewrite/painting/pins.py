"""Pins: units whose dtype must not change, with reasons.

Rules in order; the first that applies is the reason.

1. Inserted loss scaling. Reads of references and resources: the dtype is the variable's; so is that
   of nodes that hand on its memory to what reads it after a write.
2. Statistics of a batch normalisation (`U`).
3. The op doesn't support half precision, has no kernel for it, or one that fails for the node's
   shapes; a division by a constant in bfloat16 on TensorFlow 1.15, of which its optimizer of graphs
   makes a Reciprocal, for which there is no kernel; an op that would take a TensorArray with it to
   XLA_CPU:0 there; the flow of a TensorArray.
4. Fetched nodes: signatures, --fetch, definitions of variables, and outputs of the model in
   collections.
5. --keep_float32.
6. A cast of the model's own, except from bool, uint8 or int8, which half precision holds exactly.
7. Look-ups in a variable: the rows are cast, not the table, unless the rows are known to be far
   larger.
8. Update math: descendants of gradients outside gradient code (clips, norms, averages, optimizers).
9. Values that go from a variable to a write, element by element (`graph/state/carried.py`): weights
   to which a network's result is added, also where a matmul reads them.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterator, List, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.shapes.shapes import recorded_dimensions, recorded_size
from graphmp.graph.state.state import definitions, variable_behind
from graphmp.graph.structure.reciprocals import NO_RECIPROCAL, becomes_reciprocal, in_body
from graphmp.graph.structure.view import Port, parse_input
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import BY_NAME, RESOURCE
from graphmp.policy.half_kernels import DEVICES, has_kernel, types_of
from graphmp.policy.layout import Dimensions, channels_last, data_format
from graphmp.policy.op_sets import ASSIGNS, UPDATE_PREFIXES
from graphmp.policy.policy import Policy
from graphmp.policy.reason import (
    FETCHED,
    FLOW,
    LOOK_UP,
    LOSS_SCALE,
    NO_KERNEL,
    OWN_CAST,
    READS_RESOURCE,
    STATISTICS,
    UPDATE,
    VARIABLE,
    Reason,
    user_rule,
)
from graphmp.policy.shape_faults import fault, faults
from graphmp.policy.traits import (
    EXACT_INTEGERS,
    HANDLE_OPS,
    LOOK_UPS,
    PASSES_ON,
    WIDER_STATISTICS,
    without_kernel,
)
from graphmp.rewrite.units import FIXED, TypedGraph, matched
from graphmp.tf_hooks.op_defs import OpDefs, refuse_missing_output

_FLOW = Reason(FLOW, "orders the operations on a TensorArray")
_OWN = Reason(LOSS_SCALE, "computes in float32")
_OWN_CAST = Reason(OWN_CAST, "the model casts here itself")
_MEMORY = Reason(VARIABLE, "hands on a variable that is written before it is read")
_CARRIED = Reason(VARIABLE, "hands the value of a variable on to a write")
_STATISTICS = Reason(STATISTICS, "a normalisation keeps its mean and variance in float32")
_UPDATE = Reason(UPDATE, "computes in float32 on gradients")
_MOVED = Reason(
    NO_KERNEL,
    "TensorFlow 1.15 has its bfloat16 kernel on XLA_CPU:0 alone, and puts a TensorArray beside it,"
    " which that device can't hold",
)
_SMALL_TABLE = 8  # a table may be cast itself if a look-up's result is this many times larger


def pin(
    graph: TypedGraph,
    op_defs: OpDefs,
    config: Config,
    policy: Policy,
    fetched: Dict[str, Reason],
) -> Dict[int, Reason]:
    """Pinned units and reasons.

    Args:
        graph: the graph body.
        op_defs: definitions of its ops.
        config: compute dtype and the user's rules.
        policy: its allow list ends update math.
        fetched: nodes that keep their dtype because they may be fetched, with reasons.
    """
    pins: Dict[int, Reason] = {}
    updates = update_math(graph, policy.allow)
    kept = matched(graph, config.keep_float32 + policy.keep_float32)
    flow = _flow(graph)
    variables = {name: _variable(graph, name) for name in graph.view.nodes}
    for number, unit in enumerate(graph.units):
        reason = (
            (_OWN if unit.node.startswith(SCOPE + "/") else None)
            or variables[unit.node]
            or (_MEMORY if unit.node in graph.late.passed_on else None)
            or (_STATISTICS if _is_statistics(graph, number) else None)
            or unsupported(graph, number, op_defs, config.compute_dtype)
            or (_FLOW if unit.node in flow else None)
            or fetched.get(unit.node)
            or (user_rule("keep_float32", kept[unit.node]) if unit.node in kept else None)
            or (_OWN_CAST if _is_own_cast(graph, number) else None)
            or _look_up(graph, unit.node)
            or (_UPDATE if unit.node in updates else None)
            or (_CARRIED if _is_carried(graph, number) else None)
        )
        if reason is not None:
            pins[number] = reason
    return pins


def unsupported(
    graph: TypedGraph, number: int, op_defs: OpDefs, compute_dtype: str
) -> Optional[Reason]:
    """Why a unit can't be half under any options; None if it can."""
    unit, op = graph.units[number], graph.node(number).op
    if not op_defs.allows(op, unit.attribute, BY_NAME[compute_dtype]):
        return Reason(NO_KERNEL, "%s takes no %s" % (op, compute_dtype))
    if op in without_kernel(compute_dtype):
        return Reason(NO_KERNEL, "%s has none of %s on every device" % (op, compute_dtype))
    inputs = graph.node(number).input
    if becomes_reciprocal(op, compute_dtype, inputs, in_body(graph.view.nodes)):
        return Reason(NO_KERNEL, NO_RECIPROCAL)
    if _moves_an_array(graph, number, compute_dtype):
        return _MOVED
    if not faults(op, compute_dtype):
        return None
    found = fault(op, compute_dtype, _shapes(graph, unit.node))
    return None if found is None else Reason(NO_KERNEL, str(found))


def _moves_an_array(graph: TypedGraph, number: int, compute_dtype: str) -> bool:
    """Whether TensorFlow 1.15 would put a TensorArray on XLA_CPU:0, beside a unit in bfloat16."""
    unit, node = graph.units[number], graph.node(number)
    is_old = compute_dtype == "bfloat16" and tf.__version__.startswith("1.")
    if not is_old or unit.node not in graph.places.beside_arrays:
        return False
    types = {**types_of(node), unit.attribute: BY_NAME[compute_dtype]}
    return not any(has_kernel(node.op, types, device, here=True) for device in DEVICES)


def _shapes(graph: TypedGraph, name: str) -> List[Optional[Dimensions]]:
    """The shapes of a node's inputs that may be half, channels last."""
    order = data_format(graph.view.nodes[name])
    found: List[Optional[Dimensions]] = []
    for slot, port in enumerate(graph.view.inputs(name)):
        if graph.reading(name, slot) < 0 or _is_statistics(graph, graph.reading(name, slot)):
            continue
        sizes = recorded_dimensions(graph.view.nodes[port.node], port.output, -1)
        shape = None if sizes is None else [None if size < 0 else size for size in sizes]
        found.append(channels_last(shape, order))
    return found


def update_math(graph: TypedGraph, allow: AbstractSet[str]) -> AbstractSet[str]:
    """Nodes outside gradient code that depend on it by data, up to matmuls and their consumers.

    Matmuls of an optimizer itself are among them: those that lead to a write of a variable, and
    that no gradient code depends on. Others compute losses, with weights that gradients changed.
    """
    nodes, gradients = graph.view.nodes, graph.gradients
    products = {name for name, node in nodes.items() if node.op in allow} - gradients
    products -= _of_optimizers(graph) if products else frozenset()
    seen: Set[str] = set()
    waiting = list(gradients)
    while waiting:
        for consumer in graph.view.consumers(waiting.pop()):
            name = consumer.node
            if name in seen or name in gradients or name in products:
                continue
            if not any(port.node in products for port in graph.view.inputs(name)):
                seen.add(name)
                waiting.append(name)
    return seen


def _of_optimizers(graph: TypedGraph) -> AbstractSet[str]:
    """Nodes that writes of variables depend on by data, and no gradient code."""
    writes = (
        name
        for name, node in graph.view.nodes.items()
        if node.op in ASSIGNS or node.op.startswith(UPDATE_PREFIXES)
    )
    leading = graph.view.ancestors(writes, control=False)
    return leading - graph.view.ancestors(graph.gradients, control=False)


def fetched_nodes(
    meta_graph: tf.MetaGraphDef, config: Config, graph: TypedGraph, outputs: AbstractSet[str]
) -> Dict[str, Reason]:
    """Nodes that keep their dtype because a signature, flag, variable or collection names them.

    Args:
        meta_graph: has the signatures and collections.
        config: its `fetch`.
        graph: its main graph.
        outputs: nodes behind the last matmul or convolution. A collection may name every layer's
            activation (tf-slim's end points do); only the model's outputs in it keep their dtype.

    Raises:
        GraphmpError: GMP002 for a --fetch that names no node or tensor.
    """
    found: Dict[str, Reason] = {}
    for name in config.fetch:
        node = parse_input(name.lstrip("^")).node
        if node not in graph.view.nodes:
            raise GraphmpError(
                "GMP002",
                "--fetch=%s: the graph has no such node; accepted are names of tensors and ops"
                % name,
            )
        refuse_missing_output("--fetch=%s" % name, name, graph.signature(node))
        found[node] = user_rule("fetch", name)
    for key in sorted(meta_graph.signature_def):
        reason = Reason(FETCHED, "keeps its dtype (signature %s)" % key)
        for info in [
            *meta_graph.signature_def[key].inputs.values(),
            *meta_graph.signature_def[key].outputs.values(),
        ]:
            for name in _tensor_names(info):
                found.setdefault(parse_input(name).node, reason)
    for key, listed in sorted(_collected(meta_graph)):
        reason = Reason(FETCHED, "keeps its dtype (collection %s)" % key)
        for name in listed:
            node = parse_input(name).node
            if node in outputs:
                found.setdefault(node, reason)
    for key, listed in sorted(_defined(meta_graph)):
        reason = Reason(VARIABLE, "named by its definition (collection %s)" % key)
        for name in listed:
            found.setdefault(parse_input(name).node, reason)
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


def _is_statistics(graph: TypedGraph, number: int) -> bool:
    return graph.units[number].attribute == "U" and graph.node(number).op in WIDER_STATISTICS


def _variable(graph: TypedGraph, name: str) -> Optional[Reason]:
    """Why a node that reads a variable's reference or resource keeps its dtype."""
    signature = graph.signature(name)
    op = graph.view.nodes[name].op
    for slot, port in enumerate(graph.view.inputs(name)):
        producer = graph.signature(port.node)
        is_ref = producer is not None and producer.output(port.output).is_ref
        if op not in HANDLE_OPS and (
            is_ref or (signature is not None and signature.inputs[slot].is_ref)
        ):
            return Reason(VARIABLE, "reads %s" % port.node, port.node)
        if (
            signature is not None
            and signature.inputs[slot].dtype == RESOURCE
            and op not in HANDLE_OPS
            and op not in PASSES_ON
        ):
            return Reason(READS_RESOURCE, "read from %s" % port.node, port.node)
    return None


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
    """Whether an output of a TensorArray op is its flow: a float without a type attribute."""
    return graph.writer(port) == FIXED


def _is_carried(graph: TypedGraph, number: int) -> bool:
    """Whether a value goes from a variable to a write; constants have rules of their own."""
    return graph.units[number].node in graph.carried and graph.node(number).op != "Const"


def _is_own_cast(graph: TypedGraph, number: int) -> bool:
    unit = graph.units[number]
    node = graph.node(number)
    is_exact = (
        unit.attribute == "DstT"
        and "SrcT" in node.attr
        and node.attr["SrcT"].type in EXACT_INTEGERS
    )
    return node.op in ("Cast", "Bitcast") and not is_exact


def _look_up(graph: TypedGraph, name: str) -> Optional[Reason]:
    """Why a look-up keeps its dtype; None if its table isn't a variable, or is small."""
    if graph.view.nodes[name].op not in LOOK_UPS or not graph.view.inputs(name):
        return None
    table = graph.view.inputs(name)[0]
    variable = variable_behind(graph.view, table.node)
    size, given = (
        recorded_size(graph.view.nodes[table.node], table.output),
        recorded_size(graph.view.nodes[name], 0),
    )
    small = size is not None and given is not None and size * _SMALL_TABLE <= given
    if not variable or small:
        return None
    return Reason(LOOK_UP, "the rows of %s are cast, not the table" % variable, variable)
