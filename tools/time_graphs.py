#!/usr/bin/env python3
"""Time training graphs in float32, in half precision, and after TensorFlow's own pass, in turns.

usage: time_graphs.py [FILE.meta...] -o FILE.jsonl [--batch_size N] [--seconds N] [--losses N]
                      [--loss_scale SCALE] [--only VARIANT...] [--costs FOLDER] [--lock FILE]

    python tools/time_graphs.py resnet50.meta lstm.meta -o steps.jsonl
    NVIDIA_TF32_OVERRIDE=0 python tools/time_graphs.py lstm.meta -o full.jsonl --only float32
    python tools/time_graphs.py -o steps.jsonl

For a GPU, and for whole steps as TensorFlow runs them. `graphmp bench` feeds each step its batch;
here, as in `graphmp tune`, large batches stay in the GPU's memory: the copy from numpy would hide
what a faster step gains. For each graph a line of JSON is added to the file:

    rounds     milliseconds of a step by variant and round (a median): float32, float16 and bfloat16
               (converted), own (TensorFlow's own pass in float16, without a loss scale), tuned
               (float16 by the costs of `graphmp tune`, if the folder of --costs has NAME.costs)
    kernels    milliseconds of the kernels of a traced step: all, on Tensor Cores, casts, scaling
    slowest    the slowest of these by name
    losses     of the first steps, all from the same values and on the same batch

Then all of the file is printed as tables in Markdown. --lock names a file that is locked while the
device is used, so that other calls can convert their graphs meanwhile. stderr has the time of each
first step, in which cuDNN tries algorithms, and says which variant can't run and is left out.

Exit status: 0; 1 if a graph can't be timed; 2 for bad usage.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fcntl
import functools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import graphmp
from graphmp.bench import graphs
from graphmp.bench.bench import GRAPHMP, TENSORFLOW
from graphmp.bench.bench import TUNED as BY_COSTS
from graphmp.bench.kernels.names import uses_tensor_cores
from graphmp.bench.kernels.profile import kernels_of_run
from graphmp.bench.kernels.shares import shares
from graphmp.bench.processes import feeds, resident
from graphmp.bench.processes.timed_session import TimedSession, TrainingFile
from graphmp.environment import FAST_BATCH_NORM, prepare_training
from graphmp.errors import GraphmpError
from graphmp.gate.reading import read_graph
from graphmp.timings import order, speedup
from graphmp.tuning.machine import this_machine

# isort: split
import numpy as np
import tensorflow.compat.v1 as tf
from parts.measured_text import said, table
from parts.timed_turns import WARM_UP, turn

Row = Dict[str, Any]
Opened = Tuple[TimedSession, Row]  # and what a step is fed
VARIANTS = ("float32", "float16", "bfloat16", "own", "tuned")
FLOAT32, FLOAT16, BFLOAT16, OWN, TUNED = VARIANTS
HEADINGS = {**{name: name for name in VARIANTS}, OWN: "TensorFlow's own", TUNED: "float16, tuned"}
_LEAST = 3  # rounds
_SLOWEST = 12  # kernels by name


def main(argv: Optional[List[str]] = None) -> int:
    """Time the graphs. Return the exit status."""
    args = parse(argv)
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    prepare_training()
    failed = False
    for path in args.graphs:
        try:
            row = measured(path, args)
        except (GraphmpError, tf.errors.OpError, ValueError) as error:
            say("%s: %s" % (path, str(error)[:300]))
            failed = True
            continue
        with args.output.open("a") as output:
            output.write(json.dumps(row) + "\n")
    if args.output.exists():
        rows = [json.loads(line) for line in args.output.read_text("utf-8").splitlines()]
        print("\n".join(text(rows)))
    return int(failed)


def parse(argv: Optional[List[str]]) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", metavar="FILE.meta", help="training graphs")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, metavar="FILE.jsonl")
    parser.add_argument("--batch_size", type=int, default=32, help="of open dimensions (32)")
    parser.add_argument("--seconds", type=float, default=8, help="for the rounds of a graph (8)")
    parser.add_argument("--losses", type=int, default=20, help="steps that are compared (20)")
    parser.add_argument("--loss_scale", default="dynamic", help="of float16 (dynamic)")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=VARIANTS, help="variants")
    parser.add_argument("--costs", type=pathlib.Path, metavar="FOLDER", help="of NAME.costs")
    parser.add_argument("--lock", metavar="FILE", help="lock it while the device is used")
    args = parser.parse_args(argv)
    if not args.graphs and not args.output.exists():
        parser.error("found no FILE.meta, and %s doesn't exist: give graphs to time" % args.output)
    return args


def measured(path: str, args: argparse.Namespace) -> Row:
    """The row of a graph."""
    original = read_graph(path)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as sessions:
        folder = pathlib.Path(name)
        costs = args.costs / (pathlib.Path(path).stem + ".costs") if args.costs else None
        trainings, losses = made(original, args, costs, folder)
        sessions.enter_context(locked(args.lock))
        with TimedSession(next(iter(trainings.values()))) as first:
            batches = feeds.make(first, "", [args.batch_size], 0, folder)[0]
        batch = feeds.read(batches.path, 1)[0]
        opened = open_all(trainings, batch, sessions)
        if not opened:
            raise ValueError("no variant can run")
        start = values(next(iter(opened.values()))[0])
        row = {
            "program": pathlib.Path(path).stem,
            "device": this_machine().device,
            "tensorflow": tf.__version__,
            FAST_BATCH_NORM: os.environ[FAST_BATCH_NORM],
            "batch_size": batches.batch_size,
            "losses": {
                name: first_losses(*each, start, losses, args.losses)
                for name, each in opened.items()
            },
        }
        row["rounds"] = rounds(opened, args.seconds)
        row["kernels"], row["slowest"] = {}, {}
        for name, (session, fed) in opened.items():
            row["kernels"][name], row["slowest"][name] = kernels(session, fed, name != FLOAT32)
        return row


def made(
    original: tf.MetaGraphDef,
    args: argparse.Namespace,
    costs: Optional[pathlib.Path],
    folder: pathlib.Path,
) -> Tuple[Dict[str, TrainingFile], List[Row]]:
    """The graphs by variant, and the losses of the report."""
    found: Dict[str, TrainingFile] = {}
    for dtype in (FLOAT16, BFLOAT16):
        if dtype == BFLOAT16 and dtype not in args.only:
            continue
        scale = args.loss_scale if dtype == FLOAT16 else "none"
        conversion = graphmp.convert(
            original, compute_dtype=dtype, engine="rewrite", loss_scale=scale
        )
        tuned = None
        if dtype == FLOAT16 and costs is not None and costs.exists():
            tuned = graphs.by_costs(conversion, str(costs))
        (folder / dtype).mkdir()
        each = graphs.make(conversion, folder / dtype, tuned).trainings
        if dtype == FLOAT16:
            report = conversion.report["losses"]
            names = {FLOAT32: FLOAT32, OWN: TENSORFLOW, TUNED: BY_COSTS}
            found.update((name, each[key]) for name, key in names.items() if key in each)
        found[dtype] = each[GRAPHMP]
    return {name: found[name] for name in VARIANTS if name in args.only and name in found}, report


@contextlib.contextmanager
def locked(path: Optional[str]) -> Iterator[None]:
    """Wait for a file's lock and hold it."""
    if not path:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def open_all(
    trainings: Dict[str, TrainingFile], batch: Row, sessions: contextlib.ExitStack
) -> Dict[str, Opened]:
    """A session of each variant that runs, with what a step is still fed."""
    found = {}
    for name, training in trainings.items():
        try:
            session, fed = resident.opened(training, batch)
            sessions.enter_context(session)
            began = time.perf_counter()
            session.step(fed)
            say("%s: first step %.1f s" % (name, time.perf_counter() - began))
            for _ in range(WARM_UP):
                session.step(fed)
            found[name] = session, fed
        except (tf.errors.OpError, ValueError) as error:
            say("%s can't run: %s" % (name, str(error)[:300]))
    return found


