#!/usr/bin/env python3
"""Time the rewrite of training graphs of growing size, its proof, and the whole command.

usage: time_rewrite.py [--nodes 20000,50000,100000] [--memory] [--profile[=rewrite|verify]] [--json]

    python tools/time_rewrite.py --nodes 5000,20000
    python tools/time_rewrite.py --nodes 20000,100000 --memory
    python tools/time_rewrite.py --nodes 20000 --profile
    python tools/time_rewrite.py --nodes 20000 --profile=verify

For each size, builds a network of that many nodes with TensorFlow and writes its .meta to a
temporary folder. Prints the processor seconds of reading the file, of the rewrite and of the static
proof of its result (`graphmp.verify`), which don't depend on other load, and the wall-clock seconds
of `python -m graphmp convert FILE` in another process. If the command fails, prints its last line;
if the proof fails, the first claim that isn't proved. The last line has the growth between sizes:
the exponent of the number of nodes, 1 for linear.

--memory adds the peak memory of the rewrite, reading included, and of the command, as a multiple of
the graph's file; each is measured in another process, without the memory of the imports. --profile
adds Python's profile of the rewrite, or of the proof, of the largest graph; --json prints one
object per size instead.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import math
import os
import pathlib
import pstats
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from graphmp.config import Config
from graphmp.gate.reading import read_graph
from graphmp.policy import policy
from graphmp.rewrite import pipeline
from graphmp.verify import verify
from graphmp.verify.proof import NOT_APPLICABLE, PROVED

# isort: split
import peak_memory
import tensorflow.compat.v1 as tf
from parts import training_graph
from parts.table import print_table

Row = Dict[str, Any]
ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = Config.make()
WARM_UP = 500  # nodes of a graph that is converted first, as a warm-up
_HOLDS = (PROVED, NOT_APPLICABLE)
TIMED = ("read", "rewrite", "verify", "command")


def main(argv: Optional[List[str]] = None) -> int:
    """Time and print. Return the exit status: 1 if the command or the proof fails."""
    args = parse(argv)
    if tf.__version__ > "2":
        tf.disable_v2_behavior()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / "train.meta"
        training_graph.write(WARM_UP, path)
        seconds_to_verify(*seconds_to_rewrite(read_graph(path))[1:])
        rows = []
        for nodes in args.nodes:
            rows.append(
                dict(nodes=training_graph.write(nodes, path), **measure(path, folder / "out"))
            )
            if args.memory:
                rows[-1].update(memory(path, folder / "out"))
            if args.json:
                print(json.dumps(rows[-1]), flush=True)
        if not args.json:
            show(rows)
        if args.profile:
            profile(args.profile, read_graph(path))
    return int(any("failure" in row for row in rows))


def parse(argv: Optional[List[str]]) -> argparse.Namespace:
    """The parsed command line, with sorted sizes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--nodes",
        type=sizes,
        default="20000,50000,100000",
        metavar="N,...",
        help="sizes (default 20000,50000,100000)",
    )
    parser.add_argument("--memory", action="store_true", help="also measure peak memory")
    parser.add_argument(
        "--profile",
        nargs="?",
        const="rewrite",
        choices=["rewrite", "verify"],
        help="also profile the rewrite of the largest graph, or its proof",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per size")
    return parser.parse_args(argv)


def sizes(text: str) -> List[int]:
    """Integers separated by commas, sorted."""
    return sorted(int(part) for part in text.split(","))


def measure(path: pathlib.Path, out: pathlib.Path) -> Row:
    """Seconds of reading, rewrite, proof and command, or why one of the last two failed."""
    gc.collect()  # the garbage of the build, which would be collected during a measurement
    read = min(seconds_to_read(path) for _ in range(3))
    meta_graph = read_graph(path)
    rewrite, *both = seconds_to_rewrite(meta_graph)
    proof, unproved = seconds_to_verify(*both)
    del meta_graph, both  # frees their memory for the command
    row: Row = {"read": read, "rewrite": rewrite, "verify": proof}
    row["command"], failure = command(path, out)
    return dict(row, failure=failure or unproved) if failure or unproved else row


def memory(path: pathlib.Path, out: pathlib.Path) -> Row:
    """Peak memory of rewrite and command above the imports, in sizes of the file.

    Empty if the command fails.
    """
    processes = {
        "rewrite_memory": [peak_memory.__file__, "rewrite", str(path)],
        "command_memory": ["-m", "graphmp", "convert", str(path), "-o", str(out)],
    }
    try:
        return {
            name: peak_memory.above_imports(process) / path.stat().st_size
            for name, process in processes.items()
        }
    except subprocess.CalledProcessError:
        return {}


def seconds_to_read(path: pathlib.Path) -> float:
    """Seconds from a file to a checked MetaGraphDef."""
    start = time.process_time()
    read_graph(path)
    return time.process_time() - start


def seconds_to_rewrite(
    meta_graph: tf.MetaGraphDef,
) -> Tuple[float, tf.MetaGraphDef, tf.MetaGraphDef]:
    """Seconds of a rewrite with its check, the graph, and the result."""
    start = time.process_time()
    converted = pipeline.rewrite(
        meta_graph, CONFIG, policy.load(CONFIG.compute_dtype, "")
    ).meta_graph
    return time.process_time() - start, meta_graph, converted


def seconds_to_verify(meta_graph: tf.MetaGraphDef, converted: tf.MetaGraphDef) -> Tuple[float, str]:
    """Seconds of a proof, and the first claim that isn't proved."""
    start = time.process_time()
    proof = verify(meta_graph, converted)
    seconds = time.process_time() - start
    return seconds, "" if proof.ok else next(
        "not proved: %s: %s" % (c.name, c.text) for c in proof.claims if c.verdict not in _HOLDS
    )


def command(path: pathlib.Path, out: pathlib.Path) -> Tuple[float, str]:
    """Seconds of the whole command, and the last line of its output if it failed."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "graphmp", "convert", str(path), "-o", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
    )
    said = done.stdout.strip().splitlines() or ["exit status %d" % done.returncode]
    return time.perf_counter() - start, said[-1].replace(
        str(path), path.name
    ) if done.returncode else ""


def show(rows: List[Row]) -> None:
    """Print the table, then the growth of each time."""
    headings = ["nodes", "read s", "rewrite s", "rewrite/read", "verify s", "command s", "command"]
    headings += (
        ["rewrite memory/file", "command memory/file"] if "rewrite_memory" in rows[0] else []
    )
    print_table(headings, [cells(row) for row in rows])
    growth = (
        ["%s %s" % (name, " ".join(exponents(rows, name))) for name in TIMED]
        if len(rows) > 1
        else ["one size alone shows none"]
    )
    print("growth, power of nodes from size to size: " + "; ".join(growth))


def cells(row: Row) -> List[str]:
    """A row as text."""
    return [
        format(row["nodes"], ","),
        *("%.2f" % row[name] for name in ("read", "rewrite")),
        "%.1f" % (row["rewrite"] / row["read"]),
        "%.2f" % row["verify"],
        "%.1f" % row["command"],
        row.get("failure", "ok"),
        *("%.1f" % row[name] for name in ("rewrite_memory", "command_memory") if name in row),
    ]


def exponents(rows: List[Row], name: str) -> List[str]:
    """The slope of log seconds over log nodes between neighbouring sizes.

    It is `-` if a command failed or sizes are equal.
    """

    def slope(a: Row, b: Row) -> str:
        if a["nodes"] == b["nodes"] or (name == "command" and ("failure" in a or "failure" in b)):
            return "-"
        return "%.2f" % (math.log(b[name] / a[name]) / math.log(b["nodes"] / a["nodes"]))

    return [slope(a, b) for a, b in zip(rows, rows[1:])]


def profile(what: str, meta_graph: tf.MetaGraphDef) -> None:
    """Print the slowest functions of the rewrite or of its proof, by cumulative and by own time."""
    profiler = cProfile.Profile(time.process_time)
    if what == "rewrite":
        profiler.runcall(seconds_to_rewrite, meta_graph)
    else:
        profiler.runcall(seconds_to_verify, *seconds_to_rewrite(meta_graph)[1:])
    stats = pstats.Stats(profiler, stream=sys.stdout).strip_dirs()
    for order in ("cumulative", "tottime"):
        stats.sort_stats(order).print_stats(40)


if __name__ == "__main__":
    sys.exit(main())
