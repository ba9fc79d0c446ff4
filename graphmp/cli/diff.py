"""`graphmp diff`: the differences between two graphs, as diff(1) shows them for text."""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Tuple

from absl import logging

from graphmp.cli.reports import read_report, report_beside
from graphmp.cli.tables import show, write
from graphmp.cli.terminal import progress
from graphmp.cli.together import refuse_idle
from graphmp.conversion.contents import REPORT
from graphmp.conversion.quiet import quiet_stderr
from graphmp.errors import BAD_INPUT, GraphmpError
from graphmp.files.outputs import check_file, check_folder
from graphmp.files.single import write_atomic
from graphmp.wording import labelled, shell_word

if TYPE_CHECKING:
    from graphmp.compare.api import Diff

HELP = "compare two graphs, node by node, and say why each change was made"
EXAMPLE = """  graphmp diff model_graphmp/original.meta model_graphmp/converted.meta
  graphmp diff --check model_graphmp/original.meta model_graphmp/converted.meta     for CI
  graphmp diff before.pb after.pbtxt --format=html -o diff.html
  graphmp diff A B --format=dot --node=dense/MatMul | dot -Tsvg > dense.svg
  graphmp diff A B --format=model-explorer -o folder && python folder/open.py

A and B are MetaGraphDefs or GraphDefs, binary or text, or SavedModels with one
graph. Exit status: 0 the same, 1 different, 2 trouble; with --check 0 if every
difference is explained and every claim is proved or not applicable."""

SAME, DIFFERENT = 0, 1
FORMATS = ("text", "markdown", "json", "html", "model-explorer", "dot")
FOLDER = "model-explorer"  # the only format with several files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two graphs, the form and place of the result, and the report to join."""
    parser.add_argument("a", metavar="A", help="the original graph")
    parser.add_argument("b", metavar="B", help="the converted graph")
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="form of the result (default: text)"
    )
    parser.add_argument(
        "--json",
        dest="format",
        action="store_const",
        const="json",
        help="the same as --format=json",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the result to FILE, or a folder for model-explorer, and print a summary",
    )
    parser.add_argument(
        "--all", action="store_true", help="text, markdown: every check, and a line for each change"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit 0 if each difference has a reason and each claim is proved or not applicable,"
        " else 1",
    )
    parser.add_argument(
        "--node", metavar="NAME", help="dot: the node whose neighbourhood is drawn, on both sides"
    )
    parser.add_argument(
        "--depth",
        metavar="N",
        type=int,
        default=2,
        help="dot: radius of the neighbourhood in edges (default: 2)",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help=(
            "report.json of the conversion, for the reasons (default: the one beside B, where there"
            " is one)"
        ),
    )


def run(args: argparse.Namespace) -> int:
    """Compare and print. Errors never have exit status 1, which means that the graphs differ."""
    try:
        return _run(args)
    except GraphmpError as error:
        raise GraphmpError(error.code, error.message, BAD_INPUT) from error


def _run(args: argparse.Namespace) -> int:
    with quiet_stderr():  # suppress TensorFlow's messages while it is imported
        from graphmp.compare.api import compare
        from graphmp.gate.reading import read_graph
        from graphmp.graph.io.stored import stored

    _check_usage(args)
    report = _report(args)
    _check_output(args)
    with progress(3) as begin:
        begin("reading %s" % args.a)
        before = stored(read_graph(args.a))
        begin("reading %s" % args.b)
        after = stored(read_graph(args.b))
        begin("comparing")
        diff = compare(before, after, report, (args.a, args.b))
    if args.output and args.format == FOLDER:
        opener = diff.to_model_explorer(args.output)
        _print_written(diff, args, opener)
    elif args.output:
        write_atomic(pathlib.Path(args.output), _rendered(diff, args).encode("utf-8"))
        _print_written(
            diff, args, ("open %s" if args.format == "html" else "read %s") % args.output
        )
    elif args.format == "text":
        _print_text(diff, args)
    else:
        write(_rendered(diff, args))
    if args.check:
        return SAME if _passes(diff) else DIFFERENT
    return SAME if diff.identical else DIFFERENT


