"""The peak memory of an executed training step, by TensorFlow's trace of its allocators."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.feeds.attempts import first_that_runs, random_attempts
from graphmp.feeds.batches import Batch
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView
from graphmp.inspect.training_step import find_training
from graphmp.session.steps.as_written import one_by_one
from graphmp.session.steps.step_stats import peak_bytes
from graphmp.session.steps.training_session import TrainingSession
from graphmp.wording import first_line

_REFUSALS = (
    tf.errors.OpError,
    ValueError,
    TypeError,
)  # TensorFlow's errors for a graph that it can't import or run


class TracedPeak(NamedTuple):
    """The peak of a step's allocated bytes, by allocator.

    With and without scratch memory of kernels.
    """

    allocated: Dict[str, int]
    tensors: Dict[str, int]


class MeasuredPeaks(NamedTuple):
    """The measured memory of the larger of two steps.

    Attributes:
        original: of the original graph; None if it doesn't run.
        converted: of the converted one; None if there is none, or it doesn't run.
        error: why one doesn't run.
    """

    original: Optional[TracedPeak]
    converted: Optional[TracedPeak]
    error: str


def measure(
    original: tf.MetaGraphDef,
    converted: Optional[tf.MetaGraphDef],
    config: Config,
    batch_size: int,
    seed: int = 0,
) -> MeasuredPeaks:
    """Run two steps of each graph on one batch of random data, one op after the other.

    Args:
        original: the graph.
        converted: its conversion, if there is one.
        config: names the training step, if it isn't found.
        batch_size: of dimensions that the graph leaves open.
        seed: of the data.
    """
    updates = sorted(find_training(original, config).updates)
    found: List[Optional[TracedPeak]] = [None, None]
    batch: Optional[Batch] = None
    for place, graph in enumerate([original] if converted is None else [original, converted]):
        try:
            view = GraphView(graph.graph_def)
            with TrainingSession(graph, updates, one_by_one()) as session:
                session.initialise(sorted(State(graph, view).initializers))
                batch = _batch(session, view, batch_size, seed) if batch is None else batch
                found[place] = _larger(_peak(session, batch), _peak(session, batch))
        except _REFUSALS as error:
            return MeasuredPeaks(
                found[0],
                None,
                "the %s graph does not run here: %s"
                % (("original", "converted")[place], first_line(error)),
            )
        except GraphmpError as error:
            return MeasuredPeaks(None, None, error.message)
    return MeasuredPeaks(found[0], found[1], "")


def _peak(session: TrainingSession, batch: Batch) -> TracedPeak:
    trace = session.traced(batch)
    return TracedPeak(peak_bytes(trace), peak_bytes(trace, scratch=False))


def _larger(one: TracedPeak, other: TracedPeak) -> TracedPeak:
    """The larger peak of two steps: the first may measure gradients for the loss scale."""
    return max(one, other, key=lambda peak: sum(peak.tensors.values()))


def _batch(session: TrainingSession, view: GraphView, batch_size: int, seed: int) -> Batch:
    """Random data with which the step runs. Raises GMP024 if there is none."""
    names = [op.name for op in session.targets]
    with session.graph.as_default():
        attempts = random_attempts(session.graph, view, names, batch_size, seed)
        return first_that_runs(session.session, session.targets, attempts)(0)
