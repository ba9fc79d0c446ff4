"""Gradients that a while loop takes and a step behind it applies: an overflow in any turn skips the step."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.painting import built
from tests.support.scaled import changed, session
from tests.support.training import state

TURNS = 4
ROWS = np.random.RandomState(5).standard_normal((TURNS, 6)).astype(np.float32)
ONES = np.ones(TURNS, np.float32)


class Model:
    """Two layers, and the gradients of one row's loss, which the row's item of `factors` multiplies."""

    def __init__(self):
        tf.set_random_seed(1)
        self.x, self.factors = tf.placeholder(tf.float32, (TURNS, 6), "x"), tf.placeholder(tf.float32, (TURNS,), "factors")
        self.variables = [tf.get_variable("w", (6, 4)), tf.get_variable("v", (4, 1))]

    def gradients(self, row, factor):
        w, v = self.variables
        loss = tf.reduce_sum(tf.square(tf.matmul(tf.tanh(tf.matmul(tf.expand_dims(row, 0), w)), v) - 1.0))
        return tf.gradients(loss * factor, [w, v])

    def apply(self, gradients):
        gradients = tf.tuple([tf.reduce_sum(g, 0) for g in gradients])
        step = tf.train.get_or_create_global_step()
        tf.train.AdamOptimizer(0.1).apply_gradients(zip(gradients, self.variables), step, name="train")


def mapped(model):
    model.apply(tf.map_fn(lambda turn: tuple(model.gradients(*turn)), (model.x, model.factors), dtype=(tf.float32,) * 2))


def clipped_by_value(model):
    """What isn't finite is, once it is clipped."""

    def one(turn):
        return tuple(tf.clip_by_value(g, -1.0, 1.0) for g in model.gradients(*turn))

    model.apply(tf.map_fn(one, (model.x, model.factors), dtype=(tf.float32,) * 2))


def nested(model):
    def inner(part):
        found = tf.map_fn(lambda turn: tuple(tf.clip_by_value(g, -1.0, 1.0) for g in model.gradients(*turn)), part, dtype=(tf.float32,) * 2)
        return tuple(tf.reduce_sum(g, 0) for g in found)

    parts = tf.reshape(model.x, (2, 2, 6)), tf.reshape(model.factors, (2, 2))
    model.apply(tf.map_fn(inner, parts, dtype=(tf.float32,) * 2))


def in_a_branch(model):
    def one(turn):
        return tuple(tf.cond(turn[1] > 0, lambda: model.gradients(*turn), lambda: [tf.zeros_like(v) for v in model.variables]))

    model.apply(tf.map_fn(one, (model.x, model.factors), dtype=(tf.float32,) * 2))


def two_loops(model):
    """One loop for each half, one step."""
    found = []
    for part in (slice(0, 2), slice(2, 4)):
        found.append(tf.map_fn(lambda turn: tuple(model.gradients(*turn)), (model.x[part], model.factors[part]), dtype=(tf.float32,) * 2))
    model.apply([tf.concat(each, 0) for each in zip(*found)])


def accumulated(model):
    """By an accumulator."""
    accumulators = [tf.ConditionalAccumulator(tf.float32, v.shape, shared_name=v.op.name) for v in model.variables]

    def body(turn):
        gradients = model.gradients(model.x[turn], model.factors[turn])
        with tf.control_dependencies([a.apply_grad(g, tf.int64.max) for a, g in zip(accumulators, gradients)]):
            return turn + 1

    with tf.control_dependencies([tf.while_loop(lambda turn: turn < TURNS, body, [0])]):
        model.apply([tf.expand_dims(a.take_grad(TURNS), 0) for a in accumulators])


SHAPES = [mapped, clipped_by_value, nested, in_a_branch, two_loops, accumulated]


@functools.lru_cache(maxsize=None)
def original(shape):
    def build():
        shape(Model())
        tf.global_variables_initializer()

    return built(build)


@functools.lru_cache(maxsize=None)
def conversion(shape, **options):
    return graphmp.convert(original(shape), **options)


def run(meta_graph, factors, start=None):
    with session(meta_graph, start) as sess:
        before = state(sess)
        for each in factors:
            sess.run("train", {"x:0": ROWS, "factors:0": each})
        return before, state(sess)


@pytest.mark.parametrize("loss_scale", [1024.0, "dynamic"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_updates_are_the_originals(shape, loss_scale):
    converted = conversion(shape, compute_dtype="float32", loss_scale=loss_scale)
    assert converted.report["warnings"] == [] and len(converted.report["losses"]) == 1
    start, expected = run(original(shape), [ONES] * 3)
    _, found = run(converted.meta_graph, [ONES] * 3, start)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=2e-6 * max(np.abs(value - start[name]).max(), 1e-30), err_msg=name)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_an_overflow_in_a_turn_skips_the_step(shape):
    converted = conversion(shape, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0)
    for turn in range(TURNS):
        factors = ONES.copy()
        factors[turn] = np.inf
        start, after = run(converted.meta_graph, [factors])
        counts = ["global_step"] if shape is accumulated else []
        own = ["graphmp/loss_scale/scale", "graphmp/loss_scale/skipped_steps"]
        assert changed(start, after) == sorted(own + counts) and after[own[0]] == 32.0 and after[own[1]] == 1
        _, later = run(converted.meta_graph, [factors, ONES], start)
        assert later["global_step"] == 1 + len(counts) and all(np.isfinite(value).all() for value in later.values())


def test_gradients_can_be_taken_of_such_a_loop():
    """What was put into it belongs to it."""
    converted = conversion(nested, compute_dtype="float32", loss_scale="dynamic", loss_scale_initial=64.0)
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(converted.meta_graph)
        loops = {op.name: op._get_control_flow_context() for op in graph.get_operations() if op.name.startswith("graphmp/loss_scale")}
        seed = next(context for name, context in loops.items() if name.endswith("scaled_seed"))
        assert seed.name == "map/while/map/while/while_context"
        stack = graph.get_tensor_by_name("map/TensorArrayStack/TensorArrayGatherV3:0")
        assert tf.gradients(stack, [graph.get_tensor_by_name("w:0")]) != [None]
