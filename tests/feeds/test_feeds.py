"""Batches for a training graph: where data enters, data that is given, and data that is made up."""

from __future__ import annotations

import os
import re
import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.errors import GraphmpError
from graphmp.feeds.attempts import first_that_runs, random_attempts, shape_attempts
from graphmp.feeds.batches import from_function, from_npz, random_batches
from graphmp.feeds.shapes import Guess
from graphmp.feeds.sources import SOURCES, sources
from graphmp.feeds.wanted import Wanted, wanted_tensors
from graphmp.gate.reading import read_graph
from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import UPDATE_PREFIXES
from graphmp.time_limit import limited_runs
from tests.support.corpus import corpus_graphs, own_graphs
from tests.support.made_up import BATCH, made_up, names, runs, variable, view_of


class TestSources:
    @pytest.mark.unit
    def test_stop_where_a_queue_is_read(self, graph):
        queue = tf.FIFOQueue(10, tf.float32, [[3]])
        queue.enqueue(tf.placeholder(tf.float32, [3], "filled"))
        x = queue.dequeue_many(5, name="taken")
        y = x * tf.placeholder(tf.float32, [], "rate") + tf.placeholder_with_default(
            1.0, [], "default"
        )
        tf.placeholder(tf.float32, [], "unused")
        assert sources(view_of(graph), names([y])) == ["taken", "rate"]

    @pytest.mark.unit
    def test_control_inputs_count(self, graph):
        with tf.control_dependencies([tf.placeholder(tf.float32, [], "first")]):
            y = tf.constant(1.0) + 1.0
        assert sources(view_of(graph), names([y])) == ["first"]

    @pytest.mark.unit
    def test_datasets_and_python_functions(self, graph):
        data = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensors((1.0, 2))).get_next()
        y = data[0] + tf.py_func(lambda: np.float32(1), [], tf.float32, name="python")
        assert [view_of(graph).nodes[name].op for name in sources(view_of(graph), names([y]))] == [
            "IteratorGetNext",
            "PyFunc",
        ]

    @pytest.mark.unit
    def test_staged_values(self, graph):
        area = tf.raw_ops.Unstage(dtypes=[tf.float32], name="staged")
        y = area[0] + 1.0
        assert sources(view_of(graph), names([y])) == ["staged"]

    @pytest.mark.unit
    @pytest.mark.parametrize("op", sorted(SOURCES))
    def test_each_has_its_reason(self, op):
        assert SOURCES[op]

    @pytest.mark.unit
    def test_only_outputs_that_are_read_are_wanted(self, graph):
        queue = tf.FIFOQueue(10, [tf.float32, tf.int32, tf.string], [[3], [], []])
        taken = queue.dequeue_many(5, name="taken")
        y = tf.cast(taken[1], tf.float32) * 2.0
        assert wanted_tensors(graph, view_of(graph), names([y])) == [
            Wanted("taken:1", tf.int32, (5,), SOURCES["QueueDequeueManyV2"])
        ]

    @pytest.mark.unit
    def test_a_queue_says_what_its_elements_are(self, graph):
        queue = tf.FIFOQueue(10, [tf.float32], [[3]])
        y = queue.dequeue_up_to(5, name="taken") * 2.0
        bare = GraphView(graph.as_graph_def())
        (wanted,) = wanted_tensors(graph, bare, names([y]))
        assert wanted[:3] == ("taken:0", tf.float32, (None, 3))
        assert wanted.asked == (
            "taken:0 (float32 [?, 3]), an element of a queue that threads of the script fill"
        )

    @pytest.mark.unit
    def test_resources_cannot_be_fed(self, graph):
        handle = tf.placeholder(tf.resource, [], "handle")
        with pytest.raises(GraphmpError, match="GMP002: handle:0 is a resource"):
            wanted_tensors(graph, view_of(graph), names([handle]))


X = Wanted("in/x:0", tf.float32, (None, 3))
LABELS = Wanted("labels:0", tf.int32, (None,))
RATE = Wanted("rate:0", tf.float32, ())


