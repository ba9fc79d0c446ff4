"""Collections, signatures and Savers: a conversion adds the variables of its scale and its mark."""

from __future__ import annotations

import functools
from typing import Any, Iterator, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.mark import COLLECTION as MARK
from graphmp.graph.state.state import variable_keys
from graphmp.verify.body import BodyFindings
from graphmp.verify.sides import Fault, keeps_names
from graphmp.verify.structure.contexts import (
    CONDITIONALS,
    CONTEXTS,
    contexts_hold,
    lists_added_conditionals,
)

_STATE = "graphmp_loss_scale"  # the collection of the scales' state
# What a loader goes by besides nodes, functions, collections and signatures: its name, and the
# field of a MetaGraphDef. The versions of a GraphDef decide on what its ops do.
_BESIDE_NODES = (
    ("the Saver", "saver_def"),
    ("the list of asset files", "asset_file_def"),
    ("the list of tags", "meta_info_def.tags"),
    ("the version that the program gave the graph", "meta_info_def.meta_graph_version"),
    ("what the program notes beside the graph", "meta_info_def.any_info"),
    ("the list of other names of functions", "meta_info_def.function_aliases"),
    ("the graph of objects", "object_graph_def"),
    ("the versions of the GraphDef", "graph_def.versions"),
)


def part_faults(body: BodyFindings) -> Iterator[Fault]:
    """Differences that no conversion makes, given the main graph."""
    original, converted = body.sides.before.meta_graph, body.sides.after.meta_graph
    yield from _collection_faults(body)
    for name in sorted(set(original.signature_def) | set(converted.signature_def)):
        if (
            name not in original.signature_def
            or original.signature_def[name] != converted.signature_def[name]
        ):
            yield Fault("signature %s" % name, "is not as in the original")
    for what, field in _BESIDE_NODES:
        old, new = (_field(graph, field) for graph in (original, converted))
        if old != new:
            yield Fault(what, "is not as in the original")
    defined = [
        {each.name: each for each in graph.meta_info_def.stripped_op_list.op}
        for graph in (original, converted)
    ]
    for op in sorted(defined[0]):
        if defined[0][op] != defined[1].get(op):
            yield Fault("the definition of the op %s" % op, "is not as in the original")


def _field(meta_graph: tf.MetaGraphDef, path: str) -> Any:
    """A field of a message by its path; None where this TensorFlow has no such field."""
    found = functools.reduce(
        lambda message, key: getattr(message, key, None), path.split("."), meta_graph
    )
    if hasattr(found, "items"):
        return dict(found)
    return list(found) if hasattr(found, "append") else found


def _collection_faults(body: BodyFindings) -> Iterator[Fault]:
    old, new = (
        body.sides.before.meta_graph.collection_def,
        body.sides.after.meta_graph.collection_def,
    )
    for key in sorted((set(old) | set(new)) - {MARK, _STATE}):
        if key == CONDITIONALS and key not in old:
            continue  # all are added ones: see below
        if key not in old or key not in new:
            yield Fault("collection %s" % key, "is new" if key in new else "is gone")
        elif (
            old[key] != new[key] or (key == tf.GraphKeys.GLOBAL_VARIABLES and body.scales.initial)
        ) and not _may_differ(body, key, old[key], new[key]):
            yield Fault("collection %s" % key, "is not as in the original")
    if not lists_added_conditionals(body):
        yield Fault(
            "collection %s" % CONDITIONALS, "does not list the added conditionals in their order"
        )
    if _STATE not in old and not _lists(body, _names(new, _STATE)):
        yield Fault(
            "collection %s" % _STATE,
            "does not list the variables of the loss scales in their order, and nothing else",
        )


def _lists(body: BodyFindings, names: Sequence[str]) -> bool:
    """Whether tensors are the scales' variables: each one's scale, good steps and skipped steps."""
    return _in_order(body, list(map(body.checkpoints.listed, names)))


def _in_order(body: BodyFindings, listed: Sequence[Optional[str]]) -> bool:
    """Whether nodes are those of the scales' variables, each scale's in their order."""
    if set(listed) != set(body.scales.initial) or len(listed) != len(set(listed)):
        return False
    places = [[listed.index(node) for node in nodes] for nodes in body.scales.nodes_of_states()]
    return all(found == sorted(found) for found in places)


def _names(collections: Any, key: str) -> Any:
    return list(collections[key].node_list.value) if key in collections else []


def _may_differ(body: BodyFindings, key: str, old: Any, new: Any) -> bool:
    if key in CONTEXTS:
        return contexts_hold(body, key, old, new)
    if key == tf.GraphKeys.TRAIN_OP:
        return _stand_for(body, old.node_list.value, new.node_list.value)
    if (
        key not in variable_keys(body.sides.before.meta_graph)
        or key != tf.GraphKeys.GLOBAL_VARIABLES
    ):
        return False
    before, after = list(old.bytes_list.value), list(new.bytes_list.value)
    added = [data for data in after if data not in before]
    kept = [data for data in after if data not in added]
    at_end = after == [*kept, *added] or not keeps_names(body.sides.after.meta_graph)
    return (
        kept == before
        and at_end
        and _in_order(body, [body.checkpoints.described(data) for data in added])
    )


def _stand_for(body: BodyFindings, before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether train ops are those of the original, or nodes that wait for one that may be dead."""
    same = [
        name == other or (":" not in name and body.order.stands_for(name) == {other})
        for name, other in zip(after, before)
    ]
    return len(before) == len(after) and all(same)
