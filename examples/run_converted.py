"""Train the output of `graphmp convert`, without the model's source.

    graphmp convert train.py -o out
    python examples/run_converted.py out
    python examples/run_converted.py out --data batches.npz --steps 100

Imports DIR/converted.meta and runs the ops under `train_ops` of each loss in DIR/report.json; those
of a GAN take turns. Training is done by TensorFlow; graphmp is imported only to find the
initialisation ops and the data, which a script would know. Without --data, one made-up batch of
values valid for the graph is fed in every step, also in place of data sets, queues and files.
"""

import argparse
import json
import math
import pathlib
import sys
import tempfile
import time
from typing import NamedTuple

from graphmp.conversion.quiet import quiet_stderr
from graphmp.errors import (
    GraphmpError,  # before TensorFlow, which reads its settings on import
)

with quiet_stderr():  # TensorFlow writes to stderr when imported
    import numpy as np
    import tensorflow.compat.v1 as tf

    from graphmp.bench.graphs import write
    from graphmp.bench.processes.timed_session import TimedSession
    from graphmp.feeds.attempts import first_line, first_that_runs, random_attempts
    from graphmp.feeds.batches import from_function, from_npz
    from graphmp.feeds.wanted import wanted_tensors
    from graphmp.gate.reading import read_graph

NOT_FINITE = " (does not train: `graphmp audit DIR/original.meta` says where it is not finite)"
STILL = (
    " (stands still: its script may assign the learning rate, which is what its variable starts "
    "with here)"
)


class Row(NamedTuple):
    """A step of one loss: its name, its value, a note on its scale, and whether it was skipped."""

    name: str
    value: float
    scale: str
    skipped: bool


class Part:
    """The losses trained by one run: one, or several that share a train op."""

    def __init__(self, losses, graph):
        """Look up the tensors of `losses`, rows of the report."""

        def tensor(name):
            return graph.get_tensor_by_name(name if ":" in name else name + ":0")

        self.names = [" + ".join(loss["loss"]) for loss in losses]
        self.train_ops = [
            graph.get_operation_by_name(name)
            for name in sorted({name for loss in losses for name in loss["train_ops"]})
        ]
        self.values = [[tensor(name) for name in loss["loss"]] for loss in losses]
        self.gradients = [tensor(name) for loss in losses for name in loss["gradients"]]
        self.scales = [[tensor(loss["scale"])] if loss["scale"] else [] for loss in losses]
        self.finite = [
            [tensor(name) for name in loss["finite"].split(", ") if name and loss["gated"]]
            for loss in losses
        ]

    def train(self, session, feeds):
        """Run a step; return a Row for each loss."""
        values, scales, finite, _ = session.run(
            [self.values, self.scales, self.finite, self.train_ops], feeds
        )
        sums = [float(sum(np.sum(value) for value in each)) for each in values]
        said = ["".join(", loss scale %g" % scale for scale in each) for each in scales]
        return [
            Row(*row) for row in zip(self.names, sums, said, [not all(flags) for flags in finite])
        ]


def parse_flags():
    """The parsed command line."""
    parser = argparse.ArgumentParser(description="Trains a converted graph.")
    parser.add_argument(
        "folder", metavar="DIR", type=pathlib.Path, help="output folder of `graphmp convert`"
    )
    parser.add_argument(
        "--data",
        default="",
        metavar="FILE",
        help="batches: FILE.npz or FILE.py:FUNCTION, as `graphmp audit` takes them",
    )
    parser.add_argument(
        "--batch_size",
        type=int,
        default=8,
        help="size of unknown dimensions (default 8)",
    )
    parser.add_argument("--steps", type=int, default=20, help="training steps (default 20)")
    flags = parser.parse_args()
    if min(flags.steps, flags.batch_size) < 1:
        parser.error("--steps and --batch_size are 1 or more")
    return flags


