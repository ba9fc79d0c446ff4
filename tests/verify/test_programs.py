"""Programs that take gradients in functions and in loops are proved.

A flag that doesn't hold in all iterations is found.
"""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.verify import verify
from tests.support.programs import calls, loops, published
from tests.support.programs.registry import PROGRAMS
from tests.support.proved import of_program, open_claims

HOW = ["dynamic", 1024]
FLAG = "graphmp/loss_scale/in_loop/"


def of(*modules):
    """Names of the programs of some modules."""
    names = {module.__name__ for module in modules}
    return sorted(name for name, program in PROGRAMS.items() if program.build.__module__ in names)


def cases():
    """Programs with loops by a dynamic scale, and every eighth of the others, by default."""
    often = set(of(loops)) | set(of(calls, published)[::8])
    for place, name in enumerate(of(calls, loops, published)):
        for how in HOW:
            for use_resource in (False, True):
                marks = (
                    []
                    if name in often and how == HOW[0] and use_resource == bool(place % 2)
                    else pytest.mark.slow
                )
                yield pytest.param(
                    name, how, use_resource, marks=marks, id="%s-%s-%s" % (name, how, use_resource)
                )


@pytest.mark.parametrize("name, how, use_resource", cases())
def test_program(name, how, use_resource):
    assert not open_claims(*of_program(name, use_resource, how))


def test_a_loop_into_which_a_cast_is_brought():
    assert not open_claims(*of_program("maml_of_tasks", False, 1024))


@pytest.fixture(scope="module")
def looped():
    """Gradients of parts, added up in a loop."""
    return of_program("gradients_of_parts_added_in_a_loop", False, "dynamic")


def starts_as_false(nodes):
    nodes[FLAG + "Const"].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(False))


def forgets_an_iteration(nodes):
    nodes[FLAG + "next"].input[0] = FLAG + "all_finite"


def looks_at_nothing(nodes):
    nodes[FLAG + "next"].input[0] = FLAG + "before"


def any_iteration(nodes):
    nodes[FLAG + "after"].op = "LogicalOr"


def leaves_early(nodes):
    nodes[FLAG + "switch"].input[1] = FLAG + "merge"


def of_an_enter(nodes):
    """The flag is what it starts as."""
    nodes[FLAG + "merge"].input[1] = nodes[FLAG + "merge"].input[0]


@pytest.mark.parametrize(
    "fault",
    [
        starts_as_false,
        forgets_an_iteration,
        looks_at_nothing,
        any_iteration,
        leaves_early,
        of_an_enter,
    ],
)
def test_fault(looped, fault):
    original, proved = looped
    planted = tf.MetaGraphDef()
    planted.CopyFrom(proved)
    fault({node.name: node for node in planted.graph_def.node})
    assert planted != proved
    assert not verify(original, planted).ok
