"""What the rewrite paints half and why: rules, pins, range guard, as tables of tiny graphs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from tests.support import painting
from tests.support.painting import chain, decide, graph, spelled
from tests.support.tiny import BFLOAT16, FLOAT16, FLOAT32

TF2 = tf.__version__ > "2"


@pytest.mark.parametrize(
    "row",
    [
        "xA",
        "xAA",
        "xAIA",  # infer between allow ops
        "xAIIIA",
        "xAICIKA",
        "xAi",  # infer that leads to no allow op
        "xiA",  # infer that no allow op leads to
        "xCA",  # clear beside an allow op, on either side
        "xAC",
        "xACKCd",
        "xCKC".lower(),  # nothing is half without an allow op
        "xic",
        "xdA",  # deny, and what lies downstream of it until the next allow op
        "xdpA",
        "xdppAIA",
        "xdiA",
        "xdiPAIA",  # what is bounded whatever it reads ends the chain
        "xdpciKPAPA",
        "xdiip",  # not where no allow op follows
        "xAsip",  # nor where it is float32 itself, as a last activation
        "xAdiA",
        "xAIAdidAIA",
        "xAmiA",
        "xAuA",  # an op on no list is float32, but denies nobody else
        "xAuiA",
        "xAB",  # a bias after the last matmul belongs to it
        "xABC",
        "xAbi",
        "xAib",
        "xAs",  # last activations
        "xAl",
        "xAg",
        "xACs",  # as many bytes either way: half
        "xAbs",
        "xASA",
        "xALA",
        "xAGA",
        "xAGIA",
        "xAFA",
        "xAZIA",
        "xAYA",
    ],
)
def test_chains(row):
    meta_graph = chain(row)
    assert spelled(row, decide(meta_graph).half) == row
    painting.verified(meta_graph, [painting.names_of(row)[-1] + ":0"] if "f" not in row.lower() else ())


@pytest.mark.parametrize(
    "row, node, reason",
    [
        ("xA", "x0", "unlisted: Placeholder is on no list"),
        ("xA", "a1", "allow: MatMul is worth half precision"),
        ("xAIA", "i2", "infer: between half-precision ops"),
        ("xAi", "i2", "infer: leads to no other half-precision op"),
        ("xiA", "i1", "infer: no half precision leads to it"),
        ("xAC", "c2", "clear: follows its neighbours"),
        ("xc", "c1", "clear: no half precision on either side"),
        ("xAd", "d2", "deny: Exp computes in float32"),
        ("xAuA", "u2", "unlisted: Sin is on no list"),
        ("xdiA", "i2", "infer: downstream of what computes in float32"),
        ("xAs", "s2", "last activation: Softmax leads to a loss or an output"),
        ("xAg", "g2", "last activation: Sigmoid leads to a loss or an output"),
        ("xAl", "l2", "last activation: LogSoftmax leads to a loss or an output"),
        ("xA", "weight", "clear: a constant that half-precision ops read"),
        ("xdibd", "zero", None),  # integers are no units
    ],
)
def test_reasons_of_the_rules(row, node, reason):
    assert decide(chain(row)).reasons.get(node) == reason


def test_a_chain_of_denials_leads_back_to_its_source():
    because = decide(chain("xdpcpkA")).because
    assert [because[name] for name in ("p2", "c3", "p4")] == ["d1", "p2", "c3"] and "d1" not in because


def test_an_allow_op_ends_the_chain_of_a_denial():
    """Else the whole backward pass, downstream of the loss, would be float32."""
    assert spelled("xdAIAIA", decide(chain("xdaiaia")).half) == "xdAIAIA"


def test_an_op_that_forgets_values_ends_the_chain_too():
    row = ("x Placeholder", "w Const", "m1 MatMul x w", "e Exp x", "zeros ZerosLike e", "sum Add zeros m1", "m2 MatMul sum w")
    assert "sum" in decide(graph(*row, w=np.eye(4))).half


def test_a_group_follows_its_float32_member():
    lines = [
        "x Placeholder shape=[4,4]", "w Const", "size Const", "index Const", "zero Const", "m MatMul x w",
        "array TensorArrayV3 size dtype=float32 clear_after_read=false", "write TensorArrayWriteV3 array index m array:1",
        "read TensorArrayReadV3 array index write dtype=float32",
        "again TensorArrayReadV3 array index write dtype=float32", "e Exp read", "n MatMul again w",
    ]  # fmt: skip
    constants = {"w": np.eye(4), "size": np.int32(1), "index": np.int32(0), "zero": np.int32(0)}
    meta_graph = graph(*lines, **constants)
    painted = decide(meta_graph)
    assert {"array", "write", "read", "again"} <= painted.half
    painting.verified(meta_graph, ["n:0", "e:0"])
    kept = decide(meta_graph, keep_float32=["^again$"])
    assert not {"array", "write", "read", "again"} & kept.half
    assert kept.reasons["again"] == "user rule: --keep_float32=^again$"
    assert kept.reasons["array"] == "group: shares its dtype with again, user rule: --keep_float32=^again$"
    assert kept.because["read"] == "again"


@pytest.mark.parametrize(
    "row, options",
    [
        ("xAiaiA", {"keep_float32": ["^a3$"]}),
        ("xAICA", {"keep_float32": ["^nothing$"]}),
        ("xaica", {"keep_float32": ["."]}),
        ("xAiA", {"keep_float32": ["i2"]}),
        ("xAciA", {"keep_float32": ["^c2", "i3"]}),
        ("xADA", {"force_compute": ["^d2$"]}),
        ("xAI", {"force_compute": ["^i2$"]}),
        ("xAUA", {"force_compute": ["^u2$"]}),
        ("xAS", {"force_compute": ["^s2$"]}),
        ("xAdA", {"force_compute": ["^d2$"], "keep_float32": ["^d"]}),  # pins come first
        ("xAiA", {"policy": "deny Tanh"}),
        ("xAIA", {"policy": "clear Tanh"}),
        ("xaIa".lower(), {"policy": "-MatMul"}),
        ("xAIa".lower(), {"policy": "deny MatMul"}),
        ("xaDa", {"policy": "deny MatMul\nallow Exp"}),
        ("xAiF", {"fetch": ["i2:0"], "force_compute": ["f3"]}),
    ],
)
def test_rules_of_the_user(row, options):
    meta_graph = chain(row)
    assert spelled(row, decide(meta_graph, **options).half) == row
    painting.verified(meta_graph, **options)


def test_what_is_forced_denies_nobody():
    assert spelled("xADIA", decide(chain("xadia"), force_compute=["^d2$"]).half) == "xADIA"


def test_reasons_of_the_users_rules():
    assert decide(chain("xada"), force_compute=["^d"]).reasons["d2"] == "user rule: --force_compute=^d"
    assert decide(chain("xaia"), keep_float32=["^i"]).reasons["i2"] == "user rule: --keep_float32=^i"
    assert decide(chain("xaia"), fetch=["i2:0"]).reasons["i2"] == "user rule: --fetch=i2:0"
    with pytest.raises(GraphmpError, match="GMP002: --fetch=nowhere:0: the graph has no such node"):
        decide(chain("xa"), fetch=["nowhere:0"])


def test_a_forced_member_takes_its_group_along():
    """A TensorArray holds one dtype: half a group can't run."""
    meta_graph = painting.built(_array)
    painted = decide(meta_graph, force_compute=["^read$"])
    members = {name for name, node in painting.nodes(meta_graph).items() if node.op.startswith("TensorArray") and name in painted.reasons}
    assert len(members) == 9 and (members <= painted.half or not members & painted.half)
    painting.verified(meta_graph, ["one:0", "two:0"], force_compute=["^read$"])


