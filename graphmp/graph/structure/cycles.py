"""Cycles outside of while loops: TensorFlow can't run a graph with one."""

from __future__ import annotations

from typing import List, Optional

import numpy as np
import scipy.sparse as sparse
from scipy.sparse import csgraph

from graphmp.graph.structure.view import GraphView
from graphmp.once import remembered
from graphmp.policy.op_sets import MERGES, NEXT_ITERATIONS


@remembered
def find_cycle(view: GraphView) -> Optional[str]:
    """The first node that waits for itself, directly or indirectly; None if there is no cycle.

    A Merge doesn't wait for its data input from a NextIteration, which closes a while loop.
    """
    waits = _waits(view)
    _, component = csgraph.connected_components(waits, connection="strong")
    cyclic = np.flatnonzero((np.bincount(component)[component] > 1) | (waits.diagonal() > 0))
    return list(view.nodes)[cyclic[0]] if len(cyclic) else None


def _waits(view: GraphView) -> sparse.csr_matrix:
    """The number of edges from node j to node i, by their indices in the graph."""
    befores: List[str] = []
    counts: List[int] = []
    for name, node in view.nodes.items():
        inputs = [port.node for port in view.inputs(name)]
        if node.op in MERGES:
            inputs = [before for before in inputs if view.nodes[before].op not in NEXT_ITERATIONS]
        inputs += view.controls(name)
        befores += inputs
        counts.append(len(inputs))
    place = {name: index for index, name in enumerate(view.nodes)}
    rows = np.repeat(np.arange(len(place)), counts)
    columns = np.fromiter(map(place.__getitem__, befores), np.intp, len(befores))
    # A matrix made from pairs adds up repeated edges. Stored twice, they make scipy 1.7 and 1.17
    # return wrong components, or loop forever.
    return sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(place), len(place)))
