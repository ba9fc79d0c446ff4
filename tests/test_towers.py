"""In-graph towers: a copy of the model on each of several devices, their gradients averaged, one step for all, converted in every way.

The devices are two parts of the CPU. Variables are on the first, where gradients are averaged too, as code for several GPUs has it.
"""

from __future__ import annotations

import collections
import contextlib
import pathlib
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.devices import Places, apart
from graphmp.graph.gradient_code import gradient_nodes
from graphmp.graph.live import ancestors, is_update, variable_op
from graphmp.graph.view import GraphView
from tests.training import load, state, undecorated

TWO = ("/cpu:0", "/cpu:1")
CONFIG = tf.ConfigProto(device_count={"CPU": 2})
STEPS, ROWS, WORDS, LENGTH = 5, 16, 20, 4
RANDOM = np.random.RandomState(0)
X = RANDOM.randn(ROWS, 12).astype(np.float32)
IDS = RANDOM.randint(WORDS, size=(ROWS, LENGTH)).astype(np.int32)
BATCH = (X, IDS, np.float32(X[:, :1] * 0.5 + IDS[:, :1] * 0.1))
START = {
    name: np.random.RandomState(1).randn(*shape).astype(np.float32) * 0.3
    for name, shape in (("table", (WORDS, 8)), ("hidden/w", (12 + LENGTH * 8, 16)), ("hidden/b", (16,)), ("out/w", (16, 1)), ("out/b", (1,)))
}
OPTIONS = {"loss_scale_initial": 1024.0}
OWN = re.compile(r"graphmp/loss_scale(_\d+)?/(scale|good_steps|skipped_steps)$")
SCRIPT = "from tests.test_towers import train; print(*train())"


def variable(name, shape):
    """A variable on the first device."""
    with tf.device(TWO[0]):
        return tf.get_variable(name, shape)


def tower_loss(x, ids, y, sparse):
    """The loss of a tower on its part of the batch; `sparse`: a table is looked up."""
    if sparse:
        x = tf.concat([x, tf.reshape(tf.nn.embedding_lookup(variable("table", [WORDS, 8]), ids), [-1, LENGTH * 8])], 1)
    hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, variable("hidden/w", [x.shape[1], 16])), variable("hidden/b", [16])))
    out = tf.nn.bias_add(tf.matmul(hidden, variable("out/w", [16, 1])), variable("out/b", [1]))
    return tf.reduce_mean(tf.square(out - y), name="loss")


def stacked(gradients):
    """The average of a variable's gradients, as TensorFlow's CIFAR-10 tutorial has it: sparse ones become dense."""
    return tf.reduce_mean(tf.concat([tf.expand_dims(g, 0) for g in gradients], 0), 0)


def added(gradients):
    """Their sum over their number; of sparse ones all rows."""
    if isinstance(gradients[0], tf.IndexedSlices):
        values = tf.concat([g.values for g in gradients], 0) / len(gradients)
        return tf.IndexedSlices(values, tf.concat([g.indices for g in gradients], 0), gradients[0].dense_shape)
    return tf.add_n(gradients) / len(gradients)


AVERAGES = {"stacked": stacked, "added": added, "summed_losses": None}
KINDS = {"dense-reference": (False, False), "sparse-resource": (True, True)}
WAYS = ["decorator", "decorated step", "session", "convert"]


def build(average, sparse=False, use_resource=False, decorate=undecorated, whole=False, towers=TWO):
    """The graph of a training step.

    Args:
        average: of a variable's gradients; None to take the gradients of the sum of the losses.
        sparse: whether a table is looked up.
        use_resource: the kind of the variables.
        decorate: what the function of a tower's loss is decorated with; if `whole`, that of the step.
        whole: see there.
        towers: their devices.

    Returns:
        The mean of the losses, the train op, and placeholders for the batch and for a factor of each tower's loss.
    """

    def step(x, ids, y, factors):
        optimizer = tf.train.MomentumOptimizer(0.02, 0.9)
        losses, gradients = [], []
        with tf.variable_scope(tf.get_variable_scope(), use_resource=use_resource):
            for number, part in enumerate(zip(*(tf.split(tensor, len(towers)) for tensor in (x, ids, y)))):
                with tf.device(towers[number]), tf.name_scope("tower_%d" % number):
                    losses.append((undecorated if whole else decorate)(tower_loss)(*part, sparse) * factors[number])
                    tf.get_variable_scope().reuse_variables()
                    if average is not None:
                        gradients.append(optimizer.compute_gradients(losses[-1]))
        loss = tf.reduce_mean(losses, name="mean_loss")
        with tf.device(TWO[0]):
            if average is None:
                pairs = optimizer.compute_gradients(loss, colocate_gradients_with_ops=True)
            else:
                pairs = [(average([g for g, _ in of_one]), of_one[0][1]) for of_one in zip(*gradients)]
            return loss, optimizer.apply_gradients(pairs, tf.train.get_or_create_global_step(), name="train")

    x, y = tf.placeholder(tf.float32, [ROWS, 12], "x"), tf.placeholder(tf.float32, [ROWS, 1], "y")
    ids = tf.placeholder(tf.int32, [ROWS, LENGTH], "ids")
    factors = tf.placeholder_with_default(tf.ones([len(towers)]), [len(towers)], "factors")
    return (*(decorate if whole else undecorated)(step)(x, ids, y, factors), (x, ids, y, factors))