class TestArrays:
    def write(self, folder, **arrays):
        path = str(folder / "data.npz")
        np.savez(path, **arrays)
        return path

    def read(self, folder, wanted, batch_size=2, **arrays):
        return from_npz(self.write(folder, **arrays), wanted, batch_size)

    @pytest.mark.unit
    def test_rows_are_cut_into_batches_and_begin_anew(self, tmp_path):
        rows = np.arange(15.0).reshape(5, 3)
        batches = self.read(
            tmp_path, [X, LABELS, RATE], **{"in/x": rows, "labels:0": np.arange(5), "rate": 0.5}
        )
        assert np.array_equal(batches(1)["in/x:0"], rows[2:4])
        assert np.array_equal(batches(2)["in/x:0"], rows[[4, 0]])
        assert list(batches(2)["labels:0"]) == [4, 0]
        assert {value.dtype.name for value in batches(0).values()} == {"float32", "int32"}
        assert batches(7)["rate:0"] == np.float32(0.5)

    @pytest.mark.unit
    def test_an_axis_more_is_a_batch_a_step(self, tmp_path):
        steps = np.arange(24).reshape(4, 2, 3)
        batches = self.read(tmp_path, [X, RATE], **{"in/x": steps, "rate": np.arange(4.0)})
        assert np.array_equal(batches(5)["in/x:0"], steps[1])
        assert batches(5)["rate:0"] == 1

    @pytest.mark.unit
    def test_a_static_shape_decides(self, tmp_path):
        fixed, whole = Wanted("fixed:0", tf.float32, (3, 2)), Wanted("whole:0", tf.float32, (4, 2))
        batches = self.read(
            tmp_path, [fixed, whole], fixed=np.arange(14).reshape(7, 2), whole=np.ones([4, 2])
        )
        assert list(batches(2)["fixed:0"][:, 0]) == [12, 0, 2]
        assert batches(9)["whole:0"].shape == (4, 2)

    @pytest.mark.unit
    def test_strings(self, tmp_path):
        batches = self.read(tmp_path, [Wanted("s:0", tf.string, (None,))], s=np.array(["a", "bc"]))
        assert list(batches(0)["s:0"]) == ["a", "bc"]

    @pytest.mark.unit
    @given(
        rows=st.integers(1, 9), size=st.integers(1, 5), step=st.integers(0, 20), known=st.booleans()
    )
    @settings(max_examples=30)
    def test_every_row_has_its_turn(self, tmp_path_factory, rows, size, step, known):
        tensor = Wanted("x:0", tf.int64, (size if known else None,))
        if known and rows == size:
            step = 0  # then it is fed whole
        batch = self.read(tmp_path_factory.mktemp("rows"), [tensor], size, x=np.arange(rows))(step)[
            "x:0"
        ]
        assert [int(number) for number in batch] == [(step * size + i) % rows for i in range(size)]

    @pytest.mark.unit
    @pytest.mark.parametrize(
        "arrays, message",
        [
            (
                {"x": np.ones([2, 3])},
                (
                    r"nothing for in/x:0 \(float32 \[\?, 3\]\), labels:0 \(int32 \[\?\]\); found"
                    r" are x$"
                ),
            ),
            (
                {"in/x": np.ones([9, 4]), "labels": np.ones([9], int)},
                (
                    r"in/x:0 .*: found float64 \[9, 4\]; accepted are \[examples, 3\], cut into"
                    r" batches of 2, and \[steps, \?, 3\], a batch a step$"
                ),
            ),
            (
                {"in/x": np.ones([9, 3]), "labels": np.ones([9])},
                r"labels:0 .*: found float64 \[9\]; accepted are integers$",
            ),
            (
                {"in/x": np.ones([9, 3]), "labels": np.array([2**40])},
                r"labels:0 .*: found int64 from 1099511627776 .*; accepted are -2147483648 to",
            ),
            (
                {"in/x": np.array(["a"]), "labels": np.ones([9], int)},
                r"in/x:0 .*: found <U1 \[1\]; accepted are numbers$",
            ),
            (
                {"in/x": np.ones([0, 3]), "labels": np.ones([9], int)},
                r"in/x:0 .*: found float64 \[0, 3\]",
            ),
            (
                {"in/x": np.ones([9, 3]), "in/x:0": np.ones([9, 3]), "labels": np.ones([9], int)},
                r"in/x and in/x:0 are the same tensor",
            ),
        ],
    )
    def test_what_does_not_fit_is_said(self, tmp_path, arrays, message):
        with pytest.raises(GraphmpError, match="GMP002: --data=.*data.npz: " + message) as raised:
            self.read(tmp_path, [X, LABELS], **arrays)
        assert raised.value.exit_status == 2

    @pytest.mark.unit
    def test_files_that_are_none(self, tmp_path):
        (tmp_path / "text.npz").write_text("text")
        np.save(str(tmp_path / "one.npy"), np.ones(3))
        np.savez(str(tmp_path / "objects.npz"), x=np.array([{}]))
        for name in ("missing.npz", "text.npz", "one.npy", "objects.npz"):
            with pytest.raises(
                GraphmpError, match="GMP003: --data=.*%s: cannot be read as .npz" % name
            ):
                from_npz(str(tmp_path / name), [RATE], 2)

    @pytest.mark.unit
    def test_hostile_files(self, tmp_path):
        sound = tmp_path / "sound.npz"
        np.savez(str(sound), rate=np.ones(3))
        whole = sound.read_bytes()
        for number, data in enumerate(
            (whole[:-30], whole.replace(b"NUMPY", b"NIMPY"), whole.replace(b"<f8", b"|?O"), b"PK")
        ):
            self.refused(tmp_path / ("%d.npz" % number), data)
        np.savez_compressed(str(tmp_path / "bomb.npz"), rate=np.zeros(30_000_000, np.float32))
        with pytest.raises(GraphmpError, match=r"GMP003: .*120,000,\d+ bytes of arrays in"):
            from_npz(str(tmp_path / "bomb.npz"), [RATE], 2)
        os.mkfifo(str(tmp_path / "pipe.npz"))
        with pytest.raises(GraphmpError, match=r"GMP003: .*no regular file"):
            from_npz(str(tmp_path / "pipe.npz"), [RATE], 2)

    def refused(self, path, data):
        path.write_bytes(data)
        with pytest.raises(GraphmpError, match=r"GMP003: .*cannot be read as .npz") as error:
            from_npz(str(path), [RATE], 2)
        assert "\n" not in str(error.value)


