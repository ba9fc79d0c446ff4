"""Diffs for tests of the page: a small one with all features, and any number of layers."""

from __future__ import annotations

import base64
import gzip
import json
import re

import tensorflow.compat.v1 as tf

from graphmp.compare.api import Diff, compare
from graphmp.compare.changes import BodyPair, Change, KeptReason
from graphmp.graph.structure.view import GraphView
from graphmp.verify import FAILED, NOT_APPLICABLE, PROVED, Claim
from tests.support.tiny import meta_graph

HOSTILE = "</script><img src=x onerror=alert(1)>|`[b]\x1b[31m\u202e&amp;"

BEFORE = (
    "images Placeholder dtype=float32",
    "conv1/kernel VariableV2 dtype=float32",
    "conv1/Conv2D Conv2D images conv1/kernel T=float32",
    "conv2/kernel VariableV2 dtype=float32",
    "conv2/Conv2D Conv2D conv1/Conv2D conv2/kernel T=float32",
    "conv10/kernel VariableV2 dtype=float32",
    "conv10/Conv2D Conv2D conv2/Conv2D conv10/kernel T=float32",
    "tower/out Identity conv10/Conv2D T=float32",
    "loss Mean tower/out T=float32",
    "summary/loss Summary loss T=float32",
    "init NoOp ^summary/loss",
)
AFTER = (
    "images Placeholder dtype=float32",
    "images_graphmp_float16 Cast images SrcT=float32 DstT=float16",
    "conv1/kernel VariableV2 dtype=float32",
    "conv1/kernel_graphmp_float16 Cast conv1/kernel SrcT=float32 DstT=float16",
    "conv1/Conv2D Conv2D images_graphmp_float16 conv1/kernel_graphmp_float16 T=float16",
    "conv2/kernel VariableV2 dtype=float32",
    "conv2/kernel_graphmp_float16 Cast conv2/kernel SrcT=float32 DstT=float16",
    "conv2/Conv2D Conv2D conv1/Conv2D conv2/kernel_graphmp_float16 T=float16",
    "conv10/kernel VariableV2 dtype=float32",
    "conv10/kernel_graphmp_float16 Cast conv10/kernel SrcT=float32 DstT=float16",
    "conv10/Conv2D Conv2D conv2/Conv2D conv10/kernel_graphmp_float16 T=float16",
    "conv10/Conv2D_graphmp_float32 Cast conv10/Conv2D SrcT=float16 DstT=float32",
    "tower_1/result Identity conv10/Conv2D_graphmp_float32 T=float32",
    "loss Mean tower_1/result T=float32",
    "graphmp/loss_scale/scaled_loss Mul loss T=float32",
    "init NoOp",
)
FUNCTION = ("x _Arg T=float32", "y Relu x T=float32"), ("x _Arg T=float32", "y Relu x T=float16")


def sample():
    """Every category and status, a function, a renamed node, claims of each kind, a stale row."""
    return Diff(
        tuple(_changes()),
        True,
        ("before.meta", "after.meta"),
        (
            Claim(
                "variables",
                PROVED,
                "3 of 3 float32",
                ("conv1/kernel", "conv2/kernel", "conv10/kernel"),
            ),
            Claim(
                "scale cancels",
                FAILED,
                "nothing divides by it",
                ("graphmp/loss_scale/scaled_loss",),
            ),
            Claim("clip", NOT_APPLICABLE, "no clip"),
        ),
        ("conv7/Conv2D: dtype of T: float32 -> float16",),
        (
            KeptReason("loss", "", "loss kept", "loss: stays float32"),
            KeptReason("conv1/kernel", "", "variable kept", "variable: stored in float32"),
            KeptReason("conv2/kernel", "", "variable kept", "variable: stored in float32"),
            KeptReason("x", "f", "pinned", "pinned: an argument"),
        ),
        (
            BodyPair("", view(*BEFORE), view(*AFTER), {"tower/out": "tower_1/result"}),
            BodyPair("f", view(*FUNCTION[0]), view(*FUNCTION[1]), {}),
        ),
    )


