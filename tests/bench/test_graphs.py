"""The graphs of a bench and their batches."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.bench import graphs
from graphmp.bench.bench import FLOAT32, GRAPHMP, TENSORFLOW, Input
from graphmp.bench.processes import feeds, pipeline
from graphmp.bench.processes.timed_session import TimedSession
from graphmp.bench.render import text
from tests.support.benched import TF1, a_bench
from tests.support.classifiers import classifier


@pytest.fixture
def original(tmp_path):
    """Makes a session of a graph's original."""
    opened = []

    def make(meta_graph, **options):
        found = graphmp.convert(meta_graph, **options)
        opened.append(TimedSession(graphs.make(found, tmp_path).trainings[FLOAT32]))
        return opened[-1]

    yield make
    for session in opened:
        session.close()


@pytest.mark.unit
@pytest.mark.parametrize(
    "device, expected",
    [
        ("", ""), ("/job:ps/replica:0/task:1/device:CPU:0", "/device:CPU:0"), ("/gpu:3", "/device:GPU:3"), ("/job:worker/task:2", ""),
        ("/device:GPU:1", "/device:GPU:1"), ("/job:w/device:TPU:0", ""),
    ],
)  # fmt: skip
def test_devices_of_this_machine(device, expected):
    assert graphs.local_device(device) == expected


@pytest.mark.unit
def test_all_variants_train_the_same_updates(conversion, tmp_path):
    found = graphs.make(conversion, tmp_path)
    ours = set(found.trainings[GRAPHMP].targets)
    assert ours - set(found.trainings[FLOAT32].targets) == {"graphmp/loss_scale/update/step"}
    if TF1:
        assert "1.15" in found.missing[TENSORFLOW] and TENSORFLOW not in found.trainings
    else:
        assert (
            found.missing == {TENSORFLOW: ""}
            and found.trainings[TENSORFLOW].targets == found.trainings[FLOAT32].targets
        )


@pytest.mark.unit
@pytest.mark.skipif(
    TF1, reason="TensorFlow's own pass can be called ahead of time on TensorFlow 2 only"
)
def test_a_pass_that_fails_is_named(conversion, tmp_path, monkeypatch):
    monkeypatch.setattr(graphs.grappler, "convert", lambda *_: 1 / 0)
    assert graphs.make(conversion, tmp_path).missing == {
        TENSORFLOW: "its pass fails: ZeroDivisionError: division by zero"
    }


@pytest.mark.unit
@pytest.mark.skipif(
    TF1, reason="TensorFlow's own pass can be called ahead of time on TensorFlow 2 only"
)
def test_a_pass_that_converts_nothing_is_not_timed(conversion, tmp_path, monkeypatch):
    monkeypatch.setattr(graphs.grappler, "convert", lambda original, _: original)
    found = graphs.make(conversion, tmp_path)
    assert TENSORFLOW not in found.trainings
    assert found.missing[TENSORFLOW].startswith("its pass converted nothing; to bfloat16")


@pytest.mark.unit
def test_gradients_that_are_fed_back_are_computed(tmp_path):
    with tf.Graph().as_default():
        w = tf.get_variable("w", [8, 4])
        x, fed = tf.placeholder(tf.float32, [2, 8], "x"), tf.placeholder(tf.float32, [8, 4], "fed")
        (gradient,) = tf.gradients(tf.reduce_sum(tf.square(tf.matmul(x, w))), [w])
        tf.train.GradientDescentOptimizer(0.1).apply_gradients([(fed, w)])
        found = graphmp.convert(tf.train.export_meta_graph())
    targets = graphs.make(found, tmp_path).trainings[FLOAT32].targets
    assert gradient.op.name in targets and len(targets) == 2


def test_a_graph_with_contradicted_shapes_is_imported(original):
    meta_graph = classifier(batch=4)
    (node,) = [node for node in meta_graph.graph_def.node if node.name == "MatMul"]
    shape = node.attr["_output_shapes"].list.shape.add()
    shape.dim.add(size=3), shape.dim.add(size=16)
    session = original(meta_graph)
    assert session.graph.get_tensor_by_name("MatMul:0").shape.as_list() == [4, 16]


