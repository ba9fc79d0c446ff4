"""`graphmp run` under TensorFlow's own ways to train.

Keras in graph mode, Supervisor with a queue, threads.
"""

from __future__ import annotations

import re

import pytest

BEGIN = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
tf.set_random_seed(1)
X = np.random.RandomState(0).randn(32, 8).astype("f")
Y = X[:, :1] * 2
def net(x, y):
    hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("w", [8, 16])))
    loss = tf.reduce_mean(tf.square(tf.matmul(hidden, tf.get_variable("v", [16, 1])) - y))
    return loss, tf.train.GradientDescentOptimizer(0.05).minimize(loss, tf.train.get_or_create_global_step())
"""
KERAS = """
layers = [tf.keras.layers.Dense(16, "relu", input_shape=(8,), kernel_initializer="ones"), tf.keras.layers.Dense(1, kernel_initializer="ones")]
model = tf.keras.Sequential(layers)
model.compile(tf.keras.optimizers.SGD(0.0001), "mse")
for loss in model.fit(X, Y, batch_size=16, epochs=4, shuffle=False, verbose=0).history["loss"]:
    print("%.6f" % loss)
"""
SUPERVISOR = """
queue = tf.FIFOQueue(4, [tf.float32, tf.float32], [[32, 8], [32, 1]])
tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue([X, Y])]))
loss, train = net(*queue.dequeue())
supervisor = tf.train.Supervisor(logdir="logs", save_model_secs=0, save_summaries_secs=0)
with supervisor.managed_session() as session:
    for _ in range(5):
        print("%.6f" % session.run([loss, train])[0])
"""
THREADS = """
import threading
loss, train = net(tf.constant(X), tf.constant(Y))
count = tf.get_variable("count", [], tf.int64, tf.zeros_initializer(), trainable=False)
with tf.control_dependencies([train]):
    train = tf.assign_add(count, 1, use_locking=True)  # minimize counts global steps without a lock: plain TensorFlow too loses some
session = tf.Session()
session.run(tf.global_variables_initializer())
def work():
    for _ in range(5):
        session.run(train)
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("steps %d" % session.run(count), "%.6f" % session.run(loss))
"""


@pytest.mark.parametrize(
    "script, within",
    [
        pytest.param(KERAS, 0.01, id="keras"),
        pytest.param(SUPERVISOR, 0.01, id="supervisor"),
        pytest.param(THREADS, 0.3, id="threads"),  # updates of threads race
    ],
)
def test_trains_as_plain_python_does(forks, tmp_path, monkeypatch, script, within):
    monkeypatch.chdir(tmp_path)
    ended = {}
    for name, flags in (("plain", None), ("mixed", [])):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        (tmp_path / name / "train.py").write_text(BEGIN + script)
        ended[name] = forks.run("train.py", flags=flags)
        assert ended[name].status == 0, ended[name].err
    plain, mixed = ended["plain"], ended["mixed"]
    assert mixed.text == plain.text
    assert mixed.numbers == pytest.approx(plain.numbers, rel=within)
    assert any(
        re.search(r": [1-9]\d* of \d+ matmuls and convolutions in float16", line)
        for line in mixed.said
    ), mixed.said
    assert "training steps; loss scale" in mixed.said[-1] and mixed.said[-1].endswith("; 0 skipped")
