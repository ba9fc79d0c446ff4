"""`graphmp inspect`: the effect of a conversion on a graph, and why."""

from __future__ import annotations

import argparse
import json
import pathlib
import shlex
import sys
from typing import TYPE_CHECKING, List

from graphmp.cli import inspect_cost, inspect_memory, inspect_wire
from graphmp.cli.flags import conversion_flags, options_of
from graphmp.cli.inspected import convert_or_explain, end, head, like
from graphmp.cli.sources import add_tag
from graphmp.cli.tables import Line, section, size
from graphmp.cli.terminal import progress
from graphmp.config import Config
from graphmp.conversion.contents import ORIGINAL
from graphmp.conversion.quiet import quiet_stderr
from graphmp.errors import GraphmpError
from graphmp.policy.reason import DENY, DOWNSTREAM, RANGE_GUARD
from graphmp.wording import labelled, plural, some

if TYPE_CHECKING:
    from graphmp.inspect.overview import Inspection
    from graphmp.policy.policy import Policy

HELP = "say what a conversion would do to a graph and why; nothing is converted"
EXAMPLE = """  graphmp inspect model.ckpt.meta
  graphmp inspect frozen.pb --compute_dtype=bfloat16 --keep_float32='^logits/' --json
  graphmp inspect model.ckpt.meta --cost
  graphmp inspect model.ckpt.meta --memory --batch_size=64
  graphmp inspect worker0.meta --wire --batch_size=64
  graphmp inspect --policy > ops.txt

GRAPH is a MetaGraphDef or a GraphDef, binary or text, or a SavedModel."""
FLAGS = conversion_flags()
EVERYDAY = ("compute_dtype", "keep_float32", "cost", "memory", "policy", "json")

SCHEMA = "graphmp.inspect/1"
MOST = 10  # rows of a long table
# Kinds of reason with further details.
WORTH_ASKING = (DOWNSTREAM.text, RANGE_GUARD, DENY)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command, besides the conversion flags."""
    parser.add_argument(
        "graph", metavar="GRAPH", nargs="?", help="the graph, before any conversion"
    )
    add_tag(parser)
    parser.add_argument(
        "--policy",
        action="store_true",
        help="print the op policy in effect, as --op_policy=FILE reads it, and nothing else",
    )
    parser.add_argument("--json", action="store_true", help="print it for machines, with all rows")
    parser.add_argument(
        "--cost",
        action="store_true",
        help=("print the bytes that a step moves instead: by op, by cast, and the minimum cut"),
    )
    parser.add_argument(
        "--wire",
        action="store_true",
        help="print the bytes that a step sends from device to device instead",
    )
    inspect_memory.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the inspection, or only the policy."""
    with quiet_stderr():  # suppress TensorFlow's messages while it is imported
        from graphmp.gate.reading import read_graph
        from graphmp.inspect.explanation import as_json
        from graphmp.inspect.overview import inspect
        from graphmp.policy import policy as policies

    inspect_memory.check(args)
    config = Config.make(**options_of(FLAGS))
    policy = policies.load(config.compute_dtype, config.op_policy)
    if args.policy:
        sys.stdout.write(_policy(policy, policies.Policy.default(config.compute_dtype), args.json))
        return 0
    if not args.graph:
        raise GraphmpError(
            "GMP001", "graphmp inspect: GRAPH is missing; see `graphmp inspect --help`"
        )
    if args.cost:
        return inspect_cost.run(args, config, policy)
    if args.memory:
        return inspect_memory.run(args, config, policy)
    if args.wire:
        return inspect_wire.run(args, config, policy)
    with progress(3) as begin:
        begin("reading %s" % args.graph)
        found = inspect(read_graph(args.graph, args.tag), config, policy, begin)
    return end(
        args,
        config,
        SCHEMA,
        as_json(found),
        _lines(found, args.graph, config.compute_dtype),
        _next(found, args.graph),
    )


def _policy(policy: Policy, default: Policy, as_json: bool) -> str:
    """The policy as a file that reproduces it, including ops removed from the shipped lists."""
    if as_json:
        return (
            json.dumps(
                {name: sorted(ops) for name, ops in vars(policy).items()}, indent=1, sort_keys=True
            )
            + "\n"
        )
    removed = frozenset().union(*vars(default).values()) - frozenset().union(*vars(policy).values())
    return policy.to_text() + "".join("-%s\n" % op for op in sorted(removed))


def _lines(found: Inspection, name: str, dtype: str) -> List[Line]:
    return [
        *_head(found, name, dtype),
        *_ops(found, dtype),
        *_kept(found),
        *_constants(found, dtype),
        *_islands(found),
        *_shapes(found),
    ]


