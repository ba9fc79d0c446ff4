"""What the decorator and a Session say where nothing would train in half precision, and where a
rule matches nothing.
"""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.session.live.live_graph import known_live_graph
from tests.support.models import TARGETS, VECTORS, vectors

OUTSIDE = (
    "none",
    "global_step",
    "global_step_arguments",
    "decayed_rate",
    "iterator",
    "table",
    "table_arguments",
    "resource_table",
    "optimizer",
)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        yield graph


def loss_of(x, y):
    return tf.losses.mean_squared_error(y, tf.layers.dense(tf.layers.dense(x, 16, tf.nn.relu), 1))


def built(kind):
    """A decorated call that uses something from outside: its loss, train op and feeds."""
    x, y = vectors()
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdamOptimizer(0.01)
    ids = tf.placeholder(tf.int64, [None])
    table = (
        tf.get_variable("table", [8, 12], use_resource=kind == "resource_table")
        if "table" in kind
        else None
    )
    batches = (
        tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensors((VECTORS, TARGETS)).repeat())
        if kind == "iterator"
        else None
    )
    feeds = {x: VECTORS, y: TARGETS, ids: np.arange(8)}

    def build(*arguments):
        if kind == "iterator":
            loss = loss_of(*batches.get_next())
        elif table is not None:
            loss = loss_of(
                tf.nn.embedding_lookup(table, arguments[0] if arguments else ids),
                arguments[1] if arguments else y,
            )
        else:
            loss = loss_of(*(arguments or (x, y)))
        if kind == "decayed_rate":
            return loss, tf.train.MomentumOptimizer(
                tf.train.exponential_decay(0.01, step, 10, 0.9), 0.9
            ).minimize(loss, step)
        return loss, (optimizer if kind == "optimizer" else tf.train.AdamOptimizer(0.01)).minimize(
            loss, None if kind == "none" else step
        )

    given = {"global_step_arguments": (x, y), "table_arguments": (ids, y)}.get(kind, ())
    return (*graphmp.mixed_precision(build)(*given), feeds)


def matmuls(graph):
    """The dtypes of the matmuls that train: those of the clones where there are any."""
    live = known_live_graph(graph)
    ops = [op for op in graph.get_operations() if op.type == "MatMul"]
    if live is not None and live.converted is not None:
        ops = [op for op in ops if op.name.startswith("graphmp/clones")]
    return {op.outputs[0].dtype for op in ops}


@pytest.mark.parametrize("kind", OUTSIDE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_used_from_outside_converts(graph, kind):
    loss, train, feeds = built(kind)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train], feeds)[0] for _ in range(4)]
        assert matmuls(graph) == {tf.float16}
        assert losses[-1] < losses[0]
        assert session.run(tf.train.get_global_step()) == (0 if kind == "none" else 4)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("given", [True, False])
def test_a_method_that_trains_its_objects_variable(graph, given):
    class Model:
        def __init__(self):
            self.weight = tf.get_variable("weight", [12, 12])
            self.step = tf.train.get_or_create_global_step()

        @graphmp.mixed_precision
        def build(self, *arguments):
            loss = loss_of(tf.matmul((arguments or (x, y))[0], self.weight), y)
            return loss, tf.train.AdamOptimizer(0.01).minimize(loss, self.step)

    x, y = vectors()
    loss, train = Model().build(*([x, y] if given else []))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([loss, train], {x: VECTORS, y: TARGETS})
    assert matmuls(graph) == {tf.float16}


def said(make, **options):
    """What is said while one step trains: `make(x, y)` gives a session and the loss."""
    x, y = vectors()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        open_session, loss = make(x, y, options)
        train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        with open_session() as session:
            session.run(tf.global_variables_initializer())
            session.run(train, {x: VECTORS, y: TARGETS})
    return [str(w.message) for w in caught if str(w.message).startswith("GMP1")]


def by_session(x, y, options):
    return (lambda: graphmp.Session(**options)), loss_of(x, y)


def by_decorator(x, y, options):
    return tf.Session, graphmp.mixed_precision(loss_of, **options)(x, y)


def by_recipe(x, y, options):
    return by_decorator(x, y, dict(options, engine="recipe"))


def logits_alone(x, y, options):
    predicted = tf.layers.dense(x, 1)
    return tf.Session, graphmp.mixed_precision(tf.losses.mean_squared_error, engine="recipe")(
        y, predicted
    )


