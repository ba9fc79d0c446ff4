"""Arcs of the minimum cut.

Writes, casts shared by several consumers, tensors sent, inputs of all-reduces.
"""

from __future__ import annotations

import numpy as np
import pytest

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite import pipeline
from graphmp.rewrite.painting.paint import FREE, HALF, Paint
from graphmp.rewrite.placement import placement
from graphmp.rewrite.placement.placement import SINK, SOURCE
from tests.support import painting
from tests.support.placed import INFINITE

pytestmark = pytest.mark.unit


def halves(*lines, joined=(), idle=(), **constants):
    """Nodes that become half.

    Those in `joined` lie between gradient code and an all-reduce, no step runs those in `idle`.
    """
    meta_graph = painting.graph(*lines, **constants)
    graph, groups, wanted, *_ = pipeline.decide(
        meta_graph, Config.make(), Policy.default("float16")
    )[""]
    graph.joined, graph.idle = frozenset(joined), frozenset(idle)
    placed = placement.place(graph, groups, wanted, "float16")
    return {unit.node for unit, p in zip(graph.units, placed) if p.colour == HALF}


@pytest.mark.parametrize("others", [0, 1, 2])
def test_readers_that_share_a_cast_may_differ(others):
    """One leads to a matmul; casting the other's result would cost more.

    Other nodes change nothing.
    """
    lines = [
        "x Placeholder shape=[4,4]",
        "m MatMul x x",
        "p Abs m",
        "small Neg p",
        "end MatMul small small",
    ]
    lines += [
        "times Const",
        "large Tile p times",
        "s Lgamma large",
        *["o%d Abs x" % number for number in range(others)],
    ]
    assert halves(*lines, times=np.array([9, 9], np.int32)) == {"m", "p", "small", "end"}


@pytest.mark.parametrize("kept, half", [(400, True), (500, False)])
def test_what_a_float32_node_writes_counts(kept, half):
    """Of 1,000,000 numbers that are cast anyway: it reads 2 MB more, writes 2 bytes a number.

    Its cast takes 6, and a launch.
    """
    lines = [
        "x Placeholder shape=[100000,10]",
        "w Const",
        "m MatMul x w",
        "s Lgamma m",
        "first Const",
        "size Const",
    ]
    lines += ["part Slice m first size", "e Lgamma part"]
    found = halves(*lines, w=np.eye(10), first=np.int32([0, 0]), size=np.int32([kept * 100, 10]))
    assert ("part" in found) == half and "m" in found


def test_what_only_hands_a_tensor_on_costs_nothing_in_float32():
    lines = ["x Placeholder shape=[10,10]", "k0 Lgamma x"]
    lines += ["k%d Identity k%d" % (number + 1, number) for number in range(5)]
    assert halves(*lines, "e Lgamma k5", "m MatMul k5 x") == {"m"}


def test_what_no_step_runs_reads_float32_at_no_cost():
    lines = ["x Placeholder shape=[10,10]", "s Lgamma x", "k Abs s"]
    lines += ["e Lgamma k", "m MatMul k x"]
    assert halves(*lines, idle=("k", "e", "m")) == {"m"}


@pytest.mark.parametrize("joined, half", [((), True), (("k",), False)])
def test_what_hands_float32_gradients_to_an_all_reduce_gets_no_cast_for_it(joined, half):
    found = halves(
        "x Placeholder shape=[4,4]", "s Lgamma x", "k Abs s", "m MatMul k k", joined=joined
    )
    assert found == ({"k", "m"} if half else {"m"})


@pytest.mark.parametrize("joined", [(), ("k",)])
def test_what_hands_half_gradients_to_an_all_reduce_is_half(joined):
    found = halves(
        "x Placeholder shape=[4,4]", "m MatMul x x", "k Abs m", "e MatMul k k", joined=joined
    )
    assert found == {"m", "k", "e"}


@pytest.mark.parametrize(
    "producer, readers, arcs",
    [
        (2, {SINK}, [(SOURCE, 2, 8.0)]),
        (2, {SINK, 3}, [(SOURCE, 2, 8.0)]),
        (2, {3}, [(SOURCE, 2, 4.0), (SOURCE, 3, 4.0)]),  # both ends are free: each bears half
        (2, {SOURCE, 3}, [(SOURCE, 2, 4.0), (SOURCE, 3, 4.0)]),
        (SINK, {3}, [(SOURCE, 3, 8.0)]),
        (
            SINK,
            {3, 4},
            [(SOURCE, 9, 8.0), (9, 3, INFINITE), (9, 4, INFINITE)],
        ),  # sent once for both
        (SINK, {SINK}, []),  # no choice
        (SOURCE, {3}, []),
        (2, {SOURCE}, []),
    ],
)
def test_what_is_sent_costs_where_both_ends_are_float32(producer, readers, arcs):
    assert list(placement._sent(producer, readers, 8.0, 9)) == arcs


def test_a_free_unit_is_no_terminal():
    meta_graph = painting.graph("x Placeholder shape=[4,4]", "m MatMul x x", "k Abs m")
    graph, groups, painted, *_ = pipeline.decide(
        meta_graph, Config.make(), Policy.default("float16")
    )[""]
    free = [Paint(FREE, each.reason) for each in painted]
    found = [placement.vertex_of(groups, free, unit) for unit in range(len(graph.units))]
    assert sorted(set(found)) == list(range(SINK + 1, SINK + 1 + len(groups.members)))
