"""`graphmp run` and `graphmp.Session` under what people train with.

Slim, servers, hooks, all forms of fetches.

What a script prints under plain Python is what it prints in mixed precision: the same words, and
numbers close by.
"""

from __future__ import annotations

import os
import pathlib

import pytest
import tensorflow.compat.v1 as tf

from tests.support.forks import NET

pytestmark = pytest.mark.usefixtures("net_folder")
ON_1 = tf.VERSION.startswith("1.")


def both(forks, text, rel=2e-2):
    """Runs a script in mixed precision and plainly, in folders of their own.

    Returns both after comparing them.
    """
    started = []
    for name, given in (("mixed", ()), ("plain", None)):
        os.mkdir(name)
        for file, content in (("net.py", NET), ("train.py", text)):
            pathlib.Path(name, file).write_text(content)
        os.chdir(name)
        started.append(forks.start("train.py", flags=given))
        os.chdir("..")
    mixed, plain = (one.end() for one in started)
    assert (mixed.status, mixed.text) == (plain.status, plain.text), mixed.err + plain.err
    assert mixed.numbers == pytest.approx(plain.numbers, rel=rel)
    return mixed, plain


def converted(ended):
    """What graphmp said of matmuls and convolutions, once a conversion."""
    lines = [line for line in ended.said if line.startswith("converted")]
    return [line.split(": ")[1].split(" matmuls")[0] for line in lines]


def test_slim_trains(forks):
    if not ON_1:
        pytest.importorskip("tf_slim")
    text = """
import numpy as np
import tensorflow as tf
import tensorflow.contrib.slim as slim
tf.logging.set_verbosity(tf.logging.ERROR)
tf.set_random_seed(1)
random = np.random.RandomState(0)
images, labels = tf.constant(random.randn(8, 8, 8, 3).astype("f")), tf.constant(random.randint(3, size=8))
with slim.arg_scope([slim.conv2d, slim.fully_connected], weights_regularizer=slim.l2_regularizer(1e-3)):
    net = slim.conv2d(images, 4, [3, 3], normalizer_fn=slim.batch_norm, normalizer_params={"is_training": True})
    logits = slim.fully_connected(slim.flatten(net), 3, activation_fn=None)
tf.losses.sparse_softmax_cross_entropy(labels, logits)
loss = tf.losses.get_total_loss()
train = slim.learning.create_train_op(loss, tf.train.MomentumOptimizer(0.05, 0.9), clip_gradient_norm=4.0)
losses = []
def step(session, *args):
    total, stop = slim.learning.train_step(session, *args)
    losses.append(total)
    return total, stop
slim.learning.train(train, "logs", train_step_fn=step, number_of_steps=12, save_summaries_secs=0)
print("%.6f %.6f %d %s" % (losses[0], losses[-1], len(losses), losses[0].dtype))
"""
    pathlib.Path("train.py").write_text(text)
    ended = forks.run("train.py", flags=["--legacy_imports=on"])
    assert (ended.status, ended.text) == (0, "_ _ 12 float32\n"), ended.err
    assert ended.numbers[1] < 0.5 * ended.numbers[0]
    assert converted(ended) == ["6 of 6"]
    assert ended.said[-1].startswith("12 training steps; loss scale ")
    saved = dict(tf.train.list_variables(tf.train.latest_checkpoint("logs")))
    assert {"Conv/weights", "Conv/weights/Momentum", "graphmp/loss_scale/scale"} <= set(saved)
    assert tf.train.load_variable("logs", "global_step") == 12


def test_synchronised_replicas_train(forks):
    """One worker, that is its own chief.

    It waits for a gradient when the session ends: hence the grace period.
    """
    text = """
from net import *
server = tf.train.Server.create_local_server()
tf.set_random_seed(1)
x = tf.constant(X)
loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dense(x, 16, tf.nn.relu), 1) - x[:, :1]))
optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.05), replicas_to_aggregate=1, total_num_replicas=1)
train = optimizer.minimize(loss, tf.train.get_or_create_global_step())
hooks = [optimizer.make_session_run_hook(True), tf.train.StopAtStepHook(10)]
losses = []
with tf.train.MonitoredTrainingSession(master=server.target, hooks=hooks, stop_grace_period_secs=1) as session:
    while not session.should_stop():
        losses.append(session.run([loss, train])[0])
print(["%.6f" % value for value in sorted(losses)[:3]], losses[0].dtype)
"""
    mixed, _ = both(forks, text)
    assert "float32" in mixed.out
    assert converted(mixed) == ["6 of 6"]
    assert mixed.said[-1].endswith("; 0 skipped")