def _changes():
    yield Change("summary/loss", "node removed", "Summary T=float32", None)  # unexplained
    yield Change(
        "init", "control", "^summary/loss", None, "waits for what is left", kind="bookkeeping"
    )
    yield Change(
        "library/f", "function", "2 nodes", "2 nodes", "rewritten inside", kind="bookkeeping"
    )
    yield Change(
        "collection_def/losses",
        "meta graph",
        "7 bytes",
        "9 bytes",
        "list of what the graph holds",
        kind="bookkeeping",
    )
    yield Change("tower_1/result", "node renamed", "tower/out", "tower_1/result")  # unexplained
    for layer in ("conv1", "conv10", "conv2"):
        yield Change(
            layer + "/Conv2D",
            "dtype",
            "float32",
            "float16",
            "Conv2D is worth half precision",
            "T",
            kind="allow",
        )
    yield Change(
        "y", "dtype", "float32", "float16", "between half-precision ops", "T", "f", "infer"
    )
    for layer in ("conv1", "conv10", "conv2"):
        edge = layer + "/kernel", layer + "/kernel_graphmp_float16"
        yield Change(
            layer + "/Conv2D",
            "edge via cast",
            edge[0],
            edge[1],
            "reads its input through a cast",
            "input 1",
            kind="cast down",
        )
    for name in ("images", "conv1/kernel", "conv10/kernel", "conv2/kernel"):
        yield Change(
            name + "_graphmp_float16",
            "node added",
            None,
            "Cast DstT=float16 SrcT=float32",
            "cast where both meet",
            kind="cast down",
        )
    yield Change(
        "conv10/Conv2D_graphmp_float32",
        "node added",
        None,
        "Cast DstT=float32 SrcT=float16",
        "cast where both meet",
        kind="cast up",
    )
    yield Change(
        "graphmp/loss_scale/scaled_loss",
        "node added",
        None,
        "Mul T=float32",
        "the loss is multiplied by the scale",
        kind="scale",
    )


# Two trained dense layers, and the same with a loss scale for the second one's gradient, a clip and
# a gate.
UNTRAINED = (
    "x Placeholder dtype=float32",
    "first/kernel VariableV2 dtype=float32",
    "first/MatMul MatMul x first/kernel T=float32",
    "second/kernel VariableV2 dtype=float32",
    "second/MatMul MatMul first/MatMul second/kernel T=float32",
    "second/Exp Exp second/MatMul T=float32",
    "loss Mean second/Exp T=float32",
    "rate Const",
    "gradients/first/MatMul MatMul loss x T=float32",
    "gradients/second/MatMul MatMul loss first/MatMul T=float32",
    "train/update_first ApplyGradientDescent first/kernel rate gradients/first/MatMul T=float32",
    "train/update_second ApplyGradientDescent second/kernel rate gradients/second/MatMul T=float32",
)
TRAINED = (
    *UNTRAINED[:2],
    "first/MatMul MatMul x first/kernel T=float32",
    *UNTRAINED[3:4],
    "second/kernel_graphmp_float16 Cast second/kernel SrcT=float32 DstT=float16",
    "first/MatMul_graphmp_float16 Cast first/MatMul SrcT=float32 DstT=float16",
    "second/MatMul MatMul first/MatMul_graphmp_float16 second/kernel_graphmp_float16 T=float16",
    "second/MatMul_graphmp_float32 Cast second/MatMul SrcT=float16 DstT=float32",
    "second/Exp Exp second/MatMul_graphmp_float32 T=float32",
    *UNTRAINED[6:8],
    "graphmp/loss_scale/current Const",
    "graphmp/loss_scale/scaled_loss Mul loss graphmp/loss_scale/current T=float32",
    "gradients/first/MatMul MatMul graphmp/loss_scale/scaled_loss x T=float32",
    "gradients/second/MatMul MatMul graphmp/loss_scale/scaled_loss first/MatMul T=float32",
    "graphmp/loss_scale/unscale RealDiv gradients/first/MatMul graphmp/loss_scale/current "
    "T=float32",
    "graphmp/loss_scale/unscale_1 RealDiv gradients/second/MatMul graphmp/loss_scale/current "
    "T=float32",
    "graphmp/loss_scale/all_finite IsFinite graphmp/loss_scale/unscale T=float32",
    "graphmp/loss_scale/skip/selected Select graphmp/loss_scale/all_finite "
    "graphmp/loss_scale/unscale graphmp/loss_scale/unscale T=float32",
    "train/update_first ApplyGradientDescent first/kernel rate graphmp/loss_scale/skip/selected "
    "T=float32",
    "train/update_second ApplyGradientDescent second/kernel rate graphmp/loss_scale/unscale_1 "
    "^graphmp/loss_scale/all_finite T=float32",
)
TRAINED_REPORT = {
    "source": "models/dense.py",
    "compute_dtype": "float16",
    "coverage": {"tensor_core_ops": 4, "converted_ops": 1},
    "changes": [],
    "float32_nodes": [
        {"body": "", "kind": "no gain", "reason": "no gain: a cast costs more",
         "nodes": ["loss", "second/Exp"]},
        {"body": "", "kind": "pinned", "reason": "pinned by --keep_float32",
         "nodes": ["first/MatMul"]},
        {"body": "", "kind": "variable kept", "reason": "variable: stored in float32",
         "nodes": ["first/kernel", "second/kernel"]},
    ],
    "losses": [
        {
            "loss": ["loss"], "scale": "graphmp/loss_scale/current", "seeds": [],
            "gradient_scope": "gradients", "clip": "",
            "gradients": ["gradients/first/MatMul", "gradients/second/MatMul"],
            "finite": "graphmp/loss_scale/all_finite",
            "unscale": ["graphmp/loss_scale/unscale", "graphmp/loss_scale/unscale_1"],
            "gated": ["train/update_first", "train/update_second"],
            "updates": ["train/update_first", "train/update_second"],
        }
    ],
}  # fmt: skip


