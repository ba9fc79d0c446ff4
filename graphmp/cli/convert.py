"""`graphmp convert`: a Python file to a mixed-precision graph."""

from __future__ import annotations

import argparse
import pathlib
import sys

from graphmp.cli.flags import conversion_flags, options_of
from graphmp.cli.summary import summary
from graphmp.cli.terminal import progress
from graphmp.runtime.files import check_writable
from graphmp.runtime.quiet import quiet_stderr
from graphmp.runtime.source import LEGACY_IMPORTS, parse_source

HELP = "convert the training graph that a Python file builds to mixed precision"
EXAMPLE = """  graphmp convert examples/simple_cnn.py
  graphmp convert train.py:build_model --loss_scale=128 --clip_norm=5 -o out -- --batch_size 64
  graphmp convert net.py:build --input images=float32[?,224,224,3] --input labels=int32[?] --arg classes=1000

What stands behind `--` is the file's own command line. The file is run twice up to its first training step, once as
it is and once converted; no step is trained."""
FLAGS = conversion_flags()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what the command takes besides the conversion flags."""
    parser.add_argument("source", metavar="SOURCE", help="model.py, or model.py:FUNCTION (default function: build_training_model)")
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="folder for original.meta, converted.meta, report.json, diff.html, flags.txt (default: SOURCE_graphmp)"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=DTYPE[SHAPE]",
        help="tensor argument of a build function that the file never calls; ? is an unknown dimension",
    )
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="other argument of a build function that the file never calls"
    )
    parser.add_argument(
        "--legacy_imports",
        default="auto",
        choices=LEGACY_IMPORTS,
        help="make `import tensorflow` mean tensorflow.compat.v1, with tf.contrib (default: where the file needs it)",
    )
    parser.add_argument("--json", action="store_true", help="print report.json instead of the summary")


def run(args: argparse.Namespace) -> int:
    """Converts, writes the files, prints the summary or the report."""
    parsed = parse_source(args.source)
    folder = pathlib.Path(args.output or default_output(str(parsed.path)))
    check_writable(folder)
    with quiet_stderr():  # TensorFlow 2.21 says things while it is imported, whatever its log level
        from graphmp.report.report import to_json
        from graphmp.runtime.convert import convert

    def log(text: str) -> None:
        if args.verbosity > 0:
            sys.stderr.write(text)

    with progress(3) as begin:
        conversion = convert(
            args.source,
            arguments=args.script_arguments,
            inputs=args.input,
            args=args.arg,
            legacy_imports=args.legacy_imports,
            progress=begin,
            log=log,
            **options_of(FLAGS),
        )
    written = conversion.save(folder)
    if args.json:
        sys.stdout.write(to_json(conversion.report))
        return 0
    for line in summary(conversion.report, written, next_command(folder)):
        print(line)
    return 0


def default_output(source: str) -> str:
    """`model.py` goes to `model_graphmp`."""
    return str(pathlib.Path(source).with_suffix("")) + "_graphmp"


def next_command(folder: pathlib.Path) -> str:
    """What a user would try next."""
    return "open %s, or: graphmp diff %s %s" % (folder / "diff.html", folder / "original.meta", folder / "converted.meta")
