"""Steps are computed again while loss scales fall."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.audit.measure.rows import WEIGHT_GRADIENT
from graphmp.audit.options import AuditOptions
from graphmp.audit.pair.paired import PairedGraph
from graphmp.audit.pair.stepping import PairedStep, Stepper
from graphmp.audit.run import batches_for


class Scripted(Stepper):
    """A stepper whose steps are given."""

    def __init__(self, steps):
        self.adapts = ["adapt"]
        self.compared = 0
        self._steps = iter(steps)

    def compare(self, feeds, measured):
        self.compared += 1
        return next(self._steps)


def step(*losses):
    """A step of losses, each with its scale and whether it is finite."""
    return PairedStep([], [], [finite for _, finite in losses], [scale for scale, _ in losses])


@pytest.mark.unit
def test_scales_fall_until_all_is_finite():
    stepper = Scripted(step((scale, scale <= 4)) for scale in (32, 16, 8, 4, 2))
    assert stepper.settled({}, False).scales == [4] and stepper.compared == 4


@pytest.mark.unit
@pytest.mark.parametrize(
    "other",
    [
        lambda: ((2.0**n, True) for n in itertools.count()),
        lambda: ((scale, scale == 8) for scale in itertools.cycle([16, 8])),
    ],
    ids=["grows", "grows and falls"],
)
def test_a_loss_that_is_never_finite_ends_it_whatever_another_one_does(other):
    never = ((max(1, 8 >> n), False) for n in itertools.count())
    stepper = Scripted(step(*both) for both in zip(never, other()))
    assert not all(stepper.settled({}, False).finite)
    assert stepper.compared < 10


def test_trial_runs_train_nothing():
    """What an update of a sparse Adam reads was written before it: a trial run writes it too."""
    with tf.Graph().as_default() as graph:
        x = tf.nn.embedding_lookup(tf.get_variable("e", [9, 8]), tf.placeholder(tf.int32, [4]))
        loss = tf.nn.l2_loss(tf.matmul(x, tf.get_variable("w", [8, 8])))
        tf.train.AdamOptimizer(0.1).minimize(loss)
        conversion = graphmp.convert(graph)
    with Stepper(PairedGraph(conversion, False, (WEIGHT_GRADIENT,))) as stepper:
        names = [variable.name for variable in stepper.graph.get_collection("variables")]
        stepper.begin("")
        before = stepper.session.run(names)
        batches_for(stepper, conversion.original, AuditOptions(steps=1))
        after = stepper.session.run(names)
    assert all(np.array_equal(*values) for values in zip(before, after))