def build_gan(decorate=undecorated):
    """The same of two losses, a discriminator's and a generator's, each averaged over the towers; the first result is the batch's sum."""

    def net(x, name, width):
        return tf.matmul(tf.nn.relu(tf.matmul(x, variable(name + "/1", [12, 16]))), variable(name + "/2", [16, width]))

    def losses(x, factor):
        fake = net(x, "G", 12)
        tf.get_variable_scope().reuse_variables()
        d_real, d_fake = net(x, "D", 1), net(fake, "D", 1)
        return tf.reduce_mean(tf.square(d_real - 1) + tf.square(d_fake)), tf.reduce_mean(tf.square(d_fake - 1)) * factor

    x, factors, gradients = tf.placeholder(tf.float32, [ROWS, 12], "x"), tf.placeholder(tf.float32, [2], "factors"), []
    optimizers = {name: tf.train.GradientDescentOptimizer(0.01) for name in "DG"}
    variable("D/1", [12, 16]), variable("D/2", [16, 1])
    for number, part in enumerate(tf.split(x, 2)):
        with tf.device(TWO[number]), tf.name_scope("tower_%d" % number):
            both = zip("DG", decorate(losses)(part, factors[number]))
            gradients.append({name: optimizers[name].compute_gradients(loss, tf.trainable_variables(name)) for name, loss in both})
    with tf.device(TWO[0]):
        pairs = {name: [(stacked([g for g, _ in one]), one[0][1]) for one in zip(*(tower[name] for tower in gradients))] for name in "DG"}
        return tf.reduce_sum(x), tf.group(*[optimizers[name].apply_gradients(pairs[name]) for name in "DG"]), (x, factors)


Step = collections.namedtuple("Step", "graph loss train placeholders")


def step(way, model, **arguments):
    """The graph of a training step, converted one way (`session`: later, in its session), and names of what is fetched and fed."""
    if way in ("decorator", "decorated step"):
        arguments["decorate"] = graphmp.mixed_precision(**OPTIONS)
    if way == "decorated step":
        arguments["whole"] = True
    with tf.Graph().as_default() as graph:
        loss, train, placeholders = model(**arguments)
        names = [loss.name, train.name, [placeholder.name for placeholder in placeholders]]
        if way != "convert":
            return Step(graph, *names)
        meta_graph = graphmp.convert(graph, **OPTIONS).meta_graph
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(meta_graph)
    return Step(graph, *names)


@contextlib.contextmanager
def session(made, way=None):
    """A session of two devices; variables have the values of START."""
    make, options = (graphmp.Session, OPTIONS) if way == "session" else (tf.Session, {})
    with made.graph.as_default(), make(graph=made.graph, config=CONFIG, **options) as sess:
        sess.run(tf.global_variables_initializer())
        load(sess, {v.op.name: START[v.op.name][: v.shape[0]] for v in tf.trainable_variables() if v.op.name in START})
        yield sess


def losses_of(sess, made):
    feed = dict(zip(made.placeholders, BATCH))
    return [float(sess.run([made.loss, made.train], feed)[0]) for _ in range(STEPS)]


def expected(kind):
    """Losses on one device with the whole batch, in float32."""
    made = step(None, build, average=stacked, towers=TWO[:1], **kind)
    with session(made) as sess:
        return losses_of(sess, made)


def train():
    """Trains towers, then takes a step that one of them overflows. Returns the losses, and whether that step left all variables alone."""
    made = step(None, build, average=added, sparse=True)
    with session(made) as sess:
        losses = losses_of(sess, made)
        before = sess.run(tf.trainable_variables())
        sess.run(made.train, dict(zip(made.placeholders, (*BATCH, [1.0, np.inf]))))
        return (*losses, all((a == b).all() for a, b in zip(before, sess.run(tf.trainable_variables()))))


def state_of(sess):
    """Values of all variables by op name, of loss scales too: a session's Python knows nothing of those that it makes itself."""
    own = [op for op in sess.graph.get_operations() if op.type == "VariableV2" and OWN.search(op.name)]
    return dict(state(sess), **{OWN.search(op.name).group(): sess.run(op.outputs[0]) for op in own})


