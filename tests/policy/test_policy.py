"""The op lists and the Policy value."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.policy.policy import CATEGORIES, Policy, load, tensor_core_ops
from graphmp.tf_hooks import internals

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_lists_are_disjoint_and_round_trip(dtype):
    policy = Policy.default(dtype)
    listed = [op for category in CATEGORIES for op in getattr(policy, category)]
    assert len(listed) == len(set(listed)) > 150
    assert Policy.from_text(policy.to_text()) == policy
    assert Policy.from_text(policy.to_text()).to_text() == policy.to_text()


def test_what_the_lists_say():
    half, brain = Policy.default("float16"), Policy.default("bfloat16")
    assert [
        half.category(op)
        for op in ("BatchMatMulV3", "Softmax", "Relu", "Exp", "Sum", "MatrixInverse")
    ] == [
        "allow",
        "infer",
        "clear",
        "deny",
        "deny",
        "unlisted",
    ]
    assert (
        brain.category("Sum") == "infer"
        and half.wants_float32("MatrixInverse")
        and not brain.wants_float32("Rsqrt")
    )
    assert Policy.default("float32") == Policy()
    assert "Conv2D" in tensor_core_ops()


def test_ops_of_the_allow_list_take_half_here():
    """Those that this TensorFlow knows; the exceptions stay float32."""
    known = [op for op in tensor_core_ops() if hasattr(tf.raw_ops, op)]
    assert {"Conv2D", "MatMul", "BlockLSTM"} <= set(known)
    assert {op for op in known if not internals.accepts(op, "float16")} == {
        "GRUBlockCell",
        "GRUBlockCellGrad",
    }


def test_a_file_changes_the_lists(tmp_path):
    path = tmp_path / "policy.txt"
    path.write_text("# mine\nallow MyMatMul\ndeny Relu # here\n-Exp\n\n")
    policy = load("float16", str(path))
    assert [policy.category(op) for op in ("MyMatMul", "Relu", "Exp", "Conv2D")] == [
        "allow",
        "deny",
        "unlisted",
        "allow",
    ]


@pytest.mark.parametrize("line", ["permit Relu", "allow", "allow Two Words", "-"])
def test_a_bad_line_is_named(line, tmp_path):
    path = tmp_path / "policy.txt"
    path.write_text("allow Conv2D\n%s\n" % line)
    with pytest.raises(GraphmpError, match=r"GMP010: .*policy.txt:2: found"):
        load("float16", str(path))
    with pytest.raises(GraphmpError, match="GMP003"):
        load("float16", str(tmp_path / "nowhere"))


def test_config_repeats_itself_as_flags():
    config = Config.make(
        loss_scale="128", clip_norm="5", keep_float32=["a", "b"], engine_strict=True
    )
    assert config.flagfile_lines() == [
        "--clip_norm=5",
        "--engine_strict",
        "--keep_float32=a",
        "--keep_float32=b",
        "--loss_scale=128",
    ]
    assert Config.make().flagfile_lines() == []
    assert (
        Config.make().loss_scale == "dynamic"
        and Config.make(compute_dtype="bfloat16").loss_scale == "none"
    )
    assert Config.make(loss_scale=None) == Config.make(loss_scale="none")
    assert Config.make(compute_dtype="bfloat16", loss_scale="dynamic").flagfile_lines() == [
        "--compute_dtype=bfloat16",
        "--loss_scale=dynamic",
    ]
