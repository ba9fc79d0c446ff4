"""`graphmp inspect --wire`: bytes sent between devices in a step, before and after a conversion."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, List

from graphmp.cli.inspected import convert_or_explain, counted, end, head, like, note
from graphmp.cli.tables import Line, section, size
from graphmp.cli.terminal import progress
from graphmp.config import Config
from graphmp.conversion.quiet import quiet_stderr

if TYPE_CHECKING:
    from graphmp.inspect.wire import Pair, Wire
    from graphmp.policy.policy import Policy

SCHEMA = "graphmp.wire/1"
MOST = 12  # rows of a table of tensors
OWN = "the session's own"  # device of nodes that name none


def run(args: argparse.Namespace, config: Config, policy: Policy) -> int:
    """Print the count."""
    with quiet_stderr():  # suppress TensorFlow's messages while it is imported
        from graphmp.gate.reading import read_graph
        from graphmp.inspect.explanation import as_json
        from graphmp.inspect.wire import inspect_wire
    with progress(3) as begin:
        begin("reading %s" % args.graph)
        found = inspect_wire(
            read_graph(args.graph, args.tag), config, policy, args.batch_size, begin
        )
    return end(
        args,
        config,
        SCHEMA,
        as_json(found),
        _lines(found, args.graph, config.compute_dtype),
        _next(found, args.graph),
    )


def _lines(found: Wire, name: str, dtype: str) -> List[Line]:
    return [*_head(found, name), *_pairs(found, dtype), *_tensors(found, dtype)]


def _head(found: Wire, name: str) -> List[Line]:
    """The counted traffic."""
    text = "%s by static shapes; unknown dimensions count as %d (--batch_size=N: as N)" % (
        counted(found.trains),
        found.unknown,
    )
    lines = head(name, text, found.notes, found.error)
    if not found.pairs:
        lines.append(note("nothing is sent: all nodes of the step name the same device, or none"))
    return lines


def _pairs(found: Wire, dtype: str) -> List[Line]:
    """A row for each pair of devices with traffic, and the sum."""
    pairs = [
        pair._replace(source=_shown(pair.source), target=_shown(pair.target))
        for pair in found.pairs
        if pair.before or pair.after
    ]
    if len(pairs) > 1:
        sums = [sum(column) for column in zip(*(pair[2:] for pair in pairs))]
        pairs.append(
            pairs[0]._replace(
                source="all", target="", tensors=sums[0], before=sums[1], after=sums[2]
            )
        )
    columns = 4 if found.after is None else 6
    rows = [
        (pair.source, pair.target, pair.tensors, size(pair.before), size(pair.after), _share(pair))[
            :columns
        ]
        for pair in pairs
    ]
    return section(
        "bytes sent in a step",
        rows,
        titles=("from", "to", "tensors", "original", dtype, "")[:columns],
    )


def _share(pair: Pair) -> str:
    return "%.0f%%" % (100 * pair.after / pair.before) if pair.before else ""


def _tensors(found: Wire, dtype: str) -> List[Line]:
    from graphmp.inspect.alike import grouped

    sent = found.before if found.after is None else found.after
    rows = []
    for row, count in grouped(sent, "dtype", "source", "target"):
        rows.append(
            (
                size(row.bytes),
                row.dtype,
                _shown(row.source),
                _shown(row.target),
                like(row.tensor, count),
                row.reader,
            )
        )
    heading = "tensors that send most (%s)" % ("as it is" if found.after is None else dtype)
    return section(
        heading, rows, MOST, titles=("bytes", "dtype", "from", "to", "tensor", "read there by")
    )


def _shown(device: str) -> str:
    return device or OWN


def _next(found: Wire, name: str) -> str:
    """The next command to try."""
    if found.after is None:
        return "graphmp inspect %s" % shlex.quote(name)
    wide = [
        row.tensor.split(":")[0] for row in found.after if row.dtype == "float32" and row.bytes > 64
    ]
    return convert_or_explain(name, wide)
