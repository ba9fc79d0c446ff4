"""Scripts for tests of the capture, as users write them, each run from a folder."""

from __future__ import annotations

# The training script of the talk that made the recipe known, in its form of 2018: everything at
# module level.
TALK = """
import numpy as np
import tensorflow as tf

def build_forward_model(inputs):
    _, _, h, w = inputs.get_shape().as_list()
    top = tf.layers.conv2d(
        inputs, 16, 7, use_bias=False, data_format="channels_first", padding="SAME"
    )
    top = tf.contrib.layers.batch_norm(top, data_format="NCHW", fused=True)
    top = tf.layers.max_pooling2d(top, 2, 2, data_format="channels_first")
    top = tf.reshape(top, (-1, 16 * (h // 2) * (w // 2)))
    return tf.layers.dense(top, 32, activation=tf.nn.relu)

def build_training_model(inputs, labels, nlabel):
    logits = tf.layers.dense(build_forward_model(inputs), nlabel, activation=None)
    loss = tf.losses.sparse_softmax_cross_entropy(logits=logits, labels=labels)
    optimizer = tf.train.MomentumOptimizer(learning_rate=0.01, momentum=0.9)
    train_op = optimizer.apply_gradients(optimizer.compute_gradients(loss))
    return inputs, labels, loss, train_op

nchan, height, width, nlabel = 3, 32, 32, 10
inputs = tf.placeholder(tf.float32, (None, nchan, height, width))
labels = tf.placeholder(tf.int32, (None,))
inputs, labels, loss, train_op = build_training_model(inputs, labels, nlabel)
batch_size = 8
sess = tf.Session()
inputs_data = np.random.random((batch_size, nchan, height, width)).astype(np.float32)
labels_data = np.random.randint(nlabel, size=batch_size)
sess.run(tf.global_variables_initializer())
for step in range(20):
    np_loss, _ = sess.run([loss, train_op], {inputs: inputs_data, labels: labels_data})
    open("trained", "w").write("a step was trained")
"""

# A channels-last net for any device. TRAIN is replaced by the training code.
NET = """
import atexit
import threading
import numpy as np
import tensorflow.compat.v1 as tf
if tf.__version__ > "2":
    tf.disable_v2_behavior()

def build_training_model(x, y):
    h = tf.layers.dense(tf.layers.dense(x, 16, activation=tf.nn.relu), 1)
    loss = tf.losses.mean_squared_error(y, h)
    return loss, tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_or_create_global_step())

def leave(text):
    open("left_behind", "w").write(text)

atexit.register(leave, "an exit hook ran")
x, y = tf.placeholder(tf.float32, (None, 12), "x"), tf.placeholder(tf.float32, (None, 1), "y")
X, Y = np.ones((4, 12), np.float32), np.ones((4, 1), np.float32)
early = tf.Session()
early.run(tf.constant(1))
try:
    loss, train = build_training_model(x, y)
    late = tf.constant(7, name="made_after_the_session")
TRAIN
    leave("a step was trained")
except BaseException as error:
    leave("an except clause ran: %r" % error)
finally:
    leave("a finally clause ran")
"""

DOORS = {
    "run": """
    early.run(tf.global_variables_initializer())
    early.run([loss, {'train': train}], {x: X, y: Y})""",
    "by_name": """
    early.run(tf.global_variables_initializer())
    early.run('Adam', {'x:0': X, 'y:0': Y})""",
    "control_edge": """
    with tf.control_dependencies([train]):
        wanted = tf.identity(loss)
    early.run(tf.global_variables_initializer())
    early.run(wanted, {x: X, y: Y})""",
    "thread": """
    early.run(tf.global_variables_initializer())
    t = threading.Thread(target=lambda: early.run(train, {x: X, y: Y}))
    t.start()
    t.join()""",
    "make_callable": """
    early.run(tf.global_variables_initializer())
    early.make_callable([loss, train], [x, y])(X, Y)""",
    "callable_options": """
    from tensorflow.core.protobuf.config_pb2 import CallableOptions
    early.run(tf.global_variables_initializer())
    options = CallableOptions(fetch=[loss.name], target=[train.name], feed=[x.name, y.name])
    early._make_callable_from_options(options)(X, Y)""",
    "partial_run": """
    early.run(tf.global_variables_initializer())
    h = early.partial_run_setup([loss, train], [x, y])
    early.partial_run(h, [loss, train], {x: X, y: Y})""",
    "monitored": """
    s = tf.train.MonitoredTrainingSession()
    s.run(train, {x: X, y: Y})""",
    "interactive": """
    s = tf.InteractiveSession()
    tf.global_variables_initializer().run()
    train.run({x: X, y: Y})""",
}

# Prints how it was run; trains nothing.
CURIOUS = '''
import json, os, sys
import helper_beside_it
import tensorflow.compat.v1 as tf
if tf.__version__ > "2":
    tf.disable_v2_behavior()

class Model:
    @staticmethod
    def build(x, units=3):
        """Builds."""
        return tf.reduce_mean(tf.layers.dense(x, units))

def main(argv):
    Model.build(tf.placeholder(tf.float32, (None, int(argv[1])), "x"))
    facts = dict(argv=sys.argv, name=__name__, file=__file__, cwd=os.getcwd(), path=sys.path[0],
                 package=__package__, doc=Model.build.__doc__,
                 main=sys.modules["__main__"].Model is Model)
    json.dump(facts, open("facts.json", "w"))
    sys.exit(0)

if __name__ == "__main__":
    main(sys.argv)
'''


def script(door):
    """A script that trains through one of the DOORS."""
    return NET.replace("TRAIN", DOORS[door])


# A convolutional net whose losses change steadily, so that small differences stay small. Trains at
# module level.
STEADY = """
import numpy as np
import tensorflow as tf

tf.set_random_seed(1)

def build_training_model(images, labels):
    small = tf.random_normal_initializer(stddev=0.05)
    h = tf.layers.conv2d(images, 8, 3, use_bias=False, padding="same")
    h = tf.nn.relu(tf.layers.batch_normalization(h, fused=True, training=True))
    h = tf.layers.flatten(tf.layers.max_pooling2d(h, 4, 4))
    h = tf.layers.dense(h, 16, activation=tf.nn.relu, kernel_initializer=small)
    logits = tf.layers.dense(h, 10, kernel_initializer=small)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        optimizer = tf.train.MomentumOptimizer(0.01, 0.9)
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return images, labels, loss, train_op

images, labels = tf.placeholder(tf.float32, (None, 16, 16, 3)), tf.placeholder(tf.int32, (None,))
images, labels, loss, train_op = build_training_model(images, labels)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run([loss, train_op], {images: np.zeros((4, 16, 16, 3)), labels: np.zeros(4)})
"""

# A net that squares its hidden layer, so that a large input overflows, and an open session for
# further steps.
OF_LARGE_VALUES = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [4, 8], "x")
hidden = tf.layers.dense(x, 8, name="first", kernel_initializer=tf.ones_initializer())
large = tf.multiply(hidden, hidden, name="large")
loss = tf.reduce_mean(tf.layers.dense(large / 1e4, 1, name="last"), name="loss")
train = tf.train.GradientDescentOptimizer(1e-6).minimize(loss, name="train")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
"""
