"""`graphmp run` of Estimators: TensorFlow's own, or those of tensorflow-estimator beside it."""

from __future__ import annotations

import re

import pytest

from tests.support.estimator import needs_estimator

pytestmark = needs_estimator
PLAIN = ["--compute_dtype=float32", "--loss_scale=none"]
BEGIN = """
import sys
import numpy as np
import tensorflow as tf
tf.logging.set_verbosity(tf.logging.ERROR)
random = np.random.RandomState(0)
"""
PLAINEST = """
X = random.randn(32, 8).astype("f")
def model_fn(features, labels, mode):
    hidden = tf.nn.relu(tf.matmul(features, tf.get_variable("w", [8, 16])))
    loss = tf.reduce_mean(tf.square(tf.matmul(hidden, tf.get_variable("v", [16, 1])) - labels))
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)
feed = lambda: tf.data.Dataset.from_tensors((X, X[:, :1] * 2)).repeat()
config = tf.estimator.RunConfig(tf_random_seed=1)
estimator = tf.estimator.Estimator(model_fn, sys.argv[1], config)
for _ in range(2):
    estimator.train(feed, steps=3)
    result = estimator.evaluate(feed, steps=1)
    print("step %d" % result["global_step"], "%.6f" % result["loss"])
"""
PICTURES = """
X = random.rand(32, 8, 8, 3).astype("f")
Y = (X[:, :4].mean((1, 2, 3)) > 0.5).astype("i")
def model_fn(features, labels, mode, params):
    training = mode == tf.estimator.ModeKeys.TRAIN
    x = tf.layers.conv2d(features["x"], params["filters"], 3, use_bias=False, name="conv",
        kernel_initializer=tf.glorot_uniform_initializer(seed=1))
    x = tf.nn.relu(tf.layers.batch_normalization(x, training=training))
    logits = tf.layers.dense(tf.layers.flatten(x), 2, name="logits",
        kernel_initializer=tf.glorot_uniform_initializer(seed=2))
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"serve": tf.estimator.export.PredictOutput(tf.nn.softmax(logits))}
        return tf.estimator.EstimatorSpec(mode, {"logits": logits}, export_outputs=outputs)
    loss = tf.identity(tf.losses.sparse_softmax_cross_entropy(labels, logits), "loss")
    metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        optimizer = tf.train.MomentumOptimizer(0.01, 0.9)
        train = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops=metrics)
class Losses(tf.train.SessionRunHook):
    def before_run(self, context):
        return tf.train.SessionRunArgs(["loss:0", tf.train.get_global_step()])
    def after_run(self, context, values):
        print("step %d loss %.5f" % (values.results[1], values.results[0]))
def feed(epochs):
    return tf.estimator.inputs.numpy_input_fn({"x": X}, Y, 16, epochs, shuffle=False)
def serving():
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], "x")
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})
config = tf.estimator.RunConfig(save_checkpoints_steps=2, tf_random_seed=1)
make = lambda folder, **how: tf.estimator.Estimator(
    model_fn, folder, config, params={"filters": 8}, **how)
first = make(sys.argv[1])
watch = tf.train.LoggingTensorHook({"loss": "loss"}, every_n_iter=2)
spec = tf.estimator.TrainSpec(feed(None), max_steps=4, hooks=[Losses(), watch])
check = tf.estimator.EvalSpec(feed(1), start_delay_secs=0, throttle_secs=0)
tf.estimator.train_and_evaluate(first, spec, check)
print("loss %.4f" % first.evaluate(feed(1))["loss"])
second = make(sys.argv[1] + "_warm", warm_start_from=sys.argv[1])
second.train(feed(None), steps=2, hooks=[Losses(), tf.train.NanTensorHook("loss:0")])
print("logits %.2f" % list(second.predict(feed(1)))[0]["logits"][0])
folder = second.export_saved_model(sys.argv[1] + "_served", serving)
with tf.Session(graph=tf.Graph()) as session:
    graph = tf.saved_model.loader.load(session, ["serve"], folder)
    output = graph.signature_def["serving_default"].outputs["output"].name
    print("served", session.run(output, {"x:0": X}).shape)
"""
BERT = """
flags = tf.flags
flags.DEFINE_string("out", None, "folder")
X = random.randint(50, size=(32, 6)).astype("i")
class Decay(tf.train.Optimizer):
    def __init__(self):
        super(Decay, self).__init__(False, "Decay")
    def apply_gradients(self, pairs, global_step=None, name=None):
        writes = []
        for gradient, variable in pairs:
            mean = tf.get_variable(variable.op.name + "/m", variable.shape, tf.float32,
                tf.zeros_initializer(), trainable=False)
            now = tf.multiply(0.9, mean) + tf.multiply(0.1, gradient)
            writes += [variable.assign(variable - 0.1 * (now + 0.01 * variable)), mean.assign(now)]
        return tf.group(*writes, name=name)
def model_fn(features, labels, mode, params):
    start = tf.truncated_normal_initializer(stddev=0.2, seed=1)
    table = tf.get_variable("table", [50, 16], initializer=start)
    x = tf.nn.embedding_lookup(table, features["ids"])
    scores = tf.nn.softmax(tf.matmul(x, x, transpose_b=True) - 10000.0 * features["mask"])
    x = tf.contrib.layers.layer_norm(x + tf.matmul(scores, x), begin_norm_axis=-1,
        begin_params_axis=-1)
    logits = tf.layers.dense(x[:, 0], 2, kernel_initializer=start)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=features["label"], logits=logits)
    loss = tf.reduce_mean(each)
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = lambda each, label: {"mean": tf.metrics.mean(each)}
        return tf.contrib.tpu.TPUEstimatorSpec(
            mode=mode, loss=loss, eval_metrics=(metrics, [each, features["label"]]))
    step, variables = tf.train.get_or_create_global_step(), tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    train = Decay().apply_gradients(zip(gradients, variables), step)
    train = tf.group(train, [step.assign(step + 1)])
    return tf.contrib.tpu.TPUEstimatorSpec(mode=mode, loss=loss, train_op=train)
def feed(params):
    labels = (X[:, 0] > 25).astype("i")
    rows = {"ids": X, "mask": np.zeros((32, 1, 6), "f"), "label": labels}
    return tf.data.Dataset.from_tensor_slices(rows).repeat().batch(
        params["batch_size"], drop_remainder=True)
def main(_):
    tpu = tf.contrib.tpu.TPUConfig(iterations_per_loop=2, num_shards=8,
        per_host_input_for_training=tf.contrib.tpu.InputPipelineConfig.PER_HOST_V2)
    config = tf.contrib.tpu.RunConfig(model_dir=flags.FLAGS.out, tf_random_seed=1, tpu_config=tpu)
    estimator = tf.contrib.tpu.TPUEstimator(use_tpu=False, model_fn=model_fn, config=config,
        train_batch_size=16, eval_batch_size=8)
    estimator.train(feed, max_steps=6)
    result = estimator.evaluate(feed, steps=4)
    print("step %d" % result["global_step"], "%.5f %.5f" % (result["loss"], result["mean"]))
tf.app.run(main)
"""
SCRIPTS = {"plain": PLAINEST, "pictures": PICTURES, "bert": BERT}


