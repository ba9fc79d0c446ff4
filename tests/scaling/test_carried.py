"""Gradients taken in a while loop or a function and applied outside.

An overflow in any iteration skips the step.
"""

from __future__ import annotations

import functools
import importlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.contexts import contexts
from graphmp.graph.structure.frames import is_invariant
from graphmp.graph.structure.view import Port
from graphmp.scaling.insertion.loops import list_in_contexts
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support.control_flow import control_flow
from tests.support.painting import built
from tests.support.programs.running import copies
from tests.support.scaled import changed, losses_of, session
from tests.support.structure import not_lowered
from tests.support.training import imported, state
from tests.support.turns import in_turn

Defun = importlib.import_module("tensorflow.python.framework.function").Defun
While = importlib.import_module("tensorflow.python.ops.functional_ops").While
TURNS = 4
ROWS = np.random.RandomState(5).standard_normal((TURNS, 6)).astype(np.float32)
ONES = np.ones(TURNS, np.float32)


class Model:
    """Two layers, and the gradients of one row's loss, which its item of `factors` multiplies."""

    def __init__(self):
        tf.set_random_seed(1)
        self.x, self.factors = (
            tf.placeholder(tf.float32, (TURNS, 6), "x"),
            tf.placeholder(tf.float32, (TURNS,), "factors"),
        )
        self.variables = [tf.get_variable("w", (6, 4)), tf.get_variable("v", (4, 1))]

    def gradients(self, row, factor):
        w, v = self.variables
        loss = tf.reduce_sum(
            tf.square(tf.matmul(tf.tanh(tf.matmul(tf.expand_dims(row, 0), w)), v) - 1.0)
        )
        return tf.gradients(loss * factor, [w, v])

    def apply(self, gradients):
        gradients = tf.tuple([tf.reduce_sum(g, 0) for g in gradients])
        step = tf.train.get_or_create_global_step()
        tf.train.AdamOptimizer(0.1).apply_gradients(
            zip(gradients, self.variables), step, name="train"
        )


def mapped(model):
    model.apply(
        tf.map_fn(
            lambda turn: tuple(model.gradients(*turn)),
            (model.x, model.factors),
            dtype=(tf.float32,) * 2,
        )
    )


def clipped_by_value(model):
    """Gradients that are not finite become finite when they are clipped."""

    def one(turn):
        return tuple(tf.clip_by_value(g, -1.0, 1.0) for g in model.gradients(*turn))

    model.apply(tf.map_fn(one, (model.x, model.factors), dtype=(tf.float32,) * 2))


def nested(model):
    def inner(part):
        found = tf.map_fn(
            lambda turn: tuple(tf.clip_by_value(g, -1.0, 1.0) for g in model.gradients(*turn)),
            part,
            dtype=(tf.float32,) * 2,
        )
        return tuple(tf.reduce_sum(g, 0) for g in found)

    parts = tf.reshape(model.x, (2, 2, 6)), tf.reshape(model.factors, (2, 2))
    model.apply(tf.map_fn(inner, parts, dtype=(tf.float32,) * 2))


def in_a_branch(model):
    def one(turn):
        return tuple(
            tf.cond(
                turn[1] > 0,
                lambda: model.gradients(*turn),
                lambda: [tf.zeros_like(v) for v in model.variables],
            )
        )

    model.apply(tf.map_fn(one, (model.x, model.factors), dtype=(tf.float32,) * 2))


def two_loops(model):
    """One loop for each half, one step."""
    found = []
    for part in (slice(0, 2), slice(2, 4)):
        found.append(
            tf.map_fn(
                lambda turn: tuple(model.gradients(*turn)),
                (model.x[part], model.factors[part]),
                dtype=(tf.float32,) * 2,
            )
        )
    model.apply([tf.concat(each, 0) for each in zip(*found)])


def accumulated(model):
    """By an accumulator."""
    accumulators = [
        tf.ConditionalAccumulator(tf.float32, v.shape, shared_name=v.op.name)
        for v in model.variables
    ]

    def body(turn):
        gradients = model.gradients(model.x[turn], model.factors[turn])
        with tf.control_dependencies(
            [a.apply_grad(g, tf.int64.max) for a, g in zip(accumulators, gradients)]
        ):
            return turn + 1

    with tf.control_dependencies([tf.while_loop(lambda turn: turn < TURNS, body, [0])]):
        model.apply([tf.expand_dims(a.take_grad(TURNS), 0) for a in accumulators])


