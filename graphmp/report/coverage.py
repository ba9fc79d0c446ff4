"""The share of matmuls and convolutions in half precision; if it is zero, why."""

from __future__ import annotations

import collections
from typing import Any, Dict, Iterable, List

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.naming import in_body
from graphmp.policy.reason import MEASURED
from graphmp.report import facts
from graphmp.report.record import Record

_MOST_REASONS = 2
_OUTSIDE = "made outside the build function, or fed by what does not come through its arguments"
_SLOWER = "slower than in float32, casts included, by the times of --costs"
_PIPELINE = "in a function that an input pipeline or another op uses"


def left_in_float32(graph_def: Any, record: Record) -> Dict[str, str]:
    """Matmuls and convolutions that compute in float32, by name, with the reason.

    Reasons are the rewrite's, or else the recipe's.
    """
    noted = {in_body(body, node): why for body, node, why in record.float32 or ()}
    noted.update(record.left)
    other = _OUTSIDE if record.float32 is None else _PIPELINE
    return {
        name: noted[name].text if name in noted else other
        for name in facts.left_in_float32(graph_def)
    }


def some_in_float32(graph_def: Any, config: Config, record: Record) -> List[Dict[str, str]]:
    """A warning GMP102 for each one in float32, except where measured times decided."""
    left = left_in_float32(graph_def, record) if config.compute_dtype != "float32" else {}
    timed = {name for name, why in record.left.items() if why.kind == MEASURED}
    return [
        warning("GMP102", name, "computes in float32: %s" % reason)
        for name, reason in left.items()
        if name not in timed
    ]


def nothing_in_half(graph_def: Any, config: Config, record: Record) -> List[Dict[str, str]]:
    """The warning GMP120 for a converted graph without a matmul or convolution in half precision.

    None if float32 was asked for, or if the record already has GMP108 (nothing to convert).

    Args:
        graph_def: the converted graph.
        config: its options.
        record: the engine's record.
    """
    if config.compute_dtype == "float32" or record.left_as_it_is:
        return []
    cover = facts.coverage(graph_def)
    if cover["converted_ops"]:
        return []
    if not cover["tensor_core_ops"]:
        return [
            warning(
                "GMP120",
                "",
                "nothing computes in %s: the graph has no matmul or convolution in float32"
                % config.compute_dtype,
            )
        ]
    reasons = {
        name: _SLOWER if name in record.left and record.left[name].kind == MEASURED else reason
        for name, reason in left_in_float32(graph_def, record).items()
    }
    text = "none of the %d matmuls and convolutions computes in %s: %s"
    return [
        warning(
            "GMP120", "", text % (len(reasons), config.compute_dtype, _commonest(reasons.values()))
        )
    ]


def _commonest(reasons: Iterable[str]) -> str:
    counts = collections.Counter(reasons).most_common()
    said = [
        "%d by %s" % (count, reason) if len(counts) > 1 else reason
        for reason, count in counts[:_MOST_REASONS]
    ]
    others = sum(count for _, count in counts[_MOST_REASONS:])
    return "; ".join(said + (["%d for other reasons" % others] if others else []))
