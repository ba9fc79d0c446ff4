"""The rewrite of a graph: decide, then apply, then check. Analysis never touches the proto; `casts.apply` edits a copy; `check` runs last."""

from __future__ import annotations

from typing import AbstractSet, Dict, List, NamedTuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.contexts import Contexts
from graphmp.graph.gradient_code import gradient_nodes
from graphmp.graph.shapes import with_inferred_shapes
from graphmp.policy.policy import Policy
from graphmp.rewrite import casts, pins, ranges
from graphmp.rewrite.groups import Groups
from graphmp.rewrite.op_defs import OpDefs
from graphmp.rewrite.paint import Paint, ahead_of_allow, paint
from graphmp.rewrite.placement import place
from graphmp.rewrite.units import TypedGraph


class Decisions(NamedTuple):
    """What was decided for one graph body: its units and their colours."""

    graph: TypedGraph
    painted: List[Paint]


def decide(graph_def: tf.GraphDef, op_defs: OpDefs, config: Config, policy: Policy, meta_graph: tf.MetaGraphDef) -> Decisions:
    """Paints one graph body; nothing is changed."""
    graph = TypedGraph(with_inferred_shapes(graph_def), op_defs)
    names = graph.view.nodes.keys()
    gradients = gradient_nodes(names)
    fetched = pins.fetched_nodes(meta_graph, config, names, names - ahead_of_allow(graph, policy.allow, gradients))
    pinned = pins.pin(graph, op_defs, config, policy, fetched, gradients)
    guards = ranges.guarded(graph, policy, config.compute_dtype)
    groups = Groups(graph)
    painted = paint(graph, groups, pinned, guards, config, policy, op_defs, gradients)
    return Decisions(graph, place(graph, groups, painted, config.compute_dtype))


def rewrite(meta_graph: tf.MetaGraphDef, config: Config, policy: Policy) -> tf.MetaGraphDef:
    op_defs = OpDefs(meta_graph)
    decisions = decide(meta_graph.graph_def, op_defs, config, policy, meta_graph)
    result = tf.MetaGraphDef()
    result.CopyFrom(meta_graph)
    inserted = casts.apply(decisions.graph, decisions.painted, config.compute_dtype, Contexts(result), result.graph_def)
    return result
