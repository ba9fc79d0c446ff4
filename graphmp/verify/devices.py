"""Devices of added nodes: an original's, or the host, which every process has."""

from __future__ import annotations

from typing import Iterator, Set

from graphmp.verify.sides import Fault, Sides

_HOST = frozenset(("device:CPU:0", ""))


def device_faults(sides: Sides) -> Iterator[Fault]:
    """Added nodes on a job, a task or a device that no node of the original is on."""
    known = set(_HOST)
    for node in sides.before.meta_graph.graph_def.node:
        known |= _parts(node.device)
    for function in sides.before.library.values():
        for node in function.node_def:
            known |= _parts(node.device)
    for name in sorted(sides.added):
        device = sides.after.view.nodes[name].device
        if not _parts(device) <= known:
            yield Fault(name, "is on device %r, and no node of the original is" % device)


def _parts(device: str) -> Set[str]:
    """The parts of a device's name: job, task, kind with number."""
    return set(device.split("/"))
