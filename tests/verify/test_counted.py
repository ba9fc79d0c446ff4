"""`--count_skipped_steps` by the recipe: proved, and planted faults are found."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.verify import verify
from tests.support.proved import Planted, by_recipe, converted, open_claims

SKIP = "graphmp/loss_scale/skip/"
EXPECTED = {"loss_scale": "dynamic", "count_skipped_steps": True}
pytestmark = pytest.mark.unit


def model(decorate):
    """Momentum, a global step, and another count of the program's own."""

    @decorate
    def build(x, y):
        loss = tf.losses.mean_squared_error(y, tf.layers.dense(x, 1))
        tf.get_variable("other", (), tf.int64, tf.zeros_initializer(), trainable=False)
        return tf.train.MomentumOptimizer(0.1, 0.9).minimize(
            loss, tf.train.get_or_create_global_step(), name="train"
        )

    build(tf.placeholder(tf.float32, [4, 6], "x"), tf.placeholder(tf.float32, [4, 1], "y"))


@pytest.fixture(scope="module", params=[False, True], ids=["reference", "resource"])
def graphs(request):
    """The model and its conversion, with variables of both kinds."""
    had = tf.resource_variables_enabled()
    try:
        (tf.enable_resource_variables if request.param else tf.disable_resource_variables)()
        yield by_recipe(model, count_skipped_steps=True)
    finally:
        (tf.enable_resource_variables if had else tf.disable_resource_variables)()


def count(graph):
    return graph.nodes[graph.nodes[SKIP + "control_dependency_1"].input[1][1:]]


def by_two(graph):
    value = graph.nodes[count(graph).input[1]].attr["value"].tensor
    value.int64_val[:] = [2]


def in_another_variable(graph):
    graph.nodes[count(graph).input[0]].input[0] = "other"


def on_the_wrong_side(graph):
    count(graph).input[0] += ":1"


def on_both_sides(graph):
    count(graph).input[0] = "global_step"


def by_another_predicate(graph):
    graph.constant("graphmp/false", False)
    graph.nodes[count(graph).input[0]].input[1] = "graphmp/false"


def after_the_update(graph):
    """It never runs, and nothing behind it does."""
    count(graph).input.append("^train/update")


def not_waited_for(graph):
    graph.nodes[SKIP + "control_dependency_1"].input[1] = "^" + SKIP + "switch_f"


def twice(graph):
    """A second one stands beside the first."""
    for old, new in ((count(graph), "more"), (graph.nodes[SKIP + "control_dependency_1"], "off")):
        graph.add("graphmp/" + new, old.op, list(old.input), **dict(old.attr))
    graph.nodes["graphmp/off"].input[1] = "^graphmp/more"
    merge = graph.nodes[SKIP + "Merge"]
    graph.add("graphmp/both", "Merge", ["graphmp/off", merge.input[1]], **dict(merge.attr))
    graph.nodes["graphmp/loss_scale/apply_gradients"].input.append("^graphmp/both")


def subtracted(graph):
    count(graph).op = count(graph).op.replace("Add", "Sub")


def train_counts_in_another(graph):
    node = graph.nodes["train"]
    graph.nodes[node.input[0].split(":")[0]].input[0] = "other"


FAULTS = [
    by_two,
    in_another_variable,
    on_the_wrong_side,
    on_both_sides,
    by_another_predicate,
    after_the_update,
    not_waited_for,
    twice,
    subtracted,
    train_counts_in_another,
]


def test_unspoilt(graphs):
    original, other = graphs
    proof = verify(original, other, EXPECTED)
    assert proof.ok and proof.parameters["count_skipped_steps"] is True


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault(graphs, fault):
    """A fault is found."""
    original, other = graphs
    graph = Planted(other)
    fault(graph)
    assert graph.meta_graph != other
    assert not verify(original, graph.meta_graph, EXPECTED).ok


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("engine", ["recipe", "rewrite"])
def test_what_was_asked_for(engine, counts):
    """A conversion that counts otherwise than asked for is not proved."""
    original, other = by_recipe(model, count_skipped_steps=counts)
    if engine == "rewrite":
        other = converted(original, count_skipped_steps=counts)
    assert not open_claims(original, other, {"count_skipped_steps": counts})
    assert set(open_claims(original, other, {"count_skipped_steps": not counts})) == {"parameters"}