def clipped(gradients):
    """Gradients that are not finite become finite."""
    return [tf.clip_by_value(g, -1.0, 1.0) for g in gradients]


def clipped_in_a_branch(model):
    def one(turn):
        return tuple(
            tf.cond(
                turn[1] > 0,
                lambda: clipped(model.gradients(*turn)),
                lambda: [tf.zeros_like(v) for v in model.variables],
            )
        )

    model.apply(tf.map_fn(one, (model.x, model.factors), dtype=(tf.float32,) * 2))


def clipped_in_nested_branches(model):
    """One of the predicates is known before the loop."""
    asked = model.factors[0] > -1

    def one(turn):
        row, factor = turn

        def zeros():
            return [tf.zeros_like(v) for v in model.variables]

        def either():
            return tf.cond(
                row[0] > 0,
                lambda: clipped(model.gradients(row, factor)),
                lambda: clipped(model.gradients(-row, factor)),
            )

        return tuple(tf.cond(factor > 0, lambda: tf.cond(asked, either, zeros), zeros))

    model.apply(tf.map_fn(one, (model.x, model.factors), dtype=(tf.float32,) * 2))


def loop_in_a_branch_of_a_loop(model):
    def inner(part):
        found = tf.map_fn(
            lambda turn: tuple(clipped(model.gradients(*turn))), part, dtype=(tf.float32,) * 2
        )
        return [tf.reduce_sum(g, 0) for g in found]

    def outer(part):
        return tuple(
            tf.cond(
                part[1][0] > 0,
                lambda: inner(part),
                lambda: [tf.zeros_like(v) for v in model.variables],
            )
        )

    parts = tf.reshape(model.x, (2, 2, 6)), tf.reshape(model.factors, (2, 2))
    model.apply(tf.map_fn(outer, parts, dtype=(tf.float32,) * 2))


def branches(model):
    """No loop: each row in one of two branches, and some rows in none."""
    found = []
    for row, factor in zip(tf.unstack(model.x), tf.unstack(model.factors)):
        one = functools.partial(lambda r, f: clipped(model.gradients(r, f)), f=factor)
        either = functools.partial(
            tf.cond, row[0] > 0, functools.partial(one, row), functools.partial(one, -row)
        )
        found.append(
            tf.cond(
                tf.logical_or(row[1] > 0, factor > 1),
                either,
                lambda: [tf.zeros_like(v) for v in model.variables],
            )
        )
    model.apply([tf.stack(each) for each in zip(*found)])


def loops_in_branches(model):
    found = []
    for part in (slice(0, 2), slice(2, 4)):
        rows, factors = model.x[part], model.factors[part]
        turns = functools.partial(
            tf.map_fn,
            lambda turn: tuple(clipped(model.gradients(*turn))),
            (rows, factors),
            dtype=(tf.float32,) * 2,
        )
        zeros = functools.partial(
            lambda r: tuple(tf.zeros([2, *v.shape]) + 0 * r[0, 0] for v in model.variables), rows
        )
        found.append(tf.cond(tf.reduce_max(tf.stack([factors, rows[:, 0]])) > 0, turns, zeros))
    model.apply([tf.concat(each, 0) for each in zip(*found)])


def in_functions(build):
    """With loops and branches that are functions."""

    def shape(model):
        with control_flow(functions=True):
            build(model)

    shape.__name__ = build.__name__ + "_in_functions"
    return shape


def returned(make):
    """A function called for each row."""

    def one(row, factor):
        return tuple(tf.clip_by_value(g, -1.0, 1.0) for g in made[0].gradients(row, factor))

    made = []

    def shape(model):
        made[:] = [model]
        function = make(one)
        found = [function(model.x[turn], model.factors[turn]) for turn in range(TURNS)]
        model.apply(
            [
                tf.stack([tf.reshape(g, v.shape) for g in each])
                for each, v in zip(zip(*found), model.variables)
            ]
        )

    return shape


