"""Steps of a graph with a loss scale, in float32, held against the original's bit by bit.

What depends on the order in which nodes run isn't the same from one run of the original to the next. Readers of a variable are put before its
writes where the original leaves that open; what else there is a run with the nodes in the opposite order shows.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.executed.order import Edges, in_this_order
from graphmp.executed.variables import Values, VariableSession, changed, not_finite
from graphmp.feeds.batches import Batches

_SLACK = (
    4.0  # how much further than two runs of the original from each other another graph's may be
)


class Steps(NamedTuple):
    """How to run a step.

    Attributes:
        train: names of the ops that it runs, one after the other.
        batches: what is fed.
        number: how many steps.
        order: what is to wait for what.
    """

    train: List[str]
    batches: Batches
    number: int
    order: Edges


class Expected(NamedTuple):
    """The results of steps of the original.

    Attributes:
        steps: how many: up to the first that leaves a variable infinite or NaN, which a conversion may skip.
        start: the variables before them.
        end: the variables after them.
        apart: for those that another run gives other values, how far these are.
    """

    steps: Steps
    start: Values
    end: Values
    apart: Dict[str, float]


def expected(original: tf.MetaGraphDef, steps: Steps, checkpoint: str) -> Expected:
    """Runs the steps of the original twice."""
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
    """The original's variables that steps of another graph leave with other values.

    Args:
        graph: the other graph.
        wanted: the original's steps and values.
        given: values for variables of the other graph alone.
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
    """The largest difference of an element; infinite where the values can't be compared."""
    if one is None or other is None or one.shape != other.shape or one.dtype.kind not in "fiu":
        return np.inf
    with np.errstate(invalid="ignore"):
        largest = np.max(np.abs(one.astype(np.float64) - other.astype(np.float64)), initial=0.0)
    return np.inf if np.isnan(largest) else float(largest)
