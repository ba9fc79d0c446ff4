"""The colours that painting gives and their reasons: rules, pins and range guard on tiny graphs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from tests.support import painting
from tests.support.painting import chain, decide, graph, spelled


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
        "xdA",  # deny, and its descendants up to the next allow op
        "xdpA",
        "xdppAIA",
        "xdiA",
        "xdiPAIA",  # an op with bounded results ends the chain
        "xdpciKPAPA",
        "xdiip",  # not where no allow op follows
        "xAsip",  # nor where it is float32 itself, as a last activation
        "xAdiA",
        "xAIAdidAIA",
        "xAmiA",
        "xAuA",  # an op on no list is float32, but starts no chain
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
        "xafA",
        "xAZIA",
        "xAYA",
    ],
)
def test_chains(row):
    meta_graph = chain(row)
    assert spelled(row, decide(meta_graph).half) == row
    painting.verified(
        meta_graph, [painting.names_of(row)[-1] + ":0"] if "f" not in row.lower() else ()
    )


@pytest.mark.unit
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
        ("xAuA", "u2", "unlisted: Lgamma is on no list"),
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


@pytest.mark.unit
def test_a_chain_of_denials_leads_back_to_its_source():
    because = decide(chain("xdpcpkA")).because
    assert [because[name] for name in ("p2", "c3", "p4")] == [
        "d1",
        "p2",
        "c3",
    ] and "d1" not in because


@pytest.mark.unit
def test_denials_that_meet_reach_all_that_reads_them():
    """A node behind both denied ops is visited twice; one behind the second alone comes later."""
    lines = [
        "x Placeholder", "first Exp x", "second Exp x", "m MatMul x x", "shared Add first second",
        "alone Mul second m", "a MatMul shared shared", "b MatMul alone alone",
    ]  # fmt: skip
    painted = decide(graph(*lines))
    assert not {"shared", "alone"} & painted.half and {"a", "b"} <= painted.half
    assert painted.because["alone"] == "second"


@pytest.mark.unit
def test_an_allow_op_ends_the_chain_of_a_denial():
    """Otherwise the backward pass, which is downstream of the loss, would be float32."""
    assert spelled("xdAIAIA", decide(chain("xdaiaia")).half) == "xdAIAIA"


@pytest.mark.unit
def test_an_op_that_forgets_values_ends_the_chain_too():
    row = (
        "x Placeholder",
        "w Const",
        "m1 MatMul x w",
        "e Exp x",
        "zeros ZerosLike e",
        "sum Add zeros m1",
        "m2 MatMul sum w",
    )
    assert "sum" in decide(graph(*row, w=np.eye(4))).half


@pytest.mark.unit
def test_a_test_on_the_infer_list_reads_half_behind_a_matmul():
    """Its result is a bool, so that no half op need follow."""
    assert (
        "t"
        in decide(
            graph("x Placeholder", "m MatMul x x", "t Greater m m"), policy="infer Greater"
        ).half
    )


@pytest.mark.unit
@pytest.mark.parametrize("reader, half", [("Shape", True), ("Size", True), ("Lgamma", False)])
def test_what_is_looked_at_for_its_shape_alone_may_be_half(reader, half):
    lines = [
        "dims Const",
        "value Const",
        "filled Fill dims value",
        "k Abs filled",
        "end %s k" % reader,
    ]
    painted = decide(graph(*lines, dims=np.array([4, 4], np.int32), value=1.0))
    assert ("k" in painted.half) == half
    assert half or painted.reasons["k"] == "clear: no half precision on either side"


def test_a_group_follows_its_float32_member():
    lines = [
        "x Placeholder shape=[4,4]", "w Const", "size Const", "index Const", "zero Const",
        "m MatMul x w",
        "array TensorArrayV3 size dtype=float32 clear_after_read=false",
        "write TensorArrayWriteV3 array index m array:1",
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
    assert (
        kept.reasons["array"]
        == "group: shares its dtype with again, user rule: --keep_float32=^again$"
    )
    assert kept.because["read"] == "again"


@pytest.mark.unit
@pytest.mark.parametrize("epsilon, half", [(1e-3, True), (1e-12, False)])
def test_a_root_that_is_kept_off_zero_ends_the_chain(epsilon, half):
    lines = ["x Placeholder", "variance Square x", "e Const", "sum Add variance e", "r Rsqrt sum"]
    lines += ["m MatMul x x", "k Mul m r", "n MatMul k k"]
    assert ("k" in decide(graph(*lines, e=epsilon)).half) == half


_ARRAY = (
    "x Placeholder shape=[4,4]", "w Const", "size Const", "index Const", "m MatMul x w", "e Exp x",
    "array TensorArrayV3 size dtype=float32 clear_after_read=false",
    "read TensorArrayReadV3 array index write dtype=float32",
    "again TensorArrayReadV3 array index write dtype=float32",
    "p Softplus read", "n MatMul p w",
)  # fmt: skip
_VALUES = {"w": np.eye(4), "size": np.int32(1), "index": np.int32(0)}


@pytest.mark.unit
def test_what_reads_a_float32_group_is_not_behind_a_matmul():
    lines = [*_ARRAY, "write TensorArrayWriteV3 array index m array:1"]
    assert "p" in decide(graph(*lines, **_VALUES)).half
    painted = decide(graph(*lines, **_VALUES), keep_float32=["^again$"])
    assert painted.reasons["p"] == "infer: no half precision leads to it"


@pytest.mark.unit
def test_a_group_follows_a_member_downstream_of_a_denial():
    lines = [*_ARRAY, "write TensorArrayWriteV3 array index e array:1", "k MatMul again again"]
    painted = decide(graph(*lines, **_VALUES))
    assert painted.reasons["p"] == "infer: downstream of what computes in float32"
    painted = decide(graph(*lines, **_VALUES), policy="infer TensorArrayReadV3")
    assert not {"array", "write", "read", "again"} & painted.half and {"n", "k"} <= painted.half


@pytest.mark.unit
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


@pytest.mark.unit
def test_what_is_forced_denies_nobody():
    assert spelled("xADIA", decide(chain("xadia"), force_compute=["^d2$"]).half) == "xADIA"


@pytest.mark.unit
def test_reasons_of_the_users_rules():
    assert (
        decide(chain("xada"), force_compute=["^d"]).reasons["d2"] == "user rule: --force_compute=^d"
    )
    assert (
        decide(chain("xaia"), keep_float32=["^i"]).reasons["i2"] == "user rule: --keep_float32=^i"
    )
    assert decide(chain("xaia"), fetch=["i2:0"]).reasons["i2"] == "user rule: --fetch=i2:0"
    with pytest.raises(GraphmpError, match="GMP002: --fetch=nowhere:0: the graph has no such node"):
        decide(chain("xa"), fetch=["nowhere:0"])
    with pytest.raises(GraphmpError, match="--fetch=a1:7: the node has no such output; accepted"):
        decide(chain("xa"), fetch=["a1:7"])


def test_a_forced_member_takes_its_group_along():
    """A TensorArray holds one dtype: half a group can't run."""
    meta_graph = painting.built(_array)
    painted = decide(meta_graph, force_compute=["^read$"])
    members = {
        name
        for name, node in painting.nodes(meta_graph).items()
        if node.op.startswith("TensorArray") and name in painted.reasons
    }
    assert len(members) == 9 and (members <= painted.half or not members & painted.half)
    painting.verified(meta_graph, ["one:0", "two:0"], force_compute=["^read$"])


def _array():
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    array = tf.TensorArray(tf.float32, 1, clear_after_read=False).write(0, tf.sin(x))
    tf.sin(array.read(0, name="read"), name="one")
    for _ in range(5):
        tf.sin(array.read(0))
    tf.matmul(array.read(0), tf.constant(np.eye(4, dtype=np.float32)), name="two")
