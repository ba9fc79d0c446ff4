"""Sums of gradients in variables, applied by the recipe: proved, and planted faults are found."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.verify import verify
from tests.support.proved import Planted, by_recipe, open_claims

SCALE = "graphmp/loss_scale/"
EXPECTED = {"loss_scale": "dynamic", "clip_norm": 0.0}
pytestmark = pytest.mark.unit


def sums_of_gradients(optimizer, loss):
    """Variables with sums of gradients, the op that adds, and pairs for the optimizer."""
    pairs = optimizer.compute_gradients(loss)
    sums = [
        tf.get_variable(
            "sum_%d" % place, v.shape, initializer=tf.zeros_initializer(), trainable=False
        )
        for place, (_, v) in enumerate(pairs)
    ]
    added = [each.assign_add(g) for each, (g, _) in zip(sums, pairs)]
    return sums, tf.group(*added, name="add"), [(s / 4.0, v) for s, (_, v) in zip(sums, pairs)]


def loss_of(x, y):
    return tf.losses.mean_squared_error(y, tf.layers.dense(tf.layers.dense(x, 8, tf.nn.relu), 1))


def placeholders():
    return tf.placeholder(tf.float32, [4, 6], "x"), tf.placeholder(tf.float32, [4, 1], "y")


def in_runs_of_their_own(decorate):
    """Some runs add up; one applies the sums and sets them to zero."""

    @decorate
    def build(x, y):
        optimizer = tf.train.AdamOptimizer(0.01)
        sums, _, pairs = sums_of_gradients(optimizer, loss_of(x, y))
        train = optimizer.apply_gradients(pairs, tf.train.get_or_create_global_step(), name="train")
        with tf.control_dependencies([train]):
            tf.group(*[each.assign(tf.zeros_like(each)) for each in sums], name="zero")

    build(*placeholders())


def in_one_run(decorate):
    """Each run adds up and applies what there is."""

    @decorate
    def build(x, y):
        optimizer = tf.train.AdamOptimizer(0.01)
        sums, added, _ = sums_of_gradients(optimizer, loss_of(x, y))
        with tf.control_dependencies([added]):
            optimizer.apply_gradients(
                [(tf.identity(s), v) for s, v in zip(sums, tf.trainable_variables())], name="train"
            )

    build(*placeholders())


BUILDS = {each.__name__: each for each in (in_runs_of_their_own, in_one_run)}


@pytest.fixture(scope="module", params=[False, True], ids=["references", "resources"])
def graphs(request):
    """The originals and conversions, with variables of both kinds."""
    had = tf.resource_variables_enabled()
    try:
        (tf.enable_resource_variables if request.param else tf.disable_resource_variables)()
        yield {name: by_recipe(build) for name, build in BUILDS.items()}
    finally:
        (tf.enable_resource_variables if had else tf.disable_resource_variables)()


def kernel(graph):
    return next(n for n in graph.nodes.values() if n.op.endswith("ApplyAdam"))


def past_its_switches(graph, node):
    for place, text in enumerate(node.input):
        name = text.split(":")[0]
        if graph.nodes[name].op in ("Switch", "RefSwitch"):
            node.input[place] = graph.nodes[name].input[0]


def update_that_lives(graph):
    past_its_switches(graph, kernel(graph))


def powers_that_live(graph):
    node = graph.nodes.get("train/Assign") or graph.nodes["train/AssignVariableOp"]
    past_its_switches(graph, node)


def powers_of_another_step(graph):
    """An optimizer's power goes by the gradients of this run, its updates by the sums."""
    node = graph.nodes.get("train/Assign") or graph.nodes["train/AssignVariableOp"]
    for text in node.input[:2]:
        switch = graph.nodes[text.split(":")[0]]
        if switch.op in ("Switch", "RefSwitch"):
            switch.input[1] = SCALE + "all_finite"


