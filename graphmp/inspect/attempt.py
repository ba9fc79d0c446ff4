"""A graph and its conversion, made only for inspection, measured alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, Generic, List, Optional, TypeVar

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.inspect.overview import recognised
from graphmp.inspect.sizes import ShapeSource, completed, recorded
from graphmp.inspect.training_step import Training, find_training
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Attempt(Generic[_Found]):
    """The measurements.

    Attributes:
        training: the training step.
        unknown: the assumed size of an unknown dimension.
        before: of the original.
        after: of the converted graph; None without one.
        converted: that graph.
        error: why a graph that needs conversion has none.
        notes: special cases of the graph: rows `code`, `node`, `message`.
    """

    training: Training
    unknown: int
    before: _Found
    after: Optional[_Found]
    converted: Optional[tf.MetaGraphDef]
    error: str
    notes: List[Dict[str, str]]


def attempt(
    measure: Callable[[tf.MetaGraphDef, Training, ShapeSource], _Found],
    meta_graph: tf.MetaGraphDef,
    config: Config,
    policy: Policy,
    batch_size: int,
    progress: Callable[[str], None],
) -> Attempt[_Found]:
    """Convert a graph if it needs conversion, and measure a step of both.

    Args:
        measure: called with a graph, the training step and the source of shapes.
        meta_graph: the graph; it isn't changed.
        config: options of the conversion.
        policy: its op lists.
        batch_size: as for `sizes.recorded`.
        progress: receives each stage as it begins.

    Raises:
        GraphmpError: GMP002 for options that name missing parts, GMP008 for an invalid graph.
    """
    special = recognised(meta_graph, config, policy)
    training, shapes = find_training(meta_graph, config), recorded(meta_graph.graph_def, batch_size)
    converted, after, error = None, None, ""
    if not special.leave:
        progress("converting")
        try:
            converted = rewrite(meta_graph, config, policy).meta_graph
        except GraphmpError as refusal:
            error = str(refusal)
    progress("measuring")
    before = measure(meta_graph, training, shapes)
    if converted is not None:
        after = measure(converted, training, completed(shapes, converted.graph_def))
    return Attempt(training, shapes.unknown, before, after, converted, error, special.warnings)