def called(model):
    """A tf.function that another one calls."""

    def through(one):
        inner = tf.function(one)
        return tf.function(lambda row, factor: inner(row, factor))

    returned(through)(model)


def legacy(model):
    """A Defun."""
    returned(Defun(tf.float32, tf.float32))(model)


def function_of(model, make):
    """The clipped gradients of one row, by a function."""
    function = make(lambda row, factor: tuple(clipped(model.gradients(row, factor))))
    return lambda turn: [tf.reshape(g, v.shape) for g, v in zip(function(*turn), model.variables)]


def called_in_a_loop(model):
    function = function_of(model, tf.function)
    model.apply(
        tf.map_fn(
            lambda turn: tuple(function(turn)), (model.x, model.factors), dtype=(tf.float32,) * 2
        )
    )


def called_in_a_branch_of_a_loop(model):
    function = function_of(model, tf.function)

    def one(turn):
        return tuple(
            tf.cond(
                turn[1] > 0,
                lambda: function(turn),
                lambda: [tf.zeros_like(v) for v in model.variables],
            )
        )

    model.apply(tf.map_fn(one, (model.x, model.factors), dtype=(tf.float32,) * 2))


def called_in_branches(model):
    function, found = function_of(model, tf.function), []
    for turn in zip(tf.unstack(model.x), tf.unstack(model.factors)):
        one = functools.partial(function, turn)
        found.append(
            tf.cond(
                turn[1] > 0,
                one,
                functools.partial(list, [tf.zeros_like(v) for v in model.variables]),
            )
        )
    model.apply([tf.stack(each) for each in zip(*found)])


def by_tape(build):
    """With gradients by a tape."""

    def shape(model):
        def gradients(row, factor):
            w, v = map(tf.identity, model.variables)
            with tf.GradientTape() as tape:
                tape.watch([w, v])
                loss = (
                    tf.reduce_sum(
                        tf.square(tf.matmul(tf.tanh(tf.matmul(tf.expand_dims(row, 0), w)), v) - 1.0)
                    )
                    * factor
                )
            return tape.gradient(loss, [w, v])

        model.gradients = gradients
        build(model)

    shape.__name__ = build.__name__ + "_by_tape"
    return shape


LOOPS = [mapped, clipped_by_value, nested, in_a_branch, two_loops]
BRANCHES = [
    clipped_in_a_branch,
    clipped_in_nested_branches,
    loop_in_a_branch_of_a_loop,
    branches,
    loops_in_branches,
]
CALLS = [called_in_a_loop, called_in_a_branch_of_a_loop, called_in_branches]
TAPES = [
    by_tape(build) for build in (in_functions(mapped), called, legacy, called_in_a_branch_of_a_loop)
]
FUNCTIONS = [*map(in_functions, LOOPS), called, legacy, *CALLS, *TAPES]
SHAPES = [*LOOPS, *BRANCHES, accumulated, *FUNCTIONS]
WAYS = ["rewritten", "as_written", "not_lowered"]
SCALES = [1024.0, "dynamic"]


@functools.lru_cache(maxsize=None)
def original(shape):
    def build():
        shape(Model())
        tf.global_variables_initializer()

    return built(build)


@functools.lru_cache(maxsize=None)
def conversion(shape, **options):
    return graphmp.convert(original(shape), **options)


@functools.lru_cache(maxsize=None)
def trained(shape):
    """The original before and after three steps."""
    return run(original(shape), [ONES] * 3)


def run(meta_graph, factors, start=None, way="rewritten"):
    states = run_each(meta_graph, factors, start, way)
    return states[0], states[-1]


def run_each(meta_graph, factors, start=None, way="rewritten"):
    """All variables before, and after each step."""
    if way == "not_lowered":
        meta_graph = not_lowered(meta_graph)
    with session(meta_graph, start, way != "rewritten") as sess:
        states = [copies(state(sess))]
        for each in factors:
            sess.run("train", {"x:0": ROWS, "factors:0": each})
            states.append(copies(state(sess)))
        return states


