"""What a MetaGraphDef has besides nodes: collections, signatures, Savers. A conversion adds the variables of its scale, and its mark."""

from __future__ import annotations

from typing import AbstractSet, Any, Iterator

import tensorflow.compat.v1 as tf

from graphmp.graph.messages import parse
from graphmp.graph.state import variable_keys
from graphmp.graph.view import parse_input
from graphmp.verify.sides import Fault

_OURS = frozenset(("graphmp", "graphmp_loss_scale"))  # the mark of a conversion, and the state of its scales
_CONTEXTS = frozenset(("cond_context", "while_context"))  # what lies in which loop or branch: added nodes do too


def part_faults(original: tf.MetaGraphDef, converted: tf.MetaGraphDef, state: AbstractSet[str]) -> Iterator[Fault]:
    """What differs that may not. `state`: the variables of the scales."""
    old, new = original.collection_def, converted.collection_def
    for key in sorted(set(old) | set(new)):
        if key in _OURS:
            continue
        if key not in old or key not in new:
            yield Fault("collection %s" % key, "is new" if key in new else "is gone")
        elif old[key] != new[key] and not _may_differ(original, key, old[key], new[key], state):
            yield Fault("collection %s" % key, "is not as in the original")
    for name in sorted(set(original.signature_def) | set(converted.signature_def)):
        if name not in original.signature_def or original.signature_def[name] != converted.signature_def[name]:
            yield Fault("signature %s" % name, "is not as in the original")
    if original.saver_def != converted.saver_def:
        yield Fault("the Saver", "is not as in the original")


def _may_differ(original: tf.MetaGraphDef, key: str, old: Any, new: Any, state: AbstractSet[str]) -> bool:
    if key in _CONTEXTS:
        return len(old.bytes_list.value) == len(new.bytes_list.value)
    if key in variable_keys(original):
        before, after = list(old.bytes_list.value), list(new.bytes_list.value)
        added = sorted(_variable(data) for data in after[len(before) :])
        return after[: len(before)] == before and key == tf.GraphKeys.GLOBAL_VARIABLES and added == sorted(state)
    return False


def _variable(data: bytes) -> str:
    found = parse("tensorflow.VariableDef", data)
    return parse_input(found.variable_name).node if found is not None else ""
