"""Half precision that computes nothing: casts down, moves and casts up again.

The cut may place them where a Transpose or many slices move fewer bytes so. The casts round the
value for it, and no op gains by them: such moves stay float32. In gradient code they stay as the
cut has placed them.
"""

from __future__ import annotations

import collections
from typing import Dict, Iterable, List, Set

from graphmp.graph.structure.walk import reached
from graphmp.policy.traits import KEEPS_VALUES
from graphmp.rewrite.units import TypedGraph


def only_moved(graph: TypedGraph, half: Iterable[int]) -> Set[int]:
    """The units in half precision that hand a cast's value on to float32 ops alone.

    Args:
        graph: a graph body.
        half: its units in half precision.
    """
    half = set(half)
    moves = {number for number in half if _moves(graph, number)}
    readers: Dict[int, List[int]] = collections.defaultdict(list)
    read: Dict[int, List[int]] = collections.defaultdict(list)
    cast: Set[int] = set()  # those that read a float32 tensor
    for port, producer, consumers in graph.float32_tensors():
        for reader in {graph.reader(consumer) for consumer in consumers} & half:
            if producer in half:
                readers[producer].append(reader)
                read[reader].append(producer)
            elif graph.view.nodes[port.node].op != "Const":
                cast.add(reader)
    of_use = reached(half - moves, lambda number: moves.intersection(read[number]))
    return reached((cast & moves) - of_use, lambda number: moves.intersection(readers[number]))


def _moves(graph: TypedGraph, number: int) -> bool:
    name = graph.units[number].node
    return graph.view.nodes[name].op in KEEPS_VALUES and name not in graph.gradients
