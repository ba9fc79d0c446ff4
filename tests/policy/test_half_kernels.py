"""The tables of half-precision kernels."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import kernels

from graphmp.policy.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOATS
from graphmp.policy.half_kernels import DEVICES, has_kernel

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "op, types, device, expected",
    [
        ("Conv2D", {"T": FLOAT16}, "CPU", True),
        ("Conv2D", {"T": FLOAT16}, "GPU", True),
        ("Where", {"T": FLOAT16}, "CPU", True),
        ("Where", {"T": FLOAT16}, "GPU", False),
        ("FusedBatchNormV3", {"T": FLOAT16, "U": FLOAT32}, "GPU", True),
        ("FusedBatchNormV3", {"T": FLOAT16, "U": FLOAT16}, "GPU", False),
        ("Cast", {"SrcT": FLOAT32, "DstT": FLOAT16}, "GPU", True),
        ("Cast", {"SrcT": FLOAT16, "DstT": BFLOAT16}, "CPU", True),
        ("Identity", {"T": FLOAT16}, "GPU", True),
        ("NoSuchOp", {"T": FLOAT16}, "CPU", False),
    ],
)
def test_has_kernel(op, types, device, expected):
    assert has_kernel(op, types, device) == expected


def test_the_tables_are_those_of_this_tensorflow():
    """All half-precision kernels of 2.21 and 1.15.5 are listed, for the devices of the wheel.

    Those for bfloat16 by 2.21 alone.
    """
    if not tf.__version__.startswith(("1.15.5", "2.21.")):
        pytest.skip("the tables are of 1.15.5 and 2.21")
    halves = {FLOAT16} if tf.__version__.startswith("1.") else {FLOAT16, BFLOAT16}
    found = kernels.get_all_registered_kernels().kernel
    missing = []
    for kernel in found:
        types = {c.name: set(c.allowed_values.list.type) & set(FLOATS) for c in kernel.constraint}
        if (
            kernel.device_type in DEVICES and len(types) == 1 and hasattr(tf.raw_ops, kernel.op)
        ):  # none of a library that was loaded
            ((name, allowed),) = types.items()
            missing += [
                (kernel.op, t)
                for t in allowed & halves
                if not has_kernel(kernel.op, {name: t}, kernel.device_type)
            ]
    assert missing == [] and len(found) > 5000