def _array():
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    array = tf.TensorArray(tf.float32, 1, clear_after_read=False).write(0, tf.sin(x))
    tf.sin(array.read(0, name="read"), name="one")
    for _ in range(5):
        tf.sin(array.read(0))
    tf.matmul(array.read(0), tf.constant(np.eye(4, dtype=np.float32)), name="two")


# -- gradients ---------------------------------------------------------------------------------------------------------


def _weight_gradients(count, between=()):
    """A variable used by `count` matmuls, and the sum of its gradients."""
    numbers = range(1, count + 1)
    lines = ["x Placeholder shape=[4,4]", "v VariableV2 shape=[4,4] dtype=float32", "read Identity v", "rate Const"]
    lines += ["m%d MatMul x read" % i for i in numbers]
    lines += ["gradients/m%d_grad/MatMul MatMul x x" % i for i in numbers]
    lines += ["gradients/AddN AddN %s" % " ".join("gradients/m%d_grad/MatMul" % i for i in numbers), *between]
    return graph(*lines, "train ApplyGradientDescent v rate %s" % (between[-1].split()[0] if between else "gradients/AddN"), rate=0.1)


@pytest.mark.parametrize("count, half", [(2, False), (3, False), (8, False), (9, True), (20, True)])
def test_sums_of_a_variables_gradients(count, half):
    painted = decide(_weight_gradients(count))
    assert ("gradients/AddN" in painted.half) == half
    if not half:
        assert painted.reasons["gradients/AddN"] == "sum of a variable's gradients: adds up in float32"
    assert {"gradients/m%d_grad/MatMul" % i for i in range(1, count + 1)} <= painted.half
    assert painted.reasons["train"] == "variable: reads v"


