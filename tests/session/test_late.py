"""What a program adds to its graph after the conversion: mapped to what is there, or converted."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp

X = np.random.RandomState(0).randn(8, 16).astype(np.float32)
FEED = {"x:0": X, "y:0": X[:, :1]}
OPTIONS = {"float16": {}, "bfloat16": {"compute_dtype": "bfloat16"}}


def net(x, reuse=None):
    tensor = x
    for number in range(3):
        with tf.variable_scope("layer%d" % number, reuse=reuse):
            weights = tf.get_variable("w", [16, 16])
            tensor = tf.nn.relu(tf.matmul(tensor, weights))
    with tf.variable_scope("last", reuse=reuse):
        return tf.matmul(tensor, tf.get_variable("w", [16, 1]))


@pytest.fixture(params=sorted(OPTIONS))
def session(request):
    """A session that has trained, in a graph of its own."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [None, 16], "x")
        y = tf.placeholder(tf.float32, [None, 1], "y")
        out = tf.identity(net(x), "out")
        loss = tf.reduce_mean(tf.square(out - y), name="loss")
        tf.summary.merge([tf.summary.scalar("shown", loss)], name="merged")
        rate = tf.Variable(1e-3, trainable=False, name="rate")
        tf.train.AdamOptimizer(rate).minimize(loss, name="train")
        with graphmp.Session(**OPTIONS[request.param]) as session:
            session.run(tf.global_variables_initializer())
            session.run("train", FEED)
            yield session


def get(session, name):
    return session.graph.get_tensor_by_name(name)


def size(session):
    return len(session.graph.get_operations())


def clones(session, make, run):
    """The number of nodes that the graph gains by a run of what is made before it."""
    made = make()
    before = size(session)
    run(made)
    return size(session) - before


def scales(path):
    return {name for name, _ in tf.train.list_variables(path) if name.startswith("graphmp/")}


def test_late_savers_add_only_their_own_nodes(session, tmp_path):
    dynamic = has_scale(session)
    found = []
    for number in range(4):
        path = str(tmp_path / ("model-%d" % number))
        found.append(
            clones(session, tf.train.Saver, lambda saver, path=path: saver.save(session, path))
        )
        assert len(scales(path)) == (3 if dynamic else 0)
    assert found[1:] == [0, 0, 0]
    assert bool(found[0]) == dynamic


def has_scale(session):
    return any(op.name.startswith("graphmp/loss_scale/") for op in session.graph.get_operations())


@pytest.mark.parametrize("options", [{}, {"sharded": True}, {"max_to_keep": 1}])
def test_a_late_saver_restores_what_another_saved(session, tmp_path, options):
    first, second = tf.train.Saver(**options), tf.train.Saver(**options)
    one = first.save(session, str(tmp_path / "one"))
    before = session.run("layer0/w:0")
    if has_scale(session):
        scale = session.run("graphmp/loss_scale/current:0")
        session.run(
            "graphmp/loss_scale/scale/Assign", {"graphmp/loss_scale/scale/initial_value:0": 2.0}
        )
    session.run("train", FEED)
    two = second.save(session, str(tmp_path / "two"))
    assert tf.train.load_variable(two, "layer0/w") == pytest.approx(session.run("layer0/w:0"))
    second.restore(session, one)
    np.testing.assert_array_equal(session.run("layer0/w:0"), before)
    if has_scale(session):
        assert session.run("graphmp/loss_scale/current:0") == scale


@pytest.mark.parametrize("early", [False, True])
def test_savers_of_one_run_have_paths_of_their_own(session, tmp_path, early):
    """Each runs the first's nodes, until they run at once; the first may run alone before."""
    savers = [tf.train.Saver().saver_def for _ in range(3)]
    paths = [str(tmp_path / ("model-%d" % number)) for number in range(3)]
    names = [saver.save_tensor_name for saver in savers]
    feeds = {saver.filename_tensor_name: path for saver, path in zip(savers, paths)}
    if early:
        for name, (fed, path) in zip(names, feeds.items()):
            session.run(name, {fed: path + "-alone"})
    expected = session.run("layer0/w:0")
    for _ in range(2):
        session.run(names, feeds)
        for path in paths:
            np.testing.assert_array_equal(tf.train.load_variable(path, "layer0/w"), expected)
            assert len(scales(path)) == (3 if has_scale(session) else 0)
    nodes = size(session)
    session.run([names[1], names[2]], feeds)
    assert size(session) == nodes


def test_a_late_saver_restores_a_float32_checkpoint(session, tmp_path):
    saver = tf.train.Saver()
    with tf.Session(graph=session.graph) as plain:
        plain.run([v.initializer for v in tf.global_variables()])
        path = saver.save(plain, str(tmp_path / "float32"))
        expected = plain.run("layer0/w:0")
    assert scales(path) == set()
    saver.restore(session, path)
    np.testing.assert_array_equal(session.run("layer0/w:0"), expected)
    if has_scale(session):
        assert session.run("graphmp/loss_scale/current:0") == 2.0**15
    session.run("train", FEED)


