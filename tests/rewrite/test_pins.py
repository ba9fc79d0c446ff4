"""Nodes that keep their dtype, as tables of tiny graphs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support import painting
from tests.support.painted import W, X
from tests.support.painting import chain, decide, graph
from tests.support.tiny import FLOAT16, FLOAT32


@pytest.mark.unit
@pytest.mark.parametrize(
    "lines, half, floats",
    [
        pytest.param(
            [X, W, "m MatMul x w", "graphmp/k Abs m", "n MatMul graphmp/k w"],
            {"m", "n"},
            {"graphmp/k": "loss scale: computes in float32"},
            id="the loss scale's own nodes",
        ),
        pytest.param(
            [X, "v VariableV2 shape=[4,4] dtype=float32", "read Identity v", "m MatMul x read"],
            {"m"},
            {"read": "variable: reads v"},
            id="reference variable",
        ),
        pytest.param(
            [
                X,
                "v VarHandleOp shape=[4,4] dtype=float32",
                "read ReadVariableOp v dtype=float32",
                "m MatMul x read",
            ],
            {"m"},
            {"read": "resource: read from v"},
            id="resource variable",
        ),
        pytest.param(
            [
                X,
                "v VariableV2 shape=[9,4] dtype=float32",
                "read Identity v",
                "ids Placeholder dtype=int32",
                "g Gather read ids",
                "m MatMul g x",
            ],
            {"m"},
            {"g": "look-up: the rows of v are cast, not the table"},
            id="Gather on a variable",
        ),
        pytest.param(
            [
                X,
                "v VariableV2 shape=[9,4] dtype=float32",
                "read Identity v",
                "ids Placeholder dtype=int32",
                "axis Const",
                "g GatherV2 read ids axis",
                "c Relu g",
                "m MatMul c x",
            ],
            {"m", "c"},
            {"g": "look-up: the rows of v are cast, not the table"},
            id="GatherV2 on a variable",
        ),
        pytest.param(
            [
                X,
                W,
                "ids Placeholder dtype=int32",
                "axis Const",
                "n MatMul x w",
                "g GatherV2 n ids axis",
                "m MatMul g w",
            ],
            {"m", "n", "g"},
            {},
            id="GatherV2 on an activation",
        ),
        pytest.param(
            [
                X,
                "v VarHandleOp shape=[9,4] dtype=float32",
                "ids Placeholder dtype=int32",
                "g ResourceGather v ids dtype=float32",
                "m MatMul g x",
            ],
            {"m"},
            {"g": "resource: read from v"},
            id="ResourceGather",
        ),
        pytest.param(
            [
                X,
                W,
                "m MatMul x w",
                "i Cast m SrcT=float32 DstT=int32",
                "f Cast i SrcT=int32 DstT=float32",
                "n MatMul f w",
            ],
            {"n"},
            {
                "m": "magnified: i (Cast) magnifies its rounding",
                "i": "own cast: the model casts here itself",
                "f": "own cast: the model casts here itself",
            },
            id="casts of the model",
        ),
        pytest.param(
            [
                X,
                W,
                "m MatMul x w",
                "d Cast m SrcT=float32 DstT=float64",
                "f Cast d SrcT=float64 DstT=float32",
                "n MatMul f w",
            ],
            {"m", "n"},
            {"d": "own cast", "f": "own cast"},
            id="float64",
        ),
        pytest.param(
            [
                X,
                W,
                "b Placeholder dtype=bool shape=[4,4]",
                "f Cast b SrcT=bool DstT=float32",
                "m MatMul f w",
            ],
            {"m", "f"},
            {},
            id="cast from bool",
        ),
        pytest.param(
            [
                X,
                W,
                "b Placeholder dtype=uint8 shape=[4,4]",
                "f Cast b SrcT=uint8 DstT=float32",
                "m MatMul f w",
            ],
            {"m", "f"},
            {},
            id="cast from uint8",
        ),
        pytest.param(
            [
                X,
                W,
                "b Placeholder dtype=uint8 shape=[4,4]",
                "f Cast b SrcT=uint8 DstT=float32",
                "e Exp f",
                "m MatMul e w",
            ],
            {"m"},
            {"f": "clear"},
            id="cast from uint8 to a denied op",
        ),
        pytest.param(
            [
                X,
                W,
                "b Placeholder dtype=int64 shape=[4,4]",
                "f Cast b SrcT=int64 DstT=float32",
                "m MatMul f w",
            ],
            {"m"},
            {"f": "own cast"},
            id="cast from int64",
        ),
        pytest.param(
            [X, "gate GRUBlockCell x x x x x x"],
            set(),
            {"gate": "no kernel: GRUBlockCell takes no float16"},
            id="an op that takes no half",
        ),
        pytest.param(
            [X, W, "m MatMul x w", "t Where m T=float32"],
            {"m"},
            {"t": "no kernel: Where has none of float16 on every device"},
            id="no kernel",
        ),
    ],
)
def test_pins(lines, half, floats):
    constants = {"w": np.eye(4), "axis": np.int32(0)}
    meta_graph = graph(
        *lines,
        **{
            name: value
            for name, value in constants.items()
            if any(line.startswith(name + " ") for line in lines)
        },
    )
    painted = decide(meta_graph)
    assert half == painted.half - {"w"}
    for name, reason in floats.items():
        assert painted.reasons[name].startswith(reason), painted.reasons[name]
    painting.verified(meta_graph)


@pytest.mark.unit
def test_update_math_is_float32(graph):
    """Descendants of gradients outside gradient code.

    Clips, norms, a hand-written optimizer, its matmuls included.
    """
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(np.eye(4, dtype=np.float32), name="w", use_resource=False)
    y = tf.matmul(tf.nn.relu(tf.matmul(x, w)), w)
    gradient = tf.gradients(tf.reduce_sum(y), w)[0]
    clipped = tf.clip_by_value(gradient, -1.0, 1.0, name="clipped")
    decayed = tf.add(clipped, tf.nn.relu(clipped, name="kept"), name="decayed")
    preconditioned = tf.matmul(decayed, decayed, name="preconditioned")
    tf.assign_sub(w, preconditioned, name="update")
    painted = decide(tf.train.export_meta_graph())
    for name in ("decayed", "kept", "preconditioned"):
        assert painted.reasons[name] == "update math: computes in float32 on gradients"
    ours = ("clipped", "decayed", "kept", "preconditioned")
    assert not {name for name in painted.half if name.startswith(ours)}
    assert painted.reasons["update"].startswith("variable: reads w")


@pytest.mark.unit
@pytest.mark.parametrize("learns", [True, False])
def test_losses_of_changed_weights_are_no_update_math(graph, learns):
    """An inner step of meta-learning: its weights are multiplied, trained through or evaluated."""
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(np.eye(4, dtype=np.float32), name="w", use_resource=False)
    inner = tf.reduce_sum(tf.square(tf.matmul(x, w)))
    changed = tf.subtract(w, 0.1 * tf.gradients(inner, w)[0], name="changed")
    outer = tf.reduce_sum(tf.square(tf.matmul(x, changed, name="product")))
    loss = outer if learns else inner
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[w])
    painted = decide(tf.train.export_meta_graph())
    assert "product" in painted.half
    assert painted.reasons["changed"] == "update math: computes in float32 on gradients"


def _signed(meta_graph, **tensors):
    for name, tensor in tensors.items():
        meta_graph.signature_def["serving"].outputs[name].name = tensor
    return meta_graph


@pytest.mark.unit
def test_what_signatures_name_keeps_its_dtype():
    painted = decide(_signed(chain("xacac"), y="c2:0"))
    assert (
        painted.reasons["c2"] == "fetched: keeps its dtype (signature serving)"
        and {"a1", "a3", "c4"} <= painted.half
    )
    sparse = chain("xaca")
    sparse.signature_def["serving"].outputs["y"].coo_sparse.values_tensor_name = "c2:0"
    assert decide(sparse).reasons["c2"].startswith("fetched")
    given = chain("xyca")
    given.signature_def["serving"].inputs["x"].name = "y1:0"
    assert decide(given).reasons["y1"].startswith("fetched")


def test_collections_keep_outputs_and_not_activations():
    meta_graph = chain("xacac")
    meta_graph.collection_def["endpoints"].node_list.value.extend(["c2:0", "c4:0"])
    painted = decide(meta_graph)
    assert "c2" in painted.half
    assert painted.reasons["c4"] == "fetched: keeps its dtype (collection endpoints)"
    after = painting.verified(meta_graph, ["c2:0", "c4:0"])
    assert after.collection_def["endpoints"] == meta_graph.collection_def["endpoints"]


@pytest.mark.parametrize("resource", [False, True])
def test_definitions_of_variables_keep_their_dtype(resource, graph):
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    start = tf.matmul(
        tf.constant(np.eye(4, dtype=np.float32)), tf.constant(np.eye(4, dtype=np.float32))
    )
    w = tf.Variable(tf.nn.relu(start, name="start"), name="w", use_resource=resource)
    tf.nn.relu(tf.matmul(x, w), name="y")
    meta_graph = tf.train.export_meta_graph()
    painted = decide(meta_graph)
    assert painted.reasons["start"].startswith("variable: named by its definition (collection ")
    reads = [
        name
        for name, node in painting.nodes(meta_graph).items()
        if node.op in ("ReadVariableOp", "Identity")
    ]
    assert reads and not set(reads) & painted.half
    painting.verified(meta_graph, ["y:0"])


@pytest.mark.parametrize("op", ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
def test_batch_normalisation_keeps_its_statistics_in_float32(op):
    lines = [
        "x Placeholder shape=[2,4,4,4]", "w Const", "ones Const", "empty Const",
        "c1 Conv2D x w strides=[1,1,1,1] padding=\"SAME\"",
        "n %s c1 ones ones empty empty" % op, "r Relu n",
        "c2 Conv2D r w strides=[1,1,1,1] padding=\"SAME\"",
    ]  # fmt: skip
    filters = np.random.RandomState(0).rand(3, 3, 4, 4) * 0.1
    meta_graph = graph(*lines, w=filters, ones=np.ones(4), empty=np.zeros(0))
    painted = decide(meta_graph)
    assert {"c1", "n", "r", "c2"} <= painted.half
    after = painting.verified(meta_graph, ["n:0", "n:1", "n:2", "c2:0"])
    node = painting.nodes(after)["n"]
    assert node.op == ("FusedBatchNormV2" if op == "FusedBatchNorm" else op)
    assert (node.attr["T"].type, node.attr["U"].type) == (FLOAT16, FLOAT32)
    assert painted.reasons.get("n.U", "statistics").startswith("statistics")
    assert {"ones", "empty"} & painting.half_nodes(after) == set()
    kept = painting.converted(meta_graph, keep_float32=["^n$"])
    found = painting.nodes(kept)["n"]
    assert (found.op, found.attr["T"].type, found.input[0]) == (op, FLOAT32, "c1_graphmp_float32")


@pytest.mark.parametrize(
    "batch, side, half",
    [(1, 1, False), (None, 1, False), (2, 1, True), (None, 3, True), (1, 3, True)],
)
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_shapes_for_which_a_kernel_fails(batch, side, half, data_format):
    """1.15.5's CPU kernel of the gradient ends the process where a channel has one value."""
    with tf.Graph().as_default():
        first = data_format == "NCHW"
        shape = [batch, 4, side, side] if first else [batch, side, side, 4]
        x, w = tf.placeholder(tf.float32, shape), tf.get_variable("w", [1, 1, 4, 4])

        def convolved(tensor):
            return tf.nn.conv2d(tensor, w, 1, "SAME", data_format=data_format)

        normalised, _, _ = tf.nn.fused_batch_norm(
            convolved(x), tf.ones([4]), tf.zeros([4]), data_format=data_format
        )
        tf.gradients(tf.reduce_sum(tf.square(convolved(normalised))), w)
        painted = decide(tf.train.export_meta_graph())
    found = {name for name in painted.half if "FusedBatchNorm" in name}
    assert len(found) == (2 if half else 0)
    assert any("ends the process" in why for why in painted.reasons.values()) == (not half)


