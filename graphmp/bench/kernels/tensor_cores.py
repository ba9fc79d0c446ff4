"""One step of a graph under TensorFlow's trace, to find its kernels."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from typing import Any, Dict, List, NamedTuple

import tensorflow.compat.v1 as tf

from graphmp.bench import graphs
from graphmp.bench.options import BenchOptions
from graphmp.bench.processes import feeds
from graphmp.bench.processes.timed_session import TimedSession
from graphmp.config import Config
from graphmp.conversion.source import names_a_graph
from graphmp.doctor.devices import TENSOR_CORES, Device
from graphmp.errors import GraphmpError
from graphmp.gate.reading import read_graph
from graphmp.graph.edit.mark import read_mark
from graphmp.graph.structure.view import GraphView
from graphmp.report.training import nothing_trains
from graphmp.scaling.losses.losses import find_losses
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.wording import first_line

_WARMUP = 2  # on a GPU convolutions try their algorithms in the first steps


class Traced(NamedTuple):
    """A graph and the trace of a step of it."""

    graph_def: tf.GraphDef
    run_metadata: tf.RunMetadata


def check(device: Device) -> None:
    """Check that there are Tensor Cores.

    Raises:
        GraphmpError: GMP020.
    """
    if device.capability < TENSOR_CORES:
        accepted = (
            "accepted is a GPU of compute capability 7.0 or later that TensorFlow sees; see"
            " `graphmp doctor`"
        )
        raise GraphmpError(
            "GMP020", "--verify_tensor_cores: found %s; %s" % (device.name, accepted)
        )


def is_converted(source: str, tag: str) -> bool:
    """Whether SOURCE is a graph with the mark of a conversion."""
    return names_a_graph(source) and read_mark(read_graph(source, tag)) is not None


def losses(meta_graph: tf.MetaGraphDef, config: Config) -> List[Dict[str, Any]]:
    """Losses of a graph without a report, in a report's form; their scales are left empty."""
    found = find_losses(TrainingGraph(meta_graph, config, OpDefs(meta_graph)), config)
    return [
        {
            "updates": list(loss.updates),
            "gradients": [str(port) for port in loss.gradients],
            "scale": "",
        }
        for loss in found
    ]


def traced(
    meta_graph: tf.MetaGraphDef, training: List[Dict[str, Any]], source: str, options: BenchOptions
) -> Traced:
    """Run steps of a graph in this process and trace the last.

    Args:
        meta_graph: the graph.
        training: a report's losses.
        source: its name.
        options: data and batch size, the smallest one.

    Raises:
        GraphmpError: GMP023 if nothing trains, GMP024 if the step doesn't run; GMP002, GMP003,
            GMP005 and GMP024 for data.
    """
    if not training:
        raise nothing_trains(source)
    targets = graphs.step_targets(GraphView(meta_graph.graph_def), training)
    with tempfile.TemporaryDirectory(prefix="graphmp_") as name:
        folder = pathlib.Path(name)
        try:
            written = graphs.write(meta_graph, targets, folder / "graph.meta")
            with contextlib.closing(TimedSession(written, options.memory_limit)) as session:
                made = feeds.make(
                    session, options.data, options.batch_sizes[:1], options.seed, folder
                )
                (batch,) = feeds.read(made[0].path, 1)
                for _ in range(_WARMUP):
                    session.step(batch)
                return Traced(meta_graph.graph_def, session.traced(batch))
        except (tf.errors.OpError, ValueError, TypeError) as error:
            raise GraphmpError(
                "GMP024", "%s: the step does not run: %s" % (source, first_line(error))
            ) from None
