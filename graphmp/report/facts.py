"""Facts for the report, taken from a GraphDef: ops in half precision and casts."""

from __future__ import annotations

import collections
from typing import Any, Counter, Dict, Iterable, Mapping, Tuple

from graphmp.compare.review.coverage import Counts, count
from graphmp.graph.io.stored import StoredGraphDef
from graphmp.graph.structure.functions import unused_functions
from graphmp.naming import in_body
from graphmp.once import remembered
from graphmp.policy.dtypes import FLOAT32, compute_dtype
from graphmp.policy.policy import tensor_core_ops


def _bodies(graph_def: Any) -> Iterable[Tuple[str, Iterable[Any]]]:
    """The nodes of the main graph, named "", and of each function that something uses."""
    unused = unused_functions(graph_def)
    yield "", graph_def.node
    for function in graph_def.library.function:
        if function.signature.name not in unused:
            yield function.signature.name, function.node_def


def nodes_of(graph_def: Any) -> Iterable[Any]:
    """All nodes, those of functions that something uses included."""
    return (node for _, nodes in _bodies(graph_def) for node in nodes)


def counts(graph_def: Any) -> Counts:
    """The counts over all nodes, in one pass; of a stored graph once."""
    is_stored = isinstance(graph_def, StoredGraphDef)
    return _counts_of_stored(graph_def) if is_stored else count(nodes_of(graph_def))


@remembered
def _counts_of_stored(graph_def: StoredGraphDef) -> Counts:
    return count(nodes_of(graph_def))


def half_ops(graph_def: Any) -> Counter[str]:
    """The number of the model's ops in half precision, by op type."""
    return counts(graph_def).half_ops


def ops_of(names: Iterable[str], graph_def: Any) -> Dict[str, int]:
    """The number of the given nodes, by op type."""
    wanted = set(names)
    counted = collections.Counter(node.op for node in graph_def.node if node.name in wanted)
    return dict(sorted(counted.items()))


def coverage(graph_def: Any) -> Dict[str, int]:
    """The number of 16- and 32-bit matmuls, convolutions and RNN kernels, and how many are half."""
    return coverage_of(counts(graph_def))


def coverage_of(found: Counts) -> Dict[str, int]:
    """The same, of counts."""
    return {"tensor_core_ops": found.matmuls, "converted_ops": found.half_matmuls}


def computed_in(dtype: str, cover: Mapping[str, int]) -> int:
    """The number of a coverage's matmuls and convolutions in a compute dtype, float32 included."""
    half = cover["converted_ops"]
    return cover["tensor_core_ops"] - half if dtype == "float32" else half


def left_in_float32(graph_def: Any) -> list:
    """Paths of matmuls, convolutions and RNN kernels that compute in float32."""
    worth = set(tensor_core_ops())
    return [
        in_body(body, node.name)
        for body, nodes in _bodies(graph_def)
        for node in nodes
        if node.op in worth and compute_dtype(node) == FLOAT32
    ]


def casts(graph_def: Any) -> int:
    """Casts between float32 and half precision."""
    return count(node for node in nodes_of(graph_def) if node.op == "Cast").casts