def trained():
    """A conversion with a loss scale, compared node by node.

    It supplies the summary, the drawing of the scale and the map.
    """
    before, after = (
        meta_graph(*UNTRAINED, rate=0.1),
        meta_graph(*TRAINED, rate=0.1, **{"graphmp/loss_scale/current": 128.0}),
    )
    return compare(before, after, TRAINED_REPORT)


def layers(count):
    """`count` layers of five nodes each, all with the same changes."""
    before, after, changes = tf.GraphDef(), tf.GraphDef(), []
    for number in range(count):
        for part in ("kernel", "Conv2D", "bias", "BiasAdd", "Relu"):
            name = "net/block%d/layer%d/%s" % (number // 10, number, part)
            before.node.add(name=name, op=part).attr["T"].type = 1
            after.node.add(name=name, op=part).attr["T"].type = 1 if part == "kernel" else 19
            if part != "kernel":
                changes.append(
                    Change(
                        name,
                        "dtype",
                        "float32",
                        "float16",
                        part + " is worth half precision",
                        "T",
                        kind="allow",
                    )
                )
    return Diff(
        tuple(changes), True, bodies=(BodyPair("", GraphView(before), GraphView(after), {}),)
    )


def hostile():
    """Names, ops, values and reasons that would be harmful if not escaped."""
    graph = tf.GraphDef()
    for name in (HOSTILE, HOSTILE + "/x", "javascript:alert(1)", "\u05d0\u05d1/\u202eevil"):
        graph.node.add(name=name, op=HOSTILE, device=HOSTILE).attr[HOSTILE].s = HOSTILE.encode(
            "utf-8"
        )
    changes = tuple(
        Change(node.name, "dtype", HOSTILE, "x", HOSTILE, HOSTILE) for node in graph.node
    )
    claims = (Claim(HOSTILE, PROVED, HOSTILE, (HOSTILE,)),)
    body = BodyPair("", GraphView(graph), GraphView(graph), {})
    return Diff(changes, True, (HOSTILE, HOSTILE), claims, (HOSTILE,), (), (body,))


def view(*lines):
    return GraphView(meta_graph(*lines).graph_def)


def page_json(page):
    """The data embedded in a page."""
    packed = re.search(r'<script id="data" type="text/plain">([^<]*)</script>', page).group(1)
    return json.loads(gzip.decompress(base64.b64decode(packed)).decode("utf-8"))
