"""Steps and gradients in functions, loops and branches are proved.

Faults planted there are found.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.edit.mark import COLLECTION
from graphmp.graph.structure.calls import functions_by_name, functions_named
from graphmp.policy.dtypes import BOOL, FLOAT32
from graphmp.verify import verify
from tests.support import hostile_graphs as hostile
from tests.support.proved import converted, open_claims, original_and_converted
from tests.support.training_inside import GRADIENTS, INSIDE, STEPS, built
from tests.support.turns import in_turn

HOW = {
    "dynamic": {},
    "clip": {"clip_norm": 1.0},
    "fixed": {"loss_scale": 128.0},
    "late": {"loss_scale_initial": 64.0},
    "none": {"loss_scale": "none"},
}
# Gradients of a function that a function calls are not clipped: GMP103 says so, and so does the proof.
UNCLIPPED = ("step_of_another_functions_gradients", "clip")
HANDLES = ["graphmp_loss_scale_" + name for name in ("good_steps", "scale", "skipped_steps")]


@pytest.mark.parametrize("name, how", in_turn(sorted(INSIDE), sorted(HOW)))
def test_proved(name, how):
    """All of a right conversion is proved, with what it was asked for."""
    original = built(name)
    proof = verify(original, converted(original, **HOW[how]))
    found = [claim.name for claim in proof.claims if claim.verdict in ("failed", "not proved")]
    assert found == (["parameters"] if (name, how) == UNCLIPPED else [])
    wanted = HOW[how].get("loss_scale", "dynamic")
    assert proof.parameters["loss_scale"] == (wanted if isinstance(wanted, str) else "%g" % wanted)


class Body:
    """The main graph or a function of a planted graph, in which nodes are found by the ends of
    their names.
    """

    def __init__(self, nodes, function=None):
        self.list, self.function = nodes, function
        self.nodes = {node.name: node for node in nodes}

    def find(self, end):
        """The first node whose name ends so."""
        return next(
            node
            for name, node in self.nodes.items()
            if name.startswith("graphmp/") and name.endswith(end)
        )

    def has(self, end):
        return any(name.startswith("graphmp/") and name.endswith(end) for name in self.nodes)

    def constant(self, name, value):
        """Adds a constant; its name as an input."""
        node = self.list.add(name=name, op="Const")
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        node.attr["dtype"].type = node.attr["value"].tensor.dtype
        return name if self.function is None else name + ":output:0"


class Planted:
    """A copy of a conversion, to be spoilt."""

    def __init__(self, meta_graph):
        self.meta_graph = tf.MetaGraphDef()
        self.meta_graph.CopyFrom(meta_graph)
        graph = self.meta_graph.graph_def
        self.functions = {function.signature.name: function for function in graph.library.function}
        self.bodies = [
            Body(graph.node),
            *(Body(function.node_def, function) for function in graph.library.function),
        ]

    def where(self, end):
        """The body that has a node whose name ends so, a function before the main graph."""
        return next(body for body in self.bodies[::-1] if body.has(end))

    def call(self, argument):
        """A call in the main graph of a function that takes an argument, and the place of that
        among its inputs.
        """
        for node in self.bodies[0].list:
            for name in functions_named(node):
                names = (
                    [each.name for each in self.functions[name].signature.input_arg]
                    if name in self.functions
                    else []
                )
                if argument in names:
                    return node, names.index(argument) + len(node.input) - len(names)
        raise AssertionError(argument)

    def flagged(self):
        """The function that takes gradients and returns a flag."""
        return next(
            body
            for body in self.bodies
            if body.function is not None
            and "graphmp_finite" in body.function.ret
            and body.has("/unscale")
        )


def divided_by_one(graph):
    body = graph.where("/unscale")
    body.find("/unscale").input[1] = body.constant("graphmp/one", 1.0)


def divided_by_another_scale(graph):
    body = graph.where("/unscale")
    body.find("/unscale").input[1] = body.constant("graphmp/other", 1024.0)


def not_scaled(graph):
    body = graph.where("/scaled_seed")
    seed = body.find("/scaled_seed")
    for node in body.list:
        node.input[:] = [
            seed.input[0] if text.split(":")[0] == seed.name else text for text in node.input
        ]


def unchecked_gradient(graph):
    body = graph.where("/unscale")
    body.find("/IsFinite_1").input[0] = body.find("/IsFinite").input[0]


def any_finite(graph):
    graph.where("/unscale").find("/all_finite").op = "Any"


def checks_half(graph):
    body = graph.where("/unscale")
    stack = body.find("/stack")
    stack.input[1] = stack.input[0]


def gate_of(body):
    """What a write takes, the Switch of its new value, and its neutral value."""
    gate = body.find("/selected")
    neutral, switch = (body.nodes[text.split(":")[0]] for text in gate.input)
    return gate, switch, neutral


def gate_turned(graph):
    gate, _, neutral = gate_of(graph.where("/selected"))
    neutral.input[0], gate.input[1] = gate.input[1], neutral.input[0]


def gate_always_open(graph):
    body = graph.where("/selected")
    _, switch, _ = gate_of(body)
    switch.input[1] = body.constant("graphmp/always", True)


def no_gate(graph):
    body = graph.where("/selected")
    gate, switch, _ = gate_of(body)
    for node in body.list:
        node.input[:] = [
            switch.input[0] if text.split(":")[0] == gate.name else text for text in node.input
        ]


def state_stays(graph):
    body = graph.where("update/new_scale")
    node = body.find("update/new_scale")
    node.input[1] = body.find("/current").name + (":z:0" if body.function else "")


def state_is_not_written(graph):
    body = graph.where("update/new_scale")
    step = body.find("update/step")
    step.input.remove("^" + body.find("update/new_scale").name)


def flag_does_not_wait(graph):
    node = graph.where("loss_scale/finite").find("loss_scale/finite")
    node.input[:] = [text for text in node.input if not text.startswith("^")]


def backs_off_upwards(graph):
    constant = graph.where("update/mul_1/y").find("update/mul_1/y")
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.float32(2.0)))


def starts_elsewhere(graph):
    constant = graph.bodies[0].find("scale/Initializer/initial_value")
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.float32(4.0)))


def wrong_handle(graph):
    node, place = graph.call(HANDLES[1])
    node.input[place] = "net/v"


def handles_exchanged(graph):
    node, place = graph.call(HANDLES[0])
    node.input[place], node.input[place + 2] = node.input[place + 2], node.input[place]


def one_handle_twice(graph):
    node, place = graph.call(HANDLES[0])
    node.input[place] = node.input[place + 2]


def another_variable_by_name(graph):
    graph.where("scale/handle/of").find("scale/handle/of").attr["shared_name"].s = b"net/v"


def reads_too_early(graph):
    """The scale is read before the iteration before has adapted it."""
    body = graph.where("scale/handle/of")
    nodes = {node.name: node for node in body.list}
    other = next(name for name, node in nodes.items() if node.op == "Enter" and "MatMul" in name)
    for end in ("scale", "good_steps", "skipped_steps"):
        handle = body.find(end + "/handle/of")
        handle.input[:] = ["^" + other]


def another_scale_given(graph):
    node, place = graph.call("graphmp_loss_scale")
    node.input[place] = graph.bodies[0].constant("graphmp/given", np.float32(16.0))


def no_scale_given(graph):
    node, place = graph.call("graphmp_loss_scale")
    node.input[place] = graph.bodies[0].constant("graphmp/given", np.float32(1.0))


def flag_not_handed_out(graph):
    """The function says that all is finite, whatever it is."""
    body = graph.flagged()
    body.function.ret["graphmp_finite"] = body.constant("graphmp/says", True)


def flag_of_a_part(graph):
    body = graph.flagged()
    body.function.ret["graphmp_finite"] = body.find("/All").name + ":output:0"


def flag_not_read(graph):
    """Who calls the function doesn't ask for its flag."""
    main = graph.bodies[0]
    for node in main.list:
        if (
            node.op == "Pack"
            and node.name.startswith("graphmp/")
            and len(node.input) > 1
            and "stack_" in node.name
        ):
            node.input[1:] = [node.input[0]] * (len(node.input) - 1)


