"""Ranges that an audit measures, as the painter uses them."""

from __future__ import annotations

import json

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.audit.repair.fix import half_nodes
from graphmp.audit.run import audit
from graphmp.errors import GraphmpError
from graphmp.graph.structure.view import GraphView
from graphmp.policy.policy import Policy
from tests.support.audited import TOLERANCE, found, graph_of


def test_ranges_keep_what_overflowed(data, tmp_path):
    conversion, audited = found("activation", data)
    (tmp_path / "audit.json").write_text(audited.to_json())
    overflowed = json.loads(audited.to_json())["overflowed"]
    assert (
        {"fault/mul", "fault/Relu"}
        <= set(overflowed)
        <= set(half_nodes(conversion)) | {"fault/big/read"}
    )
    again = graphmp.convert(graph_of("activation"), ranges=str(tmp_path / "audit.json"))
    view = GraphView(conversion.original.graph_def)
    readers = {consumer.node for name in overflowed for consumer in view.consumers(name)}
    assert (set(overflowed) | readers).isdisjoint(half_nodes(again))
    reasons = {
        node: row["reason"] for row in again.report["float32_nodes"] for node in row["nodes"]
    }
    assert reasons["fault/mul"].startswith("range guard: fault/") and reasons["fault/mul"].endswith(
        " overflowed in an audit"
    )
    found_again = audit(again, data, TOLERANCE)
    assert found_again.agrees, [finding.range.row.name for finding in found_again.disagreeing]


@pytest.mark.unit
@pytest.mark.parametrize(
    "text, code",
    [
        ("", "GMP003"),
        ("{", "GMP003"),
        ("[]", "GMP002"),
        ('{"schema": "graphmp.audit/1"}', "GMP002"),
        (None, "GMP003"),
    ],
)
def test_ranges_that_are_none(text, code, tmp_path):
    path = tmp_path / "audit.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(GraphmpError, match="%s.*--ranges=" % code):
        graphmp.convert(graph_of("nothing"), ranges=str(path))


@pytest.mark.unit
def test_policy_lines_that_keep_nodes():
    policy = Policy.default("float16").with_text("keep_float32 ^a/b$  # why\nkeep_float32 c\\.d+\n")
    assert policy.keep_float32 == ("^a/b$", "c\\.d+")
    assert Policy.from_text(policy.to_text()) == policy
    for line in ("keep_float32", "keep_float32 (", "keep_float32 a b"):
        with pytest.raises(GraphmpError, match=r"GMP010.*lines:2: found"):
            Policy.default("float16").with_text("# first\n" + line, "lines")


@pytest.mark.unit
def test_policy_lines_act_in_the_rewrite(tmp_path):
    (tmp_path / "kept.policy").write_text(
        "keep_float32 ^before/MatMul$\nkeep_float32 ^gradients/after\n"
    )
    half = half_nodes(graphmp.convert(graph_of("nothing"), op_policy=str(tmp_path / "kept.policy")))
    kept = [name for name in half_nodes(graphmp.convert(graph_of("nothing"))) if name not in half]
    assert "before/MatMul" in kept and {
        "gradients/after/MatMul_grad/MatMul",
        "gradients/after/MatMul_grad/MatMul_1",
    } <= set(kept)
    assert "after/MatMul" in half and not any(name.startswith("gradients/after") for name in half)


@pytest.mark.unit
def test_policy_lines_act_in_the_recipe(tmp_path, graph):
    (tmp_path / "kept.policy").write_text("keep_float32 one/MatMul$\n")

    @graphmp.mixed_precision(loss_scale="none", op_policy=str(tmp_path / "kept.policy"))
    def build(x):
        return tf.layers.dense(tf.layers.dense(x, 8, name="one"), 1, name="two")

    build(tf.placeholder(tf.float32, [4, 12]))
    dtypes = {op.name: op.get_attr("T") for op in graph.get_operations() if op.type == "MatMul"}
    assert [dtype for name, dtype in sorted(dtypes.items())] == [tf.float32, tf.float16], dtypes
