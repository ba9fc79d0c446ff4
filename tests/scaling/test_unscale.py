"""Outputs of gradient code, and the nodes between them and the updates."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.graph.structure.view import GraphView
from tests.support.models import two_layers
from tests.support.painting import built, nodes
from tests.support.structure import of_op
from tests.support.training_graphs import sgd, square, vectors

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("loss_scale", [128.0, "dynamic"])
def test_a_number_of_gradient_code_without_the_scale_in_it_is_left_alone(loss_scale):
    """The divisor of the mean's gradient, read outside."""

    def build():
        loss = square(two_layers(vectors(None)))
        sgd().minimize(loss, name="train")
        tf.identity(
            tf.get_default_graph().get_tensor_by_name("gradients/loss_grad/Cast:0"), name="count"
        )

    converted = graphmp.convert(built(build), loss_scale=loss_scale, compute_dtype="float32")
    (loss,) = converted.report["losses"]
    found = nodes(converted.meta_graph)
    assert list(found["count"].input) == ["gradients/loss_grad/Cast"]
    assert len(loss["unscale"]) == 4 and set(loss["unscale"]) <= set(found)


def partly_half(cast):
    """A float32 model with a float16 variable, the only one trained.

    `cast` is the name of its casts.
    """
    factor = tf.get_variable("factor", (12,), tf.float16, tf.ones_initializer(), use_resource=False)
    x = tf.cast(tf.cast(vectors(), tf.float16, name=cast) * factor, tf.float32, name=cast)
    sgd().minimize(square(two_layers(x)), var_list=[factor], name="train")


@pytest.mark.parametrize("cast", ["own", "Cast"])
def test_gradients_that_the_model_has_in_half_precision_come_back_so(cast):
    """They are divided in float32."""
    converted = graphmp.convert(built(lambda: partly_half(cast)), loss_scale=128.0).meta_graph
    view = GraphView(converted.graph_def)
    (update,) = of_op(converted, "ApplyGradientDescent")
    gradient = view.nodes[view.inputs(update.name)[2].node]
    assert gradient.op == "Cast" and gradient.attr["DstT"].type == tf.float16.as_datatype_enum
    assert gradient.input[0].startswith("graphmp/")
    assert view.nodes[gradient.input[0]].attr["T"].type == tf.float32.as_datatype_enum


@pytest.mark.parametrize("loss_scale", ["none", 128.0, "dynamic"])
def test_the_clip_takes_gradients_as_they_are_before_the_models_own_arithmetic(loss_scale):
    """Like the finite check: the model's arithmetic reads clipped gradients."""

    def build():
        pairs = sgd().compute_gradients(square(two_layers(vectors())))
        sgd().apply_gradients(
            [(tf.multiply(g, 10.0, name="own"), v) for g, v in pairs], name="train"
        )

    converted = graphmp.convert(
        built(build), loss_scale=loss_scale, clip_norm=1.0, compute_dtype="float32"
    ).meta_graph
    view = GraphView(converted.graph_def)
    norms = [node.name for node in of_op(converted, "L2Loss")]
    assert len(norms) == 4 and not any(name.startswith("own") for name in view.ancestors(norms))
    own = [name for name in view.nodes if name.startswith("own") and view.nodes[name].op == "Mul"]
    assert len(own) == 4 and set(norms) < view.ancestors(own)
    assert all(view.inputs(name)[0].node.startswith("graphmp/") for name in own)


def test_what_an_unknown_op_of_gradient_code_returns_is_read_outside_as_it_is():
    """Gradient code reads it multiplied by the scale."""

    @tf.custom_gradient
    def layer(x):
        return tf.identity(x), tf.sin

    def build():
        sgd().minimize(square(layer(two_layers(vectors()))), name="train")
        (sine,) = [op for op in tf.get_default_graph().get_operations() if op.type == "Sin"]
        tf.identity(sine.outputs[0], name="seen")

    converted = graphmp.convert(built(build), loss_scale=128.0, compute_dtype="float32").meta_graph
    view, (sine,) = GraphView(converted.graph_def), of_op(converted, "Sin")
    readers = {consumer.node for consumer in view.consumers(sine.name)}
    assert "seen" in readers
    assert all(name.startswith("graphmp/loss_scale/rescaled") for name in readers - {"seen"})


def test_complex_gradients_reach_a_python_function_unscaled():
    """They can't be multiplied in place: before they are made complex, and afterwards."""

    @tf.custom_gradient
    def by_python(z):
        return tf.identity(z), lambda dz: tf.py_func(lambda value: value, [dz], tf.complex64)

    def build():
        result = by_python(tf.cast(two_layers(vectors()), tf.complex64))
        sgd().minimize(square(tf.real(result)), name="train")

    converted = graphmp.convert(built(build)).meta_graph
    view, (function,) = GraphView(converted.graph_def), of_op(converted, "PyFunc")
    before, behind = view.ancestors([function.name]), view.descendants([function.name])
    assert any("/unscale" in name for name in before)
    assert any("/rescaled" in name for name in behind)
