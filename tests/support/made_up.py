"""Batches made up for graphs of tests."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from graphmp.feeds.attempts import first_that_runs, random_attempts
from graphmp.feeds.batches import random_batches
from graphmp.graph.structure.view import GraphView

BATCH = 4


def view_of(graph):
    return GraphView(graph.as_graph_def(add_shapes=True))


def names(tensors):
    return [tensor.op.name for tensor in tensors]


def made_up(graph, *targets, seed=0, step=0, guess=None):
    return random_batches(graph, view_of(graph), names(targets), BATCH, seed, guess)(step)


def runs(graph, *targets):
    """A batch with which the targets run, after some guesses if need be."""
    with tf.Session(graph=graph) as session:
        session.run(
            [
                op
                for op in graph.get_operations()
                if op.type == "Assign" or op.type == "AssignVariableOp"
            ]
        )
        batches = first_that_runs(
            session, list(targets), random_attempts(graph, view_of(graph), names(targets), BATCH, 0)
        )
        session.run(list(targets), batches(1))
        return batches(0)


def variable(shape, name="v"):
    return tf.get_variable(name, shape, use_resource=False)
