"""Random streams that go on across switches between variants.

A stateful random op draws from a generator of its own, and its clone from another one with the same
seeds. When a variant runs again, its generators first draw what the other variants have drawn
meanwhile, so that step n sees the numbers that it would see if one variant had trained all steps.
The amount that an op draws depends on the values of its inputs (shapes), which are fetched with the
step. Shared random ops and those without seeds need nothing. Random ops inside loops and branches
can't be run by themselves: each variant goes on with its own stream there.
"""

from __future__ import annotations

import collections
import weakref
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Sequence,
    Set,
    Tuple,
)

import numpy as np

from graphmp.graph.state.live import ancestors
from graphmp.graph.state.state_kinds import kind

_KIND = "random"
# (session, ops, values by names of tensors): runs the ops themselves
Replay = Callable[[Any, List[Any], Dict[str, Any]], None]


class Draws(NamedTuple):
    """The random ops of a run that exist in several variants.

    Attributes:
        names: of the original ops.
        inputs: for each the names of its inputs, empty for a constant.
        fetches: the inputs that are neither constant nor fed.
        feeds: the values of those that are fed, by name.
    """

    names: List[str]
    inputs: List[List[str]]
    fetches: List[Any]
    feeds: Mapping[str, Any]


NO_DRAWS = Draws([], [], [], {})


class _Drawn:
    """The random numbers drawn in a session.

    Attributes:
        history: for each run the inputs of each random op, by the original's name; None for a
            constant.
        reached: for each node the number of these runs that its generator has drawn for.
    """

    def __init__(self) -> None:
        self.history: List[Dict[str, List[Any]]] = []
        self.reached: Dict[str, int] = collections.defaultdict(int)


class RandomStreams:
    """The generators of a graph's variants."""

    def __init__(self, graph: Any):
        """There are no variants yet, and nothing has been drawn."""
        self._graph = graph
        self._nodes: Dict[str, Dict[str, str]] = {}  # by variant and original name
        self._draws: Dict[Tuple[Any, ...], Draws] = {}
        self._drawn: weakref.WeakKeyDictionary[Any, _Drawn] = weakref.WeakKeyDictionary()

    def set_variants(
        self, variants: Mapping[str, Mapping[str, str]], hidden: AbstractSet[str]
    ) -> None:
        """Tell which nodes belong together.

        Args:
            variants: for each variant the original name to the clone's.
            hidden: nodes that can't be fetched, as in loops and branches.
        """
        names = _with_several(self._graph, list(variants.values()), hidden)
        self._nodes = {
            variant: {name: clones.get(name, name) for name in names}
            for variant, clones in variants.items()
        }
        self._draws = {}

    def draws(self, variant: str, ops: Tuple[Any, ...], feeds: Mapping[str, Any]) -> Draws:
        """The random ops that a run computes.

        Args:
            variant: the variant that runs.
            ops: what it runs.
            feeds: the values that are fed, by the names of the variant's tensors.
        """
        if not self._nodes[variant]:
            return NO_DRAWS
        key = (variant, ops, frozenset(feeds))
        if key not in self._draws:
            self._draws[key] = self._found(variant, ops, feeds)
        found = self._draws[key]
        # copies: the script may write its next batch to the same array
        return found._replace(feeds={name: np.array(feeds[name]) for name in found.feeds})

    def _found(self, variant: str, ops: Tuple[Any, ...], feeds: Mapping[str, Any]) -> Draws:
        fed = {self._graph.get_tensor_by_name(name).op for name in feeds}
        computed = {op.name for op in ancestors(ops, stop=lambda op: op in fed) - fed}
        nodes = {name: node for name, node in self._nodes[variant].items() if node in computed}
        inputs = [self._graph.get_operation_by_name(node).inputs for node in nodes.values()]
        varying = {
            tensor.name: tensor
            for tensors in inputs
            for tensor in tensors
            if tensor.name in feeds or not _is_constant(tensor)
        }
        return Draws(
            list(nodes),
            [[t.name if t.name in varying else "" for t in tensors] for tensors in inputs],
            [tensor for name, tensor in varying.items() if name not in feeds],
            {name: feeds[name] for name in varying if name in feeds},
        )

    def drew(self, session: Any, variant: str, draws: Draws, values: Sequence[Any]) -> None:
        """Note a run; the variant had caught up before.

        Args:
            session: the session.
            variant: the variant that ran.
            draws: what it drew.
            values: of `draws.fetches`.
        """
        if not draws.names:
            return
        known = dict(draws.feeds)
        known.update(zip((tensor.name for tensor in draws.fetches), values))
        drawn = self._drawn.setdefault(session, _Drawn())
        drawn.history.append(
            {
                name: [known.get(tensor) for tensor in tensors]
                for name, tensors in zip(draws.names, draws.inputs)
            }
        )
        self._set_reached(drawn, variant)

    def catch_up(self, session: Any, variant: str, replay: Replay) -> None:
        """Let a variant's generators draw what the others drew since it ran."""
        drawn = self._drawn.get(session)
        if drawn is None:
            return
        nodes = self._nodes[variant]
        first = min((drawn.reached[node] for node in nodes.values()), default=len(drawn.history))
        for number, inputs in enumerate(drawn.history[first:], first):
            behind = [name for name in inputs if drawn.reached[nodes[name]] <= number]
            ops = [self._graph.get_operation_by_name(nodes[name]) for name in behind]
            if ops:
                replay(session, ops, _feeds(ops, [inputs[name] for name in behind]))
        self._set_reached(drawn, variant)

    def _set_reached(self, drawn: _Drawn, variant: str) -> None:
        drawn.reached.update({node: len(drawn.history) for node in self._nodes[variant].values()})

    def sessions(self) -> List[Any]:
        """The sessions in which something was drawn."""
        return list(self._drawn)


def _feeds(ops: Sequence[Any], inputs: Sequence[Sequence[Any]]) -> Dict[str, Any]:
    """The values of the inputs that are no constants."""
    return {
        tensor.name: np.asarray(value, tensor.dtype.as_numpy_dtype)
        for op, values in zip(ops, inputs)
        for tensor, value in zip(op.inputs, values)
        if value is not None
    }


def _is_constant(tensor: Any) -> bool:
    """Whether a tensor has one value in all runs that don't feed it.

    TensorFlow lets no tensor be fed whose value it has asked for while the graph was built. This
    one isn't asked for: the script may feed it.
    """
    return tensor.op.type == "Const" or not tensor.graph.is_feedable(tensor)


def _with_several(
    graph: Any, variants: List[Mapping[str, str]], hidden: AbstractSet[str]
) -> List[str]:
    """Names of the seeded random ops that some variants have clones of."""
    found: Dict[str, Set[str]] = collections.defaultdict(set)
    for names in variants:
        for name in names:
            found[name].update(each.get(name, name) for each in variants)
    return [
        name
        for name, nodes in found.items()
        if len(nodes) > 1
        and hidden.isdisjoint(nodes)
        and all(_is_seeded(graph, node) for node in nodes)
    ]


def _is_seeded(graph: Any, name: str) -> bool:
    try:
        node = graph.get_operation_by_name(name).node_def
    except KeyError:  # a node that a conversion inserted
        return False
    return (
        kind(node.op) == _KIND
        and "seed2" in node.attr
        and bool(node.attr["seed"].i or node.attr["seed2"].i)
    )