class TestFunctions:
    @pytest.mark.unit
    @pytest.mark.parametrize(
        "text",
        [
            "raise SystemExit(0)",
            "def batches(step): raise SystemExit(0)",
            "class Mute(Exception):\n  def __str__(self): raise ValueError\n"
            "def batches(step): raise Mute",
            "batches = dict.fromkeys",
        ],
    )
    def test_foreign_code_does_not_end_the_command(self, tmp_path, text):
        with pytest.raises(GraphmpError, match="GMP002: --data="):
            self.batches(tmp_path, text)(0)

    def batches(self, folder, text, wanted=(X,), name="batches"):
        path = folder / "data.py"
        path.write_text("import numpy as np\n" + text)
        return from_function("%s:%s" % (path, name), wanted)

    @pytest.mark.unit
    @pytest.mark.parametrize(
        "text",
        [
            "def batches(step): return {'in/x': [[step, 0, 0]]}",
            "def batches(step=0): return {'in/x:0': np.array([[step, 0, 0]])}",
            "def batches():\n  for step in range(9):\n    yield {'in/x': [[step, 0, 0]]}",
            (
                "def batches(first=0):\n  return [{'in/x': [[step, 0, 0]]} for step in"
                " range(first, 9)]"
            ),
            (
                "class Batches:\n  def __call__(self, step): return {'in/x': [[step, 0,"
                " 0]]}\nbatches = Batches()"
            ),
            (
                "steps = []\ndef batches():\n  steps.append(0)\n  return {'in/x': [[len(steps) - 1,"
                " 0, 0]]}"
            ),
        ],
    )
    def test_forms(self, tmp_path, text):
        batches = self.batches(tmp_path, text)
        assert [batches(step)["in/x:0"][0, 0] for step in (0, 1, 2, 0)] == [0, 1, 2, 0]
        assert batches(0)["in/x:0"].dtype == np.float32

    @pytest.mark.unit
    def test_an_iterable_begins_anew(self, tmp_path):
        batches = self.batches(
            tmp_path, "def batches():\n  yield {'in/x': [[1, 0, 0]]}\n  yield {'in/x': [[2, 0, 0]]}"
        )
        assert [batches(step)["in/x:0"][0, 0] for step in (4, 1, 2)] == [1, 2, 1]

    @pytest.mark.unit
    def test_the_same_step_is_the_same_batch(self, tmp_path):
        batches = self.batches(tmp_path, "def batches(step): return {'in/x': np.random.rand(2, 3)}")
        assert batches(1) is batches(1)

    @pytest.mark.unit
    def test_the_file_may_import_its_neighbours(self, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "feeds_neighbour.py").write_text("rows = [[1, 2, 3]]")
        assert self.batches(
            tmp_path,
            "import feeds_neighbour\ndef batches(step): return {'in/x': feeds_neighbour.rows}",
        )(0)["in/x:0"].shape == (1, 3)

    @pytest.mark.unit
    @pytest.mark.parametrize(
        "text, message",
        [
            ("", "GMP002: .*data.py:batches: the file has no function batches"),
            ("def batches(:", "GMP005: .*data.py:2"),
            ("1 / 0", "GMP002: .*importing the file raised ZeroDivisionError"),
            (
                "def batches(step): return 1 / step",
                "GMP002: .*step 0 raised ZeroDivisionError: division by zero",
            ),
            (
                "def batches(step): return [1]",
                "GMP002: .*step 0 is a list; accepted are dictionaries",
            ),
            (
                "def batches(a, b): pass",
                "GMP002: .*takes 2 arguments; accepted are none and the step's number",
            ),
            (
                "def batches(): return 1",
                "GMP002: .*returns a int; accepted are dictionaries and iterables of them",
            ),
            ("def batches(): return []", "GMP002: .*the function gives no batch"),
            (
                "def batches(step): return {}",
                r"GMP002: .*nothing for in/x:0 \(float32 \[\?, 3\]\); found are no names",
            ),
            (
                "def batches(step): return {'in/x': [[1, 2]]}",
                r"in/x:0 .*: found int64 \[1, 2\]; accepted are float32 \[\?, 3\]",
            ),
            ("def batches(step): return {'in/x': ['a']}", "accepted are numbers"),
        ],
    )
    def test_what_does_not_fit_is_said(self, tmp_path, text, message):
        with pytest.raises(GraphmpError, match=message) as raised:
            self.batches(tmp_path, text)(0)
        assert raised.value.exit_status == 2

    @pytest.mark.unit
    @pytest.mark.parametrize("spec", ["data", "data.txt:f", "data.py:"])
    def test_other_names(self, spec):
        with pytest.raises(
            GraphmpError, match=r"GMP002: --data=.*accepted are file.npz and file.py:function"
        ):
            from_function(spec, [X])

    @pytest.mark.unit
    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ("while True: pass", "importing the file"),
            ("import time\ndef batches(): time.sleep(60)", "data.py:batches"),
            (
                "def batches(step):\n  while True:\n    try: 1/0\n    except Exception: pass",
                "step 0",
            ),
            ("def batches():\n  import queue\n  yield queue.Queue().get()", "step 0"),
        ],
    )
    def test_a_function_without_end_is_interrupted(self, tmp_path, text, where):
        (tmp_path / "data.py").write_text(text)
        before = signal.getsignal(signal.SIGALRM)
        with limited_runs(0.2, ends_process=False), pytest.raises(
            GraphmpError, match=r"GMP030: .*%s did not end within 0\.2 s" % where
        ):
            from_function("%s:batches" % (tmp_path / "data.py"), [X])(0)
        assert signal.getsignal(signal.SIGALRM) == before
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


