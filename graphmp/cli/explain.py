"""`graphmp explain`: why a node has its dtype, or the meaning of an error or warning code."""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from absl import logging

from graphmp.cli.flags import conversion_flags, options_of
from graphmp.cli.reports import report_beside
from graphmp.cli.sources import add_tag
from graphmp.cli.tables import Line, section, show
from graphmp.cli.terminal import progress
from graphmp.cli.together import refuse_idle
from graphmp.config import Config
from graphmp.conversion.contents import ORIGINAL
from graphmp.conversion.quiet import quiet_stderr
from graphmp.errors import CODES, GraphmpError
from graphmp.version import __version__
from graphmp.wording import labelled, plural

if TYPE_CHECKING:
    from graphmp.inspect.alternatives import Flag
    from graphmp.inspect.explanation import Explanation, Link, UnitExplanation

HELP = (
    "say why a node has its dtype and which flag changes that, or what an error or warning code"
    " means"
)
EXAMPLE = """  graphmp explain model.ckpt.meta dense/BiasAdd
  graphmp explain model_graphmp/converted.meta dense/kernel/read_graphmp_float16
  graphmp explain GMP012

GRAPH is an original with the flags of a conversion, or a converted graph: then original.meta beside
it is explained, with the flags of its conversion. A node in a function is library/FUNCTION/NODE."""
FLAGS = conversion_flags()
EVERYDAY = ("compute_dtype", "loss_scale", "keep_float32", "op_policy", "engine", "json")

SCHEMA = "graphmp.explain/1"
_CODE = re.compile(r"^GMP\d+$", re.IGNORECASE)