def test_a_late_saver_of_the_first_format_starts_the_scale_anew(session, tmp_path):
    """It doesn't save the scale, which is said once."""
    savers = [tf.train.Saver(write_version=tf.train.SaverDef.V1) for _ in range(2)]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        path = savers[0].save(session, str(tmp_path / "first"))
    assert sum("GMP126" in str(each.message) for each in found) == has_scale(session)
    session.run("train", FEED)
    savers[1].restore(session, path)
    if has_scale(session):
        assert session.run("graphmp/loss_scale/good_steps:0") == 0
        assert session.run("graphmp/loss_scale/current:0") == 2.0**15
    session.run("train", FEED)


def test_a_saver_of_other_variables_is_left_alone(session, tmp_path):
    """The scale belongs to the variables that are trained."""
    kept = clones(
        session,
        lambda: tf.train.Saver([v for v in tf.global_variables() if v.op.name == "rate"]),
        lambda saver: saver.save(session, str(tmp_path / "rate")),
    )
    assert kept == 0
    assert scales(str(tmp_path / "rate")) == set()


def test_a_saver_of_new_variables_too(session, tmp_path):
    tf.train.Saver().save(session, str(tmp_path / "before"))
    more = tf.get_variable("more", [2])
    session.run(more.initializer)
    path = tf.train.Saver().save(session, str(tmp_path / "after"))
    assert "more" in dict(tf.train.list_variables(path))
    assert scales(path) == scales(str(tmp_path / "before"))


def test_what_reads_and_evaluates_shows_the_clones_values(session):
    graph = session.graph
    loss, out, x = (get(session, name + ":0") for name in ("loss", "out", "x"))
    halves = half_matmuls(graph)
    summary = tf.summary.scalar("late", loss)
    accuracy = tf.reduce_mean(tf.cast(out > 0, tf.float32))
    slope = tf.gradients(out, x)[0]
    text, value, exact, outs, found = session.run([summary, loss, accuracy, out, slope], FEED)
    assert tf.Summary.FromString(text).value[0].simple_value == value
    assert exact == np.mean(outs > 0)
    assert found.shape == X.shape and np.isfinite(found).all()
    fed = tf.placeholder(tf.float32, [None, 16])
    again = session.run(net(fed, reuse=True), {fed: X})
    np.testing.assert_allclose(again, outs, rtol=0.05, atol=0.01)
    assert half_matmuls(graph) == halves


def half_matmuls(graph):
    return {
        op.name
        for op in graph.get_operations()
        if op.type == "MatMul" and op.inputs[0].dtype in (tf.float16, tf.bfloat16)
    }


def test_the_learning_rate_is_assigned_late(session):
    rate = next(v for v in tf.global_variables() if v.op.name == "rate")
    for number in range(3):
        assert clones(session, lambda n=number: tf.assign(rate, 0.1**n), session.run) == 0
        assert session.run(rate) == pytest.approx(0.1**number)


def test_a_saver_of_a_checkpoints_names_saves_the_scale_once(session, tmp_path):
    first = tf.train.Saver().save(session, str(tmp_path / "first"))
    names = [name for name, _ in tf.train.list_variables(first)]
    saver = tf.train.Saver({name: get(session, name + ":0") for name in names})
    session.run("train", FEED)
    path = saver.save(session, str(tmp_path / "all"))
    saved = tf.train.list_variables(path)
    assert saved == tf.train.list_variables(first)
    before = values(session, names)
    session.run("train", FEED)
    saver.restore(session, path)
    np.testing.assert_equal(values(session, names), before)


def values(session, names):
    return session.run([name + ":0" for name in names])


def test_the_graph_is_handed_out_as_it_was_built(session):
    session.run(["merged/merged:0", "train"], FEED)
    nodes = {
        "as_graph_def": session.graph.as_graph_def().node,
        "graph_def": session.graph_def.node,
        "meta": tf.train.export_meta_graph().graph_def.node,
        "without devices": tf.train.export_meta_graph(clear_devices=True).graph_def.node,
    }
    built = [op.name for op in session.graph.get_operations() if not op.name.startswith("graphmp/")]
    assert len(built) < size(session)
    for way, found in nodes.items():
        assert [node.name for node in found] == built, way


def test_a_saver_that_names_the_scale_keeps_only_that(session):
    if not has_scale(session):
        return
    tf.train.Saver({"scale": get(session, "graphmp/loss_scale/scale:0")})
    kept = [n.name for n in session.graph_def.node if n.name.startswith("graphmp/")]
    assert "graphmp/loss_scale/scale" in kept
    assert not [name for name in kept if name.startswith("graphmp/clones/")]
    with tf.Graph().as_default():
        tf.import_graph_def(session.graph_def, name="")


