"""`graphmp audit`: the effect of half precision on a model's values, and the repair."""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import TYPE_CHECKING, Any, Dict

from graphmp.audit.options import AuditOptions
from graphmp.cli.flags import conversion_flags, options_of
from graphmp.cli.sources import add_source, convert_source, input_files, say_what_is_amiss
from graphmp.cli.steps import add_steps, options_of_steps
from graphmp.cli.tables import show, write
from graphmp.cli.terminal import counter, progress
from graphmp.config import Config
from graphmp.conversion.quiet import quiet_stderr
from graphmp.errors import GraphmpError
from graphmp.files.outputs import check_file
from graphmp.files.reading import read_text
from graphmp.files.single import write_atomic
from graphmp.wording import printable

if TYPE_CHECKING:
    from graphmp.audit.audit import Audit
    from graphmp.conversion.conversion import Conversion

HELP = (
    "run a training graph and its conversion on the same batches: overflow, underflow and error per"
    " tensor, loss-scale advice, repair"
)
EXAMPLE = """  graphmp audit model.ckpt.meta --data batches.npz
  graphmp audit model.py --data feeds.py:batches --steps 100 --html audit.html
  graphmp audit model.ckpt.meta --random_data --fix model.policy
  graphmp convert model.ckpt.meta --op_policy=model.policy

An .npz file has arrays by placeholder name: with one more axis than the placeholder, one batch
for each step, else examples that are split into batches. A function returns an iterable of
dictionaries by placeholder name, or takes the number of a step and returns one. Random data
suits the use of each placeholder. The original trains; the converted graph's step is computed
beside it, with the same variables, batches and random numbers. Exit status: 0 the graphs agree,
1 they don't (with --fix: could not be made to), 2 bad input."""
FLAGS = conversion_flags()
EVERYDAY = ("data", "random_data", "fix", "html", "compute_dtype", "steps")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command, besides the conversion flags."""
    add_source(parser)
    add_steps(parser, required=True, steps=20, note="; at most ten of them are measured")
    parser.add_argument(
        "--fix",
        default="",
        metavar="FILE",
        help="find the nodes to keep in float32; write them into this policy file",
    )
    parser.add_argument(
        "--html", default="", metavar="FILE", help="write a page with the histograms"
    )
    parser.add_argument(
        "-o",
        "--output",
        default="",
        metavar="FILE",
        help="write the JSON here; `graphmp convert --ranges=FILE` reads it",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Audit, write the files, print the findings; with --fix repair."""
    _check_outputs(args)
    options = options_of_steps(args)
    with quiet_stderr():  # suppress TensorFlow's messages while it is imported
        from graphmp.audit.run import audit
        from graphmp.report.training import not_compared
    with progress(3) as begin:
        conversion = convert_source(args, options_for_graphs(), begin)
    say_what_is_amiss(conversion)
    left_out = not_compared(conversion.report["losses"])
    if left_out:
        sys.stderr.write("graphmp: %s\n" % printable(left_out))
    with counter("steps", args.steps) as done:
        found = audit(conversion, options, args.tolerance, done)
    present(args, found)
    if args.fix and not found.agrees:
        return repair(args, conversion, found, options)
    return int(not found.agrees)


def _check_outputs(args: argparse.Namespace) -> None:
    """Refuse outputs that can't be written, or that would replace an input or each other.

    The repair may extend the policy file that it starts from.
    """
    outputs = [name for name in (args.fix, args.html, args.output) if name]
    options = options_of(FLAGS)
    for number, name in enumerate(outputs):
        read = dict(options, op_policy="") if name == args.fix else options
        check_file(pathlib.Path(name), [*input_files(args, read), *outputs[:number]])


def repair(
    args: argparse.Namespace, conversion: Conversion, found: Audit, options: AuditOptions
) -> int:
    """Search for nodes to keep in float32, write them, if any, to the policy file, and print."""
    from graphmp.audit.repair.fix import Fixer

    config = Config.make(**options_for_graphs())
    with counter("conversions tried", None) as done:
        result = Fixer(conversion, config, options, args.tolerance, done).repair(found)
    if result.rules and result.passes:
        text = _own_lines(config.op_policy) + result.policy_lines()
        write_atomic(pathlib.Path(args.fix), text.encode("utf-8"))
    asked = Config.make(**options_of(FLAGS)).flagfile_lines()
    write(result.to_text(args.fix, args.source, asked))
    return int(not result.passes)


def _own_lines(policy: str) -> str:
    """The lines of a policy file, the last one ended too; empty without a file."""
    text = read_text(policy) if policy else ""
    return text + "\n" if text and not text.endswith("\n") else text


def options_for_graphs() -> Dict[str, Any]:
    """The conversion flags. Nodes are compared by name, which the rewrite keeps."""
    options = options_of(FLAGS)
    if options["engine"] == "recipe":
        raise GraphmpError(
            "GMP020",
            "--engine=recipe: audit compares node by node, and accepts auto and rewrite, which keep"
            " their names",
        )
    if options["compute_dtype"] == "float32":
        raise GraphmpError(
            "GMP020",
            "--compute_dtype=float32: audit compares half precision with float32, and accepts"
            " float16 and bfloat16",
        )
    return dict(options, engine="rewrite")


def present(args: argparse.Namespace, found: Audit) -> None:
    """Write the requested files and print the findings."""
    from graphmp.audit.render import html, text

    for name, render in ((args.output, found.to_json), (args.html, lambda: html.render(found))):
        if name:
            write_atomic(pathlib.Path(name), render().encode("utf-8"))
    if args.json:
        sys.stdout.write(found.to_json())
    else:
        lines = text.lines(found, ascii_only=not text.can_draw(sys.stdout.encoding or "utf-8"))
        repairs = args.fix and not found.agrees  # the repair prints its own next command
        show(line for line in lines if not (repairs and line.kind == text.NEXT))
