"""Control flow contexts of a MetaGraphDef: the while loops and conds.

`tf.gradients` needs them after an import. The collections `while_context` and `cond_context` list,
by name, the contents of each loop and branch. An added node must be listed too, or the graph runs
but has no gradient.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import parse, serialize
from graphmp.policy.op_sets import ENTERS, EXITS, SWITCHES

_KINDS = {
    "while_context": "tensorflow.WhileContextDef",
    "cond_context": "tensorflow.CondContextDef",
}


def contexts(key: str, data: Sequence[bytes]) -> List[Any]:
    """The contexts of a collection, in its order."""
    return [
        context for context in (parse(_KINDS[key], each) for each in data) if context is not None
    ]


class Contexts:
    """The contexts of a MetaGraphDef, which are changed and written back."""

    def __init__(self, meta_graph: tf.MetaGraphDef):
        """Parses the two collections."""
        self._meta_graph = meta_graph
        self._roots: Dict[str, List[Any]] = {}
        self._of: Dict[str, Any] = {}
        self._parents: Dict[int, Optional[Any]] = {}
        self._changed = False
        for key in _KINDS:
            data = (
                meta_graph.collection_def[key].bytes_list.value
                if key in meta_graph.collection_def
                else ()
            )
            self._roots[key] = contexts(key, data)
        for context, parent in self._walk():
            self._parents[id(context)] = parent
            outside = set(context.values_def.external_values)
            for value in context.values_def.values:
                if value not in outside:
                    self._put(value.split(":")[0], context)

    def _put(self, name: str, context: Any) -> None:
        """Assign a tensor to the inner context, or else to the one with the longer name."""
        known = self._of.get(name)
        if known is None or len(context.context_name) >= len(known.context_name):
            self._of[name] = context

    def _walk(self) -> Iterator[Tuple[Any, Optional[Any]]]:
        waiting: List[Tuple[Any, Optional[Any]]] = [
            (root, None) for roots in self._roots.values() for root in roots
        ]
        while waiting:
            context, parent = waiting.pop(0)
            yield context, parent
            for nested in context.nested_contexts:
                waiting.append((getattr(nested, nested.WhichOneof("ctxt")), context))

    def add(self, name: str, beside: tf.NodeDef) -> None:
        """List output 0 of a new node in the context of a neighbour.

        An Exit's neighbour is outside.
        """
        context = self._of.get(beside.name)
        if context is not None and beside.op in EXITS:
            context = self._parents[id(context)]
        if context is not None:
            context.values_def.values.append(name + ":0")
            self._of[name] = context
            self._changed = True

    def enter(self, entrance: tf.NodeDef, outside: str) -> None:
        """Record that an Enter or Switch now brings in the tensor `outside` (`x:0`)."""
        context = self._of.get(entrance.name)
        if context is None or entrance.op not in ENTERS | SWITCHES:
            return
        external = context.values_def.external_values
        for key in [k for k, inner in external.items() if inner.split(":")[0] == entrance.name]:
            external[outside] = external[key]
            context.values_def.values.append(outside)
            self._changed = True

    def bring_in(self, entrance: str, beside: str, outside: str) -> None:
        """List a new Enter, `entrance`, that brings in `outside`, beside one of the same loop."""
        context = self._of.get(beside)
        if context is not None:
            context.values_def.external_values[outside] = entrance + ":0"
            context.values_def.values.extend([entrance + ":0", outside])
            self._of[entrance] = context
            self._changed = True

    def write(self) -> None:
        """Write the changed contexts back into the MetaGraphDef."""
        if self._changed:
            for key, roots in self._roots.items():
                if roots:
                    self._meta_graph.collection_def[key].bytes_list.value[:] = [
                        serialize(root) for root in roots
                    ]
