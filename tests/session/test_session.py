"""`graphmp.Session`.

The graph converts beside itself at the first run that trains, and what is fetched is its clone's.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.errors import GraphmpError
from tests.support.models import LIKE_OTHERS, MODELS, batch_for
from tests.support.training import load, run_steps, undecorated

RNG = np.random.RandomState(0)
X = RNG.randn(16, 8).astype(np.float32)
Y = X[:, :1] * 2
FEED = {"x:0": X, "y:0": Y}


@pytest.fixture
def graph():
    """A graph of the test's own, with a small regression in it."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(3)
        x, y = (
            tf.placeholder(tf.float32, [None, 8], "x"),
            tf.placeholder(tf.float32, [None, 1], "y"),
        )
        hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("w", [8, 16])), name="hidden")
        loss = tf.reduce_mean(
            tf.square(tf.matmul(hidden, tf.get_variable("v", [16, 1])) - y), name="loss"
        )
        tf.train.AdamOptimizer(0.01).minimize(
            loss, tf.train.get_or_create_global_step(), name="train"
        )
        tf.global_variables_initializer()
        yield graph


def trained(session, steps=5):
    """The losses of some steps."""
    session.run("init")
    return [session.run(["loss:0", "train"], FEED)[0] for _ in range(steps)]


def half_matmuls(graph):
    return {
        op.name
        for op in graph.get_operations()
        if op.type == "MatMul" and op.inputs[0].dtype == tf.float16
    }


def test_trains_alike_and_in_half_precision(graph):
    with tf.Session() as session:
        expected = trained(session)
    assert not half_matmuls(graph)
    with graphmp.Session() as session:
        assert trained(session) == pytest.approx(expected, rel=1e-2)
        assert session.run("global_step:0") == 5
    assert len(half_matmuls(graph)) == 6


def test_nothing_changes_before_a_run_that_trains(graph):
    with graphmp.Session() as session:
        session.run("init")
        before = len(graph.get_operations())
        for _ in range(3):
            session.run(["loss:0", "hidden:0"], FEED)
        assert len(graph.get_operations()) == before


def test_the_graph_may_grow_before_and_after(graph):
    with graphmp.Session() as session:
        session.run("init")
        more = tf.identity(graph.get_tensor_by_name("loss:0"))
        session.run([more, "train"], FEED)
        late = tf.square(graph.get_tensor_by_name("loss:0"))
        loss, squared = session.run(["loss:0", late], FEED)
        assert squared == pytest.approx(loss**2, rel=1e-2)


@pytest.mark.parametrize(
    "fetch", ["hidden:0", "loss:0", ["hidden:0"], {"a": ("hidden:0", "train")}, "train", []]
)
def test_structures_come_back_as_they_were(graph, fetch):
    with tf.Session() as session:
        trained(session, 1)
        expected = session.run(fetch, FEED)
    with graphmp.Session() as session:
        trained(session, 1)
        found = session.run(fetch, FEED)
    flat, other = (
        np.asarray(tf.nest.flatten(value)[0] if tf.nest.flatten(value) else 0)
        for value in (expected, found)
    )
    assert type(found) is type(expected)
    assert (flat.dtype, flat.shape) == (other.dtype, other.shape)


def test_sparse_fetches_and_feeds(graph):
    slices = tf.IndexedSlices(graph.get_tensor_by_name("hidden:0"), tf.constant([0]))
    sparse = tf.SparseTensor(
        [[0, 0]], tf.reshape(graph.get_tensor_by_name("hidden:0")[0, 0], [1]), [1, 1]
    )
    with graphmp.Session() as session:
        trained(session, 1)
        values = session.run([slices, sparse], FEED)
        assert [type(value).__name__ for value in values] == [
            "IndexedSlicesValue",
            "SparseTensorValue",
        ]
        assert values[0].values.dtype == values[1].values.dtype == np.float32


def test_any_tensor_can_be_fed(graph):
    with graphmp.Session() as session:
        trained(session, 1)
        hidden = np.ones([16, 16], np.float32)
        found = session.run("MatMul_1:0", {"hidden:0": hidden})
        assert found == pytest.approx(hidden @ session.run("v:0"), rel=1e-2, abs=1e-2)


def test_callables_and_partial_runs(graph):
    with graphmp.Session() as session:
        call = session.make_callable(["loss:0", "train"], ["x:0", "y:0"])
        session.run("init")
        first = call(X, Y)[0]
        assert [call(X, Y)[0] for _ in range(5)][-1] < first
        handle = session.partial_run_setup(["hidden:0", "loss:0"], ["x:0", "y:0"])
        assert session.partial_run(handle, "hidden:0", {"x:0": X}).dtype == np.float32
        assert session.partial_run(handle, "loss:0", {"y:0": Y}).dtype == np.float32


def test_run_metadata(graph):
    with graphmp.Session() as session:
        trained(session, 1)
        metadata = tf.RunMetadata()
        session.run(
            "loss:0",
            FEED,
            options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
            run_metadata=metadata,
        )
        names = {
            stats.node_name
            for device in metadata.step_stats.dev_stats
            for stats in device.node_stats
        }
        assert any("_graphmp_float16" in name for name in names)
        assert session.list_devices()


