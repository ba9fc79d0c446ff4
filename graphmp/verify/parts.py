"""Collections, signatures and Savers: a conversion adds the variables of its scale and its mark."""

from __future__ import annotations

import functools
from typing import Any, Iterator, Mapping, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.mark import COLLECTION as MARK
from graphmp.graph.state.state import variable_keys
from graphmp.graph.structure.contexts import contexts
from graphmp.graph.structure.view import parse_input
from graphmp.verify.body import BodyFindings
from graphmp.verify.sides import Fault, keeps_names

_STATE = "graphmp_loss_scale"  # the collection of the scales' state
_CONTEXTS = frozenset(
    ("cond_context", "while_context")
)  # contents of loops and branches, an inner one after an outer one, including added nodes

# What a loader goes by besides nodes, functions, collections and signatures: its name, and the
# field of a MetaGraphDef. The versions of a GraphDef decide on what its ops do.
_BESIDE_NODES = (
    ("the Saver", "saver_def"),
    ("the list of asset files", "asset_file_def"),
    ("the list of tags", "meta_info_def.tags"),
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


def _field(meta_graph: tf.MetaGraphDef, path: str) -> Any:
    """A field of a message by its path; None where this TensorFlow has no such field."""
    found = functools.reduce(
        lambda message, key: getattr(message, key, None), path.split("."), meta_graph
    )
    is_list = not isinstance(found, (str, type(None))) and hasattr(found, "append")
    return list(found) if is_list else found


def _collection_faults(body: BodyFindings) -> Iterator[Fault]:
    old, new = (
        body.sides.before.meta_graph.collection_def,
        body.sides.after.meta_graph.collection_def,
    )
    for key in sorted((set(old) | set(new)) - {MARK, _STATE}):
        if key == "cond_context" and key not in old:
            continue  # of inserted conditionals; it doesn't affect execution
        if key not in old or key not in new:
            yield Fault("collection %s" % key, "is new" if key in new else "is gone")
        elif old[key] != new[key] and not _may_differ(body, key, old[key], new[key]):
            yield Fault("collection %s" % key, "is not as in the original")
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
    if key in _CONTEXTS:
        had, has = (contexts(key, each.bytes_list.value) for each in (old, new))
        names = [[context.context_name for context in each] for each in (had, has)]
        kept = [context for context in has if context.context_name in names[0]]
        return (
            len(set(names[1])) == len(has)
            and len(kept) == len(had)
            and all(_holds(body, *pair) for pair in zip(had, kept))
        )
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


def _holds(body: BodyFindings, had: Any, has: Any) -> bool:
    """Whether a context differs in more contents alone, those of the contexts in it as well.

    A cast or a copy may stand for what comes from outside.
    """
    bare = []
    for context in (had, has):
        bare.append(type(context)())
        bare[-1].CopyFrom(context)
        bare[-1].ClearField("values_def")
        bare[-1].ClearField("nested_contexts")
    inner = [
        {_one_of(each).context_name: _one_of(each) for each in context.nested_contexts}
        for context in (had, has)
    ]
    return (
        bare[0] == bare[1]
        and _are_held(body, had.values_def.values, has.values_def.values)
        and all(
            _is_brought_in(body, pair, has.values_def.external_values)
            for pair in had.values_def.external_values.items()
        )
        and all(
            name in inner[1] and _holds(body, each, inner[1][name])
            for name, each in inner[0].items()
        )
    )


def _are_held(body: BodyFindings, had: Sequence[str], has: Sequence[str]) -> bool:
    """Whether each of a context's values is in another one, or has a substitute there."""
    gone, more = set(had) - set(has), set(has) - set(had)
    return all(any(_stands_for(body, new, old) for new in more) for old in gone)


def _is_brought_in(body: BodyFindings, pair: Tuple[str, str], pairs: Mapping[str, str]) -> bool:
    """Whether a value from outside, with what it is inside, is among others or has substitutes."""
    return pairs.get(pair[0]) == pair[1] or any(
        all(_stands_for(body, new, old) for new, old in zip(other, pair)) for other in pairs.items()
    )


def _stands_for(body: BodyFindings, new: str, old: str) -> bool:
    sides, ports = body.sides, (parse_input(new), parse_input(old))
    views = (sides.after.view, sides.before.view)
    known = all(port.node in view.nodes for port, view in zip(ports, views))
    return new == old or (known and body.erasure.same(*ports))


def _one_of(nested: Any) -> Any:
    """The context of a ControlFlowContextDef."""
    return getattr(nested, nested.WhichOneof("ctxt"))


def _stand_for(body: BodyFindings, before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether train ops are those of the original, or nodes that wait for one that may be dead."""
    same = [
        name == other or (":" not in name and body.order.stands_for(name) == other)
        for name, other in zip(after, before)
    ]
    return len(before) == len(after) and all(same)