class Answer(NamedTuple):
    """An explanation, notes on how it was found, and what to do next."""

    explanation: Explanation
    notes: List[str]
    following: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the graph and the node, or the code, and the output format."""
    parser.add_argument(
        "graph",
        metavar="GRAPH|CODE",
        help="a graph, original or converted; or a code such as GMP012",
    )
    parser.add_argument("node", metavar="NODE", nargs="?", help="a node of the graph, or a tensor")
    add_tag(parser)
    parser.add_argument("--json", action="store_true", help="print it for machines")


def run(args: argparse.Namespace) -> int:
    """Explain a code, or a node of a graph."""
    if args.node is None:
        return _code(args)
    with quiet_stderr():  # suppress TensorFlow's messages while it is imported
        from graphmp.gate.reading import read_graph
        from graphmp.graph.edit.mark import read_mark
        from graphmp.inspect.explanation import as_json, refuse_missing_tensor

    with progress(2) as begin:
        begin("reading %s" % args.graph)
        graph = read_graph(args.graph, args.tag)
        begin("explaining")
        refuse_missing_tensor(graph, args.node)
        mark = read_mark(graph)
        answer = _of_original(graph, args) if mark is None else _of_converted(graph, mark, args)
    if args.json:
        value = dict(
            as_json(answer.explanation),
            schema=SCHEMA,
            graph=args.graph,
            notes=answer.notes,
            next=answer.following,
        )
        sys.stdout.write(json.dumps(value, indent=1, sort_keys=True) + "\n")
    else:
        show([*_lines(answer), ("next", labelled("next", answer.following))])
    return 0


def _code(args: argparse.Namespace) -> int:
    """Print a row of the table of codes."""
    refuse_idle(args, ["tag"], "with a graph")
    if _given():
        text = "%s: accepted only with a graph; a code takes no flags of a conversion"
        raise GraphmpError("GMP002", text % ", ".join(_given()))
    name = args.graph.upper()
    code = CODES.get(name)
    if code is None and not _CODE.match(name):
        raise GraphmpError(
            "GMP001",
            "graphmp explain %s: NODE is missing, or a code such as GMP012; see `graphmp explain"
            " --help`" % args.graph,
        )
    if code is None:
        raise GraphmpError(
            "GMP002",
            "explain %s: no such code; accepted are %s to %s, with gaps between"
            % (args.graph, min(CODES), max(CODES)),
        )
    if args.json:
        sys.stdout.write(json.dumps(dict(code._asdict(), code=name), sort_keys=True) + "\n")
        return 0
    kind = "warning" if code.exit_status == 0 else "error, exit status %d" % code.exit_status
    print("%s (%s)\n  %s\n  cure: %s" % (name, kind, code.meaning, code.cure))
    return 0


def _of_original(graph: Any, args: argparse.Namespace) -> Answer:
    """Explain a node by the flags of the command line."""
    from graphmp.inspect.explanation import explain
    from graphmp.inspect.overview import recognised
    from graphmp.policy import policy as policies

    given = Config.make(**options_of(FLAGS)).flagfile_lines()
    config = Config.make(**options_of(FLAGS))
    policy = policies.load(config.compute_dtype, config.op_policy)
    special = recognised(graph, config, policy)
    notes = [
        "%s %s" % (row["code"], row["message"])
        for row in special.warnings
        if special.leave and row["code"] in ("GMP022", "GMP108")
    ]
    found = explain(graph, config, policy, args.node)
    return Answer(found, notes, _next(found, args.graph, args.graph, given))


def _of_converted(graph: Any, mark: Dict[str, Any], args: argparse.Namespace) -> Answer:
    """Explain a node by the original and the conversion's flags, else by the report.

    Both are beside the graph.
    """
    from graphmp.inspect.explanation import explain_by_report

    _refuse_flags(args.graph)
    folder = pathlib.Path(args.graph).parent
    original = folder / ORIGINAL
    report = _report(args.graph)
    if mark.get("engine") != "recipe" and original.is_file():
        return _beside(graph, mark, args, str(original), report)
    why = (
        "by the recipe, which works while the graph is being built"
        if mark.get("engine") == "recipe"
        else "and %s is not there" % original
    )
    note = "a converted graph, %s: %s" % (
        why,
        "explained by report.json beside it" if report else "nor is there a report.json beside it",
    )
    following = "graphmp diff %s %s" % (shlex.quote(str(original)), shlex.quote(args.graph))
    found = explain_by_report(graph, report, args.node)
    if not original.is_file():
        return Answer(found, [note], "explain the graph that this one was converted from")
    if mark.get("engine") == "recipe":
        found, command = _with_flags(found, graph, mark, str(original), report)
        following = command or following
    return Answer(found, [note], following)


def _with_flags(
    found: Explanation,
    graph: Any,
    mark: Dict[str, Any],
    original: str,
    report: Optional[Dict[str, Any]],
) -> Tuple[Explanation, str]:
    """The recipe's decision on a node, the flags that change it, and a command with the first one.

    Empty without such flags.
    """
    from graphmp.gate.reading import read_graph
    from graphmp.inspect.explanation import UnitExplanation
    from graphmp.inspect.recipe_flags import recipe_flags
    from graphmp.policy import policy as policies

    config = _config_of(mark)
    policy = policies.load(config.compute_dtype, config.op_policy)
    flags = tuple(recipe_flags(found.node, graph, read_graph(original), report, config, policy))
    if not flags or report is None or "source" not in report:
        return found, ""
    dtype = config.compute_dtype if flags[0].text.startswith("--keep_float32") else "float32"
    reason = found.changes[-1]["reason"] if found.changes else "as the build function made it"
    rule = (
        "the recipe makes what follows the inputs of the build function half precision, by the op"
        " policy, up to the loss"
    )
    found = found._replace(
        units=(UnitExplanation("dtype", dtype, reason, rule, [], [], list(flags)),)
    )
    return found, " ".join(
        [
            "graphmp convert",
            shlex.quote(report["source"]),
            *map(shlex.quote, config.flagfile_lines()),
            flags[0].text,
        ]
    )


def _config_of(mark: Dict[str, Any]) -> Config:
    """The options of a conversion; Python-only values are <text> in the mark."""
    fields = Config.__dataclass_fields__
    return Config.make(
        **{
            name: value
            for name, value in mark["flags"].items()
            if name in fields and not str(value).startswith("<")
        }
    )


def _beside(
    graph: Any,
    mark: Dict[str, Any],
    args: argparse.Namespace,
    original: str,
    report: Optional[Dict[str, Any]],
) -> Answer:
    """Explain a node of a converted graph by its original."""
    from graphmp.gate.reading import read_graph
    from graphmp.inspect.explanation import explain, explain_by_report, named, ops_by_path
    from graphmp.policy import policy as policies

    config = _config_of(mark)
    notes = [
        "a converted graph: explained by %s beside it and the flags of its conversion" % original
    ]
    if mark.get("graphmp_version") != __version__:
        notes.append(
            "converted by graphmp %s, explained by the rules of %s"
            % (mark.get("graphmp_version"), __version__)
        )
    try:
        found = explain(
            read_graph(original),
            config,
            policies.load(config.compute_dtype, config.op_policy),
            args.node,
        )
    except GraphmpError as error:
        if error.code != "GMP002" or named(args.node) not in ops_by_path(graph):
            raise
        found = explain_by_report(graph, report, args.node)  # like a node of the loss scale
    return Answer(found, notes, _next(found, args.graph, original, config.flagfile_lines()))


def _given() -> List[str]:
    """The conversion flags on the command line."""
    return sorted("--%s" % name for name in FLAGS if FLAGS[name].present)


def _refuse_flags(path: str) -> None:
    if _given():
        text = (
            "%s: %s is a converted graph, explained by the flags of its conversion; give the"
            " original to try others"
        )
        raise GraphmpError("GMP002", text % (", ".join(_given()), path))


def _report(graph: str) -> Optional[Dict[str, Any]]:
    """The report beside a graph; None, and a warning, if it can't be read."""
    try:
        return report_beside(graph)
    except GraphmpError as error:
        logging.warning("no reasons: %s", error.message)
        return None