# What may stand between a placeholder and the op that reads its values.
STEPS = {
    "identity": tf.identity,
    "reshape": lambda x: tf.reshape(x, [-1]),
    "expand": lambda x: tf.expand_dims(x, 0),
    "transpose": tf.transpose,
    "cast": lambda x: tf.cast(tf.cast(x, tf.float32), tf.int32),
    "concat": lambda x: tf.concat([x, x], 0),
    "slice": lambda x: x[:1],
    "split": lambda x: tf.split(x, 1, 0)[0],
    "stack": lambda x: tf.stack([x, x]),
    "unstack": lambda x: tf.unstack(tf.expand_dims(x, 0))[0],
    "squeeze": lambda x: tf.squeeze(tf.expand_dims(x, 0), [0]),
    "cond": lambda x: tf.cond(tf.placeholder(tf.bool, []), lambda: x + 0, lambda: x),
    "while": lambda x: tf.while_loop(
        lambda i, y: i < 2,
        lambda i, y: (i + 1, tf.identity(y)),
        [0, x],
        shape_invariants=[tf.TensorShape([]), x.shape],
    )[1],
    "array": lambda x: tf.ensure_shape(
        tf.TensorArray(tf.int32, 0, dynamic_size=True, infer_shape=False).unstack(x).stack(),
        x.shape,
    ),
    "less": lambda x: x - 3,
    "more": lambda x: x + 2,
}
# What looks something up, of how many.
LOOK_UPS = {
    "gather": lambda ids, count: tf.gather(tf.ones([count, 2]), ids),
    "axis": lambda ids, count: tf.gather(tf.ones([1, count]), ids, axis=1),
    "variable": lambda ids, count: tf.nn.embedding_lookup(variable([count, 2]), ids),
    "resource": lambda ids, count: tf.nn.embedding_lookup(
        tf.get_variable("r", [count, 2], use_resource=True), ids
    ),
    "gather_nd": lambda ids, count: tf.gather_nd(tf.ones([count]), tf.expand_dims(ids, -1)),
    "labels": lambda ids, count: tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.reshape(ids, [-1]), logits=tf.ones([tf.size(ids), count])
    ),
    "segments": lambda ids, count: tf.unsorted_segment_sum(
        tf.ones([tf.size(ids)]), tf.reshape(ids, [-1]), count
    ),
    "scatter": lambda ids, count: tf.scatter_nd(
        tf.reshape(ids, [-1, 1]), tf.ones([tf.size(ids)]), [count]
    ),
    "candidates": lambda ids, count: tf.random.log_uniform_candidate_sampler(
        tf.cast(tf.reshape(ids, [-1, 1]), tf.int64), 1, 2, False, count
    )[1],
}


class TestIds:
    @given(
        count=st.integers(4, 60),
        steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=3),
        seed=st.integers(0, 1 << 40),
        data=st.data(),
    )
    @settings(max_examples=60)
    def test_are_below_what_they_index(self, count, steps, seed, data):
        look_up = data.draw(st.sampled_from(sorted(LOOK_UPS)))
        with tf.Graph().as_default() as graph:
            ids = tf.placeholder(tf.int32, [5, 2], "ids")
            value = ids
            for step in steps:
                value = STEPS[step](value)
            found = LOOK_UPS[look_up](value, count + 12)
            batches = random_batches(graph, view_of(graph), names([found]), BATCH, seed)
            drawn = np.stack([batches(step)["ids:0"] for step in range(20)])
            low, high = (
                3 * steps.count("less"),
                count + 12 - 2 * steps.count("more") + 3 * steps.count("less"),
            )
            assert drawn.min() >= max(0, low - 2 * steps.count("more"))
            assert drawn.max() < high
            assert drawn.max() - drawn.min() > 2
            with tf.Session() as session:
                session.run([op for op in graph.get_operations() if op.type.startswith("Assign")])
                session.run(found, batches(0))

    @pytest.mark.unit
    def test_the_smallest_table_counts(self, graph):
        ids = tf.placeholder(tf.int64, [200], "ids")
        targets = [
            tf.gather(tf.ones([50, 1]), ids),
            tf.gather(tf.ones([5, 1]), ids),
            tf.one_hot(ids, 9),
        ]
        assert set(made_up(graph, *targets)["ids:0"]) == {0, 1, 2, 3, 4}

    @pytest.mark.unit
    def test_what_nobody_bounds_is_0_or_1(self, graph):
        ids = tf.placeholder(tf.int32, [40], "ids")
        count = tf.placeholder(tf.int32, [], "count")
        batch = made_up(graph, tf.cast(ids, tf.float32) * 2.0, count + 1)
        assert set(batch["ids:0"]) == {0, 1}
        assert batch["count:0"] == 1

    @pytest.mark.unit
    def test_a_table_of_unknown_size(self, graph):
        ids = tf.placeholder(tf.int32, [50], "ids")
        table = tf.placeholder(tf.float32, [None, 2], "table")
        assert made_up(graph, tf.gather(table, ids))["ids:0"].max() == BATCH - 1

    def test_a_nce_loss(self, graph):
        labels = tf.placeholder(tf.int32, [None, 1], "labels")
        weights, biases = variable([30, 4], "w"), variable([30], "b")
        loss = tf.nn.nce_loss(
            weights, biases, tf.cast(labels, tf.int64), tf.ones([BATCH, 4]), 5, 30
        )
        assert runs(graph, loss)["labels:0"].shape == (BATCH, 1)