def test_a_sum_that_goes_on_in_gradient_code_is_half():
    """Only what leaves it is a variable's."""
    lines = ["gradients/a_grad/MatMul MatMul gradients/AddN x"]
    meta_graph = _weight_gradients(2, ["a MatMul x x", *lines])
    assert "gradients/AddN" in decide(meta_graph).half


def test_gradients_of_a_dense_net(graph):
    tf.set_random_seed(1)
    x = tf.placeholder(tf.float32, [8, 4], name="x")
    hidden = tf.layers.dense(x, 8, tf.nn.relu, name="one")
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 8, name="two")), name="loss")
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    meta_graph = tf.train.export_meta_graph()
    painted = decide(meta_graph)
    matmuls = {name for name, node in painting.nodes(meta_graph).items() if node.op == "MatMul"}
    assert len(matmuls) == 6 and matmuls <= painted.half
    assert {"gradients/one/Relu_grad/ReluGrad", "one/BiasAdd", "one/Relu"} <= painted.half
    assert {"gradients/%s/BiasAdd_grad/BiasAddGrad" % name for name in ("one", "two")} & painted.half
    assert not {"Square", "loss", "gradients/Square_grad/Mul", "gradients/Square_grad/Mul_1", "gradients/loss_grad/truediv"} & painted.half
    assert painted.reasons["gradients/Square_grad/Mul_1"] in ("gradient of a denied op: Square", "infer: downstream of what computes in float32")
    updates = [name for name, node in painting.nodes(meta_graph).items() if node.op.startswith("ApplyGradient")]
    assert len(updates) == 4 and all(painted.reasons[name].startswith("variable: reads ") for name in updates)
    after = painting.verified(meta_graph)
    feeds = {"x:0": np.random.RandomState(0).rand(8, 4)}
    painting.assert_close(meta_graph, after, ["loss:0", "one/kernel/read:0"], feeds, first=["train"] * 3)


@pytest.mark.parametrize(
    "build, forward",
    [
        (tf.exp, "Exp"),
        (lambda x: tf.log(x + 3.0), "Log"),
        (tf.square, "Square"),
        (lambda x: tf.pow(x + 3.0, 2.5), "Pow"),
        (lambda x: tf.rsqrt(x + 3.0), "Rsqrt"),
        (tf.expm1, "Expm1"),
        (lambda x: tf.squared_difference(x, 1.0), "SquaredDifference"),
    ],
)
def test_gradient_of_a_denied_op_that_is_not_linear(build, forward, graph):
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.constant(np.eye(4, dtype=np.float32) * 0.5, name="w")
    y = tf.matmul(build(tf.matmul(x, w)), w)
    gradient = tf.gradients(tf.matmul(tf.nn.relu(y), w), x)[0]
    meta_graph = tf.train.export_meta_graph()
    painted = decide(meta_graph)
    below = [name for name in painted.reasons if "/%s_grad/" % forward in name and "." not in name]
    multiplied = [
        name for name in below if painting.nodes(meta_graph)[name].op in ("Mul", "Neg", "Pow", "Sub", "Add", "AddV2", "RsqrtGrad", "RealDiv")
    ]
    assert multiplied and not {name for name in multiplied if painting.nodes(meta_graph)[name].op in ("Mul", "RsqrtGrad")} & painted.half
    assert any(painted.reasons[name] == "gradient of a denied op: %s" % forward for name in multiplied) or forward == "Rsqrt"  # on the list
    painting.verified(meta_graph, [gradient.name], rtol=3e-2)


def test_softmax_before_a_loss_and_its_gradient(graph):
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(np.eye(4, dtype=np.float32) * 0.5, name="w", use_resource=False)
    softmax = tf.nn.softmax(tf.matmul(x, w), name="softmax")
    loss = -tf.reduce_mean(tf.log(softmax), name="loss")
    gradient = tf.gradients(loss, w)[0]
    meta_graph = tf.train.export_meta_graph()
    painted = decide(meta_graph)
    assert painted.reasons["softmax"] == "last activation: Softmax leads to a loss or an output"
    assert not {name for name in painted.half if "softmax" in name or "loss" in name}
    assert "gradients/MatMul_grad/MatMul_1" in painted.half and "gradients/softmax_grad/mul" in painted.reasons
    painting.verified(meta_graph, [loss.name, gradient.name], feeds={"x:0": np.random.RandomState(0).rand(4, 4)})


