"""Made-up values that are counted, of sparse tensors by use, and errors where none fits."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.feeds.contents import INTEGERS, DrawPlan
from graphmp.feeds.draw import draw
from graphmp.feeds.wanted import Wanted
from tests.support.made_up import BATCH, made_up, runs, variable


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def sparse_of(dtype, shape=True, indices=(None, None)):
    """A sparse tensor of placeholders whose names say nothing."""
    return tf.SparseTensor(
        tf.placeholder(tf.int64, indices, "a"),
        tf.placeholder(dtype, [None] if indices else None, "b"),
        tf.placeholder(tf.int64, [2], "c") if shape else tf.constant([BATCH, 3], tf.int64),
    )


def of_a_dataset():
    rows = tf.data.Dataset.from_tensor_slices(tf.SparseTensor([[0, 1]], [1.0], [2, 7]))
    return tf.data.make_one_shot_iterator(rows.batch(2)).get_next()


def of_a_queue():
    return tf.train.batch([tf.SparseTensor([[1]], [1.0], [7])], BATCH)


class TestSparse:
    @pytest.mark.parametrize("indices", [(None, None), (None, 2), None], ids=str)
    def test_labels_of_a_ctc_loss(self, graph, indices):
        logits = tf.placeholder(tf.float32, [None, None, 6], "logits")
        lengths = tf.placeholder(tf.int32, [None], "lengths")
        loss = tf.nn.ctc_loss(
            sparse_of(tf.int32, indices=indices), logits, lengths, time_major=False
        )
        batch = runs(graph, loss)
        assert batch["a:0"].shape == (BATCH, 2) and batch["b:0"].shape == (BATCH,)
        assert "c:0" not in batch and batch["b:0"].max() < 5

    def test_as_many_as_the_logits_of_a_ctc_loss(self, graph):
        logits = tf.placeholder(tf.float32, [None, 3, 6], "logits")
        lengths = tf.fill([3], tf.shape(logits)[0])
        assert runs(graph, tf.nn.ctc_loss(sparse_of(tf.int32), logits, lengths))[
            "a:0"
        ].tolist() == [[0, 0], [1, 1], [2, 2]]

    def test_a_matrix_that_is_multiplied(self, graph):
        product = tf.sparse_tensor_dense_matmul(sparse_of(tf.float32), tf.ones([7, 2]))
        batch = runs(graph, product)
        assert list(batch["c:0"]) == [BATCH, 7] and batch["b:0"].shape == (BATCH,)

    @pytest.mark.parametrize("brought", [of_a_dataset, of_a_queue])
    def test_a_batch_that_the_graph_reads(self, graph, brought):
        product = tf.sparse_tensor_dense_matmul(brought(), tf.ones([7, 2]))
        batch = runs(graph, product)
        indices, values, shape = (batch[name] for name in sorted(batch))
        assert list(shape) == [BATCH, 7] and values.shape == (BATCH,)
        assert indices.shape == (BATCH, 2)

    def test_a_matrix_that_is_made_dense(self, graph):
        dense = tf.sparse.to_dense(sparse_of(tf.float32))
        assert list(runs(graph, tf.matmul(dense, tf.ones([7, 2])))["c:0"]) == [BATCH, 7]

    def test_a_shape_that_is_a_constant(self, graph):
        assert len(runs(graph, tf.sparse.to_dense(sparse_of(tf.float32, False)))["b:0"]) == BATCH


class TestCounts:
    def picked(self, rows, lengths):
        """The last step of each row: an error if there is none."""
        steps = tf.reshape(rows, [-1, 3])
        return tf.gather(steps, tf.range(tf.shape(rows)[0]) * 5 + lengths - 1)

    @pytest.mark.parametrize("dtype", [tf.float64, tf.int32], ids=str)
    def test_a_mask_is_added_up_to_lengths(self, graph, dtype):
        mask = tf.placeholder(dtype, [None, 5], "mask")
        rows = tf.placeholder(tf.float32, [None, 5, 3], "rows")
        last = self.picked(rows, tf.cast(tf.reduce_sum(mask, 1), tf.int32))
        assert runs(graph, last)["mask:0"].tolist() == [[1] * 5] * BATCH

    @pytest.mark.unit
    def test_what_is_added_up_to_a_float_is_no_mask(self, graph):
        x = tf.placeholder(tf.float32, [None, 5], "x")
        assert len(set(made_up(graph, tf.reduce_sum(x, 1))["x:0"].ravel())) > 2

    @pytest.mark.parametrize(
        "told",
        [
            lambda ids: tf.cast(tf.not_equal(ids, 0), tf.int32),
            lambda ids: 1 - tf.cast(tf.equal(ids, 0), tf.int32),
            lambda ids: tf.cast(ids > 0, tf.int32),
            tf.sign,
        ],
        ids=["not equal", "equal", "greater", "sign"],
    )
    def test_the_first_row_has_no_padding(self, graph, told):
        """The logits have a step for each of the longest row, as a decoder's."""
        ids = tf.placeholder(tf.int32, [None, 6], "ids")
        longest = tf.reduce_max(tf.reduce_sum(told(ids), 1))
        rows = tf.nn.embedding_lookup(variable([3, 4]), ids)[:, :longest]
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(ids, [-1]), logits=tf.reshape(rows, [-1, 4])
        )
        batch = runs(graph, loss)["ids:0"]
        assert batch[0].min() > 0 and batch.min() == 0

    @pytest.mark.unit
    def test_a_range_of_padding_alone(self):
        plan = DrawPlan(Wanted("x:0", tf.int32, (2, 2)), [2, 2], INTEGERS, 0, 1, avoided=(0,))
        assert draw(plan, 0, 0).tolist() == [[0, 0], [0, 0]]

    def test_numbers_of_segments_count_up(self, graph):
        at = tf.placeholder(tf.int64, [None, 2], "at")
        ids = tf.placeholder(tf.int64, [None], "ids")
        rows = tf.nn.embedding_lookup(variable([50, 3]), ids)
        batch = runs(graph, tf.segment_mean(rows, at[:, 0]))
        assert batch["at:0"].tolist() == [[row, row] for row in range(BATCH)]

    def test_sequences_that_were_pooled(self, graph):
        x = tf.placeholder(tf.float32, [None, None, 6], "x")
        lengths = tf.placeholder(tf.int32, [None], "lengths")
        pooled = tf.transpose(tf.layers.max_pooling1d(x, 4, 4), [1, 0, 2])
        loss = tf.nn.ctc_loss(sparse_of(tf.int32), pooled, lengths)
        assert list(runs(graph, loss)["lengths:0"]) == [4] * BATCH