@pytest.mark.parametrize(
    "shape, loss_scale",
    [*in_turn([*LOOPS, accumulated], SCALES), *in_turn(FUNCTIONS, SCALES[::-1])],
)
def test_updates_are_the_originals(shape, loss_scale):
    converted = conversion(shape, compute_dtype="float32", loss_scale=loss_scale)
    assert converted.report["warnings"] == [] and len(converted.report["losses"]) == 1
    assert [row["name"] for row in converted.report["checks"] if row["status"] == "failed"] == []
    start, expected = trained(shape)
    for way in WAYS if shape in FUNCTIONS else WAYS[:1]:
        _, found = run(converted.meta_graph, [ONES] * 3, start, way)
        agree(start, expected, found)


def agree(start, expected, found):
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name],
            value,
            rtol=0,
            atol=2e-6 * max(np.abs(value - start[name]).max(), 1e-30),
            err_msg=name,
        )


CASES = [
    *in_turn([shape for shape in SHAPES if shape in FUNCTIONS], WAYS[1:]),
    *((shape, WAYS[0]) for shape in SHAPES if shape not in FUNCTIONS),
]


@pytest.mark.parametrize(
    "shape, way", CASES, ids=lambda case: case if isinstance(case, str) else case.__name__
)
def test_an_overflow_in_a_turn_skips_the_step(shape, way):
    converted = conversion(
        shape, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    for turn in range(TURNS):
        factors = ONES.copy()
        factors[turn] = np.inf
        start, after, later = run_each(converted.meta_graph, [factors, ONES], way=way)
        counts = ["global_step"] if shape is accumulated else []
        own = ["graphmp/loss_scale/scale", "graphmp/loss_scale/skipped_steps"]
        assert (
            changed(start, after) == sorted(own + counts)
            and after[own[0]] == 32.0
            and after[own[1]] == 1
        )
        assert later["global_step"] == 1 + len(counts) and all(
            np.isfinite(value).all() for value in later.values()
        )


def test_gradients_can_be_taken_of_such_a_loop():
    """Inserted nodes are listed in the loop's context."""
    converted = conversion(
        nested, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(converted.meta_graph)
        operations = [
            op for op in graph.get_operations() if op.name.startswith("graphmp/loss_scale")
        ]
        loops = {op.name: op._get_control_flow_context() for op in operations}
        left = {
            str(loops[op.name] and loops[op.name].name) for op in operations if op.type == "Exit"
        }
        assert left == {"map/while/while_context", "None"}
        seed = next(context for name, context in loops.items() if name.endswith("scaled_seed"))
        assert seed.name == "map/while/map/while/while_context"
        entered = graph.get_operation_by_name("graphmp/loss_scale/entered")
        context = entered._get_control_flow_context()
        assert context.AddValue(entered.inputs[0]) is entered.outputs[0]
        stack = graph.get_tensor_by_name("map/TensorArrayStack/TensorArrayGatherV3:0")
        assert tf.gradients(stack, [graph.get_tensor_by_name("w:0")]) != [None]


@pytest.mark.unit
def test_what_enters_a_loop_is_listed_by_its_output(graph):
    """Here it is the second output of a node."""
    _, second = tf.split(tf.placeholder(tf.float32, [4]), 2)
    tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * second), [0, tf.ones([2])])
    meta_graph = tf.train.export_meta_graph()
    (context,) = contexts(
        "while_context", meta_graph.collection_def["while_context"].bytes_list.value
    )
    editor = Editor(meta_graph.graph_def)
    for name, node in list(editor.nodes.items()):
        if is_invariant(node) and node.input[0] == str(Port(second.op.name, 1)):
            copy = type(node)()
            copy.CopyFrom(node)
            copy.name = "entered"
            editor.put(copy)
            editor.connect(name, 0, Port(second.op.name, 0))
    list_in_contexts(TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph)), editor)
    (context,) = contexts(
        "while_context", meta_graph.collection_def["while_context"].bytes_list.value
    )
    assert context.values_def.external_values[second.name] == "entered:0"