def test_gates_of_a_recurrent_cell_are_half(graph):
    """A Sigmoid with another matmul behind it is no last activation; the last step's is."""
    x = tf.placeholder(tf.float32, [4, 6], name="x")
    w = tf.get_variable("w", [10, 4], initializer=tf.initializers.orthogonal(seed=1))
    state = tf.zeros([4, 4])
    for step in range(3):
        gate = tf.sigmoid(tf.matmul(tf.concat([x, state], 1), w), name="gate%d" % step)
        state = tf.multiply(gate, tf.tanh(gate), name="state%d" % step)
    meta_graph = tf.train.export_meta_graph()
    painted = decide(meta_graph)
    assert {"gate0", "gate1", "state0", "state1"} <= painted.half and not {"gate2", "state2"} & painted.half
    painting.verified(meta_graph, ["state2:0"])


# -- pins --------------------------------------------------------------------------------------------------------------

X = "x Placeholder shape=[4,4]"
W = "w Const"


@pytest.mark.parametrize(
    "lines, half, floats",
    [
        pytest.param(
            [X, "v VariableV2 shape=[4,4] dtype=float32", "read Identity v", "m MatMul x read"],
            {"m"},
            {"read": "variable: reads v"},
            id="reference variable",
        ),
        pytest.param(
            [X, "v VarHandleOp shape=[4,4] dtype=float32", "read ReadVariableOp v dtype=float32", "m MatMul x read"],
            {"m"},
            {"read": "resource: read from v"},
            id="resource variable",
        ),
        pytest.param(
            [X, "v VariableV2 shape=[9,4] dtype=float32", "read Identity v", "ids Placeholder dtype=int32", "g Gather read ids", "m MatMul g x"],
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
            [X, W, "ids Placeholder dtype=int32", "axis Const", "n MatMul x w", "g GatherV2 n ids axis", "m MatMul g w"],
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
            [X, W, "m MatMul x w", "i Cast m SrcT=float32 DstT=int32", "f Cast i SrcT=int32 DstT=float32", "n MatMul f w"],
            {"m", "n"},
            {"i": "own cast: the model casts here itself", "f": "own cast: the model casts here itself"},
            id="casts of the model",
        ),
        pytest.param(
            [X, W, "m MatMul x w", "d Cast m SrcT=float32 DstT=float64", "f Cast d SrcT=float64 DstT=float32", "n MatMul f w"],
            {"m", "n"},
            {"d": "own cast", "f": "own cast"},
            id="float64",
        ),
        pytest.param(
            [X, W, "b Placeholder dtype=bool shape=[4,4]", "f Cast b SrcT=bool DstT=float32", "m MatMul f w"], {"m", "f"}, {}, id="cast from bool"
        ),
        pytest.param(
            [X, W, "b Placeholder dtype=uint8 shape=[4,4]", "f Cast b SrcT=uint8 DstT=float32", "m MatMul f w"], {"m", "f"}, {}, id="cast from uint8"
        ),
        pytest.param(
            [X, W, "b Placeholder dtype=uint8 shape=[4,4]", "f Cast b SrcT=uint8 DstT=float32", "e Exp f", "m MatMul e w"],
            {"m"},
            {"f": "clear"},
            id="cast from uint8 to a denied op",
        ),
        pytest.param(
            [X, W, "b Placeholder dtype=int64 shape=[4,4]", "f Cast b SrcT=int64 DstT=float32", "m MatMul f w"],
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
            [X, W, "m MatMul x w", "t Where m T=float32"], {"m"}, {"t": "no kernel: Where has none of float16 on every device"}, id="no kernel"
        ),
    ],
)
def test_pins(lines, half, floats):
    constants = {"w": np.eye(4), "axis": np.int32(0)}
    meta_graph = graph(*lines, **{name: value for name, value in constants.items() if any(line.startswith(name + " ") for line in lines)})
    painted = decide(meta_graph)
    assert half == painted.half - {"w"}
    for name, reason in floats.items():
        assert painted.reasons[name].startswith(reason), painted.reasons[name]
    painting.verified(meta_graph)


