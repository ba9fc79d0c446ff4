"""SOURCE on the command line: a graph, or a Python file that builds one, and its conversion."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List

from graphmp.cli.misplaced import misplaced
from graphmp.cli.together import refuse_idle
from graphmp.conversion.source import LEGACY_IMPORTS, names_a_graph
from graphmp.time_limit import SCRIPT_SECONDS
from graphmp.wording import printable

if TYPE_CHECKING:
    from graphmp.conversion.conversion import Conversion

_OF_FILES = ("input", "arg", "legacy_imports")


def add_tag(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses a graph of a SavedModel."""
    parser.add_argument(
        "--tag",
        default="",
        metavar="TAGS",
        help="tag set of a SavedModel with several graphs, such as train or serve,gpu",
    )


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add SOURCE, and the options for reading a Python file or SavedModel."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help=(
            "a graph (.meta, .pb, .pbtxt, a SavedModel), model.py, or model.py:FUNCTION (default:"
            " build_training_model)"
        ),
    )
    parser.add_argument(
        "--python",
        action="store_true",
        help="run SOURCE as a Python file, whatever its name (default: .py, or `#!` with a python)",
    )
    add_tag(parser)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=DTYPE[SHAPE]",
        help=(
            "tensor argument of a build function that the file never calls; ? is an unknown"
            " dimension"
        ),
    )
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="other argument of a build function that the file never calls",
    )
    parser.add_argument(
        "--legacy_imports",
        default="auto",
        choices=LEGACY_IMPORTS,
        help=(
            "make `import tensorflow` mean tensorflow.compat.v1, with tf.contrib (default: where"
            " the file needs it; strict: so, and a name of contrib that nothing serves stops at its"
            " import)"
        ),
    )
    parser.add_argument(
        "--script_timeout",
        type=float,
        default=SCRIPT_SECONDS,
        metavar="SECONDS",
        help="time for a Python file to come to its first training step (default %.0f)"
        % SCRIPT_SECONDS,
    )


def source_files(args: argparse.Namespace) -> List[str]:
    """Names that the SOURCE may have as a file, whether or not it ends in `:FUNCTION`."""
    return _files_of(args.source)


def takes_python(args: argparse.Namespace) -> bool:
    """Whether a command has a SOURCE that is run as a Python file."""
    return hasattr(args, "source") and not names_a_graph(args.source, args.python)


def input_files(args: argparse.Namespace, options: Dict[str, Any]) -> List[str]:
    """Names of all files that a command with SOURCE and --data reads; some may be empty.

    Args:
        args: parsed by a parser with `add_source` and --data.
        options: the conversion flags.
    """
    named = [options[name] for name in ("op_policy", "ranges", "costs")]
    return [*source_files(args), *_files_of(args.data), *named]


def _files_of(text: str) -> List[str]:
    return [text, text.rpartition(":")[0]]


def convert_source(
    args: argparse.Namespace, options: Dict[str, Any], begin: Callable[[str], None]
) -> Conversion:
    """Convert the SOURCE of the command line.

    Args:
        args: parsed by a parser with `add_source`.
        options: fields of `graphmp.config.Config`.
        begin: receives each stage as it begins.
    """
    from graphmp.conversion.convert import convert

    if not takes_python(args):
        refuse_idle(args, _OF_FILES, "with a Python file")
    script = args.source if args.source.endswith(".py") else args.source.rpartition(":")[0]
    for note in misplaced(
        script, args.script_arguments, [*options, "legacy_imports"], "before `--`"
    ):
        sys.stderr.write("graphmp: %s\n" % printable(note))

    def log(text: str) -> None:
        if args.verbosity > 0:
            sys.stderr.write(text)

    return convert(
        args.source,
        tag=args.tag,
        python=args.python,
        arguments=args.script_arguments,
        inputs=args.input,
        args=args.arg,
        legacy_imports=args.legacy_imports,
        script_timeout=args.script_timeout,
        progress=begin,
        log=log,
        **options,
    )


def say_what_is_amiss(conversion: Conversion) -> None:
    """Print warnings to stderr, for a command that doesn't print the report.

    They are about missing half precision, rules without matches, and other options.
    """
    for row in conversion.report["warnings"]:
        if row["code"] in ("GMP120", "GMP121", "GMP123"):
            sys.stderr.write(
                "graphmp: warning %s: %s\n"
                % (row["code"], printable(" ".join(filter(None, (row["node"], row["message"])))))
            )
