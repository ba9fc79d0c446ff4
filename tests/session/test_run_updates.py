"""The closing line of a run counts updates, not runs that only add gradients up."""

from __future__ import annotations

import pytest

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
