"""Impossible loss scales are refused in one line.

Given on the command line, in Python, or by a tensor or function.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.cli.main import run_command
from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.loss_scale import scales

NOT_NUMBERS = (math.nan, math.inf, -math.inf, -1.0, 1e45, -1e45, 3.5e38, 1e-50, "x", [1.0, 2.0])
REFUSED = {
    "loss_scale": (*NOT_NUMBERS, 0.0, 1e-39, 10**400),
    "loss_scale_initial": (*NOT_NUMBERS, 0.0, 1e-30),
    "loss_scale_min": (*NOT_NUMBERS, 0.0, 65536.0),
    "loss_scale_growth_factor": (*NOT_NUMBERS, 0.0, 1.0, 0.5),
    "loss_scale_backoff_factor": (*NOT_NUMBERS, 0.0, 1.0, 2.0, 1e-30),
    "loss_scale_growth_interval": (*NOT_NUMBERS, 0, 0.5, 1.5, 1e30),
    "clip_norm": NOT_NUMBERS,
}
ACCEPTED = {
    "loss_scale": (1.0, 1e-30, 1e10, 3.4e38, "1e30", np.float32(128)),
    "loss_scale_initial": (1.0, 1e30, "3.4e38"),
    "loss_scale_min": (2.0**-24, 32768),
    "loss_scale_growth_factor": (1.001, 1e30),
    "loss_scale_backoff_factor": (0.999, 0.001),
    "loss_scale_growth_interval": (1, "2000", 2.0),
    "clip_norm": (0, "0", None, 1e-6, 1e30),
}


@pytest.mark.unit
@pytest.mark.parametrize("option", sorted(REFUSED))
def test_what_a_scale_cannot_be_is_refused(option):
    for value in REFUSED[option]:
        with pytest.raises(GraphmpError) as raised:
            Config.make(**{option: value})
        assert raised.value.code == "GMP002" and raised.value.exit_status == 2, value
        assert "--%s=" % option in str(raised.value) and "accepted" in str(raised.value), value
    for value in ACCEPTED[option]:
        Config.make(**{option: value})


@pytest.mark.unit
def test_min_above_initial():
    assert Config.make(loss_scale_initial=2.0**60, loss_scale_min=2.0**60).loss_scale_min == 2.0**60
    with pytest.raises(
        GraphmpError,
        match="--loss_scale_min=64: it is above --loss_scale_initial=32, where the scale starts",
    ):
        Config.make(loss_scale_initial=32, loss_scale_min=64)


@pytest.mark.unit
@pytest.mark.parametrize(
    "command",
    [
        ["convert", "x.meta"],
        ["run", "x.py"],
        ["audit", "x.meta", "--random_data"],
        ["bench", "x.meta"],
    ],
)
@pytest.mark.parametrize(
    "flag",
    [
        "--loss_scale=1e45",
        "--loss_scale=nan",
        "--loss_scale_initial=1e45",
        "--loss_scale_growth_factor=1",
    ],
)
def test_the_command_line_refuses_in_one_line(command, flag, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("x.py", "x.meta"):
        (tmp_path / name).write_text("")
    assert run_command(["graphmp", *command[:1], flag, *command[1:]]) == 2
    out, err = capfd.readouterr()
    assert (
        out == ""
        and err.count("\n") == 1
        and err.startswith("graphmp: error GMP002: %s: accepted " % flag)
    )


@pytest.mark.parametrize(
    "make",
    [
        graphmp.Session,
        graphmp.mixed_precision,
        lambda **options: graphmp.convert(tf.Graph(), **options),
    ],
)
def test_python_refuses(make):
    with pytest.raises(GraphmpError, match="GMP002: --loss_scale=1e\\+45"):
        make(loss_scale=1e45)


@pytest.mark.unit
def test_a_tensor_or_function_is_looked_at_where_its_value_is_known(graph):
    step = tf.train.get_or_create_global_step()
    for value in (
        lambda: tf.constant(0.0),
        lambda: tf.constant(np.inf),
        lambda: lambda _: -1.0,
        lambda: tf.constant([1.0, 2.0]),
    ):
        with pytest.raises(GraphmpError, match="GMP002: --loss_scale="):
            scales.make(Config.make(loss_scale=value()), "loss_scale")
    for value in (
        tf.constant(8.0),
        lambda step: tf.cast(step, tf.float32),
        8.0,
        tf.cast(step, tf.float32),
    ):
        assert scales.make(Config.make(loss_scale=value), "loss_scale").kind == "fixed"