class TestLengths:
    def test_of_a_dynamic_rnn(self, graph):
        x = tf.placeholder(tf.float32, [None, 7, 3], "x")
        lengths = tf.placeholder(tf.int32, [None], "lengths")
        cell = tf.nn.rnn_cell.BasicRNNCell(4)
        outputs, _ = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
        loss = tf.reduce_mean(outputs)
        found = runs(graph, *tf.gradients(loss, tf.trainable_variables()))["lengths:0"]
        assert found[0] == 7
        assert found.min() >= 1

    def test_of_a_mask_that_is_as_wide_as_the_longest(self, graph):
        ids = tf.placeholder(tf.int32, [None, None], "ids")
        lengths = tf.placeholder(tf.int32, [None], "lengths")
        loss = tf.sequence_mask(lengths, dtype=tf.float32) * tf.nn.embedding_lookup(
            variable([9]), ids
        )
        assert runs(graph, loss)["lengths:0"].max() == 16

    def test_of_reversed_sequences(self, graph):
        lengths = tf.placeholder(tf.int64, [None], "lengths")
        assert (
            1
            <= runs(graph, tf.reverse_sequence(tf.ones([BATCH, 5]), lengths, 1))["lengths:0"].min()
            <= 5
        )

    def test_of_a_ctc_loss(self, graph):
        logits = tf.placeholder(tf.float32, [None, None, 6], "logits")
        lengths = tf.placeholder(tf.int32, [None], "lengths")
        labels = tf.sparse_placeholder(tf.int32, name="labels")
        loss = tf.nn.ctc_loss(labels, logits, lengths, time_major=False)
        batch = runs(graph, loss)
        assert batch["labels/values:0"].max() < 5
        assert list(batch["lengths:0"]) == [16] * BATCH


class TestLabels:
    def logits(self, columns=5):
        return tf.matmul(tf.placeholder(tf.float32, [None, 3], "x"), variable([3, columns]))

    def test_of_a_softmax_are_one_hot(self, graph):
        labels = tf.placeholder(tf.float32, [None, 5], "labels")
        loss = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=self.logits())
        found = runs(graph, loss)["labels:0"]
        assert np.array_equal(np.sort(found, axis=1), [[0, 0, 0, 0, 1]] * BATCH)

    def test_of_unknown_rank(self, graph):
        logits = self.logits()
        loss = tf.nn.softmax_cross_entropy_with_logits_v2(
            labels=tf.placeholder(tf.float32, name="a"), logits=logits
        )
        other = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.placeholder(tf.int32, name="b"), logits=logits
        )
        by_hand = -tf.reduce_sum(
            tf.placeholder(tf.float32, name="c") * tf.log(tf.nn.softmax(logits))
        )
        assert {name: value.shape for name, value in runs(graph, loss, other, by_hand).items()} == {
            "x:0": (BATCH, 3),
            "a:0": (BATCH, 5),
            "b:0": (BATCH,),
            "c:0": (BATCH, 5),
        }

    @pytest.mark.parametrize(
        "loss",
        [
            lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x),
            lambda x, y: tf.nn.weighted_cross_entropy_with_logits(y, x, 2.0),
            lambda x, y: tf.maximum(x, 0) - x * y + tf.log1p(tf.exp(-tf.abs(x))),
            lambda x, y: -(y * tf.log(tf.sigmoid(x)) + (1 - y) * tf.log(1 - tf.sigmoid(x))),
        ],
    )
    def test_of_a_sigmoid_are_0_or_1(self, graph, loss):
        labels = tf.placeholder(tf.float32, [None, 5], "labels")
        found = tf.gradients(loss(self.logits(), labels), tf.trainable_variables())
        assert set(runs(graph, *found)["labels:0"].ravel()) == {0, 1}

    def test_of_a_cross_entropy_by_hand_are_one_hot(self, graph):
        labels = tf.placeholder(tf.float32, [None, 5], "labels")
        loss = -tf.reduce_mean(tf.reduce_sum(labels * tf.log(tf.nn.softmax(self.logits())), 1))
        assert list(runs(graph, loss)["labels:0"].sum(axis=1)) == [1] * BATCH


def dense_of(x, columns):
    return tf.matmul(x, variable([columns, 2]))


def pictures_of_84(x):
    h = tf.nn.conv2d(x, variable([8, 8, 4, 3], "filter"), strides=[1, 4, 4, 1], padding="VALID")
    return dense_of(tf.reshape(h, [tf.shape(x)[0], 1200]), 1200)


class TestUnknownRanks:
    @pytest.mark.parametrize(
        "use, shape",
        [
            (lambda x: tf.reshape(x, [-1, 19, 19, 1]), (BATCH, 19, 19, 1)),
            (lambda x: tf.reshape(x / 255.0, [2, 3]), (2, 3)),
            (lambda x: dense_of(tf.reshape(x, [-1, 6]), 6), (BATCH, 6)),
            (lambda x: tf.matmul(variable([2, 6]), x), (6, 16)),
            (lambda x: tf.matmul(variable([2, 6]), x, transpose_b=True), (BATCH, 6)),
            (lambda x: tf.nn.bias_add(x, variable([5])), (BATCH, 5)),
            (lambda x: tf.reduce_sum(x, 1), (BATCH, 16)),
            (lambda x: tf.reduce_mean(x, [-1, -3]), (BATCH, 16, 16)),
            (lambda x: tf.argmax(x, 1), (BATCH, 16)),
            (lambda x: tf.transpose(x, [1, 0, 2]), (BATCH, 16, 16)),
            (lambda x: tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), (BATCH, 16, 16, 16)),
            (lambda x: tf.gather(x, [1], axis=1), (BATCH, 16)),
            (lambda x: x[:, 0], (BATCH, 16)),
            (lambda x: tf.zeros([tf.shape(x)[0], tf.shape(x)[1]]), (BATCH, 16)),
            (lambda x: tf.unstack(x, 3)[0], (3,)),
            (lambda x: tf.unstack(x, 3, axis=-1)[0], (3,)),
            (lambda x: dense_of(tf.unstack(x, 3, axis=1)[0], 6), (BATCH, 3, 6)),
            (lambda x: tf.split(x, [2, 3])[1], (5,)),
            (lambda x: tf.split(x, [2, 3], -1)[1], (5,)),
            (lambda x: tf.split(x, [2, 3], 1)[1], (BATCH, 5)),
            (lambda x: tf.map_fn(lambda one: one * 2.0, x), (BATCH,)),
            (lambda x: tf.map_fn(lambda one: dense_of(one, 6), x), (BATCH, 16, 6)),
            (lambda x: tf.cond(tf.placeholder(tf.bool), lambda: dense_of(x, 6), lambda: x), (BATCH, 6)),
            (pictures_of_84, (BATCH, 84, 84, 4)),
        ],
    )  # fmt: skip
    def test_what_consumers_require(self, graph, use, shape):
        x = tf.placeholder(tf.float32, name="x")
        found = runs(graph, use(x))["x:0"].shape
        assert found == shape

    @pytest.mark.parametrize("both", [tf.logical_and, tf.logical_or, lambda x, y: y])
    def test_a_predicate_is_a_scalar(self, graph, both):
        x, on = tf.placeholder(tf.float32, [None, 8]), tf.placeholder(tf.bool, name="on")
        y = tf.cond(both(tf.constant(True), on), lambda: dense_of(x, 8), lambda: x[:, :2])
        switched = tf.cond(on, lambda: on, lambda: tf.logical_not(on))
        assert runs(graph, y, tf.gradients(y, x)[0], switched)["on:0"].shape == ()


