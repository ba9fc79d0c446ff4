"""Faults planted in converted graphs: none passes the proof, without a report."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import parse
from graphmp.loss_scale import gradients
from graphmp.verify import verify
from tests.support.proved import Planted, converted, open_claims, original_and_converted
from tests.support.training_graphs import SHAPES, square, vectors

SCALE = "graphmp/loss_scale/"


def model():
    """Two layers of the same shape, a Saver, an init op, a global step, Momentum."""
    x = tf.placeholder(tf.float32, [4, 8], name="x")
    with tf.variable_scope("net"):
        first = tf.get_variable("first", [8, 8])
        second = tf.get_variable("second", [8, 8])
        loss = tf.reduce_mean(
            tf.square(tf.matmul(tf.nn.relu(tf.matmul(x, first)), second)), name="loss"
        )
    step = tf.train.get_or_create_global_step()
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, step, name="train")
    tf.global_variables_initializer()
    tf.train.Saver()


@pytest.fixture(scope="module")
def graphs():
    """The model, and its conversion with a dynamic scale and a clip."""
    return original_and_converted(model, clip_norm=1.0)


class Spoilt(Planted):
    """A copy of the model's conversion, or of another one, to be spoilt."""

    def ours(self, name):
        """A node of the scale."""
        return self.nodes[SCALE + name]

    def set(self, name, value):
        """Gives a constant another value."""
        tensor = self.nodes[name].attr["value"].tensor
        tensor.CopyFrom(tf.make_tensor_proto(np.asarray(value, tf.make_ndarray(tensor).dtype)))

    def update(self, variable):
        """The update of a variable."""
        return self.nodes["train/update_net/%s/ApplyMomentum" % variable]

    def gate(self, variable):
        """What lets an update die."""
        return self.ours("skip/train/update_net/%s/ApplyMomentum/switch" % variable)


def unscales(graph):
    """The divisions by the scale."""
    return [
        node
        for name, node in graph.nodes.items()
        if node.op == "RealDiv" and name.startswith(SCALE + "unscale")
    ]


def divided_by_one(graph):
    graph.constant("graphmp/one", 1.0)
    unscales(graph)[0].input[1] = "graphmp/one"


def another_gradient(graph):
    one, other = unscales(graph)
    one.input[0] = other.input[0]


def exchanged_gradients(graph):
    one, other = unscales(graph)
    one.input[0], other.input[0] = other.input[0], one.input[0]


def not_unscaled(graph):
    one = unscales(graph)[0]
    for node in graph.nodes.values():
        node.input[:] = [one.input[0] if text == one.name else text for text in node.input]


def first_twice(node):
    node.input[1] = node.input[0]


def second_gone(node):
    del node.input[1]
    node.attr["N"].i = 1


def left_out_of_the_check(graph):
    first_twice(graph.ours("stack"))


def one_check_less(graph):
    second_gone(graph.ours("stack"))


def one_row_of_two(graph):
    first_twice(graph.ours("small"))


def one_row_less(graph):
    second_gone(graph.ours("small"))


def a_row_of_the_clipped(graph):
    graph.nodes[graph.ours("small").input[1]].input[0] = graph.gate("first").input[0]


def one_sum_of_two(graph):
    first_twice(graph.ours("AddN"))


def one_sum_less(graph):
    second_gone(graph.ours("AddN"))


def sum_of_what_is_clipped(graph):
    row = graph.ours(graph.ours("Sum").input[0][len(SCALE) :])
    row.input[0] = graph.gate("first").input[0]


def sum_in_a_row_of_one(graph):
    graph.ours("Sum").attr["keep_dims"].b = True


def never_in_doubt(graph):
    graph.ours("finite_sums").op = "IsNan"


def doubt_turned(graph):
    doubted, flag = graph.ours("finite_sums/doubted"), graph.ours("all_finite")
    doubted.input[0] += ":1"
    flag.input[1] = flag.input[1][: -len(":1")]


def always_tested(graph):
    test = graph.ours("IsFinite")
    test.input[:] = [text for text in test.input if not text.startswith("^")]