def test_update_math_is_float32(graph):
    """What depends on gradients outside gradient code: clips, norms, a hand-written optimizer; up to the next matmul."""
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(np.eye(4, dtype=np.float32), name="w", use_resource=False)
    y = tf.matmul(tf.nn.relu(tf.matmul(x, w)), w)
    gradient = tf.gradients(tf.reduce_sum(y), w)[0]
    clipped = tf.clip_by_value(gradient, -1.0, 1.0, name="clipped")
    decayed = tf.add(clipped, tf.nn.relu(clipped, name="kept"), name="decayed")
    preconditioned = tf.matmul(decayed, decayed, name="preconditioned")
    tf.assign_sub(w, preconditioned, name="update")
    painted = decide(tf.train.export_meta_graph())
    for name in ("decayed", "kept"):
        assert painted.reasons[name] == "update math: computes in float32 on gradients"
    assert not {name for name in painted.half if name.startswith(("clipped", "decayed", "kept"))}
    assert "preconditioned" in painted.half and painted.reasons["update"].startswith("variable: reads w")


def _signed(meta_graph, **tensors):
    for name, tensor in tensors.items():
        meta_graph.signature_def["serving"].outputs[name].name = tensor
    return meta_graph


def test_what_signatures_name_keeps_its_dtype():
    painted = decide(_signed(chain("xacac"), y="c2:0"))
    assert painted.reasons["c2"] == "fetched: keeps its dtype (signature serving)" and {"a1", "a3", "c4"} <= painted.half
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
    start = tf.matmul(tf.constant(np.eye(4, dtype=np.float32)), tf.constant(np.eye(4, dtype=np.float32)))
    w = tf.Variable(tf.nn.relu(start, name="start"), name="w", use_resource=resource)
    tf.nn.relu(tf.matmul(x, w), name="y")
    meta_graph = tf.train.export_meta_graph()
    painted = decide(meta_graph)
    assert painted.reasons["start"].startswith("variable: named by its definition (collection ")
    reads = [name for name, node in painting.nodes(meta_graph).items() if node.op in ("ReadVariableOp", "Identity")]
    assert reads and not set(reads) & painted.half
    painting.verified(meta_graph, ["y:0"])


