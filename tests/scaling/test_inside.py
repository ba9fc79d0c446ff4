"""Steps entirely inside a function or a loop are scaled, checked and skipped there."""

from __future__ import annotations

import functools
import importlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.inspect.cost import inspect_cost
from graphmp.inspect.overview import inspect
from graphmp.inspect.training_step import find_training
from graphmp.policy.policy import load
from graphmp.rewrite import pipeline
from graphmp.scaling.insertion.handles import pass_handles
from graphmp.verify.prove import prove
from tests.support.control_flow import control_flow
from tests.support.executed import verdicts
from tests.support.painting import built
from tests.support.programs.running import copies
from tests.support.scaled import changed, losses_of, session
from tests.support.structure import needs_tf2, not_lowered
from tests.support.training import AS_WRITTEN, imported, initialise, state
from tests.support.training_graphs import sgd, square, vectors
from tests.support.turns import in_turn

Defun = importlib.import_module("tensorflow.python.framework.function").Defun
OWN = ["graphmp/loss_scale/%s" % name for name in ("scale", "good_steps", "skipped_steps")]
VECTORS = np.random.RandomState(7).standard_normal((8, 12)).astype(np.float32)
ONES = np.ones(5, np.float32)


class Model:
    """Two layers and a training step; each item of the placeholder `factors` multiplies a loss."""

    def __init__(self, use_resource=True):
        tf.set_random_seed(1)
        self.x, self.factors = (
            tf.placeholder(tf.float32, (None, 12), "x"),
            tf.placeholder(tf.float32, (5,), "factors"),
        )
        with tf.variable_scope("net", use_resource=use_resource):
            self.w, self.v = tf.get_variable("w", (12, 6)), tf.get_variable("v", (6, 1))
            self.momentum = tf.get_variable(
                "momentum", (12, 6), initializer=tf.zeros_initializer(), trainable=False
            )
            self.steps = tf.get_variable(
                "steps", (), tf.int64, tf.zeros_initializer(), trainable=False
            )

    def gradients(self, x, factor):
        w, v = self.w.read_value(), self.v.read_value()
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(x, w)), v) - 1.0)) * factor
        return tf.gradients(loss, [w, v])

    def step(self, x, factor):
        """Writes whatever training code does; returns the ops."""
        dw, dv = self.gradients(x, factor)
        moved = tf.raw_ops.ResourceApplyMomentum(
            var=self.w.handle, accum=self.momentum.handle, lr=0.1, grad=dw, momentum=0.9
        )
        return [moved or last_op(), self.v.assign_sub(0.1 * dv).op, self.steps.assign_add(1).op]


def last_op():
    """The last op: a raw op without results.

    The call returns the op on 1.15.5, None in a function on 2.21.
    """
    return tf.get_default_graph().get_operations()[-1]


def called(model):
    @tf.function
    def step(x, factor):
        model.step(x, factor)
        return tf.reduce_sum(x)

    tf.identity(step(model.x, model.factors[0]), name="train")


def without_results(model):
    @tf.function
    def step(x, factor):
        model.step(x, factor)

    tf.group(step(model.x, model.factors[0]) or last_op(), name="train")


def called_twice(model):
    @tf.function
    def step(x, factor):
        model.step(x, factor)
        return tf.reduce_sum(x)

    @tf.function
    def both(x, factors):
        return step(x, factors[0]) + step(0.5 * x, factors[1])

    tf.identity(both(model.x, model.factors), name="train")


def branch(model):
    @tf.function
    def step(x, factor):
        def yes():
            with tf.control_dependencies(model.step(x, factor)):
                return tf.constant(1)

        return tf.cond(tf.reduce_sum(tf.abs(x)) > 0, yes, lambda: tf.constant(0))

    tf.identity(step(model.x, model.factors[0]), name="train")


def loop(model):
    def body(i):
        with tf.control_dependencies(model.step(model.x, model.factors[i])):
            return i + 1

    with control_flow(functions=True):
        tf.identity(tf.while_loop(lambda i: i < 5, body, [0]), name="train")


def loop_in_a_function(model):
    @tf.function
    def steps(x, factors):
        def body(i):
            with tf.control_dependencies(model.step(x, factors[i])):
                return i + 1

        return tf.while_loop(lambda i: i < 5, body, [0])

    tf.identity(steps(model.x, model.factors), name="train")


def calls_in_a_loop(model):
    @tf.function
    def step(x, factor):
        model.step(x, factor)
        return tf.constant(1)

    with control_flow(functions=True):
        tf.identity(
            tf.while_loop(lambda i: i < 5, lambda i: i + step(model.x, model.factors[i]), [0]),
            name="train",
        )


def legacy(model, noinline=False):
    @Defun(tf.float32, tf.float32, func_name="OneStep", noinline=noinline)
    def step(x, factor):
        with tf.control_dependencies(model.step(x, factor)):
            return tf.constant(1.0)

    tf.identity(step(model.x, model.factors[0]), name="train")


