"""The recipe's rules and refusals, one by one."""

from __future__ import annotations

import inspect
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.control_flow import control_flow
from tests.support.models import TARGETS, VECTORS, two_layers, vectors
from tests.support.training import tensor_core_dtypes

fixed = graphmp.mixed_precision(loss_scale=64.0)
recipe_alone = graphmp.mixed_precision(loss_scale=64.0, engine="recipe")


def run(fetches, feeds):
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetches, feeds)


@pytest.mark.unit
def test_with_and_without_arguments_signature_and_docstring_stay(graph):
    def build(inputs, labels=None, *, classes=3):
        """Builds."""
        return tf.layers.dense(inputs, classes)

    for decorated in (
        graphmp.mixed_precision(build),
        graphmp.mixed_precision()(build),
        fixed(build),
    ):
        assert decorated.__doc__ == "Builds." and decorated.__name__ == "build"
        assert inspect.signature(decorated) == inspect.signature(build)
        assert decorated(vectors()[0], classes=2).shape.as_list() == [None, 2]


@pytest.mark.unit
def test_methods_static_and_class_methods(graph):
    class Model:
        units = 4

        @fixed
        def build(self, x):
            return tf.layers.dense(x, self.units)

        @fixed
        @staticmethod
        def static(x):
            return tf.layers.dense(x, 5)

        @fixed
        @classmethod
        def of_class(cls, x):
            return tf.layers.dense(x, cls.units)

    x = vectors()[0]
    assert [f(x).shape.as_list()[1] for f in (Model().build, Model.static, Model.of_class)] == [
        4,
        5,
        4,
    ]
    assert set(tensor_core_dtypes(graph)) == {"float16"}


def test_an_argument_that_is_returned_is_the_callers_own_tensor(graph):
    x, y = vectors()
    out = fixed(lambda x, y: {"x": x, "rest": (y, tf.layers.dense(x, 1))})(x, y)
    assert out["x"] is x and out["rest"][0] is y
    assert out["rest"][1].dtype == tf.float32
    assert run(out["rest"][1], {out["x"]: VECTORS}).shape == (8, 1)


@pytest.mark.unit
def test_labels_and_weights_that_reach_only_the_loss_are_not_cast(graph):
    seen = {}

    @fixed
    def build(x, y, weight, rate):
        seen.update(x=x.dtype, y=y.dtype, weight=weight.dtype, rate=rate.dtype)
        loss = tf.losses.mean_squared_error(y, two_layers(x), weights=weight)
        return loss, tf.train.GradientDescentOptimizer(rate).minimize(loss)

    build(*vectors(), weight=tf.placeholder(tf.float32, ()), rate=tf.placeholder(tf.float32, ()))
    assert seen == {"x": tf.float16, "y": tf.float32, "weight": tf.float32, "rate": tf.float32}


def test_integer_arguments_are_never_cast(graph):
    @fixed
    def build(x, ids, steps):
        assert (ids.dtype, steps.dtype) == (tf.int32, tf.int64)
        return tf.layers.dense(x, 1) * tf.cast(steps, tf.float32)

    x, big = vectors()[0], 2**24 + 1
    steps = tf.placeholder(tf.int64, ())
    out = build(x, tf.placeholder(tf.int32, (None,)), steps)
    assert np.isfinite(run(out, {x: VECTORS, steps: big})).all()


def test_trainable_none_means_trainable(graph):
    """A weight of 1 trained with steps of 1e-4 stands still in float16 storage."""

    @fixed
    def build(x):
        w = tf.get_variable("w", [12, 1], dtype=x.dtype, initializer=tf.ones_initializer())
        loss = tf.reduce_sum(tf.matmul(x, w)) / 12
        return tf.train.GradientDescentOptimizer(1e-4).minimize(loss)

    x = vectors()[0]
    train = build(x)
    variable = tf.trainable_variables()[0]
    assert variable.dtype.base_dtype == tf.float32
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            sess.run(train, {x: np.ones((1, 12), np.float32)})
        np.testing.assert_allclose(sess.run(variable), 1 - 10 * 1e-4 / 12, rtol=1e-6)