class TestScalars:
    @pytest.mark.unit
    @pytest.mark.parametrize(
        "apply",
        [
            lambda rate, loss, v: tf.train.AdamOptimizer(rate).minimize(loss),
            lambda rate, loss, v: tf.train.MomentumOptimizer(
                tf.train.exponential_decay(rate, tf.constant(3), 10, 0.9), 0.9
            ).minimize(loss),
            lambda rate, loss, v: tf.train.GradientDescentOptimizer(rate * 2.0).minimize(loss),
            lambda rate, loss, v: tf.assign_sub(v, rate * tf.gradients(loss, v)[0]).op,
            lambda rate, loss, v: tf.train.GradientDescentOptimizer(
                tf.train.polynomial_decay(rate, tf.constant(3), 10, 1e-5)
            ).minimize(loss),
            lambda rate, loss, v: tf.train.AdamOptimizer(
                tf.where(tf.constant(3) < 5, rate, rate / 10.0)
            ).minimize(loss),
            lambda rate, loss, v: tf.train.MomentumOptimizer(
                tf.train.piecewise_constant(tf.constant(3), [5, 9], [rate, rate / 2, rate / 4]), 0.9
            ).minimize(loss),
        ],
    )
    def test_a_learning_rate_is_small(self, graph, apply):
        v = variable([3])
        keep, weight = (
            tf.placeholder(tf.float32, [], "keep"),
            tf.placeholder(tf.float32, [], "weight"),
        )
        loss = weight * tf.reduce_sum(tf.nn.dropout(v, keep_prob=keep))
        update = apply(tf.placeholder(tf.float32, [], "a"), loss, v)
        batch = random_batches(graph, view_of(graph), [update.name], BATCH, 0)(0)
        assert {name: float(value) for name, value in batch.items()} == {
            "a:0": np.float32(1e-3),
            "keep:0": 0.5,
            "weight:0": 0.5,
        }

    def test_a_learning_rate_of_one_element_is_small(self, graph):
        v = variable([3])
        rate = tf.placeholder(tf.float32, [1], "a")
        update = tf.train.AdamOptimizer(tf.squeeze(rate)).minimize(tf.reduce_sum(v * v))
        batch = random_batches(graph, view_of(graph), [update.name], BATCH, 0)(0)
        assert batch["a:0"].tolist() == [np.float32(1e-3)]

    def test_a_batch_size(self, graph):
        size = tf.placeholder(tf.int32, [], "size")
        y = tf.concat([tf.zeros([size, 3]), tf.placeholder(tf.float32, [None, 2], "x")], 1)
        assert runs(graph, y)["size:0"] == BATCH


