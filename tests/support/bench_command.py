"""`graphmp bench` on given files."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

TF1 = tf.__version__ < "2"


SHORT = ["--steps=2", "--rounds=2", "--warmup=1"]


SCRIPT = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
if tf.__version__ > "2":
    tf.disable_v2_behavior()

def build_training_model(x, y):
    loss = tf.reduce_mean(tf.square(tf.matmul(x, tf.get_variable("w", [8, 1])) - y))
    return loss, tf.train.GradientDescentOptimizer(float(sys.argv[2])).minimize(loss)

x, y = tf.placeholder(tf.float32, [None, 8], "x"), tf.placeholder(tf.float32, [None, 1], "y")
loss, train = build_training_model(x, y)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train, {x: np.ones((2, 8)), y: np.ones((2, 1))})
"""


FUNCTIONS = """
import numpy as np

def batch(step):
    return {"x": np.ones((6, 8)), "labels": np.zeros(6, np.int64)}

def incomplete():
    return {"x": np.ones((6, 8))}
"""