def test_original_loss_and_converted_train_op_in_one_run(graph):
    """Another session of the same graph runs the original.

    Here both are in one run, by way of a node that no clone depends on.
    """
    with graphmp.Session() as session:
        trained(session, 1)
        original = graph.get_operation_by_name("loss").outputs[0]
        late = tf.identity(original)
        first = session.run([late, "loss:0", "train"], FEED)
        assert first[0] == pytest.approx(first[1], rel=1e-2)


@pytest.mark.parametrize("scale", ["dynamic", 128.0])
def test_one_update_of_a_joint_step(scale):
    """Of a step that is skipped whole it waits for all gradients, which the error says."""
    with tf.Graph().as_default():
        feeds = [tf.placeholder(tf.float32, [16, 8], name) for name in ("x", "y")]
        weights = [tf.get_variable(name, [8, 8]) for name in ("w", "v")]
        losses = [tf.nn.l2_loss(tf.matmul(*pair)) for pair in zip(feeds, weights)]
        optimizer = tf.train.GradientDescentOptimizer(0.01)
        pairs = [optimizer.compute_gradients(*pair)[0] for pair in zip(losses, weights)]
        update = optimizer.apply_gradients(pairs).control_inputs[0]
        with graphmp.Session(loss_scale=scale) as session:
            session.run(tf.global_variables_initializer())
            if scale == "dynamic":
                with pytest.raises(
                    tf.errors.InvalidArgumentError, match="doesn't read y as it was"
                ):
                    session.run(update, {feeds[0]: X})
                with pytest.raises(tf.errors.InvalidArgumentError) as raised:
                    session.run(losses[1])
                assert "as it was built" not in str(raised.value)
            else:
                session.run(update, {feeds[0]: X})


def test_a_plain_session_of_the_same_graph_runs_the_original(graph):
    with graphmp.Session() as session:
        trained(session, 1)
        weights = session.run(["w:0", "v:0"])
    with tf.Session() as plain:
        plain.run("init")
        plain.run(
            ["w/Assign", "v/Assign"],
            {
                "w/Initializer/random_uniform:0": weights[0],
                "v/Initializer/random_uniform:0": weights[1],
            },
        )
        assert plain.run("hidden:0", FEED).dtype == np.float32


@pytest.mark.parametrize("late", [False, True])
def test_savers_carry_the_scale(graph, tmp_path, late):
    early = tf.train.Saver()
    with graphmp.Session() as session:
        trained(session, 3)
        path = (tf.train.Saver() if late else early).save(session, str(tmp_path / "model"))
    names = {name for name, _ in tf.train.list_variables(path)}
    assert names >= {
        "w",
        "w/Adam",
        "global_step",
        "graphmp/loss_scale/scale",
        "graphmp/loss_scale/good_steps",
    }
    with tf.Session() as plain:  # a mixed checkpoint goes on in float32
        early.restore(plain, path)
        assert plain.run("global_step:0") == 3
        assert np.isfinite(plain.run("loss:0", FEED))


def test_a_float32_checkpoint_goes_on_mixed(graph, tmp_path):
    saver = tf.train.Saver()
    with tf.Session() as plain:
        trained(plain, 3)
        path = saver.save(plain, str(tmp_path / "model"))
    with graphmp.Session() as session:
        saver.restore(session, path)
        session.run("train", FEED)
        saver.restore(session, path)  # through the clones now
        assert session.run("global_step:0") == 3
        assert session.run("graphmp/loss_scale/current:0") == 2.0**15


def test_a_checkpoint_named_in_bytes_is_read_before_the_conversion(graph, tmp_path):
    with tf.Session() as plain:
        trained(plain, 1)
        path = tf.train.Saver().save(plain, str(tmp_path / "model"))
    with graphmp.Session(graph=graph) as session:
        tf.train.Saver().restore(session, path.encode("utf-8"))
        session.run("train", FEED)
        assert session.run("global_step:0") == 2


def test_a_finalised_graph(graph):
    session_creator = tf.train.ChiefSessionCreator(scaffold=tf.train.Scaffold())
    assert session_creator
    graph.finalize()
    with graphmp.Session() as session:
        trained(session, 2)
    assert graph.finalized


def test_a_second_training_op_that_comes_late(graph):
    with graphmp.Session() as session:
        trained(session, 2)
        with tf.variable_scope("late"):
            loss = tf.reduce_mean(
                tf.square(
                    tf.layers.dense(graph.get_tensor_by_name("x:0"), 1)
                    - graph.get_tensor_by_name("y:0")
                )
            )
        train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        session.run(tf.variables_initializer(tf.global_variables("late")))
        before = len(half_matmuls(graph))
        first = session.run([loss, train], FEED)[0]
        assert [session.run([loss, train], FEED)[0] for _ in range(5)][-1] < first
        assert len(half_matmuls(graph)) > before
        assert session.run(["loss:0", "train"], FEED)[0] < 10


