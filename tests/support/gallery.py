"""The programs of examples/: their names, files and graphs."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.places import EXAMPLES

NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if "training.train" in path.read_text())


def path_of(name):
    return str(EXAMPLES / (name + ".py"))


@contextlib.contextmanager
def without_training():
    """Make optimizers add nothing, as the gradients of a large model take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            tf.train.Optimizer, "compute_gradients", lambda *_, **__: [(tf.zeros([]), None)]
        )
        for name in ("minimize", "apply_gradients"):
            patch.setattr(tf.train.Optimizer, name, lambda *_, **__: tf.no_op())
        yield


def build(example, *arguments, trains=False):
    """Build an example's model, with gradients if it `trains`.

    Returns the number of trainable elements by the first part of a variable's name.
    """
    with contextlib.nullcontext() if trains else without_training():
        example.build_training_model(*arguments)
    counts = {}
    for variable in tf.trainable_variables():
        scope = variable.op.name.split("/")[0]
        counts[scope] = counts.get(scope, 0) + int(np.prod(variable.shape.as_list()))
    return counts


def pictures():
    return tf.placeholder(tf.float32, [None, 224, 224, 3]), tf.placeholder(tf.int32, [None])
