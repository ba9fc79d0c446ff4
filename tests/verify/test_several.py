"""Programs with several losses are proved, whose gradient code reads gradients of each other.

The proof shares no code with the conversion: one that lets a loss read gradients which are still
multiplied by another's scale, or twice by its own, is not proved.
"""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from tests.support.programs import several
from tests.support.programs.registry import NORM, PROGRAMS
from tests.support.proved import Planted, of_program, open_claims, original_and_converted

SCALES = ("graphmp/loss_scale/", "graphmp/loss_scale_1/")

HOW: dict = {"dynamic": ("dynamic",), "fixed": (1024,), "clipped": ("dynamic", NORM)}


def cases():
    """By default each program by a dynamic scale, every second one clipped, with kinds by turns."""
    names = sorted(n for n, p in PROGRAMS.items() if p.build.__module__ == several.__name__)
    for place, name in enumerate(names):
        for how in HOW:
            for use_resource in (False, True):
                by_default = how == "dynamic" or (how == "clipped" and place // 2 % 2 == 0)
                yield pytest.param(
                    name,
                    how,
                    use_resource,
                    marks=[]
                    if by_default and use_resource == bool(place % 2)
                    else pytest.mark.slow,
                    id="%s-%s-%s" % (name, how, use_resource),
                )


@pytest.mark.parametrize("name, how, use_resource", cases())
def test_program(name, how, use_resource):
    assert not open_claims(*of_program(name, use_resource, *HOW[how]))


@pytest.fixture(scope="module")
def adversaries():
    """Two steps that are run in turn, each with a scale of its own."""
    return of_program("adversaries_in_turn", True, "dynamic")


@pytest.mark.unit
@pytest.mark.parametrize("other", [0, 1])
def test_a_flag_that_looks_at_gradients_of_another_step(adversaries, other):
    """What overflows in one step doesn't skip the other."""
    original, right = adversaries
    planted = Planted(right)
    of, added = SCALES[1 - other], SCALES[other]
    row = planted.nodes[added + "Sum"].input[0]
    for name, inputs in (
        ("IsFinite", [row, planted.nodes[of + "IsFinite"].input[1]]),
        ("All", ["graphmp/IsFinite", of + "first"]),
        ("Sum", [row, of + "first"]),
    ):
        planted.add("graphmp/" + name, name, inputs, **planted.nodes[of + name].attr)
    for name, more in (("AddN", "Sum"), ("stack", "All")):
        planted.nodes[of + name].input.append("graphmp/" + more)
        planted.nodes[of + name].attr["N"].i += 1
    text = open_claims(original, planted.meta_graph)["steps are skipped whole"]
    assert "is no gradient of its loss, and decides on whether a step is skipped" in text


@pytest.mark.unit
@pytest.mark.parametrize("other", [0, 1])
def test_writes_that_go_by_the_flag_of_another_step_too(adversaries, other):
    original, right = adversaries
    planted = Planted(right)
    own, more = (SCALES[place] + "finite" for place in (1 - other, other))
    planted.replace(own, "graphmp/both")
    planted.add("graphmp/both", "LogicalAnd", [own, more])
    text = open_claims(original, planted.meta_graph)["steps are skipped whole"]
    assert "goes by the flag of a step that it is no part of" in text


def two_towers():
    """The gradients of two losses, taken apart, are averaged."""
    weights = tf.get_variable("weights", [8, 8])
    gradients = [
        tf.gradients(tf.nn.l2_loss(tf.matmul(tf.placeholder(tf.float32, [4, 8]), weights)), weights)
        for _ in range(2)
    ]
    average = tf.add_n([one for (one,) in gradients]) / 2.0
    tf.train.GradientDescentOptimizer(0.1).apply_gradients([(average, weights)], name="train")


@pytest.mark.unit
def test_a_loss_that_no_scale_multiplies_beside_another():
    """What vanishes or overflows in half precision goes into the average all the same."""
    original, right = original_and_converted(two_towers, loss_scale=128.0)
    assert not open_claims(original, right)
    planted = Planted(right)
    for name in ("scaled_seed_1", "unscale_1"):
        planted.replace(SCALES[0] + name, planted.nodes[SCALES[0] + name].input[0])
    nodes = planted.meta_graph.graph_def.node
    kept = [node for node in nodes if not node.name.endswith(("/scaled_seed_1", "/unscale_1"))]
    del nodes[:]
    nodes.extend(kept)
    text = open_claims(original, planted.meta_graph)["scale cancels"]
    assert "takes a gradient in half precision that no loss scale multiplies" in text