SERVER = """
from net import *
if sys.argv[1:] == ["own"]:
    import graphmp
Session = graphmp.Session if sys.argv[1:] == ["own"] else tf.Session
server = tf.train.Server.create_local_server()
x, loss, train = build()
with Session(target=server.target) as session:
    session.run(tf.global_variables_initializer())
    losses = [session.run([loss, train], {x: X})[0] for _ in range(5)]
with Session(server.target) as session:  # the server keeps the variables
    losses += [session.run([loss, train], {x: X})[0] for _ in range(5)]
print(["%.6f" % loss for loss in losses], losses[0].dtype)
if sys.argv[1:] == ["own"]:
    print(any(op.type == "MatMul" and op.inputs[0].dtype == tf.float16 for op in session.graph.get_operations()))
with tf.train.MonitoredTrainingSession(master=server.target, hooks=[tf.train.StopAtStepHook(num_steps=5)]) as session:
    while not session.should_stop():
        value, _ = session.run([loss, train], {x: X})
print("%.6f" % value, value.dtype)
"""


def test_a_server_trains(forks):
    mixed, _ = both(forks, SERVER)
    assert converted(mixed) == ["6 of 6"]
    assert mixed.said[-1].startswith("15 training steps; loss scale ")
    pathlib.Path("train.py").write_text(SERVER)
    own = forks.run("train.py", "own", flags=None)
    assert own.status == 0, own.err
    assert own.numbers == pytest.approx(mixed.numbers, rel=1e-2)
    assert "\nTrue\n" in own.out


def test_hooks_and_scaffolds(forks):
    text = """
from net import *
import glob, logging
class Lines(logging.Handler):
    def emit(self, record):
        text = record.getMessage()
        if " = " in text:
            print(text.split(" (")[0])
logger = logging.getLogger("tensorflow")
logger.handlers, logger.propagate = [Lines()], False
tf.logging.set_verbosity(tf.logging.INFO)
x, loss, train = build()
bias = [variable for variable in tf.global_variables() if variable.name == "out/bias:0"][0]
told = tf.summary.scalar("told/loss", loss)
tf.summary.histogram("told/hidden", tf.get_default_graph().get_tensor_by_name("hidden/Relu:0"))
calls = []
class Saved(tf.train.CheckpointSaverListener):
    def after_save(self, session, step):
        calls.append("saved %d" % step)
def init_fn(scaffold, session):
    calls.append("init_fn")
    bias.load([2.5], session)
scaffold = tf.train.Scaffold(init_fn=init_fn, saver=tf.train.Saver(max_to_keep=2), summary_op=tf.summary.merge_all())
last = tf.train.FinalOpsHook({"final": loss}, {x: X})
hooks = [
    tf.train.StopAtStepHook(last_step=6), tf.train.FeedFnHook(lambda: {x: X}), tf.train.NanTensorHook(loss), last,
    tf.train.LoggingTensorHook({"my loss": loss, "steps": tf.train.get_global_step()}, every_n_iter=2),
    tf.train.LoggingTensorHook(["loss:0"], every_n_iter=3),
    tf.train.CheckpointSaverHook("saved", save_steps=3, scaffold=scaffold, listeners=[Saved()]),
    tf.train.SummarySaverHook(save_steps=2, output_dir="saved", scaffold=scaffold),
]
with tf.train.MonitoredTrainingSession(scaffold=scaffold, hooks=hooks, log_step_count_steps=None) as session:
    while not session.should_stop():
        value = session.run([loss, train])[0]
print(calls, "%.6f" % value, value.dtype, sorted(name for name, _ in tf.train.list_variables("saved") if "graphmp" not in name))
print("%.6f" % last.final_ops_values["final"], last.final_ops_values["final"].dtype)
for path in glob.glob("saved/*events*"):
    for event in tf.train.summary_iterator(path):
        for value in event.summary.value:
            if value.tag.startswith("told"):
                print(event.step, value.tag, "%.6f" % value.simple_value, value.histo.num)
try:
    with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as session:
        session.run([loss, train], {x: X})
        session.run([loss, train], {x: X * np.nan})
except tf.train.NanLossDuringTrainingError as error:
    print(error)
"""
    mixed, _ = both(forks, text)
    assert "my loss = _, steps = 5\n" in mixed.text
    assert "loss:0 = _\n" in mixed.text
    assert "['init_fn', 'saved 0', 'saved 3', 'saved 6'] _ float32" in mixed.text
    assert "NaN loss during training." in mixed.out
    assert mixed.text.count("told/loss _") == 3
    assert converted(mixed) == ["6 of 6"]


