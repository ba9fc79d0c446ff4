"""The share of a graph in half precision, counted over its nodes, functions included."""

from __future__ import annotations

import collections
from typing import Any, Counter, Iterable, NamedTuple, Sequence, Tuple

from graphmp.compare.changes import BodyPair
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import BFLOAT16, FLOAT16, FLOAT32, HALF, compute_dtype
from graphmp.policy.op_sets import ARGUMENT, RESULT
from graphmp.policy.policy import tensor_core_ops

_RESULTS = ("dtype", "DstT")  # the attributes of a result's dtype
_NAMES = {FLOAT16: "float16", BFLOAT16: "bfloat16"}


class Coverage(NamedTuple):
    """Ops in half precision, counted.

    Attributes:
        dtype: the half precision of most of the model's ops; empty without any.
        matmuls: matmuls, convolutions and RNN kernels of 16 or 32 bits.
        half_matmuls: the number of these in half precision.
        half_ops: the model's ops in half precision, including these: the number of each,
            descending.
        casts: casts between float32 and half precision that the original doesn't have.
    """

    dtype: str
    matmuls: int
    half_matmuls: int
    half_ops: Tuple[Tuple[str, int], ...]
    casts: int


class Counts(NamedTuple):
    """Counts over nodes; as in Coverage, and half-precision ops by dtype."""

    matmuls: int
    half_matmuls: int
    half_ops: Counter[str]
    dtypes: Counter[int]
    casts: int


def coverage(bodies: Sequence[BodyPair]) -> Coverage:
    """The coverage of the converted side."""
    found = count(
        node
        for body in bodies
        for node in body.after.nodes.values()
        if node.op not in (ARGUMENT, RESULT)
    )
    own = count(node for body in bodies for node in body.before.nodes.values() if node.op == "Cast")
    dtype = _NAMES[found.dtypes.most_common(1)[0][0]] if found.dtypes else ""
    ops = tuple(sorted(found.half_ops.items(), key=lambda item: (-item[1], item[0])))
    return Coverage(dtype, found.matmuls, found.half_matmuls, ops, found.casts - own.casts)


def count(nodes: Iterable[Any]) -> Counts:
    """Count matmuls, half-precision ops and casts in one pass."""
    worth = set(tensor_core_ops())
    matmuls = half_matmuls = casts = 0
    half_ops: Counter[str] = collections.Counter()
    dtypes: Counter[int] = collections.Counter()
    for node in nodes:
        op, dtype = node.op, half_dtype(node)
        if op in worth and compute_dtype(node) in (FLOAT32,) + HALF:
            matmuls += 1
            half_matmuls += dtype != 0
        if op == "Cast":
            casts += {_dtype(node, "SrcT"), _dtype(node, "DstT")} <= {FLOAT32, BFLOAT16, FLOAT16}
        elif dtype and not node.name.startswith(SCOPE + "/"):
            half_ops[op] += 1
            dtypes[dtype] += 1
    return Counts(matmuls, half_matmuls, half_ops, dtypes, casts)


def half_dtype(node: Any) -> int:
    """The half precision of a node's computation or result; 0 for none."""
    attributes = node.attr
    dtype = compute_dtype(node)
    if dtype in HALF:
        return dtype
    for name in _RESULTS:
        if name in attributes and attributes[name].type in HALF:
            return int(attributes[name].type)
    return 0


def _dtype(node: Any, name: str) -> int:
    """A type attribute, 0 if missing.

    Looking up a missing key in a protobuf map would add it.
    """
    return int(node.attr[name].type) if name in node.attr else 0