def gate_turned(graph):
    neutral, selected = graph.ours("skip/train/zeros"), graph.ours("skip/train/selected")
    neutral.input[0], selected.input[1] = selected.input[1], neutral.input[0]


def switch_turned(graph):
    update, gate = graph.update("first"), graph.gate("first").name
    update.input[:] = [gate if text == gate + ":1" else text for text in update.input]


def no_gate(graph):
    update, gate = graph.update("first"), graph.gate("first")
    update.input[:] = [gate.input[0] if text == gate.name + ":1" else text for text in update.input]


def gate_always_open(graph):
    graph.add(
        "graphmp/true",
        "Const",
        [],
        dtype=tf.AttrValue(type=10),
        value=tf.AttrValue(tensor=tf.make_tensor_proto(True)),
    )
    graph.gate("first").input[1] = "graphmp/true"


def applied(graph):
    """What lives if the updates do."""
    return next(node for name, node in graph.nodes.items() if name.endswith("/applied"))


def not_waited_for(graph):
    graph.nodes["train/update"].input.remove("^" + applied(graph).name.replace("applied", "alive"))


def one_not_waited_for(graph):
    applied(graph).input.remove("^" + graph.update("second").name)


def waited_for_dead(graph):
    graph.nodes["train/update"].input.append("^" + graph.update("second").name)


def dead_where_applied(graph):
    node = applied(graph)
    node.input[0] = node.input[0].replace(":1", "")


def larger_norm(graph):
    for name, node in graph.nodes.items():
        if (
            name.startswith(SCALE + "clip_by_global_norm_1/")
            and node.op == "Const"
            and not node.name.endswith("truediv/x")
            and node.attr["dtype"].type == 1
        ):
            graph.set(name, 1000.0)


def one_norm_of_two(graph):
    graph.set(SCALE + "clip_by_global_norm_1/mul/x", 1000.0)


def past_the_clip(graph):
    gate, clip = graph.gate("first"), graph.gate("first").input[0]
    multiplied = graph.nodes[graph.nodes[clip].input[0]]
    gate.input[0] = multiplied.input[0]


def clipped_where_it_is_fetched(graph):
    """No update reads the original's gradient: who fetches it gets it as it was."""
    unscaled = {node.name for node in unscales(graph)}
    kept = next(
        node for node in graph.nodes.values() if node.op == "Identity" and node.input[0] in unscaled
    )
    kept.input[0] = next(
        name
        for name, node in graph.nodes.items()
        if node.op == "Mul" and node.input[0] == kept.input[0]
    )


def norm_of_one(graph):
    stack = graph.ours("clip_by_global_norm/stack")
    stack.input[1] = stack.input[0]


def backs_off_upwards(graph):
    graph.set(SCALE + "update/mul_1/y", 2.0)


def grows_soon(graph):
    graph.set(SCALE + "update/GreaterEqual/y", 2)


def scale_stays(graph):
    graph.ours("update/new_scale").input[1] = SCALE + "current"


def flag_does_not_wait(graph):
    finite = graph.ours("finite")
    finite.input[:] = [text for text in finite.input if not text.startswith("^")]


def learning_rate(graph):
    graph.set("train/learning_rate", 0.2)


def seed_scaled_twice(graph):
    seed = graph.ours("scaled_seed")
    graph.add("graphmp/again", "Mul", [seed.name, seed.input[1]], T=tf.AttrValue(type=1))
    for name, node in graph.nodes.items():
        if name != "graphmp/again":
            node.input[:] = ["graphmp/again" if text == seed.name else text for text in node.input]


def seed_not_scaled(graph):
    seed = graph.ours("scaled_seed")
    for node in graph.nodes.values():
        node.input[:] = [seed.input[0] if text == seed.name else text for text in node.input]


def saved_under_other_names(graph):
    save = graph.nodes["save/SaveV2"]
    save.input[4], save.input[5] = save.input[5], save.input[4]


def restored_into_others(graph):
    one, other = graph.nodes["save/Assign_1"], graph.nodes["save/Assign_2"]
    one.input[1], other.input[1] = other.input[1], one.input[1]


def scale_not_initialised(graph):
    graph.set(SCALE + "scale/initial_value", 1.0)