@pytest.mark.unit
@pytest.mark.parametrize("trainable", [None, True, False])
def test_public_getter(graph, trainable):
    with tf.variable_scope("scope", custom_getter=graphmp.float32_variable_storage_getter):
        got = tf.get_variable("w", [2, 3], dtype=tf.float16, trainable=trainable)
        kept = tf.get_variable("v", [2], dtype=tf.float64)
    stored = tf.global_variables()[0]
    assert stored.dtype.base_dtype == tf.float32 and stored.op.name == "scope/w"
    assert kept.dtype.base_dtype == tf.float64
    assert got is stored if trainable is False else got.dtype == tf.float16
    assert (stored in tf.trainable_variables()) == (trainable is not False)


@pytest.mark.unit
def test_the_scopes_own_getter_still_runs(graph):
    names = []

    def outer(getter, name, *args, **kwargs):
        names.append((name, kwargs["dtype"]))
        return getter(name, *args, **kwargs)

    with tf.variable_scope("scope", custom_getter=outer):
        fixed(lambda x: tf.layers.dense(x, 1))(vectors()[0])
    assert names[-2:] == [("scope/dense/kernel", tf.float32), ("scope/dense/bias", tf.float32)]
    assert tf.get_variable_scope().custom_getter is None


@pytest.mark.unit
def test_variables_after_the_call_are_named_as_without_it(graph):
    fixed(lambda x: tf.layers.dense(x, 1))(vectors()[0])
    tf.layers.dense(vectors()[0], 1)
    assert [v.op.name for v in tf.global_variables()][::2] == ["dense/kernel", "dense_1/kernel"]


def test_moving_averages_of_variables_are_float32(graph):
    @fixed
    def build(x, y):
        loss = tf.losses.mean_squared_error(y, two_layers(x))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.control_dependencies([train]):
            return loss, tf.train.ExponentialMovingAverage(0.9).apply(tf.trainable_variables())

    x, y = vectors()
    run(build(x, y), {x: VECTORS, y: TARGETS})
    shadows = [v for v in tf.global_variables() if v.op.name.endswith("ExponentialMovingAverage")]
    assert [v.op.name for v in shadows] == [
        v.op.name + "/ExponentialMovingAverage" for v in tf.trainable_variables()
    ]
    assert {v.dtype.base_dtype for v in shadows} == {tf.float32}


def test_gradients_come_back_float32_divided_none_stays_none_sparse_stays_sparse(graph):
    @graphmp.mixed_precision(loss_scale=128.0)
    def build(x, ids):
        rows = tf.reshape(tf.nn.embedding_lookup(tf.get_variable("table", [20, 8]), ids), [-1, 32])
        tf.get_variable("unused", [2])
        loss = tf.reduce_mean(tf.layers.dense(rows, 1, use_bias=False))
        return tf.train.GradientDescentOptimizer(1.0).compute_gradients(loss)

    ids = tf.placeholder(tf.int32, (None, 4))
    pairs = build(vectors()[0], ids)
    by_name = {v.op.name: g for g, v in pairs}
    assert isinstance(by_name["table"], tf.IndexedSlices) and by_name["unused"] is None
    assert by_name["table"].values.dtype == by_name["dense/kernel"].dtype == tf.float32
    feed = np.zeros((8, 4), np.int32)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        table, gradient = sess.run(
            [tf.trainable_variables()[0], by_name["dense/kernel"]], {ids: feed}
        )
    np.testing.assert_allclose(gradient[:8, 0], table[0], rtol=2e-3, atol=1e-6)


def test_clip_is_over_the_global_norm_after_the_unscale(graph):
    @graphmp.mixed_precision(loss_scale=128.0, clip_norm=5.0)
    def build(x, y):
        return tf.train.GradientDescentOptimizer(1.0).compute_gradients(
            10.0 * tf.losses.mean_squared_error(y, two_layers(x))
        )

    x, y = vectors()
    norm = tf.global_norm([g for g, _ in build(x, y)])
    assert run(norm, {x: VECTORS, y: TARGETS + 10}) == pytest.approx(5.0, rel=1e-5)
    squared = [
        op.inputs[0].op.type
        for op in graph.get_operations()
        if op.type == "L2Loss" and op.name.startswith("graphmp/")
    ]
    assert squared == ["RealDiv"] * 4  # by the loss scale


