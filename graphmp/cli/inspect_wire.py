"""`graphmp inspect --wire`: bytes that a step sends from device to device, before and after a conversion."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import TYPE_CHECKING, List

from graphmp.cli.tables import Line, labelled, section, show, size
from graphmp.cli.terminal import progress
from graphmp.config import Config
from graphmp.runtime.quiet import quiet_stderr

if TYPE_CHECKING:
    from graphmp.policy.policy import Policy
    from graphmp.rewrite.inspection.wire import Pair, Wire

SCHEMA = "graphmp.wire/1"
MOST = 12  # rows of a table of tensors
OWN = "the session's own"  # device of nodes that name none


def run(args: argparse.Namespace, config: Config, policy: Policy) -> int:
    """Prints the count."""
    with quiet_stderr():  # TensorFlow speaks while it is imported
        from graphmp.graph.files import read_graph
        from graphmp.rewrite.inspection.explanation import as_json
        from graphmp.rewrite.inspection.wire import inspect_wire
    with progress(3) as begin:
        begin("reading %s" % args.graph)
        found = inspect_wire(read_graph(args.graph, args.tag), config, policy, args.batch_size, begin)
    following = _next(found, args.graph)
    if args.json:
        facts = {"schema": SCHEMA, "source": args.graph, "compute_dtype": config.compute_dtype, "flags": config.as_flags(), "next": following}
        sys.stdout.write(json.dumps(dict(as_json(found), **facts), indent=1, sort_keys=True) + "\n")
    else:
        show([*_lines(found, args.graph, config.compute_dtype), ("row", ""), ("next", labelled("next", following))])
    return 0


def _lines(found: Wire, name: str, dtype: str) -> List[Line]:
    return [*_head(found, name), *_pairs(found, dtype), *_tensors(found, dtype)]


def _head(found: Wire, name: str) -> List[Line]:
    """What was counted."""
    counted = "a training step" if found.trains else "the whole graph, for it has no training step"
    text = "%s by static shapes; unknown dimensions count as %d (--batch_size=N: as N)" % (counted, found.unknown)
    lines = [("head", labelled(name.rstrip("/").split("/")[-1], text))]
    lines += [("note", labelled("note", " ".join(filter(None, (note["code"], note["node"], note["message"]))))) for note in found.notes]
    if found.error:
        lines.append(("note", labelled("note", "the graph can't be converted: %s" % found.error)))
    if not found.pairs:
        lines.append(("note", labelled("note", "nothing is sent: all nodes of the step name the same device, or none")))
    return lines


def _pairs(found: Wire, dtype: str) -> List[Line]:
    """A row for each pair of devices between which anything goes, and the sum."""
    pairs = [pair._replace(source=_shown(pair.source), target=_shown(pair.target)) for pair in found.pairs if pair.before or pair.after]
    if len(pairs) > 1:
        sums = [sum(column) for column in zip(*(pair[2:] for pair in pairs))]
        pairs.append(pairs[0]._replace(source="all", target="", tensors=sums[0], before=sums[1], after=sums[2]))
    columns = 4 if found.after is None else 6
    rows = [(pair.source, pair.target, pair.tensors, size(pair.before), size(pair.after), _share(pair))[:columns] for pair in pairs]
    return section("bytes sent in a step", rows, titles=("from", "to", "tensors", "original", dtype, "")[:columns])


def _share(pair: Pair) -> str:
    return "%.0f%%" % (100 * pair.after / pair.before) if pair.before else ""


def _tensors(found: Wire, dtype: str) -> List[Line]:
    from graphmp.rewrite.inspection.wire import grouped

    sent = found.before if found.after is None else found.after
    rows = []
    for row, count in grouped(sent):
        name = row.tensor + (" (and %s like it)" % format(count - 1, ",") if count > 1 else "")
        rows.append((size(row.bytes), row.dtype, _shown(row.source), _shown(row.target), name, row.reader))
    heading = "tensors that send most (%s)" % ("as it is" if found.after is None else dtype)
    return section(heading, rows, MOST, titles=("bytes", "dtype", "from", "to", "tensor", "read there by"))


def _shown(device: str) -> str:
    return device or OWN


def _next(found: Wire, name: str) -> str:
    """What a user would try next."""
    graph = shlex.quote(name)
    if found.after is None:
        return "graphmp inspect %s" % graph
    wide = [row.tensor.split(":")[0] for row in found.after if row.dtype == "float32" and row.bytes > 64]
    why = ", or: graphmp explain %s %s" % (graph, shlex.quote(wide[0])) if wide else ""
    return "graphmp convert %s%s" % (graph, why)