def values(session: TimedSession) -> Row:
    """The values of all variables of a graph, by name."""
    found = {}
    with session.graph.as_default():
        for node in session.graph.get_operations():
            if node.type == "VarHandleOp":
                dtype = node.get_attr("dtype")
                found[node.name] = tf.raw_ops.ReadVariableOp(resource=node.outputs[0], dtype=dtype)
            elif node.type in ("VariableV2", "Variable") and not node.name.endswith(
                resident.SUFFIX
            ):
                found[node.name] = node.outputs[0]
    return session.session.run(found)


def first_losses(
    session: TimedSession, fed: Row, start: Row, losses: List[Row], count: int
) -> List[float]:
    """The sum of the losses in the first steps from some values of the variables."""
    nodes = {node.name: node for node in session.graph.get_operations()}
    assigns = [nodes[name + "/Assign"] for name in start if name + "/Assign" in nodes]
    while assigns:
        chosen = {each.inputs[1]: each for each in assigns}  # variables may share a first value
        fed_values = {
            tensor: start[each.name[: -len("/Assign")]] for tensor, each in chosen.items()
        }
        session.session.run(list(chosen.values()), fed_values)
        assigns = [each for each in assigns if chosen[each.inputs[1]] is not each]
    tensors = [name.split(":")[0] + ":0" for loss in losses for name in loss["loss"]]
    found = []
    for _ in range(count):
        each = session.session.run([tensors, session.targets], fed)[0]
        found.append(float(sum(np.sum(value) for value in each)))
    return found


