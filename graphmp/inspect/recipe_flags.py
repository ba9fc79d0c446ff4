"""The flags that would change the dtype of a node built by the recipe, by its rules and by trial.

Trials are conversions by the rewrite.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.structure.view import GraphView
from graphmp.inspect.alternatives import Flag, option
from graphmp.policy.dtypes import FLOAT32, HALF, compute_dtype
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import decide


def recipe_flags(
    name: str,
    converted: tf.MetaGraphDef,
    original: tf.MetaGraphDef,
    report: Optional[Dict[str, Any]],
    config: Config,
    policy: Policy,
) -> Iterator[Flag]:
    """The flags that change a node of the converted graph.

    Args:
        name: the node.
        converted: its graph.
        original: the graph before, of the same build.
        report: the report of the conversion.
        config: the options of the conversion.
        policy: its op policy.
    """
    view = GraphView(converted.graph_def)
    if name not in {each.name for each in original.graph_def.node}:
        return
    dtype = compute_dtype(view.nodes[name])
    if dtype not in (FLOAT32, *HALF):
        return
    pattern = "^%s$" % re.escape(name)
    if dtype in HALF:
        yield Flag(option("keep_float32", pattern), True, 1)
        return
    if _cast_up(name, view, report):
        yield Flag(option("force_compute", pattern), True, 1)
    if name in decide(original, config, policy)[""].half_nodes():  # the rewrite decides otherwise
        yield Flag(
            "--engine=rewrite", True, 0, "which rewrites the float32 graph, by rules of its own"
        )


def _cast_up(name: str, view: GraphView, report: Optional[Dict[str, Any]]) -> bool:
    """Whether the recipe cast an op's inputs to float32; it doesn't for a forced op.

    Updates need float32.
    """
    if any(name in loss["updates"] for loss in (report or {}).get("losses", [])):
        return False
    casts = (
        view.nodes[port.node] for port in view.inputs(name) if view.nodes[port.node].op == "Cast"
    )
    return any(cast.attr["SrcT"].type in HALF for cast in casts)
