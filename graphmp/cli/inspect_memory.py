"""`graphmp inspect --memory`: the memory of a training step, before and after a conversion."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Callable, List, Optional, Sequence, Tuple

from graphmp.cli.inspected import convert_or_explain, end, head, like, note
from graphmp.cli.steps import add_step_timeout
from graphmp.cli.tables import Line, section, size
from graphmp.cli.terminal import progress
from graphmp.cli.together import refuse_idle
from graphmp.config import Config
from graphmp.conversion.quiet import quiet_stderr
from graphmp.errors import GraphmpError

if TYPE_CHECKING:
    from graphmp.inspect.memory.comparison import MemoryComparison
    from graphmp.inspect.memory.measured import MeasuredPeaks
    from graphmp.inspect.memory.memory import Memory, Tensor
    from graphmp.policy.policy import Policy

SCHEMA = "graphmp.memory/1"
MOST = 10  # rows of a table of tensors
_TITLES = ("bytes", "share", "dtype", "shape", "tensor", "read in the backward pass by")
_SUMS: Tuple[Tuple[str, Callable[[Memory], int]], ...] = (
    ("activations kept for the backward pass", lambda memory: memory.activations.bytes),
    ("casts of variables kept for it", lambda memory: memory.copies.bytes),
    ("integers and bools kept for it", lambda memory: memory.integers.bytes),
    ("feeds that it reads", lambda memory: memory.feeds.bytes),
    ("peak of what a step makes", lambda memory: memory.peak.bytes),
    ("trained variables", lambda memory: memory.held.weights),
    ("optimizer slots", lambda memory: memory.held.slots),
    ("other variables", lambda memory: memory.held.other_variables),
    ("constants", lambda memory: memory.held.constants),
    ("feeds", lambda memory: memory.held.feeds),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `--memory`."""
    parser.add_argument(
        "--memory",
        action="store_true",
        help=(
            "print what a step keeps in memory instead: activations for the backward pass, the peak"
        ),
    )
    parser.add_argument(
        "--batch_size",
        type=int,
        default=0,
        metavar="N",
        help="with --memory and --wire: unknown dimensions are N, not 32; the rest is inferred",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="with --memory: also measure the peak of both graphs, in two steps on made-up data",
    )
    add_step_timeout(parser)


def check(args: argparse.Namespace) -> None:
    """Refuse flags without effect.

    Raises:
        GraphmpError: GMP002.
    """
    if args.batch_size < 0:
        raise GraphmpError(
            "GMP002", "--batch_size=%d: accepted are numbers above zero" % args.batch_size
        )
    if not args.memory:
        refuse_idle(args, ["measure"], "with --memory")
    if not (args.memory or args.wire):
        refuse_idle(args, ["batch_size"], "with --memory or --wire")
    if sum([args.cost, args.memory, args.policy, args.wire]) > 1:
        raise GraphmpError(
            "GMP002", "--cost, --memory, --policy and --wire: accepted is one of them"
        )


def run(args: argparse.Namespace, config: Config, policy: Policy) -> int:
    """Print the comparison."""
    with quiet_stderr():  # suppress TensorFlow's messages while it is imported
        from graphmp.gate.reading import read_graph
        from graphmp.inspect.explanation import as_json
        from graphmp.inspect.memory.comparison import compare
        from graphmp.inspect.memory.measured import measure
    with progress(4 if args.measure else 3) as begin:
        begin("reading %s" % args.graph)
        original = read_graph(args.graph, args.tag)
        found, converted = compare(original, config, policy, args.batch_size, begin)
        measured = None
        if args.measure:
            begin("running")
            measured = measure(original, converted, config, found.unknown)
    lines = _lines(found, measured, args.graph, config.compute_dtype)
    return end(
        args,
        config,
        SCHEMA,
        dict(as_json(found), measured=as_json(measured)),
        lines,
        _next(found, args),
    )


