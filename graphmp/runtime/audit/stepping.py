"""Runs a PairedGraph: the converted graph's step beside the original's on each batch, then the original's update."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.collector import collector_paused
from graphmp.graph.live import ancestors
from graphmp.graph.variables import VARIABLE_OPS
from graphmp.numerics.instrument import MAXIMA, SUMS
from graphmp.numerics.measure import COLUMNS
from graphmp.runtime.audit.paired import PairedGraph
from graphmp.runtime.feeds.attempts import first_line
from graphmp.runtime.session_config import with_session_config

_CHANNELS_FIRST = (b"NCHW", b"NCDHW")
_ROUNDS = 4  # an initialiser may read another variable


class Step(NamedTuple):
    """What one step gave, for each of the report's losses.

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


@contextlib.contextmanager
def quiet_logging() -> Iterator[None]:
    """Keeps TensorFlow's own warnings back: what it calls deprecated is not the user's code."""
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.ERROR)
    try:
        yield
    finally:
        tf.logging.set_verbosity(verbosity)


class Stepper:
    """A session of both graphs, to be closed after use.

    Attributes:
        graph: the tf.Graph.
        session: the session.
        updates: ops that train the original.
        adapts: ops that adapt the converted graph's loss scales.
    """

    def __init__(self, paired: PairedGraph):
        """Imports the graph.

        Raises:
            GraphmpError: GMP024 where TensorFlow refuses it.
        """
        self._paired = paired
        with collector_paused(), quiet_logging(), tf.Graph().as_default() as self.graph:
            self._saver = tf.train.import_meta_graph(paired.meta_graph, clear_devices=True)
            self._clear, self._tables = self._tables_of(2 * len(paired.rows))
        self.updates = self._ops(paired.updates)
        self.adapts = self._ops(paired.adapts)
        self._fetches = self._step_fetches()
        self._beside = self._fetches["converted"] if paired.draws else []
        self.session = tf.Session(graph=self.graph, config=with_session_config(_unoptimised(paired.meta_graph.graph_def)))

    def _tables_of(self, rows: int) -> Tuple[Any, List[Any]]:
        clear, read = [], []
        for name, dtype, shape in ((SUMS, tf.float64, [rows, COLUMNS]), (MAXIMA, tf.float32, [rows])):
            table = self.graph.get_tensor_by_name(name + ":0")
            clear.append(tf.raw_ops.AssignVariableOp(resource=table, value=tf.zeros(shape, dtype)))
            read.append(tf.raw_ops.ReadVariableOp(resource=table, dtype=dtype))
        return tf.group(*clear), read

    def _ops(self, names: List[str]) -> List[Any]:
        return [self.graph.get_operation_by_name(name) for name in names]

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
    def probe(self) -> List[Any]:
        """What an update reads, to see whether the step runs without taking it."""
        read = [tensor for op in self.updates for tensor in op.inputs if tensor.dtype in (tf.float16, tf.float32, tf.float64)]
        return [read, self._beside]

    def initialise(self, checkpoint: str = "") -> None:
        """Gives variables and tables their first values, from a checkpoint where one is given.

        Raises:
            GraphmpError: GMP003 where that can't be restored.
        """
        with self.graph.as_default():
            variables = tf.global_variables() + tf.local_variables()
        collected = [getattr(variable.initializer, "op", variable.initializer) for variable in variables]
        waiting = list(dict.fromkeys([*collected, *self._ops(self._paired.initializers)]))
        at_once = set(filter(_needs_nothing, waiting))
        if self._runs(list(at_once)):
            waiting = [op for op in waiting if op not in at_once]
        for _ in range(_ROUNDS):
            waiting = [op for op in waiting if not self._runs(op)]
        for op in self.graph.get_collection(tf.GraphKeys.TABLE_INITIALIZERS):
            self._runs(op)
        self.session.run(self._clear)  # measurements in while loops run with every step
        if checkpoint:
            self._restore(checkpoint)

    def _restore(self, checkpoint: str) -> None:
        if self._saver is None:
            raise GraphmpError("GMP003", "--checkpoint=%s: the graph has no Saver to restore it with" % checkpoint)
        try:
            self._saver.restore(self.session, checkpoint)
        except (tf.errors.OpError, ValueError) as error:
            raise GraphmpError("GMP003", "--checkpoint=%s: cannot be restored: %s" % (checkpoint, first_line(error))) from None

    def _runs(self, ops: Any) -> bool:
        try:
            self.session.run(ops)
        except tf.errors.OpError:
            return False
        return True

    def settled(self, feeds: Dict[str, Any], measured: bool) -> Step:
        """As `compare`; where that would be skipped, again while the loss scales come down, so that a skipped step is one that no scale helps."""
        step = self.compare(feeds, measured)
        if all(step.finite) or not self.adapts:
            return step
        scales: List[float] = []
        while not all(step.finite) and step.scales != scales:
            scales = step.scales
            step = self.compare(feeds, False)
        return self.compare(feeds, True) if measured else step

    def compare(self, feeds: Dict[str, Any], measured: bool) -> Step:
        """Computes a step of both graphs; nothing is trained. Where it is measured, `tables` has the rows afterwards."""
        targets = self._ops([self._paired.measurement] if measured else [])
        if measured:
            self.session.run(self._clear)
        found, _ = self.session.run([self._fetches, targets], feeds)
        count = range(len(self._paired.losses))
        return Step(
            [_sum(values) for values in found["original"]],
            [_sum(values) for values in found["converted"]],
            [bool(found["finite"].get(number, True)) for number in count],
            [float(found["scales"].get(number, 1.0)) for number in count],
        )

    def tables(self) -> Tuple[Any, Any]:
        """Sums and maxima of the rows in the last measured step."""
        sums, maxima = self.session.run(self._tables)
        return sums, maxima

    def train(self, feeds: Dict[str, Any]) -> None:
        """Trains the original on a batch."""
        self.session.run([self.updates, self._beside], feeds)

    def __enter__(self) -> Stepper:
        return self

    def __exit__(self, *_: Any) -> None:
        self.session.close()


def _needs_nothing(initializer: Any) -> bool:
    """Whether an assignment reads nothing that may not be there yet: no variable, no other resource, nothing fed."""
    if initializer.type not in ("Assign", "AssignVariableOp"):
        return False
    read = ancestors([*(tensor.op for tensor in initializer.inputs[1:]), *initializer.control_inputs])
    return not any(op.type in VARIABLE_OPS or op.type.startswith("Placeholder") or tf.resource in [t.dtype for t in op.outputs] for op in read)


def _unoptimised(graph_def: tf.GraphDef) -> tf.ConfigProto:
    """Options of a session that runs a graph as it is: optimising thousands of measurements takes longer than computing them.

    Channels-first convolutions need one optimizer on a CPU, that of layouts.
    """
    config = tf.ConfigProto()
    if any("data_format" in node.attr and node.attr["data_format"].s in _CHANNELS_FIRST for node in graph_def.node):
        config.graph_options.rewrite_options.optimizers.append("layout")
    else:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return config


def _sum(values: List[Any]) -> float:
    return float(sum(itertools.chain.from_iterable(np.ravel(np.asarray(value, np.float64)) for value in values)))
