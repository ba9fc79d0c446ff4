"""All-reduces of gradients: on their way to the updates they are added to those of other processes.

1. An op is one by its rule in `homogeneity.txt`; so is a call of a function that has one in it.
2. What it gives is whole behind the conditional that it is in (Horovod asks how many processes there are), and behind the model's own casts.
   `Switch -> HorovodAllreduce -> RealDiv -> Merge`   whole is what the Merge gives.
3. Gradients are checked and clipped where they are whole, so that all processes skip the same steps.
4. With --allreduce_half it belongs to the gradient code that hands it gradients by ops that only move values, and so does all up to where they are
   whole: there they are unscaled. Not where several calls of `tf.gradients` (towers) hand it theirs, nor behind a sum over several steps.
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
        whole: nodes that give what is whole.
    """

    def __init__(self, view: GraphView, writes: Iterable[str], is_float: Callable[[Port], bool]):
        """Looks for them.

        Args:
            view: the graph.
            writes: nodes that write state.
            is_float: whether an output holds floating point numbers; of an op that nobody knows none does.
        """
        self._view, self._writes, self._is_float = view, frozenset(writes), is_float
        reducing = reducing_functions(view.graph_def)
        found = {
            name
            for name, node in view.nodes.items()
            if is_reduce(node.op) or not reducing.isdisjoint(functions_named(node))
        }
        self._found = found & view.ancestors(self._writes, control=False) if found else found
        self._hidden = conditional(view) if self._found else set()
        self.whole = self.ends(self._found)

    def joined(self, code: Mapping[str, AbstractSet[str]]) -> Dict[str, Set[str]]:
        """For each scope of gradient code the all-reduces of rule 4 and what lies between it and them."""
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
        """Where what all-reduces of `names` give is whole; nowhere for what is used inside a conditional alone."""

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
        """Nodes that gradients come to by ops that only move values, and all-reduces behind them."""
        moves = KEEPS_VALUES | {"Cast"}
        return reached(
            (reader for name in code for reader in self._readers(name) if reader not in code),
            lambda name: () if name in self._found else self._readers(name),
            lambda name: name in self._found or self._view.nodes[name].op in moves,
        )

    def _readers(self, name: str) -> List[str]:
        """Who reads floating point numbers that a node gives."""
        return [
            consumer.node
            for consumer in self._view.consumers(name)
            if self._is_float(Port(name, consumer.output))
        ]


def with_reduces(policy: Policy, ops: Iterable[str]) -> Policy:
    """A policy under which those of `ops` that are all-reduces on no list of it are clear."""
    return policy.with_text(
        "\n".join(
            "clear %s" % op
            for op in sorted(ops)
            if is_reduce(op) and policy.category(op) == UNLISTED
        )
    )


def is_reduce(op: str) -> bool:
    """Whether ops of a type are all-reduces."""
    return homogeneity(op) == "reduce"


def reducing_functions(graph_def: tf.GraphDef) -> Set[str]:
    """Functions of a library with an all-reduce, in them or in what they call."""
    direct = {
        function.signature.name
        for function in graph_def.library.function
        if any(is_reduce(name) for node in function.node_def for name in functions_named(node))
    }
    return with_callers(graph_def, direct)
