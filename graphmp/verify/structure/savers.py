"""Savers made beside a loss scale: they save and restore its variables like the model's.

TensorFlow sorts a Saver's tensors by name, and numbers the writes of a restore in that order. Such
a Saver is brought into the form of one that a conversion has added to: the original's tensors in
the original's order, then the others, which a node of their own restores; a write is named as the
one of the same variable in the original. What the graph computes stays as it is.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.values import strings
from graphmp.graph.structure.view import CONTROL, GraphView, Port
from graphmp.policy.op_sets import IDENTITIES, OVERWRITES

APART = "~"  # ends the name of a node that has no counterpart: not in TensorFlow's names
_STRING = tf.string.as_datatype_enum
Entry = Tuple[str, str]  # the name of a tensor in a checkpoint, and its slice


class _Order(NamedTuple):
    """The places of a Saver's entries: the original's in its order, then the others."""

    own: List[int]
    more: List[int]


def in_order(original: GraphView, converted: tf.MetaGraphDef) -> tf.MetaGraphDef:
    """A graph whose Savers have the form of conversions'; a copy unless they have it."""
    view = GraphView(converted.graph_def)
    orders = {name: _order(original, view, name) for name in view.nodes}
    found = {name: order for name, order in orders.items() if order is not None}
    if not found:
        return converted
    changed = tf.MetaGraphDef()
    changed.CopyFrom(converted)
    editor = Editor(changed.graph_def)
    for name, order in found.items():
        constants = _constants(view, name)
        for constant in constants:
            value = original.nodes[constant].attr["value"]
            editor.nodes[constant].attr["value"].CopyFrom(value)
        change = _save if view.nodes[name].op == "SaveV2" else _restore
        change(editor, view, name, order, _entries(view, constants))
    return changed


def names_of_writes(original: GraphView, converted: GraphView) -> Dict[str, str]:
    """The names that the nodes which restore variables get, by those that they have."""
    found: Dict[str, str] = {}
    for name, node in original.nodes.items():
        if node.op == "RestoreV2" and name + APART in converted.nodes:
            wanted = _writes(original, name)
            for variable, nodes in _writes(converted, name).items():
                found.update(zip(nodes, wanted.get(variable, ())))
            for nodes in _writes(converted, name + APART).values():
                found.update((each, each + APART) for each in nodes if each in original.nodes)
    names = [found.get(name, name) for name in converted.nodes]
    return found if len(set(names)) == len(names) else {}


def _order(original: GraphView, view: GraphView, name: str) -> Optional[_Order]:
    """How a node saves or restores the original's entries and others; None if there are none."""
    node, before = view.nodes[name], original.nodes.get(name)
    if node.op not in ("SaveV2", "RestoreV2") or before is None or before.op != node.op:
        return None
    constants = _constants(view, name)
    shared = any(len(view.consumers(each)) > 1 for each in constants)
    if shared or constants != _constants(original, name):
        return None
    own, every = (_entries(each, constants) for each in (original, view))
    is_whole = len(set(every)) == len(every) == len(node.attr["dtypes"].list.type)
    if own == every or not is_whole or not set(own) <= set(every):
        return None
    place = {entry: number for number, entry in enumerate(every)}
    more = [number for number, entry in enumerate(every) if entry not in set(own)]
    return _Order([place[entry] for entry in own], more)


def _constants(view: GraphView, name: str) -> Tuple[str, str]:
    """The nodes of the names and of the slices."""
    _, names, slices, *_ = view.inputs(name)
    return names.node, slices.node


def _entries(view: GraphView, constants: Tuple[str, str]) -> List[Entry]:
    names, slices = (strings(view.nodes[each]) for each in constants)
    return [*zip(names, slices)]


def _save(editor: Editor, view: GraphView, name: str, order: _Order, every: List[Entry]) -> None:
    places = [*order.own, *order.more]
    tensors = view.inputs(name)[3:]
    for slot, place in enumerate(places):
        editor.connect(name, 3 + slot, tensors[place])
    for slot, port in enumerate(_listed(editor, name, [every[place] for place in places]), 1):
        editor.connect(name, slot, port)
    _set_types(editor.nodes[name], view.nodes[name], places)


def _restore(editor: Editor, view: GraphView, name: str, order: _Order, every: List[Entry]) -> None:
    before = view.nodes[name]
    inputs = [view.inputs(name)[0], *_listed(editor, name, [every[place] for place in order.more])]
    waits = [Port(each, CONTROL) for each in view.controls(name)]
    editor.add(name + APART, before.op, [*inputs, *waits], device=before.device)
    _set_types(editor.nodes[name + APART], before, order.more)
    _set_types(editor.nodes[name], before, order.own)
    for consumer in view.consumers(name):
        node, places = (
            (name, order.own) if consumer.output in order.own else (name + APART, order.more)
        )
        editor.connect(consumer.node, consumer.slot, Port(node, places.index(consumer.output)))


def _listed(editor: Editor, name: str, entries: List[Entry]) -> List[Port]:
    """Constants of the names and the slices of some entries."""
    return [
        editor.add(
            "%s/%s%s" % (name, what, APART),
            "Const",
            dtype=_STRING,
            value=tf.make_tensor_proto([entry[part] for entry in entries], tf.string),
        )
        for part, what in enumerate(("tensor_names", "shape_and_slices"))
    ]


def _set_types(node: Any, before: tf.NodeDef, places: List[int]) -> None:
    types = list(before.attr["dtypes"].list.type)
    del node.attr["dtypes"].list.type[:]
    node.attr["dtypes"].list.type.extend(types[place] for place in places)


def _writes(view: GraphView, name: str) -> Dict[str, List[str]]:
    """The copies of what a node restores and the write of it, by the variable."""
    found: Dict[str, List[str]] = {}
    for consumer in view.consumers(name):
        nodes = [consumer.node]
        while view.nodes[nodes[-1]].op in IDENTITIES and len(view.consumers(nodes[-1])) == 1:
            nodes.append(view.consumers(nodes[-1])[0].node)
        if view.nodes[nodes[-1]].op in OVERWRITES:
            found[view.inputs(nodes[-1])[0].node] = nodes
    return found