class TestOthers:
    def test_pictures_bools_and_strings(self, graph):
        pictures = tf.placeholder(tf.uint8, [20, 20], "pictures")
        training = tf.placeholder(tf.bool, name="training")
        text = tf.placeholder(tf.string, [None], "text")
        number = tf.placeholder(tf.string, [None], "number")
        hashed = tf.string_to_hash_bucket_fast(text, 10)
        y = tf.cond(training, lambda: tf.cast(pictures, tf.float32), lambda: 0.0)
        batch = runs(graph, y, hashed, tf.string_to_number(number))
        assert batch["pictures:0"].max() > 200
        assert batch["training:0"]

    @pytest.mark.unit
    @pytest.mark.parametrize(
        "parse, op",
        [
            (
                lambda s: tf.parse_example(s, {"x": tf.FixedLenFeature([3], tf.float32)})["x"],
                "ParseExample",
            ),
            (
                lambda s: tf.map_fn(
                    lambda one: tf.cast(tf.image.decode_jpeg(one), tf.float32), s, tf.float32
                ),
                "DecodeJpeg",
            ),
            (lambda s: tf.decode_raw(s, tf.uint8), "DecodeRaw"),
        ],
    )
    def test_strings_that_are_parsed_cannot_be_made_up(self, graph, parse, op):
        y = parse(tf.placeholder(tf.string, [None], "examples"))
        with pytest.raises(
            GraphmpError,
            match=(
                r"GMP002: --random_data: examples:0 \(string \[\?\]\) goes into .*a %s.*, .*--data"
            )
            % op,
        ):
            made_up(graph, y)

    def test_a_sparse_matrix(self, graph):
        x = tf.sparse_placeholder(tf.float32, name="sparse")
        y = tf.sparse_tensor_dense_matmul(x, tf.ones([7, 2]))
        assert list(runs(graph, y)["sparse/shape:0"]) == [BATCH, 7]

    def test_a_sparse_tensor_of_known_shape(self, graph):
        x = tf.sparse_placeholder(tf.float32, [None, 5], name="sparse")
        assert runs(graph, tf.sparse_reduce_sum(x))["sparse/values:0"].shape == (BATCH,)

    @pytest.mark.unit
    def test_all_dtypes(self, graph):
        kinds = [
            tf.float16,
            tf.bfloat16,
            tf.float64,
            tf.int8,
            tf.int16,
            tf.int64,
            tf.uint8,
            tf.complex64,
            tf.bool,
            tf.string,
        ]
        tensors = [tf.placeholder(kind, [3], kind.name) for kind in kinds]
        batch = made_up(graph, *tensors)
        assert {name[:-2]: value.dtype for name, value in batch.items()} == {
            kind.name: np.dtype(kind.as_numpy_dtype) for kind in kinds
        }

    @pytest.mark.unit
    @given(seed=st.integers(-5, 1 << 40), step=st.integers(0, 1000))
    @settings(max_examples=20)
    def test_a_seed_says_it_all(self, seed, step):
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [5], "x")
            alone = made_up(graph, x, seed=seed, step=step)["x:0"]
            y = tf.placeholder(tf.float32, [5], "y")
            both = made_up(graph, x, y, seed=seed, step=step)
            assert np.array_equal(alone, both["x:0"])
            assert not np.array_equal(both["x:0"], both["y:0"])
            assert not np.array_equal(alone, made_up(graph, x, seed=seed, step=step + 1)["x:0"])


class TestShapes:
    def test_a_batch_that_the_graph_reshapes_to_constant_sizes(self, graph):
        pictures = tf.placeholder(tf.float32, [None, 4, 4], "pictures")
        y = tf.reshape(pictures, [2, 4, 4, 1]) * 2.0
        assert runs(graph, y)["pictures:0"].shape == (2, 4, 4)

    def attempts(self, graph, *wanted):
        return shape_attempts(graph, view_of(graph), wanted, BATCH)

    @pytest.mark.unit
    def test_nothing_to_guess(self, graph):
        assert self.attempts(graph, RATE, Wanted("x:0", tf.float32, (2, 3))) == [Guess(BATCH)]

    @pytest.mark.unit
    def test_the_batch_size_comes_first_and_sizes_of_others_next(self, graph):
        tf.placeholder(tf.float32, [50, 8], "state")
        tf.placeholder(tf.float32, [None, None], "x")
        wanted = wanted_tensors(graph, view_of(graph), ["state", "x"])
        assert self.attempts(graph, *wanted)[:3] == [Guess(BATCH), Guess(50), Guess(BATCH, 8)]

    @pytest.mark.unit
    @given(
        first=st.integers(1, 9),
        other=st.integers(1, 9),
        shape=st.lists(st.sampled_from([None, 3]), max_size=4),
    )
    def test_a_guess_fills_in_what_is_unknown(self, first, other, shape):
        sizes = Guess(first, other).sizes(tuple(shape))
        assert sizes == [size or (other if axis else first) for axis, size in enumerate(shape)]

    @pytest.mark.unit
    def test_a_matrix_that_is_multiplied(self, graph):
        y = tf.matmul(tf.placeholder(tf.float32, name="x") / 255.0, variable([6, 2]))
        z = tf.nn.conv2d(
            tf.placeholder(tf.float32, [None, 9, 9, None], "p"),
            tf.ones([3, 3, 4, 1]),
            [1, 1, 1, 1],
            "SAME",
        )
        assert [made_up(graph, y, z)[name].shape for name in ("x:0", "p:0")] == [
            (BATCH, 6),
            (BATCH, 9, 9, 4),
        ]

    def test_a_batch_size_that_the_graph_has_as_a_constant(self, graph):
        x = tf.placeholder(tf.float32, [None, 3], "x")
        assert runs(graph, tf.concat([x, tf.zeros([7, 2])], 1))["x:0"].shape == (7, 3)

    def test_labels_of_each_step_in_one_row(self, graph):
        x = tf.placeholder(tf.float32, [None, None, 3], "x")
        labels = tf.placeholder(tf.int32, [None], "labels")
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=tf.reshape(x, [-1, 3])
        )
        assert runs(graph, loss)["labels:0"].shape == (BATCH * 16,)

    def test_labels_as_large_as_what_the_network_makes_of_its_pictures(self, graph):
        x = tf.placeholder(tf.float32, [None, None, None, 3], "x")
        counts = tf.placeholder(tf.float32, [None, None, None, 1], "counts")
        hidden = tf.nn.conv2d(x, tf.ones([3, 3, 3, 1]), [1, 2, 2, 1], "SAME")
        batch = runs(graph, tf.reduce_sum(tf.square(hidden - counts)))
        assert batch["x:0"].shape == (BATCH, 16, 16, 3)
        assert batch["counts:0"].shape == (BATCH, 8, 8, 1)

    @pytest.mark.unit
    def test_a_dimension_that_is_squeezed_out(self, graph):
        labels = tf.squeeze(tf.placeholder(tf.float32, [None, None, None], "labels"), [-2])
        assert made_up(graph, labels)["labels:0"].shape == (BATCH, 1, 16)

    def test_lengths_by_which_last_steps_are_looked_up(self, graph):
        x = tf.placeholder(tf.float32, [None, None, 5], "x")
        lengths = tf.placeholder(tf.int32, [None], "lengths")
        steps = tf.transpose(x, [1, 0, 2])
        last = tf.gather_nd(steps, tf.stack([lengths - 1, tf.range(tf.shape(x)[0])], 1))
        loss = tf.nn.ctc_loss(tf.SparseTensor([[0, 0]], [1], [BATCH, 1]), steps, lengths)
        assert np.all(runs(graph, loss, last)["lengths:0"] == 16)

    def test_none_runs(self, graph):
        x = tf.placeholder(tf.float32, [None], "x")
        y = tf.reshape(
            x, tf.stack([tf.size(x), tf.placeholder_with_default(2, [], "two")]), name="twice"
        )
        with pytest.raises(
            GraphmpError,
            match=(
                r"GMP024: the graph runs with none of \d+ made-up .* InvalidArgumentError: twice:"
                r" Input to resh"
            ),
        ) as raised:
            runs(graph, y)
        assert raised.value.exit_status == 2
        assert "--data" in raised.value.message

    def test_an_initialiser_that_fails_is_named(self, graph):
        words = tf.lookup.TextFileInitializer(
            "no/such/file", tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
        )  # fmt: skip
        table = tf.lookup.StaticHashTable(words, 0)
        found = table.lookup(tf.placeholder(tf.string, [None], "words"))
        with pytest.raises(
            GraphmpError, match=r"GMP024: \S+, which initialises .* NotFoundError: no/such/file; "
        ):
            runs(graph, found)

    def test_other_errors_are_said_at_once(self, graph):
        x = tf.placeholder(tf.float32, [None], "x")
        y = x + tf.raw_ops.VariableV2(shape=[], dtype=tf.float32, name="empty")
        with pytest.raises(GraphmpError, match=r"fails with a made-up batch: FailedPreco"):
            runs(graph, y)

    def test_an_error_of_a_step_without_inputs_asks_for_no_data(self, graph):
        with pytest.raises(GraphmpError) as raised:
            runs(graph, tf.reshape(tf.ones([4]), tf.random_uniform([1], 5, 6, tf.int32)))
        message = raised.value.message
        assert message.startswith("no input of the graph is fed, and its step fails: InvalidArgum")
        assert "--data" not in message and "made-up" not in message


