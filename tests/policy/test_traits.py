"""The tables of ops.

Lists, traits and kernels name ops that exist, and agree with the running TensorFlow's kernel
registry.
"""

from __future__ import annotations

import importlib

import pytest
import tensorflow.compat.v1 as tf

from graphmp.policy import op_sets, tables, traits
from graphmp.policy.dtypes import BFLOAT16, BY_NAME, FLOAT16, FLOAT32
from graphmp.policy.policy import CATEGORIES, Policy
from graphmp.tf_hooks import internals
from graphmp.tf_hooks.op_defs import WIDER

pytestmark = pytest.mark.unit

TF2 = tf.__version__ > "2"
HALVES = ("float16", "bfloat16")
TYPES = (
    "T",
    "Ta",
    "Tb",
    "Tout",
    "dtype",
    "Tparams",
    "elem_type",
    "element_dtype",
)  # attributes that hold the dtype an op computes in
ELSEWHERE = {  # ops that the Python registry of this TensorFlow doesn't have
    True: {"FusedConv2DBiasActivation"},  # of tf.contrib
    False: {
        "FusedConv2DBiasActivation", "BatchMatMulV3", "_Arg", "_Retval", "ExtractGlimpseV2",
        "ImageProjectiveTransformV3",
    },
}[TF2]  # fmt: skip
OF_CONTRIB = {  # known or not, by what was imported before
    "ImageProjectiveTransform", "ImageProjectiveTransformV2", "Resampler", "ResamplerGrad"
}  # fmt: skip
NOT_LISTED = (
    set() if TF2 else {"Einsum"}
)  # tf.einsum of 1.15.5 is made of matmuls: the op itself comes from TensorFlow 2
LISTED_TRAITS = (
    "MOVES_NOTHING", "DISCONTINUOUS", "KEEPS_VALUES", "FORGETS_VALUES", "LAST_ACTIVATIONS",
    "BIAS_ADDS", "LOOK_UPS",
    "NONLINEAR_DENIED", "PASSES_ON", "HANDLE_OPS", "WIDER_STATISTICS", "BOUNDED",
    "BOUNDED_OFF_ZERO", "BOUNDED_IN_GRADIENT", "SHARES_MEMORY", "SLOW_IN_HALF",
    "DIVIDES_BY_RECIPROCAL", "DECIDES_NEAR_ONE", "READS_POSITIONS", "NEXT_INTEGER", "REMAINDER",
    "FORGETS_SIZES", "WEIGHTS_OF_MEAN", "SINGULAR", "SINGULAR_AT_ONE", "DIVIDES", "REDUCES",
    "SQUARES", "FACTORS", "MAGNIFIES", "NEEDS_RANGE",
)  # fmt: skip


def known(op):
    try:
        return internals.op_def(op) is not None
    except KeyError:
        return False


def has_kernel(op, dtype, device):
    """Whether the registry has a kernel of an op that takes a dtype; the device DEFAULT is any."""
    types = {a.name for a in internals.op_def(op).attr if a.type == "type" and a.name in TYPES}
    registry = importlib.import_module("tensorflow.python.framework.kernels")
    return any(
        all(dtype in c.allowed_values.list.type for c in kernel.constraint if c.name in types)
        for kernel in registry.get_registered_kernels_for_op(op).kernel
        if kernel.device_type in (device, "DEFAULT")
    )


def paintable(policy):
    """Ops that may become half, by the op that then runs."""
    return {WIDER.get(op, op) for op in policy.allow | policy.infer | policy.clear if known(op)}


@pytest.mark.parametrize("dtype", HALVES)
def test_listed_ops_exist(dtype):
    policy = Policy.default(dtype)
    listed = {op for category in CATEGORIES for op in getattr(policy, category)}
    assert {op for op in listed if not known(op)} <= ELSEWHERE


def test_the_allow_list_of_missing_ops_is_no_longer_than_needed():
    assert not [op for op in ELSEWHERE if known(op)]


@pytest.mark.parametrize("dtype", HALVES)
def test_lists_are_disjoint_and_sorted(dtype):
    text = (tables.FOLDER / (dtype + ".txt")).read_text()
    rows = [
        tuple(line.split("#")[0].split())
        for line in text.splitlines()
        if line.split("#")[0].split()
    ]
    ops = [op for _, op in rows]
    assert len(ops) == len(set(ops))
    assert rows == sorted(rows, key=lambda row: (CATEGORIES.index(row[0]), row[1]))


