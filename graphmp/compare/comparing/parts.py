"""Changes outside of nodes: fields, collections, signatures, and functions without bodies."""

from __future__ import annotations

from typing import Any, Dict, Iterator, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from graphmp.compare import categories
from graphmp.compare.changes import Change
from graphmp.compare.comparing.bodies import library
from graphmp.graph.io.messages import serialize
from graphmp.naming import of_function
from graphmp.policy.dtypes import dtype_text
from graphmp.wording import plural

MAPS = ("collection_def", "signature_def")


class _DocumentPart(NamedTuple):
    """One part, a word for its size, and the part itself."""

    data: bytes
    text: str
    value: Any


def part_changes(before: tf.MetaGraphDef, after: tf.MetaGraphDef) -> Iterator[Change]:
    """The changes outside of nodes, by field; entries of maps by `field/key`."""
    yield from _changes(categories.META_GRAPH, dict(_parts(before)), dict(_parts(after)))


def function_changes(before: tf.MetaGraphDef, after: tf.MetaGraphDef) -> Iterator[Change]:
    """Missing functions, and changed signatures and attributes. Bodies are compared separately."""
    yield from _changes(categories.FUNCTION, _functions(before), _functions(after))


def apply_part(meta_graph: tf.MetaGraphDef, change: Change) -> None:
    """Apply a change of category META_GRAPH to a part."""
    field, _, key = change.node.partition("/")
    owner: Any = meta_graph
    if field.startswith("library."):
        owner, field = meta_graph.graph_def.library, field[len("library.") :]
    elif field in meta_graph.graph_def.DESCRIPTOR.fields_by_name:
        owner = meta_graph.graph_def
    if field not in MAPS:
        owner.ClearField(field)
        owner.MergeFrom(change.value or type(owner)())
        return
    entries = getattr(owner, field)
    if key in entries:
        del entries[key]
    if change.value is not None:
        entries[key].CopyFrom(change.value)


def _changes(
    category: str, old: Dict[str, _DocumentPart], new: Dict[str, _DocumentPart]
) -> Iterator[Change]:
    for name in sorted(set(old) | set(new)):
        if name not in old or name not in new or old[name].data != new[name].data:
            texts = [parts[name].text if name in parts else None for parts in (old, new)]
            yield Change(
                name, category, texts[0], texts[1], value=new[name].value if name in new else None
            )


def _parts(meta_graph: tf.MetaGraphDef) -> Iterator[Tuple[str, _DocumentPart]]:
    graph_def = meta_graph.graph_def
    for owner, prefix in ((meta_graph, ""), (graph_def, ""), (graph_def.library, "library.")):
        for field, value in owner.ListFields():
            if field.name in MAPS:
                yield from (
                    ("%s/%s" % (field.name, key), _message(value[key], value[key])) for key in value
                )
            elif field.name not in ("graph_def", "node", "library", "function"):
                rows = (
                    sorted(value, key=serialize) if prefix else value
                )  # the order of a library's functions has no meaning
                alone = type(owner)(**{field.name: rows})
                yield (
                    prefix + field.name,
                    _message(alone, alone)
                    if field.message_type
                    else _DocumentPart(serialize(alone), str(value), alone),
                )


def _message(message: Any, value: Any) -> _DocumentPart:
    return _DocumentPart(serialize(message), plural(message.ByteSize(), "byte"), value)


def _functions(meta_graph: tf.MetaGraphDef) -> Dict[str, _DocumentPart]:
    return {
        of_function(name): _function(function) for name, function in library(meta_graph).items()
    }


def _function(function: Any) -> _DocumentPart:
    head = type(function)()
    head.CopyFrom(function)
    for field in ("node_def", "ret"):
        head.ClearField(field)
    arguments, results = (
        ", ".join(_argument(a) for a in args)
        for args in (function.signature.input_arg, function.signature.output_arg)
    )
    return _DocumentPart(
        serialize(head),
        "(%s) -> (%s), %s" % (arguments, results, plural(len(function.node_def), "node")),
        function,
    )


def _argument(argument: Any) -> str:
    dtype = argument.type_attr or argument.type_list_attr or dtype_text(argument.type)
    return "%s %s" % (argument.name, dtype)
