"""Groups: units that share one dtype.

1. A loop variable: its Enter, Merge, Switch, NextIteration and Exit. `Enter(f32) -> Merge -> Switch
   -> ...` becomes half as a whole or not at all.
2. A TensorArray with its reads, writes and gradient arrays; a Stack with its pushes and pops; a
   TensorList with all its operations: all ops on the same handle, through control flow too.
3. The operands and the result of one allow op: BatchMatMulV3 has a type attribute for each, and
   only kernels for equal types.
4. The all-reduces of one key or name, which each tower of a graph runs: they add up one tensor.
5. A comparison of a tensor with what clear ops select from it, and those ops (`selections.py`).
6. A maximum pooling and its gradient. On a CPU oneDNN's kernel of the gradient takes the pooling's
   workspace and so needs the pooling itself as its input, not a cast of it; TensorFlow's own takes
   ten times as long.
7. The inputs and outputs of one function-calling op are its signature; they are pinned, not
   grouped.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterator, List, Sequence, Tuple

import numpy as np
import scipy.sparse as sparse
from scipy.sparse import csgraph

from graphmp.graph.structure.view import Consumer, Port
from graphmp.policy.dtypes import RESOURCE, STRING, VARIANT
from graphmp.policy.op_sets import POOL_GRADS, POOLS
from graphmp.policy.policy import Policy
from graphmp.policy.reason import HANDLE, Reason
from graphmp.policy.traits import HANDLE_OPS, PASSES_ON
from graphmp.rewrite.painting.selections import selections
from graphmp.rewrite.units import OTHER, TypedGraph

_HANDLES = (RESOURCE, STRING, VARIANT)


class Groups:
    """Units that share a dtype.

    Attributes:
        of: the group of each unit; groups are numbered from 0.
        members: the units of each group.
        leaving: why the dtype of a unit can't change: its handle reaches an op for other handles.
    """

    def __init__(self, graph: TypedGraph, policy: Policy):
        """Find all groups of a graph body."""
        handle_pairs, leaving = _handle_classes(graph)
        self.of = _components(
            len(graph.units),
            [
                *_loop_variables(graph),
                *handle_pairs,
                *_operands(graph, policy.allow),
                *_reduces(graph),
                *_poolings(graph),
                *selections(graph, policy.clear),
            ],
        )
        self.members: List[List[int]] = [[] for _ in range(max(self.of, default=-1) + 1)]
        for unit, group in enumerate(self.of):
            self.members[group].append(unit)
        self.leaving: Dict[int, Reason] = leaving


def _loop_variables(graph: TypedGraph) -> Iterator[Tuple[int, int]]:
    """Pairs of units around each NextIteration."""
    nodes = graph.view.nodes
    for name, node in nodes.items():
        if node.op != "NextIteration":
            continue
        for merge in graph.view.consumers(name):
            yield from _pairs(graph, graph.units_of(name), merge.node)
            for port in graph.view.inputs(merge.node):
                if nodes[port.node].op == "Enter":
                    yield from _pairs(graph, graph.units_of(merge.node), port.node)
            for switch in _readers(graph, merge.node, "Switch"):
                yield from _pairs(graph, graph.units_of(merge.node), switch)
                for exit_ in _readers(graph, switch, "Exit"):
                    yield from _pairs(graph, graph.units_of(switch), exit_)


def _operands(graph: TypedGraph, allow: AbstractSet[str]) -> Iterator[Tuple[int, int]]:
    """Pairs of units of one allow op."""
    for name, node in graph.view.nodes.items():
        if node.op in allow:
            units = graph.units_of(name)
            yield from zip(units, units[1:])


def _reduces(graph: TypedGraph) -> Iterator[Tuple[int, int]]:
    """Pairs of units of all-reduces that run together."""
    first: Dict[Tuple[str, bytes, int], int] = {}
    for name in sorted(graph.joined):
        node = graph.view.nodes[name]
        key = (
            node.op,
            node.attr["shared_name"].s if "shared_name" in node.attr else b"",
            node.attr["instance_key"].i if "instance_key" in node.attr else 0,
        )
        if any(key[1:]):
            yield from ((first.setdefault(key, unit), unit) for unit in graph.units_of(name))


def _poolings(graph: TypedGraph) -> Iterator[Tuple[int, int]]:
    """Pairs of units of a maximum pooling and its gradient."""
    nodes = graph.view.nodes
    for name, node in nodes.items():
        if node.op in POOL_GRADS:
            pooled = graph.view.inputs(name)[1].node
            if nodes[pooled].op in POOLS:
                yield from _pairs(graph, graph.units_of(name), pooled)


def _readers(graph: TypedGraph, name: str, op: str) -> List[str]:
    return [c.node for c in graph.view.consumers(name) if graph.view.nodes[c.node].op == op]


def _pairs(graph: TypedGraph, units: Sequence[int], other: str) -> Iterator[Tuple[int, int]]:
    yield from ((a, b) for a in units for b in graph.units_of(other))


def _handle_classes(graph: TypedGraph) -> Tuple[List[Tuple[int, int]], Dict[int, Reason]]:
    """Pairs of units whose nodes share a handle, and the units whose handle is used otherwise."""
    nodes = graph.view.nodes
    index = {
        name: i
        for i, name in enumerate(nodes)
        if nodes[name].op in HANDLE_OPS or nodes[name].op in PASSES_ON
    }
    edges: List[Tuple[int, int]] = []
    # node number -> a user of the handle that isn't an operation on it
    touched: Dict[int, str] = {}
    for name in index:
        for consumer in graph.view.consumers(name):
            if not _is_handle(graph, name, consumer):
                continue
            if consumer.node in index:
                edges.append((index[name], index[consumer.node]))
            else:
                touched[index[name]] = consumer.node
        for slot, port in enumerate(graph.view.inputs(name)):
            if port.node not in index and _is_handle(
                graph, port.node, Consumer(name, slot, port.output)
            ):
                touched[index[name]] = port.node
    classes = _components(len(nodes), edges)
    first: Dict[int, int] = {}
    outside = {classes[i]: user for i, user in touched.items()}
    pairs, leaving = [], {}
    for name, i in index.items():
        if nodes[name].op in PASSES_ON:
            continue
        for unit in graph.units_of(name):
            pairs.append((first.setdefault(classes[i], unit), unit))
            if classes[i] in outside:
                user = outside[classes[i]]
                leaving[unit] = Reason(HANDLE, "used by %s" % user, user)
    return pairs, leaving


def _is_handle(graph: TypedGraph, producer: str, consumer: Consumer) -> bool:
    """Whether an edge carries a handle, by the type at either end."""
    if graph.reader(consumer) != OTHER and graph.writer(Port(producer, consumer.output)) != OTHER:
        return False
    signature, reading = graph.signature(producer), graph.signature(consumer.node)
    if signature is None:  # 1.15.5 has no op for a function's argument
        return reading is not None and reading.inputs[consumer.slot].dtype in _HANDLES
    return signature.output(consumer.output).dtype in _HANDLES


def _components(size: int, pairs: List[Tuple[int, int]]) -> List[int]:
    """The connected component of each of `size` vertices."""
    if not size:
        return []
    rows, columns = (
        (np.array(side, int) for side in zip(*pairs))
        if pairs
        else (np.zeros(0, int), np.zeros(0, int))
    )
    matrix = sparse.coo_matrix((np.ones(len(rows), np.int8), (rows, columns)), shape=(size, size))
    labels: List[int] = csgraph.connected_components(matrix, directed=False)[1].tolist()
    return labels