@pytest.mark.unit
def test_what_leaves_a_loop_is_listed_in_the_loop_around_it():
    """The innermost of three loops passes a flag to the middle one, that to the outermost."""

    def build():
        model = Model()

        def mapped_over(one):
            return lambda part: tuple(
                tf.reduce_sum(g, 0) for g in tf.map_fn(one, part, dtype=(tf.float32,) * 2)
            )

        middle = mapped_over(lambda turn: tuple(model.gradients(*turn)))
        parts = tf.reshape(model.x, (2, 1, 2, 6)), tf.reshape(model.factors, (2, 1, 2))
        model.apply(tf.map_fn(mapped_over(middle), parts, dtype=(tf.float32,) * 2))

    converted = graphmp.convert(built(build), compute_dtype="float32", loss_scale="dynamic")
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(converted.meta_graph)
        left = [
            op
            for op in graph.get_operations()
            if op.name.startswith("graphmp/loss_scale") and op.type == "Exit"
        ]
        around = [op.inputs[0].op._get_control_flow_context().outer_context for op in left]
        assert [op._get_control_flow_context() for op in left] == around
        assert len(set(around)) == 3


def two_steps():
    """A function that two losses' steps call, and what trains nothing."""
    model = Model()
    rows = tf.get_variable("rows", (TURNS, 6))

    @tf.function
    def gradients(x, factor):
        w, v = model.variables
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(x, w)), v) - 1.0)) * factor
        return tuple(tf.gradients(loss, [w, v, x]))

    by_w, by_v = tf.tuple(list(gradients(model.x, model.factors[0])[:2]))
    tf.train.GradientDescentOptimizer(0.1).apply_gradients(
        [(by_w, model.variables[0]), (by_v, model.variables[1])], name="train"
    )
    tf.train.GradientDescentOptimizer(0.1).apply_gradients(
        [(gradients(rows + 0.0, model.factors[1])[2], rows)], name="other"
    )
    tf.identity(gradients(2 * model.x, model.factors[2])[0], name="shown")
    tf.global_variables_initializer()


def test_steps_that_call_one_function_have_scales_of_their_own():
    before = built(two_steps)
    converted = graphmp.convert(
        before, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0
    )
    assert converted.report["warnings"] == []
    assert [row["scale"] for row in converted.report["losses"]] == [
        "graphmp/loss_scale/current",
        "graphmp/loss_scale_1/current",
    ]
    assert all(
        row["gradient_scope"].startswith("library/")
        and row["gradient_scope"].endswith("/gradients")
        for row in converted.report["losses"]
    )
    feed = {"x:0": ROWS, "factors:0": ONES}
    with session(before, None, True) as sess:
        start, shown = copies(state(sess)), sess.run("shown:0", feed)
        sess.run("other", feed)
        sess.run("train", feed)
        expected = copies(state(sess))
    with session(converted.meta_graph, start, True) as sess:
        np.testing.assert_allclose(sess.run("shown:0", feed), shown, rtol=1e-6)
        sess.run(
            ["train", "other"], dict(feed, **{"factors:0": np.array([np.inf, 1, 1, 1], np.float32)})
        )
        after = state(sess)
        assert (
            changed({name: start[name] for name in ("w", "v")}, after) == []
            and after["graphmp/loss_scale_1/scale"] == 64.0
        )
        sess.run("train", feed)
        agree(start, expected, state(sess))


def test_half_precision_in_functions():
    """The last matmul gives one number, the model's output, and is float32."""
    converted = conversion(called, compute_dtype="float16", loss_scale=2.0**24)
    nodes = [
        node
        for function in converted.meta_graph.graph_def.library.function
        for node in function.node_def
        if node.op == "MatMul"
    ]
    (last,) = [node for node in nodes if node.attr["T"].type != tf.float16.as_datatype_enum]
    assert len(nodes) > 5 and last.name == "MatMul_1"
    tiny = ONES * np.float32(1e-10)
    start, scaled = run(converted.meta_graph, [tiny])
    _, without = run(
        conversion(called, compute_dtype="float16", loss_scale="none").meta_graph, [tiny], start
    )
    assert scaled["w/Adam_1"].any() and not without["w/Adam_1"].any()