def rounds(opened: Dict[str, Opened], seconds: float) -> Dict[str, List[float]]:
    """Milliseconds of a step of each variant in each round."""
    found: Dict[str, List[float]] = {name: [] for name in opened}
    number, ends = 0, time.monotonic() + seconds
    while number < _LEAST or time.monotonic() < ends:
        for name in order(list(opened), number):
            session, fed = opened[name]
            found[name].append(round(1e3 * turn(functools.partial(session.step, fed))[0], 4))
        number += 1
    return found


def kernels(session: TimedSession, fed: Row, reduced: bool) -> Tuple[Row, List[Any]]:
    """Milliseconds of the kernels of a step by their kind, and the slowest by name."""
    trace = session.traced(fed)
    parts = shares(trace, session.view.graph_def)
    by_name: Dict[str, float] = collections.defaultdict(float)
    for each in kernels_of_run(trace).values():
        for kernel in each:
            by_name[kernel.name] += kernel.microseconds / 1e3
    fast = sum(value for name, value in by_name.items() if uses_tensor_cores(name, reduced))
    kinds = ("products", "casts", "scaling")
    found = {"all": 1e3 * parts.total, "tensor_cores": fast}
    found.update((kind, 1e3 * getattr(parts, kind)) for kind in kinds)
    slowest = sorted(by_name.items(), key=lambda item: -item[1])[:_SLOWEST]
    return (
        {name: round(value, 4) for name, value in found.items()},
        [[name[:100], round(value, 4)] for name, value in slowest],
    )


def say(what: str) -> None:
    """Tell how it goes."""
    print("time_graphs: " + what, file=sys.stderr, flush=True)


def text(rows: Sequence[Row]) -> Iterator[str]:
    """The speed-ups, the kernels, and the conditions of the measurement."""
    timed = [name for name in VARIANTS if any(name in row["rounds"] for row in rows)]
    columns = [name for name in timed if name != FLOAT32]
    first = ["program", "GPU", FLOAT32, *(HEADINGS[name] for name in columns)]
    yield from table([first, *(speedups(row, columns) for row in rows)])
    yield ""
    kinds = ["kernels of a step", "", "all", "on Tensor Cores", "casts", "scaling"]
    yield from table([kinds, *(cells for row in rows for cells in kernels_of(row))])
    yield ""
    yield "- TensorFlow %s." % ", ".join(sorted({row["tensorflow"] for row in rows}))
    if any(row[FAST_BATCH_NORM] != "1" for row in rows):
        yield "- slow batch norm: with %s=0, which is TensorFlow's default." % FAST_BATCH_NORM


def speedups(row: Row, columns: Sequence[str]) -> List[str]:
    """The cells of a program: a float32 step, and the speed-up of each other variant."""
    rounds = {name: [[each] for each in found] for name, found in row["rounds"].items()}
    return [
        program(row),
        row["device"],
        "%.1f ms" % statistics.median(row["rounds"][FLOAT32]) if FLOAT32 in rounds else "-",
        *(
            said(speedup(rounds[FLOAT32], rounds[name]) if {FLOAT32, name} <= set(rounds) else None)
            for name in columns
        ),
    ]


def kernels_of(row: Row) -> Iterator[List[str]]:
    """The cells of the kernels of each variant."""
    for name, found in row["kernels"].items():
        kinds = (found[kind] for kind in ("all", "tensor_cores", "casts", "scaling"))
        yield [program(row), HEADINGS[name], *("%.1f ms" % each for each in kinds)]


def program(row: Row) -> str:
    """The name of a program; with cuDNN's slower batch normalization it says so."""
    return row["program"] + ("" if row[FAST_BATCH_NORM] == "1" else ", slow batch norm")


if __name__ == "__main__":
    sys.exit(main())
