"""Devices of nodes, by their device strings, as TensorFlow's placer reads them."""

from __future__ import annotations

import functools
from typing import AbstractSet, Any, Dict, Iterable, List, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Consumer, GraphView
from graphmp.once import once
from graphmp.policy.op_sets import ARRAYS, VARIABLE_OPS

COLOCATION = "_class"
_PREFIX = "loc:@"
_OWN = "localhost"  # the job of a session without a server


class Places:
    """The device of each node of a graph, found on demand; devices must not change meanwhile."""

    def __init__(self, view: GraphView):
        self._view = view
        self._found: Dict[str, str] = {}

    def of(self, name: str) -> str:
        """A node's own device, else that of its colocation, else that of its variable.

        May be empty.
        """
        if not self._any:
            return ""
        chain: List[str] = []
        last = name
        while last not in self._found and last not in chain:
            chain.append(last)
            beside = _beside(self._view, last)
            if self._view.nodes[last].device or beside not in self._view.nodes:
                break
            last = beside
        device = self._found.get(last) or self._view.nodes[last].device
        for each in chain:
            self._found[each] = self._view.nodes[each].device or device
        return self._found[name]

    @once
    def _any(self) -> bool:
        """Whether any node names a device."""
        return any(node.device for node in self._view.nodes.values())

    @once
    def beside_arrays(self) -> AbstractSet[str]:
        """The nodes that TensorArrays are put beside: what computes the first value they hold."""
        nodes = self._view.nodes
        return {_beside(self._view, name) for name, node in nodes.items() if node.op in ARRAYS}

    def elsewhere(self, name: str, readers: Iterable[Consumer]) -> Dict[str, List[Consumer]]:
        """The consumers of a node's output on other devices than the node, by device."""
        found: Dict[str, List[Consumer]] = {}
        if not self._any:
            return found
        for reader in readers:
            target = self.of(reader.node)
            if target != self.of(name) and apart(self.of(name), target):
                found.setdefault(target, []).append(reader)
        return found


def machine(device: str) -> str:
    """The process of a device, such as `/job:ps/task:0`; empty if the string names none."""
    spec = tf.DeviceSpec.from_string(device)
    return str(tf.DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string())


def _beside(view: GraphView, name: str) -> str:
    """The node that TensorFlow's placer puts a node beside; empty if there is none.

    It is named by `_class`, or owns the handle that the node takes.
    """
    node = view.nodes[name]
    classes = (
        [text.decode() for text in node.attr[COLOCATION].list.s] if COLOCATION in node.attr else []
    )
    asked = [text[len(_PREFIX) :] for text in classes if text.startswith(_PREFIX)]
    return (
        asked
        + [port.node for port in view.inputs(name) if view.nodes[port.node].op in VARIABLE_OPS]
        + [""]
    )[0]


@functools.lru_cache(maxsize=None)
def apart(device: str, other: str) -> bool:
    """Whether a tensor must be sent from one device to another.

    A part that only one of the two strings names doesn't make them different, except for a job.
    """
    a, b = _process_and_device(device), _process_and_device(other)
    if (a[0] is None) != (b[0] is None):
        return True
    return any(
        one is not None and another is not None and one != another for one, another in zip(a, b)
    )


def _process_and_device(device: str) -> Tuple[Any, ...]:
    """Job, replica, task, type and index; the process of a session without a server has no job."""
    spec = tf.DeviceSpec.from_string(device)
    process = (None, None, None) if spec.job == _OWN else (spec.job, spec.replica, spec.task)
    return (*process, spec.device_type, spec.device_index)
