"""Attributes of a node that a conversion may change, each with its rule.

All others must be equal.
"""

from __future__ import annotations

import re
from typing import Any, Container, Iterator, List, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.values import compact
from graphmp.policy.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, HALF, STRING
from graphmp.policy.op_sets import RESULT
from graphmp.tf_hooks.op_definitions import defaults
from graphmp.tf_hooks.op_defs import WIDER
from graphmp.verify.sides import Fault, Sides
from graphmp.wording import with_article

HINTS = frozenset(
    ("_class", "_output_shapes", "_has_manual_control_dependencies")
)  # hints for TensorFlow, and colocation; shapes may say less
_SHAPES = "_output_shapes"
_OF_ARGUMENTS = ("T", "Tin", "Tout", "output_shapes")  # of calls
_TEMPORARY = re.compile(rb"_temp_[0-9a-f]{32}/part")
_WIDER = "U"  # of WIDER: the dtype of statistics
_LARGEST = {FLOAT16: 65504.0, BFLOAT16: 3.3895314e38}
_SMALLEST = {FLOAT16: 2.0**-24, BFLOAT16: 2.0**-133}  # half of it is rounded to 0


def changed(
    before: tf.NodeDef, after: tf.NodeDef, are_calls: bool = False, hand_on: bool = False
) -> Optional[str]:
    """A difference between two nodes that no rule allows, in words; None if there is none.

    Args:
        before: the original's.
        after: the other.
        are_calls: whether both are calls of functions, whose bodies are compared instead of their
            names.
        hand_on: whether the other passes more to its functions: those types are compared with the
            arguments' types.
    """
    wider = WIDER.get(before.op) == after.op
    if before.op != after.op and not wider and not are_calls:
        return "is %s, in the original %s" % (with_article(after.op), with_article(before.op))
    if before.device != after.device:
        return "is on device %r, in the original on %r" % (after.device, before.device)
    unset = defaults(after.op)
    for key in sorted(set(before.attr) | set(after.attr)):
        old, new = (
            node.attr[key] if key in node.attr else unset.get(key) for node in (before, after)
        )
        if key == _SHAPES and old and new and not _is_list(before) and _says_more(old, new):
            return "is said to have another shape than in the original"
        if key in HINTS or (wider and key == _WIDER and new is not None and new.type == FLOAT32):
            continue
        if key == "N" and before.op == "AddN":
            continue  # its terms are compared, however they are grouped
        if old is None or new is None:
            return "has %s attribute %s, in the original %s" % (
                ("no", key, "it has") if new is None else ("an", key, "none")
            )
        if hand_on and key in _OF_ARGUMENTS and old is not None and new is not None:
            new = without_more(old, new)
        if old != new and serialize(old) != serialize(new) and not _allowed(before.op, old, new):
            return "has another %s than in the original" % key
    return None


def strange_attributes(sides: Sides, copies: Container[str]) -> Iterator[Fault]:
    """Attributes that no op of their kind has: a kernel's label, a mark for XLA.

    Of added nodes, of those that pass on what another one gives, and of Savers: copies and other
    nodes of the original are compared with these.
    """
    before, after = sides.before.view.nodes, sides.after.view.nodes
    for name in sorted(after.keys() - sides.more_arguments):
        node, had = after[name], before.get(name)
        definition = sides.after.op_defs.get(node.op)
        if name in copies or definition is None or node.op == RESULT:
            continue
        if had is not None and not sides.is_moved(name) and node.op != "SaveV2":
            continue
        known = {each.name for each in definition.attr} | HINTS
        for key in sorted(node.attr):
            if key not in known and (had is None or had.attr.get(key) != node.attr[key]):
                text = "has an attribute %s, which %s does not have"
                yield Fault(name, text % (key, with_article(node.op)))


