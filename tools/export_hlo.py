#!/usr/bin/env python3
"""Lower a whole training step of a graph to serialised HLO, to time it without TensorFlow.

usage: export_hlo.py GRAPH [-o FILE.hlo] [--as float32|tf32|converted|own]... [--batch_size N]
                     [--compute_dtype float16|bfloat16] [--loss_scale NUMBER|none]
                     [--data FILE] [--train_op OP] [--seed N]

    python tools/export_hlo.py train.meta --as float32 --as tf32 --as converted --as own
    python tools/export_hlo.py train.meta --as converted --compute_dtype bfloat16 -o half.hlo
    python tools/time_hlo.py train.float32.hlo train.tf32.hlo train.float16.hlo train.own.hlo

GRAPH is a MetaGraphDef, a GraphDef or a SavedModel. Needs TensorFlow 2, on a CPU; the HLO depends
on no device. --as selects the program, and may be given several times:

    float32    (default) the graph unchanged, with full precision in its float32 products
    tf32       the same with another precision attribute: a GPU may round the factors to
               TensorFloat-32
    converted  graphmp's conversion of the graph, with a fixed loss scale
    own        the graph after TensorFlow's own pass, auto_mixed_precision, which scales no loss

To lower a graph that is already converted, use --as float32.

The step runs all updates that gradients reach, of all losses. Placeholders, and the outputs of
queues and iterators, become parameters of static shape: the shape of the first batch of --data, or
of a made-up batch. --batch_size sets the unknown dimensions that are the batch's; a step with a
small batch finds out which these are. A feed that determines shapes becomes a constant. Variables,
including reference variables, become the last parameters, and their new values the last results. A
read of a variable comes before a write if the graph doesn't order the two. For a conditional of
TensorFlow 1 both branches are computed, and one is selected.

If XLA can't lower the step, the error is one line. It lowers no while loops of TensorFlow 1, no
conditionals that write variables (hence no skipped steps of a dynamic loss scale), and no ops
without an XLA kernel.

FILE.json, beside FILE.hlo, has the parameters in order (name, dtype, shape, feed or variable, and
how to draw a value like the one here), the results, the step's matmul and convolution operations by
dtype, and the versions.

Exit status: 0; 1 if the graph can't be converted; 2 for bad input, a step that XLA doesn't lower,
or TensorFlow 1.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from typing import Any, List, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from hlo.arguments import positive

import graphmp
from graphmp.audit.options import AuditOptions
from graphmp.bench import grappler
from graphmp.errors import GraphmpError
from graphmp.files.folder import write_files
from graphmp.gate.reading import read_graph

# isort: split
import tensorflow.compat.v1 as tf

AS = ("float32", "tf32", "converted", "own")
FIXED_SCALE = {"float16": "128", "bfloat16": "none"}


def main(argv: Optional[List[str]] = None) -> int:
    """Export, and print what was written. Return the exit status."""
    args = parse(argv)
    if tf.__version__ < "2":
        print(
            "export_hlo: found TensorFlow %s; its XLA can't be called ahead of time: use "
            "TensorFlow 2" % tf.__version__,
            file=sys.stderr,
        )
        return 2
    try:
        export(args)
    except GraphmpError as error:
        print("graphmp: error %s: %s" % (error.code, error.message), file=sys.stderr)
        return error.exit_status
    return 0


def parse(argv: Optional[List[str]]) -> argparse.Namespace:
    """The parsed command line. The default loss scale depends on the compute dtype."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", metavar="GRAPH", help="a MetaGraphDef, a GraphDef or a SavedModel")
    parser.add_argument(
        "-o",
        "--output",
        type=program,
        metavar="FILE.hlo",
        help="output file of one program (default: GRAPH's name with the column, in the current "
        "folder)",
    )
    parser.add_argument(
        "--as",
        dest="programs",
        action="append",
        choices=AS,
        help="the program to lower (default float32: the graph unchanged); repeatable",
    )
    parser.add_argument(
        "--batch_size",
        type=positive,
        default=32,
        metavar="N",
        help="for unknown first dimensions (default 32)",
    )
    parser.add_argument(
        "--data",
        default="",
        metavar="FILE",
        help="file.npz or file.py:function, whose first batch gives shapes (default made up)",
    )
    parser.add_argument(
        "--compute_dtype",
        choices=sorted(FIXED_SCALE),
        default="float16",
        help="compute dtype of --as converted (default float16)",
    )
    parser.add_argument(
        "--loss_scale",
        type=scale,
        metavar="NUMBER|none",
        help="fixed loss scale of --as converted (default 128; none with bfloat16)",
    )
    parser.add_argument(
        "--train_op",
        action="append",
        default=[],
        metavar="OP",
        help="the op that trains, where it isn't found; repeatable",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the batch and of the variables' first values (default 0)",
    )
    args = parser.parse_args(argv)
    args.loss_scale = args.loss_scale or FIXED_SCALE[args.compute_dtype]
    args.programs = args.programs or [AS[0]]
    if args.output and len(args.programs) > 1:
        parser.error("argument -o: found %d programs, accepted is one" % len(args.programs))
    return args