def importable(meta_graph):
    """The graph without what another TensorFlow wrote into it.

    Stale shapes, devices, attributes unknown here.
    """
    for node in meta_graph.graph_def.node:
        node.attr.pop("_output_shapes", None)
        node.device = ""
    while True:
        try:
            with tf.Graph().as_default():
                tf.import_graph_def(meta_graph.graph_def, name="")
            return
        except ValueError as error:
            unknown = re.search(r"mentions attr '(\w+)' not in Op<name=", str(error))
            if not unknown:
                raise
            for node in meta_graph.graph_def.node:
                node.attr.pop(unknown.group(1), None)


def update_inputs(graph):
    """What the update kernels read, by value; an optimizer written by hand scatters or assigns."""
    for kinds in (UPDATE_PREFIXES, ("ScatterSub", "ScatterAdd", "ResourceScatterAdd"), ("Assign",)):
        ops = [op for op in graph.get_operations() if op.type.startswith(kinds)]
        if kinds == ("Assign",):
            gradients = view_of(graph).descendants(
                [op.name for op in graph.get_operations() if op.name.startswith("gradients/")]
            )
            ops = [op for op in ops if op.name in gradients]
        if ops:
            return [
                value
                for op in ops
                for value in op.inputs
                if not str(value.dtype).endswith("_ref'>") and value.dtype != tf.resource
            ]
    raise AssertionError("nothing trains")


def initialise(session):
    """Runs what initialises variables and tables; twice, for what reads another variable."""
    for _ in range(2):
        for item in (
            tf.global_variables()
            + tf.local_variables()
            + tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
        ):
            try:
                session.run(getattr(item, "initializer", item))
            except tf.errors.OpError:
                continue


def trains(path):
    """An empty text where a step of a recorded graph runs on made-up batches, else the error."""
    meta_graph = read_graph(path)
    view = GraphView(tf.GraphDef.FromString(meta_graph.graph_def.SerializeToString()))
    importable(meta_graph)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(meta_graph, clear_devices=True)
        fetches = update_inputs(graph)
        initialise(session)
        try:
            first_that_runs(
                session, fetches, random_attempts(graph, view, sorted(set(names(fetches))), 2, 0)
            )
        except GraphmpError as error:
            return str(error)
        return ""


def test_recorded_graphs_run():
    assert [trains(path) for path in own_graphs()] == [""] * len(own_graphs()) and own_graphs()


@pytest.mark.corpus
@pytest.mark.parametrize(
    "part", ["PPOng", "NER", "Word2Vec", "mnistconv", "Wide_n_deep", "DeepSpeech"]
)
def test_some_of_the_corpus_runs(part):
    assert [trains(path) for path in corpus_graphs() if part in path.name] == [""]


@pytest.mark.corpus
@pytest.mark.slow
def test_the_corpus_runs():
    """Two graphs hold batch normalisation as TensorFlow 2 has it, which 1.15.5 refuses to run."""
    failed = {path.name: error for path in corpus_graphs() for error in [trains(path)] if error}
    assert len(corpus_graphs()) - len(failed) >= 14, failed