def loop_forgets(graph):
    """What an iteration finds counts for that one alone."""
    body = graph.where("returned/all_finite_0")
    node = body.find("returned/all_finite_0")
    node.input[1] = node.input[0]


def loop_starts_as_false(graph):
    for node in graph.bodies[0].list:
        if node.name.startswith("graphmp/returned/true"):
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(False))


def side_turned(graph):
    """The flag of one side of a conditional is false on the other one."""
    body = graph.where("/LogicalNot")
    node = (
        body.find("/LogicalNot")
        if body.has("in_branch/LogicalNot") or body.has("in_loop/LogicalNot")
        else None
    )
    node.op = "Identity"
    node.attr["T"].type = BOOL


def other_predicate(graph):
    """It looks at another conditional."""
    body = next(body for body in graph.bodies if body.has("in_branch/switch"))
    switch = body.find("in_branch/switch")
    switch.input[:] = [body.constant("graphmp/predicate", True)] * 2


def doubled(graph):
    """A gradient is doubled in the function."""
    body = graph.where("/unscale")
    unscale = body.find("/unscale")
    two = body.constant("graphmp/two", 2.0)
    spelled = unscale.name + (":z:0" if body.function else "")
    for node in body.list:
        node.input[:] = [
            "graphmp/doubled" + (":z:0" if body.function else "") if text == spelled else text
            for text in node.input
        ]
    node = body.list.add(name="graphmp/doubled", op="Mul", input=[spelled, two])
    node.attr["T"].type = FLOAT32