def test_nodes_that_come_late_read_the_clones(graph):
    """A late summary shows the very loss that is trained, also through a branch, a loop and a
    gradient.
    """
    with graphmp.Session() as session:
        trained(session, 2)
        loss, hidden = graph.get_tensor_by_name("loss:0"), graph.get_tensor_by_name("hidden:0")
        summary = tf.summary.scalar("late", loss)
        branch = tf.cond(loss > 0, lambda: loss * 2, lambda: loss)
        loop = tf.while_loop(lambda i, _: i < 3, lambda i, total: (i + 1, total + loss), [0, 0.0])[
            1
        ]
        slope = tf.gradients(tf.reduce_sum(hidden), graph.get_tensor_by_name("x:0"))[0]
        now, text, doubled, tripled, found, _ = session.run(
            [loss, summary, branch, loop, slope, hidden], FEED
        )
        assert tf.Summary.FromString(text).value[0].simple_value == now
        assert doubled == now * 2
        assert tripled == pytest.approx(now * 3, rel=1e-6)
        again = session.run([tf.identity(doubled), tf.square(branch), "train"], FEED)
        assert again[1] == pytest.approx(doubled**2, rel=1e-6)
    with tf.Session() as plain:
        plain.run("init")
        assert found.shape == X.shape and found.dtype == np.float32


@pytest.mark.parametrize("late", [False, True])
def test_the_loss_scale_is_among_the_summaries(graph, late):
    def merged():
        tf.summary.scalar("shown", graph.get_tensor_by_name("loss:0"))
        return tf.summary.merge_all()

    found = None if late else merged()
    with graphmp.Session() as session:
        session.run("init")
        if late:
            trained(session, 2)
        found = merged() if late else found
        graph.finalize()
        for text in (session.run([found, "train"], FEED)[0], session.run(found, FEED)):
            values = {value.tag: value.simple_value for value in tf.Summary.FromString(text).value}
            assert set(values) == {
                "shown",
                "graphmp/loss_scale",
                "graphmp/loss_scale/skipped_steps",
            }
            assert values["graphmp/loss_scale"] in (
                2.0**15,
                session.run("graphmp/loss_scale/current:0"),
            )


def test_late_variables_are_not_cloned(graph):
    with graphmp.Session() as session:
        trained(session, 2)
        average = tf.get_variable("average", [], initializer=tf.zeros_initializer())
        keep = tf.assign(average, graph.get_tensor_by_name("loss:0"))
        session.run(average.initializer)
        kept, loss = session.run([keep, "loss:0"], FEED)
        assert kept == loss == session.run(average)
        assert session.run([average, "train"], FEED)[0] == loss


def test_many_sessions_convert_a_graph_once(graph):
    for _ in range(3):
        with graphmp.Session() as session:
            trained(session, 2)
    assert len(half_matmuls(graph)) == 6


def test_an_interactive_session(graph):
    session = graphmp.InteractiveSession(loss_scale=128.0)
    try:
        graph.get_operation_by_name("init").run()
        for _ in range(3):
            graph.get_operation_by_name("train").run(FEED)
        assert graph.get_tensor_by_name("loss:0").eval(FEED) == session.run("loss:0", FEED)
        assert len(half_matmuls(graph)) == 6
    finally:
        session.close()


def test_other_options_for_the_same_graph_are_said_to_have_no_effect(graph):
    with graphmp.Session(loss_scale=128.0) as session:
        trained(session, 1)
    with pytest.warns(
        RuntimeWarning,
        match=(
            "^GMP124: clip_norm=5.0, loss_scale=64.0: no effect, for the graph has clip_norm=0.0,"
            " loss_scale=128.0"
        ),
    ):
        graphmp.Session(loss_scale=64.0, clip_norm=5.0).close()


def test_bad_options():
    with pytest.raises(GraphmpError, match="GMP002"):
        graphmp.Session(compute_dtype="int8")


NAMES = [
    pytest.param(name, marks=[pytest.mark.slow] if name in LIKE_OTHERS else [])
    for name in sorted(MODELS)
]


@pytest.mark.parametrize("name", NAMES)
def test_models_train_alike(name):
    """Both sessions are of one graph: what the first one runs is the original."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        fetches, feed = model(name)
        original = run_steps(graph, fetches, feed, 4, None)
        with graphmp.Session() as session:
            load(session, original.before)
            losses = [session.run(fetches, feed)[0] for _ in original.losses]
    np.testing.assert_allclose(losses, original.losses, rtol=1e-2)
    clones = [
        op
        for op in graph.get_operations()
        if op.name.startswith("graphmp/") and op.type == "MatMul"
    ]
    assert {op.inputs[0].dtype for op in clones} == (set() if name == "float64" else {tf.float16})


def model(name):
    """What a step of one of the MODELS fetches, and what it is fed."""
    loss, train_op, placeholders = MODELS[name](undecorated)
    return [loss, train_op], dict(zip(placeholders, batch_for(name)))