def program(text: str) -> str:
    """A file name for the program; the ending .json is the sidecar's."""
    if not text.endswith(".hlo"):
        raise argparse.ArgumentTypeError("%s: accepted are names that end in .hlo" % text)
    return text


def scale(text: str) -> str:
    """A fixed loss scale. A dynamic one skips steps by Switch, which XLA doesn't lower."""
    if text == "dynamic":
        raise argparse.ArgumentTypeError(
            "dynamic: a step that overflows is skipped by Switch, which XLA does not lower; "
            "accepted are none and a number"
        )
    return text


def export(args: argparse.Namespace) -> None:
    """Write both files of each program, and print what was written."""
    from hlo.lowering import Source  # not importable on TensorFlow 1

    original = read_graph(args.graph)
    source = Source(
        original,
        args.train_op,
        AuditOptions(data=args.data, batch_size=args.batch_size, seed=args.seed),
    )
    for program in args.programs:
        write(args, program, source.lower(changed(args, program, original)))


def changed(args: argparse.Namespace, program: str, original: tf.MetaGraphDef) -> tf.MetaGraphDef:
    """The graph of a program."""
    if program == "converted":
        options = dict(
            compute_dtype=args.compute_dtype, loss_scale=args.loss_scale, train_op=args.train_op
        )
        return graphmp.convert(original, **options).meta_graph
    return grappler.convert(original, args.compute_dtype) if program == "own" else original


def write(args: argparse.Namespace, program: str, lowered: Any) -> None:
    """Write the program and what is to know of it, and print a line."""
    from hlo.sidecar import column, describe  # not importable on TensorFlow 1

    sidecar = dict(
        describe(lowered), source=os.path.basename(args.graph), batch_size=args.batch_size
    )
    sidecar["column"] = column(sidecar["flops"], program == "tf32")
    name = "own" if program == "own" else sidecar["column"]
    path = pathlib.Path(args.output or "%s.%s.hlo" % (pathlib.Path(args.graph).stem, name))
    text = json.dumps(sidecar, indent=1, sort_keys=True) + "\n"
    files = {
        path.name: lowered.serialized(sidecar["column"] == "tf32"),
        path.with_suffix(".json").name: text.encode("utf-8"),
    }
    write_files(path.parent, files)
    by_dtype = ", ".join(
        "%d %s" % (number, dtype) for dtype, number in sorted(sidecar["products"].items())
    )
    print(
        "%s: %s matmuls and convolutions, %.3g GFLOP a step, %d parameters"
        % (
            path,
            by_dtype or "no",
            sum(sidecar["flops"].values()) / 1e9,
            len(sidecar["parameters"]),
        ),
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
