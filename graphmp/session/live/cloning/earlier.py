"""The earlier conversion of a graph: the next one takes its nodes, and only converts new ones.

1. A unit keeps its dtype (`settled`), so that old code is converted as before.
2. A clone serves again if its node was converted to the same node, and so were all that it depends
   on. Loops, and the users of a TensorArray or a Stack, serve again as a whole or not at all.
3. Nodes that came later and only save, restore, read or evaluate aren't converted. They keep their
   clones, unless these depend on clones that no longer serve.
"""

from __future__ import annotations

import hashlib
from typing import AbstractSet, Any, Callable, Dict, FrozenSet, Iterable, Mapping, NamedTuple, Set

from graphmp.graph.io.messages import serialize
from graphmp.graph.state.live import ancestors, is_update
from graphmp.graph.structure.calls import functions_named, with_called
from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.rewrite.decisions import Decisions
from graphmp.rewrite.painting.paint import Paint
from graphmp.rewrite.problem import Problem
from graphmp.rewrite.units import Unit
from graphmp.session.live.cloning.closure import with_dependents
from graphmp.tf_hooks.gradient_calls import noted

Settled = Mapping[str, Mapping[Unit, Paint]]


class Earlier(NamedTuple):
    """The results of a conversion that the next one goes by; immutable.

    Attributes:
        converted: names of the graph's own nodes that it looked at.
        clones: original name to the clone's.
        digests: of each node of the converted graph.
        settled: the colour of each unit, by graph body.
    """

    converted: FrozenSet[str]
    clones: Mapping[str, str]
    digests: Mapping[str, bytes]
    settled: Settled

    def reused(
        self, after: GraphView, wanted: AbstractSet[str], shared: AbstractSet[str]
    ) -> Dict[str, str]:
        """The clones that serve again, by original name.

        Args:
            after: the newly converted graph.
            wanted: its nodes that need a clone.
            shared: its nodes that the live graph has already.
        """
        if not self.clones:
            return {}
        digests = digested(after)
        gone = self.clones.keys() - wanted - shared
        fresh = [
            name
            for name in wanted
            if name not in self.clones
            or self.digests.get(name) != digests[name]
            or any(port.node in gone for port in after.inputs(name))
        ]
        again = with_dependents(after, fresh, shared)
        return {name: self.clones[name] for name in wanted - again}

    def to_convert(self, graph: Any, trained: Iterable[Any], added: AbstractSet[str]) -> Set[str]:
        """Names of the nodes for the next conversion: the earlier ones and new training code.

        A call of `tf.gradients` is converted whole or not at all, and so is a variable: with its
        initialiser and its first read, which collections name.

        Args:
            graph: the tf.Graph.
            trained: new ops that train; new updates by optimizers count as well.
            added: names of the nodes that conversions added.
        """
        new = {
            op.name: op
            for op in graph.get_operations()
            if op.name not in added and op.name not in self.converted
        }
        found = ancestors([*trained, *(op for op in new.values() if is_update(op))])
        starts = [
            user
            for op in found
            if op.type in VARIABLE_OPS and op.name in new
            for user in op.outputs[0].consumers()
            if user.name in new and user.name.startswith(op.name + "/")
        ]
        found |= ancestors(starts)
        names = {op.name for op in found}
        calls = [
            [name for name in (*call.nodes, *call.forward) if name in new]
            for call in noted(graph)
            if not names.isdisjoint(call.nodes)
        ]
        found |= ancestors(new[name] for call in calls for name in call)
        return {op.name for op in found if op.name in new} | self.converted


NOTHING = Earlier(frozenset(), {}, {}, {})  # before the first conversion


class Settling:
    """Decides on graph bodies as an earlier conversion did, and keeps what is decided.

    Attributes:
        decided: the colour of each unit, by graph body.
    """

    def __init__(self, settled: Settled, solve: Callable[..., Decisions]):
        """Note what to go by.

        Args:
            settled: the colours that an earlier conversion chose, by graph body.
            solve: decides on a body; takes the colours of its units that are settled, if any.
        """
        self._settled, self._solve = settled, solve
        self.decided: Dict[str, Dict[Unit, Paint]] = {}

    def __call__(self, problem: Problem) -> Decisions:
        """Decisions on a body, for `rewrite`."""
        name = problem.body.name
        settled = self._settled.get(name)
        found = self._solve(problem, settled) if settled else self._solve(problem)
        self.decided[name] = dict(found.units())
        return found


def digested(view: GraphView) -> Dict[str, bytes]:
    """A digest of each node, and of the functions that it calls."""
    library = {each.signature.name: each for each in view.graph_def.library.function}
    bodies: Dict[str, bytes] = {}

    def digest(name: str) -> bytes:
        parts = [view.serialized(name)]
        for called in functions_named(view.nodes[name]) if library else ():
            if called in library:
                parts.append(bodies.get(called) or _keep(bodies, called, library))
        return hashlib.sha256(b"".join(parts)).digest()

    return {name: digest(name) for name in view.nodes}


def _keep(bodies: Dict[str, bytes], name: str, library: Mapping[str, Any]) -> bytes:
    """The digest of a function of a library, with all that it calls; it is kept in `bodies`."""
    texts = (serialize(library[each]) for each in sorted(with_called(library, [name])))
    bodies[name] = hashlib.sha256(b"".join(texts)).digest()
    return bodies[name]
