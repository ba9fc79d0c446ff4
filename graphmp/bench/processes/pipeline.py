"""The time that a step waits for the graph's own input pipeline.

Steps with it are compared with steps that are fed one of its elements.
"""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.bench.bench import Input
from graphmp.bench.processes.feeds import without
from graphmp.bench.processes.timed_session import TimedSession
from graphmp.wording import first_line

_ITERATORS = ("IteratorGetNext", "IteratorGetNextSync")
_WARMUP, _STEPS = 2, 10


def measure(original: TimedSession, batch: Dict[str, Any]) -> Input:
    """The share of a step that waits; or a message if the pipeline doesn't run without its script.

    Neither if the graph has no pipeline.

    Args:
        original: the original graph.
        batch: its feeds, iterators included.
    """
    elements = [
        name for name in batch if original.view.nodes[name.rpartition(":")[0]].op in _ITERATORS
    ]
    if not elements:
        return Input()
    rest = without(batch, elements)
    try:
        _initialise(original)
        values = original.session.run(elements, rest)
        fed, own = (
            _median(original, feeds) for feeds in (dict(rest, **dict(zip(elements, values))), rest)
        )
    except (tf.errors.OpError, ValueError, TypeError) as error:
        return Input(message=first_line(error))
    return Input(waiting=max(0.0, 1 - fed / own))


def _initialise(original: TimedSession) -> None:
    """Initialise iterators with their datasets."""
    makers: List[str] = [
        name for name, node in original.view.nodes.items() if node.op == "MakeIterator"
    ]
    original.session.run([original.graph.get_operation_by_name(name) for name in makers])


def _median(original: TimedSession, feeds: Dict[str, Any]) -> float:
    return float(np.median(original.timed([feeds], _WARMUP + _STEPS)[_WARMUP:]))
