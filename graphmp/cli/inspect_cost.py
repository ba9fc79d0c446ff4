"""`graphmp inspect --cost`: bytes that a step moves, before and after, and the minimum cut."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, List

from graphmp.cli.inspected import convert_or_explain, counted, end, head, like
from graphmp.cli.tables import Line, section, size
from graphmp.cli.terminal import progress
from graphmp.config import Config
from graphmp.conversion.quiet import quiet_stderr
from graphmp.policy.reason import READS_RESOURCE, UNTYPED, UPDATE, VARIABLE
from graphmp.wording import labelled, plural

if TYPE_CHECKING:
    from graphmp.inspect.cost import CostReport
    from graphmp.policy.policy import Policy

SCHEMA = "graphmp.cost/1"
MOST = 12  # rows of a table


def run(args: argparse.Namespace, config: Config, policy: Policy) -> int:
    """Print the costs."""
    with quiet_stderr():  # suppress TensorFlow's messages while it is imported
        from graphmp.gate.reading import read_graph
        from graphmp.inspect.cost import inspect_cost
        from graphmp.inspect.explanation import as_json
        from graphmp.rewrite.placement import costs
    with progress(3) as begin:
        begin("reading %s" % args.graph)
        found = inspect_cost(read_graph(args.graph, args.tag), config, policy, begin)
    model = {
        "cast_bytes": costs.CAST_BYTES,
        "saved_bytes": costs.SAVED_BYTES,
        "launch_bytes": costs.LAUNCH,
        "slow_bytes": costs.SLOW_BYTES,
        "slow_most_bytes": costs.SLOW_MOST,
    }
    lines = _lines(found, args.graph, config.compute_dtype)
    return end(
        args, config, SCHEMA, dict(as_json(found), model=model), lines, _next(found, args.graph)
    )


def _lines(found: CostReport, name: str, dtype: str) -> List[Line]:
    return [*_head(found, name), *_cut(found, dtype), *_ops(found), *_casts(found), *_wide(found)]


def _head(found: CostReport, name: str) -> List[Line]:
    """The counted tensors, and sums."""
    from graphmp.graph.shapes.shapes import UNKNOWN_DIMENSION
    from graphmp.rewrite.placement.costs import (
        CAST_BYTES,
        LAUNCH,
        SAVED_BYTES,
        SLOW_BYTES,
        SLOW_MOST,
    )

    text = (
        "%s; unknown dimensions count as %d, a while loop as %d iterations where the graph names no"
        " number"
    )
    text %= counted(found.trains), UNKNOWN_DIMENSION, UNKNOWN_DIMENSION
    lines = head(name, text, found.notes, found.error)
    share = 100 * found.after.moved / max(found.before.moved, 1)
    lines.append(
        (
            "row",
            labelled(
                "moved",
                "%s -> %s (%.0f%%)" % (size(found.before.moved), size(found.after.moved), share),
            ),
        )
    )
    lines.append(
        (
            "row",
            labelled(
                "casts", "%s -> %s of that" % (size(found.before.cast), size(found.after.cast))
            ),
        )
    )
    model = (
        "an element of a float32 tensor costs %d bytes more to write and to read than one of half"
        " precision, a cast of it %d, the launch of a cast as much as %s; a fused op nothing; a"
        " kernel that is slow in half precision and reads many elements %d for each, but at most %s"
        " a call"
    )
    text = model % (SAVED_BYTES, CAST_BYTES, size(LAUNCH), SLOW_BYTES, size(SLOW_MOST))
    return [*lines, ("row", labelled("model", text))]


def _cut(found: CostReport, dtype: str) -> List[Line]:
    """The choice of the cut, compared with two choices without one."""
    cut = found.cut
    if not cut.free:
        return []
    rows = [
        ("as chosen", size(cut.bytes)),
        ("all of them in %s" % dtype, size(cut.all_half)),
        ("all of them in float32", size(cut.all_float32)),
    ]
    heading = "minimum cut: of %s free to be either, %s became %s, %s float32; what that costs" % (
        plural(cut.free, "group"),
        format(cut.half, ","),
        dtype,
        format(cut.float32, ","),
    )
    return section(heading, rows)


def _ops(found: CostReport) -> List[Line]:
    rows = [
        (
            row.op,
            row.nodes,
            size(row.before),
            size(row.after),
            "%.0f%%" % (100 * row.after / max(found.after.moved, 1)),
            size(row.float32),
        )
        for row in found.ops
    ]
    return section(
        "bytes by op", rows, MOST, titles=("op", "nodes", "before", "after", "share", "float32")
    )


def _casts(found: CostReport) -> List[Line]:
    rows = [
        (size(row.bytes), "to %s" % row.to, like(row.node, row.nodes), row.reason)
        for row in found.casts
    ]
    return section("casts that move most, and why there is float32 on one side", rows, MOST)


def _wide(found: CostReport) -> List[Line]:
    rows = [
        (size(row.bytes), row.op, like(row.node, row.nodes), row.reason.text) for row in found.wide
    ]
    return section("float32 that moves most, and why", rows, MOST)


def _next(found: CostReport, name: str) -> str:
    """The next command to try."""
    kept = [
        row.node
        for row in found.wide
        if row.reason.kind not in (VARIABLE, READS_RESOURCE, UPDATE, UNTYPED)
    ]
    return convert_or_explain(name, kept)