def no_matmul(x, y, options):
    return (lambda: graphmp.Session(**options)), tf.reduce_mean(
        tf.square(x * tf.get_variable("w", [12]))
    )


@pytest.mark.parametrize("make", [by_session, by_decorator, by_recipe])
@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, []),
        ({"compute_dtype": "float32"}, []),
        (
            {"keep_float32": "."},
            [
                "GMP120: none of the 6 matmuls and convolutions computes in float16: user rule:"
                " --keep_float32=."
            ],
        ),
        (
            {"keep_float32": "nothing_matches"},
            ["GMP121: --keep_float32=nothing_matches matches no node"],
        ),
        (
            {"force_compute": "nothing_matches"},
            ["GMP121: --force_compute=nothing_matches matches no node"],
        ),
        (
            {"loss_scale": 128.0, "loss_scale_growth_interval": 5},
            ["GMP121: --loss_scale_growth_interval=5 changes nothing: the loss scale is fixed"],
        ),
    ],
    ids=["converts", "float32", "all_kept", "keep_typo", "force_typo", "fixed"],
)
def test_what_is_said(graph, make, options, expected):
    found = said(make, **options)
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(found, expected))


def test_a_recipe_around_no_matmul(graph):
    (line,) = said(logits_alone)
    assert line.startswith(
        "GMP120: none of the 3 matmuls and convolutions computes in float16: made outside the build"
        " function"
    )


def test_a_graph_without_matmuls(graph):
    assert said(no_matmul) == [
        "GMP120: nothing computes in float16: the graph has no matmul or convolution in float32"
    ]


def test_policy_lines(graph, tmp_path):
    path = tmp_path / "policy.txt"
    path.write_text("deny Matmul\nallow Conv2D\nallow MatMul\n-Nonsense\nkeep_float32 zzz\n")
    found = said(by_session, op_policy=str(path))
    assert [line.split("`")[1] for line in found] == [
        "keep_float32 zzz",
        "deny Matmul",
        "allow Conv2D",
        "-Nonsense",
    ]
    assert "there is no op of that name; the graph has MatMul" in found[1]
    assert "the graph has no Conv2D" in found[2]


def test_a_session_that_never_trains():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tf.Graph().as_default():
            x, y = vectors()
            loss = loss_of(x, y)
            with graphmp.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(loss, {x: VECTORS, y: TARGETS})
        del x, y, loss, session
        gc.collect()
    assert "GMP120: nothing computed in float16: no run trained" in " ".join(
        str(w.message) for w in caught
    )


def test_a_session_that_trains_by_its_own_gradients():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, (4, 4))
            weight = tf.get_variable("weight", (4, 4), initializer=tf.initializers.identity())
            step = weight.assign_sub(tf.matmul(x, tf.matmul(x, weight), True), name="step")
            with graphmp.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(step, {x: np.eye(4)})
        del x, weight, step, session
        gc.collect()
    said = " ".join(str(w.message) for w in caught)
    assert "GMP120: nothing computed in float16: step updates weight from MatMul_1, and" in said


@pytest.mark.unit
def test_a_report_says_it_too(graph):
    x, y = vectors()
    tf.train.AdamOptimizer(0.01).minimize(loss_of(x, y))
    report = graphmp.convert(graph, keep_float32=".", force_compute="zzz").report
    codes = [row["code"] for row in report["warnings"]]
    assert codes.count("GMP120") == codes.count("GMP121") == 1
    assert codes.count("GMP102") == 6


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize(
    "how, said", [("beside", True), ("grouped", False), ("apart", False), ("counted", False)]
)
def test_a_count_of_steps_beside_the_training_op(graph, how, said, resource):
    with tf.variable_scope("", use_resource=resource):
        step = tf.train.get_or_create_global_step()
        x, y = vectors()
        train = tf.train.AdamOptimizer(0.01).minimize(loss_of(x, y))
    count = tf.assign_add(step, 1, name="count")
    if how == "grouped":
        train, count = tf.group(train, count), tf.no_op()
    fetches = [train] if how == "apart" else [train, count]
    with graphmp.Session(count_skipped_steps=how == "counted") as session:
        session.run(tf.global_variables_initializer())
        session.run(fetches, {x: VECTORS, y: TARGETS})
    found = [row for row in known_live_graph(graph).converted.warnings if row["code"] == "GMP112"]
    assert len(found) == said
