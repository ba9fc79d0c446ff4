"""Where nodes are placed.

An added node is on the device of a node beside it, on a loss scale's, or on the host. A node of the
original stays on its device, and beside the nodes that `_class` names; in a graph whose nodes may
have other names, beside the variables.
"""

from __future__ import annotations

from typing import Iterator, List, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.state.devices import COLOCATION, Places
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.verify.sides import Fault, Sides, attribute, keeps_names

_HOST = frozenset(("device:CPU:0", ""))  # every process has it


def device_faults(sides: Sides) -> Iterator[Fault]:
    """Added nodes on a device that the original doesn't use, or that no node beside them is on."""
    view = sides.after.view
    known = set(_HOST)
    for node in sides.before.meta_graph.graph_def.node:
        known |= _parts(node.device)
    for function in sides.before.library.values():
        for node in function.node_def:
            known |= _parts(node.device)
    places = Places(view)
    # A function's scale is a variable outside: it may be anywhere.
    anywhere = set(known if sides.after.function else _HOST)
    for name in sides.added:
        if view.nodes[name].op in VARIABLE_OPS:
            anywhere |= _parts(places.of(name))
    for name in sorted(sides.added):
        device = view.nodes[name].device
        if not _parts(device) <= known:
            yield Fault(name, "is on device %r, and no node of the original is" % device)
        elif not _parts(device) - anywhere <= _beside(sides, places, name):
            yield Fault(
                name, "is on device %r, and nothing that it reads or that reads it is" % device
            )


def placement_faults(sides: Sides) -> Iterator[Fault]:
    """Nodes of the original that are elsewhere, or colocated with other nodes."""
    strict = keeps_names(sides.after.meta_graph)
    for name, before in sides.before.view.nodes.items():
        after = sides.after.view.nodes.get(name)
        if after is None:
            continue
        if before.device != after.device and (sides.is_moved(name) or before.op == "SaveV2"):
            text = "is on device %r, in the original on %r"
            yield Fault(name, text % (after.device, before.device))
        beside = [_colocated(sides, node, strict) for node in (before, after)]
        if beside[0] != beside[1]:
            text = "is colocated with %s, in the original with %s"
            found, wanted = (", ".join(names) or "nothing" for names in reversed(beside))
            yield Fault(name, text % (found, wanted))


def _colocated(sides: Sides, node: tf.NodeDef, strict: bool) -> List[str]:
    """The nodes that a node is colocated with; variables of the original alone unless strict."""
    found = sorted(
        each.decode("utf-8", "replace").replace("loc:@", "", 1)
        for each in attribute(node, COLOCATION).list.s
    )
    nodes = sides.before.view.nodes
    return [name for name in found if strict or (name in nodes and nodes[name].op in VARIABLE_OPS)]


def _parts(device: str) -> Set[str]:
    """The parts of a device's name, job, task, kind with number, however it is spelled."""
    return set(str(tf.DeviceSpec.from_string(device).to_string()).split("/"))


def _beside(sides: Sides, places: Places, name: str) -> Set[str]:
    """The parts of the devices of what a node reads, and of what reads it or waits for it."""
    view = sides.after.view
    near = {port.node for port in view.inputs(name)} | set(view.controls(name))
    near |= {each.node for each in view.consumers(name)} | set(view.control_consumers(name))
    return set().union(*(_parts(places.of(each)) for each in near or [name]))
