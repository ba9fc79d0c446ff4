#!/usr/bin/env python3
"""Build the training graph of a program in examples/ so that XLA can lower it, and save it.

usage: static_graph.py NAME -o FILE.meta [FLAG...]

    python tools/static_graph.py vgg -o vgg.meta --batch_size=32
    python tools/static_graph.py lstm -o lstm.meta --length=35

The loops of tf.nn.dynamic_rnn are unrolled, other while loops become functions (control flow v2),
and unknown first dimensions of placeholders the size of a batch: XLA lowers no while loops of
TensorFlow 1, and wants to know the shapes inside of loops ahead. FLAGs are the program's own. Needs
TensorFlow 2. Prints the size of a batch.

Exit status: 0; 2 for bad usage or TensorFlow 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import pathlib
import sys
from typing import Any, List, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))
from graphmp.files.single import write_atomic
from graphmp.graph.io.messages import serialize

# isort: split
import training  # before TensorFlow: see training.py

# isort: split
import gallery
import tensorflow.compat.v1 as tf


class _Built(Exception):
    """The program has built its graph, and would train it now."""


def main(argv: Optional[List[str]] = None) -> int:
    """Build and save. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", metavar="NAME", help="a program in examples/, without .py")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, metavar="FILE.meta")
    args, flags = parser.parse_known_args(argv)
    if tf.__version__ < "2":
        parser.error(
            "found TensorFlow %s, whose while loops are no functions; accepted is TensorFlow 2"
            % tf.__version__
        )
    if args.name not in gallery.programs():
        parser.error("found %s, accepted: %s" % (args.name, ", ".join(gallery.programs())))
    batch_size = build(args.name, flags)
    write_atomic(args.output, serialize(tf.train.export_meta_graph()))
    print(batch_size)
    return 0


def build(name: str, flags: List[str]) -> int:
    """Build the default graph of a program. Return its batch size."""
    sizes: List[int] = []
    start, placeholder = training.start, tf.placeholder

    def started(*args: Any, **more: Any) -> argparse.Namespace:
        found = start(*args, **more)
        sizes.append(found.batch_size)
        tf.enable_control_flow_v2()
        return found

    def sized(dtype: Any, shape: Any = None, name: Optional[str] = None) -> tf.Tensor:
        if shape is not None and list(shape)[:1] == [None]:
            shape = [sizes[0], *list(shape)[1:]]
        return placeholder(dtype, shape, name)

    def train(*_args: Any, **_more: Any) -> None:
        raise _Built

    training.start, training.train = started, train
    tf.placeholder, tf.nn.dynamic_rnn = sized, unrolled
    sys.argv = [name + ".py", *flags]
    with contextlib.suppress(_Built):
        importlib.import_module(name).main()
    return sizes[0]


def unrolled(cell: Any, inputs: tf.Tensor, **more: Any) -> Any:
    """tf.nn.dynamic_rnn without a loop; `inputs` are (batch, time, ...)."""
    outputs, state = tf.nn.static_rnn(cell, tf.unstack(inputs, axis=1), **more)
    return tf.stack(outputs, axis=1), state


if __name__ == "__main__":
    sys.exit(main())