def _lines(
    found: MemoryComparison, measured: Optional[MeasuredPeaks], name: str, dtype: str
) -> List[Line]:
    last, title = (found.converted, dtype) if found.converted else (found.original, "as it is")
    lines = _head(found, name) + section(
        "memory of a step",
        _sums(found, measured),
        titles=("", "original", dtype, "") if found.converted else ("", "bytes"),
    )
    if measured is not None and measured.error:
        lines.append(note("not measured: %s" % measured.error))
    return [
        *lines,
        *_tensors(
            "kept for the backward pass (%s)" % title,
            last.activations.tensors,
            last.activations.bytes,
            True,
        ),
        *_tensors(
            "alive at the peak, when %s runs (%s)" % (last.peak.node, title),
            last.peak.tensors,
            last.peak.bytes,
            False,
        ),
    ]


def _head(found: MemoryComparison, name: str) -> List[Line]:
    """The measured memory, and the method."""
    from graphmp.graph.shapes.shapes import UNKNOWN_DIMENSION

    as_well = (
        ", and TensorFlow infers others from that" if found.inferred else " (--batch_size=N: as N)"
    )
    text = (
        "by static shapes; unknown dimensions count as %d%s, a while loop as %d iterations where"
        " the graph names no number"
    )
    text %= found.unknown, as_well, UNKNOWN_DIMENSION
    lines = head(name, text, found.notes, found.error)
    if not found.original.trains and any(row["code"] == "GMP105" for row in found.notes):
        lines.append(
            note(
                "no training step was found: nothing is kept for a backward pass; the peak is that"
                " of all results"
            )
        )
    elif not found.original.trains:
        lines.append(
            note("the backward pass lies in functions: what they keep inside is not counted")
        )
    return lines


def _sums(found: MemoryComparison, measured: Optional[MeasuredPeaks]) -> List[Sequence[str]]:
    """The rows of the table: original, converted, and the remaining share."""
    graphs = [found.original] + ([found.converted] if found.converted else [])
    rows = [(label, [value(memory) for memory in graphs]) for label, value in _SUMS]
    peaks = (measured.original, measured.converted)[: len(graphs)] if measured is not None else ()
    for allocator in sorted({allocator for peak in peaks if peak for allocator in peak.allocated}):
        rows.append(
            (
                "peak measured, %s" % allocator,
                [peak.tensors.get(allocator, 0) if peak else 0 for peak in peaks],
            )
        )
        rows.append(
            (
                "with scratch memory of kernels",
                [peak.allocated.get(allocator, 0) if peak else 0 for peak in peaks],
            )
        )
    return [[label, *map(size, sizes), *_share(sizes)] for label, sizes in rows if any(sizes)]


def _share(sizes: Sequence[int]) -> List[str]:
    """The second size as a share of the first; empty if there is only one."""
    return (
        ["%.0f%%" % (100 * sizes[1] / sizes[0]) if sizes[0] and sizes[1] else ""]
        if len(sizes) > 1
        else []
    )


def _tensors(heading: str, tensors: Sequence[Tensor], total: int, with_readers: bool) -> List[Line]:
    """The largest tensors; below each, why it is float32."""
    rows, below = [], []
    for tensor, count in _grouped(tensors)[:MOST]:
        shape = "?" if tensor.shape is None else str(tensor.shape)
        name = like(tensor.tensor, count)
        rows.append(
            (size(tensor.bytes), "%.0f%%" % (100 * tensor.bytes / total), tensor.dtype, shape, name)
            + ((tensor.reader,) if with_readers else ())
        )
        below.append([("row", "      float32: %s" % tensor.reason)] if tensor.reason else [])
    lines = section(
        "%s: %s, the largest" % (heading, size(total)),
        rows,
        titles=_TITLES[: len(rows[0])] if rows else (),
    )
    return lines[:3] + [line for row, why in zip(lines[3:], below) for line in (row, *why)]


def _grouped(tensors: Sequence[Tensor]) -> List[Tuple[Tensor, int]]:
    from graphmp.inspect.alike import grouped

    return grouped(tensors, "dtype", "shape", "reason")


def _next(found: MemoryComparison, args: argparse.Namespace) -> str:
    """The next command to try."""
    graph = shlex.quote(args.graph)
    if found.converted is None:
        return "graphmp inspect %s" % graph
    wide = [tensor for tensor, _ in _grouped(found.converted.activations.tensors) if tensor.reason]
    nodes = [tensor.tensor.split(":")[0] for tensor in wide[:1]]
    measure = "" if args.measure else ", or: graphmp inspect %s --memory --measure" % graph
    return convert_or_explain(args.graph, nodes) + measure