def test_a_function_that_a_data_set_uses_too_is_said():
    """No scale can be passed to it."""

    def build():
        model = Model()
        take = Defun(tf.float32, tf.float32, tf.float32, tf.float32, func_name="take")(taken)
        calls = [take(model.x[n], model.factors[n], *model.variables) for n in range(2)]
        model.apply(
            [
                tf.stack([tf.reshape(g, v.shape) for g in each])
                for each, v in zip(zip(*calls), model.variables)
            ]
        )
        rows = tf.data.Dataset.from_tensors((np.zeros(6, np.float32), np.float32(0)))
        made = rows.map(
            lambda row, factor: tuple(take(row, factor, tf.zeros((6, 4)), tf.zeros((4, 1))))
        )
        tf.data.make_one_shot_iterator(made).get_next()

    converted = graphmp.convert(built(build), compute_dtype="float32", loss_scale="dynamic")
    (row,) = converted.report["warnings"]
    assert row["code"] == "GMP110" and row["node"] == "take"
    assert not converted.report["losses"][0]["scale"]


def taken(row, factor, w, v):
    """The gradients of one row, by what it is given."""
    loss = tf.reduce_sum(
        tf.square(tf.matmul(tf.tanh(tf.matmul(tf.expand_dims(row, 0), w)), v) - 1.0)
    )
    return tuple(tf.gradients(loss * factor, [w, v]))