def _head(found: Inspection, name: str, dtype: str) -> List[Line]:
    """The lines about the whole graph."""
    facts = found.facts
    scopes = [
        "%s%s"
        % (
            "scope %s" % scope if scope else "the main scope",
            "" if trains else " (reaches no update)",
        )
        for scope, trains in facts.gradient_scopes.items()
    ]
    version = "TensorFlow %s" % (facts.tensorflow_version or "version unknown")
    counts = [
        plural(facts.nodes, "node"),
        plural(facts.functions, "function"),
        version,
        plural(facts.variables, "variable"),
    ]
    first, *notes = head(name, ", ".join(counts), found.notes)
    lines = [first, ("row", labelled("gradients", ", ".join(scopes) or "none")), *notes]
    if found.traffic:
        before, after = found.traffic
        share = 100 * after.moved / max(before.moved, 1)
        text = "%s -> %s a step by static shapes (%.0f%%), casts %s" % (
            size(before.moved),
            size(after.moved),
            share,
            size(after.cast),
        )
        lines.append(("row", labelled("bytes moved", text)))
    elif found.traffic_error:
        lines.append(
            (
                "note",
                labelled(
                    "bytes moved",
                    "unknown: the graph can't be converted: %s" % found.traffic_error,
                ),
            )
        )
    return lines


def _ops(found: Inspection, dtype: str) -> List[Line]:
    """Ops with nodes in half, or suited to it, then the others briefly."""
    rows = [
        (row.op, row.listed, row.half, row.float32, row.reason)
        for row in found.ops
        if row.half or row.listed == "allow"
    ]
    others = [row for row in found.ops if not row.half and row.listed != "allow"]
    names = ", ".join(
        "%s %s" % (row.op, format(row.float32, ","))
        for row in sorted(others, key=lambda row: (-row.float32, row.op))[:MOST]
    )
    lines = section(
        "nodes by op", rows, titles=("op", "list", dtype, "float32", "main reason for float32")
    )
    rest = "%s in float32 alone: %s%s" % (
        plural(len(others), "op"),
        names,
        ", ..." if len(others) > MOST else "",
    )
    return [*lines, ("row", "  " + rest)] if others else lines


def _kept(found: Inspection) -> List[Line]:
    rows = []
    for row in found.kept:
        rest = row.reason.words if row.kind == row.reason.kind else ""
        rows.append((row.kind, row.units, "%s: %s" % (row.node, rest) if rest else row.node))
    return section("kept float32", rows, titles=("kind of reason", "count", "such as"))


def _constants(found: Inspection, dtype: str) -> List[Line]:
    """Constants that keep nodes in float32; the others in one line."""
    rows = [
        ("%g" % row.value, like(row.node, row.nodes), some(row.kept))
        for row in found.constants
        if row.kept
    ]
    idle = [row for row in found.constants if not row.kept]
    heading = "constants that %s can't hold, and what they keep in float32" % dtype
    lines = section(heading, rows, MOST)
    if idle:
        lines = lines or [("row", ""), ("heading", heading)]
        lines.append(
            (
                "row",
                "  without effect, as all their consumers are float32: %s"
                % some([like(row.node, row.nodes) for row in idle]),
            )
        )
    return lines


def _islands(found: Inspection) -> List[Line]:
    """With the reason and the flag below each."""
    rows = [(size(row.bytes), row.op, like(row.node, row.nodes)) for row in found.islands]
    lines = section(
        "float32 between half precision: what the casts around it move, why, and the flag that"
        " changes it",
        rows,
        MOST,
    )
    below = [
        ("row", "      %s; %s" % (row.reason.text, row.flag or "no flag changes it"))
        for row in found.islands[:MOST]
    ]
    return (
        lines[:2]
        + [line for pair in zip(lines[2:], below) for line in pair]
        + lines[2 + len(below) :]
    )


def _shapes(found: Inspection) -> List[Line]:
    rows = [
        (
            ", ".join("%s %d -> %d" % dimension for dimension in row.dimensions),
            row.op,
            like(row.node, row.nodes),
        )
        for row in found.shapes
    ]
    return section(
        "dimensions that are no multiple of 8, as Tensor Cores want them; the most work first",
        rows,
        MOST,
    )


def _next(found: Inspection, name: str) -> str:
    """The next command to try."""
    if any(note["code"] == "GMP022" for note in found.notes):
        original = pathlib.Path(name).parent / ORIGINAL
        return (
            "graphmp inspect %s" % shlex.quote(str(original))
            if original.is_file()
            else "inspect the graph that this one was converted from"
        )
    if found.leave:
        return "nothing to do: a conversion would change no dtype of this graph"
    asked = [row.node for row in found.islands] + [
        row.node for kind in WORTH_ASKING for row in found.kept if row.kind == kind
    ]
    return convert_or_explain(name, asked)