def test_bfloat16_denies_less_than_float16():
    half, brain = Policy.default("float16"), Policy.default("bfloat16")
    assert brain.deny < half.deny and brain.allow == half.allow and brain.clear == half.clear
    assert brain.infer - half.infer == half.deny - brain.deny


@pytest.mark.parametrize("trait", LISTED_TRAITS)
def test_ops_of_traits_exist(trait):
    words = {word for entry in getattr(traits, trait) for word in entry.split("/")}
    ops = {word for word in words - OF_CONTRIB if not word.isdigit()}
    assert ops and {op for op in ops if not known(op)} <= ELSEWHERE


def test_every_trait_of_the_table_is_served():
    assert set(traits._TRAITS) == {name.lower() for name in LISTED_TRAITS}


def test_no_op_is_named_twice_for_a_trait():
    named = [(trait, op) for trait, *ops in tables.rows("traits.txt") for op in ops]
    assert len(named) == len(set(named))


def test_traits_fit_each_other_and_the_lists():
    policy = Policy.default("float16")
    assert not traits.KEEPS_VALUES & traits.FORGETS_VALUES
    assert not traits.HANDLE_OPS & traits.PASSES_ON
    assert policy.deny >= traits.NONLINEAR_DENIED
    assert policy.infer >= traits.LAST_ACTIVATIONS | traits.BIAS_ADDS
    assert op_sets.SUMS - {"AccumulateNV2"} <= policy.infer
    assert set(WIDER) | set(WIDER.values()) <= traits.WIDER_STATISTICS <= policy.infer


def test_ops_of_wider_statistics_have_the_attribute():
    for op in traits.WIDER_STATISTICS - set(WIDER):
        assert "U" in {a.name for a in internals.op_def(op).attr}, op


def _handle_ops_with_dtype():
    """Ops on handles with an attribute for the dtype of the stored values."""
    return sorted(
        op
        for op in traits.HANDLE_OPS
        if any(a.name in TYPES for a in internals.op_def(op).attr if a.type == "type")
    )


def test_all_ops_on_handles_are_listed():
    """An unlisted op keeps its whole group in float32."""
    clear = Policy.default("float16").clear
    assert [op for op in _handle_ops_with_dtype() if op not in clear] == []


@pytest.mark.parametrize("dtype", HALVES)
def test_the_table_of_kernels_names_listed_ops(dtype):
    policy = Policy.default(dtype)
    rows = [row for row in tables.rows("kernels.txt") if row[0] == dtype]
    ops = [row[1] for row in rows]
    assert len(ops) == len(set(ops)) and set(ops) <= policy.allow | policy.infer | policy.clear
    assert {device for row in rows for device in row[2].split(",")} <= {"CPU", "GPU", "1.15.5"}
    assert traits.without_kernel(dtype) == set(ops)


def test_the_table_of_kernels_has_no_other_dtype():
    assert {row[0] for row in tables.rows("kernels.txt")} == set(HALVES) and traits.without_kernel(
        "float32"
    ) == frozenset()


@pytest.mark.parametrize(
    "dtype, device", [(dtype, device) for dtype in HALVES for device in ("CPU", "GPU")]
)
def test_the_table_of_kernels_agrees_with_the_registry(dtype, device):
    """An op counts as lacking a kernel if it has one for float32 and none for half precision."""
    if not TF2 and (dtype == "bfloat16" or (device == "GPU" and not tf.test.is_built_with_cuda())):
        pytest.skip(
            "the table is of 2.21's bfloat16 kernels, and this build of 1.15.5 has none for a GPU"
        )
    listed = {
        op
        for listed_as, op, devices in tables.rows("kernels.txt")
        if listed_as == dtype and device in devices.split(",")
    }
    ops = paintable(Policy.default(dtype))
    missing = {
        op
        for op in ops
        if has_kernel(op, FLOAT32, device) and not has_kernel(op, BY_NAME[dtype], device)
    }
    assert missing - NOT_LISTED == {op for op in listed if known(op)}


def test_has_kernel():
    assert has_kernel("MatMul", FLOAT16, "CPU") and has_kernel("MatMul", FLOAT32, "CPU")
    assert not has_kernel("GRUBlockCell", FLOAT16, "CPU") and has_kernel(
        "Identity", BFLOAT16, "CPU"
    )
