"""The example trains in float32 under plain Python, without graphmp."""

import ast

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.cli.main import run_command
from tests.support.places import EXAMPLES

EXAMPLE = EXAMPLES / "simple_cnn.py"
CHANNELS_LAST = ["--data_format=channels_last"]
CPU_FORMATS = (
    [[], CHANNELS_LAST] if tf.__version__ > "2" else [CHANNELS_LAST]
)  # 1.15.5's CPU doesn't support channels first


def losses(forks, flags):
    """The printed losses, as numbers."""
    ended = forks.run(str(EXAMPLE), "--smoke", *flags, flags=None)
    assert ended.status == 0, ended.err
    return [float(line.split()[-1]) for line in ended.out.splitlines()]


@pytest.mark.parametrize("flags", CPU_FORMATS)
def test_it_trains_by_itself(flags, forks):
    found = losses(forks, flags + ["--steps=12"])
    assert len(found) == 12
    assert np.all(np.isfinite(found))
    assert min(found) < found[0] / 2, "the loss never halved: %s" % found


def test_the_smoke_run_is_five_steps(forks):
    assert len(losses(forks, CHANNELS_LAST)) == 5


@pytest.mark.unit
def test_it_knows_nothing_of_graphmp():
    imported = [
        alias.name
        for node in ast.walk(ast.parse(EXAMPLE.read_text()))
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    assert sorted(imported) == ["argparse", "numpy", "os", "tensorflow.compat.v1"]


@pytest.mark.unit
def test_the_full_model(graph):
    namespace = {"__name__": "simple_cnn"}
    exec(compile(EXAMPLE.read_text(), str(EXAMPLE), "exec"), namespace)
    images = tf.placeholder(tf.float32, (None, 3, 224, 224))
    classes = tf.placeholder(tf.int32, (None,))
    inputs, labels, loss, train_op = namespace["build_training_model"](images, classes, 1000)
    assert inputs is images
    assert labels is classes
    assert loss.dtype == tf.float32
    assert loss.shape.as_list() == []
    shapes = {variable.op.name: variable.shape.as_list() for variable in tf.trainable_variables()}
    assert shapes == {
        "conv/kernel": [7, 7, 3, 64],
        "norm/gamma": [64],
        "norm/beta": [64],
        "hidden/kernel": [64 * 112 * 112, 128],
        "hidden/bias": [128],
        "logits/kernel": [128, 1000],
        "logits/bias": [1000],
    }
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    assert {op.name for op in updates} <= names_before(train_op)
    assert graph.get_collection(tf.GraphKeys.TRAIN_OP) == [train_op]
    assert graph.get_collection(tf.GraphKeys.LOSSES) == [loss]


def names_before(op):
    """Names of an operation and of all operations that run before it."""
    seen, waiting = set(), [op]
    while waiting:
        at = waiting.pop()
        if at.name not in seen:
            seen.add(at.name)
            waiting += [tensor.op for tensor in at.inputs] + list(at.control_inputs)
    return seen


@pytest.mark.parametrize(
    "flags",
    [CPU_FORMATS[0], *(pytest.param(flags, marks=pytest.mark.slow) for flags in CPU_FORMATS[1:])],
)
def test_run_converted_trains_what_convert_wrote(flags, built_in_forks, forks, tmp_path, capfd):
    assert (
        run_command(
            [
                "graphmp",
                "convert",
                str(EXAMPLE),
                "-o",
                str(tmp_path / "out"),
                "--",
                "--smoke",
                *flags,
            ]
        )
        == 0
    )
    capfd.readouterr()
    ended = forks.run(
        str(EXAMPLE.parent / "run_converted.py"), str(tmp_path / "out"), "--steps=3", flags=None
    )
    lines = ended.out.splitlines()
    assert ended.status == 0 and len(lines) == 4, ended.err
    assert all("loss scale" in line and "nan" not in line for line in lines)
