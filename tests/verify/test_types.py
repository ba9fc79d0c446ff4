"""The claim of types: what is half has a kernel where it may run."""

from __future__ import annotations

import pytest

from graphmp.verify import verify
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit
ORIGINAL = ("x Placeholder dtype=float32", "y Where x T=float32")
HALF = ("x Placeholder dtype=float32", "h Cast x SrcT=float32 DstT=float16", "y Where h T=float16")


def verdict(converted, devices):
    """The verdict on types, and the nodes."""
    claim = next(
        claim
        for claim in verify(meta_graph(*ORIGINAL), converted, devices=devices).claims
        if claim.name == "types"
    )
    return claim.verdict, claim.text


def test_no_kernel_on_one_of_two_devices():
    assert verdict(meta_graph(*HALF), ("CPU", "GPU")) == (
        "failed",
        "y is float16, for which a Where has no kernel on the GPU",
    )


def test_only_devices_that_are_there():
    assert verdict(meta_graph(*HALF), ("CPU",))[0] == "proved"


@pytest.mark.parametrize(
    "device, expected", [("/device:CPU:0", "proved"), ("/job:worker/task:1/gpu:0", "failed")]
)
def test_a_node_has_a_device_of_its_own(device, expected):
    converted = meta_graph(*HALF)
    converted.graph_def.node[2].device = device
    assert verdict(converted, ("CPU", "GPU"))[0] == expected


def test_what_was_half_before_is_no_conversion():
    original = meta_graph(*HALF)
    claim = next(claim for claim in verify(original, original).claims if claim.name == "types")
    assert claim.verdict == "proved"
