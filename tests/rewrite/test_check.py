"""The rewrite's check finds wrong graphs."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.structure import gradient_names
from graphmp.graph.structure.view import GraphView
from graphmp.rewrite import check, graph_parts
from graphmp.tf_hooks.internals import load_graph
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support import painting
from tests.support.painting import built, chain, converted, graph, half_nodes, nodes, verified
from tests.support.structure import EYE, TF2, W, X, of_op
from tests.support.tiny import BFLOAT16, FLOAT16
from tests.support.training_graphs import SHAPES


@pytest.mark.unit
def test_check_finds_an_edge_with_two_dtypes():
    before = graph(X, W, "m MatMul x w", w=EYE)
    check.check_types(GraphView(before.graph_def), OpDefs(before))
    nodes(before)["x"].attr["dtype"].type = BFLOAT16
    with pytest.raises(GraphmpError, match="GMP021: node m reads x as float32, which is bfloat16"):
        check.check_types(GraphView(before.graph_def), OpDefs(before))


@pytest.mark.unit
@pytest.mark.parametrize(
    "lines, message",
    [
        ((X, X), "GMP008: two nodes have the name x"),
        (
            (X, "y Sin nowhere"),
            "GMP008: node y has the input nowhere, but the graph has no node of that name",
        ),
    ],
)
def test_check_finds_broken_graphs(lines, message):
    broken = tf.MetaGraphDef()
    for line in lines:
        name, op, *inputs = [word for word in line.split() if "=" not in word]
        broken.graph_def.node.add(name=name, op=op, input=inputs)
    with pytest.raises(GraphmpError, match=message):
        check.check_types(GraphView(broken.graph_def), OpDefs(broken))


@pytest.mark.unit
def test_check_does_not_mind_ops_that_nobody_knows():
    before = graph(X, "own MyOp x", "y Sin own", "z Add y x")
    check.check_types(GraphView(before.graph_def), OpDefs(before))


@pytest.mark.unit
def test_check_refuses_what_does_not_load():
    before = graph(X, W, "m MatMul x w", w=EYE)
    after = painting.copy_of(before)
    del after.graph_def.node[0]
    with pytest.raises(
        GraphmpError, match="GMP021: TensorFlow loads the original and not the converted graph: "
    ):
        check.loaded(before, after)
    check.loaded(
        after, after
    )  # where the original doesn't load either, there is nothing to compare with


def test_a_large_graph_is_imported_in_parts(monkeypatch):
    before = built(SHAPES["plain"].build)
    sizes = []
    monkeypatch.setattr(check, "MOST_AT_ONCE", 20)
    monkeypatch.setattr(
        check,
        "load_graph",
        lambda graph_def: sizes.append(len(graph_def.node)) or load_graph(graph_def),
    )
    after = converted(before)
    assert len(sizes) >= len(after.graph_def.node) / 20
    assert max(sizes) < len(after.graph_def.node)
    of_op(after, "MatMul")[0].attr["T"].type = tf.qint8.as_datatype_enum  # which no matmul takes
    with pytest.raises(
        GraphmpError, match="GMP021: TensorFlow loads the original and not the converted graph: "
    ):
        check.loaded(before, after)


@pytest.mark.unit
@pytest.mark.parametrize("build", [build for build, _ in SHAPES.values()], ids=SHAPES)
def test_parts_of_a_graph_load_where_the_whole_does(build):
    after = converted(built(build))
    for part in graph_parts.parts(after.graph_def, OpDefs(after), 40):
        load_graph(part)


@pytest.mark.unit
@pytest.mark.parametrize("broken", ["colocated", "unknown op", "missing input"])
def test_what_cannot_be_taken_apart_is_imported_whole(broken):
    meta_graph = graph(
        X, W, "own MyOp x" if broken == "unknown op" else "own Sin x", "m MatMul own w", w=EYE
    )
    if broken == "colocated":
        nodes(meta_graph)["own"].attr["_class"].list.s.append(b"loc:@nowhere")
    elif broken == "missing input":
        nodes(meta_graph)["m"].input[0] = "nowhere"
    with pytest.raises(LookupError):
        list(graph_parts.parts(meta_graph.graph_def, OpDefs(meta_graph), 1))


def _shaped(node, *shapes):
    for shape in shapes:
        node.attr["_output_shapes"].list.shape.add().CopyFrom(tf.TensorShape(shape).as_proto())


@pytest.mark.unit
@pytest.mark.skipif(not TF2, reason="TensorFlow 1.15 doesn't compare recorded shapes")
def test_check_drops_stale_shapes():
    before = graph(X, W, "m MatMul x w", "s Sin m", "n MatMul s w", w=EYE)
    _shaped(nodes(before)["s"], [7, 7])
    _shaped(nodes(before)["m"], [4, 4])
    after = painting.copy_of(before)
    after = check.loaded(before, after).parsed()
    assert (
        "_output_shapes" not in nodes(after)["s"].attr
        and "_output_shapes" in nodes(after)["m"].attr
    )
    painting.dtypes_agree(after)
    assert half_nodes(converted(before))


def test_kernels_of_every_op_are_there(graph):
    """All ops that a conversion makes half run."""
    x = tf.placeholder(tf.float32, [4, 4, 4, 4], name="x")
    w = tf.constant(np.random.RandomState(0).rand(3, 3, 4, 4).astype(np.float32) * 0.1)
    activations = [
        tf.nn.relu,
        tf.nn.relu6,
        tf.nn.elu,
        tf.nn.selu,
        tf.nn.softplus,
        tf.nn.softsign,
        tf.nn.leaky_relu,
        tf.erf,
        tf.tanh,
        tf.sigmoid,
    ]
    layers = [lambda y, f=f: f(y) for f in activations]
    layers += [
        lambda y: tf.nn.max_pool(y, 2, 1, "SAME"),
        lambda y: tf.nn.avg_pool(y, 2, 1, "SAME"),
        lambda y: tf.pad(y, [[0, 0], [0, 0], [0, 0], [0, 0]]),
        lambda y: tf.transpose(y, [0, 2, 1, 3]),
        lambda y: tf.concat([y, y], 3)[:, :, :, 1:5],
        lambda y: tf.add_n(tf.split(tf.tile(y, [1, 1, 1, 2]), 2, 3)),
        lambda y: tf.stack(tf.unstack(y)),
        lambda y: tf.reverse(tf.where(y > 0.0, y, -y), [1]),
        lambda y: tf.clip_by_value(tf.reshape(y, [4, 4, 4, 4]), -1.0, 1.0),
        lambda y: tf.depth_to_space(tf.space_to_depth(y, 2), 2),
        lambda y: tf.batch_to_space(tf.space_to_batch(y, [[0, 0], [0, 0]], 2), [[0, 0], [0, 0]], 2),
        lambda y: tf.gather(y, [0, 2, 1, 3]) * tf.reduce_max(y),
        lambda y: tf.nn.softmax(y) + tf.nn.log_softmax(y),
        lambda y: tf.squeeze(tf.expand_dims(tf.abs(y), 0), 0),
        lambda y: tf.minimum(tf.maximum(y, 0.1), tf.sign(y) + 2.0),
        lambda y: y / (tf.stop_gradient(y) + 3.0) - 0.5,
    ]
    y = tf.nn.conv2d(x, w, 1, "SAME")
    for layer in layers:
        y = tf.nn.conv2d(layer(y), w, 1, "SAME")
    loss = tf.reduce_sum(y, name="loss")
    gradient = tf.gradients(loss, x)[0]
    before = tf.train.export_meta_graph()
    after = verified(before)
    values = painting.values(after, ["loss:0", gradient.name], painting.placeholders(before))
    assert all(np.isfinite(value).all() for value in values)
    kinds = {
        node.op
        for node in after.graph_def.node
        if node.op not in ("Cast", "Const") and node.name in half_nodes(after)
    }
    assert len(kinds) > 45, sorted(kinds)


@pytest.mark.unit
def test_combinations_of_ops_agree_in_numbers():
    for letters in itertools.product("aidc", repeat=3):
        verified(chain("x" + "".join(letters) + "a"))


@pytest.mark.unit
def test_a_function_that_is_differentiated_is_rewritten():
    """SymbolicGradient is a call; the library's gradient functions are included."""
    function = importlib.import_module("tensorflow.python.framework.function")

    def build():
        body = function.Defun(tf.float32, tf.float32, func_name="body")(
            lambda x, w: tf.matmul(tf.tanh(tf.matmul(x, w)), w)
        )
        x = tf.placeholder(tf.float32, [4, 4], "x")
        w = tf.Variable(np.eye(4, dtype=np.float32), name="w", use_resource=False)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(body(x, tf.identity(w))))

    graph_def = converted(built(build)).graph_def
    dtypes = {
        n.attr["T"].type for f in graph_def.library.function for n in f.node_def if "MatMul" in n.op
    }
    assert any(n.op == "SymbolicGradient" for n in graph_def.node) and dtypes == {FLOAT16}


@pytest.mark.unit
def test_a_gradient_scope_has_a_name():
    """The gradient of an AddN called AddN, in a scope that contains another AddN."""
    names = {"AddN", "gradients/AddN", "gradients/AddN_grad/tuple/group_deps", "m_grad/x", "w"}
    assert gradient_names.gradient_scopes(names) == {"gradients"}
    assert (
        "m_grad/x" not in gradient_names.proposed(names, gradient_names.claims(names))["gradients"]
    )