def legacy_without_order(model):
    @Defun(tf.float32, tf.float32, func_name="OneStep")
    def step(x, factor):
        model.step(x, factor)
        return tf.constant(1.0)

    tf.identity(step(model.x, model.factors[0]), name="train")


def legacy_not_inlined(model):
    legacy(model, noinline=True)


def old_loop(model):
    def body(i):
        with tf.control_dependencies(model.step(model.x, model.factors[i])):
            return i + 1

    tf.identity(tf.while_loop(lambda i: i < 5, body, [0]), name="train")


def old_loop_of_references(model):
    model = Model(use_resource=False)

    def body(i):
        dw, dv = model.gradients(model.x, model.factors[i])
        with tf.control_dependencies([dw, dv]):  # a reference is read where it is used
            moved = tf.train.GradientDescentOptimizer(0.1).apply_gradients([(dw, model.w)])
            written = [moved, model.v.assign_sub(0.1 * dv), model.steps.assign_add(1)]
        with tf.control_dependencies(written):
            return i + 1

    tf.identity(tf.while_loop(lambda i: i < 5, body, [0]), name="train")


def old_loop_in_a_loop(model):
    def one(i):
        with tf.control_dependencies(model.step(model.x, model.factors[i])):
            return i + 1

    def some(i):
        return tf.while_loop(lambda j: j < tf.minimum(i + 2, 5), one, [i])

    tf.identity(tf.while_loop(lambda i: i < 5, some, [0]), name="train")


def old_loops_one_by_one(model):
    """Nothing orders the updates but parallel_iterations=1."""
    alone = functools.partial(tf.while_loop, parallel_iterations=1)

    def one(j, done):
        following = j + 1
        with tf.control_dependencies(model.step(model.x, model.factors[j])):
            return following, tf.identity(done)

    def some(i, done):
        return i + 2, alone(lambda j, _: j < tf.minimum(i + 2, 5), one, [i, done])[1]

    tf.identity(alone(lambda i, _: i < 5, some, [0, True])[1], name="train")


def by_another_function(build, takes):
    """With a function that takes the gradients and clips them, which makes all finite."""

    def shape(model):
        by_model = model.gradients
        function = tf.function(
            lambda x, factor: tuple(
                tf.clip_by_value(g, -10.0, 10.0) for g in takes(model, by_model, x, factor)
            )
        )
        model.gradients = lambda x, factor: [
            tf.reshape(g, v.shape) for g, v in zip(function(x, factor), (model.w, model.v))
        ]
        build(model)

    shape.__name__ = "%s_%s" % (build.__name__, takes.__name__)
    return shape


def by_call(model, by_model, x, factor):
    return by_model(x, factor)


def by_tape(model, by_model, x, factor):
    with tf.GradientTape() as tape:
        loss = (
            tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(x, model.w)), model.v) - 1.0))
            * factor
        )
    return tape.gradient(loss, [model.w, model.v])


OLD_LOOPS = [old_loop, old_loop_of_references, old_loop_in_a_loop, old_loops_one_by_one]
APPLYING_LOOPS = [by_another_function(build, by_call) for build in (loop, old_loop)]
APPLYING = [
    *APPLYING_LOOPS,
    *(
        by_another_function(build, takes)
        for build in (called, branch)
        for takes in (by_call, by_tape)
    ),
]
LOOPS = [loop, loop_in_a_function, calls_in_a_loop, *OLD_LOOPS]
SHAPES = [
    called,
    without_results,
    called_twice,
    branch,
    legacy,
    legacy_without_order,
    legacy_not_inlined,
    *LOOPS,
]
WAYS = ["rewritten", "as_written", "not_lowered"]


@functools.lru_cache(maxsize=None)
def original(shape):
    """A graph with an init op and a Saver."""

    def build():
        shape(Model() if shape is not old_loop_of_references else None)
        tf.global_variables_initializer()
        tf.train.Saver()

    return built(build)


@functools.lru_cache(maxsize=None)
def conversion(shape, **options):
    return graphmp.convert(original(shape), **dict(options))


def run(meta_graph, steps, start=None, way="rewritten"):
    """Trains a step for each row of factors; returns all variables before and after."""
    states = run_each(meta_graph, steps, start, way)
    return states[0], states[-1]


def run_each(meta_graph, steps, start=None, way="rewritten"):
    """All variables before, and after each step; there is a step for each row of factors."""
    if way == "not_lowered":
        meta_graph = not_lowered(meta_graph)
    with session(meta_graph, start, way != "rewritten") as sess:
        states = [copies(state(sess))]
        for factors in steps:
            sess.run("train", {"x:0": VECTORS, "factors:0": factors})
            states.append(copies(state(sess)))
        return states


@functools.lru_cache(maxsize=None)
def trained(shape, way):
    """The original before and after three steps."""
    return run(original(shape), [ONES] * 3, way=way)


def overflow_at(number):
    factors = ONES.copy()
    factors[number] = np.inf
    return factors


def assert_updates_agree(start, expected, found):
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name],
            value,
            rtol=0,
            atol=1e-6 * max(np.abs(value - start[name]).max(), 1e-30),
            err_msg=name,
        )