def looks_at(graph, other):
    """The flag of the sums looks at another output in place of the sum that an update takes."""
    switch = [graph.nodes[text.split(":")[0]] for text in kernel(graph).input][-1]
    tests = [
        node
        for node in graph.nodes.values()
        if node.op == "Reshape" and node.name.startswith(SCALE) and node.input[0] == switch.input[0]
    ]
    assert tests
    for node in tests:
        node.input[0] = other


def sum_left_out_of_its_flag(graph):
    looks_at(graph, "sum_1/read" if "sum_1/read" in graph.nodes else "sum_1/Read/ReadVariableOp")


def flag_looks_at_a_batch(graph):
    looks_at(graph, "y")


def always_applied(graph):
    graph.constant("graphmp/true", True)
    graph.replace(SCALE + "skip/pred_id", "graphmp/true")


def gates_of_sums(graph):
    """The Merges of what sums take, each with the Switch of its value."""
    return [
        (node, graph.nodes[node.input[1].split(":")[0]])
        for node in graph.nodes.values()
        if node.name.startswith("graphmp/accumulators/selected")
    ]


def sum_past_its_gate(graph):
    gate, switch = gates_of_sums(graph)[0]
    graph.replace(gate.name, switch.input[0])


def sum_gated_the_other_way(graph):
    gate, switch = gates_of_sums(graph)[0]
    zeros = next(node for node in graph.nodes.values() if list(node.input) == [switch.name])
    zeros.input[0], gate.input[1] = switch.name + ":1", switch.name


def sums_exchanged(graph):
    (_, one), (_, other) = gates_of_sums(graph)[:2]
    one.input[0], other.input[0] = other.input[0], one.input[0]


def sum_keeps_more(graph):
    gate, switch = gates_of_sums(graph)[0]
    gate.input[0] = switch.name


def sum_does_not_wait_for_the_scale(graph):
    node = next(n for n in graph.nodes.values() if n.name in ("AssignAdd", "AssignAddVariableOp"))
    node.input.remove("^%supdate/step" % SCALE)
    graph.nodes[SCALE + "update/step"].input.pop()


def zeroed_by_what_is_not_zero(graph):
    node = graph.nodes.get("Assign") or graph.nodes["AssignVariableOp"]
    old, new = (graph.nodes[text.split(":")[0]] for text in graph.nodes[node.input[1]].input)
    new.input[0] = old.input[0]


FAULTS = [
    update_that_lives,
    powers_that_live,
    powers_of_another_step,
    sum_left_out_of_its_flag,
    flag_looks_at_a_batch,
    always_applied,
    sum_past_its_gate,
    sum_gated_the_other_way,
    sums_exchanged,
    sum_keeps_more,
    sum_does_not_wait_for_the_scale,
]
OF_ONE = [("in_runs_of_their_own", zeroed_by_what_is_not_zero)]


def sums_alone(graph):
    """Gradients that were not added up because they are infinite are not looked at."""
    flag = graph.nodes[graph.nodes[SCALE + "skip/pred_id"].input[0]]
    stack = graph.nodes[flag.input[0]]
    graph.replace(flag.name, stack.input[0])


OF_ONE.append(("in_one_run", sums_alone))


@pytest.mark.parametrize("name", sorted(BUILDS))
def test_unspoilt(graphs, name):
    assert not open_claims(*graphs[name], EXPECTED)


@pytest.mark.parametrize(
    "name, fault",
    [(name, fault) for fault in FAULTS for name in sorted(BUILDS)] + OF_ONE,
    ids=lambda value: getattr(value, "__name__", value),
)
def test_fault(graphs, name, fault):
    """A fault is found."""
    original, converted = graphs[name]
    graph = Planted(converted)
    fault(graph)
    assert graph.meta_graph != converted
    assert not verify(original, graph.meta_graph, EXPECTED).ok


def test_names_of_the_program_stay(graphs):
    """What is put in takes no name that the program's own nodes have in the original."""
    for original, converted in graphs.values():
        own = {node.name for node in converted.graph_def.node if "graphmp" not in node.name}
        had = {node.name for node in original.graph_def.node}
        assert {n for n in had - own if "/Read" not in n and not n.startswith("gradients")} == set()