def without_more(old: tf.AttrValue, new: tf.AttrValue) -> tf.AttrValue:
    """A list of types or shapes without its additional elements.

    Unchanged if some are no scalars.
    """
    kept, known = tf.AttrValue(), len(old.list.type) + len(old.list.shape)
    if any(shape.dim or shape.unknown_rank for shape in new.list.shape[known:]):
        return new
    kept.list.type.extend(new.list.type[:known])
    kept.list.shape.extend(new.list.shape[:known])
    return kept


def _is_list(node: tf.NodeDef) -> bool:
    """Whether a node is a list of names, as of a Saver: its elements are compared."""
    return node.op == "Const" and node.attr["dtype"].type == STRING


def _says_more(old: tf.AttrValue, new: tf.AttrValue) -> bool:
    """Whether shapes contradict others, or are known where those aren't: no feed may fit them."""
    return any(
        not has.unknown_rank
        and (
            had.unknown_rank
            or len(had.dim) != len(has.dim)
            or any(one.size not in (-1, other.size) for one, other in zip(has.dim, had.dim))
        )
        for had, has in zip(old.list.shape, new.list.shape)
    )


def _allowed(op: str, old: tf.AttrValue, new: tf.AttrValue) -> bool:
    kind = old.WhichOneof("value")
    if kind != new.WhichOneof("value"):
        return False
    if kind == "type":
        return _narrowed(old.type, new.type)
    if kind == "tensor":
        return op == "Const" and (
            _rounded(old.tensor, new.tensor) or _drawn(old.tensor, new.tensor)
        )
    if kind == "func":
        return _same_arguments(old.func, new.func)
    if kind == "list" and old.list.type:
        return len(old.list.type) == len(new.list.type) and all(
            o == n or _narrowed(o, n) for o, n in zip(old.list.type, new.list.type)
        )
    if kind != "list" or not old.list.func or len(old.list.func) != len(new.list.func):
        return False
    return all(map(_same_arguments, old.list.func, new.list.func))


def _same_arguments(old: Any, new: Any) -> bool:
    """Whether two attributes name functions with the same attributes.

    Bodies are compared elsewhere.
    """
    return bool(new.name) and old.attr == new.attr


def _narrowed(old: int, new: int) -> bool:
    return old in (FLOAT32, FLOAT64) and new in HALF


def _drawn(old: Any, new: Any) -> bool:
    """Whether two strings are names of temporary files, which a sharded Saver draws."""
    texts = [*old.string_val, *new.string_val]
    return len(texts) == 2 and all(map(_TEMPORARY.fullmatch, texts))


def _rounded(old: tf.AttrValue, new: tf.AttrValue) -> bool:
    """Whether a constant is the rounded float32 one, without new infinities."""
    if not _narrowed(old.dtype, new.dtype):
        return False
    if old.tensor_shape != new.tensor_shape:
        return False
    value, half = _even(compact(old), compact(new))
    with np.errstate(over="ignore"):
        expected = value.astype(half.dtype)
    same = np.asarray(expected).tobytes() == np.asarray(half).tobytes()
    return same and fits(value, new.dtype)


def fits(values: np.ndarray, dtype: int) -> bool:
    """Whether no number becomes 0 or infinite in half precision that isn't so already."""
    size = np.abs(values)
    return bool(
        np.all(
            ~np.isfinite(values)
            | (values == 0)
            | ((size <= _LARGEST[dtype]) & (size > _SMALLEST[dtype] / 2))
        )
    )


def _even(*arrays: np.ndarray) -> List[np.ndarray]:
    """Arrays extended by their last element to the length of the longest."""
    longest = max(map(len, arrays))
    return [
        np.concatenate([array, np.repeat(array[-1:], longest - len(array))]) for array in arrays
    ]


def functions(before: tf.NodeDef, after: tf.NodeDef) -> Iterator[Tuple[str, str]]:
    """The functions that two nodes call, in pairs."""
    yield before.op, after.op
    for key in before.attr:
        if key in after.attr:
            yield from zip(_named(before.attr[key]), _named(after.attr[key]))


def _named(attribute: tf.AttrValue) -> List[str]:
    return [function.name for function in (attribute.func, *attribute.list.func) if function.name]
