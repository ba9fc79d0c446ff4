"""All-reduces of gradients, which add gradients of other processes.

1. An op is one by its rule in `homogeneity.txt`; so is a call of a function that contains one.
2. Its result is complete behind its conditional (Horovod asks for the number of processes), and
   behind the model's own casts. In `Switch -> HorovodAllreduce -> RealDiv -> Merge` the result of
   the Merge is complete.
3. Gradients are checked and clipped where they are complete, so that all processes skip the same
   steps.
4. With --allreduce_half an all-reduce belongs to the gradient code that reaches it through ops that
   only move values. So does everything up to where gradients are complete: they are unscaled there.
   Not if several calls of `tf.gradients` (towers) feed it, nor behind a sum over several steps.
"""

from __future__ import annotations

import collections
from typing import AbstractSet, Callable, Dict, Iterable, List, Mapping, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.calls import functions_named, with_callers
from graphmp.graph.structure.view import GraphView, Port
from graphmp.graph.structure.walk import reached
from graphmp.policy.policy import UNLISTED, Policy
from graphmp.policy.traits import KEEPS_VALUES, homogeneity


class AllReduces:
    """The all-reduces of a graph that lead to a write.

    Attributes:
        whole: nodes whose results are complete.
    """

    def __init__(self, view: GraphView, writes: Iterable[str], is_float: Callable[[Port], bool]):
        """Find them.

        Args:
            view: the graph.
            writes: nodes that write state.
            is_float: whether an output holds floating-point numbers; False for outputs of unknown
                ops.
        """
        self._view, self._writes, self._is_float = view, frozenset(writes), is_float
        reducing = reducing_functions(view.graph_def)
        found = {
            name
            for name, node in view.nodes.items()
            if is_reduce(node.op) or (reducing and not reducing.isdisjoint(functions_named(node)))
        }
        self._found = found & view.ancestors(self._writes, control=False) if found else found
        self._hidden = conditional(view) if self._found else set()
        self.whole = self.ends(self._found)

    def joined(self, code: Mapping[str, AbstractSet[str]]) -> Dict[str, Set[str]]:
        """The all-reduces of rule 4 and nodes leading to them, for each gradient scope."""
        if not self._found:
            return {}
        handed = {scope: self._handed(nodes) for scope, nodes in code.items()}
        times = collections.Counter(name for nodes in handed.values() for name in nodes)
        late = self._behind_writes({name for nodes in code.values() for name in nodes})
        fit = {
            n
            for n in times
            if times[n] == 1
            and n not in late
            and is_reduce(self._view.nodes[n].op)
            and self.ends([n])
        }
        own = {scope: nodes & fit for scope, nodes in handed.items()}
        return {
            scope: nodes & self._view.ancestors(own[scope], control=False)
            for scope, nodes in handed.items()
        }

    def ends(self, names: Iterable[str]) -> Set[str]:
        """Where the results of all-reduces in `names` are complete; empty inside a conditional."""

        def is_part(name: str) -> bool:
            readers = self._readers(name)
            return name in self._hidden or (
                bool(readers) and all(self._view.nodes[reader].op == "Cast" for reader in readers)
            )

        given = reached(
            (name for name in names if name in self._found),
            lambda name: self._readers(name) if is_part(name) else (),
            lambda name: name not in self._writes,
        )
        return {name for name in given if self._readers(name) and not is_part(name)}

    def _behind_writes(self, code: AbstractSet[str]) -> Set[str]:
        """Nodes that wait for writes of gradients.

        Sums over several steps, which wait for the finite check.
        """
        return self._view.descendants(self._view.descendants(code, control=False) & self._writes)

    def _handed(self, code: AbstractSet[str]) -> Set[str]:
        """Nodes that gradients reach by ops that only move values, and all-reduces after."""
        moves = KEEPS_VALUES | {"Cast"}
        return reached(
            (reader for name in code for reader in self._readers(name) if reader not in code),
            lambda name: () if name in self._found else self._readers(name),
            lambda name: name in self._found or self._view.nodes[name].op in moves,
        )

    def _readers(self, name: str) -> List[str]:
        """The consumers of a node's floating-point outputs."""
        return [
            consumer.node
            for consumer in self._view.consumers(name)
            if self._is_float(Port(name, consumer.output))
        ]


def with_reduces(policy: Policy, ops: Iterable[str]) -> Policy:
    """A policy with unlisted all-reduces among `ops` on its clear list."""
    return policy.with_text(
        "\n".join(
            "clear %s" % op
            for op in sorted(ops)
            if is_reduce(op) and policy.category(op) == UNLISTED
        )
    )


def is_reduce(op: str) -> bool:
    """Whether an op type is an all-reduce."""
    return homogeneity(op) == "reduce"


def reducing_functions(graph_def: tf.GraphDef) -> Set[str]:
    """Functions of a library that contain an all-reduce, directly or in their calls."""
    direct = {
        function.signature.name
        for function in graph_def.library.function
        if any(is_reduce(name) for node in function.node_def for name in functions_named(node))
    }
    return with_callers(graph_def, direct)