def changed(before, after):
    return {name for name in before if before[name].tobytes() != after[name].tobytes()}


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("average", sorted(AVERAGES))
@pytest.mark.parametrize("way", WAYS)
def test_towers_train_as_one_device_with_the_whole_batch(way, average, kind):
    sparse, use_resource = KINDS[kind]
    kind = {"sparse": sparse, "use_resource": use_resource}
    made = step(way, build, average=AVERAGES[average], **kind)
    with session(made, way) as sess:
        losses = losses_of(sess, made)
        trained = state_of(sess)
        sess.run([made.loss, made.train], dict(zip(made.placeholders, (*BATCH, [1.0, np.inf]))))
        skipped = state_of(sess)
        sess.run([made.loss, made.train], dict(zip(made.placeholders, BATCH)))
        after = state_of(sess)
    assert losses == pytest.approx(expected(kind), rel=0.01) and losses[-1] < 0.7 * losses[0]
    own = {name for name in skipped if OWN.match(name)}
    assert len(own) == 3 and changed(trained, skipped) == own  # one scale, whatever the number of towers
    assert sorted(skipped[name] for name in own) == [0, 1, 512]
    assert {name for name in after if name in START} <= changed(skipped, after) and after["global_step"] == STEPS + 1


def step_of(made):
    """What a step runs but for what computes averages of losses."""
    return ancestors([made.graph.get_operation_by_name(made.train)])


def sent(made):
    """The float tensors of a step that go from one device to the other, but for single numbers."""
    view = GraphView(made.graph.as_graph_def())
    places = Places(view)
    edges = [(tensor, op) for op in step_of(made) for tensor in op.inputs if apart(places.of(tensor.op.name), places.of(op.name))]
    return {tensor for tensor, _ in edges if tensor.dtype.is_floating and tensor.shape.num_elements() != 1}


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("average", sorted(AVERAGES))
@pytest.mark.parametrize("way", ["decorator", "convert"])
def test_weights_and_gradients_are_sent_in_half_and_averaged_in_float32(way, average, kind):
    sparse, use_resource = KINDS[kind]
    made = step(way, build, average=AVERAGES[average], sparse=sparse, use_resource=use_resource)
    names = {op.name for op in made.graph.get_operations()}
    gradients = gradient_nodes(names)
    down, up = ({t for t in sent(made) if (t.op.name in gradients) is inside} for inside in (False, True))
    weights = collections.Counter(variable_op(t.op.inputs[0]).name for t in down if t.op.type == "Cast" and variable_op(t.op.inputs[0]))
    assert weights == dict.fromkeys(["hidden/w", "hidden/b", "out/w"], 1)  # a cast for the second device
    assert {t.dtype for t in down} == {tf.float16} and len(down) == 3 + sparse  # rows of the table too
    assert len(up) == 3 + sparse
    assert {t.dtype for t in up} == {tf.float16}
    updates = [op for op in made.graph.get_operations() if is_update(op)]
    outside = ancestors(updates, stop=lambda op: op.name in gradients or op.type == "Cast", control=False)
    averaging = [op for op in outside if op.name not in gradients and op.type != "Cast"]
    assert {t.dtype.base_dtype for op in averaging for t in op.outputs if t.dtype.is_floating} == {tf.float32}
    sums = collections.Counter(op.type for op in step_of(made) if op.type in ("AddN", "Mean") and op.outputs[0].dtype == tf.float32)
    assert sums[{"stacked": "Mean"}.get(average, "AddN")] >= 4


@pytest.mark.parametrize("way", ["decorator", "session", "convert"])
def test_each_loss_has_one_scale_over_all_towers(way):
    """And an overflow of the generator's in one tower skips the generator's step alone."""
    made = step(way, build_gan)
    with session(made, way) as sess:
        before = state(sess)
        sess.run(made.train, dict(zip(made.placeholders, (X, [1.0, 1.0]))))
        trained = state_of(sess)
        sess.run(made.train, dict(zip(made.placeholders, (X, [1.0, np.inf]))))
        skipped = state_of(sess)
    names = {"D/1", "D/2", "G/1", "G/2"}
    assert names <= changed(before, trained) and {"D/1", "D/2"} == names & changed(trained, skipped)
    scales = sorted(name for name in skipped if name.endswith("/scale"))
    assert len(scales) == 2 and sorted(skipped[name] for name in scales) == [512, 1024]


def test_a_script_with_towers_under_graphmp_run(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("towers.py").write_text(SCRIPT)
    ended = forks.run("towers.py", flags=["--loss_scale_initial=1024"])
    assert ended.status == 0, ended.err
    assert ended.numbers == pytest.approx(expected({"sparse": True}), rel=0.01) and ended.out.endswith(" True\n")
    assert any("12 of 12 matmuls" in line for line in ended.said) and ended.said[-1] == "%d training steps; loss scale 512; 1 skipped" % (STEPS + 1)
