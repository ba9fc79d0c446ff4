"""The proofs of a diff: each holds on conversions, and fails when what it proves is broken."""

from __future__ import annotations

import copy

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.compare.api import compare
from graphmp.compare.explain import explained
from graphmp.gate.reading import read_graph
from tests.support.corpus import recorded
from tests.support.models import MODELS
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def conversion():
    """A small net with a Saver and a collected loss, converted with a dynamic scale and a clip."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 8], "x")
        hidden = tf.layers.dense(x, 8, tf.nn.relu)
        loss = tf.losses.mean_squared_error(
            tf.placeholder(tf.float32, [4, 2], "y"), tf.layers.dense(hidden, 2)
        )
        tf.train.AdamOptimizer().minimize(loss)
        tf.train.Saver()
        original = tf.train.export_meta_graph()
    return graphmp.convert(original, clip_norm=5.0)


def claims(conversion, graph=None, report=None):
    """Verdict, text and nodes of each claim by name, of the conversion or of another converted
    graph.
    """
    diff = compare(
        conversion.original,
        graph or conversion.meta_graph,
        conversion.report if report is None else report,
    )
    return {claim.name: (claim.verdict, claim.text, claim.nodes) for claim in diff.claims}


def changed(conversion):
    graph = tf.MetaGraphDef()
    graph.CopyFrom(conversion.meta_graph)
    return graph, {node.name: node for node in graph.graph_def.node}


def test_all_hold(conversion):
    found = claims(conversion)
    assert {name: verdict for name, (verdict, _, _) in found.items()} == dict.fromkeys(
        (
            "explained",
            "report",
            "variables",
            "checkpoint",
            "inputs",
            "loss",
            "same graph",
            "scale cancels",
            "steps are skipped whole",
            "clip",
            "types",
            "parameters",
        ),
        "proved",
    )
    assert found["variables"][1] == "14 of 14 float32; names, dtypes and shapes of all 14 unchanged"
    assert (
        found["checkpoint"][1] == "all 14 names of the Savers unchanged; 3 of the loss scale added"
    )
    assert found["loss"][1] == "float32: mean_squared_error/value"


def test_claims_that_hold_name_what_they_are_about(conversion):
    found = claims(conversion)
    assert [
        name for name in found["scale cancels"][2] if name.startswith("graphmp/loss_scale/unscale")
    ]
    assert "Adam/update_dense/kernel/ApplyAdam" in found["steps are skipped whole"][2]
    assert len(found["clip"][2]) == 4
    assert "dense/MatMul" in found["types"][2]


def failing(conversion, change):
    """The claims that fail once `change` was made to the converted graph, without a report."""
    graph, nodes = changed(conversion)
    change(nodes, graph)
    diff = compare(conversion.original, graph)
    return {claim.name: claim.nodes for claim in diff.claims if claim.verdict == "failed"}


HALF = 19
ONE_NODE = [
    ("dense/kernel", lambda node: setattr(node.attr["dtype"], "type", HALF), "variables"),
    ("dense/kernel", lambda node: setattr(node.attr["shape"].shape.dim[0], "size", 3), "variables"),
    ("x", lambda node: setattr(node.attr["dtype"], "type", HALF), "inputs"),
    ("mean_squared_error/value", lambda node: setattr(node.attr["T"], "type", HALF), "loss"),
]


@pytest.mark.parametrize(
    "name, change, claim", ONE_NODE, ids=["dtype", "shape", "placeholder", "loss"]
)
def test_another_type_or_shape(conversion, name, change, claim):
    assert failing(conversion, lambda nodes, graph: change(nodes[name]))[claim] == (name,)


def test_a_new_variable(conversion):
    def change(nodes, graph):
        graph.graph_def.node.add(name="more", op="VariableV2").attr["dtype"].type = 1

    assert failing(conversion, change)["variables"] == ("more",)


def test_another_name_in_the_checkpoint(conversion):
    def change(nodes, graph):
        saved = nodes["graphmp/loss_scale/saver/save/tensor_names"].attr["value"].tensor
        saved.string_val[:] = [
            text.replace(b"dense/bias", b"dense/offset") for text in saved.string_val
        ]

    assert set(failing(conversion, change)["checkpoint"]) >= {"dense/bias", "dense/offset"}


def test_an_update_without_unscale(conversion):
    def change(nodes, graph):
        unscales = [name for name in nodes if name.startswith("graphmp/loss_scale/unscale")]
        scaled = nodes[unscales[0]].input[0]
        for node in nodes.values():
            node.input[:] = [scaled if text == unscales[0] else text for text in node.input]

    found = failing(conversion, change)
    assert [name for name in found["scale cancels"] if "ApplyAdam" in name]
    assert "same graph" in found


def test_a_finite_check_behind_the_clip(conversion):
    def change(nodes, graph):
        clipped = next(
            name
            for name in nodes
            if name.startswith("graphmp/loss_scale/clip_by_global_norm_1/mul_")
        )
        nodes["graphmp/loss_scale/IsFinite"].input[0] = clipped

    assert "same graph" in failing(conversion, change)


def test_an_update_that_is_not_skipped(conversion):
    def change(nodes, graph):
        update = next(
            node for name, node in nodes.items() if name.endswith("dense/kernel/ApplyAdam")
        )
        update.input[:] = [text for text in update.input if not text.startswith("^")]
        update.input[9] = "graphmp/loss_scale/unscale"

    assert (
        "Adam/update_dense/kernel/ApplyAdam"
        in failing(conversion, change)["steps are skipped whole"]
    )


def test_a_deleted_row_of_the_report_is_unexplained(conversion):
    for number in (0, 7, len(conversion.report["changes"]) - 1):
        report = copy.deepcopy(conversion.report)
        row = report["changes"].pop(number)
        diff = compare(conversion.original, conversion.meta_graph, report)
        assert [change.node for change in diff.unexplained] == [row["node"]]
        assert [check.name for check in diff.failed] == ["explained"]
        assert diff.stale == ()


def test_a_row_of_another_graph_is_stale(conversion):
    report = copy.deepcopy(conversion.report)
    report["changes"].append(
        {
            "node": "dense/MatMul",
            "body": "",
            "change": "op: MatMul -> Gone",
            "kind": "allow",
            "reason": "allow",
        }
    )
    diff = compare(conversion.original, conversion.meta_graph, report)
    assert diff.stale == ("dense/MatMul: op: MatMul -> Gone",)
    assert [check.name for check in diff.failed] == ["report"]
    assert diff.unexplained == ()


def test_a_change_after_the_conversion_is_unexplained(conversion):
    graph, nodes = changed(conversion)
    nodes["dense/MatMul"].attr["transpose_a"].b = True
    diff = compare(conversion.original, graph, conversion.report)
    assert [(c.node, c.category, c.part) for c in diff.unexplained] == [
        ("dense/MatMul", "attribute", "transpose_a")
    ]


def test_nothing_to_prove_is_no_proof():
    diff = compare(meta_graph("a NoOp"), meta_graph("a NoOp"))
    assert {claim.verdict for claim in diff.claims} == {"proved", "not applicable"}
    assert diff.failed == ()


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"loss_scale": "dynamic", "clip_norm": 1.0},
        {"loss_scale": 128, "clip_norm": 1.0},
        {"compute_dtype": "bfloat16"},
    ],
)
@recorded(slice(1, None, 3), slow=slice(None))
def test_recorded_graphs_pass_and_are_explained(paths, flags):
    step = 4 if len(paths) > 4 else 2
    for path in paths[len(flags) % step :: step]:
        conversion = graphmp.convert(path, **flags)
        diff = conversion.diff()
        assert diff.failed == (), path.name
        assert diff.unexplained == (), path.name
        assert diff.stale == (), path.name
        assert {kept.kind for kept in diff.kept} >= {"variable kept"}, path.name
        assert compare(diff.apply(read_graph(path)), conversion.meta_graph).identical, path.name


@pytest.mark.parametrize("name", sorted(MODELS)[::3])
def test_models_pass_and_are_explained(name):
    with tf.Graph().as_default():
        MODELS[name](lambda function: function)
        original = tf.train.export_meta_graph()
    diff = graphmp.convert(original, loss_scale="dynamic").diff()
    assert (diff.failed, diff.unexplained, diff.stale) == ((), (), ())


def test_a_report_without_rows_explains_nothing(conversion):
    diff = explained(compare(conversion.original, conversion.meta_graph), {})
    assert len(diff.unexplained) == len(diff.changes)
