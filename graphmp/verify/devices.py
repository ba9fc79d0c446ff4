"""Devices of added nodes: that of a node beside it, a loss scale's, or the host."""

from __future__ import annotations

from typing import Iterator, Set

from graphmp.graph.state.devices import Places
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.verify.sides import Fault, Sides

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


def _parts(device: str) -> Set[str]:
    """The parts of a device's name: job, task, kind with number."""
    return set(device.split("/"))


def _beside(sides: Sides, places: Places, name: str) -> Set[str]:
    """The parts of the devices of what a node reads, and of what reads it or waits for it."""
    view = sides.after.view
    near = {port.node for port in view.inputs(name)} | set(view.controls(name))
    near |= {each.node for each in view.consumers(name)} | set(view.control_consumers(name))
    return set().union(*(_parts(places.of(each)) for each in near or [name]))
