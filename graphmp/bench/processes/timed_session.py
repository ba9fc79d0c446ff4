"""A graph of a bench in a session of its own: stepped and timed."""

from __future__ import annotations

import gc
import time
from typing import Any, Dict, List, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from graphmp.bench.options import PROCESSOR, WALL
from graphmp.gate.reading import read_graph
from graphmp.graph.structure.view import GraphView
from graphmp.session.steps.as_written import one_by_one
from graphmp.session.steps.training_session import TrainingSession, import_nodes

_MEGABYTE = 1 << 20
_CLOCKS = {WALL: time.perf_counter, PROCESSOR: time.process_time}
# How a session runs ops: as many at a time as TensorFlow likes; one at a time; all that the graph
# has, none fused or folded.
TOGETHER, ONE_BY_ONE, AS_THEY_ARE = "together", "one by one", "as they are"


class TrainingFile(NamedTuple):
    """A graph in a file, and how it trains.

    Attributes:
        path: of the MetaGraphDef.
        targets: nodes of a step.
        initializers: nodes that initialise variables and tables.
    """

    path: str
    targets: List[str]
    initializers: List[str]


class TimedSession(TrainingSession):
    """A graph that is ready to train.

    Attributes:
        view: what it was imported from.
    """

    def __init__(self, training: TrainingFile, gpu_memory: int = 0, way: str = TOGETHER):
        """Import and initialise it.

        Args:
            training: the graph.
            gpu_memory: bytes of a GPU for the process; 0 for all.
            way: how its ops run: TOGETHER, ONE_BY_ONE or AS_THEY_ARE.

        Raises:
            Exception: errors of TensorFlow's import, or of missing memory.
        """
        meta_graph = read_graph(training.path)
        self.view = GraphView(meta_graph.graph_def)
        super().__init__(meta_graph, training.targets, _config(gpu_memory, way), import_nodes)
        self.initialise(training.initializers, sparing=True)

    def timed(
        self, batches: Sequence[Dict[str, Any]], count: int, clock: str = WALL
    ) -> List[float]:
        """Seconds of each of some steps, with the batches in turn, without garbage collections."""
        now = _CLOCKS[clock]
        found = []
        gc.collect()
        gc.disable()
        try:
            for number in range(count):
                feeds = batches[number % len(batches)]
                start = now()
                self.step(feeds)
                found.append(now() - start)
        finally:
            gc.enable()
        return found


def _config(gpu_memory: int, way: str) -> tf.ConfigProto:
    """Missing devices are replaced, and a GPU's memory is taken as needed."""
    config = one_by_one() if way == ONE_BY_ONE else tf.ConfigProto()
    config.allow_soft_placement = True
    if way == AS_THEY_ARE:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    config.gpu_options.allow_growth = True
    if gpu_memory:
        config.gpu_options.experimental.virtual_devices.add(
            memory_limit_mb=[max(1, gpu_memory // _MEGABYTE)]
        )
    return config