def test_all_forms_of_fetches(forks):
    text = """
from net import *
import collections
x, loss, train = build()
hidden = tf.get_default_graph().get_tensor_by_name("hidden/Relu:0")
slices = tf.IndexedSlices(hidden, tf.constant([0, 1]), tf.constant([16, 16]))
sparse = tf.SparseTensor([[0, 0]], tf.reshape(hidden[0, 0], [1]), [1, 1])
half = tf.cast(hidden, tf.float16)
Pair = collections.namedtuple("Pair", "first second")
def form(value):
    if isinstance(value, dict):
        return type(value).__name__, [(key, form(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [form(item) for item in value]
    return value if value is None else "%s%s %s" % (value.dtype, value.shape, type(value).__name__)
session = tf.InteractiveSession()
tf.global_variables_initializer().run()
first = loss.eval({x: X})
for _ in range(3):
    train.run({x: X})
print("%.6f %.6f" % (first, loss.eval({"x:0": X})))
ordered = collections.OrderedDict([("b", loss), ("a", [train, "loss:0"]), ("c", loss.op)])
print(form(session.run([ordered, Pair(loss, (hidden, "train")), {"s": slices, "v": sparse}, half, [], tf.trainable_variables()], {x: X})))
print(form(session.run("loss:0", {x: X})), form(session.run("train", {x: X})), form(session.run(["loss:0", b"loss"], {x: X})))
print(form(session.run(loss, {hidden: np.ones([16, 16], "f"), x: X})))
for bad in ("nothing:0", None):
    try:
        session.run(bad)
    except (ValueError, TypeError) as error:
        print(type(error).__name__, error)
try:
    session.run(loss)
except tf.errors.InvalidArgumentError as error:
    print(error.op.name, "clones" in error.message)
metadata = tf.RunMetadata()
options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
session.run([loss, train], {x: X}, options=options, run_metadata=metadata)
print(sum(len(device.node_stats) for device in metadata.step_stats.dev_stats) > 5, len(metadata.partition_graphs) > 0)
print([device.device_type for device in session.list_devices()])
session.close()
try:
    session.run(train, {x: X})
except RuntimeError as error:
    print(error)
session = tf.Session()
with session.as_default():
    tf.global_variables_initializer().run()
    train.run({x: X})
    print(form(loss.eval({x: X})), tf.get_default_session() is session)
print(tf.get_default_session(), form(session.run(train, {x: X})))
graph = tf.Graph()
with graph.as_default(), tf.Session(graph=graph).as_default() as session:
    x, loss, train = build()
    tf.global_variables_initializer().run()
    call = session.make_callable([loss, train], [x])
    print(form(call(X)), "%.6f" % call(X)[0], form(session.run([loss * 2, train], {x: X})))
    with tf.control_dependencies([train]):
        after = tf.identity(loss)
    setup = session.partial_run_setup([after], [x])
    print(form(session.partial_run(setup, after, {x: X})), session.run(tf.train.get_global_step()))
"""
    mixed, _ = both(forks, text)
    assert mixed.status == 0, mixed.err
    assert any(line.startswith("8 training steps; loss scale ") for line in mixed.said)
    assert set(converted(mixed)) == {"6 of 6"}


def test_loops_of_the_original_and_of_its_conversion_in_one_run(forks):
    """What was made late runs the original's loops.

    Nothing says whether they read a variable before or after the step.
    """
    text = """
from net import *
tf.set_random_seed(1)
x = tf.placeholder(tf.float32, [None, 4, 8], "x")
w = tf.get_variable("w", [8, 8])
def body(i, h, total):
    h = tf.tanh(tf.matmul(h, w) + x[:, i])
    return i + 1, h, total + tf.reduce_mean(tf.square(h - 0.5))
_, _, total = tf.while_loop(lambda i, *_: i < 4, body, [0, tf.zeros([tf.shape(x)[0], 8]), 0.0])
outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(8), x, dtype=tf.float32)
loss = tf.add(total, tf.reduce_mean(tf.square(outputs)), name="loss")
train = tf.train.AdamOptimizer(0.01).minimize(loss, name="train")
X = np.random.RandomState(0).randn(4, 4, 8).astype("f")
session = tf.Session()
session.run(tf.global_variables_initializer())
print("%.6f %.6f" % (session.run(loss, {x: X}), session.run([loss, train], {x: X})[0]))
late, gradient = tf.identity(loss), tf.gradients(loss, w)[0]
for _ in range(4):
    values = session.run([late, "loss:0", gradient, train], {x: X})
    print("%.6f %.6f" % tuple(values[:2]), values[0].dtype, values[2].dtype, np.isfinite(values[2]).all())
print("%.6f" % np.abs(session.run(gradient, {x: X})).sum())
_, summed = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + loss), [0, 0.0])
print("%.6f %.6f %.6f" % tuple(session.run([summed, late, "loss:0", train], {x: X})[:3]))
"""
    mixed, _ = both(forks, text, rel=5e-2)
    assert mixed.status == 0, mixed.err
    late, loss = mixed.numbers[2:10:2], mixed.numbers[3:10:2]
    assert late == pytest.approx(loss, rel=5e-2)
    assert late[-1] < late[0]
    assert mixed.numbers[-3] == pytest.approx(3 * mixed.numbers[-1], rel=5e-2)
    assert converted(mixed)[0] == "9 of 9"
