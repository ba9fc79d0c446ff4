"""Graphs that are recognised: converted before, half already, without training."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.structure.view import GraphView
from graphmp.policy.policy import Policy
from graphmp.rewrite.recognise import recognise
from graphmp.tf_hooks.gradient_calls import noted
from graphmp.version import __version__
from tests.support.painting import built, chain, converted, graph, half_nodes, rewrite, verified
from tests.support.structure import EYE, W, X, _trained, codes, of_op
from tests.support.tiny import FLOAT16


@pytest.mark.unit
def test_an_inference_graph_is_converted_with_a_warning():
    rewriting = rewrite(chain("xaia"))
    assert (
        codes(rewriting)["GMP105"]["message"]
        == "no training in this graph: no gradient code was found"
    )
    assert half_nodes(rewriting.meta_graph)
    assert "GMP105" not in codes(rewrite(built(_trained)))


def _by_hand(resource: bool, trainable: bool = True, initial: bool = False):
    x = tf.placeholder(tf.float32, (4, 4), name="x")
    value = tf.matmul(x, x, name="value")
    variables = {"use_resource": resource, "trainable": trainable}
    if initial:
        tf.get_variable("weight", initializer=tf.matmul(tf.eye(4), tf.eye(4)), **variables)
    else:
        weight = tf.get_variable("weight", (4, 4), **variables)
        weight.assign_sub(0.1 * tf.nn.relu(value), name="step")


@pytest.mark.unit
@pytest.mark.parametrize("resource", (False, True))
def test_gradients_that_the_graph_computes_itself(resource):
    row = codes(rewrite(built(lambda: _by_hand(resource))))["GMP105"]
    assert row["message"].startswith(
        "%s updates weight from value, by a gradient that tf.gradients didn't compute: it is not"
        " scaled, so that" % row["node"]
    )
    assert row["node"].split("/")[0] == "step"
    said = codes(rewrite(built(lambda: _by_hand(resource)), compute_dtype="bfloat16"))["GMP105"]
    assert said["message"].endswith("it is not scaled")
    for options in ({"trainable": False}, {"initial": True}):
        row = codes(rewrite(built(lambda options=options: _by_hand(resource, **options))))
        assert row["GMP105"]["message"].startswith("no training in this graph")


@pytest.mark.unit
def test_a_graph_that_is_half_already():
    before = built(
        lambda: tf.matmul(tf.placeholder(tf.float16, [4, 4]), tf.constant(EYE.astype(np.float16)))
    )
    rewriting = rewrite(before)
    assert codes(rewriting)["GMP108"]["message"].startswith(
        "already half precision (1 of 1 matmuls and convolutions)"
    )
    assert rewriting.meta_graph == before


@pytest.mark.unit
def test_a_graph_in_mixed_precision_by_hand():
    def build():
        x = tf.placeholder(tf.float32, [4, 4])
        with tf.variable_scope("fp32_vars"):
            w = tf.get_variable("w", [4, 4])
        y = tf.matmul(tf.cast(x, tf.float16), tf.cast(w, tf.float16))
        for _ in range(3):
            y = tf.matmul(tf.cast(y, tf.float32), w)

    rewriting = rewrite(built(build))
    assert (
        "already mixed precision by hand (1 of 4 matmuls and convolutions in half"
        in codes(rewriting)["GMP108"]["message"]
    )
    assert "below fp32_vars)" in codes(rewriting)["GMP108"]["message"]


def test_a_graph_with_some_half_in_it_is_converted():
    def build():
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        y = tf.cast(
            tf.matmul(tf.cast(x, tf.float16), tf.constant(EYE.astype(np.float16))), tf.float32
        )
        for _ in range(3):
            y = tf.matmul(y, tf.constant(EYE))
        tf.identity(y, name="y")

    after = verified(built(build), ["y:0"])
    assert {node.attr["T"].type for node in of_op(after, "MatMul")} == {FLOAT16}


@pytest.mark.unit
def test_an_allowed_op_without_a_dtype_is_not_half():
    def build():
        table = tf.placeholder(tf.float32, [8, 4])
        rows = [tf.gather(table, tf.constant([0, 1, 2, number])) for number in range(3)]
        tf.matmul(tf.add_n(rows), tf.constant(EYE), name="product")

    rewriting = rewrite(built(build), "allow GatherV2")
    assert "GMP108" not in codes(rewriting)
    assert of_op(rewriting.meta_graph, "MatMul")[0].attr["T"].type == FLOAT16


@pytest.mark.unit
def test_a_float64_graph():
    before = built(
        lambda: tf.matmul(tf.placeholder(tf.float64, [4, 4]), tf.constant(EYE.astype(np.float64)))
    )
    rewriting = rewrite(before)
    assert codes(rewriting)["GMP108"]["message"].startswith(
        "float64 throughout (1 matmuls and convolutions)"
    )
    assert rewriting.meta_graph == before


@pytest.mark.unit
def test_a_variable_of_that_name_that_no_gradient_depends_on(graph):
    """One that a Saver of another run left in a .meta, for example."""
    tf.get_variable("loss_scale", [], use_resource=False)
    w = tf.get_variable("w", [4, 4], use_resource=False)
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.nn.l2_loss(tf.matmul(tf.ones([4, 4]), w)))
    assert "GMP107" not in codes(rewrite(tf.train.export_meta_graph()))


@pytest.mark.unit
@pytest.mark.parametrize(
    "name, found",
    [
        ("loss_scale", True),
        ("optimizer/loss_scale", True),
        ("current_loss_scale", True),
        ("loss_scaler/value", True),
        ("DynamicLossScale/good", True),
        ("loss", False),
        ("scale", False),
        ("gloss_scale_weight", False),
    ],
)
def test_own_loss_scaling_by_the_name_of_a_variable(name, found):
    before = graph(X, W, "m MatMul x w", "%s VariableV2 dtype=float32 shape=[]" % name, w=EYE)
    rewriting = rewrite(before)
    assert ("GMP107" in codes(rewriting)) == found
    if found:
        assert codes(rewriting)["GMP107"]["node"] == name and half_nodes(rewriting.meta_graph)


@pytest.mark.unit
@pytest.mark.parametrize(
    "scale, unscale, found",
    [
        (128.0, lambda gradients: [g / 128.0 for g in gradients], True),
        (1024.0, lambda gradients: [g * (1 / 1024.0) for g in gradients], True),
        (128.0, lambda gradients: [g * (1 / tf.constant(128.0)) for g in gradients], True),
        (128.0, lambda gradients: [g * 0.01 for g in gradients], False),  # a learning rate
        (128.0, lambda gradients: gradients, False),
        (2.0, lambda gradients: [g / 2.0 for g in gradients], False),  # a mean of two
        (2.0, lambda gradients: [g * 0.5 for g in gradients], False),
        (128.0, lambda gradients: [gradients[0] / 128.0, gradients[1] / 256.0], False),
        (128.0, lambda gradients: [gradients[0] / 128.0, gradients[1]], False),
    ],
)
def test_own_loss_scaling_by_a_common_divisor(scale, unscale, found, graph):
    x = tf.placeholder(tf.float32, [4, 4])
    ws = [tf.Variable(EYE, name="w%d" % i, use_resource=False) for i in range(2)]
    y = tf.reduce_sum(tf.matmul(tf.tanh(tf.matmul(x, ws[0])), ws[1]))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    optimizer.apply_gradients(zip(unscale(tf.gradients(y * scale, ws)), ws))
    assert ("GMP107" in codes(rewrite(tf.train.export_meta_graph()))) == found


@pytest.mark.unit
@pytest.mark.parametrize(
    "options", [{"keep_float32": ["x"]}, {"compute_dtype": "bfloat16"}, {"loss_scale": 128}]
)
def test_another_conversion_is_refused(options):
    after = converted(chain("xa"))
    with pytest.raises(
        GraphmpError,
        match=(
            r"GMP022: the graph was converted by graphmp .* with --compute_dtype=float16"
            r" --loss_scale=none; convert the original again"
        ),
    ):
        rewrite(after, **options)


@pytest.mark.unit
def test_another_versions_conversion_is_refused():
    after = converted(chain("xa"))
    value = after.collection_def["graphmp"].bytes_list.value
    value[0] = value[0].replace(__version__.encode(), b"0.0.0")
    with pytest.raises(
        GraphmpError, match=r"GMP022: the graph was converted by graphmp 0\.0\.0 with"
    ):
        rewrite(after)


@pytest.mark.unit
def test_how_a_graph_was_converted_does_not_matter():
    after = converted(chain("xa"))
    assert rewrite(after, engine="rewrite", engine_strict=True).meta_graph == after


@pytest.mark.unit
@pytest.mark.parametrize(
    "name", ["x_graphmp_float16", "a/b_1_graphmp_float32", "x_graphmp_bfloat16_3"]
)
def test_a_conversion_without_its_mark_is_refused(name):
    with pytest.raises(GraphmpError, match=r"GMP022: .*\(node %s\)" % name):
        rewrite(graph(X, W, "m MatMul x w", "%s Sin x" % name, w=EYE))


@pytest.mark.unit
@pytest.mark.parametrize("text", [b'{"flags": []}', b'{"flags": null}', b"{}", b"[]", b"no JSON"])
def test_a_mark_without_flags_is_none(text):
    before = chain("xa")
    before.collection_def["graphmp"].bytes_list.value.append(text)
    assert half_nodes(converted(before)) == half_nodes(converted(chain("xa")))


@pytest.mark.unit
def test_names_that_only_look_like_a_conversion():
    assert half_nodes(
        converted(graph(X, W, "graphmp_float16 MatMul x w", "x_graphmp_float16y Sin x", w=EYE))
    )


@pytest.mark.unit
def test_a_tape_in_a_function_is_training():
    with tf.Graph().as_default() as graph:
        weight = tf.get_variable("weight", (3, 3), use_resource=True)

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.tanh(tf.matmul(x, weight)) ** 2)
            weight.assign_sub(tape.gradient(loss, weight))
            return loss

        tf.identity(step(tf.placeholder(tf.float32, (4, 3))), name="train")
        meta_graph = tf.train.export_meta_graph()
    for function in meta_graph.graph_def.library.function:
        assert not any("_grad/" in node.name for node in function.node_def)
    given = (
        meta_graph,
        GraphView(meta_graph.graph_def),
        Config.make(),
        Policy.default("float16"),
        frozenset(),
    )
    assert [row["code"] for row in recognise(*given).warnings] == ["GMP105"]
    assert recognise(*given, noted(graph)).warnings == []