@pytest.mark.parametrize("op", ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
def test_batch_normalisation_keeps_its_statistics_in_float32(op):
    lines = [
        "x Placeholder shape=[2,4,4,4]", "w Const", "ones Const", "empty Const", "c1 Conv2D x w strides=[1,1,1,1] padding=\"SAME\"",
        "n %s c1 ones ones empty empty" % op, "r Relu n", "c2 Conv2D r w strides=[1,1,1,1] padding=\"SAME\"",
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


def test_gradient_of_batch_normalisation(graph):
    x = tf.placeholder(tf.float32, [2, 4, 4, 4], name="x")
    w = tf.Variable(np.random.RandomState(0).rand(3, 3, 4, 4).astype(np.float32), name="w", use_resource=False)
    normalised, _, _ = tf.nn.fused_batch_norm(tf.nn.conv2d(x, w, 1, "SAME"), tf.ones([4]), tf.zeros([4]), name="n")
    loss = tf.reduce_sum(tf.square(tf.nn.conv2d(tf.nn.relu(normalised), w, 1, "SAME")))
    gradient = tf.gradients(loss, w)[0]
    meta_graph = tf.train.export_meta_graph()
    after = painting.verified(meta_graph, [gradient.name], rtol=3e-2)
    found = {node.op: node for node in after.graph_def.node if node.op.startswith("FusedBatchNorm")}
    assert len(found) == 2 and all((n.attr["T"].type, n.attr["U"].type) == (FLOAT16, FLOAT32) for n in found.values())


def test_version_1_of_batch_normalisation_and_its_gradient_become_version_2():
    lines = [
        "x Placeholder shape=[2,4,4,4]", "w Const", "ones Const", "empty Const", "c1 Conv2D x w strides=[1,1,1,1] padding=\"SAME\"",
        "n FusedBatchNorm c1 ones ones empty empty", "c2 Conv2D n w strides=[1,1,1,1] padding=\"SAME\"",
        "gradients/c2_grad/g Conv2D c2 w strides=[1,1,1,1] padding=\"SAME\"",
        "gradients/n_grad/g FusedBatchNormGrad gradients/c2_grad/g c1 ones n:3 n:4",
        "gradients/c1_grad/g Conv2D gradients/n_grad/g w strides=[1,1,1,1] padding=\"SAME\"",
    ]  # fmt: skip
    filters = np.random.RandomState(0).rand(3, 3, 4, 4) * 0.1
    meta_graph = graph(*lines, w=filters, ones=np.ones(4), empty=np.zeros(0))
    after = painting.verified(meta_graph, ["gradients/c1_grad/g:0", "gradients/n_grad/g:1"], rtol=2e-2)
    found = painting.nodes(after)
    assert (found["n"].op, found["gradients/n_grad/g"].op) == ("FusedBatchNormV2", "FusedBatchNormGradV2")
    assert [found["gradients/n_grad/g"].attr[name].type for name in ("T", "U")] == [FLOAT16, FLOAT32]


# -- range guard -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, held",
    [
        (-1e9, False),
        (1e-12, False),
        (1e-8, False),
        (70000.0, False),
        (65520.0, False),
        (3.4028235e38, False),
        (65504.0, True),
        (1.0, True),
        (0.0, True),
        (6e-8, True),
        (-np.inf, True),
        (np.inf, True),
        (np.nan, True),
    ],
)
@pytest.mark.parametrize("shape", [(), (4,), (4, 4)])
def test_constants_that_half_precision_does_not_hold(value, held, shape):
    lines = [X, W, "m MatMul x w", "c Const", "s Add m c", "n MatMul s w"]
    painted = decide(graph(*lines, w=np.eye(4), c=np.full(shape, value, np.float32)))
    assert ("s" in painted.half) == ("c" in painted.half) == held
    assert {"m", "n"} <= painted.half
    if not held:
        assert painted.reasons["s"] == painted.reasons["c"] == "range guard: c holds %g, which float16 can't" % np.float32(value)


@pytest.mark.parametrize("value", [1e-12, 1e9])
def test_bfloat16_has_the_range_of_float32(value):
    lines = [X, W, "m MatMul x w", "c Const", "s Add m c", "n MatMul s w"]
    assert "s" in decide(graph(*lines, w=np.eye(4), c=value), compute_dtype="bfloat16").half


@pytest.mark.parametrize(
    "way",
    [
        ["p Identity c"],
        ["p Reshape c shape"],
        ["p Fill shape c"],
        ["q Neg c", "p Identity q"],
        ["q Fill shape c", "p Reshape q shape"],
        ["q ExpandDims c axis", "p BroadcastTo q shape"],
        ["p Pack c c c c"],
        ["yes Const", "p SelectV2 yes c m"],
        ["q Identity c", "e Identity q", "p StopGradient e"],
    ],
    ids=lambda way: "-".join(line.split()[1] for line in way),
)
def test_constants_are_followed(way):
    lines = [X, W, "m MatMul x w", "c Const", "shape Const", "axis Const", *way, "s Mul m p", "t Tanh s", "n MatMul t w"]
    constants = {"shape": np.array([4, 4], np.int32), "axis": np.int32(0), "w": np.eye(4), "c": -1e9}
    if "yes Const" in way:
        constants["yes"] = np.bool_(True)
    if "Reshape c shape" in way[0]:
        constants["c"] = np.full([4, 4], -1e9)
    meta_graph = graph(*lines, **constants)
    painted = decide(meta_graph)
    assert not {"c", "p", "q", "s", "t"} & painted.half and {"m", "n"} <= painted.half
    assert painted.reasons["s"] == painted.reasons["p"] == "range guard: c holds -1e+09, which float16 can't"
    assert painted.reasons["t"] == "infer: downstream of what computes in float32"


@pytest.mark.parametrize("forgets", ["ZerosLike", "OnesLike"])
def test_constants_are_not_followed_through_what_forgets_them(forgets):
    lines = [X, W, "m MatMul x w", "c Const", "p %s c" % forgets, "s Mul m p", "n MatMul s w"]
    assert "s" in decide(graph(*lines, w=np.eye(4), c=-1e9)).half


@pytest.mark.parametrize(
    "weight, half",
    [
        ([1.0, 1e-9], True),
        ([1.0, 1e-30, 0.0], True),
        ([1e-9, 1e-10], False),
        ([1e-9, 0.0], False),
        ([1.0, 1e5], False),
        ([1e-9, 1e9], False),
        ([0.0, 0.0], True),
    ],
)
def test_a_small_weight_among_others_does_no_harm(weight, half):
    weights = np.zeros([4, 4], np.float32)
    weights[0, : len(weight)] = weight
    painted = decide(graph(X, W, "m MatMul x w", w=weights))
    assert ("m" in painted.half) == half
    if not half:
        assert painted.reasons["m"].startswith("range guard: w holds")


def test_a_small_weight_is_read_in_half_by_the_matmul_and_in_float32_by_the_rest():
    weights = np.eye(4, dtype=np.float32)
    weights[0, 1] = 1e-9
    meta_graph = graph(X, W, "m MatMul x w", "s Mul m w", "n MatMul s w", w=weights)
    painted = decide(meta_graph)
    assert {"m", "n"} <= painted.half and not {"s", "w"} & painted.half
    after = painting.verified(meta_graph, ["n:0"])
    assert painting.nodes(after)["w"] == painting.nodes(meta_graph)["w"]
    assert painting.nodes(after)["m"].input[1] == "w_graphmp_float16"


@pytest.mark.parametrize("count", ["Size m", "Prod shape axis"])
def test_counts_of_shapes_stay_float32(count):
    """What a mean divides by may be any number; here it is 90,000."""
    lines = [
        "x Placeholder shape=[300,300]", W, "m MatMul x w", "shape Shape m", "axis Const", "count %s" % count,
        "f Cast count SrcT=int32 DstT=float32", "d RealDiv m f", "n MatMul d w",
    ]  # fmt: skip
    meta_graph = graph(*lines, w=np.eye(300), axis=np.array([0], np.int32))
    painted = decide(meta_graph)
    assert "d" not in painted.half and {"m", "n"} <= painted.half
    assert painted.reasons["d"] == "infer: downstream of what computes in float32" and painted.because["d"] == "f"
    painting.verified(meta_graph, ["d:0"])


# -- other compute dtypes, ops that nobody knows -----------------------------------------------------------------------


def test_bfloat16_has_its_own_lists():
    lines = [X, W, "m MatMul x w", "axis Const", "s Mean m axis keep_dims=true", "a Add m s", "n MatMul a w"]
    meta_graph = graph(*lines, w=np.eye(4), axis=np.array([1], np.int32))
    assert {"s", "a"} & decide(meta_graph).half == set()
    assert decide(meta_graph).reasons["s"] == "deny: Mean computes in float32"
    painted = decide(meta_graph, compute_dtype="bfloat16")
    assert {"m", "s", "a", "n"} <= painted.half
    after = painting.verified(meta_graph, compute_dtype="bfloat16")
    assert painting.nodes(after)["s"].attr["T"].type == BFLOAT16
    assert "x_graphmp_bfloat16" in painting.nodes(after)
    if TF2:
        painting.assert_close(meta_graph, after, ["n:0"], painting.placeholders(meta_graph), rtol=5e-2)


def test_bfloat16_has_its_own_kernels():
    lines = [X, W, "m MatMul x w", "s Softplus m", "n MatMul s w"]
    meta_graph = graph(*lines, w=np.eye(4))
    assert "s" in decide(meta_graph).half
    assert decide(meta_graph, compute_dtype="bfloat16").reasons["s"] == "no kernel: Softplus has none of bfloat16 on every device"


OWN_RULES = [{"force_compute": ["."]}, {"policy": "allow MatMul\nclear Const"}]


@pytest.mark.parametrize("options", [{}] + OWN_RULES)
def test_float32_changes_nothing_but_the_mark(options):
    meta_graph = painting.built(_trained)
    rewriting = painting.rewrite(meta_graph, compute_dtype="float32", **options)
    assert list(set(rewriting.meta_graph.collection_def) - set(meta_graph.collection_def)) == ["graphmp"]
    del rewriting.meta_graph.collection_def["graphmp"]
    assert rewriting.meta_graph == meta_graph and rewriting.record["done"] == []


def test_float32_leaves_batch_normalisation_as_it_is():
    meta_graph = painting.built(_normalised)
    assert painting.converted(meta_graph, compute_dtype="float32").graph_def == meta_graph.graph_def


def _trained():
    x = tf.placeholder(tf.float32, [2, 4], name="x")
    w = tf.Variable(np.ones([4, 4], np.float32), name="w", use_resource=False)
    loss = tf.reduce_mean(tf.matmul(tf.nn.relu(tf.matmul(x, w)), tf.constant(np.full([4, 4], 0.5, np.float32))))
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)


