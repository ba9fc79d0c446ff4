"""The values that a first step measures.

Gradients, and the results of matmuls in gradient code, which may be larger.

Inserted after painting, which decides what is half. Only a first step computes these values: in
other steps they are dead, as they wait for one side of a Switch. Small gradients that the finite
check joins are measured as one. What no update needs, such as the gradient of a batch of images,
isn't measured: TensorFlow would compute it in each step.

The recipe's `loss_scale.gradients.largest` is built by TensorFlow; for thousands of gradients that
took a seventh of a rewrite's memory.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterator, List, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.editing import Editor
from graphmp.graph.state.devices import Places
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.frames import loop_depths
from graphmp.graph.structure.view import CONTROL, Consumer, GraphView, Port
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import BOOL, FLOAT32, HALF, INT32
from graphmp.policy.reason import SCALE, Done, Reason
from graphmp.tf_hooks.op_defs import OpDefs

_MOST = 64  # measured in one loss: an unrolled network has hundreds of similar ones
_REASON = Reason(SCALE, "a first step shows what scale fits")


class FirstStep(NamedTuple):
    """Facts about one loss before painting.

    Attributes:
        largest: the constant in place of the largest absolute value.
        flag: the node that tells whether this is the first step.
        gradients: unscaled gradients, those that the finite check reads.
        nodes: the gradient code.
    """

    largest: str
    flag: str
    gradients: Sequence[Port]
    nodes: AbstractSet[str]


def look(
    graph_def: tf.GraphDef, losses: List[FirstStep], allow: AbstractSet[str], op_defs: OpDefs
) -> List[Done]:
    """Make first steps measure gradients, and matmuls and convolutions of gradient code.

    Returns the added nodes.
    """
    if not losses:
        return []
    editor, view = Editor(graph_def), GraphView(graph_def)
    depths, hidden, places = loop_depths(view), conditional(view), Places(view)
    for loss in losses:
        needed = view.ancestors((port.node for port in loss.gradients), control=False)
        inside = [
            port
            for name in view.in_graph_order(needed.intersection(loss.nodes))
            if view.nodes[name].op in allow and not depths.get(name, 0) and name not in hidden
            for port in _half_outputs(view, name, op_defs)
            if not _only_unscaled(view, port)
        ]
        gradients = (_joined(view, port) for port in loss.gradients)
        ports = [*dict.fromkeys(gradients), *inside[:: len(inside) // _MOST + 1]]
        if ports:
            found = _Look(editor, op_defs, view, loss, places, bool(depths.get(loss.flag, 0)))
            editor.read_instead(view.consumers(loss.largest), found.largest(ports))
    return [Done(name, "inserted", _REASON) for name in editor.added]


def _joined(view: GraphView, gradient: Port) -> Port:
    """The row of small gradients that the finite check makes, if a gradient is one of them."""
    flat = (
        consumer.node
        for consumer in view.consumers(gradient.node)
        if consumer.output == gradient.output and consumer.node.startswith(SCOPE + "/")
    )
    readers = (reader.node for name in flat for reader in view.consumers(name))
    rows = (Port(name, 0) for name in readers if view.nodes[name].op == "ConcatV2")
    return next(rows, gradient)


def _half_outputs(view: GraphView, name: str, op_defs: OpDefs) -> Iterator[Port]:
    signature = op_defs.signature(view.nodes[name])
    read = {consumer.output for consumer in view.consumers(name)}
    for output, port in enumerate(signature.outputs if signature is not None else ()):
        if port.dtype in HALF and output in read:
            yield Port(name, output)


def _only_unscaled(view: GraphView, port: Port) -> bool:
    """Whether an output is a gradient that is measured after its unscale.

    Its only consumer is then the unscale, possibly through a cast.
    """
    readers = [
        consumer.node for consumer in view.consumers(port.node) if consumer.output == port.output
    ]
    behind = [
        c.node
        for name in readers
        for c in (view.consumers(name) if "_graphmp_" in name else [Consumer(name, 0, 0)])
    ]
    return all(name.startswith(SCOPE + "/") for name in behind)


class _Look:
    """Nodes that find the largest absolute value of tensors.

    Each is reduced to a number on its own device and in its own dtype.
    """

    def __init__(
        self,
        editor: Editor,
        op_defs: OpDefs,
        view: GraphView,
        loss: FirstStep,
        places: Places,
        looped: bool,
    ):
        self._editor, self._op_defs, self._view, self._loss, self._places = (
            editor,
            op_defs,
            view,
            loss,
            places,
        )
        self._scope = loss.largest + "_of"
        self._device = places.of(loss.largest)
        self._wait = [Port(loss.flag, CONTROL)] if looped else []  # a constant of the loop
        self._flat, self._first = self._constant("flat", -1), self._constant("first", 0)
        flag = Port(loss.flag, 0)
        switch = self._add("switch", "Switch", [flag, flag], self._device, T=BOOL)
        taken = self._add("taken", "Identity", [Port(switch.node, 1)], self._device, T=BOOL)
        self._in_first_step = Port(taken.node, CONTROL)

    def largest(self, ports: Sequence[Port]) -> Port:
        """The largest absolute value of all tensors, a float32 scalar."""
        by_dtype: Dict[int, List[Port]] = {}
        for port in ports:
            signature = self._op_defs.signature(self._view.nodes[port.node])
            dtype = signature.outputs[port.output].dtype  # type: ignore[union-attr]
            by_dtype.setdefault(dtype, []).append(self._size(port, dtype))
        found = [self._packed(sizes, dtype) for dtype, sizes in by_dtype.items()]
        return self._largest(
            "largest", self._pack("largest_of", found, FLOAT32), self._device, FLOAT32
        )

    def _size(self, port: Port, dtype: int) -> Port:
        """The largest absolute value of one tensor, in a first step."""
        device = self._places.of(port.node)
        scope = port.node[len(SCOPE) + 1 :] if port.node.startswith(SCOPE + "/") else port.node
        row = self._add(
            scope + "/row",
            "Reshape",
            [port, self._flat, self._in_first_step],
            device,
            T=dtype,
            Tshape=INT32,
        )
        return self._largest(
            scope + "/largest",
            self._add(scope + "/size", "Abs", [row], device, T=dtype),
            device,
            dtype,
        )

    def _packed(self, sizes: List[Port], dtype: int) -> Port:
        """The largest of scalars of one dtype, a float32 scalar."""
        packed = self._pack("sizes", sizes, dtype)
        if dtype != FLOAT32:
            packed = self._add("cast", "Cast", [packed], self._device, SrcT=dtype, DstT=FLOAT32)
        return self._largest("sizes/largest", packed, self._device, FLOAT32)

    def _pack(self, name: str, scalars: List[Port], dtype: int) -> Port:
        count: Any = tf.AttrValue(i=len(scalars))
        return self._add(name, "Pack", scalars, self._device, T=dtype, N=count)

    def _largest(self, name: str, row: Port, device: str, dtype: int) -> Port:
        return self._add(
            name, "Max", [row, self._first], device, T=dtype, Tidx=INT32, keep_dims=False
        )

    def _constant(self, name: str, number: int) -> Port:
        return self._add(
            name,
            "Const",
            self._wait,
            self._device,
            dtype=INT32,
            value=tf.make_tensor_proto([number], tf.int32),
        )

    def _add(
        self, name: str, op: str, inputs: Sequence[Port], device: str, **attributes: Any
    ) -> Port:
        return self._editor.add(
            "%s/%s" % (self._scope, name), op, inputs, device=device, **attributes
        )
