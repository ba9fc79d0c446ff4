"""Writes that take zeros in a skipped step, in place of the old value: where sums begin.

The old value is a sum that was applied already. A write begins one if

1. its variable isn't trained, and what it writes is zero where gradients are;
2. an update takes what the variable holds, as a term of a sum;
3. something runs it, and none of these updates, or it comes before one in a branch that it isn't
   in: no step is skipped as a whole there.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Iterable, Iterator, List, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.terms import takers, vanishing
from graphmp.policy.op_sets import UPDATE_PREFIXES, VARIABLE_OPS
from graphmp.verify.sides import Fault


def begun_faults(body: Any, sources: AbstractSet[Any]) -> Iterator[Fault]:
    """Such writes that begin no sum; `sources` are gradients, of a body from body.py."""
    if not body.gates.zeros:
        return
    trained = _trained(body, sources)
    is_zero = vanishing(body.sides.after.view, sources)
    for name, value in sorted(body.gates.zeros.items()):
        written = body.sides.before.state.written(name)
        if (
            not written
            or written & trained
            or not is_zero(value)
            or not _runs_without(body, name, _updates(body, written, trained))
        ):
            yield Fault(name, "writes zeros in a skipped step, and begins no sum of gradients")


def _trained(body: Any, sources: Iterable[Any]) -> AbstractSet[str]:
    """The trainable variables; all that gradients depend on, if the graph lists none."""
    found = body.sides.before.state.collected(tf.GraphKeys.TRAINABLE_VARIABLES)
    if found is not None:
        return frozenset(found)
    view = body.sides.after.view
    ahead = view.ancestors([source.node for source in sources], control=False)
    return {name for name in ahead if view.nodes[name].op in VARIABLE_OPS}


def _updates(body: Any, variables: Iterable[str], trained: AbstractSet[str]) -> Set[str]:
    """The updates that take what variables hold."""
    view, state = body.sides.before.view, body.sides.before.state
    return {
        name
        for variable in variables
        for name in takers(view, variable)
        if state.is_write(name)
        and variable not in state.written(name)
        and (view.nodes[name].op.startswith(UPDATE_PREFIXES) or state.written(name) & trained)
    }


def _runs_without(body: Any, name: str, updates: AbstractSet[str]) -> bool:
    """Whether there are updates, and a write may be run with none of them."""
    view, state = body.sides.before.view, body.sides.before.state
    sides, behind = body.sides.before.conditions, view.descendants([name])
    own = sides.get(name, frozenset())
    if any(not sides.get(update, frozenset()) <= own for update in updates & behind):
        return True
    behind -= view.descendants(updates)
    return bool(updates) and any(
        all(state.variable(other) and not _readers(view, other) for other in _readers(view, end))
        for end in behind
        if end == name or not state.variable(end)
    )


def _readers(view: Any, name: str) -> List[str]:
    """The nodes that read a node or wait for it."""
    return [*(consumer.node for consumer in view.consumers(name)), *view.control_consumers(name)]