def read_losses(folder):
    """The losses of the report, grouped by shared train ops."""
    try:
        losses = json.loads((folder / "report.json").read_text(encoding="utf-8"))["losses"]
    except (OSError, ValueError, KeyError) as error:
        raise GraphmpError(
            "GMP003",
            "%s: no report of a conversion (%r); make one with `graphmp convert SOURCE -o DIR`"
            % (folder, error),
        ) from None
    if not losses or not all(loss.get("train_ops") for loss in losses):
        raise GraphmpError(
            "GMP023",
            "%s/report.json names no op that trains; convert again, with --train_op=OP "
            "--loss=TENSOR" % folder,
        )
    parts = []
    for loss in losses:
        joined = [
            part
            for part in parts
            if any(set(loss["train_ops"]) & set(other["train_ops"]) for other in part)
        ]
        parts = [part for part in parts if part not in joined] + [
            [other for part in joined for other in part] + [loss]
        ]
    return parts


def opened(folder, parts):
    """An initialised session of the graph."""
    targets = {name for part in parts for loss in part for name in loss["train_ops"]}
    with tempfile.TemporaryDirectory() as temporary:
        local = write(
            read_graph(folder / "converted.meta"), targets, pathlib.Path(temporary) / "local.meta"
        )  # without the devices of other machines
        return TimedSession(local)


def batches_for(training, parts, flags):
    """A function from the number of a step to its feeds."""
    names = [op.name for part in parts for op in part.train_ops] + [
        tensor.op.name for part in parts for each in part.values for tensor in each
    ]
    if flags.data:
        wanted = wanted_tensors(training.graph, training.view, names)
        return (
            from_npz(flags.data, wanted, flags.batch_size)
            if flags.data.endswith(".npz")
            else from_function(flags.data, wanted)
        )
    probe = [tensor for part in parts for tensor in [*part.gradients, *part.values]]
    made_up = first_that_runs(
        training.session,
        probe,
        random_attempts(training.graph, training.view, names, flags.batch_size, 0),
    )
    return lambda step: made_up(0)


def train(flags):
    """Train and print each step. Return 1 if a loss is not finite or no step was taken, else 0."""
    rows = read_losses(flags.folder)
    training = opened(flags.folder, rows)
    with training.graph.as_default(), training.session as session:
        parts = [Part(losses, training.graph) for losses in rows]
        batches = batches_for(training, parts, flags)
        start, steps = time.time(), []
        for number in range(flags.steps):
            steps.append([row for part in parts for row in part.train(session, batches(number))])
            print(
                "step %2d" % (number + 1)
                + "".join(
                    "  %s %.4f%s%s" % (row[:3] + (", skipped" * row.skipped,)) for row in steps[-1]
                )
            )
    by_loss = list(zip(*steps))
    print(
        "%d steps in %.1f s: %s"
        % (len(steps), time.time() - start, "; ".join(map(summary, by_loss)))
    )
    return int(any(troubles(rows) == NOT_FINITE for rows in by_loss))


def summary(rows):
    """The course of a loss, in words."""
    numbers = (
        rows[0].name,
        rows[0].value,
        rows[-1].value,
        rows[-1].scale,
        sum(row.skipped for row in rows),
    )
    return "%s %.4f -> %.4f%s, %d skipped" % numbers + troubles(rows)


def troubles(rows):
    """The reason that a loss did not train, with a remedy; empty if it did."""
    if not math.isfinite(rows[-1].value) or all(row.skipped for row in rows):
        return NOT_FINITE
    return STILL if len(rows) > 1 and len({row.value for row in rows}) == 1 else ""


def main():
    """Train, or print the reason that it is impossible in one line."""
    flags = parse_flags()
    tf.logging.set_verbosity(tf.logging.ERROR)
    if tf.__version__ >= "2":
        tf.disable_v2_behavior()
    try:
        return train(flags)
    except GraphmpError as error:
        message = str(error)
    except (tf.errors.OpError, ValueError, TypeError) as error:
        text = (
            "%s does not run on TensorFlow %s: %s; take the TensorFlow that made the graph, and "
            "see `graphmp doctor`"
        )
        message = text % (flags.folder / "converted.meta", tf.__version__, first_line(error))
    print("run_converted: %s" % message, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
