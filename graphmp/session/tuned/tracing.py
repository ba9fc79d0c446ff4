"""Training steps under TensorFlow's tracer, in float32 and with all in half that may be.

A few steps of each type are traced, after others that let TensorFlow optimise. Steps that fetch
different things (the two of a GAN) are put together to one, since a node's time is a median over
steps in which it runs.
"""

from __future__ import annotations

import collections
from typing import Dict, Hashable, List, Mapping, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from graphmp.session.steps.step_stats import runs_by_node
from graphmp.session.steps.traced_tensors import casts_in
from graphmp.tuning.assemble import Ran, TracedStep
from graphmp.tuning.costs import FLOAT32, HALF

# variant, steps that only warm up, traced steps
_ORDER = ((FLOAT32, 2, 2), (HALF, 2, 2), (FLOAT32, 0, 2), (HALF, 0, 2))
STEPS = sum(before + traced for _, before, traced in _ORDER)
_NANOSECONDS = 1e9  # of a second


class Trace(NamedTuple):
    """A traced step: the ops that it was asked for, and TensorFlow's record."""

    targets: Tuple[str, ...]
    metadata: tf.RunMetadata


class Tracing:
    """The steps to trace."""

    def __init__(self) -> None:
        """Nothing is traced yet."""
        self._waiting = [
            (variant, number >= before)
            for variant, before, traced in _ORDER
            for number in range(before + traced)
        ]
        self._traces: Dict[str, Dict[Hashable, List[Trace]]] = {
            FLOAT32: collections.defaultdict(list),
            HALF: collections.defaultdict(list),
        }

    @property
    def is_over(self) -> bool:
        """Whether all steps are traced."""
        return not self._waiting

    @property
    def current(self) -> str:
        """The variant of the next step."""
        return self._waiting[0][0]

    @property
    def traces(self) -> bool:
        """Whether the next step is traced."""
        return self._waiting[0][1]

    def saw(self, kind: Hashable, trace: Trace) -> None:
        """Note a step of the current variant."""
        variant, traced = self._waiting.pop(0)
        if traced:
            self._traces[variant][kind].append(trace)

    def targets(self) -> List[str]:
        """The original's ops that the steps were asked for."""
        return sorted({name for kind in self._kinds() for name in self._first(kind).targets})

    def metadata(self) -> List[tf.RunMetadata]:
        """A record of each kind of step in float32."""
        return [self._first(kind).metadata for kind in self._kinds()]

    def steps(self, variant: str, originals: Mapping[str, str]) -> List[TracedStep]:
        """The traced steps of a variant.

        Args:
            variant: FLOAT32 or HALF.
            originals: the original's name for each clone's.
        """
        traces = [self._traces[variant][kind] for kind in self._kinds()]
        return [_together(each, originals) for each in zip(*traces)]

    def _kinds(self) -> List[Hashable]:
        """Kinds of steps that were traced in both types."""
        return [kind for kind in self._traces[FLOAT32] if self._traces[HALF].get(kind)]

    def _first(self, kind: Hashable) -> Trace:
        return self._traces[FLOAT32][kind][0]


def _together(traces: Tuple[Trace, ...], originals: Mapping[str, str]) -> TracedStep:
    """A step with the nodes of several, by the original's names."""
    nodes: Dict[str, Ran] = {}
    for trace in traces:
        for name, runs in runs_by_node(trace.metadata).items():
            ran = Ran(_NANOSECONDS * runs.seconds, runs.op)
            nodes.setdefault(originals.get(name, name), ran)
    casts = [cast for trace in traces for cast in casts_in(trace.metadata)]
    return TracedStep(nodes, casts=casts)