def made(session, tmp_path, data="", sizes=(4, 8)):
    return feeds.make(session, data, sizes, 0, tmp_path)


def test_batches_of_each_size(original, tmp_path):
    found = made(original(classifier()), tmp_path)
    assert [(each.asked, each.batch_size, each.seconds) for each in found] == [
        (4, 4, None),
        (8, 8, None),
    ]
    first, second = feeds.read(found[1].path)[:2]
    assert {name: value.shape for name, value in first.items()} == {"x:0": (8, 8), "labels:0": (8,)}
    assert not np.array_equal(first["x:0"], second["x:0"])


def test_a_graph_with_a_batch_size_of_its_own(original, tmp_path):
    assert [each.batch_size for each in made(original(classifier(batch=5)), tmp_path)] == [5]


def test_a_graph_that_insists_on_a_batch_size(original, tmp_path):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 8], "x")
        w = tf.get_variable("w", [8, 4])
        loss = tf.reduce_sum(tf.reshape(tf.matmul(x, w), [6, 4]) ** 2)
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        session = original(tf.train.export_meta_graph())
    assert [(each.asked, each.batch_size) for each in made(session, tmp_path)] == [(4, 6)]


def test_a_graph_that_is_fed_nothing(original, tmp_path):
    with tf.Graph().as_default():
        w = tf.get_variable("w", [8, 4])
        tf.train.GradientDescentOptimizer(0.1).minimize(
            tf.reduce_sum(tf.matmul(tf.ones([2, 8]), w) ** 2)
        )
        session = original(tf.train.export_meta_graph())
    assert [each.batch_size for each in made(session, tmp_path)] == [None]


def test_batches_of_data(original, tmp_path):
    session = original(classifier())
    np.savez(
        str(tmp_path / "data.npz"), x=np.ones((100, 8), np.float32), labels=np.zeros(100, np.int32)
    )
    assert [each.batch_size for each in made(session, tmp_path, str(tmp_path / "data.npz"))] == [
        4,
        8,
    ]
    (tmp_path / "given.py").write_text(
        "import time\nimport numpy as np\ndef batch(step):\n    time.sleep(0.02)\n    return {'x':"
        " np.ones((6, 8)), 'labels': np.zeros(6, int)}\n"
    )
    (given,) = made(session, tmp_path, "%s:batch" % (tmp_path / "given.py"))
    assert given.batch_size == 6 and given.seconds >= 0.02


def test_a_guess_without_memory_is_right(original, tmp_path, monkeypatch):
    session = original(classifier())

    def exhausted(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(session.session, "run", exhausted)
    assert [each.batch_size for each in made(session, tmp_path)] == [4, 8]


def with_iterator(dataset):
    """A training graph that reads a dataset."""
    with tf.Graph().as_default():
        iterator = tf.data.make_initializable_iterator(dataset())
        loss = tf.reduce_sum(tf.matmul(iterator.get_next(), tf.get_variable("w", [8, 4])) ** 2)
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.train.export_meta_graph()


def test_waiting_for_the_graphs_own_pipeline_is_measured(original, tmp_path):
    session = original(
        with_iterator(lambda: tf.data.Dataset.from_tensors(np.ones((5, 8), np.float32)).repeat())
    )
    (each,) = made(session, tmp_path)
    found = pipeline.measure(session, feeds.read(each.path)[0])
    assert found.message == "" and 0 <= found.waiting < 1
    assert (
        pipeline.measure(original(classifier()), {"x:0": np.ones((4, 8)), "labels:0": np.zeros(4)})
        == Input()
    )


def test_a_pipeline_that_ends_is_a_message(original, tmp_path):
    session = original(
        with_iterator(lambda: tf.data.Dataset.from_tensors(np.ones((5, 8), np.float32)))
    )
    found = pipeline.measure(session, feeds.read(made(session, tmp_path)[0].path)[0])
    assert found.waiting is None and "End of sequence" in found.message
    assert "the graph's own pipeline wasn't timed" in text.input_line(a_bench(input=found))
