"""Each node by itself: its name, device, attributes, and the counts that these declare."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.gate import tensors
from graphmp.gate.limits import FIELDS, MOST_NAME, MOST_OUTPUTS, PRIVATE_KINDS, TEXTS

_SHOWN = 60  # characters of a name in a message
RE_EXPORT = "write the graph again with export_meta_graph"  # a cure


def refused(what: str, found: str, cure: str) -> GraphmpError:
    """The refusal of a graph: where, what was found, and its cure."""
    return GraphmpError("GMP008", "%s: found %s; %s" % (shown(what), found, cure))


def shown(text: str) -> str:
    """A text of a file for a message: on one line, escaped, cut."""
    escaped = text if text.isprintable() else ascii(text)[1:-1]
    return escaped if len(escaped) <= 2 * _SHOWN else escaped[:_SHOWN] + "..."


class _Declared(NamedTuple):
    """The declarations of an op: kinds of attributes; counts, and whether inputs have them."""

    kinds: Mapping[str, str]
    counts: Mapping[str, bool]


class Nodes:
    """Checks of nodes, with what is known of each op kept; `size` are the graph's bytes."""

    def __init__(self, definition: Callable[[str], Optional[Any]], size: int):
        self._definition = definition
        self._declared: Dict[str, _Declared] = {}
        self._left = size + MOST_OUTPUTS

    def check(self, node: Any, where: str = "", in_function: bool = False) -> None:
        """Raise GMP008 if a node is not valid by itself."""
        what = "node %s%s" % (shown(node.name), where)
        _check_name(node.name, what)
        if not _is_device(node.device):
            found = "the device %s" % shown(node.device)
            raise refused(what, found, "accepted are devices as /job:ps/task:0/device:GPU:1")
        if node.op not in self._declared:
            self._declared[node.op] = _declared(self._definition(node.op))
        declared, attributes = self._declared[node.op], node.attr
        for key, value in attributes.items():
            kind = declared.kinds.get(key) or PRIVATE_KINDS.get(key, "")
            problem = _attribute_fault(key, value, kind, in_function)
            if problem:
                cure = "write the graph again with the TensorFlow that made it"
                raise refused(what, "in attribute %s %s" % (shown(key), problem), cure)
        if declared.counts:
            self._count(node, what, declared.counts)
        if node.op == "Const" and not in_function:
            _check_constant(node, what)

    def _count(self, node: Any, what: str, counts: Mapping[str, bool]) -> None:
        for key, is_input in counts.items():
            count = node.attr[key].i if key in node.attr else 0
            most = len(node.input) if is_input else self._left
            if not 0 <= count <= most:
                found = "%s=%d of %s, in a graph where at most %d are possible"
                raise refused(
                    what, found % (key, count, node.op, most), "accepted is the number that it has"
                )
            self._left -= 0 if is_input else count


def _check_name(name: str, what: str) -> None:
    if len(name) > MOST_NAME:
        found = "a name of %s characters" % format(len(name), ",")
        raise refused(what, found, "accepted are at most %s" % format(MOST_NAME, ","))


@functools.lru_cache(maxsize=4096)
def _is_device(device: str) -> bool:
    """Whether TensorFlow can parse a device string."""
    try:
        tf.DeviceSpec.from_string(device)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError):
        return False
    return (len(device) <= MOST_NAME and device.isprintable()) or not device


def _declared(definition: Optional[Any]) -> _Declared:
    if definition is None:
        return _Declared({}, {})
    kinds = {attribute.name: attribute.type for attribute in definition.attr}
    counts = {each.number_attr: False for each in definition.output_arg if each.number_attr}
    counts.update({each.number_attr: True for each in definition.input_arg if each.number_attr})
    return _Declared(kinds, counts)


def _attribute_fault(key: str, value: Any, kind: str, in_function: bool) -> Optional[str]:
    found = value.WhichOneof("value")
    if kind and not (in_function and found == "placeholder"):
        problem = _kind_fault(value, kind, found)
        if problem:
            return problem
    if found == "type":
        return (
            None
            if tensors.is_known(value.type) or (not kind and not value.type)
            else ("the unknown dtype %d" % value.type)
        )
    if found == "tensor":
        return tensors.fault(value.tensor)
    if found == "list":
        return _list_fault(value.list)
    if found == "s" and key in TEXTS and not is_text(value.s):
        return "text that is not UTF-8"
    return None


def _list_fault(values: Any) -> Optional[str]:
    for dtype in values.type:
        if not tensors.is_known(dtype):
            return "the unknown dtype %d" % dtype
    for tensor in values.tensor:
        problem = tensors.fault(tensor)
        if problem:
            return problem
    return None


def _kind_fault(value: Any, kind: str, found: Optional[str]) -> Optional[str]:
    if not kind.startswith("list("):
        return None if found == FIELDS.get(kind, found) else "%s in place of %s" % (found, kind)
    if found is None:
        return None  # an empty list, in files of old TensorFlow
    if found != "list":
        return "%s in place of %s" % (found, kind)
    field = FIELDS.get(kind[5:-1])
    other = [each.name for each, _ in value.list.ListFields() if field and each.name != field]
    return "a list of %s in place of %s" % (other[0], kind) if other else None


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _check_constant(node: Any, what: str) -> None:
    if "dtype" not in node.attr or "value" not in node.attr:
        return
    dtype, tensor = node.attr["dtype"].type, node.attr["value"].tensor
    if dtype != tensor.dtype:
        names = (tf.as_dtype(dtype).name, tf.as_dtype(tensor.dtype).name)
        raise refused(what, "a constant of %s that holds %s" % names, "accepted is one dtype")
