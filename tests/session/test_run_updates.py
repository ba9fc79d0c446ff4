"""The closing line of a run counts updates, not runs that only add gradients up."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

SCRIPT = """
from net import *
x = tf.placeholder(tf.float32, [16, 8])
w = tf.get_variable("w", [8, 4])
loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
optimizer = tf.train.GradientDescentOptimizer(0.1)
pairs = optimizer.compute_gradients(loss)
sums = [tf.Variable(tf.zeros(v.shape), trainable=False) for _, v in pairs]
add = [s.assign_add(g) for s, (g, _) in zip(sums, pairs)]
zero = [s.assign(tf.zeros_like(s)) for s in sums]
update = optimizer.apply_gradients([(s / 4, v) for s, (_, v) in zip(sums, pairs)])
session = tf.Session()
session.run(tf.global_variables_initializer())
"""
ENDS = {
    "sums and updates": (
        """
for _ in range(2):
    session.run(zero)
    for _ in range(3):
        session.run(add, {x: X})
    session.run(update)
""",
        2,
    ),
    "both in one run": ("for _ in range(3): session.run([add, update], {x: X})\n", 3),
    "updates in a conditional": (
        """
turn = tf.placeholder(tf.bool, [])
either = tf.cond(turn, lambda: tf.group(optimizer.minimize(loss)), tf.no_op)
for _ in range(2):
    session.run(update)
    session.run(either, {x: X, turn: True})
""",
        4,
    ),
    "sums alone": ("for _ in range(3): session.run(add, {x: X})\n", 3),
}


@pytest.mark.parametrize("end", ENDS)
def test_updates_are_counted(forks, net_folder, end):
    text, count = ENDS[end]
    (net_folder / "train.py").write_text(SCRIPT + text)
    ended = forks.run("train.py")
    assert ended.status == 0, ended.err
    assert ended.said[-1].startswith("%d training steps; loss scale" % count)


OVERFLOWS = """
for scale in [float(text) for text in sys.argv[1:]]:
    session.run(add, {x: X * scale})
    session.run(add, {x: X})
    session.run(update)
"""


@pytest.mark.parametrize(
    "scales, number, left_out",
    [(["1", "1e6"], 2, "1 of 4 runs that only add gradients up left out"), (["1e6"], 1, "1 of 2")],
    ids=["one of several", "the first"],
)
def test_gradients_that_are_left_out_of_a_sum_are_counted_apart(
    forks, net_folder, scales, number, left_out
):
    """They are of the step that is to apply them, which isn't skipped."""
    (net_folder / "train.py").write_text(SCRIPT + OVERFLOWS)
    ended = forks.run("train.py", *scales)
    assert ended.status == 0, ended.err
    (said,) = [line for line in ended.said if line.startswith("step ")]
    assert said.startswith("step %d: a value that Mean is computed of is not finite" % number)
    assert "; left out of the step's sum of gradients. " in said
    last = ended.said[-1]
    assert last.startswith("%d training step%s; loss scale" % (number, "s" * (number > 1)))
    assert "; 0 skipped; " + left_out in last and "nothing was learned" not in last


SKIPPED_BY_TURNS = """
both = optimizer.apply_gradients([(s + g, v) for s, (g, v) in zip(sums, pairs)])
for _ in range(30):
    session.run(add, {x: X})
    session.run(both, {x: X})
"""


def test_a_run_that_skipped_more_runs_than_it_has_steps_may_have_learned(forks, net_folder):
    (net_folder / "train.py").write_text(SCRIPT + SKIPPED_BY_TURNS)
    learned = forks.run("train.py", flags=["--loss_scale_initial=1e18"])
    assert "10 runs in a row skipped: " in learned.err
    assert "nothing was learned" not in learned.said[-1]
    vain = forks.run("train.py", flags=["--loss_scale_initial=1e35"]).said[-1]
    assert vain.startswith(
        "30 training steps; 30 skipped; 30 of 30 runs that only add gradients up"
    )
    assert ": nothing was learned. The scale, " in vain


BY_HAND = """
from net import *
if sys.argv[1] == "v2":
    tf.enable_control_flow_v2()
tf.enable_resource_variables()
x = tf.get_variable("x", initializer=tf.ones([4, 6]), trainable=False)
rate = tf.get_variable("rate", initializer=0.01)

def taken(value):
    return tf.gradients(tf.reduce_sum(tf.square(tf.matmul(value, tf.eye(6)) - 3.0)), value)[0]

def turn(i, value):
    return i + 1, value - rate * tf.stop_gradient(taken(value))

updated = tf.while_loop(lambda i, _: i < 3, turn, (0, x.read_value()))[1]
update = x.assign(updated)
session = tf.Session()
"""
OTHER_STEP = """
step = tf.train.AdamOptimizer(1e-4).minimize(tf.reduce_sum(tf.square(updated)), var_list=[rate])
session.run(tf.global_variables_initializer())
for _ in range(2):
    session.run([step, update])
"""


@pytest.mark.parametrize("control_flow", ["v1", "v2"])
@pytest.mark.parametrize("before", [OTHER_STEP, ""], ids=["beside another step", "alone"])
def test_updates_by_hand_of_gradients_in_loops_are_counted(forks, net_folder, control_flow, before):
    """A loop takes gradients with respect to its own values, not to the variable."""
    if control_flow == "v2" and tf.__version__ < "2":
        pytest.skip("1.15.5 takes no gradients in loops of functions")
    first = before or "session.run(tf.global_variables_initializer())\n"
    text = BY_HAND + first + "for _ in range(4): session.run(update)\n"
    (net_folder / "train.py").write_text(text)
    ended = forks.run("train.py", control_flow)
    assert ended.status == 0, ended.err
    count = 6 if before else 4
    assert ended.said[-1].startswith("%d training steps" % count)
