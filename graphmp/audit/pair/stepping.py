"""Running a PairedGraph.

A step of the converted graph and the original, and the latter's update.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.audit.measure.instrument import MAXIMA, SUMS
from graphmp.audit.measure.statistics import COLUMNS
from graphmp.audit.pair.paired import PairedGraph
from graphmp.feeds.sources import is_source
from graphmp.graph.structure.view import parse_input
from graphmp.session.steps.as_written import unoptimised
from graphmp.session.steps.training_session import TrainingSession


class PairedStep(NamedTuple):
    """The results of one step, for each of the report's losses.

    Attributes:
        original: its value, summed where it isn't a scalar.
        converted: the converted graph's.
        finite: whether that one's gradients were finite.
        scales: what that one multiplied it by.
    """

    original: List[float]
    converted: List[float]
    finite: List[bool]
    scales: List[float]


class Stepper(TrainingSession):
    """A session of both graphs, to be closed after use; its targets train the original.

    Attributes:
        adapts: ops that adapt the converted graph's loss scales.
    """

    def __init__(self, paired: PairedGraph):
        """Import the graph; nothing is initialised yet."""
        meta_graph = paired.meta_graph
        super().__init__(meta_graph, paired.updates, unoptimised(meta_graph.graph_def))
        self._paired = paired
        with self.graph.as_default():
            self._clear, self._tables = self._tables_of(2 * len(paired.rows))
        self.adapts = self.ops(paired.adapts)
        self._fetches = self._step_fetches()
        self._beside = self._fetches["converted"] if paired.draws else []

    def _tables_of(self, rows: int) -> Tuple[Any, List[Any]]:
        clear, read = [], []
        for name, dtype, shape in (
            (SUMS, tf.float64, [rows, COLUMNS]),
            (MAXIMA, tf.float32, [rows]),
        ):
            table = self.graph.get_tensor_by_name(name + ":0")
            clear.append(tf.raw_ops.AssignVariableOp(resource=table, value=tf.zeros(shape, dtype)))
            read.append(tf.raw_ops.ReadVariableOp(resource=table, dtype=dtype))
        return tf.group(*clear), read

    def _step_fetches(self) -> Dict[str, Any]:
        def tensor(text: str) -> Any:
            return self.graph.get_tensor_by_name(text if ":" in text else text + ":0")

        p = self._paired
        return {
            "original": [[tensor(text) for text in original] for original, _ in p.losses],
            "converted": [[tensor(text) for text in converted] for _, converted in p.losses],
            "finite": {number: tensor(text) for number, text in enumerate(p.finite) if text},
            "scales": {number: tensor(text) for number, text in enumerate(p.scales) if text},
            "adapts": self.adapts,
        }

    @property
    def read(self) -> List[str]:
        """The original's nodes that a measured step reads beside its updates.

        Losses and gradients, which a fed output may cut off from the updates.
        """
        losses = (text for original, _ in self._paired.losses for text in original)
        texts = (*losses, *(row.name for row in self._paired.rows))
        return sorted({parse_input(text).node for text in texts})

    @property
    def probe(self) -> List[Any]:
        """The inputs of updates, for a trial run.

        Not their outputs, which may be inside a conditional; nor ops whose outputs are fed, such as
        the placeholder of a learning rate: they can't run.
        """
        read = [
            tensor.op
            for op in self.targets
            for tensor in op.inputs
            if tensor.dtype in (tf.float16, tf.float32, tf.float64)
            and not is_source(tensor.op.node_def)
        ]
        return [read, self._beside]

    def begin(self, checkpoint: str) -> None:
        """Initialise variables and tables, from a checkpoint if given.

        Raises:
            GraphmpError: GMP003 if that can't be restored.
        """
        self.initialise(self._paired.initializers, checkpoint)
        self.session.run(self._clear)  # measurements in while loops run with every step

    def begin_again(self, checkpoint: str) -> None:
        """Begin in a new session after trial runs.

        They may have drawn random numbers, for one graph alone if they failed, and written state:
        an update of a sparse Adam reads slots that the step has written before.
        """
        self.reopen()
        self.begin(checkpoint)

    def settled(self, feeds: Dict[str, Any], measured: bool) -> PairedStep:
        """Like `compare`, but retries while a loss that isn't finite has a smaller scale than ever.

        A step counts as skipped only if no scale makes it finite.
        """
        step = self.compare(feeds, measured)
        if all(step.finite) or not self.adapts:
            return step
        smallest: Dict[int, float] = {}
        while _lowered(smallest, step):
            step = self.compare(feeds, False)
        return self.compare(feeds, True) if measured else step

    def compare(self, feeds: Dict[str, Any], measured: bool) -> PairedStep:
        """Compute a step of both graphs without training.

        If measured, `tables` has the rows afterwards.
        """
        targets = self.ops([self._paired.measurement] if measured else [])
        if measured:
            self.session.run(self._clear)
        found, _ = self.session.run([self._fetches, targets], feeds)
        count = range(len(self._paired.losses))
        return PairedStep(
            [_sum(values) for values in found["original"]],
            [_sum(values) for values in found["converted"]],
            [bool(found["finite"].get(number, True)) for number in count],
            [float(found["scales"].get(number, 1.0)) for number in count],
        )

    def tables(self) -> Tuple[Any, Any]:
        """Sums and maxima of the rows in the last measured step."""
        sums, maxima = self.session.run(self._tables)
        return sums, maxima

    def step(self, feeds: Mapping[str, Any]) -> None:
        """Trains the original on a batch."""
        self.session.run([self.targets, self._beside], feeds)


def _lowered(smallest: Dict[int, float], step: PairedStep) -> bool:
    """Whether a loss that isn't finite has a smaller scale than before, which is noted."""
    lower = {
        number: scale
        for number, scale in enumerate(step.scales)
        if not step.finite[number] and scale < smallest.get(number, math.inf)
    }
    smallest.update(lower)
    return bool(lower)


def _sum(values: List[Any]) -> float:
    return float(
        sum(
            itertools.chain.from_iterable(
                np.ravel(np.asarray(value, np.float64)) for value in values
            )
        )
    )
