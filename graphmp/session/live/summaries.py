"""The loss scale among the graph's own summaries: what is merged and fetched gets it too."""

from __future__ import annotations

from typing import Any, Dict, List

import tensorflow.compat.v1 as tf

from graphmp.loss_scale.scales import shown
from graphmp.naming import SCOPE
from graphmp.tf_hooks.internals import outside

MERGE = "MergeSummary"


def with_scales(merged: Any, scales: Dict[str, Any]) -> Any:
    """A MergeSummary of what a MergeSummary op has and of scalars: `{tag: tensor}`. A finalised graph is opened for that."""
    with outside(merged.graph):
        rows = [
            tf.raw_ops.ScalarSummary(tags=tag, values=tensor, name="%s/summaries/%s" % (SCOPE, tag))
            for tag, tensor in sorted(scales.items())
        ]
        return tf.raw_ops.MergeSummary(
            inputs=[merged.outputs[0], *rows], name="%s/summaries/%s" % (SCOPE, merged.name)
        ).op


def tags_of(rows: List[Dict[str, Any]]) -> Dict[str, str]:
    """For each tag the name of the node whose output 0 it shows; the rows are the report's `scales`."""
    found = {}
    for row in rows:
        scale, skipped = shown(row)
        found["%s/%s" % (SCOPE, row["scope"])] = scale
        found["%s/%s/skipped_steps" % (SCOPE, row["scope"])] = skipped
    return {tag: name for tag, name in found.items() if name}
