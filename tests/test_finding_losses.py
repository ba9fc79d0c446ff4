"""The losses of training graphs: gradient scopes, seeds, gradients, updates, as they were written down by hand."""

from __future__ import annotations

import collections

import pytest

from graphmp.config import Config
from graphmp.rewrite.op_defs import OpDefs
from graphmp.rewrite.scaling.built import Built
from graphmp.rewrite.scaling.losses import find_losses
from tests.painting import built
from tests.training_graphs import SHAPES, Expected


def found(meta_graph, **options):
    """The losses of a graph in the form they were written down in."""
    config = Config.make(**options)
    graph = Built(meta_graph, config, OpDefs(meta_graph))
    return [
        Expected(
            sorted(scope.scope for scope in loss.scopes),
            len(loss.gradients),
            dict(collections.Counter(graph.view.nodes[name].op for name in loss.updates)),
            sorted(name for scope in loss.scopes for name in scope.losses),
        )
        for loss in find_losses(graph, config)
    ]


def in_order(losses):
    return sorted(losses, key=lambda loss: loss.scopes)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_shape(name):
    assert in_order(found(built(SHAPES[name].build))) == in_order(SHAPES[name].losses)
