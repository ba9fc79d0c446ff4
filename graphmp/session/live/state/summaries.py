"""The loss scale in the graph's own summaries: added to each merged summary that is fetched."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Sequence

import tensorflow.compat.v1 as tf

from graphmp.loss_scale.scales import shown
from graphmp.naming import SCOPE
from graphmp.session.live.cloning.nodes import LiveNodes
from graphmp.session.live.cloning.stand_ins import StandIns
from graphmp.tf_hooks.internals import outside

_MERGE = "MergeSummary"


def with_scales(
    nodes: LiveNodes, ops: Iterable[Any], scales: Sequence[Dict[str, Any]]
) -> LiveNodes:
    """These nodes with the loss scales in all merged summaries among some ops.

    Args:
        nodes: the nodes of a converted graph.
        ops: ops of the graph.
        scales: rows of a report's `scales`.
    """
    tags = _tags_of(scales)
    for op in ops:
        if tags and op.type == _MERGE and op.name not in nodes.merged:
            nodes = _merged(nodes, op, tags)
    return nodes


def _merged(nodes: LiveNodes, op: Any, tags: Dict[str, str]) -> LiveNodes:
    """These nodes with a MergeSummary of another one's inputs and the scales.

    A finalised graph is opened for that.
    """
    with outside(op.graph):
        rows = [
            tf.raw_ops.ScalarSummary(
                tags=tag,
                values=nodes.stand_ins.named(op.graph, name).outputs[0],
                name="%s/summaries/%s" % (SCOPE, tag),
            )
            for tag, name in sorted(tags.items())
        ]
        merged = nodes.stand_ins.op(op)
        result = tf.raw_ops.MergeSummary(
            inputs=[merged.outputs[0], *rows], name="%s/summaries/%s" % (SCOPE, merged.name)
        ).op
    made = {tensor.op.name for row in rows for tensor in (row, row.op.inputs[0])}  # and its tag
    return nodes._replace(
        stand_ins=StandIns({**nodes.stand_ins.names, op.name: result.name}),
        added=nodes.added | {result.name} | made,
        merged=nodes.merged | {op.name},
    )


def _tags_of(rows: Iterable[Dict[str, Any]]) -> Dict[str, str]:
    """The name of the node whose output 0 each tag shows."""
    found = {}
    for row in rows:
        scale, skipped = shown(row)
        found["%s/%s" % (SCOPE, row["scope"])] = scale
        found["%s/%s/skipped_steps" % (SCOPE, row["scope"])] = skipped
    return {tag: name for tag, name in found.items() if name}
