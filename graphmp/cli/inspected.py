"""Lines that the forms of `graphmp inspect` share."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any, Dict, List, Sequence

from graphmp.cli.tables import Line, show, write
from graphmp.config import Config
from graphmp.wording import labelled


def head(name: str, text: str, notes: Sequence[Dict[str, str]], error: str = "") -> List[Line]:
    """The first lines.

    The graph's name and `text`, special cases, and why it can't be converted.
    """
    lines = [("head", labelled(name.rstrip("/").split("/")[-1], text))]
    lines += [
        note(" ".join(filter(None, (row["code"], row["node"], row["message"])))) for row in notes
    ]
    return [*lines, note("the graph can't be converted: %s" % error)] if error else lines


def note(text: str) -> Line:
    """A line about something unexpected."""
    return ("note", labelled("note", text))


def counted(trains: bool) -> str:
    """The measured part of the graph."""
    return "a training step" if trains else "the whole graph (it has no training step)"


def like(name: str, count: int) -> str:
    """A name, and the number of those that only differ in numbers."""
    return name if count == 1 else "%s (and %s like it)" % (name, format(count - 1, ","))


def convert_or_explain(graph: str, nodes: Sequence[str]) -> str:
    """The next commands: convert a graph, or explain the first of some nodes."""
    quoted = shlex.quote(graph)
    explain = ", or: graphmp explain %s %s" % (quoted, shlex.quote(nodes[0])) if nodes else ""
    return "graphmp convert %s%s" % (quoted, explain)


def end(
    args: argparse.Namespace,
    config: Config,
    schema: str,
    found: Dict[str, Any],
    lines: Sequence[Line],
    following: str,
) -> int:
    """Print the result, as --json or as text, and what to do next. Returns the exit status."""
    if args.json:
        facts = {
            "schema": schema,
            "source": args.graph,
            "compute_dtype": config.compute_dtype,
            "flags": config.as_flags(),
            "next": following,
        }
        write(json.dumps(dict(found, **facts), indent=1, sort_keys=True) + "\n")
    else:
        show([*lines, ("row", ""), ("next", labelled("next", following))])
    return 0
