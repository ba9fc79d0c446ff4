"""A conversion made to be looked at and thrown away."""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.policy.policy import Policy
from graphmp.rewrite.inspection.overview import recognised
from graphmp.rewrite.pipeline import rewrite


class Attempt(NamedTuple):
    """What came of it.

    Attributes:
        converted: the converted graph; None where there is none.
        error: why there is none, though the graph is one to convert.
        notes: what is special about the graph: rows `code`, `node`, `message`.
    """

    converted: Optional[tf.MetaGraphDef]
    error: str
    notes: List[Dict[str, str]]


def attempt(meta_graph: tf.MetaGraphDef, config: Config, policy: Policy, progress: Callable[[str], None]) -> Attempt:
    """Converts a graph where there is anything to convert.

    Raises:
        GraphmpError: GMP002 for options that name what the graph doesn't have, GMP008 for what is no graph.
    """
    special = recognised(meta_graph, config, policy)
    if special.leave:
        return Attempt(None, "", special.warnings)
    progress("converting")
    try:
        return Attempt(rewrite(meta_graph, config, policy).meta_graph, "", special.warnings)
    except GraphmpError as refusal:
        return Attempt(None, str(refusal), special.warnings)
