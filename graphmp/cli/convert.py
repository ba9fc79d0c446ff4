"""`graphmp convert`: a graph, or a Python file that builds one, to a mixed-precision graph."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any, Dict

from graphmp.audit.options import AuditOptions
from graphmp.cli.flags import conversion_flags, options_of
from graphmp.cli.sources import add_source, convert_source, input_files, source_files
from graphmp.cli.steps import STEPS, TOLERANCE, add_step_timeout
from graphmp.cli.summary import summary
from graphmp.cli.tables import show, write
from graphmp.cli.terminal import progress
from graphmp.cli.verify import as_json as proof_as_json
from graphmp.cli.verify import claim_lines
from graphmp.conversion.contents import CONVERTED, FILES, ORIGINAL, PAGE
from graphmp.conversion.quiet import quiet_stderr
from graphmp.errors import GraphmpError
from graphmp.files.outputs import check_folder, refuse_inputs
from graphmp.files.reading import read_bytes
from graphmp.wording import labelled, printable, shell_word

if TYPE_CHECKING:
    from graphmp.conversion.conversion import Conversion
    from graphmp.verify.proof import Proof

HELP = "convert a training graph, or the one that a Python file builds, to mixed precision"
EXAMPLE = """  graphmp convert model.ckpt.meta --compute_dtype=bfloat16
  graphmp convert exported/ --tag=train -o out
  graphmp convert examples/simple_cnn.py
  graphmp convert model.ckpt.meta --verify
  graphmp convert train.py:build_model --loss_scale=128 --clip_norm=5 -o out -- --batch_size 64
  graphmp convert net.py:build --input images=float32[?,32,32,3] --input labels=int32[?] --arg n=10

The arguments after `--` are a Python file's own command line. The file is run up to its first
training step, once unchanged and once converted; no step is trained. Exit status: 0 converted, 1
it can't be converted (with --check: DIR is out of date; with --verify: the conversion is not
proved), 2 bad input."""
FLAGS = conversion_flags()
EVERYDAY = ("output", "compute_dtype", "loss_scale", "clip_norm", "keep_float32", "check")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command, besides the conversion flags."""
    add_source(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help=(
            "folder for original.meta, converted.meta, report.json, diff.html, flags.txt (default:"
            " SOURCE_graphmp)"
        ),
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit 1 unless DIR holds what SOURCE gives today",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help=("then prove and run the result, like `graphmp verify`; exit 1 unless it is proved"),
    )
    parser.add_argument(
        "--data",
        default="",
        metavar="FEEDS",
        help="with --verify: batches, an .npz file or file.py:FUNCTION (default: made-up ones)",
    )
    add_step_timeout(parser)
    parser.add_argument(
        "--json", action="store_true", help="print report.json instead of the summary"
    )


def run(args: argparse.Namespace) -> int:
    """Convert, write the files, print the summary or the report."""
    if (args.data and not args.verify) or (args.verify and args.check):
        raise GraphmpError(
            "GMP001",
            "--data is accepted with --verify, and --verify without --check, which writes nothing",
        )
    folder = pathlib.Path(args.output or default_output(args.source))
    if not args.check:
        _check_output(args, folder)
    with quiet_stderr():  # TensorFlow 2.21 prints messages during its import at any log level
        from graphmp.report.report import as_json
    with progress(3) as begin:
        conversion = convert_source(args, options_of(FLAGS), begin)
    if args.check:
        return check(conversion, folder, args)
    _check_original(args.source, folder, conversion)
    written = conversion.save(folder)
    if args.json:
        proof = verified(conversion, args.data) if args.verify else None
        proved = (
            {}
            if proof is None
            else {"verify": proof_as_json(proof, str(folder / ORIGINAL), str(folder / CONVERTED))}
        )
        sys.stdout.write(as_json(dict(conversion.report, **proved)).decode("utf-8"))
        return 0 if proof is None or proof.ok else 1
    lines = summary(conversion.diff(), written, next_command(folder, conversion.report))
    write("".join(printable(line) + "\n" for line in lines))
    if not args.verify:
        return 0
    sys.stdout.flush()  # the next part takes seconds
    proof = verified(conversion, args.data)
    show([("blank", ""), *claim_lines(proof)])
    return 0 if proof.ok else 1


def _check_output(args: argparse.Namespace, folder: pathlib.Path) -> None:
    """Refuse a folder that can't be written, and one in which an input would be replaced.

    The source may be the folder's `ORIGINAL`, which is written as it was read.
    """
    sources = source_files(args)
    others = [name for name in input_files(args, options_of(FLAGS)) if name not in sources]
    check_folder(folder, FILES, others)
    for name in FILES:
        if name != ORIGINAL:
            refuse_inputs(folder / name, sources)


def _check_original(source: str, folder: pathlib.Path, conversion: Conversion) -> None:
    """Refuse to replace the source, the folder's `ORIGINAL`, by other bytes."""
    place = folder / ORIGINAL
    same = os.path.realpath(source) == os.path.realpath(place)
    if same and read_bytes(place, 1 << 31) != conversion.before.data:
        refuse_inputs(place, [source])


def verified(conversion: Conversion, data: str) -> Proof:
    """The proof of a conversion, with claims from running it."""
    with quiet_stderr():
        from graphmp.executed.check import proof_with_steps
    with progress(6) as begin:
        return proof_with_steps(
            conversion.original,
            conversion.meta_graph,
            AuditOptions(data, STEPS),
            TOLERANCE,
            conversion.report,
            begin,
        )


def check(conversion: Conversion, folder: pathlib.Path, args: argparse.Namespace) -> int:
    """Print the files of a folder that differ from the conversion, with the first difference.

    Nothing is written.
    """
    differences = conversion.differences(folder)
    if args.json:
        value = {"folder": str(folder), "stale": list(differences), "differences": differences}
        sys.stdout.write(json.dumps(value, sort_keys=True) + "\n")
    elif differences:
        flags = conversion.flags[1:]  # the first line is a comment
        behind = ["--", *args.script_arguments] if args.script_arguments else []
        again = ["graphmp", "convert", args.source, "-o", str(folder), *flags, *behind]
        rows = (
            (
                "stale",
                "%s in %s: not what %s gives today" % (", ".join(differences), folder, args.source),
            ),
            ("first", ": ".join(next(iter(differences.items())))),
            ("next", " ".join(map(shell_word, again))),
        )
        show(("row", labelled(*row)) for row in rows)
    else:
        show([("row", labelled("ok", "%s is what %s gives today" % (folder, args.source)))])
    return 1 if differences else 0


def default_output(source: str) -> str:
    """The default folder of a SOURCE.

    `model.py` goes to `model_graphmp`, `dir/model.py:build` to `dir/model_graphmp`, `exported/` to
    `exported_graphmp`.
    """
    path = pathlib.Path(source)
    if not os.path.exists(path) and ":" in source:
        path = pathlib.Path(source.rsplit(":", 1)[0])
    is_file = path.suffix and not os.path.isdir(path)
    return str(path.with_suffix("") if is_file else path) + "_graphmp"


def next_command(folder: pathlib.Path, report: Dict[str, Any]) -> str:
    """The next command to try."""
    page, original, converted = (
        shell_word(str(folder / name)) for name in (PAGE, ORIGINAL, CONVERTED)
    )
    node = next(
        (row["node"] for row in report["warnings"] if row["code"] == "GMP102" and row["node"]), None
    )
    if node:
        return "open %s, or: graphmp explain %s %s" % (page, converted, shell_word(node))
    return "open %s, or: graphmp diff %s %s" % (page, original, converted)