def test_calls_in_loops_that_train_nothing_are_given_one():
    """Of a function that a loss's gradients are taken by, too."""

    def build():
        model = Model()
        function = function_of(model, tf.function)
        model.apply([tf.expand_dims(g, 0) for g in function((model.x[0], model.factors[0]))])
        shown = tf.map_fn(
            lambda turn: tuple(function(turn)), (model.x, model.factors), dtype=(tf.float32,) * 2
        )
        tf.identity(shown[0], name="shown")
        tf.global_variables_initializer()

    before = built(build)
    converted = graphmp.convert(before, compute_dtype="float32", loss_scale=1024.0)
    assert converted.report["warnings"] == []
    feed = {"x:0": ROWS, "factors:0": ONES}
    with session(before) as sess:
        start, expected = copies(state(sess)), sess.run("shown:0", feed)
    with session(converted.meta_graph, start) as sess:
        np.testing.assert_allclose(sess.run("shown:0", feed), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.unit
@pytest.mark.parametrize("shape", [mapped, *FUNCTIONS], ids=lambda shape: shape.__name__)
def test_the_loss_is_named(shape):
    """With a scale and without one."""
    rows = [
        row
        for loss_scale in ("dynamic", "none")
        for row in conversion(shape, compute_dtype="float16", loss_scale=loss_scale).report[
            "losses"
        ]
    ]
    assert len(rows) == 2 and all(
        row["loss"] and row["seeds"] and row["train_ops"] == ["train"] for row in rows
    )
    assert {row["gradient_scope"].startswith("library/") for row in rows} == {shape in FUNCTIONS}


@pytest.mark.unit
@pytest.mark.parametrize("shape", [mapped, legacy, called], ids=lambda shape: shape.__name__)
def test_the_op_that_trains_may_be_named(shape):
    found, named = (
        conversion(shape, compute_dtype="float32", loss_scale=1024.0, **options)
        for options in ({}, {"train_op": "train"})
    )
    assert named.report["losses"] == found.report["losses"] != []
    assert named.report["warnings"] == found.report["warnings"] == []


@pytest.mark.unit
def test_that_gradients_are_taken_in_a_loop_is_said():
    (row,) = conversion(mapped, compute_dtype="float16", loss_scale="dynamic").report["losses"]
    assert row["in_loop"]


@pytest.mark.unit
def test_gradients_of_a_loop_are_clipped_without_a_scale_too():
    report = conversion(mapped, compute_dtype="float32", loss_scale="none", clip_norm=1.0).report
    assert [bool(row["clip"]) for row in report["losses"]] == [True] and not report["warnings"]


@pytest.mark.unit
def test_what_is_handed_to_functions_has_its_reason():
    converted = conversion(in_functions(mapped), compute_dtype="float32", loss_scale=1024.0)
    reasons = {
        (row["body"] != "", row["node"]): row["reason"] for row in converted.report["changes"]
    }
    handed = (
        "scale: handed to functions that take gradients; whether these are finite is handed back"
    )
    assert reasons[False, "map/while"] == handed
    assert reasons[True, "graphmp_loss_scale"] == handed
    assert reasons[False, "graphmp/loss_scale/current"] == "loss scale"
    assert reasons[True, "graphmp/loss_scale_1/unscale"].startswith("unscale: ")


@pytest.mark.unit
def test_functions_know_the_shapes_of_all_that_they_are_handed():
    """The parts of a loop are handed a flag too."""
    converted = conversion(in_functions(mapped), compute_dtype="float32", loss_scale=1024.0)
    missing = {
        len(function.signature.input_arg) - len(function.attr["_input_shapes"].list.shape)
        for function in converted.meta_graph.graph_def.library.function
        if "_input_shapes" in function.attr
    }
    assert missing == {0}


@pytest.mark.parametrize(
    "shape", [mapped, in_functions(mapped), legacy], ids=lambda shape: shape.__name__
)
def test_a_session_scales_them_too(shape):
    with tf.Graph().as_default() as graph:
        imported(built(lambda: (shape(Model()), tf.global_variables_initializer())))
        with graphmp.Session(graph=graph, compute_dtype="float32", loss_scale="dynamic") as sess:
            sess.run("init")
            factors = ONES.copy()
            factors[2] = np.inf
            for given, steps in ((factors, 0), (ONES, 1)):
                sess.run("train", {"x:0": ROWS, "factors:0": given})
                assert sess.run("global_step:0") == steps


@pytest.mark.unit
def test_a_loss_is_found_in_a_graph_without_collections():
    """An update kernel shows that gradients train, as nothing tells which variables do."""
    bare = tf.MetaGraphDef()
    bare.graph_def.CopyFrom(original(legacy).graph_def)
    _, (loss,) = losses_of(bare)
    assert len([scope.call for scope in loss.scopes if scope.call]) == TURNS


@pytest.mark.unit
def test_gradients_that_start_from_a_value_of_the_function():
    """By `grad_ys`, which TensorFlow copies."""

    def build():
        x, w = tf.placeholder(tf.float32, (2, 6), "x"), tf.get_variable("w", (6, 4))

        @Defun(tf.float32, tf.float32)
        def take(x, w):
            y = tf.matmul(x, w)
            return tf.gradients(y, w, 0.5 * tf.tanh(y))[0]

        tf.train.GradientDescentOptimizer(0.1).apply_gradients([(take(x, w), w)])

    _, (loss,) = losses_of(built(build))
    assert loss.scopes[0].call


@pytest.mark.unit
def test_a_body_of_a_loop_that_is_called_elsewhere_too_is_said():
    """A loop's body takes and returns more than other functions do."""

    def build():
        w = tf.get_variable("w", (6, 4))

        @Defun(tf.float32, tf.float32, tf.float32)
        def body(turn, x, total):
            loss = tf.reduce_sum(tf.square(tf.matmul(x, total)))
            return turn + 1.0, x, total + tf.gradients(loss, total)[0]

        @Defun(tf.float32, tf.float32, tf.float32)
        def goes_on(turn, x, total):
            return turn < 3.0

        first = body(0.0, tf.placeholder(tf.float32, (2, 6), "x"), w)
        last = While(list(first), goes_on, body)[2]
        tf.train.GradientDescentOptimizer(0.1).apply_gradients(
            [(tf.reshape(last, (6, 4)), w)], name="train"
        )

    converted = graphmp.convert(built(build), compute_dtype="float32", loss_scale=1024.0)
    assert [row["code"] for row in converted.report["warnings"]] == ["GMP110"]


@pytest.mark.unit
def test_a_branch_that_contains_nested_loops_concerns_the_outer_one():
    """Each of its turns runs the inner loop."""

    def loop(value, limit, turn):
        return tf.while_loop(lambda v: v < limit, turn, [value])

    def build():
        x = tf.placeholder(tf.float32, ())
        tf.cond(x > 0.0, lambda: loop(x, 8.0, lambda v: loop(v, 4.0, lambda v: v + 1.0)), lambda: x)

    read, _ = losses_of(built(build))
    sides = {len(path): len(read.sides_of_loop(path)) for path in read.loop_conditions}
    assert sides == {1: 1, 2: 0}
