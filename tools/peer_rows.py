#!/usr/bin/env python3
"""Results of TensorFlow's own pass on training graphs: the rows that a corpus check compares with.

usage: peer_rows.py [--compute_dtype bfloat16|float16] [--train_pair FILE] [--seconds N] GRAPH...

    python tools/peer_rows.py --train_pair=../shared/tools/train_pair.py graphs/*.meta > rows.jsonl

A GRAPH is a MetaGraphDef or a GraphDef, binary or text. Needs TensorFlow 2, and no GPU. One JSON
object per graph: `file`, `half` of `of` matmuls and convolutions in half precision, `casts` added,
`seconds`, `nodes`. With --train_pair, a program that trains two graphs side by side and prints
JSON, also `cosine`: the median over the variables of the cosine between their changes in the
original and in the pass's graph. It is missing if the original can't be trained within --seconds or
becomes NaN.

Exit status: 0; 1 if a graph can't be read or converted; 2 for bad usage or TensorFlow 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from graphmp.bench import grappler
from graphmp.errors import GraphmpError
from graphmp.gate.reading import read_graph
from graphmp.report.facts import casts, coverage

# isort: split
import tensorflow.compat.v1 as tf

Row = Dict[str, Any]


def main(argv: Optional[List[str]] = None) -> int:
    """Convert, train and print. Return the exit status."""
    args = parse(argv)
    if tf.__version__ < "2":
        print(
            "peer_rows: found TensorFlow %s; its own pass can be called ahead of time on "
            "TensorFlow 2" % tf.__version__,
            file=sys.stderr,
        )
        return 2
    status = 0
    for path in args.graphs:
        try:
            print(
                json.dumps(row(path, args.compute_dtype, args.train_pair, args.seconds)), flush=True
            )
        except (GraphmpError, tf.errors.OpError) as error:
            print("peer_rows: %s" % error, file=sys.stderr)
            status = 1
    return status


def parse(argv: Optional[List[str]]) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "graphs", nargs="+", metavar="GRAPH", help="a MetaGraphDef or GraphDef, binary or text"
    )
    parser.add_argument(
        "--compute_dtype",
        choices=sorted(grappler.PASSES),
        default="bfloat16",
        help="compute dtype of the pass (default bfloat16)",
    )
    parser.add_argument(
        "--train_pair", metavar="FILE", help="a program that takes two graphs and trains both"
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=600,
        metavar="N",
        help="time limit per pair (default 600)",
    )
    return parser.parse_args(argv)


def row(path: str, compute_dtype: str, train_pair: Optional[str], seconds: int) -> Row:
    """The row of one graph.

    Raises:
        GraphmpError: it can't be read.
    """
    original = read_graph(path)
    start = time.perf_counter()
    converted = grappler.convert(original, compute_dtype)
    took = round(time.perf_counter() - start, 3)
    counts = coverage(converted.graph_def)
    found: Row = {
        "file": os.path.basename(path),
        "half": counts["converted_ops"],
        "of": counts["tensor_core_ops"],
    }
    found.update(
        casts=casts(converted.graph_def) - casts(original.graph_def),
        seconds=took,
        nodes=len(original.graph_def.node),
    )
    cosine = trained(original, converted, train_pair, seconds) if train_pair else None
    return found if cosine is None else dict(found, cosine=cosine)


def trained(
    original: tf.MetaGraphDef, converted: tf.MetaGraphDef, train_pair: str, seconds: int
) -> Optional[float]:
    """The median cosine between the changes of the two graphs' variables; None if unknown.

    The pass drops the collections, which name the variables.
    """
    whole = tf.MetaGraphDef()
    whole.CopyFrom(original)
    whole.graph_def.CopyFrom(converted.graph_def)
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("original.meta", "converted.meta")]
        for path, graph in zip(paths, (original, whole)):
            pathlib.Path(path).write_bytes(graph.SerializeToString())
        try:
            done = subprocess.run(
                [sys.executable, train_pair, *paths],
                capture_output=True,
                text=True,
                timeout=seconds,
            )
            found = json.loads(done.stdout.splitlines()[-1])
        except (subprocess.TimeoutExpired, IndexError, ValueError):
            return None
    cosines = found.get("cosine")
    return None if cosines is None or not math.isfinite(cosines[1]) else float(cosines[1])


if __name__ == "__main__":
    sys.exit(main())