class TestErrors:
    def test_say_what_to_give(self, graph):
        fed = [tf.placeholder(tf.float32, [None, n], "x%d" % n) for n in range(8)]
        with pytest.raises(GraphmpError) as raised:
            runs(graph, *fed, tf.ones([2, 3]) @ tf.concat([fed[2], fed[2]], 0))
        assert "; give x0:0 (float32 [?, 0]), x1:0 (float32 [?, 1])," in raised.value.message
        assert raised.value.message.endswith("x5:0 (float32 [?, 5]), ... with --data")

    def test_of_a_graph_that_runs_with_nothing(self, graph):
        """Two loops have one frame, as where a loop was built twice under one name."""
        x = tf.placeholder(tf.float32, [None, 2], "x")
        loops = [tf.while_loop(lambda x: tf.reduce_sum(x) < 0, lambda x: x + 1, [x]) for _ in "12"]
        graph_def = graph.as_graph_def()
        for node in graph_def.node:
            if node.op == "Enter":
                node.attr["frame_name"].s = b"frame"
        with tf.Graph().as_default() as other:
            tf.import_graph_def(graph_def, name="")
            last = [other.get_tensor_by_name(loop.name) for loop in loops]
            with pytest.raises(GraphmpError) as raised:
                runs(other, *last)
        message = raised.value.message
        assert message.startswith("TensorFlow can't run the graph, whatever is fed: Invalid")
        assert "LoopCond" in message and "--data" not in message


@pytest.mark.unit
def test_rows_are_counted_along_the_first_axis(graph):
    assert np.array_equal(
        made_up(graph, tf.segment_sum(tf.ones([4, 1]), tf.placeholder(tf.int32, [4], "n")))["n:0"],
        range(4),
    )