@pytest.mark.unit
@pytest.mark.parametrize("cast", [False, True], ids=["asked for in half precision", "cast by hand"])
def test_gradients_of_a_shared_weight_are_summed_in_float32(graph, cast):
    @fixed
    def build(x):
        h, w = x, tf.get_variable("w", [12, 12], dtype=tf.float32 if cast else x.dtype)
        w = tf.cast(w, x.dtype) if cast else w
        for _ in range(3):
            h = tf.tanh(tf.matmul(h, w))
        return tf.gradients(tf.reduce_mean(h), tf.trainable_variables())

    build(vectors()[0])
    sums = [
        op
        for op in graph.get_operations()
        if op.type == "AddN" and op.outputs[0].shape.as_list() == [12, 12]
    ]
    assert len(sums) == 1 and sums[0].get_attr("T") == tf.float32


@pytest.mark.unit
@pytest.mark.parametrize(
    "rows, source, dtypes, cast_back",
    [
        (127, "variable", [tf.float16], False),
        (128, "variable", [tf.float32], False),
        ((1 << 18) - 1, "variable", [tf.float32], False),
        (1 << 18, "variable", [tf.float16], False),
        (128, "cast by hand", [tf.float32], False),
        (128, "shared", [tf.float32, tf.float32], False),
        (128, "computed", [tf.float32], True),
        (128, "in both sizes", [tf.float16, tf.float32], False),
    ],
)
def test_a_kernel_that_is_slow_in_half_precision(graph, rows, source, dtypes, cast_back):
    """BiasAddGrad reads `rows` x 128 numbers: float32 if these are many, but not too many."""

    @graphmp.mixed_precision(loss_scale=64.0, compute_dtype="float16", engine="recipe")
    def build(x):
        given = tf.float32 if source == "cast by hand" else x.dtype
        bias = tf.get_variable("bias", [1, 128] if source == "computed" else [128], given)
        bias = tf.cast(bias, x.dtype) if source == "cast by hand" else bias
        if source == "computed":
            bias = tf.matmul(bias, tf.get_variable("square", [128, 128], x.dtype))[0]
        for layer in range(2 if source in ("shared", "in both sizes") else 1):
            weights = tf.get_variable("w%d" % layer, [128, 128], x.dtype)
            x = tf.tanh(tf.nn.bias_add(tf.matmul(x, weights), bias))
            x = x[:8] if source == "in both sizes" else x
        x = tf.matmul(x, tf.get_variable("last", [128, 16], x.dtype))
        return tf.gradients(tf.reduce_mean(x), tf.trainable_variables())

    gradients = build(tf.placeholder(tf.float32, [rows, 128]))
    assert [g.dtype for g in gradients] == [tf.float32] * len(gradients)
    made = [op for op in graph.get_operations() if op.type == "BiasAddGrad"]
    assert sorted((op.get_attr("T") for op in made), key=str) == sorted(dtypes, key=str)
    wide = [op.outputs[0] for op in made if op.get_attr("T") == tf.float32]
    readers = [reader for tensor in wide for reader in tensor.consumers()]
    cast = [op for op in readers if op.type == "Cast" and op.outputs[0].dtype == tf.float16]
    assert bool(cast) == cast_back


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("loss_scale", [64.0, "dynamic"])
def test_what_reads_a_variable_after_a_step_sees_the_new_value(graph, use_resource, loss_scale):
    def build(x, y):
        w = tf.get_variable("w", [12, 1], x.dtype, tf.ones_initializer(), use_resource=use_resource)
        step, losses = tf.no_op(), []
        for _ in range(3):
            with tf.control_dependencies([step]):
                product = tf.cast(tf.matmul(x, w), tf.float32)
                losses.append(tf.reduce_mean(tf.square(product - y)))
                step = tf.train.GradientDescentOptimizer(0.01).minimize(losses[-1])
        return losses[-1], step

    def losses(decorated):
        with tf.Graph().as_default():
            x, y = vectors()
            made = decorated(x, y)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                return [session.run(made, {x: VECTORS, y: TARGETS})[0] for _ in range(3)]

    mixed = graphmp.mixed_precision(loss_scale=loss_scale, engine="recipe")
    assert losses(mixed(build)) == pytest.approx(losses(build), rel=1e-2)


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_a_loop_that_trains_what_is_cast_before_it_is_refused_by_its_line(graph, use_resource):
    def build(x, y):
        w = tf.get_variable("w", [12, 1], x.dtype, use_resource=use_resource)

        def body(step):
            loss = tf.reduce_mean(tf.square(tf.cast(tf.matmul(x, w), tf.float32) - y))
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            with tf.control_dependencies([train]):
                return step + 1

        return tf.while_loop(lambda step: step < 3, body, [0])

    text = r"GMP012.*test_rules.py:\d+: `.*minimize.*a loop writes variable w"
    with pytest.raises(graphmp.GraphmpError, match=text):
        graphmp.mixed_precision(build, engine="recipe", loss_scale="none")(*vectors())


