"""Initial values, by few runs and in little memory."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.session.steps.initialising import initialise

SIZES = (64, 16, 16, 16, 32, 24)


@pytest.fixture
def session():
    """Of a graph whose last variable starts from the first one's value."""
    with tf.Graph().as_default() as graph:
        made = [tf.get_variable("v%d" % number, [size]) for number, size in enumerate(SIZES)]
        tf.get_variable("last", initializer=made[0].initialized_value()[:8] + 1.0)
        with tf.Session(graph=graph) as opened:
            yield opened


@pytest.fixture
def runs(session, monkeypatch):
    """The sizes of each run's initialisers; runs of more than one can be made to fail."""
    found, run = [], session.run

    def watched(ops, *more):
        given = ops if isinstance(ops, list) else [ops]
        found.append([int(op.inputs[1].shape[0]) for op in given])
        if watched.short and len(given) > 1:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM")
        if watched.short and sum(found[-1]) > watched.short:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM")
        return run(ops, *more)

    watched.short = 0
    monkeypatch.setattr(session, "run", watched)
    yield found, watched


def values(session):
    with session.graph.as_default():
        return dict(zip(*[(v.op.name for v in tf.global_variables()), tf.global_variables()]))


@pytest.mark.parametrize("sparing", [False, True])
def test_every_variable_has_its_value(session, runs, sparing):
    found, _ = runs
    initialise(session, [], sparing)
    many = [run for run in found if len(run) > 1]
    most = max(SIZES) if sparing else sum(SIZES)
    assert len(many) == (2 if sparing else 1) and all(sum(run) <= most for run in many)
    assert len(found) == (4 if sparing else 2)
    named = values(session)
    first, last = tf.Session.run(session, [named["v0"], named["last"]])
    np.testing.assert_array_equal(last, first[:8] + 1)


def test_where_a_group_finds_no_memory_each_runs_alone(session, runs):
    found, run = runs
    run.short = max(SIZES)
    initialise(session, [], sparing=True)
    assert sorted(sum(sizes) for sizes in found if len(sizes) == 1) == sorted([*SIZES, 8])


def test_a_variable_without_memory_is_an_error(session, runs):
    runs[1].short = 50
    with pytest.raises(tf.errors.ResourceExhaustedError):
        initialise(session, [], sparing=True)


def test_tables_of_a_graph_without_collections():
    with tf.Graph().as_default() as graph:
        words = tf.constant(["a", "b"])
        table = tf.lookup.StaticVocabularyTable(
            tf.lookup.KeyValueTensorInitializer(words, tf.constant([0, 1], tf.int64)), 1
        )
        found = table.lookup(words).name
    with tf.Graph().as_default() as bare, tf.Session() as opened:
        tf.import_graph_def(graph.as_graph_def(), name="")
        assert not bare.collections
        initialise(opened, [])
        assert opened.run(found).tolist() == [0, 1]


def test_a_tensor_among_the_variables(session):
    with session.graph.as_default():
        tf.add_to_collection(tf.GraphKeys.LOCAL_VARIABLES, tf.placeholder(tf.bool, [], "phase"))
        initialise(session, [])
        assert not session.run(tf.report_uninitialized_variables(tf.global_variables())).size


@pytest.mark.parametrize("shape", [[6, 3], None], ids=["of its shape", "without a shape"])
@pytest.mark.parametrize("use_resource", [False, True])
def test_initial_values_that_a_script_feeds_are_made_up(shape, use_resource):
    """Such as an embedding's; always the same, and what starts from them follows."""

    def begun():
        with tf.Graph().as_default() as graph, tf.variable_scope("", use_resource=use_resource):
            given = tf.placeholder(tf.float32, shape, "given")
            first = tf.get_variable("first", [6, 3], initializer=tf.zeros_initializer())
            table = tf.Variable(tf.reshape(given, [6, 3]), name="table", use_resource=use_resource)
            last = tf.get_variable("last", initializer=table.read_value() * 2.0)
            with tf.Session(graph=graph) as session:
                assert initialise(session, []) == ["given:0"]
                return session.run([first, table, last])

    first, table, last = begun()
    np.testing.assert_array_equal(last, 2 * table)
    np.testing.assert_array_equal(begun()[1], table)
    assert not first.any() and 0 < np.abs(table).max() < 1


def test_an_initial_value_of_an_unknown_size_stays_out():
    with tf.Graph().as_default() as graph:
        tf.Variable(tf.placeholder(tf.float32, [None, 3]), validate_shape=False)
        with tf.Session(graph=graph) as session:
            assert initialise(session, []) == []
