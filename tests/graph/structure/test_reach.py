"""Which of several nodes each node depends on."""

from __future__ import annotations

import random

import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.reach import sources_of
from graphmp.graph.structure.view import GraphView


def drawn(seed, nodes=30):
    """A random graph with data and control edges; some seeds close cycles through loops."""
    rng = random.Random(seed)
    graph_def = tf.GraphDef()
    for number in range(nodes):
        node = graph_def.node.add(name="n%d" % number, op="NoOp")
        for _ in range(rng.randrange(3)):
            before = rng.randrange(nodes if rng.random() < 0.1 else number + 1)
            if before != number:
                node.input.append("^n%d" % before if rng.random() < 0.5 else "n%d" % before)
        node.input.sort(key=lambda text: text.startswith("^"))
    return GraphView(graph_def)


@pytest.mark.parametrize("seed", range(20))
def test_each_node_has_the_bits_of_the_sources_before_it(seed):
    view = drawn(seed)
    sources = random.Random(seed).sample(sorted(view.nodes), 7)
    bits = sources_of(view, sources)
    for place, source in enumerate(sources):
        after = {name for name, found in bits.items() if found >> place & 1}
        assert after == view.descendants([source])


def test_without_sources_there_are_no_bits():
    assert not sources_of(drawn(0), [])
