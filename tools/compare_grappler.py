#!/usr/bin/env python3
"""Compare graphmp's rewrite with TensorFlow's own pass (grappler auto_mixed_precision).

usage: compare_grappler.py [--compute_dtype float16|bfloat16] [--flood_fill] [--json] GRAPH...

    python tools/compare_grappler.py graphs/*.meta
    python tools/compare_grappler.py --flood_fill --json train.meta > rows.jsonl

A GRAPH is a MetaGraphDef or a GraphDef, binary or text. Needs TensorFlow 2, and no GPU.

For each graph, for graphmp and for the pass:

- matmuls and convolutions in half precision, and casts added;
- bytes moved by casts, and by all float tensors, in a step (the latter for the original too), from
  static shapes with unknown dimensions taken as 32;
- bytes of activations kept for the backward pass (for the original too; casts of variables are a
  separate number, in --json);
- seconds. graphmp's include a check that TensorFlow loads the result.

--flood_fill adds graphmp with a flood fill in place of the minimum cut. The last line has the
ratios of the sums; --json prints one object per graph instead.

Exit status: 0; 1 if a graph can't be read or converted; 2 for bad usage or TensorFlow 1.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from graphmp.bench import grappler
from graphmp.config import Config
from graphmp.gate.reading import read_graph
from graphmp.inspect.memory.memory import memory
from graphmp.inspect.sizes import ShapeSource, recorded
from graphmp.inspect.traffic import traffic
from graphmp.inspect.training_step import Training, find_training
from graphmp.policy import policy
from graphmp.report.facts import casts, coverage
from graphmp.rewrite import pipeline

# isort: split
import tensorflow.compat.v1 as tf
from parts import flood_fill
from parts.table import print_table

Row = Dict[str, Any]
Converter = Callable[[tf.MetaGraphDef], tf.MetaGraphDef]
MEASURES = ("casts", "bytes_cast", "bytes_moved", "bytes_kept", "seconds")


def main(argv: Optional[List[str]] = None) -> int:
    """Compare and print. Return the exit status."""
    args = parse(argv)
    if tf.__version__ < "2":
        print(
            "compare_grappler: found TensorFlow %s; its own pass can be called ahead of time on "
            "TensorFlow 2" % tf.__version__,
            file=sys.stderr,
        )
        return 2
    config = Config.make(compute_dtype=args.compute_dtype, loss_scale="none")
    compared = converters(config, args.flood_fill)
    rows = []
    for path in args.graphs:
        rows.append(compare(path, config, compared))
        if args.json:
            print(json.dumps(rows[-1]), flush=True)
    if not args.json:
        show(rows, list(compared))
    return int(any("error" in row for row in rows))


def parse(argv: Optional[List[str]]) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "graphs", nargs="+", metavar="GRAPH", help="a MetaGraphDef or GraphDef, binary or text"
    )
    parser.add_argument(
        "--compute_dtype",
        choices=("float16", "bfloat16"),
        default="float16",
        help="compute dtype of both conversions (default float16)",
    )
    parser.add_argument(
        "--flood_fill",
        action="store_true",
        help="also graphmp with a flood fill in place of the minimum cut",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per graph")
    return parser.parse_args(argv)


def converters(config: Config, with_flood_fill: bool) -> Dict[str, Converter]:
    """The conversions to compare, by name, in the order of the table."""
    lists = policy.load(config.compute_dtype, "")
    found: Dict[str, Converter] = {
        "ours": lambda graph: pipeline.rewrite(graph, config, lists).meta_graph
    }
    if with_flood_fill:
        found["flood"] = lambda graph: (
            pipeline.rewrite(graph, config, lists, solve=flood_fill.flooded).meta_graph
        )
    found["peer"] = lambda graph: grappler.convert(graph, config.compute_dtype)
    return found


def compare(path: str, config: Config, compared: Dict[str, Converter]) -> Row:
    """The row of one graph.

    A failure is recorded under `error`, so that one bad graph doesn't hide the others.
    """
    row: Row = {"graph": os.path.basename(path)}
    try:
        original = read_graph(path)
        shapes, training = recorded(original.graph_def), find_training(original, config)
        row.update(
            nodes=len(original.graph_def.node),
            of=coverage(original.graph_def)["tensor_core_ops"],
            original=facts(original, shapes, training),
        )
        for name, convert in compared.items():
            start = time.perf_counter()
            converted = convert(original)
            seconds = time.perf_counter() - start
            row[name] = dict(facts(converted, shapes, training), seconds=round(seconds, 3))
            row[name]["casts"] -= row["original"]["casts"]
    except Exception as error:  # TensorFlow raises errors of many types
        row["error"] = "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:200])
    return row


def facts(meta_graph: tf.MetaGraphDef, shapes: ShapeSource, training: Training) -> Row:
    """Counts of one graph, from the shapes and the training step of the original.

    They are the ops in half precision, casts between float types, and bytes moved and kept.
    """
    bytes_of, kept = (
        traffic(meta_graph, shapes.graph_def, training.updates),
        memory(meta_graph, training, shapes),
    )
    return {
        "half": coverage(meta_graph.graph_def)["converted_ops"],
        "casts": casts(meta_graph.graph_def),
        "bytes_cast": bytes_of.cast,
        "bytes_moved": bytes_of.moved,
        "bytes_kept": kept.activations.bytes,
        "bytes_of_kept_variable_casts": kept.copies.bytes,
        "bytes_at_peak": kept.peak.bytes,
    }


def show(rows: List[Row], names: List[str]) -> None:
    """Print the table with its sums, the failures, and a line of ratios."""
    good = [row for row in rows if "error" not in row]
    total = summed(good, names)
    together = "/".join(names)
    headings = [
        "graph",
        "nodes",
        "half %s of" % together,
        "casts " + together,
        "MB cast " + together,
        "MB moved float32/" + together,
        "MB kept float32/" + together,
        "s " + together,
    ]
    print_table(headings, [cells(row, names) for row in [*good, total]])
    for row in rows:
        if "error" in row:
            print("%s: %s" % (row["graph"], row["error"]))
    print(ratios(total, names))


def summed(rows: Iterable[Row], names: List[str]) -> Row:
    """The sums of all rows, as a row."""
    rows = list(rows)
    total: Row = {"graph": "sum of %d" % len(rows)}
    for key in ("nodes", "of"):
        total[key] = sum(row[key] for row in rows)
    for name in ["original", *names]:
        total[name] = {
            key: sum(row[name].get(key, 0) for row in rows) for key in ("half", *MEASURES)
        }
    return total


def cells(row: Row, names: List[str]) -> List[str]:
    """A row as text."""

    def joined(key: str, form: Callable[[Any], str], first: Iterable[str] = ()) -> str:
        return "/".join(form(row[name][key]) for name in [*first, *names])

    return [
        row["graph"],
        number(row["nodes"]),
        "%s of %s" % (joined("half", number), number(row["of"])),
        joined("casts", number),
        joined("bytes_cast", megabytes),
        joined("bytes_moved", megabytes, ["original"]),
        joined("bytes_kept", megabytes, ["original"]),
        joined("seconds", lambda seconds: "%.2f" % seconds),
    ]


def ratios(total: Row, names: List[str]) -> str:
    """The ratios of graphmp's sums to the others'."""
    lines = []
    for other in names[1:]:
        lines.append(
            "ours/%s: %s"
            % (
                other,
                ", ".join(
                    "%s %s" % (key.replace("_", " "), ratio(total, other, key))
                    for key in ("half", *MEASURES)
                ),
            )
        )
    own = ", ".join(
        "%s %s" % (key.replace("_", " "), ratio(total, "original", key))
        for key in ("bytes_moved", "bytes_kept")
    )
    return "; ".join([*lines, "ours/float32: %s" % own])


def ratio(total: Row, other: str, key: str) -> str:
    """The ratio of graphmp's number to another's."""
    return "%.2f" % (total["ours"][key] / total[other][key]) if total[other][key] else "-"


def number(value: int) -> str:
    """1234 as 1,234."""
    return format(value, ",")


def megabytes(value: int) -> str:
    """Bytes as millions, with at least three digits."""
    return format(value / 1e6, ",.0f" if value >= 1e8 else ",.3g")


if __name__ == "__main__":
    sys.exit(main())