def _lines(answer: Answer) -> List[Line]:
    found = answer.explanation
    lines: List[Line] = [("head", labelled(found.op, found.node))]
    lines += [("note", labelled("note", note)) for note in answer.notes]
    if found.note:
        lines.append(("row", labelled("why", found.note)))
    for unit in found.units:
        lines += _unit(unit)
    lines += _links("of", [found.producer] if found.producer else [])
    lines += _links("read by", found.readers)
    lines += section(
        "changed by the conversion", [(row["change"], row["reason"]) for row in found.changes]
    )
    return [*lines, ("row", "")]


def _unit(unit: UnitExplanation) -> List[Line]:
    return [
        ("row", ""),
        ("row", labelled(unit.attribute, "%s, %s" % (unit.dtype, unit.reason))),
        ("row", labelled("rule", unit.rule)),
        *_links("led to it, from its source", unit.chain if len(unit.chain) > 1 else []),
        *_links("and on to", unit.ahead),
        *_flags(unit.flags),
    ]


def _flags(flags: Sequence[Flag]) -> List[Line]:
    texts = ["%s (%s)" % (flag.text, "; ".join(_effects(flag))) for flag in flags] or [
        "none changes it"
    ]
    return [("row", labelled("" if i else "flag", text)) for i, text in enumerate(texts)]


def _effects(flag: Flag) -> Iterator[str]:
    if flag.nodes:
        yield "changes " + plural(flag.nodes, "node")
    if flag.remark:
        yield flag.remark


def _links(heading: str, links: Sequence[Link]) -> List[Line]:
    return section(heading, links)[1:]


def _next(found: Explanation, path: str, original: str, flags: List[str]) -> str:
    """The next command to try: the first working flag, or the node behind an inserted one."""
    if found.producer is not None:
        return "graphmp explain %s %s" % (shlex.quote(path), shlex.quote(found.producer.node))
    option = next(
        (
            flag.text
            for unit in found.units
            for flag in unit.flags
            if flag.option and not flag.remark
        ),
        None,
    )
    if option is None:
        return "graphmp inspect %s" % shlex.quote(original)
    return " ".join(["graphmp convert", shlex.quote(original), *map(shlex.quote, flags), option])
