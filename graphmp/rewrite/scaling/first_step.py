"""A first step also looks inside gradient code: what a matmul of it returns in half precision may be larger than any gradient that leaves.

Comes after the painting, which decides what is half. Only a first step computes this: elsewhere it is dead behind a Switch.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Iterator, List, NamedTuple

import tensorflow.compat.v1 as tf

from graphmp.graph.branches import conditional
from graphmp.graph.building import SCOPE
from graphmp.graph.devices import Places
from graphmp.graph.dtypes import FLOAT32, HALF, INT32
from graphmp.graph.editing import Editor
from graphmp.graph.frames import loop_depths
from graphmp.graph.view import Consumer, GraphView, Port
from graphmp.rewrite.op_defs import OpDefs

_MOST = 64  # looked at in one loss: an unrolled network has hundreds, much alike
_REASON = "scale: a first step is taken unscaled and shows what scale fits"


class FirstStep(NamedTuple):
    """What is known of one loss before the painting.

    Attributes:
        inside: the constant that stands for the largest value inside gradient code.
        flag: the node that says whether this is the first step.
        nodes: the gradient code.
    """

    inside: str
    flag: str
    nodes: AbstractSet[str]


def look_inside(graph_def: tf.GraphDef, losses: List[FirstStep], allow: AbstractSet[str], op_defs: OpDefs) -> List[str]:
    """Has the first steps look at matmuls and convolutions of gradient code. Returns the nodes that were added."""
    if not losses:
        return []
    editor, view = Editor(graph_def), GraphView(graph_def)
    depths, hidden, places = loop_depths(view), conditional(view), Places(view)
    for loss in losses:
        ports = [
            port
            for name, node in view.nodes.items()
            if name in loss.nodes and node.op in allow and not depths.get(name, 0) and name not in hidden
            for port in _half_outputs(view, name, op_defs)
            if not _only_unscaled(view, port)
        ]
        if ports:
            largest = _largest(editor, op_defs, view, loss, ports[:: len(ports) // _MOST + 1], places)
            for consumer in view.consumers(loss.inside):
                editor.connect(consumer.node, consumer.slot, largest)
    return list(editor.added)


def _half_outputs(view: GraphView, name: str, op_defs: OpDefs) -> Iterator[Port]:
    signature = op_defs.signature(view.nodes[name])
    read = {consumer.output for consumer in view.consumers(name)}
    for output, port in enumerate(signature.outputs if signature is not None else ()):
        if port.dtype in HALF and output in read:
            yield Port(name, output)


def _only_unscaled(view: GraphView, port: Port) -> bool:
    """Whether an output is a gradient that leaves, and is looked at there: read by an unscale alone, by way of a cast."""
    readers = [consumer.node for consumer in view.consumers(port.node) if consumer.output == port.output]
    behind = [c.node for name in readers for c in (view.consumers(name) if "_graphmp_" in name else [Consumer(name, 0, 0)])]
    return all(name.startswith(SCOPE + "/") for name in behind)


def _largest(editor: Editor, op_defs: OpDefs, view: GraphView, loss: FirstStep, ports: List[Port], places: Places) -> Port:
    """A float32 scalar: the largest absolute value of tensors of one half-precision dtype."""
    scope = loss.inside + "_of"
    dtype = op_defs.signature(view.nodes[ports[0].node]).outputs[ports[0].output].dtype  # type: ignore[union-attr]
    flat, first = (_constant(editor, "%s/%s" % (scope, name), value) for name, value in (("flat", -1), ("first", 0)))
    sizes = []
    for port in ports:
        device = places.of(port.node)
        switch = editor.add("%s/%s/switch" % (scope, port.node), "Switch", [port, Port(loss.flag, 0)], _REASON, device, T=dtype)
        size = editor.add("%s/%s/size" % (scope, port.node), "Abs", [Port(switch.node, 1)], _REASON, device, T=dtype)
        row = editor.add("%s/%s/row" % (scope, port.node), "Reshape", [size, flat], _REASON, device, T=dtype, Tshape=INT32)
        sizes.append(_maximum(editor, "%s/%s/largest" % (scope, port.node), row, first, device, dtype))
    count: Any = tf.AttrValue(i=len(sizes))
    device = places.of(ports[0].node)
    packed = editor.add(scope + "/sizes", "Pack", sizes, _REASON, device, T=dtype, N=count)
    cast = editor.add(scope + "/cast", "Cast", [packed], _REASON, device, SrcT=dtype, DstT=FLOAT32)
    return _maximum(editor, scope + "/largest", cast, first, device, FLOAT32)


def _maximum(editor: Editor, name: str, row: Port, axis: Port, device: str, dtype: int) -> Port:
    return editor.add(name, "Max", [row, axis], _REASON, device, T=dtype, Tidx=INT32, keep_dims=False)


def _constant(editor: Editor, name: str, number: int) -> Port:
    return editor.add(name, "Const", (), _REASON, dtype=INT32, value=tf.make_tensor_proto([number], tf.int32))