def test_gradient_of_batch_normalisation(graph):
    x = tf.placeholder(tf.float32, [2, 4, 4, 4], name="x")
    w = tf.Variable(
        np.random.RandomState(0).rand(3, 3, 4, 4).astype(np.float32), name="w", use_resource=False
    )
    normalised, _, _ = tf.nn.fused_batch_norm(
        tf.nn.conv2d(x, w, 1, "SAME"), tf.ones([4]), tf.zeros([4]), name="n"
    )
    loss = tf.reduce_sum(tf.square(tf.nn.conv2d(tf.nn.relu(normalised), w, 1, "SAME")))
    gradient = tf.gradients(loss, w)[0]
    meta_graph = tf.train.export_meta_graph()
    after = painting.verified(meta_graph, [gradient.name], rtol=3e-2)
    found = {node.op: node for node in after.graph_def.node if node.op.startswith("FusedBatchNorm")}
    assert len(found) == 2 and all(
        (n.attr["T"].type, n.attr["U"].type) == (FLOAT16, FLOAT32) for n in found.values()
    )


def test_version_1_of_batch_normalisation_and_its_gradient_become_version_2():
    lines = [
        "x Placeholder shape=[2,4,4,4]", "w Const", "ones Const", "empty Const",
        "c1 Conv2D x w strides=[1,1,1,1] padding=\"SAME\"",
        "n FusedBatchNorm c1 ones ones empty empty",
        "c2 Conv2D n w strides=[1,1,1,1] padding=\"SAME\"",
        "gradients/c2_grad/g Conv2D c2 w strides=[1,1,1,1] padding=\"SAME\"",
        "gradients/n_grad/g FusedBatchNormGrad gradients/c2_grad/g c1 ones n:3 n:4",
        "gradients/c1_grad/g Conv2D gradients/n_grad/g w strides=[1,1,1,1] padding=\"SAME\"",
    ]  # fmt: skip
    filters = np.random.RandomState(0).rand(3, 3, 4, 4) * 0.1
    meta_graph = graph(*lines, w=filters, ones=np.ones(4), empty=np.zeros(0))
    after = painting.verified(
        meta_graph, ["gradients/c1_grad/g:0", "gradients/n_grad/g:1"], rtol=2e-2
    )
    found = painting.nodes(after)
    assert (found["n"].op, found["gradients/n_grad/g"].op) == (
        "FusedBatchNormV2",
        "FusedBatchNormGradV2",
    )
    assert [found["gradients/n_grad/g"].attr[name].type for name in ("T", "U")] == [
        FLOAT16,
        FLOAT32,
    ]