def test_look_ups_in_a_partitioned_table_find_their_rows(graph):
    """Parts are cast one by one: the `mod` strategy reads row 1 of 4 from the second part."""

    @fixed
    def build(x, ids):
        with tf.variable_scope("parts", partitioner=tf.fixed_size_partitioner(2)):
            table = tf.get_variable(
                "table", [4, 12], dtype=x.dtype, initializer=tf.random_normal_initializer()
            )
        rows = tf.nn.embedding_lookup(table, ids, partition_strategy="mod")
        return rows + 0.0 * tf.matmul(x, tf.get_variable("w", [12, 12], dtype=x.dtype))

    x, ids = vectors()[0], tf.placeholder(tf.int32, (None,))
    rows, parts = run(
        [build(x, ids), tf.trainable_variables("parts")], {x: VECTORS[:4], ids: [0, 1, 2, 3]}
    )
    np.testing.assert_allclose(rows, np.stack([parts[i % 2][i // 2] for i in range(4)]), rtol=2e-3)


def test_the_scale_stops_at_its_floor_and_float32s_largest(graph):
    @graphmp.mixed_precision(
        loss_scale_initial=4.0,
        loss_scale_min=2.0,
        loss_scale_growth_interval=1,
        loss_scale_growth_factor=1e30,
    )
    def build(x, factor):
        loss = tf.reduce_mean(tf.layers.dense(x, 1)) * factor
        return tf.train.GradientDescentOptimizer(0.0).minimize(loss)

    x, factor = vectors()[0], tf.placeholder(tf.float32, ())
    train, scale = build(x, factor), tf.get_collection("graphmp_loss_scale")[0]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        seen = []
        for value in (np.inf, np.inf, np.inf):
            sess.run(train, {x: VECTORS, factor: value})
            seen.append(sess.run(scale))
        assert seen == [2.0, 2.0, 2.0]
        for _ in range(3):
            sess.run(train, {x: VECTORS, factor: 0.0})
        assert sess.run(scale) == np.float32(2e30)


@pytest.mark.unit
def test_a_loss_in_half_precision_is_scaled_in_float32(graph):
    @fixed
    def build(x):
        loss = tf.cast(tf.reduce_mean(tf.layers.dense(x, 1)), tf.float16)
        return tf.gradients(loss, tf.trainable_variables())

    build(vectors()[0])
    (scaled,) = (op for op in graph.get_operations() if op.name.endswith("/scaled_loss"))
    assert scaled.outputs[0].dtype == tf.float32


@pytest.mark.parametrize("turn", range(6))
def test_of_two_calls_behind_a_loss_the_first_ones_options_count(graph, turn):
    """The order is that of the calls, not of the sum."""

    def build(name, scale):
        def layer(x):
            return tf.layers.dense(x, 8, name=name)

        return graphmp.mixed_precision(engine="recipe", loss_scale=scale)(layer)

    x = tf.placeholder(tf.float32, [8, 8])
    one, two = build("one", 128.0)(x), build("two", 1024.0)(x)
    tf.gradients(tf.reduce_mean(two) + tf.reduce_mean(one), tf.trainable_variables())
    scale = graph.get_tensor_by_name("graphmp/loss_scale/current:0")
    assert tf.get_static_value(scale) == 128.0


def test_user_given_grad_ys_are_scaled(graph):
    @fixed
    def build(x):
        p = tf.layers.dense(x, 1, use_bias=False)
        return tf.gradients(p, tf.trainable_variables(), grad_ys=[tf.fill(tf.shape(p), 3.0)])[0]

    x = vectors()[0]
    np.testing.assert_allclose(run(build(x), {x: VECTORS})[:, 0], 3 * VECTORS.sum(0), rtol=5e-3)


def test_scale_from_a_tensor_and_from_the_global_step(graph):
    with pytest.raises(graphmp.GraphmpError, match=r"GMP002.*the graph has none"):
        graphmp.mixed_precision(loss_scale=lambda step: step)(
            lambda x: tf.gradients(tf.layers.dense(x, 1, name="first"), tf.trainable_variables())
        )(vectors()[0])
    tf.train.get_or_create_global_step()
    for scale in (tf.constant(32.0), lambda step: tf.pow(2.0, tf.cast(step, tf.float32) + 5)):
        x, y = vectors()
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
            pairs = graphmp.mixed_precision(loss_scale=scale)(
                lambda x, y: tf.train.GradientDescentOptimizer(1.0).compute_gradients(
                    tf.losses.mean_squared_error(y, two_layers(x))
                )
            )(x, y)
        assert all(
            np.isfinite(g).all()
            for g in run([g for g, _ in pairs if g is not None], {x: VECTORS, y: TARGETS})
        )
    names = {op.name for op in graph.get_operations()}
    assert "graphmp/loss_scale/scaled_loss" in names and "graphmp/loss_scale_1/current" in names


@pytest.mark.unit
def test_a_float32_constant_in_the_half_part_is_refused_by_its_line(graph):
    @recipe_alone
    def build(x, y):
        h = tf.layers.dense(x * tf.constant(2.0), 4)  # the culprit
        return tf.losses.mean_squared_error(y, tf.layers.dense(h, 1))

    with pytest.raises(
        graphmp.GraphmpError,
        match=(
            r"GMP012: .*test_rules.py:\d+: `h = tf.layers.dense\(x \* tf.constant\(2.0\), 4\) # the"
            r" culprit`[^;]*[^;.]; make [^;]*dtype=x.dtype"
        ),
    ):
        build(*vectors())


@pytest.mark.unit
@pytest.mark.parametrize("dtype, refused", [("float16", True), ("bfloat16", False)])
def test_a_number_that_half_precision_cannot_hold_is_refused_by_its_line(graph, dtype, refused):
    """A mask of -1e9 would be infinite in float16, an epsilon of 1e-12 zero.

    Bfloat16 has float32's range.
    """

    @graphmp.mixed_precision(engine="recipe", compute_dtype=dtype)
    def build(x, y):
        masked = tf.layers.dense(x, 4) + -1e9 * tf.nn.relu(x[:, :1])  # a mask
        return tf.losses.mean_squared_error(y, tf.layers.dense(masked, 1))

    if not refused:
        assert build(*vectors()).dtype == tf.float32
        return
    with pytest.raises(
        graphmp.GraphmpError,
        match=(
            r"GMP012: .*test_rules.py:\d+: `masked = .*# a mask`: .* holds -1e\+09, which float16"
            r" can't"
        ),
    ):
        build(*vectors())


@pytest.mark.unit
@pytest.mark.parametrize(
    "encode, why",
    [
        (lambda x: tf.sin(tf.matmul(x, tf.constant(np.eye(12, 4), x.dtype))), "Sin. magnifies its"),
        (lambda x: tf.matmul(x, x, transpose_a=True), "MatMul of .* with itself adds up squares"),
        (lambda x: tf.cos(20.0 * tf.layers.dense(x, 4) + 300.0), "Cos. magnifies its"),
        (lambda x: tf.matmul(tf.nn.softmax(tf.matmul(x, x, transpose_b=True) / 8.0), x), ""),
        (lambda x: tf.nn.dropout(tf.layers.dense(x, 4), rate=0.5), ""),
        (lambda x: x * tf.cast(tf.cast(x, tf.int32) + 1, x.dtype), ""),
    ],
    ids=["sine", "squares", "cosine", "scores", "dropout", "of inputs"],
)
def test_what_rounding_spoils_is_refused_by_its_line(graph, encode, why):
    @graphmp.mixed_precision(engine="recipe")
    def build(x, y):
        encoded = encode(x)
        return tf.reduce_mean(tf.layers.dense(encoded, 1))

    if not why:
        assert build(*vectors()).dtype == tf.float32
        return
    with pytest.raises(
        graphmp.GraphmpError, match="GMP012: .* would be half precision, but .*" + why
    ):
        build(*vectors())


@pytest.mark.unit
def test_whole_and_random_numbers_are_float32(graph):
    """They follow the dtype of what they meet; half precision has no room for them."""

    @recipe_alone
    def build(x):
        h = tf.layers.dense(x, 4)
        noise = tf.random_uniform(tf.shape(h), dtype=h.dtype)
        count = tf.cast(tf.size(h), h.dtype)
        last = tf.layers.dense(h * noise / count, 4)
        return last, tf.cast(h, tf.int32)

    _, whole = build(vectors()[0])
    ops = graph.get_operations()
    (drawn,) = [op for op in ops if op.type == "RandomUniform" and "Initializer" not in op.name]
    casts = [(op.inputs[0].dtype, op.outputs[0].dtype) for op in ops if op.type == "Cast"]
    assert drawn.outputs[0].dtype == tf.float32 and whole.dtype == tf.int32
    assert (tf.int32, tf.float32) in casts and (tf.float32, tf.int32) in casts
    assert not [pair for pair in casts if tf.int32 in pair and tf.float16 in pair]


@pytest.mark.unit
def test_what_is_made_of_gradients_is_float32(graph):
    """A penalty is a term of the loss, though nothing behind it is worth half precision."""

    @recipe_alone
    def build(x):
        d = two_layers(x)
        penalty = tf.reduce_mean(tf.square(tf.gradients(d, x)[0]), name="penalty")
        return d, penalty

    build(vectors()[0])
    assert graph.get_tensor_by_name("penalty:0").dtype == tf.float32
    assert graph.get_operation_by_name("penalty").get_attr("T") == tf.float32


@pytest.mark.unit
def test_a_keras_layer_is_refused_before_it_runs(graph):
    @recipe_alone
    def build(x):
        return tf.keras.layers.Dense(4)(x)

    with pytest.raises(
        graphmp.GraphmpError, match=r"GMP014.*variable dense/kernel would be stored in float16"
    ):
        build(vectors()[0])


@pytest.mark.unit
def test_the_models_own_error_comes_through_as_it_is(graph):
    @fixed
    def build(x):
        return tf.layers.dense(x, 4) + undefined  # noqa: F821

    with pytest.raises(NameError, match="undefined"):
        build(vectors()[0])
    fixed(lambda x: tf.layers.dense(x, 4, name="taken"))(vectors()[0])
    with pytest.raises(ValueError, match="taken/kernel already exists"):
        fixed(lambda x: tf.layers.dense(x, 4, name="taken"))(vectors()[0])
    with pytest.raises(ValueError) as caught:
        fixed(
            lambda x: (
                tf.reshape(x, [-1, 5, 7, 11])
                + tf.zeros([13]) * tf.layers.dense(tf.zeros([2, 3]), 4)
            )
        )(tf.zeros([385, 2]))
    assert not isinstance(caught.value, graphmp.GraphmpError)


@pytest.mark.unit
def test_nested_without_effect(graph):
    inner = fixed(lambda x: tf.layers.dense(x, 4))
    outer = fixed(lambda x: tf.layers.dense(inner(x), 1))
    assert outer(vectors()[0]).dtype == tf.float32
    assert tensor_core_dtypes(graph) == {"float16": 2}


@pytest.mark.unit
def test_other_threads_are_left_alone():
    """What the decorator intercepts, it intercepts for its own call only."""
    inside, done, dtypes = threading.Event(), threading.Event(), {}

    def elsewhere():
        inside.wait(10)
        with tf.Graph().as_default() as graph:
            tf.layers.dense(vectors()[0], 4)
            tf.reduce_mean(tf.zeros([2], tf.float16))
            dtypes.update(
                matmul=tensor_core_dtypes(graph),
                mean=graph.get_operation_by_name("Mean").get_attr("T"),
            )
        done.set()

    @fixed
    def build(x):
        h = tf.layers.dense(x, 4)
        inside.set()
        assert done.wait(20)
        return tf.layers.dense(h, 1)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    with tf.Graph().as_default() as graph:
        build(vectors()[0])
        assert tensor_core_dtypes(graph) == {"float16": 2}
    thread.join()
    assert dtypes == {"matmul": {"float32": 1}, "mean": tf.float16}


@pytest.mark.unit
def test_keep_float32_and_op_policy(graph, tmp_path):
    policy = tmp_path / "policy.txt"
    policy.write_text("deny Tanh  # for this model\n")

    @graphmp.mixed_precision(loss_scale=64.0, keep_float32="second/MatMul$", op_policy=str(policy))
    def build(x, y):
        h = tf.layers.dense(tf.layers.dense(x, 4, tf.tanh, name="first"), 4, name="second")
        return tf.losses.mean_squared_error(y, tf.layers.dense(h, 1, name="third"))

    build(*vectors())
    dtype = {
        op.name: op.get_attr("T") for op in graph.get_operations() if op.type in ("MatMul", "Tanh")
    }
    assert dtype == {
        "first/MatMul": tf.float16,
        "first/Tanh": tf.float32,
        "second/MatMul": tf.float32,
        "third/MatMul": tf.float16,
    }


@pytest.mark.unit
def test_a_fetch_keeps_its_dtype_and_strict_repairs_nothing(graph):
    def build(x, y):
        h = tf.layers.dense(x, 4, tf.nn.relu, name="first")
        return tf.losses.mean_squared_error(
            y, tf.layers.dense(h * tf.reduce_mean(h, 1, keepdims=True), 1, name="second")
        )

    graphmp.mixed_precision(loss_scale=64.0, fetch="first/Relu:0", engine_strict=True)(build)(
        *vectors()
    )
    dtype = {
        op.name: op.get_attr("T")
        for op in graph.get_operations()
        if op.type in ("MatMul", "Relu", "Mean")
    }
    assert (
        dtype["first/Relu"] == tf.float32
        and dtype["first/MatMul"] == dtype["second/MatMul"] == dtype["Mean"] == tf.float16
    )
    with tf.variable_scope("again"):
        graphmp.mixed_precision(build)(*vectors())
    assert graph.get_operation_by_name("again/Mean").get_attr("T") == tf.float32


def test_an_update_that_bypasses_the_unscale_is_never_run_in_silence(graph):
    """A gradient worked out by hand does not go through tf.gradients.

    The first training run raises.
    """
    x, y = vectors()
    out = fixed(lambda x: tf.layers.dense(x, 1, use_bias=False))(x)
    gradient = tf.matmul(x, out - y, transpose_a=True)
    train = tf.train.GradientDescentOptimizer(0.1).apply_gradients(
        [(gradient, tf.trainable_variables()[0])]
    )
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(out, {x: VECTORS})
        for door in (
            lambda: sess.run(train, {x: VECTORS, y: TARGETS}),
            lambda: sess.make_callable(train, [x, y])(VECTORS, TARGETS),
        ):
            with pytest.raises(graphmp.GraphmpError, match=r"GMP016.*ApplyGradientDescent"):
                door()


@pytest.mark.unit
def test_functional_control_flow_is_refused_by_its_line(graph):
    if tf.__version__ < "2":
        pytest.skip("conditionals of TensorFlow 1 are not functions")
    with control_flow(functions=True), pytest.raises(
        graphmp.GraphmpError,
        match=r"GMP012: .*test_rules.py:\d+: `.*tf.cond.*`: .*If makes a function of its own",
    ):
        recipe_alone(lambda x, flag: tf.layers.dense(tf.cond(flag, lambda: x * 2.0, lambda: x), 1))(
            vectors()[0], tf.placeholder(tf.bool, ())
        )


def test_a_product_of_bfloat16_and_a_variable_that_tensorflow_1_makes_float32(graph):
    """Its result was written to an array of bfloat16, an error at the first step."""

    def build(x):
        weights = tf.get_variable("weights", [12, 4])
        rows = tf.map_fn(lambda row: tf.tanh(tf.matmul(row[None], weights)), x)
        return tf.layers.dense(tf.reshape(rows, [8, 4]), 1)

    recipe = graphmp.mixed_precision(compute_dtype="bfloat16", engine="recipe")(build)
    x = vectors()[0]
    if tf.__version__ < "2":
        with pytest.raises(graphmp.GraphmpError, match=r"GMP012: .*test_rules.py:\d+: .*Sparse"):
            recipe(x)
    else:
        assert run(recipe(x), {x: VECTORS}).shape == (8, 1)


def test_functions_of_an_input_pipeline_are_left_alone(graph):
    @fixed
    def build(x):
        rows = (
            tf.data.Dataset.from_tensor_slices(VECTORS)
            .map(lambda row: tf.reduce_mean(row) + tf.exp(row))
            .batch(8)
            .repeat()
        )
        return tf.layers.dense(x, 12) + tf.data.make_one_shot_iterator(rows).get_next()

    x = vectors()[0]
    assert run(build(x), {x: VECTORS}).shape == (8, 12)


@pytest.mark.unit
def test_inputs_that_do_not_come_through_arguments_are_refused(graph):
    x = vectors()[0]
    with pytest.raises(
        graphmp.GraphmpError,
        match=r"GMP015: none of the 1 matmuls and convolutions, dense/MatMul the first",
    ):
        recipe_alone(lambda: tf.layers.dense(x, 1))()


@pytest.mark.unit
def test_a_weight_that_is_computed_in_float32_is_refused_by_its_line(graph):
    """TensorFlow multiplies bfloat16 by float32, and gives float32."""

    def build(x):
        w = tf.get_variable("w", [12, 4])
        return tf.matmul(x, w / tf.matmul(tf.ones([1, 12]), w))

    decorate = graphmp.mixed_precision(compute_dtype="bfloat16", engine="recipe")
    with pytest.raises(
        graphmp.GraphmpError, match=r"GMP012: .*rules.py:\d+: .* weight that is computed"
    ):
        decorate(build)(vectors()[0])


EAGER = """
import graphmp, tensorflow as tf
try:
    graphmp.mixed_precision(lambda x: x)(tf.zeros([2]))
except graphmp.GraphmpError as e:
    print(e)
"""


def test_eager_execution_is_a_clear_error(forks, tmp_path):
    if tf.__version__ < "2":
        pytest.skip("TensorFlow 1 is not eager unless asked")
    script = tmp_path / "script.py"
    script.write_text(EAGER)
    assert forks.run(str(script), flags=None).out.startswith(
        "GMP011: <lambda> was called while TensorFlow executes eagerly"
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    "options",
    [
        {"loss_scale": "banana"},
        {"loss_scale": -1},
        {"clip_norm": -2},
        {"compute_dtype": "int8"},
        {"engine": "x"},
        {"keep_float32": "("},
        {"nonsense": 1},
    ],
)
def test_bad_options(options):
    with pytest.raises(graphmp.GraphmpError, match=r"GMP002"):
        graphmp.mixed_precision(**options)


@pytest.mark.unit
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_random_ops_draw_what_they_draw_in_float32(half):
    """Each of two calls.

    TensorFlow 1.15 makes seeds from a count of the ops before, which casts change.
    """

    def tower(images, name):
        with tf.variable_scope(name):
            top = tf.nn.dropout(tf.layers.dense(images, 16, tf.nn.relu, name="a"), rate=0.5)
            return tf.layers.dense(
                top, 4, name="b", kernel_initializer=tf.truncated_normal_initializer(seed=7)
            )

    found = []
    for build in (tower, graphmp.mixed_precision(compute_dtype=half)(tower)):
        with tf.Graph().as_default() as fresh:
            tf.set_random_seed(3)
            images = tf.placeholder(tf.float32, [8, 8], name="images")
            for name in ("first", "second"):
                build(images, name)
            random = [op for op in fresh.get_operations() if "seed2" in op.node_def.attr]
            found.append([(op.name, op.get_attr("seed"), op.get_attr("seed2")) for op in random])
    assert len(found[0]) == 6 and found[0] == found[1]