def _normalised():
    x = tf.placeholder(tf.float32, [2, 4, 4, 4], name="x")
    w = tf.Variable(np.ones([4], np.float32), name="w", use_resource=False)
    normalised, _, _ = tf.nn.fused_batch_norm(x, w, tf.zeros([4]))
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_mean(normalised))


def _with_own_op(known):
    """`x -> MatMul -> MyOp -> MatMul`; the graph brings MyOp's definition, or doesn't."""
    meta_graph = graph(X, W, "m MatMul x w", "own MyOp m T=float32", "r Relu own", "n MatMul r w", w=np.eye(4))
    if known:
        op = meta_graph.meta_info_def.stripped_op_list.op.add(name="MyOp")
        op.input_arg.add(name="x", type_attr="T")
        op.output_arg.add(name="y", type_attr="T")
        op.attr.add(name="T", type="type")
    return meta_graph


def test_an_op_that_the_graph_defines_follows_the_policy():
    assert decide(_with_own_op(True)).reasons["own"] == "unlisted: MyOp is on no list"
    assert "own" in decide(_with_own_op(True), policy="allow MyOp").half
    after = painting.rewrite(_with_own_op(True), policy="allow MyOp")
    assert painting.nodes(after.meta_graph)["own"].attr["T"].type == FLOAT16 and painting.nodes(after.meta_graph)["own"].input == ["m"]
    assert not [row for row in after.record["warnings"] if row["code"] == "GMP109"]


