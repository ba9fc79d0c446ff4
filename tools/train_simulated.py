#!/usr/bin/env python3
"""Train graphs beside their conversions, with half precision simulated in float32.

usage: train_simulated.py --train_pair FILE [--peer ROWS.jsonl] [--seconds N] GRAPH... [flag=value
...]

    python tools/train_simulated.py --train_pair=train_pair.py graphs/*.meta loss_scale=dynamic

A CPU that emulates half precision is up to 300 times slower than this simulation.

A GRAPH is a MetaGraphDef or a GraphDef, binary or text. Each is converted with the flags, its half
precision is simulated, and both graphs are trained by FILE, a program that trains two graphs on the
same made-up batches and prints JSON. They agree if the median cosine between the changes of their
variables is at least 0.99, or within 0.02 of `cosine` in ROWS, the similarity that another
conversion achieves. Where it is below, the pair is trained again, and the mean of the further runs
counts, for in networks that amplify rounding one run tells little: with other loss scales, powers
of two, which change nothing but the rounding, or with the dynamic scale as it is. A pair that still
falls short is trained with a dynamic scale for 24 steps in place of 3: its first step measures
gradients, and loses the smallest. If that agrees, it has passed; without a scale, or with a fixed
one, there is no verdict then, as its gradients are too small for them. One line per graph.

Exit status: 0; 1 if a graph does not train alike or takes longer than --seconds; 2 for bad usage.
If the original can't be trained on made-up batches to finite variables, its line only says so.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import graphmp
from graphmp.audit.pair.simulate import simulated
from graphmp.gate.reading import read_graph

ALIKE = 0.99
WITHIN = 0.02
Row = Dict[str, Any]  # what the training program prints
# What is changed in further runs, where one isn't enough.
SCALED = [{"loss_scale": str(scale)} for scale in (2, 16, 128, 1024)]
AS_IT_IS: List[Dict[str, str]] = [{}] * 4
STEPS, LONG = 3, 24  # the second for a pair that falls short in the first
Train = Callable[..., Optional[Row]]  # trains a pair with some flags changed, for some steps


def main(argv: Optional[List[str]] = None) -> int:
    """Convert, simulate, train and print. Return the exit status."""
    args = parse(argv)
    paths = [word for word in args.graphs if "=" not in word or pathlib.Path(word).is_file()]
    flags = dict(word.split("=", 1) for word in args.graphs if word not in paths)
    peers = (
        {
            row["file"]: row.get("cosine")
            for row in map(json.loads, args.peer.read_text().splitlines())
        }
        if args.peer
        else {}
    )
    status, is_dynamic = 0, flags.get("loss_scale") == "dynamic"
    for path in map(pathlib.Path, paths):
        peer = peers.get(path.name)

        def train(
            changed: Dict[str, str], steps: int = STEPS, path: pathlib.Path = path
        ) -> Optional[Row]:
            return trained(path, {**flags, **changed}, args.train_pair, args.seconds, steps)

        agrees, words = judged(train, AS_IT_IS if is_dynamic else SCALED, peer)
        if not agrees:
            agrees, words = judged_longer(train, words, is_dynamic)
        print("%s: %s" % (path.name, words), flush=True)
        status = status if agrees else 1
    return status


def parse(argv: Optional[List[str]]) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "graphs",
        nargs="+",
        metavar="GRAPH",
        help="a MetaGraphDef or GraphDef, or flag=value for the conversion",
    )
    parser.add_argument(
        "--train_pair",
        metavar="FILE",
        required=True,
        help="a program that takes two graphs and trains both",
    )
    parser.add_argument(
        "--peer", metavar="ROWS", type=pathlib.Path, help="JSON lines with `file` and `cosine`"
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=2400,
        metavar="N",
        help="time limit per pair (default 2400)",
    )
    return parser.parse_args(argv)


def trained(
    path: pathlib.Path, flags: Dict[str, str], train_pair: str, seconds: int, steps: int
) -> Optional[Row]:
    """The program's output for a graph and its simulated conversion.

    None if it ends without output or times out.
    """
    with tempfile.TemporaryDirectory() as folder:
        original = read_graph(str(path))
        pair = [pathlib.Path(folder) / name for name in ("original.meta", "simulated.meta")]
        for file, graph in zip(
            pair, (original, simulated(graphmp.convert(original, **flags).meta_graph).meta_graph)
        ):
            file.write_bytes(graph.SerializeToString())
        try:
            done = subprocess.run(
                [sys.executable, train_pair, *map(str, pair), "--steps", str(steps)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
            )
            return json.loads(done.stdout.decode().splitlines()[-1])
        except (subprocess.TimeoutExpired, IndexError, ValueError):
            return None


def judged(
    train: Train,
    again: Sequence[Dict[str, str]],
    peer: Optional[float],
) -> Tuple[bool, str]:
    """Whether a pair trains alike, if need be on average over further runs, and the reason.

    Args:
        train: trains the pair with some flags changed.
        again: the changed flags of each further run, if the first isn't enough.
        peer: the median cosine of another conversion.
    """
    row = train({})
    agrees, words = verdict(row, peer)
    if agrees or not trains(row):
        return agrees, words
    rows = list(map(train, again))
    failed = [each for each in rows if not trains(each)]
    if failed:
        return verdict(failed[0], peer)
    medians = [each["cosine"][1] for each in rows]
    agrees, words = verdict(dict(row, cosine=[min(medians), statistics.mean(medians)]), peer)
    return agrees, "%s; the mean of %d further runs, %.4f to %.4f" % (
        words,
        len(medians),
        min(medians),
        max(medians),
    )


def judged_longer(train: Train, words: str, is_dynamic: bool) -> Tuple[bool, str]:
    """The verdict on a pair that falls short in few steps: whether it trains alike in more.

    Args:
        train: trains the pair with some flags changed.
        words: what few steps came to.
        is_dynamic: whether these had a dynamic scale.
    """
    row = train({"loss_scale": "dynamic"}, steps=LONG)
    agrees, longer = verdict(row, None)
    if not (agrees and trains(row)):
        return False, words
    if is_dynamic:
        return True, "%s, in %d steps; in %d %s" % (longer, LONG, STEPS, words)
    return True, "no verdict: its gradients need a dynamic scale: %s with it, %s" % (longer, words)


def trains(row: Optional[Row]) -> bool:
    """Whether both graphs of a pair were trained, to finite variables."""
    return bool(row and row["run"] == row["converted"] == "ok" and all(row["finite"]))


def verdict(row: Optional[Row], peer: Optional[float]) -> Tuple[bool, str]:
    """Whether the pair trains alike, and the reason in words."""
    if row is None:
        return False, "not trained in the time"
    if row["run"] != "ok":
        return True, "no verdict: the original can't be trained on made-up batches: %s" % row["run"]
    if row["converted"] != "ok":
        return False, "the conversion does not train: %s" % row["converted"]
    if not row["finite"][0]:
        return True, "no verdict: the original's variables are not finite after training"
    if not row["finite"][1]:
        return False, "not finite after training"
    least = min(ALIKE, (1 if peer is None else peer) - WITHIN)
    median = row.get("cosine", [1, 1])[1]
    return median >= least, "median cosine %.4f of %d variables, at least %.4f" % (
        median,
        row["variables"],
        least,
    )


if __name__ == "__main__":
    sys.exit(main())
