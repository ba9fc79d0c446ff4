"""Comparing steps of a graph with a loss scale in float32 with the original's, bit by bit.

Results that depend on the order of nodes differ between runs of the original. Reads of a variable
are put before its writes where the original leaves that open; a run with the nodes in reverse order
shows other such results.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.executed.order import Edges, in_this_order
from graphmp.executed.variables import Values, VariableSession, changed, not_finite
from graphmp.feeds.batches import Batches

_SLACK = 4.0  # how much larger differences may be than between two runs of the original


class Steps(NamedTuple):
    """How to run steps.

    Attributes:
        train: names of the ops to run, one after the other.
        batches: the feeds.
        number: the number of steps.
        order: pairs of a node and one that waits for it.
    """

    train: List[str]
    batches: Batches
    number: int
    order: Edges


class Expected(NamedTuple):
    """The results of steps of the original.

    Attributes:
        steps: their number: up to the first that makes a variable infinite or NaN, which a
            conversion may skip.
        start: the variables before them.
        end: the variables after them.
        apart: the difference of two runs, for variables that have one.
    """

    steps: Steps
    start: Values
    end: Values
    apart: Dict[str, float]


def expected(original: tf.MetaGraphDef, steps: Steps, checkpoint: str) -> Expected:
    """Run the steps of the original twice."""
    ordered = in_this_order(original, steps.order)
    with VariableSession(ordered, steps.train, checkpoint=checkpoint) as session:
        start = end = session.values()
        good = 0
        while good < steps.number:
            session.step(steps.batches(good))
            after = session.values()
            if set(not_finite(after)) - set(not_finite(start)):
                break
            good, end = good + 1, after
    steps = steps._replace(number=good)
    again = _run(original, steps, start, backwards=True)
    return Expected(
        steps,
        start,
        end,
        {name: _distance(end.get(name), again.get(name)) for name in changed(end, again)},
    )


def differing(
    graph: tf.MetaGraphDef, wanted: Expected, given: Optional[Mapping[str, np.ndarray]] = None
) -> List[str]:
    """The original's variables that have other values after steps of another graph.

    Args:
        graph: the other graph.
        wanted: the original's steps and values.
        given: values of variables that only the other graph has.
    """
    found = _run(graph, wanted.steps, dict(wanted.start, **(given or {})))
    found = {
        name: value for name, value in found.items() if name in wanted.end or name in wanted.start
    }
    names = changed(wanted.end, found)
    return [
        name
        for name in names
        if name not in wanted.apart
        or _distance(wanted.end.get(name), found.get(name)) > _SLACK * wanted.apart[name]
    ]


def moved(wanted: Expected) -> List[str]:
    """The variables that the steps changed."""
    return changed(wanted.start, wanted.end)


def _run(graph: tf.MetaGraphDef, steps: Steps, start: Values, backwards: bool = False) -> Values:
    ordered = in_this_order(graph, steps.order)
    with VariableSession(ordered, steps.train, start, backwards=backwards) as session:
        for step in range(steps.number):
            session.step(steps.batches(step))
        return session.values()


def _distance(one: Optional[np.ndarray], other: Optional[np.ndarray]) -> float:
    """The largest difference of an element; infinite for values that can't be compared."""
    if one is None or other is None or one.shape != other.shape or one.dtype.kind not in "fiu":
        return np.inf
    with np.errstate(invalid="ignore"):
        largest = np.max(np.abs(one.astype(np.float64) - other.astype(np.float64)), initial=0.0)
    return np.inf if np.isnan(largest) else float(largest)
