"""Changes of a node that exists in both graphs: name, op, attributes, device and edges."""

from __future__ import annotations

from itertools import zip_longest
from typing import Callable, Iterator, Mapping, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.compare import categories
from graphmp.compare.changes import Change
from graphmp.compare.comparing.matching import Pairing
from graphmp.compare.comparing.tensors import tensor_change
from graphmp.compare.values import attribute_text, short_pair
from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.view import GraphView, Port
from graphmp.wording import more

_MOST_CONTROLS = 6


def node_changes(old_name: str, name: str, pairing: Pairing) -> Iterator[Change]:
    """The changes of one node, attributes by name and inputs by slot.

    Args:
        old_name: its name in the original.
        name: its name in the converted graph.
        pairing: the pairs of nodes of the two graphs.
    """
    old, new = pairing.before.nodes[old_name], pairing.after.nodes[name]
    if old_name != name:
        yield Change(name, categories.RENAMED, old_name, name, value=name)
    if old.op != new.op:
        yield Change(name, categories.OP, old.op, new.op, value=new.op)
    if old.device != new.device:
        yield Change(
            name, categories.DEVICE, old.device or None, new.device or None, value=new.device
        )
    old_attributes, new_attributes = dict(old.attr), dict(new.attr)
    for attribute in sorted(set(old_attributes) | set(new_attributes)):
        yield from _attribute_change(
            name, attribute, old_attributes.get(attribute), new_attributes.get(attribute), pairing
        )
    yield from _edge_changes(old_name, name, pairing)


def _attribute_change(
    name: str,
    attribute: str,
    old: Optional[tf.AttrValue],
    new: Optional[tf.AttrValue],
    pairing: Pairing,
) -> Iterator[Change]:
    if _bytes(old) == _bytes(new) or (
        attribute == "_class"
        and old
        and new
        and _classes(old, pairing.renamed) == _classes(new, {})
    ):
        return
    if _is_tensor(old) and _is_tensor(new):
        # _is_tensor has seen to it
        values = tensor_change(old.tensor, new.tensor)  # type: ignore[union-attr]
        if values:
            yield Change(
                name, categories.CONSTANT, values[0], values[1], part=attribute, value=_bytes(new)
            )
    else:
        texts = short_pair(
            *(value if value is None else attribute_text(value) for value in (old, new))
        )
        category = categories.DTYPE if _is_dtype(old) or _is_dtype(new) else categories.ATTRIBUTE
        yield Change(name, category, texts[0], texts[1], part=attribute, value=_bytes(new))


def _edge_changes(old_name: str, name: str, pairing: Pairing) -> Iterator[Change]:
    before, after = pairing.before, pairing.after
    for slot, (old, new) in enumerate(zip_longest(before.inputs(old_name), after.inputs(name))):
        if old is None or new is None or _moved(old, pairing) != new:
            category = (
                categories.VIA_CAST
                if old and new and _same_value(old, new, pairing)
                else categories.REWIRED
            )
            yield Change(
                name, category, _text(old), _text(new), part="input %d" % slot, value=_text(new)
            )
    old_controls, new_controls = before.controls(old_name), after.controls(name)
    if old_controls != new_controls:
        yield from _control_change(name, set(old_controls), set(new_controls), pairing)


def _control_change(name: str, old: Set[str], new: Set[str], pairing: Pairing) -> Iterator[Change]:
    gone = {control for control in old if pairing.after_of(control) not in new}
    come = {control for control in new if pairing.before_of(control) not in old}
    if gone or come:
        yield Change(
            name, categories.CONTROL, _controls(gone), _controls(come), value=tuple(sorted(new))
        )


def _moved(port: Port, pairing: Pairing) -> Port:
    """An original port by its node's name in the converted graph, if it exists there."""
    return Port(pairing.after_of(port.node) or port.node, port.output)


def _same_value(old: Port, new: Port, pairing: Pairing) -> bool:
    """Whether two ports have the same value except for its floating-point dtype.

    Casts, and copies of a constant or an Enter in another dtype, are skipped.
    """
    old = _behind_casts(old, pairing.before, pairing.after_of)
    new = _behind_casts(new, pairing.after, pairing.before_of)
    if _moved(old, pairing) == new:
        return True
    is_copy = pairing.after_of(old.node) is None or pairing.before_of(new.node) is None
    nodes = pairing.before.nodes[old.node], pairing.after.nodes[new.node]
    if not is_copy or old.output != new.output or nodes[0].op != nodes[1].op:
        return False
    if nodes[0].op == "Const" and all("value" in node.attr for node in nodes):
        return tensor_change(nodes[0].attr["value"].tensor, nodes[1].attr["value"].tensor) is None
    if (
        nodes[0].op != "Enter"
        or len({node.attr["frame_name"].s if "frame_name" in node.attr else b"" for node in nodes})
        > 1
    ):
        return False
    inputs = pairing.before.inputs(old.node), pairing.after.inputs(new.node)
    return bool(inputs[0]) and bool(inputs[1]) and _same_value(inputs[0][0], inputs[1][0], pairing)


def _behind_casts(port: Port, view: GraphView, other: Callable[[str], Optional[str]]) -> Port:
    """The source of a value behind casts that only this graph has."""
    seen: Set[str] = set()
    while (
        port.node not in seen
        and view.nodes[port.node].op == "Cast"
        and view.inputs(port.node)
        and other(port.node) is None
    ):
        seen.add(port.node)
        port = view.inputs(port.node)[0]
    return port


def _classes(value: tf.AttrValue, renamed: Mapping[str, str]) -> Set[str]:
    """The nodes that a node is colocated with, by their names in the converted graph."""
    names = {text.decode("utf-8", "replace").partition("loc:@")[2] for text in value.list.s}
    return {renamed.get(name, name) for name in names}


def _bytes(value: Optional[tf.AttrValue]) -> Optional[bytes]:
    return None if value is None else serialize(value)


def _is_tensor(value: Optional[tf.AttrValue]) -> bool:
    return value is not None and value.HasField("tensor")


def _is_dtype(value: Optional[tf.AttrValue]) -> bool:
    return value is not None and (value.HasField("type") or len(value.list.type) > 0)


def _text(port: Optional[Port]) -> Optional[str]:
    return None if port is None else str(port)


def _controls(names: Set[str]) -> Optional[str]:
    """Control inputs, abbreviated: a train op may have thousands."""
    shown = ["^" + name for name in sorted(names)[:_MOST_CONTROLS]]
    return " ".join(filter(None, [*shown, more(len(names) - len(shown))])) or None
