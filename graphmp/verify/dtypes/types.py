"""Types: float32 where required, equal at both ends of every edge, and kernels for half."""

from __future__ import annotations

import re
from typing import Iterator, List, Sequence, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.state.state import described
from graphmp.graph.state.state_kinds import kind
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import HALF, INVALID, dtype_text
from graphmp.policy.half_kernels import DEVICES, has_kernel, types_of
from graphmp.policy.op_sets import ARGUMENT, PLACEHOLDERS, RESTORES, RESULT, SAVES, VARIABLE_OPS
from graphmp.policy.policy import tensor_core_ops
from graphmp.verify.sides import Fault, Sides, answers, attribute
from graphmp.wording import with_article

_OUTSIDE = PLACEHOLDERS | RESTORES | SAVES  # visible from outside


def type_faults(sides: Sides, devices: Sequence[str] = DEVICES) -> Iterator[Fault]:
    """Faults in the types of a converted body. `devices`: kinds of device for nodes without one."""
    yield from _edges(sides)
    yield from _kept(sides)
    yield from _kernels(sides, devices)


def _edges(sides: Sides) -> Iterator[Fault]:
    view = sides.after.view
    for name in view.nodes:
        signature = sides.after.signature(name)
        if signature is None or len(signature.inputs) != len(view.inputs(name)):
            continue
        for slot, port in enumerate(view.inputs(name)):
            found, wanted = sides.after.dtype(port), signature.inputs[slot].dtype
            if found != wanted and INVALID not in (found, wanted):
                yield Fault(
                    name,
                    "reads %s as %s, which is %s" % (port, dtype_text(wanted), dtype_text(found)),
                )


def _kept(sides: Sides) -> Iterator[Fault]:
    """Check that variables, fed, saved and fetched values and other state keep their types."""
    named = answers(sides.before.meta_graph) | described(sides.before.meta_graph)
    for name, node in sides.before.view.nodes.items():
        if name not in sides.after.view.nodes:
            continue
        if (
            node.op in VARIABLE_OPS
            or node.op in _OUTSIDE
            or kind(node.op) in ("iterator", "queue", "accumulator", "reader", "table")
        ):
            if (
                any(
                    node.attr[key] != attribute(sides.after.view.nodes[name], key)
                    for key in node.attr
                    if _is_type(node.attr[key])
                )
                and node.op != "SaveV2"
            ):
                yield Fault(
                    name,
                    "has another type than in the original, which %s keeps" % with_article(node.op),
                )
        elif name in named and sides.before.dtype(Port(name, 0)) != sides.after.dtype(
            Port(name, 0)
        ):
            yield Fault(
                name,
                "is an output, a loss or a variable's value, and is %s"
                % dtype_text(sides.after.dtype(Port(name, 0))),
            )


def _is_type(attribute: tf.AttrValue) -> bool:
    return attribute.WhichOneof("value") == "type" or bool(attribute.list.type)


def half_nodes(sides: Sides) -> List[str]:
    """Matmuls and convolutions that compute in half precision."""
    found = sides.after.view.nodes
    return [
        name
        for name, node in found.items()
        if node.op in tensor_core_ops()
        and any(v.type in HALF for v in node.attr.values() if v.type)
    ]


def _kernels(sides: Sides, devices: Sequence[str]) -> Iterator[Fault]:
    """Check that half-precision nodes have kernels, and that there is one half type."""
    seen: Set[int] = set()
    for name, node in sides.after.view.nodes.items():
        half = sides.became_half.get(name, ())
        seen.update(half)
        if not half or node.op in (ARGUMENT, RESULT) or node.op in sides.after.library:
            continue
        types = types_of(node)
        missing = [
            device for device in _runs_on(node, devices) if not has_kernel(node.op, types, device)
        ]
        if missing:
            yield Fault(
                name,
                "is %s, for which %s has no kernel on the %s"
                % (dtype_text(half[0]), with_article(node.op), " and the ".join(missing)),
            )
        elif len(seen) > 1:
            yield Fault(
                name,
                "is %s, where other nodes are of the other half-precision type"
                % dtype_text(half[0]),
            )


def _runs_on(node: tf.NodeDef, devices: Sequence[str]) -> Sequence[str]:
    """The kinds of device for a node."""
    placed = [
        device
        for device in DEVICES
        if re.search(r"/(device:)?%s\b" % device, node.device, re.IGNORECASE)
    ]
    return placed or devices
