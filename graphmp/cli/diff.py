"""`graphmp diff`: what differs between two graphs, as diff(1) does for text."""

from __future__ import annotations

import argparse
import json
import pathlib
import traceback
from typing import TYPE_CHECKING, Any, Dict, Optional

from absl import logging

from graphmp.cli.tables import labelled, show, write
from graphmp.cli.terminal import progress
from graphmp.errors import BAD_INPUT, GraphmpError
from graphmp.runtime.quiet import quiet_stderr

if TYPE_CHECKING:
    from graphmp.diff.model import Diff

HELP = "compare two graphs, node by node, and say why each change was made"
EXAMPLE = """  graphmp diff model_graphmp/original.meta model_graphmp/converted.meta
  graphmp diff before.pb after.pbtxt --format=html -o diff.html

A and B are MetaGraphDefs or GraphDefs, binary or text, or SavedModels with one graph. Exit status: 0 the same, 1 different, 2 trouble."""

SAME, DIFFERENT = 0, 1
FORMATS = ("text", "markdown", "json", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the two graphs, the form of the result, where it goes, and the report to join."""
    parser.add_argument("a", metavar="A", help="the original graph")
    parser.add_argument("b", metavar="B", help="the converted graph")
    parser.add_argument("--format", choices=FORMATS, default="text", help="form of the result (default: text)")
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format=json")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the result to FILE and print a summary")
    parser.add_argument(
        "--report", metavar="FILE", help="report.json of the conversion, for the reasons (default: the one beside B, where there is one)"
    )


def run(args: argparse.Namespace) -> int:
    """Compares and prints. Whatever goes wrong, the exit status isn't 1: that says that the graphs differ."""
    try:
        return _run(args)
    except GraphmpError as error:
        raise GraphmpError(error.code, error.message, BAD_INPUT) from error
    except BrokenPipeError:
        raise
    except Exception:  # an exception that reached the interpreter would exit with 1
        traceback.print_exc()
        return BAD_INPUT


def _run(args: argparse.Namespace) -> int:
    with quiet_stderr():  # TensorFlow speaks while it is imported
        from graphmp.diff.compare import compare
        from graphmp.graph.files import read_graph, write_atomic

    report = _report(args)
    with progress(3) as begin:
        begin("reading %s" % args.a)
        before = read_graph(args.a)
        begin("reading %s" % args.b)
        after = read_graph(args.b)
        begin("comparing")
        diff = compare(before, after, report, (args.a, args.b))
    if args.output:
        write_atomic(pathlib.Path(args.output), _rendered(diff, args.format).encode("utf-8"))
        _print_written(diff, args)
    elif args.format == "text":
        _print_text(diff, args)
    else:
        write(_rendered(diff, args.format))
    return SAME if diff.identical else DIFFERENT


def _rendered(diff: Diff, form: str) -> str:
    if form == "json":
        return json.dumps(diff.to_json(), indent=1, sort_keys=True) + "\n"
    return {"text": diff.to_text, "markdown": diff.to_markdown, "html": diff.to_html}[form]()


def _print_text(diff: Diff, args: argparse.Namespace) -> None:
    """All lines, in colour on a terminal."""
    from graphmp.diff.text import lines

    show([*lines(diff), ("blank", ""), ("next", labelled("next", _next(diff, args)))])


def _print_written(diff: Diff, args: argparse.Namespace) -> None:
    from graphmp.diff.text import summary

    rows = [("diff", summary(diff)), ("wrote", args.output), ("next", "open %s" % args.output)]
    write("".join(labelled(*row) + "\n" for row in rows))


def _next(diff: Diff, args: argparse.Namespace) -> str:
    if diff.identical:
        return "nothing to do: %s and %s are the same graph" % (args.a, args.b)
    if diff.unexplained:
        return "graphmp convert the source again: the report does not explain these graphs"
    return "graphmp diff %s %s --format=html -o diff.html" % (args.a, args.b)


def _report(args: argparse.Namespace) -> Optional[Dict[str, Any]]:
    """The report that was named, else the one beside B; a file of that name that is no report of graphmp's is passed over."""
    path = pathlib.Path(args.report) if args.report else pathlib.Path(args.b).parent / "report.json"
    try:
        return _read_report(path)
    except GraphmpError as error:
        if args.report:
            raise
        if path.exists():
            logging.warning("no reasons: %s", error.message)
        return None


def _read_report(path: pathlib.Path) -> Dict[str, Any]:
    """Raises GMP003 if it can't be read, GMP002 if it is no report."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GraphmpError("GMP003", "%s: %s" % (path, error.strerror or error)) from None
    except ValueError as error:
        raise GraphmpError("GMP002", "--report=%s: not JSON (%s); accepted is the report.json of a conversion" % (path, error)) from None
    rows = report.get("changes") if isinstance(report, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and isinstance(row.get("node"), str) for row in rows):
        raise GraphmpError("GMP002", '--report=%s: no list "changes" of nodes with reasons; accepted is the report.json of a conversion' % path)
    return dict(report)