def transposed(graph):
    graph.nodes["net/MatMul"].attr["transpose_b"].b = True


def nesterov(graph):
    graph.update("first").attr["use_nesterov"].b = True


def half_variable(graph):
    for node in graph.nodes.values():
        if node.op == "VariableV2" and node.name == "net/first":
            node.attr["dtype"].type = 19


def cast_missing(graph):
    node = graph.nodes["net/MatMul"]
    node.input[0] = "x"


def added_write(graph):
    graph.add(
        "graphmp/write", "AssignAdd", ["global_step", "global_step/read"], T=tf.AttrValue(type=9)
    )


def doubled_on_the_way(graph):
    graph.add(
        "graphmp/two",
        "Const",
        [],
        dtype=tf.AttrValue(type=1),
        value=tf.AttrValue(tensor=tf.make_tensor_proto(2.0)),
    )
    node = graph.nodes["net/Square"]
    graph.add("graphmp/doubled", "Mul", [node.input[0], "graphmp/two"], T=tf.AttrValue(type=1))
    node.input[0] = "graphmp/doubled"


def collection_gone(graph):
    del graph.meta_graph.collection_def["trainable_variables"]


def state_not_listed(graph):
    graph.meta_graph.collection_def["graphmp_loss_scale"].node_list.value.pop()


def another_listed(graph):
    graph.meta_graph.collection_def["graphmp_loss_scale"].node_list.value[0] = "net/first:0"


def described_by_others(graph):
    """The scale's initialiser is that of its count of steps."""
    listed = graph.meta_graph.collection_def["variables"].bytes_list.value
    found = parse("tensorflow.VariableDef", listed[-3])
    found.initializer_name = found.initializer_name.replace("scale/Assign", "good_steps/Assign")
    listed[-3] = found.SerializeToString()


def in_half(graph, name):
    """Has a float32 node compute in half precision, between casts."""
    node = graph.nodes[name]
    node.attr["T"].type = 19
    for place, text in enumerate(list(node.input)):
        cast = "graphmp/down_%d" % place
        graph.add(cast, "Cast", [text], SrcT=tf.AttrValue(type=1), DstT=tf.AttrValue(type=19))
        node.input[place] = cast
    for other in graph.nodes.values():
        other.input[:] = ["graphmp/up" if text == name else text for text in other.input]
    graph.add("graphmp/up", "Cast", [name], SrcT=tf.AttrValue(type=19), DstT=tf.AttrValue(type=1))


def first_value_in_half(graph):
    in_half(graph, "net/first/Initializer/random_uniform")


def seed_in_half(graph):
    in_half(graph, SCALE + "scaled_seed")


def op_becomes_a_call(graph):
    function = graph.meta_graph.graph_def.library.function.add()
    function.signature.name = "graphmp_relu"
    graph.nodes["net/Relu"].op = "graphmp_relu"


FAULTS = [
    divided_by_one, another_gradient, exchanged_gradients, not_unscaled, gate_turned, switch_turned,
    one_row_of_two, one_row_less, a_row_of_the_clipped, sum_in_a_row_of_one, never_in_doubt, doubt_turned, always_tested,
    no_gate, gate_always_open, not_waited_for, one_not_waited_for, waited_for_dead, dead_where_applied, larger_norm, one_norm_of_two, past_the_clip, norm_of_one, backs_off_upwards,
    grows_soon, scale_stays, flag_does_not_wait, learning_rate, seed_scaled_twice, seed_not_scaled, saved_under_other_names,
    restored_into_others, scale_not_initialised, transposed, nesterov, half_variable, cast_missing, added_write, doubled_on_the_way,
    collection_gone, state_not_listed, another_listed, described_by_others, op_becomes_a_call, first_value_in_half,
    seed_in_half, clipped_where_it_is_fetched,
]  # fmt: skip


@pytest.mark.unit
def test_unspoilt(graphs):
    """The conversion itself is proved."""
    proof = verify(*graphs)
    assert [claim for claim in proof.claims if claim.verdict != "proved"] == []
    assert proof.parameters["clip_norm"] == 1.0 and proof.parameters["loss_scale"] == "dynamic"


