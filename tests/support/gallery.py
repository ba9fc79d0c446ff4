"""The programs of examples/: their names, files and graphs."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from tests.support.places import EXAMPLES

NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if "training.train" in path.read_text())


def path_of(name):
    return str(EXAMPLES / (name + ".py"))


def build(example, *arguments):
    """Builds an example's graph; trainable numbers by the first part of a variable's name."""
    example.build_training_model(*arguments)
    counts = {}
    for variable in tf.trainable_variables():
        scope = variable.op.name.split("/")[0]
        counts[scope] = counts.get(scope, 0) + int(np.prod(variable.shape.as_list()))
    return counts


def pictures():
    return tf.placeholder(tf.float32, [None, 224, 224, 3]), tf.placeholder(tf.int32, [None])