def _check_usage(args: argparse.Namespace) -> None:
    if args.format == FOLDER and not args.output:
        raise GraphmpError(
            "GMP001", "--format=model-explorer makes a folder of files: say which with -o FOLDER"
        )
    if (args.format == "dot") != bool(args.node):
        raise GraphmpError(
            "GMP001", "--format=dot and --node=NAME go together: one node's neighbourhood is drawn"
        )
    if args.format != "dot":
        refuse_idle(args, ["depth"], "with --format=dot")
    if args.format not in ("text", "markdown"):
        refuse_idle(args, ["all"], "with --format=text or markdown")
    if args.depth < 1:
        raise GraphmpError("GMP001", "--depth=%d: accepted is 1 or more" % args.depth)


def _check_output(args: argparse.Namespace) -> None:
    """Refuse, before the graphs are read, an output that can't be written or replaces an input."""
    if not args.output:
        return
    inputs = [args.a, args.b, args.report or str(pathlib.Path(args.b).parent / REPORT)]
    if args.format == FOLDER:
        check_folder(pathlib.Path(args.output), (), inputs)
    else:
        check_file(pathlib.Path(args.output), inputs)


def _passes(diff: Diff) -> bool:
    """Whether every claim is proved and every difference explained, which needs a report."""
    return not diff.failed and (diff.identical or diff.has_report)


def _rendered(diff: Diff, args: argparse.Namespace) -> str:
    if args.format == "json":
        return json.dumps(diff.to_json(), indent=1, sort_keys=True) + "\n"
    if args.format == "dot":
        return diff.to_dot(args.node, args.depth)
    if args.format == "html":
        return diff.to_html()
    return {"text": diff.to_text, "markdown": diff.to_markdown}[args.format](args.all)


def _print_text(diff: Diff, args: argparse.Namespace) -> None:
    """The lines, in colour on a terminal; with --check, but without --all, the decisive ones."""
    from graphmp.compare.render.text import check_lines, lines

    found = check_lines(diff) if args.check and not args.all else lines(diff, args.all)
    verdict = [
        ("blank", ""),
        *((kind, labelled("check", text)) for kind, text in _verdict(diff, args)),
    ]
    show([*found, *verdict, ("next", labelled("next", _next(diff, args)))])


def _print_written(diff: Diff, args: argparse.Namespace, opener: str) -> None:
    from graphmp.compare.render.text import summary

    verdict = [("check", text) for _, text in _verdict(diff, args)]
    rows = [("diff", summary(diff)), *verdict, ("wrote", args.output), ("next", opener)]
    show(("row", labelled(*row)) for row in rows)


def _verdict(diff: Diff, args: argparse.Namespace) -> Iterator[Tuple[str, str]]:
    """The result of --check: a style, and words."""
    if args.check and _passes(diff):
        yield (
            "passed",
            (
                "passed: every difference is explained, every claim is proved"
                if diff.changes
                else "passed: no difference"
            ),
        )
    elif args.check:
        yield (
            "failed",
            "failed: %s"
            % (
                ", ".join(check.name for check in diff.failed)
                or "no report explains the differences"
            ),
        )


def _next(diff: Diff, args: argparse.Namespace) -> str:
    if diff.identical and not diff.stale:
        return "nothing to do: %s and %s are the same graph" % (args.a, args.b)
    if diff.identical and diff.stale:
        return (
            "the report is of another conversion: name the one of these graphs with --report=FILE"
        )
    if diff.unexplained or diff.stale:
        return "graphmp convert the source again: the report does not explain these graphs"
    graphs = shell_word(args.a), shell_word(args.b)
    if args.check and not diff.has_report:
        text = "graphmp diff --check %s %s --report=FILE, the report.json of the conversion"
        return text % graphs
    return "graphmp diff %s %s --format=html -o diff.html" % graphs


def _report(args: argparse.Namespace) -> Optional[Dict[str, Any]]:
    """The given report, else the one beside B, unless that isn't one of graphmp's."""
    if args.report:
        return read_report(args.report, "--report=")
    try:
        return report_beside(args.b)
    except GraphmpError as error:
        if args.check:
            raise
        logging.warning("no reasons: %s", error.message)
        return None