def test_a_node_that_reads_a_copy_keeps_what_that_needs(session):
    copy = next(
        o for o in session.graph.get_operations() if o.name.startswith("graphmp/clones/out")
    )
    tf.identity(copy.outputs[0], "reader")
    kept = session.graph_def
    assert copy.name in {node.name for node in kept.node}
    with tf.Graph().as_default():
        tf.import_graph_def(kept, name="")


def test_a_trace_has_the_names_of_the_graph(session):
    trace, options = tf.RunMetadata(), tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run("train", FEED, options=options, run_metadata=trace)
    nodes = [node for device in trace.step_stats.dev_stats for node in device.node_stats]
    traced = {node.node_name.partition(":")[0] for node in nodes}
    assert {"Square", "train/update_last/w/ApplyAdam"} <= traced, sorted(traced)
    assert not [n for n in nodes if "graphmp/clones" in n.node_name + n.timeline_label]


def test_a_print_prints_once(capfd):
    with tf.Graph().as_default():
        loss = tf.reduce_sum(tf.matmul(tf.get_variable("w", [4, 4]), tf.ones([4, 4])))
        loss = tf.Print(loss, [loss], "printed ")
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with graphmp.Session() as session:
            session.run(tf.global_variables_initializer())
            capfd.readouterr()
            session.run([loss, train])
            session.run([loss, train])
    assert capfd.readouterr().err.count("printed ") == 2


def test_a_graph_is_frozen_while_it_trains(session):
    frozen = tf.graph_util.convert_variables_to_constants(
        session, session.graph.as_graph_def(), ["out"]
    )
    assert not any(node.name.startswith("graphmp/") for node in frozen.node)
    with tf.Graph().as_default(), tf.Session() as plain:
        tf.import_graph_def(frozen, name="")
        np.testing.assert_allclose(
            plain.run("out:0", {"x:0": X}), session.run("out:0", FEED), rtol=0.05, atol=0.01
        )


def second_optimizer(session):
    loss = tf.reduce_mean(tf.abs(get(session, "out:0") - get(session, "y:0")))
    train = tf.train.MomentumOptimizer(1e-4, 0.9).minimize(loss)
    session.run(
        tf.variables_initializer([v for v in tf.global_variables() if "Momentum" in v.name])
    )
    return loss, train


def test_of_a_second_optimizer_only_what_is_new_is_converted(session):
    loss, train = second_optimizer(session)
    before = half_matmuls(session.graph)
    first = session.run([loss, train], FEED)[0]
    added = half_matmuls(session.graph) - before
    assert len(added) == 8  # two for each layer
    assert all("_grad/" in name for name in added)
    losses = [session.run([loss, train], FEED)[0] for _ in range(3)]
    assert losses[-1] < first
    assert np.isfinite(session.run(["loss:0", "train"], FEED)[0])


def test_late_values_and_savers_hold_after_a_second_optimizer(session, tmp_path):
    summary, loss = tf.summary.scalar("late", get(session, "loss:0")), get(session, "loss:0")
    saver = tf.train.Saver()
    saver.save(session, str(tmp_path / "one"))
    session.run(summary, FEED)
    _, train = second_optimizer(session)
    session.run(train, FEED)
    assert clones(session, lambda: summary, lambda made: session.run(made, FEED)) == 0
    text, value = session.run([summary, loss], FEED)
    assert tf.Summary.FromString(text).value[0].simple_value == value
    saver.save(session, str(tmp_path / "two"))
    new = scales(str(tmp_path / "two")) - scales(str(tmp_path / "one"))
    assert len(new) == (3 if has_scale(session) else 0)


@pytest.mark.slow
def test_a_second_optimizer_through_a_loop():
    """A loop is converted again as a whole: gradients keep more of it."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 3, 8], "x")
        outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(8), x, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(outputs - 0.5), name="loss")
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        feed = {x: X.reshape(4, 4, 8)[:, :3]}
        with graphmp.Session() as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, train], feed)[0] for _ in range(3)]
            other = tf.reduce_mean(tf.abs(outputs))
            late = tf.train.GradientDescentOptimizer(0.1).minimize(other)
            before = session.run(other, feed)
            for _ in range(3):
                session.run(late, feed)
            assert session.run(other, feed) < before
            assert session.run([loss, train], feed)[0] < losses[0] * 2


def test_a_saver_called_with_names(session, tmp_path):
    saver = tf.train.Saver()
    path = saver.save(sess=session, save_path=str(tmp_path / "model"))
    before = session.run("layer0/w:0")
    session.run(fetches="train", feed_dict=FEED)
    saver.restore(sess=session, save_path=path)
    np.testing.assert_array_equal(session.run(fetches="layer0/w:0"), before)
