"""A converted step does the same in each order of ops that it leaves open."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.delays import MANY_AT_A_TIME, delay
from tests.support.programs import chains, models, optimizers, several, state
from tests.support.programs.registry import PROGRAMS, STEPS, built
from tests.support.programs.running import converted, copies, feed_of, spoiled, states
from tests.support.training import imported, initialise
from tests.support.training import state as variables

assert chains and models and optimizers and several and state  # they register their programs

QUICK = ("plain-reference", "averages_of_weights-resource", "two_losses_one_apply-reference")
REFUSES_INFINITIES = {"gradients_solved"}  # MatrixSolve raises an error
SEEDS = (0, 1, 2, 3)  # 0: nothing is delayed


def cases():
    """All programs with both kinds of variables; all but the quick ones with --slow alone."""
    for name in (each for each in PROGRAMS if each not in REFUSES_INFINITIES):
        for kind in ("reference", "resource"):
            case = "%s-%s" % (name, kind)
            slow = [] if case in QUICK else [pytest.mark.slow]
            yield pytest.param(name, kind == "resource", id=case, marks=slow)


def trained(name, use_resource, conversion, seed):
    """All variables after each step: good ones, one with all gradients infinite, a good one."""
    with tf.Graph().as_default() as graph:
        imported(conversion.meta_graph)
        spoilt = spoiled(graph, built(name, use_resource), conversion)
        if seed:
            delay(conversion.meta_graph, seed)
        with tf.Session(graph=graph, config=MANY_AT_A_TIME) as session:
            initialise(session, "init", copies(states(name, use_resource)[0]))
            found = []
            for number in range(STEPS + 2):
                factor = np.inf if number == STEPS else 1.0
                feed = dict(feed_of(graph, number % STEPS), **{s.factor: factor for s in spoilt})
                for train in PROGRAMS[name].train:
                    session.run(train, feed)
                found.append(copies(variables(session)))
            return found


@pytest.mark.parametrize("name, use_resource", cases())
def test_steps_are_the_same_whatever_is_late(name, use_resource):
    conversion = converted(name, use_resource, "float16", "dynamic")
    expected, *others = (trained(name, use_resource, conversion, seed) for seed in SEEDS)
    assert any(
        value.tobytes() != expected[0][variable].tobytes()
        for variable, value in expected[-1].items()
    )
    for found in others:
        for before, after in zip(expected, found):
            differ = [n for n in before if before[n].tobytes() != after[n].tobytes()]
            assert not differ


def test_a_race_is_found():
    """Two writes of a variable, of which the second usually waits for more."""
    found = set()
    for seed in range(8):
        with tf.Graph().as_default() as graph:
            weight = tf.Variable(1.0)
            tf.group(tf.assign(weight, weight * 2.0), tf.assign_add(weight, 3.0), name="train")
            if seed:
                delay(tf.train.export_meta_graph(), seed)
            with tf.Session(graph=graph, config=MANY_AT_A_TIME) as session:
                session.run(tf.global_variables_initializer())
                session.run("train")
                found.add(float(session.run(weight)))
    assert len(found) > 1
