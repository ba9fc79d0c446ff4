"""Ops for which half precision has too few digits: the range guard's other rules.

1. Positions (`positions.py`).
2. Products by constants near 1, and sums over a loop (`repeated.py`).
3. Small differences of large terms (`differences.py`).
4. Products whose rounding a sine or a matrix's inverse magnifies, or whose range a logarithm needs
   (`magnified.py`).
5. Products of a tensor with its transpose (`squares.py`).
"""

from __future__ import annotations

import itertools
from typing import Dict

from graphmp.policy.formats import FORMATS
from graphmp.policy.policy import Policy
from graphmp.policy.reason import Reason
from graphmp.rewrite.range_guard.differences import differences
from graphmp.rewrite.range_guard.magnified import magnified
from graphmp.rewrite.range_guard.positions import positions
from graphmp.rewrite.range_guard.repeated import repeated
from graphmp.rewrite.range_guard.squares import sums_of_squares
from graphmp.rewrite.units import TypedGraph


def precise(graph: TypedGraph, policy: Policy, compute_dtype: str) -> Dict[int, Reason]:
    """Units that need more digits than a half precision has, with reasons.

    What isn't behind a matmul or convolution reads no half precision, and is left alone; so are
    values of gradient code that nothing uses.
    """
    found: Dict[int, Reason] = {}
    if compute_dtype not in FORMATS:
        return found
    products = [name for name, node in graph.view.nodes.items() if node.op in policy.allow]
    computed = graph.view.descendants(products, control=False) - graph.unread
    rules = (
        positions(graph, policy, computed),
        repeated(graph, policy, computed, compute_dtype),
        differences(graph, policy, computed),
        magnified(graph, policy, graph.trainable).items(),
        sums_of_squares(graph, policy).items(),
    )
    for unit, reason in itertools.chain(*rules):
        if unit >= 0:
            found.setdefault(unit, reason)
    return found