def test_an_op_that_nobody_knows_is_left_alone():
    meta_graph = _with_own_op(False)
    rewriting = painting.rewrite(meta_graph, policy="allow MyOp")
    after = painting.nodes(rewriting.meta_graph)
    assert after["own"].attr["T"].type == FLOAT32 and after["own"].input == ["m_graphmp_float32"]
    assert after["m"].attr["T"].type == after["n"].attr["T"].type == FLOAT16
    assert [row["node"] for row in rewriting.record["warnings"] if row["code"] == "GMP109"] == ["own"]


def test_the_record_counts_what_stayed_float32():
    record = painting.rewrite(chain("xadias"), keep_float32=["^a4$"]).record
    assert record["kept"]["deny"] == 1 and record["kept"]["last activation"] == 1 and record["kept"]["user rule"] == 1
    assert record["kept_allowed"] == {"a4": "user rule: --keep_float32=^a4$"}
    assert ["a1", "painted", "allow: MatMul is worth half precision"] in record["done"]
    assert [row[0] for row in record["done"] if row[1] == "inserted"] == ["x0_graphmp_float16", "weight_graphmp_float16", "a1_graphmp_float32"]


@pytest.mark.parametrize("rows, ids, half", [(3, "shape=[24]", True), (3, "shape=[23]", False), (1, "", False)])
def test_a_table_that_gives_eight_times_its_size_may_be_cast(rows, ids, half):
    """By shapes that are known; else its rows are."""
    lines = [X, "v VariableV2 shape=[%d,4] dtype=float32" % rows, "read Identity v", "ids Placeholder dtype=int32 " + ids, "g Gather read ids"]
    found = decide(graph(*lines, "m MatMul g x"))
    assert found.half == ({"m", "g"} if half else {"m"})
    assert found.reasons["read"] == "variable: reads v"
    assert half or found.reasons["g"] == "look-up: the rows of v are cast, not the table"


@pytest.mark.parametrize("epsilon, half", [("1e-3", True), ("1e-7", True), ("1e-12", False), ("0.0", False)])
@pytest.mark.parametrize("op", ["Add", "Maximum"])
def test_a_normalisation_is_applied_in_half_where_its_epsilon_bounds_it(op, epsilon, half):
    """Its statistics are float32 either way."""
    lines = [X, W, "m MatMul x w", "s Square m", "a %s s epsilon" % op, "r Rsqrt a", "n Mul m r", "k MatMul n w"]
    found = decide(graph("epsilon Const", *lines, w=np.eye(4), epsilon=float(epsilon)))
    assert ("n" in found.half) is half
    assert not found.half & {"s", "a", "r"}


@pytest.mark.parametrize("size, half", [(4, True), (1, False)])
def test_a_sum_that_reduces_nothing_is_clear(size, half):
    """The gradient of an addition sums over the axes that were broadcast: often none."""

    def build():
        x = tf.placeholder(tf.float32, [4, 4], "x")
        summed = tf.reduce_sum(tf.matmul(x, tf.ones([4, 4])), tf.placeholder(tf.int32, [None], "axes"), name="s")
        tf.matmul(tf.reshape(summed, [size, 4]), tf.ones([4, 4]))

    converted = painting.converted(painting.built(build))
    assert {n.name: n.attr["T"].type == FLOAT16 for n in converted.graph_def.node}["s"] == half


@pytest.mark.parametrize("shape, half", [([None, 7, 7, 8], True), ([None, 512, 512, 8], False), ([None, None, None, 8], False)])
def test_a_means_divisor_that_shapes_settle(shape, half):
    """The gradient of a mean divides by a count: half where the batch cancels and the rest fits, float32 where it doesn't or may not."""

    def build():
        x = tf.placeholder(tf.float32, shape, "x")
        features = tf.layers.conv2d(x, 8, 1, use_bias=False)
        tf.gradients(tf.layers.dense(tf.reduce_mean(features, [1, 2]), 4, use_bias=False), tf.trainable_variables())

    converted = painting.converted(painting.built(build))
    divisions = [n for n in converted.graph_def.node if n.op == "RealDiv" and "Mean_grad" in n.name]
    assert divisions and all((n.attr["T"].type == FLOAT16) == half for n in divisions)
