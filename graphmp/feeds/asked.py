"""The batches that a command line requests."""

from __future__ import annotations

from typing import Any, Sequence

from graphmp.feeds.attempts import first_that_runs, random_attempts
from graphmp.feeds.batches import Batches, from_function, from_npz
from graphmp.feeds.wanted import wanted_tensors
from graphmp.graph.structure.view import GraphView


def asked_batches(
    session: Any,
    view: GraphView,
    targets: Sequence[str],
    probe: Any,
    data: str,
    batch_size: int,
    seed: int,
) -> Batches:
    """Batches from a file or a function; without either, made-up batches that run.

    Args:
        session: with everything initialised.
        view: the graph that was imported into it.
        targets: names of the nodes that will run.
        probe: nodes with which made-up batches are tried.
        data: an .npz file, or `file.py:function`; empty for made-up batches.
        batch_size: of dimensions that the graph leaves open.
        seed: of made-up batches.

    Raises:
        GraphmpError: GMP002, GMP003 for data that can't be read or doesn't fit, GMP024 if no
            made-up batch runs.
    """
    graph = session.graph
    with graph.as_default():
        if not data:
            return first_that_runs(
                session, probe, random_attempts(graph, view, targets, batch_size, seed)
            )
        wanted = wanted_tensors(graph, view, targets)
        return (
            from_npz(data, wanted, batch_size)
            if data.endswith(".npz")
            else from_function(data, wanted)
        )