OF_ANY = [
    divided_by_one,
    divided_by_another_scale,
    not_scaled,
    unchecked_gradient,
    any_finite,
    checks_half,
    doubled,
]
OF_STEPS = [
    gate_turned, gate_always_open, no_gate, state_stays, state_is_not_written, flag_does_not_wait, backs_off_upwards, starts_elsewhere,
]  # fmt: skip
OF_HANDLES = [wrong_handle, handles_exchanged, one_handle_twice]
OF_ARGUMENTS = [
    another_scale_given,
    no_scale_given,
    flag_not_handed_out,
    flag_of_a_part,
    flag_not_read,
]
FAULTS = {
    "step_in_a_function": [*OF_ANY, *OF_STEPS, *OF_HANDLES],
    "step_in_a_legacy_function": [*OF_ANY, *OF_STEPS, *OF_HANDLES],
    "step_in_a_branch": [*OF_ANY, *OF_STEPS, *OF_HANDLES],
    "steps_in_a_loop_of_functions": [*OF_ANY, *OF_STEPS, *OF_HANDLES],
    "steps_in_a_while_loop": [*OF_ANY, *OF_STEPS, another_variable_by_name, reads_too_early],
    "step_of_another_functions_gradients": [
        *OF_ANY,
        *OF_STEPS,
        *OF_HANDLES,
        flag_not_handed_out,
        flag_of_a_part,
    ],
    "gradients_in_a_function": [*OF_ANY, *OF_ARGUMENTS],
    "gradients_in_functions": [*OF_ANY, *OF_ARGUMENTS],
    "gradients_in_a_loop_of_functions": [
        *OF_ANY,
        *OF_ARGUMENTS,
        loop_forgets,
        loop_starts_as_false,
    ],
    "function_in_a_while_loop": [
        *OF_ANY,
        flag_not_handed_out,
        flag_of_a_part,
        flag_not_read,
        side_turned,
    ],
    "gradients_on_one_side": [*OF_ANY, side_turned, other_predicate],
    "function_on_either_side": [*OF_ANY, *OF_ARGUMENTS],
}
GRAPHS = {}


def conversion(name):
    """A graph and its conversion, made once."""
    if name not in GRAPHS:
        original = built(name)
        GRAPHS[name] = original, converted(original, loss_scale_initial=64.0)
    return GRAPHS[name]


@pytest.mark.unit
@pytest.mark.parametrize(
    "name, fault", [(name, fault) for name, faults in FAULTS.items() for fault in faults]
)
def test_fault(name, fault):
    """A fault is found."""
    original, proved = conversion(name)
    planted = Planted(proved)
    fault(planted)
    assert planted.meta_graph != proved
    assert open_claims(original, planted.meta_graph)


@pytest.mark.unit
@pytest.mark.parametrize("name", sorted(FAULTS))
def test_unspoilt(name):
    """The conversions that faults are planted in are proved."""
    assert not open_claims(*conversion(name))


@pytest.mark.unit
@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_step_that_nothing_was_done_to(name):
    """The original under the conversion's mark has no scale, which the mark says it has."""
    original, proved = conversion(name)
    unchanged = Planted(original).meta_graph
    unchanged.collection_def[COLLECTION].CopyFrom(proved.collection_def[COLLECTION])
    assert "loss_scale is none" in open_claims(original, unchanged)["parameters"]


@pytest.mark.unit
@pytest.mark.parametrize("inside", [False, True])
def test_gradients_that_nothing_is_trained_by(inside):
    """Such gradients need no scale, in a function too."""

    def slope(x):
        loss = tf.reduce_sum(tf.square(tf.matmul(x, tf.ones([4, 4]))))
        return tf.gradients(loss, x)[0]

    def model():
        x = tf.placeholder(tf.float32, [4, 4], "x")
        weight = tf.get_variable("weight", [4, 4], use_resource=True)
        slopes = tf.function(slope)(x) if inside else slope(x)
        tf.reduce_mean(tf.square(tf.matmul(slopes, weight)), name="steepness")
        tf.assign(tf.get_variable("last", [4, 4], trainable=False), slopes)

    original, made = original_and_converted(model)
    assert not open_claims(original, made)


@pytest.mark.unit
def test_all_have_faults():
    """But for the one whose function is the first's."""
    assert {build.__name__ for build in (*STEPS, *GRADIENTS)} - set(FAULTS) == {
        "step_in_a_function_counted_outside"
    }


@pytest.mark.unit
def test_the_library_is_read_as_often_for_many_functions_as_for_few(monkeypatch):
    """So that time is linear in the functions."""

    def reads(count):
        graph = hostile.many_functions(count)
        seen = []
        for module in ("graphmp.verify.sides", "graphmp.graph.state.state"):
            monkeypatch.setattr(
                module + ".functions_by_name", lambda g: seen.append(g) or functions_by_name(g)
            )
        assert verify(graph, graph).claims
        return len(seen)

    assert reads(40) == reads(20) > 0