@pytest.mark.unit
@pytest.mark.parametrize("fault", FAULTS)
def test_fault(graphs, fault):
    """A fault is found."""
    original, converted = graphs
    planted = Spoilt(converted)
    fault(planted)
    assert planted.meta_graph != converted
    assert not verify(original, planted.meta_graph).ok


@pytest.fixture(scope="module")
def large():
    """The same of gradients that aren't small: each has a sum of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "SMALL", 0)
        return original_and_converted(model, clip_norm=1.0)


@pytest.mark.unit
@pytest.mark.parametrize(
    "fault",
    [left_out_of_the_check, one_check_less, one_sum_of_two, one_sum_less, sum_of_what_is_clipped],
)
def test_fault_of_large_gradients(large, fault):
    assert verify(*large).ok
    test_fault(large, fault)


@pytest.mark.unit
def test_without_a_mark(graphs):
    """A GraphDef has no place for one: what is found is told."""
    bare = [tf.MetaGraphDef(graph_def=graph.graph_def) for graph in graphs]
    (claim,) = [claim for claim in verify(*bare).claims if claim.name == "parameters"]
    assert claim.verdict == "not applicable" and "clip_norm 1" in claim.text


@pytest.mark.unit
def test_scaled_where_it_is_fetched():
    """A gradient that nobody reads is there to be fetched.

    What stands for it under its name has been divided by the scale.
    """
    with tf.Graph().as_default():
        SHAPES["fed_to_another_copy"].build()
        original = tf.train.export_meta_graph()
    planted = Spoilt(converted(original))
    one = next(
        node
        for node in unscales(planted)
        if node.input[0].startswith("gradients/worker_0/b/MatMul_grad/")
    )
    readers = [node for node in planted.nodes.values() if one.name in node.input]
    assert verify(original, planted.meta_graph).ok and [node.op for node in readers] == ["Identity"]
    readers[0].input[0] = one.input[0]
    assert "scale cancels" in open_claims(original, planted.meta_graph)


@pytest.fixture(scope="module")
def fed_back():
    """Gradients are fetched, and fed to the updates, and the conversion."""
    with tf.Graph().as_default():
        SHAPES["fed_back"].build()
        original = tf.train.export_meta_graph()
    return original, converted(original)


@pytest.mark.unit
def test_a_quotient_that_nobody_reads(fed_back):
    """The gradient is fetched while it is scaled, though its flag looks at the quotient."""
    original, right = fed_back
    for one in unscales(Planted(right)):
        planted = Spoilt(right)
        for node in planted.nodes.values():
            if one.name in node.input and not node.name.startswith(SCALE):
                node.input[list(node.input).index(one.name)] = one.input[0]
        assert planted.meta_graph != right
        claims = verify(original, planted.meta_graph).claims
        (failed,) = [claim for claim in claims if claim.name == "scale cancels"]
        assert failed.verdict == "failed" and one.name in failed.nodes


@pytest.mark.unit
def test_a_copy_of_a_gradient_that_is_divided_for_others():
    """Nothing reads it, but a program may fetch it."""

    def model():
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        pairs = optimizer.compute_gradients(square(tf.layers.dense(vectors(), 4)))
        optimizer.apply_gradients(pairs, name="train")
        tf.identity(pairs[0][0], name="shown")

    original, right = original_and_converted(model)
    assert open_claims(original, right) == {}
    planted = Spoilt(right)
    shown = planted.nodes["shown"]
    shown.input[0] = planted.nodes[shown.input[0]].input[0]
    text = open_claims(original, planted.meta_graph)["scale cancels"]
    assert text == "shown is a gradient that is multiplied by a loss scale, and divided for others"


@pytest.mark.unit
def test_the_gradient_of_a_constant_that_is_a_variables_too():
    """Gradient code makes a copy for the constant, and nothing reads it."""

    def model():
        weights = tf.get_variable("weights", [4, 4]) + tf.eye(4)
        loss = square(tf.matmul(tf.placeholder(tf.float32, [8, 4]), weights))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")

    assert open_claims(*original_and_converted(model)) == {}


@pytest.mark.unit
def test_a_write_that_dies_though_its_gate_keeps_it_alive():
    def model():
        loss = square(tf.layers.dense(vectors(), 4))
        tf.train.AdamOptimizer(0.1).minimize(loss, name="train")

    original, right = original_and_converted(model)
    assert open_claims(original, right) == {}
    planted = Spoilt(right)
    dying = next(name for name in planted.nodes if name.endswith("/applied"))
    planted.nodes["train/mul_1"].input.append("^" + dying)
    assert "same graph" in open_claims(original, planted.meta_graph)


@pytest.mark.unit
@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_a_variable_that_is_read_behind_its_update(use_resource):
    """What is computed behind the training op reads the value of before."""

    def model():
        weight = tf.get_variable("weight", [12, 4], use_resource=use_resource)
        read = tf.identity(weight, name="read")
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        train = optimizer.minimize(square(tf.matmul(vectors(), weight)), name="train")
        with tf.control_dependencies([train]):
            tf.negative(read, name="shown")

    original, right = original_and_converted(model)
    assert open_claims(original, right) == {}
    planted = Spoilt(right)
    read = planted.nodes["read"]
    while read.op == "Identity" and planted.nodes[read.input[0]].op in (
        "Identity",
        "ReadVariableOp",
    ):
        read = planted.nodes[read.input[0]]
    planted.add("graphmp/again", read.op, [read.input[0], "^train"], **read.attr)
    planted.nodes["shown"].input[0] = "graphmp/again"
    assert "graphmp/again " in open_claims(original, planted.meta_graph)["same graph"]


@pytest.mark.unit
def test_an_update_that_runs_another(graphs):
    original, right = graphs
    planted = Spoilt(right)
    rate = planted.update("first").input[2]
    other = "^" + planted.update("second").name
    planted.add("graphmp/rate", "Identity", [rate, other], T=planted.nodes[rate].attr["dtype"])
    planted.update("first").input[2] = "graphmp/rate"
    text = open_claims(original, planted.meta_graph)["same graph"]
    assert text == "%s runs %s, which it does not in the original" % (
        planted.update("first").name,
        planted.update("second").name,
    )


@pytest.mark.unit
def test_a_flag_of_fed_gradients_that_adapts_nothing(fed_back):
    """Fed gradients are of this run, as sums in variables are not."""
    original, right = fed_back
    planted = Spoilt(right)
    planted.ours("finite").input.remove("^%supdate/step" % SCALE)
    assert "steps are skipped whole" in open_claims(original, planted.meta_graph)


@pytest.mark.unit
@pytest.mark.parametrize("places", [(-1, -2), (0, -1)])
def test_variables_of_the_scale_in_another_place(graphs, places):
    """They end their collection, in their order."""
    original, right = graphs
    planted = Spoilt(right)
    listed = planted.meta_graph.collection_def["variables"].bytes_list.value
    one, other = (listed[place] for place in places)
    listed[places[0]], listed[places[1]] = other, one
    assert not verify(original, planted.meta_graph).ok


@pytest.mark.unit
def test_contexts_in_another_order():
    """What lies in another context is imported after it."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 8])
        chosen = [tf.cond(x[0, 0] > bound, lambda: 2.0 * x, lambda: x) for bound in (0.0, 1.0)]
        loss = tf.reduce_mean(tf.square(tf.matmul(sum(chosen), tf.get_variable("w", [8, 8]))))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        original = tf.train.export_meta_graph()
    planted = Spoilt(converted(original))
    contexts = planted.meta_graph.collection_def["cond_context"].bytes_list.value
    assert verify(original, planted.meta_graph).ok
    contexts[:] = [contexts[1], contexts[0], *contexts[2:]]
    assert not verify(original, planted.meta_graph).ok


@pytest.mark.unit
@pytest.mark.parametrize("flags", [{"loss_scale": "none"}, {"loss_scale": 128.0}, {}])
def test_another_conversion(graphs, flags):
    """A conversion without a scale, with another one, or without the clip, is not what was asked
    for.
    """
    original, _ = graphs
    wanted = {"loss_scale": "dynamic", "clip_norm": 1.0}
    assert list(open_claims(original, converted(original, **flags), wanted)) == ["parameters"]