@pytest.fixture
def estimated(forks, tmp_path, monkeypatch):
    """Runs a script with a folder for its model."""
    monkeypatch.chdir(tmp_path)

    def run(name, folder, flags):
        (tmp_path / "train.py").write_text(BEGIN + SCRIPTS[name])
        argument = "--out=" + folder if name == "bert" else folder
        ended = forks.run("train.py", argument, flags=flags)
        assert ended.status == 0, ended.err[-3000:]
        return ended

    return run


@pytest.mark.parametrize("name", SCRIPTS)
def test_trains_as_in_float32(estimated, name):
    plain, mixed = estimated(name, "plain", PLAIN), estimated(name, "mixed", [])
    assert mixed.text == plain.text
    assert mixed.numbers == pytest.approx(plain.numbers, rel=0.02, abs=0.02)
    covered = [line for line in mixed.said if "matmuls and convolutions in float16" in line]
    assert covered and all(re.search(r"([1-9]\d*) of \1 matmuls", line) for line in covered), (
        covered
    )
    assert re.search(r"\d training steps; loss scale .*; 0 skipped", mixed.said[-1])


@pytest.mark.parametrize("first, then", [(PLAIN, []), ([], PLAIN)], ids=["to half", "to float32"])
def test_training_goes_on_in_the_other_type(estimated, first, then):
    began, went_on = estimated("plain", "model", first), estimated("plain", "model", then)
    assert "step 6" in began.out and "step 12" in went_on.out
    assert went_on.numbers[-1] < began.numbers[-1]
