"""Where nodes are: by their device strings, as TensorFlow's placer takes them."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.variables import VARIABLE_OPS
from graphmp.graph.view import GraphView

_COLOCATION = "_class"
_PREFIX = "loc:@"
_OWN = "localhost"  # the job of a session without a server


def devices(view: GraphView) -> Dict[str, str]:
    """The device of each node: its own, else that of what it is colocated with, else that of the variable it works on; empty where nothing says."""
    found: Dict[str, str] = {}
    for name in view.nodes:
        _resolve(view, name, found)
    return found


def machine(device: str) -> str:
    """The process that a device belongs to, such as `/job:ps/task:0`; empty where the string names none."""
    spec = tf.DeviceSpec.from_string(device)
    return str(tf.DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string())


def _resolve(view: GraphView, name: str, found: Dict[str, str]) -> str:
    """A node's device; chains are followed to their end."""
    chain: List[str] = []
    while name not in found and name not in chain:
        chain.append(name)
        beside = _beside(view, name)
        if view.nodes[name].device or beside not in view.nodes:
            break
        name = beside
    device = found.get(name) or view.nodes[name].device
    for each in chain:
        found[each] = view.nodes[each].device or device
    return device


def _beside(view: GraphView, name: str) -> str:
    """The node that a node asks to be placed with, or whose handle it takes: TensorFlow's placer puts the two together; empty for none."""
    node = view.nodes[name]
    classes = [text.decode() for text in node.attr[_COLOCATION].list.s] if _COLOCATION in node.attr else []
    asked = [text[len(_PREFIX) :] for text in classes if text.startswith(_PREFIX)]
    return (asked + [port.node for port in view.inputs(name) if view.nodes[port.node].op in VARIABLE_OPS] + [""])[0]


@functools.lru_cache(maxsize=None)
def apart(device: str, other: str) -> bool:
    """Whether a tensor has to be sent from one device to another. What only one of two strings names doesn't keep them apart, but for a job."""
    a, b = _process_and_device(device), _process_and_device(other)
    if (a[0] is None) != (b[0] is None):
        return True
    return any(one is not None and another is not None and one != another for one, another in zip(a, b))


def _process_and_device(device: str) -> Tuple[Any, ...]:
    """Job, replica, task, type and index; a session's own process, which is no server's, names no job."""
    spec = tf.DeviceSpec.from_string(device)
    process = (None, None, None) if spec.job == _OWN else (spec.job, spec.replica, spec.task)
    return (*process, spec.device_type, spec.device_index)
