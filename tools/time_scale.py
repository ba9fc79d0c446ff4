#!/usr/bin/env python3
"""Time what a dynamic loss scale adds to a training step.

usage: time_scale.py SOURCE[@BATCH]... [--rounds 20] [--compute_dtype bfloat16] [--processor]
           [--trace] [--json]

    python tools/time_scale.py train.meta@16 "examples/lstm.py --smoke@32"
    python tools/time_scale.py nodes:2000 --rounds=30 --trace

SOURCE is a graph's file, a program with its arguments, or `nodes:N`, a network of about N nodes.
BATCH is the size of dimensions that the graph leaves open (default 32).

Two conversions of each source by the rewrite, with `--loss_scale=none` and with `dynamic`, train on
the same made-up batches in one process, in interleaved rounds. A third variant in these rounds
reads all gradients once: TensorFlow adds up the squares of float32 tensors of their sizes.

--processor takes the processor time of all threads in place of the wall clock's: it depends less
on other work on the machine, and counts the ops that run beside others too.

The table has, in milliseconds, the step without a scale, what the scale adds with its 95% interval,
one read, and the bound: 1% of the step or two reads, whichever is larger. --trace adds, for each op
of which the scale adds time or nodes, its milliseconds and count in one step, from the medians of
TensorFlow's traces with one op at a time. Exit status 1 if some scale adds more than its bound,
by its whole interval.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import pathlib
import shlex
import statistics
import sys
import tempfile
import time
from typing import Any, Callable, Counter, Dict, List, NamedTuple, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import graphmp
from graphmp.bench import graphs
from graphmp.bench.processes import feeds
from graphmp.bench.processes.timed_session import ONE_BY_ONE, TimedSession
from graphmp.conversion.conversion import Conversion
from graphmp.gate.reading import read_graph
from graphmp.graph.structure.view import GraphView
from graphmp.process_memory import collector_paused
from graphmp.timings import order, speedup, step_time

# isort: split
import tensorflow.compat.v1 as tf
from parts import training_graph
from parts.table import print_table

SCALES = ("none", "dynamic")
READ = "read"
SHARE, READS = 0.01, 2.0  # of a step, and of one read of all gradients
TURN = 0.2  # seconds of a variant in a round
WARM_UP = 3  # steps
TRACED = 11  # steps
Row = Dict[str, Any]
Step = Callable[[], Any]
Clock = Callable[[], float]


class Source(NamedTuple):
    """A subject of timing: a file or program, its arguments, and the size of open dimensions."""

    text: str
    path: str
    arguments: List[str]
    batch: int


def main(argv: Optional[List[str]] = None) -> int:
    """Time and print. Return the exit status: 1 if a scale adds more than its bound."""
    args = parse(argv)
    if tf.__version__ > "2":
        tf.disable_v2_behavior()
    rows = []
    for source in args.sources:
        with tempfile.TemporaryDirectory() as name:
            rows.append(measure(source, args, pathlib.Path(name)))
        if args.json:
            print(json.dumps(rows[-1]), flush=True)
        elif args.trace:
            show_trace(rows[-1])
    if not args.json:
        show(rows)
    return int(any(row["added"][1] > row["bound"] for row in rows))


def parse(argv: Optional[List[str]]) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+", type=as_source, metavar="SOURCE[@BATCH]")
    parser.add_argument("--rounds", type=int, default=20, help="of every variant (default 20)")
    parser.add_argument("--compute_dtype", default="bfloat16", choices=["float16", "bfloat16"])
    parser.add_argument("--processor", action="store_true", help="time processors, not the clock")
    parser.add_argument("--trace", action="store_true", help="also print what ops take")
    parser.add_argument("--json", action="store_true", help="print one JSON object per source")
    return parser.parse_args(argv)


def as_source(text: str) -> Source:
    """A source as it is written on the command line."""
    what, _, batch = text.partition("@")
    path, *arguments = shlex.split(what)
    return Source(what, path, arguments, int(batch or 32))


def measure(source: Source, args: argparse.Namespace, folder: pathlib.Path) -> Row:
    """Seconds of a step, of what the scale adds, of one read, and of the bound."""
    path, arguments = source.path, source.arguments
    if path.startswith("nodes:"):
        path = str(folder / "built.meta")
        training_graph.write(int(source.path[len("nodes:") :]), pathlib.Path(path))
    made = {scale: converted(path, arguments, scale, args.compute_dtype) for scale in SCALES}
    losses = made["dynamic"].report["losses"]
    targets = graphs.step_targets(GraphView(made["none"].original.graph_def), losses)
    files = {
        scale: graphs.write(each.meta_graph, targets, folder / (scale + ".meta"))
        for scale, each in made.items()
    }
    original = graphs.write(made["none"].original, targets, folder / "original.meta")
    with TimedSession(original) as session:
        batch = feeds.make(session, "", [source.batch], 0, folder)[0]
        sizes = gradient_sizes(session, losses)
    batches = feeds.read(batch.path)
    sessions = {scale: TimedSession(each) for scale, each in files.items()}
    steps = {scale: stepper(session, batches) for scale, session in sessions.items()}
    steps[READ] = reader(sizes)
    clock = time.process_time if args.processor else time.perf_counter
    rounds = in_turns(steps, args.rounds, clock)
    row = summary(source.text, batch.batch_size, rounds, sizes)
    for session in sessions.values():
        session.close()
    if args.trace:
        row["ops"] = traced(files, batches)
    return row


def converted(path: str, arguments: List[str], scale: str, dtype: str) -> Conversion:
    """A source's conversion by the rewrite, with one of the two scales."""
    options: Dict[str, Any] = {"loss_scale": scale, "compute_dtype": dtype, "engine": "rewrite"}
    if path.endswith(".py"):
        return graphmp.convert(path, python=True, arguments=arguments, **options)
    return graphmp.convert(read_graph(path), **options)


