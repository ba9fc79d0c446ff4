"""The ops of a training step in float32, most expensive first: matmuls, then by bytes moved."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from graphmp.compare.changes import KeptReason
from graphmp.compare.patterns import common, stem
from graphmp.compare.review.work import Work
from graphmp.naming import in_body
from graphmp.policy.policy import tensor_core_ops


class Op(NamedTuple):
    """Ops of one type that stayed float32 for one reason; matmuls and convolutions also by name.

    Attributes:
        text: their path, with `*` where it differs; the first's if names have nothing in common.
        op: the op type.
        nodes: their paths, sorted.
        bytes: read and written in a step, by static shapes; 0 without recorded shapes.
        is_matmul: whether it is a matmul, a convolution or an RNN kernel.
        kind: the kind of the reason; empty without a report.
        reason: the report's reason.
    """

    text: str
    op: str
    nodes: Tuple[str, ...]
    bytes: int
    is_matmul: bool
    kind: str
    reason: str


class Stayed(NamedTuple):
    """Ops that stayed float32.

    Attributes:
        ops: the ops, the most important first.
        bytes: read and written by all floating-point ops of a step, including those in half
            precision.
    """

    ops: Tuple[Op, ...] = ()
    bytes: int = 0


def stayed_float32(worked: Mapping[str, Work], kept: Sequence[KeptReason]) -> Stayed:
    """The ops in float32, with the report's reasons.

    Args:
        worked: the ops by path.
        kept: why nodes stayed float32, by the report.
    """
    worth = frozenset(tensor_core_ops())
    reasons = {in_body(row.body, row.node): (row.kind, row.reason) for row in kept}
    groups: Dict[Tuple[str, ...], List[str]] = {}
    for path, found in worked.items():
        if not found.is_half:
            kind, reason = reasons.get(path, ("", ""))
            groups.setdefault(
                (found.op, kind, stem(reason), stem(path) if found.op in worth else ""), []
            ).append(path)
    ops = [
        _op(sorted(paths), key[0], key[0] in worth, worked, reasons)
        for key, paths in groups.items()
    ]
    ops.sort(key=lambda op: (not op.is_matmul, -op.bytes, -len(op.nodes), op.text))
    return Stayed(tuple(ops), sum(found.bytes for found in worked.values()))


def _op(
    paths: List[str],
    op: str,
    is_matmul: bool,
    worked: Mapping[str, Work],
    reasons: Mapping[str, Tuple[str, str]],
) -> Op:
    largest = min(paths, key=lambda path: (-worked[path].bytes, path))
    text = common(paths) if len({stem(path) for path in paths}) == 1 else largest
    return Op(
        text,
        op,
        tuple(paths),
        sum(worked[path].bytes for path in paths),
        is_matmul,
        *reasons.get(largest, ("", "")),
    )