@pytest.mark.parametrize("shape, loss_scale", in_turn([*SHAPES, *APPLYING], [1024.0, "dynamic"]))
def test_updates_are_the_originals(shape, loss_scale):
    converted = conversion(shape, compute_dtype="float32", loss_scale=loss_scale)
    assert [
        row for row in converted.report["warnings"] if row["code"] in ("GMP110", "GMP111", "GMP112")
    ] == []
    for way in WAYS:
        start, expected = trained(shape, way)
        assert_updates_agree(start, expected, run(converted.meta_graph, [ONES] * 3, start, way)[1])


@pytest.mark.parametrize("shape, way", in_turn([*SHAPES, *APPLYING], WAYS))
def test_an_overflow_skips_its_step_alone(shape, way):
    converted = conversion(
        shape, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    calls = 5 if shape in LOOPS + APPLYING_LOOPS else 2 if shape is called_twice else 1
    start, _ = trained(shape, way)
    for number in range(calls):
        _, after, later = run_each(converted.meta_graph, [overflow_at(number), ONES], start, way)
        assert [after[name] for name in OWN] == [32.0, calls - 1 - number, 1]
        assert after["net/steps"] == calls - 1 and all(
            np.isfinite(value).all() for value in after.values()
        )
        if calls == 1:
            assert changed(start, after) == []
        assert later["net/steps"] == 2 * calls - 1 and [later[name] for name in OWN] == [
            32.0,
            2 * calls - 1 - number,
            1,
        ]


@pytest.mark.parametrize("shape", [loop, old_loop], ids=lambda shape: shape.__name__)
def test_an_overflow_is_as_if_there_were_a_step_less(shape):
    converted = conversion(
        shape, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    start, four = run(shortened(original(shape)), [ONES])
    _, found = run(converted.meta_graph, [overflow_at(4)], start)
    assert_updates_agree(start, four, found)


def shortened(meta_graph):
    """The loop with four steps in place of five."""
    copy = type(meta_graph)()
    copy.CopyFrom(meta_graph)
    nodes = [
        *copy.graph_def.node,
        *(node for function in copy.graph_def.library.function for node in function.node_def),
    ]
    (limit,) = [node for node in nodes if node.name in ("Less/y", "while/Less/y")]
    limit.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(4, tf.int32))
    return copy


@pytest.mark.unit
@pytest.mark.parametrize(
    "shape", [shape for shape in SHAPES if shape not in OLD_LOOPS], ids=lambda shape: shape.__name__
)
def test_the_report_names_the_function(shape):
    (row,) = conversion(
        shape, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    ).report["losses"]
    assert row["gradient_scope"].startswith("library/") and row["gradient_scope"].endswith(
        "/gradients"
    )
    scope = row["gradient_scope"].rpartition("/")[0]
    assert len(row["gated"]) == 3 and all(name.startswith(scope + "/") for name in row["gated"])
    assert row["scale"] == scope + "/graphmp/loss_scale/current" and "train" in row["train_ops"]
    assert row["calls"]


@pytest.mark.unit
def test_a_branch_is_given_the_variables_behind_its_predicate():
    """It writes all three."""
    (row,) = conversion(branch, compute_dtype="float32").report["losses"]
    assert len(row["gated"]) == 3


@pytest.mark.unit
def test_a_value_of_a_variable_is_passed_as_a_number():
    """What reads it doesn't write the variable."""

    def build():
        model = Model()
        model.factors = [tf.get_variable("factor", (), use_resource=True).read_value()]
        called(model)

    (row,) = graphmp.convert(built(build), compute_dtype="float32").report["losses"]
    assert len(row["gated"]) == 3


@pytest.mark.parametrize(
    "shape", [called, legacy, loop, *OLD_LOOPS], ids=lambda shape: shape.__name__
)
def test_the_state_is_saved_and_survives_an_import(shape, tmp_path):
    converted = conversion(
        shape, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    path = str(tmp_path / "model")
    feed = {"x:0": VECTORS, "factors:0": overflow_at(0)}
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(converted.meta_graph)
        with tf.Session(graph=graph) as sess:
            sess.run("init")
            assert [sess.run(tensor) for tensor in tf.get_collection("graphmp_loss_scale")] == [
                64.0,
                0,
                0,
            ]
            sess.run("train", feed)
            saved = state(sess)
            saver.save(sess, path, write_meta_graph=False)
            again = tf.train.export_meta_graph(saver_def=saver.saver_def)
    assert set(OWN) <= set(saved) and saved[OWN[0]] == 32.0
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(again)
        with tf.Session(graph=graph) as sess:
            saver.restore(sess, path)
            assert changed(saved, state(sess)) == []
            assert [sess.run(tensor) for tensor in tf.get_collection("graphmp_loss_scale")] == [
                saved[name] for name in OWN
            ]
            sess.run("train", feed)
            assert sess.run(tf.get_collection("graphmp_loss_scale")[2]) == 2


@pytest.mark.parametrize("shape", [called, loop, old_loop], ids=lambda shape: shape.__name__)
def test_what_no_init_op_initialised_has_its_initial_value(shape):
    converted = conversion(
        shape, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(converted.meta_graph)
        with tf.Session(graph=graph, config=AS_WRITTEN) as sess:
            sess.run(
                [
                    v.initializer
                    for v in tf.global_variables()
                    if not v.op.name.startswith("graphmp/")
                ]
            )
            sess.run("train", {"x:0": VECTORS, "factors:0": overflow_at(0)})
            assert sess.run(tf.get_collection("graphmp_loss_scale")[0]) == 32.0


@pytest.mark.parametrize(
    "shape", [called, loop, legacy, *OLD_LOOPS], ids=lambda shape: shape.__name__
)
def test_half_precision_inside(shape):
    converted = conversion(shape)
    half = tf.float16.as_datatype_enum
    graph_def = converted.meta_graph.graph_def
    matmuls = [
        node
        for nodes in [graph_def.node, *(f.node_def for f in graph_def.library.function)]
        for node in nodes
        if "MatMul" in node.op
    ]
    assert len(matmuls) >= 5 and all(node.attr["T"].type == half for node in matmuls)
    start, expected = trained(shape, "rewritten")
    _, found = run(converted.meta_graph, [ONES] * 3, start)
    assert found["net/steps"] == expected["net/steps"] and found[OWN[2]] == 0
    for name in ("net/w", "net/v"):
        np.testing.assert_allclose(
            found[name], expected[name], atol=0.05 * np.abs(expected[name] - start[name]).max()
        )


@pytest.mark.parametrize("shape", [called, loop, old_loop], ids=lambda shape: shape.__name__)
def test_tiny_gradients_train_with_the_scale_alone(shape):
    tiny = ONES * np.float32(1e-8)
    start, _ = trained(shape, "rewritten")
    _, without = run(conversion(shape, loss_scale="none").meta_graph, [tiny], start)
    _, scaled = run(conversion(shape, loss_scale=2.0**20).meta_graph, [tiny], start)
    assert not without["net/momentum"].any() and scaled["net/momentum"].any()


@pytest.mark.parametrize("shape", [called, loop, old_loop], ids=lambda shape: shape.__name__)
def test_the_clip_is_tensorflows(shape):
    converted = conversion(shape, compute_dtype="float32", loss_scale=1024.0, clip_norm=0.01)
    start, _ = trained(shape, "rewritten")
    _, after = run(converted.meta_graph, [ONES], start)
    taken = [(start["net/v"] - after["net/v"]) / 0.1, after["net/momentum"]]
    norm = np.sqrt(sum(np.square(each.astype(np.float64)).sum() for each in taken))
    assert norm < 5 * 0.01 * 2 and (shape is not called or abs(norm - 0.01) < 1e-6)


@pytest.mark.unit
def test_gradients_of_functions_are_no_part_of_a_named_loss():
    def build():
        x, v, w = vectors(), tf.get_variable("v", (12, 4)), tf.get_variable("w", (12, 4))

        @Defun(tf.float32, tf.float32, func_name="gradient")
        def gradient(x, w):
            return tf.gradients(square(tf.matmul(x, w)), w)[0]

        sgd().minimize(square(tf.matmul(x, v)), var_list=[v])
        w.assign_sub(tf.reshape(gradient(x, w), (12, 4)))

    meta_graph = built(build)
    assert len(losses_of(meta_graph)[1]) == 2
    (loss,) = losses_of(meta_graph, loss=["loss"])[1]
    assert loss.scopes[0].losses == ("loss",)


@needs_tf2
def test_steps_in_the_main_graph_and_in_functions_have_scales_of_their_own():
    def build():
        model = Model()
        called(model)
        u = tf.get_variable("u", (12, 1), use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.matmul(model.x, u))) * model.factors[1]
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="other")
        tf.global_variables_initializer()

    converted = graphmp.convert(
        built(build), compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    assert [row["scale"].split("/")[-2] for row in converted.report["losses"]] == [
        "loss_scale",
        "loss_scale_1",
    ]
    with session(converted.meta_graph) as sess:
        sess.run("train", {"x:0": VECTORS, "factors:0": overflow_at(0)})
        sess.run("other", {"x:0": VECTORS, "factors:0": ONES})
        after = state(sess)
    assert after["graphmp/loss_scale/scale"] == 64.0 and after["graphmp/loss_scale_1/scale"] == 32.0
    assert (
        after["graphmp/loss_scale/good_steps"] == 1
        and after["graphmp/loss_scale_1/skipped_steps"] == 1
    )


@pytest.mark.unit
def test_a_loop_that_trains_and_a_step_that_is_run_with_it_go_by_their_own_losses():
    def build():
        model = Model()
        old_loop(model)
        u = tf.get_variable("u", (12, 1), use_resource=True)
        step = tf.train.GradientDescentOptimizer(0.1).minimize(
            tf.reduce_mean(tf.square(tf.matmul(model.x, u)))
        )
        tf.group(tf.get_default_graph().get_operation_by_name("train"), step, name="both")

    report = graphmp.convert(built(build), compute_dtype="float32").report
    assert report["warnings"] == []
    assert [(len(row["gated"]), row["not_skipped"]) for row in report["losses"]] == [
        (1, []),
        (3, []),
    ]


def test_a_function_without_its_own_gradients_is_left_alone():
    def build():
        model = Model()

        @tf.function
        def count(x):
            model.steps.assign_add(1)
            return tf.matmul(x, x, transpose_b=True)

        tf.identity(count(model.x), name="train")
        tf.global_variables_initializer()

    before = built(build)
    converted = graphmp.convert(before, compute_dtype="float32")
    assert converted.report["losses"] == []
    assert converted.meta_graph.graph_def.library == before.graph_def.library


def test_a_function_that_a_data_set_uses_too_is_said():
    """Its body serves the input pipeline as well."""

    def build():
        model = Model()

        @tf.function(input_signature=[tf.TensorSpec((8, 12), tf.float32)])
        def step(x):
            model.step(x, 1.0)
            return tf.reduce_sum(x)

        tf.identity(step(model.x), name="train")
        data = tf.data.Dataset.from_tensors(VECTORS).map(step)
        tf.data.make_initializable_iterator(data).get_next()

    codes = [
        row["code"]
        for row in graphmp.convert(built(build), compute_dtype="float32").report["warnings"]
    ]
    assert "GMP110" in codes


def test_initialise_gives_the_state_its_first_values():
    converted = conversion(
        called, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    with session(converted.meta_graph) as sess:
        sess.run("train", {"x:0": VECTORS, "factors:0": overflow_at(0)})
        initialise(sess, "init", {})
        assert [state(sess)[name] for name in OWN] == [64.0, 0, 0]


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "nested"])
def test_a_loop_that_does_not_order_its_updates_is_said(nested):
    """Its condition reads a count that waits for nothing; nested, the loop in it orders its own."""

    def build():
        model = Model()

        def body(i, done):
            with tf.control_dependencies(model.step(model.x, model.factors[i])):
                return i + 1, tf.identity(done)

        def again(i, done):
            if nested:
                done = tf.while_loop(lambda j, _: j < 2, body, [0, done])[1]
            else:
                done = body(i, done)[1]
            return i + 1, done

        tf.identity(tf.while_loop(lambda i, done: i < 5, again, [0, True])[0], name="train")

    converted = graphmp.convert(built(build), compute_dtype="float32")
    (row,) = [row for row in converted.report["warnings"] if row["code"] in ("GMP110", "GMP112")]
    assert row["code"] == "GMP110" and "/gradients" in row["node"]


@pytest.mark.parametrize("frame", ["while/while_context", "while/while/while_context"])
def test_the_proof_sees_loops_whose_iterations_overlap(frame):
    """Those that only parallel_iterations=1 orders."""
    graphs = original(old_loops_one_by_one), conversion(old_loops_one_by_one).meta_graph
    assert prove(*graphs).ok
    overlapping = []
    for graph in graphs:
        copy = tf.MetaGraphDef()
        copy.CopyFrom(graph)
        for node in copy.graph_def.node:
            if node.op == "Enter" and node.attr["frame_name"].s.decode() == frame:
                node.attr["parallel_iterations"].i = 10
        overlapping.append(copy)
    (failed,) = [claim for claim in prove(*overlapping).claims if claim.verdict == "failed"]
    assert "does not wait for the iteration before" in failed.text


@pytest.mark.parametrize("shape", [called, old_loop_in_a_loop], ids=lambda shape: shape.__name__)
def test_steps_that_are_run_agree(shape):
    """Where no infinity can be fed, the proof alone says that steps are skipped."""
    converted = conversion(shape)
    found, still = verdicts(original(shape), converted.meta_graph, converted.report)
    assert still == {} and found["skips when run"] == "not applicable"
    assert found["same steps again"] == found["same steps"] == "proved"


def test_a_loop_that_ends_by_a_flag_is_scaled():
    """Its condition reads its only variable through a single input."""

    def build():
        model = Model()

        def body(done):
            with tf.control_dependencies(model.step(model.x, model.factors[0])):
                return tf.logical_not(done)

        tf.identity(tf.while_loop(tf.logical_not, body, [False]), name="train")

    policy = load("float32", "")
    record = pipeline.rewrite(built(build), Config.make(loss_scale=1024.0), policy).record
    assert record.warnings == [] and record.losses[0]["in_loop"]


@pytest.mark.unit
@pytest.mark.parametrize("names", [["one"], ["other"], ["one", "other"]], ids=str)
def test_of_functions_that_train_those_behind_named_ops_are_scaled(names):
    def step(w, x):
        x.set_shape((8, 12))
        read = w.read_value()
        (gradient,) = tf.gradients(square(tf.matmul(x, read)), [read])
        with tf.control_dependencies([w.assign_sub(0.1 * gradient).op]):
            return tf.reduce_sum(x)

    def build():
        x = vectors()
        for name in ("one", "other"):
            w = tf.get_variable(name + "_weights", (12, 4), use_resource=True)
            function = Defun(tf.float32, func_name=name + "_step")(functools.partial(step, w))
            tf.identity(function(x), name=name)

    report = graphmp.convert(built(build), compute_dtype="float32", train_op=names).report
    scopes = [row["gradient_scope"] for row in report["losses"]]
    assert scopes == ["library/%s_step/gradients" % name for name in names]


@pytest.mark.unit
def test_two_groups_of_updates_in_a_function_are_two_losses():
    def build():
        x = vectors()
        weights = [tf.get_variable(name, (12, 4), use_resource=True) for name in ("a", "b")]

        @Defun(tf.float32)
        def step(x):
            x.set_shape((8, 12))
            for w in weights:
                read = w.read_value()
                (gradient,) = tf.gradients(square(tf.matmul(x, read)), [read])
                tf.group(w.assign_sub(0.1 * gradient).op, tf.no_op())
            return tf.reduce_sum(x)

        tf.identity(step(x), name="train")

    assert len(graphmp.convert(built(build), compute_dtype="float32").report["losses"]) == 2


@pytest.mark.unit
def test_any_variable_of_a_loop_may_wait_for_the_updates():
    """The first one doesn't."""

    def build():
        model = Model()

        def body(doubled, i):
            doubled *= 2
            with tf.control_dependencies(model.step(model.x, model.factors[i])):
                return doubled, i + 1

        tf.while_loop(lambda _, i: i < 5, body, [1, 0])

    report = graphmp.convert(built(build), compute_dtype="float32").report
    assert report["warnings"] == [] and [row["in_loop"] for row in report["losses"]] == [True]


@pytest.mark.unit
def test_a_loop_whose_gradients_leave_a_loop_in_it_is_scaled():
    def build():
        w = tf.get_variable("w", (12, 12))

        def body(i):
            hidden = tf.while_loop(lambda h: h[0, 0] < 4.0, lambda h: tf.matmul(h, w), [vectors()])
            (gradient,) = tf.gradients(square(hidden), w)
            with tf.control_dependencies([w.assign_sub(0.1 * gradient)]):
                return i + 1

        tf.identity(tf.while_loop(lambda i: i < 5, body, [0]), name="train")

    (row,) = graphmp.convert(built(build), compute_dtype="float32").report["losses"]
    assert row["in_loop"]


def test_gradients_can_be_taken_of_a_loop_that_trains():
    converted = conversion(
        old_loop, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(converted.meta_graph)
        inside = graph.get_operation_by_name("graphmp/loss_scale/current")
        assert inside._get_control_flow_context().name == "while/while_context"


@pytest.mark.parametrize("shape", [called, legacy, loop], ids=lambda shape: shape.__name__)
def test_a_session_scales_inside_too(shape):
    with tf.Graph().as_default() as graph:
        imported(original(shape))
        with graphmp.Session(graph=graph, compute_dtype="float32", loss_scale="dynamic") as sess:
            sess.run("init")
            sess.run("train", {"x:0": VECTORS, "factors:0": ONES * np.inf})
            after = state(sess)
            assert after["net/steps"] == 0 and all(
                np.isfinite(value).all() for value in after.values()
            )
            sess.run("train", {"x:0": VECTORS, "factors:0": ONES})
            assert sess.run("net/steps/Read/ReadVariableOp:0") == (5 if shape is loop else 1)


def counted(calls, where="behind"):
    """A function that trains, called by `calls` train ops, and a global step in the main graph."""

    def build():
        model, count = Model(), tf.train.get_or_create_global_step()

        @tf.function
        def step(x, factor):
            model.step(x, factor)
            return tf.reduce_sum(x)

        for number in range(calls):
            with tf.control_dependencies([count.assign_add(1)] if where == "ahead" else []):
                called = step(model.x, model.factors[number])
            if where == "grouped":
                tf.group(called, count.assign_add(1), name="train%d" % number)
            with tf.control_dependencies([called]):
                tf.identity(
                    called if where != "behind" else count.assign_add(1), name="train%d" % number
                )
        tf.global_variables_initializer()

    return graphmp.convert(
        built(build), compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )


@pytest.mark.parametrize("where", ["behind", "grouped"])
def test_what_counts_steps_outside_is_skipped_with_them(where):
    converted = counted(1, where)
    assert converted.report["warnings"] == [] and len(converted.report["losses"][0]["gated"]) == 4
    with session(converted.meta_graph) as sess:
        for factors, count in ((overflow_at(0), 0), (ONES, 1), (overflow_at(0), 1)):
            sess.run("train0", {"x:0": VECTORS, "factors:0": factors})
            assert state(sess)["global_step"] == count


def test_what_is_counted_ahead_of_a_call_is_counted():
    with session(counted(1, "ahead").meta_graph) as sess:
        sess.run("train0", {"x:0": VECTORS, "factors:0": overflow_at(0)})
        after = state(sess)
        assert after["global_step"] == 1 and after["net/steps"] == 0


def test_what_counts_steps_of_a_function_with_two_callers_is_said():
    """A train op runs no other's call."""
    converted = counted(2)
    assert [row["code"] for row in converted.report["warnings"]] == ["GMP112", "GMP112"]
    with session(converted.meta_graph) as sess:
        sess.run("train0", {"x:0": VECTORS, "factors:0": overflow_at(1)})
        after = state(sess)
        assert after["global_step"] == after["net/steps"] == 1


def trained_in_either_branch():
    """A conditional whose branches train a variable each; steps are counted behind it."""
    x, first = tf.placeholder(tf.float32, (8, 8), "x"), tf.placeholder(tf.bool, (), "first")
    count, optimizer = tf.train.get_or_create_global_step(), tf.train.GradientDescentOptimizer(1e-3)
    with tf.variable_scope("net", use_resource=True):
        one, other = tf.get_variable("one", (8, 8)), tf.get_variable("other", (8, 8))

    def step(weights):
        loss = tf.reduce_mean(tf.matmul(x, weights))
        with tf.control_dependencies([optimizer.minimize(loss, var_list=[weights])]):
            return tf.identity(loss)

    loss = tf.cond(first, lambda: step(one), lambda: step(other), name="both")
    tf.get_default_graph().clear_collection(tf.GraphKeys.TRAIN_OP)  # ops inside functions
    with tf.control_dependencies([loss]):
        tf.identity(count.assign_add(1), "train")
    tf.global_variables_initializer()


@needs_tf2
def test_what_counts_steps_of_either_branch_is_said():
    with control_flow(functions=True):
        converted = graphmp.convert(built(trained_in_either_branch), loss_scale="dynamic")
    assert [row["code"] for row in converted.report["warnings"]] == ["GMP112"]
    assert all("AssignAdd" not in row["gated"] for row in converted.report["losses"])


def test_gradient_tape_in_a_function():
    def build():
        model = Model()

        @tf.function
        def step(x, factor):
            with tf.GradientTape() as tape:
                loss = (
                    tf.reduce_mean(
                        tf.square(tf.matmul(tf.tanh(tf.matmul(x, model.w)), model.v) - 1.0)
                    )
                    * factor
                )
            dw, dv = tape.gradient(loss, [model.w, model.v])
            model.w.assign_sub(0.1 * dw), model.v.assign_sub(0.1 * dv), model.steps.assign_add(1)
            return loss

        tf.identity(step(model.x, model.factors[0]), name="train")
        tf.global_variables_initializer()

    original = built(build)
    converted = graphmp.convert(
        original, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    assert converted.report["warnings"] == [] and len(converted.report["losses"][0]["gated"]) == 3
    start, expected = run(original, [ONES] * 3)
    assert_updates_agree(start, expected, run(converted.meta_graph, [ONES] * 3, start)[1])
    assert changed(*run(converted.meta_graph, [overflow_at(0)], start)) == sorted([OWN[0], OWN[2]])


def test_gradients_that_a_training_function_only_returns_have_their_values():
    """The function that takes them takes those that train, too."""

    def build():
        model = Model()
        take = tf.function(lambda x, factor: tuple(model.gradients(x, factor)))

        @tf.function
        def step(x, factors):
            shown = take(0.5 * x, factors[1])[0]
            dw, dv = take(x, factors[0])
            model.w.assign_sub(0.1 * dw), model.v.assign_sub(0.1 * dv)
            return shown

        tf.identity(step(model.x, model.factors), name="train")
        tf.global_variables_initializer()

    original, feed = built(build), {"x:0": VECTORS, "factors:0": ONES}
    converted = graphmp.convert(original, compute_dtype="float32", loss_scale=1024.0)
    assert converted.report["warnings"] == [] and len(converted.report["losses"]) == 1
    with session(original) as sess:
        start, expected = copies(state(sess)), sess.run("train:0", feed)
    with session(converted.meta_graph, start) as sess:
        np.testing.assert_allclose(sess.run("train:0", feed), expected, rtol=1e-5, atol=1e-7)


def test_recurrent_networks_in_a_loop():
    """Gradients leave loops of their own."""

    def build():
        model = Model(use_resource=False)
        cell = tf.nn.rnn_cell.BasicRNNCell(6)

        def body(i):
            outputs, _ = tf.nn.dynamic_rnn(
                cell, tf.stack([model.x, 0.5 * model.x], 1), dtype=tf.float32
            )
            variables = cell.trainable_variables
            gradients = tf.gradients(
                tf.reduce_mean(tf.square(outputs - 1.0)) * model.factors[i], variables
            )
            with tf.control_dependencies(gradients):
                written = [v.assign_sub(0.1 * g) for v, g in zip(variables, gradients)] + [
                    model.steps.assign_add(1)
                ]
            with tf.control_dependencies(written):
                return i + 1

        tf.identity(tf.while_loop(lambda i: i < 5, body, [0]), name="train")
        tf.global_variables_initializer()

    original = built(build)
    converted = graphmp.convert(
        original, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    assert [
        row for row in converted.report["warnings"] if row["code"] in ("GMP110", "GMP112")
    ] == []
    start, expected = run(original, [ONES])
    assert_updates_agree(start, expected, run(converted.meta_graph, [ONES], start)[1])
    _, after = run(converted.meta_graph, [overflow_at(2)], start)
    assert after["net/steps"] == 4 and [after[name] for name in OWN] == [32.0, 2, 1]


def handles(meta_graph):
    return [
        node
        for function in meta_graph.graph_def.library.function
        for node in function.node_def
        if node.op == "VarHandleOp"
    ]


@pytest.mark.unit
@pytest.mark.parametrize(
    "shape", [shape for shape in SHAPES if shape not in OLD_LOOPS], ids=lambda shape: shape.__name__
)
def test_the_state_is_passed_through_every_call(shape):
    converted = conversion(
        shape, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    assert handles(converted.meta_graph) == []
    (row,) = converted.report["losses"]
    calls = [node for node in converted.meta_graph.graph_def.node if node.name in row["calls"]]
    assert calls and all(set(OWN) <= set(node.input) for node in calls)


@pytest.mark.unit
def test_what_is_passed_is_not_bound_to_a_device():
    """A function that runs on one device as a whole finds its state there."""
    meta_graph = conversion(
        called, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    ).meta_graph
    bodies = [function.node_def for function in meta_graph.graph_def.library.function]
    nodes = [node for body in (meta_graph.graph_def.node, *bodies) for node in body]
    places = {node.name: node.device for node in nodes if node.name.startswith(OWN[0])}
    assert places and set(places.values()) == {""}


@pytest.mark.parametrize("shape", [called_twice, loop, legacy], ids=lambda shape: shape.__name__)
def test_the_state_is_found_by_name_where_a_gradient_function_would_have_to_take_it(
    shape, monkeypatch
):
    """A gradient function's arguments are those of the function that it belongs to."""
    monkeypatch.setattr(pipeline, "pass_handles", lambda graph_def: [])
    by_name = graphmp.convert(
        original(shape), compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    ).meta_graph
    copy = type(by_name)()
    copy.CopyFrom(by_name)
    (name,) = {
        f.signature.name
        for f in copy.graph_def.library.function
        if any(node.op == "VarHandleOp" for node in f.node_def)
    }
    copy.graph_def.library.gradient.add(function_name=name, gradient_func="another")
    before = copy.SerializeToString(deterministic=True)
    pass_handles(copy.graph_def)
    assert copy.SerializeToString(deterministic=True) == before and len(handles(copy)) == 3
    steps = 5 if shape is loop else 2 if shape is called_twice else 1
    for way in WAYS:
        _, after = run(by_name, [overflow_at(0)], way=way)
        assert [after[name] for name in OWN] == [32.0, steps - 1, 1] and after[
            "net/steps"
        ] == steps - 1


@pytest.mark.parametrize(
    "compiled", [{"experimental_compile": True} if tf.__version__ < "2" else {"jit_compile": True}]
)
def test_what_xla_compiles_is_said(compiled):
    def build():
        model = Model()

        @tf.function(**compiled)
        def step(x, factor):
            model.step(x, factor)
            return tf.reduce_sum(x)

        tf.identity(step(model.x, model.factors[0]), name="train")
        tf.global_variables_initializer()

    converted = graphmp.convert(built(build), compute_dtype="float32", loss_scale="dynamic")
    assert [row["code"] for row in converted.report["warnings"]] == ["GMP110"]
    converted = graphmp.convert(built(build), compute_dtype="float32", loss_scale=1024.0)
    assert converted.report["warnings"] == [] and len(converted.report["losses"]) == 1


@pytest.mark.unit
@pytest.mark.parametrize(
    "shape",
    [called, without_results, called_twice, legacy, loop, loop_in_a_function, old_loop],
    ids=lambda shape: shape.__name__,
)
def test_such_a_graph_is_said_to_train(shape):
    """Scaled, unscaled, and when it is only inspected."""
    meta_graph = original(shape)
    for loss_scale in ("none", "dynamic"):
        report = conversion(shape, loss_scale=loss_scale).report
        assert [row["code"] for row in report["warnings"]] == []
        (row,) = report["losses"]
        assert (
            row["loss"][0].endswith("/mul")
            and len(row["updates"]) == 2
            and "train" in row["train_ops"]
        )
        assert bool(row["scale"]) == (loss_scale == "dynamic")
        assert [row["name"] for row in report["checks"] if row["status"] == "failed"] == []
    config = Config.make()
    policy = load(config.compute_dtype, "")
    found = inspect(meta_graph, config, policy)
    assert found.notes == [] and found.facts.gradient_scopes == {row["gradient_scope"]: True}
    assert inspect_cost(meta_graph, config, policy).trains
    training = find_training(meta_graph, config)
    assert training.trains and training.updates == set(row["calls"] or row["updates"])