def gradient_sizes(session: TimedSession, losses: List[Dict[str, Any]]) -> List[int]:
    """Elements of each updated variable of known shape."""
    names = dict.fromkeys(name for loss in losses for name in loss["updates"])
    found = {}
    for op in session.ops(names):
        variable = op.inputs[0].op
        if "shape" in variable.node_def.attr:
            found[variable.name] = tf.TensorShape(variable.get_attr("shape")).num_elements()
    return [size for size in found.values() if size]


def stepper(session: TimedSession, batches: List[Any]) -> Step:
    """Training steps of a session, with the batches in turn."""
    turn = itertools.cycle(batches)
    return lambda: session.step(next(turn))


def reader(sizes: List[int]) -> Step:
    """Steps that read float32 tensors of these sizes once, each by as few ops as possible."""
    with tf.Graph().as_default() as graph:
        tensors = [tf.Variable(tf.zeros([size])) for size in sizes]
        target = tf.add_n([tf.nn.l2_loss(tensor) for tensor in tensors])
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
        return session.make_callable(target)


def in_turns(variants: Dict[str, Step], count: int, clock: Clock) -> Dict[str, List[List[float]]]:
    """Seconds of a step of each variant, by round: the mean of a turn of a fifth of a second."""
    for step in variants.values():
        for _ in range(WARM_UP):
            step()
    steps = {
        name: max(3, int(TURN / seconds(step, 5, time.perf_counter)))
        for name, step in variants.items()
    }
    rounds: Dict[str, List[List[float]]] = {name: [] for name in variants}
    for number in range(count):
        for name in order(list(variants), number):
            rounds[name].append([seconds(variants[name], steps[name], clock)])
    return rounds


def seconds(step: Step, count: int, clock: Clock) -> float:
    """Seconds of one of some steps, without garbage collections."""
    with collector_paused():
        start = clock()
        for _ in range(count):
            step()
        return (clock() - start) / count


def summary(name: str, batch: Optional[int], rounds: Any, sizes: List[int]) -> Row:
    """The row of a source, in seconds."""
    step, read = step_time(rounds["none"]), step_time(rounds[READ])
    ratio = speedup(rounds["dynamic"], rounds["none"])
    return {
        "source": name,
        "batch": batch,
        "gradients": len(sizes),
        "megabytes": 4e-6 * sum(sizes),
        "step": step,
        "added": [step * (each - 1) for each in (ratio.value, ratio.low, ratio.high)],
        "read": read,
        "bound": max(SHARE * step, READS * read),
    }


def traced(files: Dict[str, Any], batches: List[Any]) -> List[List[Any]]:
    """Op, milliseconds and nodes that the scale adds to a step with one op at a time."""
    found: Dict[str, List[Dict[str, float]]] = {}
    counts: Dict[str, Counter[str]] = {}
    for scale, each in files.items():
        with TimedSession(each, way=ONE_BY_ONE) as session:
            session.timed(batches, 5)
            steps = [by_op(session.traced(batches[0])) for _ in range(TRACED)]
        found[scale] = [times for times, _ in steps]
        counts[scale] = steps[-1][1]
    ops = sorted(set().union(*(times for scale in SCALES for times in found[scale])))
    rows = []
    for op in ops:
        plain, scaled = (
            statistics.median(times.get(op, 0.0) for times in found[scale]) for scale in SCALES
        )
        rows.append([op, scaled - plain, counts["dynamic"][op] - counts["none"][op]])
    return sorted(rows, key=lambda row: -row[1])


def by_op(metadata: Any) -> Any:
    """Milliseconds and number of nodes of each op in a trace."""
    times: Dict[str, float] = collections.defaultdict(float)
    counts: Counter[str] = collections.Counter()
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            op = node.timeline_label.partition(" = ")[2].partition("(")[0] or node.node_name
            times[op] += 1e-3 * (node.op_end_rel_micros - node.op_start_rel_micros)
            counts[op] += 1
    return times, counts


def show_trace(row: Row) -> None:
    """Print what ops take."""
    lines = [["%s" % op, "%.3f" % ms, "%d" % n] for op, ms, n in row["ops"] if abs(ms) > 1e-3 or n]
    print_table([row["source"], "ms", "nodes"], lines[:15])
    print()


def show(rows: List[Row]) -> None:
    """Print the table."""
    lines = []
    for row in rows:
        low, high = (1e3 * value for value in row["added"][1:])
        lines.append(
            [
                "%s, batch %s" % (row["source"], row["batch"]),
                "%d" % row["gradients"],
                "%.1f" % row["megabytes"],
                "%.3f" % (1e3 * row["step"]),
                "%.3f [%.3f, %.3f]" % (1e3 * row["added"][0], low, high),
                "%.1f%%" % (100 * row["added"][0] / row["step"]),
                "%.3f" % (1e3 * row["read"]),
                "%.3f" % (1e3 * row["bound"]),
            ]
        )
    print_table(
        ["source", "gradients", "MB", "step", "scale adds", "share", "one read", "bound"], lines
    )


if __name__ == "__main__":
    raise SystemExit(main())
