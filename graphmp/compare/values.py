"""Values of a graph, abbreviated: dtypes, attributes, tensors, nodes."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.policy.dtypes import dtype_text

MOST_CHARACTERS = 80
MOST_ELEMENTS = 4


def attribute_text(value: tf.AttrValue) -> str:
    """An attribute's value, of any length; tensors without their elements."""
    kind = value.WhichOneof("value")
    if kind is None:
        return "none"
    if kind == "list":
        return "[%s]" % ", ".join(
            _scalar_text(field.name, item)
            for field, items in value.list.ListFields()
            for item in items
        )
    return _scalar_text(kind, getattr(value, kind))


def short_pair(before: Optional[str], after: Optional[str]) -> Tuple[Optional[str], Optional[str]]:
    """Both texts cut to MOST_CHARACTERS, from shortly before the first difference."""
    texts = [text for text in (before, after) if text is not None]
    if max(map(len, texts), default=0) <= MOST_CHARACTERS:
        return before, after
    common = (
        next(
            (index for index, (old, new) in enumerate(zip(*texts)) if old != new),
            min(map(len, texts)),
        )
        if len(texts) == 2
        else 0
    )
    start = max(0, common - MOST_CHARACTERS // 4)
    return _cut(before, start), _cut(after, start)


def node_text(node: tf.NodeDef) -> str:
    """The op and its dtypes: `Cast DstT=float16 SrcT=float32`."""
    dtypes = [
        "%s=%s" % (name, dtype_text(value.type))
        for name, value in sorted(node.attr.items())
        if value.type
    ]
    return " ".join([node.op] + dtypes)


def array_text(array: np.ndarray, start: int) -> str:
    """Dtype, shape and a few elements, from the relevant one: `float32[2,3] 0, 1, ...`."""
    elements = array.reshape(-1)[start : start + MOST_ELEMENTS]
    shown = ", ".join(_element_text(element) for element in elements)
    head = "... " if start else ""
    tail = ", ..." if start + len(elements) < array.size else ""
    dtype = "string" if array.dtype == object else array.dtype.name
    return "%s[%s] %s%s%s" % (dtype, ",".join(map(str, array.shape)), head, shown, tail)


def tensor_text(tensor: Any) -> str:
    """Dtype and shape of a TensorProto, without its elements."""
    return dtype_text(tensor.dtype) + _shape_text(tensor.tensor_shape)


def _scalar_text(kind: str, value: Any) -> str:
    """The text of a value whose field in AttrValue or AttrValue.ListValue is `kind`."""
    if kind == "type":
        return dtype_text(value)
    if kind == "s":
        return str(value.decode("utf-8", "backslashreplace"))
    if kind == "f":
        return str(np.float32(value))
    if kind == "shape":
        return _shape_text(value)
    if kind == "tensor":
        return tensor_text(value)
    if kind == "func":
        return str(value.name)
    return str(value)


def _shape_text(shape: Any) -> str:
    if shape.unknown_rank:
        return "[...]"
    return "[%s]" % ",".join("?" if dim.size < 0 else str(dim.size) for dim in shape.dim)


def _element_text(element: Any) -> str:
    text = (
        element.decode("utf-8", "backslashreplace") if isinstance(element, bytes) else str(element)
    )
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "..."


def _cut(text: Optional[str], start: int) -> Optional[str]:
    if text is None:
        return None
    shown = text[start : start + MOST_CHARACTERS]
    return ("..." if start else "") + shown + ("..." if start + len(shown) < len(text) else "")
