"""`graphmp run`: what its closing lines say, and scripts that end or train in unusual ways."""

from __future__ import annotations

import sys

import pytest

from tests.support.run_scripts import LOOP, TRAIN, finished, forked, run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


GRAPHS = """
def build(name):
    with tf.variable_scope(name):
        v = tf.get_variable("v", [8, 8])
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.constant(X), v)))
        return tf.train.AdamOptimizer(0.01).minimize(loss)

sessions = []
for steps in range(1, 9):
    with tf.Graph().as_default():
        train = build("g%d" % steps)
        sessions.append(tf.Session())
        sessions[-1].run(tf.global_variables_initializer())
        for _ in range(steps):
            sessions[-1].run(train)
"""


def test_closing_lines_come_in_the_order_of_training(forks, folder):
    _, _, err = forked(forks, TRAIN + GRAPHS)
    steps = [line.split()[1] for line in err if " training steps" in line]
    assert steps == [str(number) for number in range(1, 9)]


CLOSED_LATE = """
class Model(object):
    def __init__(self):
        self.session = tf.Session()
        self.session.run(tf.global_variables_initializer())
        for _ in range(20):
            self.session.run(train, feed)

    def __del__(self):
        self.session.close()
        print("closed")

model = Model()
"""


def test_a_session_that_is_closed_while_python_shuts_down(folder):
    """In a process of its own: a fork ends without a shutdown."""
    status, out, err = run(folder, TRAIN + CLOSED_LATE)
    assert (status, out) == finished([sys.executable, "train.py"])[:2]  # 3.7 doesn't close it
    assert all(line.startswith("graphmp: ") for line in err)
    assert err[-1] == "graphmp: 20 training steps; loss scale 1024; 0 skipped"


def test_what_computes_in_float32_as_asked(forks, folder):
    _, _, err = forked(forks, TRAIN + LOOP, flags=["--compute_dtype=float32"])
    assert "6 of 6 matmuls and convolutions in float32, 0 casts" in err[1]


BY_PYTHON = """
variables = tf.trainable_variables()
gradients = tf.gradients(loss, variables)
given = [tf.placeholder(tf.float32, v.shape) for v in variables]
%s
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(5):
        values, found = session.run([variables, gradients], feed)
        session.run(update, dict(zip(given, %s)))
"""


@pytest.mark.parametrize(
    "update, fed, expected",
    [
        (
            "update = [v.assign(g) for v, g in zip(variables, given)]",
            "[v - 0.1 * g for v, g in zip(values, found)]",
            False,
        ),
        (
            "update = tf.train.AdamOptimizer(0.01).apply_gradients(zip(given, variables))",
            "found",
            True,
        ),
    ],
    ids=["assigned", "applied"],
)
def test_updates_that_python_computes(forks, folder, update, fed, expected):
    """They train in float32, which is said with a cure that holds."""
    _, _, err = forked(forks, TRAIN + BY_PYTHON % (update, fed))
    said = [line for line in err if "fetches gradients and computes updates in Python" in line]
    assert bool(said) is not expected
    assert any("of fed placeholders" in line for line in said) is not expected
    assert any(line.startswith("graphmp: 5 training steps") for line in err) is expected
    half = [line for line in err if "in float16, " in line and "matmuls" in line]
    assert bool(half) is expected and all("10 of 10" in line for line in half)
