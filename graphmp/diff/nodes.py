"""What changed at a node that both graphs have: its op, attributes, device and edges."""

from __future__ import annotations

from itertools import zip_longest
from typing import Dict, Iterator, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.diff import model
from graphmp.diff.model import Change
from graphmp.diff.tensors import tensor_change
from graphmp.diff.values import attribute_text, short_pair
from graphmp.graph.view import GraphView, Port


def node_changes(name: str, before: GraphView, after: GraphView) -> Iterator[Change]:
    """The changes of one node, attributes by name and inputs by slot."""
    old, new = before.nodes[name], after.nodes[name]
    if old.op != new.op:
        yield Change(name, model.OP, old.op, new.op)
    if old.device != new.device:
        yield Change(name, model.DEVICE, old.device or None, new.device or None)
    old_attributes, new_attributes = dict(old.attr), dict(new.attr)
    for attribute in sorted(set(old_attributes) | set(new_attributes)):
        yield from _attribute_change(name, attribute, old_attributes, new_attributes)
    yield from _edge_changes(name, before, after)


def _attribute_change(name: str, attribute: str, before: Dict[str, tf.AttrValue], after: Dict[str, tf.AttrValue]) -> Iterator[Change]:
    old, new = before.get(attribute), after.get(attribute)
    if _bytes(old) == _bytes(new):
        return
    if _is_tensor(old) and _is_tensor(new):
        values = tensor_change(old.tensor, new.tensor)  # type: ignore[union-attr]  # _is_tensor has seen to it
        if values:
            yield Change(name, model.CONSTANT, values[0], values[1], part=attribute)
    else:
        texts = short_pair(*(value if value is None else attribute_text(value) for value in (old, new)))
        yield Change(name, model.DTYPE if _is_dtype(old) or _is_dtype(new) else model.ATTRIBUTE, texts[0], texts[1], part=attribute)


def _edge_changes(name: str, before: GraphView, after: GraphView) -> Iterator[Change]:
    for slot, (old, new) in enumerate(zip_longest(before.inputs(name), after.inputs(name))):
        if old != new:
            category = model.VIA_CAST if old and new and _behind_casts(old, before, after) == _behind_casts(new, after, before) else model.REWIRED
            yield Change(name, category, _text(old), _text(new), part="input %d" % slot)
    gone, come = set(before.controls(name)), set(after.controls(name))
    if gone != come:
        yield Change(name, model.CONTROL, _controls(gone - come), _controls(come - gone))


def _behind_casts(port: Port, view: GraphView, other: GraphView) -> Port:
    """Where a value comes from, seen through casts that only this graph has."""
    seen: Set[str] = set()
    while port.node not in other.nodes and view.nodes[port.node].op == "Cast" and view.inputs(port.node) and port.node not in seen:
        seen.add(port.node)
        port = view.inputs(port.node)[0]
    return port


def _bytes(value: Optional[tf.AttrValue]) -> Optional[bytes]:
    return None if value is None else value.SerializeToString(deterministic=True)


def _is_tensor(value: Optional[tf.AttrValue]) -> bool:
    return value is not None and value.HasField("tensor")


def _is_dtype(value: Optional[tf.AttrValue]) -> bool:
    return value is not None and (value.HasField("type") or len(value.list.type) > 0)


def _text(port: Optional[Port]) -> Optional[str]:
    return None if port is None else str(port)


def _controls(names: Set[str]) -> Optional[str]:
    return " ".join("^" + name for name in sorted(names)) or None
