"""Values of gradient code, fetched from and fed to a converted graph: those of the script's own."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import config_pb2

import graphmp
from tests.support.turns import in_turn

RNG = np.random.RandomState(0)
X = (RNG.randn(16, 8) / 3).astype(np.float32)
Y = X[:, :1] * 2
FEED = {"x:0": X, "y:0": Y}
CONFIGS = [
    {},
    {"loss_scale": 128.0},
    {"loss_scale": "none"},
    {"compute_dtype": "bfloat16"},
    {"compute_dtype": "float32", "clip_norm": 1e6},
]
RATE = 0.005


class Model:
    """A regression whose weights gradient descent moves by what it takes for gradients."""

    def __init__(self, between=lambda gradients: gradients, take=tf.gradients):
        """Build the graph.

        Args:
            between: makes what the optimizer takes of the gradients.
            take: takes the gradients of a loss with respect to variables.
        """
        tf.set_random_seed(3)
        x = tf.placeholder(tf.float32, [None, 8], "x")
        y = tf.placeholder(tf.float32, [None, 1], "y")
        self.weights = [tf.get_variable("w", [8, 16]), tf.get_variable("v", [16, 1])]
        self.hidden = tf.tanh(tf.matmul(x, self.weights[0]), name="hidden")
        loss = tf.square(tf.matmul(self.hidden, self.weights[1]) - y)
        self.loss = tf.reduce_mean(loss, name="loss")
        self.gradients = take(self.loss, self.weights)
        self.taken = between(self.gradients)
        optimizer = tf.train.GradientDescentOptimizer(RATE)
        self.train = optimizer.apply_gradients(list(zip(self.taken, self.weights)))
        self.init = tf.global_variables_initializer()


def computed(loss, variables):
    return [g for g, _ in tf.train.GradientDescentOptimizer(1.0).compute_gradients(loss, variables)]


def by_two_sessions(build, work, **config):
    """What `work(session, model)` returns in a plain session and in a converting one."""
    found = []
    for session_class, options in ((tf.Session, {}), (graphmp.Session, config)):
        with tf.Graph().as_default() as graph, np.errstate(all="ignore"):
            model = build()
            with session_class(graph=graph, **options) as session:
                session.run(model.init)
                found.append(work(session, model))
    return found


def is_alike(build, work, **config):
    """Whether both sessions return the same but for rounding."""
    plain, half = (
        [np.asarray(value) for value in tf.nest.flatten(values)]
        for values in by_two_sessions(build, work, **config)
    )
    assert len(plain) == len(half) > 0
    for expected, value in zip(plain, half):
        assert (expected.dtype, expected.shape) == (value.dtype, value.shape)
        assert np.abs(value - expected).max() <= 0.08 * np.abs(expected).max()


@pytest.mark.parametrize("config, take", in_turn(CONFIGS, [tf.gradients, computed]))
def test_fetched_gradients_are_not_scaled(take, config):
    def work(session, model):
        fetches = [model.loss, model.gradients, model.train]
        steps = [session.run(fetches, FEED)[:2] for _ in range(3)]
        return steps, session.run(model.gradients, FEED)

    is_alike(lambda: Model(take=take), work, **config)


def inner(graph):
    """All fetchable floating-point tensors of gradient code."""
    return [
        tensor
        for op in graph.get_operations()
        if op.name.startswith("gradients/")
        for tensor in op.outputs
        if tensor.dtype == tf.float32
    ]


def test_raw_tensors_of_gradient_code_are_not_scaled():
    def work(session, model):
        tensors = inner(session.graph)
        session.run(model.train, FEED)
        return session.run([*tensors, model.train], FEED)[:-1]

    is_alike(Model, work)


def test_gradients_by_other_variables_of_a_call():
    def take(loss, variables):
        return tf.gradients(loss, [*variables, loss.graph.get_tensor_by_name("x:0")])

    def work(session, model):
        return [session.run([model.gradients, model.train], FEED)[0] for _ in range(3)]

    is_alike(lambda: Model(take=take, between=lambda gradients: gradients[:2]), work)


def callable_of_options(session, fetches, feeds):
    """What Keras calls."""
    options = config_pb2.CallableOptions()
    options.fetch.extend(tensor.name for tensor in fetches)
    options.feed.extend(feeds)
    return session._make_callable_from_options(options)


def test_callables_and_partial_runs_fetch_what_is_not_scaled():
    def work(session, model):
        session.run(model.train, FEED)
        first = session.make_callable(model.gradients, ["x:0", "y:0"])(X, Y)
        second = callable_of_options(session, model.gradients, ["x:0", "y:0"])(X, Y)
        handle = session.partial_run_setup([model.hidden, *model.gradients], ["x:0", "y:0"])
        session.partial_run(handle, model.hidden, {"x:0": X})
        one = session.partial_run(handle, model.gradients[0], {"y:0": Y})
        return first, list(second), one, session.partial_run(handle, model.gradients[1])

    is_alike(Model, work)


def test_late_tensors_read_what_is_not_scaled():
    def work(session, model):
        session.run(model.train, FEED)
        with session.graph.as_default():
            norm = tf.norm(model.gradients[0])
        return session.run([norm, model.loss], FEED)

    is_alike(Model, work)


def test_sparse_gradients_are_not_scaled():
    class Sparse(Model):
        def __init__(self):
            super().__init__()
            table = tf.get_variable("table", [10, 4])
            loss = tf.reduce_mean(
                tf.square(tf.matmul(tf.gather(table, [1, 1, 3]), tf.ones([4, 2])))
            )
            self.gradients = tf.gradients(loss, [table])
            optimizer = tf.train.GradientDescentOptimizer(RATE)
            self.train = optimizer.apply_gradients([(self.gradients[0], table)])
            self.weights, self.init = [table], tf.global_variables_initializer()

    def work(session, model):
        fetched = session.run([model.gradients, model.train])[0]
        given = type(fetched[0])(fetched[0].values * 3, [2, 2, 5], [10, 4])
        session.run(model.train, {model.gradients[0]: given})
        return fetched[0].values, session.run(model.weights)

    is_alike(Sparse, work)


@pytest.mark.parametrize("config, take", in_turn(CONFIGS, [tf.gradients, computed]))
def test_gradients_are_summed_in_numpy_and_fed(take, config):
    def work(session, model):
        for _ in range(3):
            sums = [session.run(model.gradients, {"x:0": X + k, "y:0": Y}) for k in range(2)]
            means = [(a + b) / 2 for a, b in zip(*sums)]
            session.run(model.train, dict(zip(model.gradients, means)))
        return session.run(model.weights)

    is_alike(lambda: Model(take=take), work, **config)


TINY = [np.full([8, 16], 1e-9, np.float32), np.full([16, 1], 3e-9, np.float32)]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_fed_gradients_are_not_rounded(config):
    def work(session, model):
        session.run(model.train, FEED)
        session.run([tf.assign(w, tf.zeros_like(w)) for w in model.weights])
        session.run(model.train, dict(zip(model.gradients, TINY)))
        return session.run(model.weights)

    is_alike(Model, work, **config)


def test_one_gradient_is_fed_beside_a_batch():
    def work(session, model):
        for _ in range(3):
            session.run(model.train, {model.gradients[0]: np.ones([8, 16]), **FEED})
        return session.run(model.weights)

    is_alike(Model, work)


def clipped(gradients):
    return tf.clip_by_global_norm(gradients, 1.0)[0]


def averaged(gradients):
    return [tf.add_n([g, g]) / 2 for g in gradients]


@pytest.mark.parametrize("config, between", in_turn(CONFIGS, [clipped, averaged]))
def test_what_is_made_of_gradients_is_fed(between, config):
    def work(session, model):
        for _ in range(3):
            values = session.run(model.taken, FEED)
            session.run(model.train, dict(zip(model.taken, values)))
        return session.run([*model.taken, *model.weights], FEED)

    is_alike(lambda: Model(between), work, **config)


def split(loss, variables):
    """The gradient of the lower part, from that of the upper part."""
    hidden = loss.graph.get_tensor_by_name("hidden:0")
    above = tf.gradients(loss, [hidden, variables[1]])
    tf.identity(above[0], "error")
    return [tf.gradients(hidden, variables[0], above[0])[0], above[1]]


def test_a_gradient_that_gradient_code_reads_is_fed():
    def work(session, model):
        error = session.graph.get_tensor_by_name("error:0").op.inputs[0]
        for _ in range(3):
            session.run(model.train, FEED)
        found = session.run(error, FEED)
        session.run(model.train, {error: found * 2, **FEED})
        return found, session.run([*model.gradients, *model.weights], {error: found, **FEED})

    is_alike(lambda: Model(take=split), work)


def test_callables_take_gradients():
    def work(session, model):
        session.run(model.train, FEED)
        call = session.make_callable(model.train, model.gradients)
        for _ in range(2):
            call(*(np.ones(w.shape.as_list(), np.float32) for w in model.weights))
        made = callable_of_options(session, model.taken, [g.name for g in model.gradients])
        return session.run(model.weights), list(made(*TINY))

    is_alike(lambda: Model(lambda gradients: [g * 2 for g in gradients]), work)


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_fed_gradients_that_are_not_finite_change_nothing(number):
    with tf.Graph().as_default():
        model = Model()
        with graphmp.Session() as session:
            session.run(model.init)
            session.run(model.train, FEED)
            before = session.run(model.weights)
            feed = dict(zip(model.gradients, [np.full([8, 16], number), TINY[1]]))
            with pytest.warns(RuntimeWarning, match="step skipped"):
                session.run(model.train, feed)
            assert all(map(np.array_equal, before, session.run(model.weights)))


def test_no_batch_is_taken_for_fed_gradients():
    class Piped(Model):
        def __init__(self):
            super().__init__()
            data = tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(4)
            x, y = tf.data.make_one_shot_iterator(data).get_next()
            loss = tf.reduce_mean(
                tf.square(tf.matmul(tf.matmul(x, self.weights[0]), self.weights[1]) - y)
            )
            self.x, self.gradients = x, tf.gradients(loss, self.weights)
            optimizer = tf.train.GradientDescentOptimizer(RATE)
            self.train = optimizer.apply_gradients(list(zip(self.gradients, self.weights)))

    def work(session, model):
        for _ in range(3):
            session.run(model.train, dict(zip(model.gradients, TINY)))
        return session.run(model.x)

    is_alike(Piped, work)


def test_a_loss_and_activations_are_fed():
    def work(session, model):
        hidden = np.abs(np.random.RandomState(1).randn(16, 16)).astype(np.float32)
        session.run(model.train, FEED)
        session.run(model.train, {model.hidden: hidden, **FEED})
        return session.run([model.loss * 2, *model.gradients], {model.loss: 3.0, **FEED})

    is_alike(Model, work)
