"""What the recipe builds is proved, and faults planted there are found."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.edit.mark import mark
from graphmp.verify import verify
from graphmp.verify.execution import lives
from graphmp.verify.sides import fetched
from tests.support.models import MODELS
from tests.support.proved import Planted, by_recipe, open_claims

SCALE = "graphmp/loss_scale/"
CONFIGS = {
    "dynamic": {},
    "clip": {"clip_norm": 0.5},
    "fixed": {"loss_scale": 64.0, "clip_norm": 0.5},
    "none": {"loss_scale": "none"},
    "bfloat16": {"compute_dtype": "bfloat16"},
    "counted": {"count_skipped_steps": True},
}
# What isn't proved: labels are rounded without need.
OPEN = {"layers_from_outside": "same graph"}


def cases():
    """Every second model, and each configuration, by default."""
    for place, name in enumerate(sorted(MODELS)):
        for number, config in enumerate(sorted(CONFIGS)):
            is_default = place % 2 == 0 and number == place // 2 % len(CONFIGS)
            marks = [] if is_default else pytest.mark.slow
            yield pytest.param(name, config, marks=marks, id="%s-%s" % (name, config))


@pytest.mark.parametrize("name, config", cases())
def test_model(name, config):
    options = CONFIGS[config]
    expected = dict(
        {"loss_scale": "none" if config == "bfloat16" else "dynamic", "clip_norm": 0.0}, **options
    )
    found = open_claims(*by_recipe(MODELS[name], **options), expected)
    assert set(found) <= {OPEN.get(name, "")}, found


@pytest.mark.parametrize(
    "name, config",
    [
        ("gradient_penalty", "none"),  # ends of gradient code in a loss
        ("one_hot_labels", "dynamic"),  # random numbers, which a scaled loss runs
        ("recurrent_loop", "none"),  # a context brings a cast of a variable in
        ("recurrent_loop", "bfloat16"),  # whose gradients TensorFlow 1.15 leaves out of loops
        ("unfused_batch_norm", "bfloat16"),  # counts of elements
    ],
)
def test_rules_of_their_own(name, config):
    test_model(name, config)


def test_what_may_be_fetched_is_listed_once_for_all_nodes_that_die(monkeypatch):
    graphs, calls = by_recipe(MODELS["called_twice"]), []

    def counting(meta_graph):
        calls.append(1)
        return fetched(meta_graph)

    monkeypatch.setattr(lives, "fetched", counting)
    verify(*graphs)
    assert len(calls) == 1


def many_losses(decorate):
    """A loss for each example."""

    @decorate
    def build(x, y):
        loss = tf.square(y - tf.layers.dense(tf.layers.dense(x, 8, tf.nn.relu), 1))
        return tf.train.AdamOptimizer(0.01).minimize(loss)

    build(tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1]))


def test_a_loss_of_many_elements():
    assert not open_claims(*by_recipe(many_losses), {"loss_scale": "dynamic"})


def auxiliary_loss(decorate):
    """A loss beside one behind a dropout: its gradients wait for the scaled sum of both."""

    @decorate
    def build(x, y):
        hidden = tf.layers.dense(x, 8, tf.nn.relu)
        heads = [tf.layers.dense(tf.nn.dropout(hidden, rate=0.5), 1), tf.layers.dense(hidden, 1)]
        loss = sum(tf.losses.mean_squared_error(y, head) for head in heads)
        return tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)

    build(tf.placeholder(tf.float32, [4, 4]), tf.placeholder(tf.float32, [4, 1]))


def test_an_auxiliary_loss():
    assert not open_claims(*by_recipe(auxiliary_loss), {"loss_scale": "dynamic"})


def model(decorate):
    """Batch normalisation, penalties, a weight that is used twice, Momentum, a global step."""

    @decorate
    def build(x, y):
        h = tf.layers.dense(x, 8, tf.nn.relu, kernel_regularizer=tf.nn.l2_loss, name="first")
        h = tf.layers.batch_normalization(h, training=True, name="norm")
        with tf.variable_scope("twice"):
            weight = tf.get_variable("weight", [8, 8], regularizer=tf.nn.l2_loss)
        h = tf.matmul(tf.nn.relu(tf.matmul(h, weight)), weight)
        loss = (
            tf.losses.mean_squared_error(y, tf.layers.dense(h, 1, name="last"))
            + tf.losses.get_regularization_loss()
        )
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            return tf.train.MomentumOptimizer(0.1, 0.9).minimize(
                loss, tf.train.get_or_create_global_step(), name="train"
            )

    build(
        tf.placeholder(tf.float32, [4, 6], name="x"), tf.placeholder(tf.float32, [4, 1], name="y")
    )


@pytest.mark.unit
def test_variables_that_are_resources():
    """One read in half precision may stand for several of the original's."""
    had = tf.resource_variables_enabled()
    try:
        tf.enable_resource_variables()
        found = by_recipe(model, clip_norm=1.0)
    finally:
        (tf.enable_resource_variables if had else tf.disable_resource_variables)()
    assert not open_claims(*found, {"loss_scale": "dynamic", "clip_norm": 1.0})


@pytest.fixture(scope="module")
def graphs():
    """The model, and its conversion with a dynamic scale and a clip."""
    return by_recipe(model, clip_norm=1.0)


class Spoilt(Planted):
    """A copy of the converted model, to be spoilt."""

    def update(self, variable):
        """The update of a variable."""
        return self.nodes["train/update_%s/ApplyMomentum" % variable]

    def sums(self):
        """Sums of gradients."""
        return [
            node
            for node in self.nodes.values()
            if node.op == "AddN" and node.name.startswith("gradients/")
        ]

    def of_averages(self, op):
        """The nodes that gate moving averages, of one op."""
        return (
            node
            for node in self.nodes.values()
            if node.op == op and node.name.startswith("graphmp/moving_averages/")
        )


def dropped_term(graph):
    node = graph.sums()[0]
    del node.input[0]
    node.attr["N"].i -= 1


def doubled_term(graph):
    node = graph.sums()[0]
    node.input[1] = node.input[0]


def more_terms(graph):
    node = graph.sums()[0]
    node.input.append(node.input[0])
    node.attr["N"].i += 1


def terms_of_another_sum(graph):
    one, other = [node for node in graph.sums() if len(node.input) == 2][:2]
    one.input[1], other.input[1] = other.input[1], one.input[1]


def gradient_of_the_scale(graph):
    scope = "gradients/%sscaled_loss_grad/" % SCALE
    graph.nodes[scope + "tuple/control_dependency"].input[0] = scope + "Mul_1"


def scaled_by_what_grows(graph):
    graph.nodes["gradients/%sscaled_loss_grad/Mul" % SCALE].input[1] = SCALE + "current"


def gradient_past_its_unscale(graph):
    one = next(
        node
        for node in graph.nodes.values()
        if node.op == "RealDiv" and node.name.startswith(SCALE + "unscale")
    )
    graph.replace(one.name, one.input[0])


def update_that_lives(graph):
    update = graph.update("first/kernel")
    for place, text in enumerate(update.input):
        name = text.split(":")[0]
        if "/Switch" in name:
            update.input[place] = graph.nodes[name].input[0]


def switch_turned(graph):
    update = graph.update("first/kernel")
    update.input[:] = [text.replace(":1", "") for text in update.input]


def always_open(graph):
    graph.constant("graphmp/true", True)
    graph.replace(SCALE + "skip/pred_id", "graphmp/true")


def by_its_own_flag(graph):
    graph.replace(SCALE + "skip/pred_id", "graphmp/moving_averages/All")


def scale_not_adapted(graph):
    node = graph.nodes[SCALE + "skip/pred_id"]
    node.input.remove("^%supdate/step" % SCALE)


def counts_on_skipped_steps(graph):
    graph.nodes["train"].input[0] = graph.nodes[graph.nodes["train"].input[0].split(":")[0]].input[
        0
    ]


def update_left_out(graph):
    node = graph.nodes["train/update"]
    node.input.remove("^" + graph.update("first/kernel").name)


def train_op_waits_for_nothing(graph):
    node = graph.nodes[SCALE + "skip/control_dependency"]
    node.input.remove("^train")


def another_train_op(graph):
    graph.meta_graph.collection_def["train_op"].node_list.value[:] = [SCALE + "update/step"]


def averages_exchanged(graph):
    one, other = list(graph.of_averages("Switch"))[:2]
    one.input[0], other.input[0] = other.input[0], one.input[0]


def average_checked_for_another(graph):
    one, other = list(graph.of_averages("Switch"))[:2]
    one.input[1], other.input[1] = other.input[1], one.input[1]


def average_moves_on_skipped_steps(graph):
    next(graph.of_averages("ZerosLike")).op = "OnesLike"


def average_by_anothers_flag(graph):
    """A moving average that waits for the gradients, which wait for it."""
    next(graph.of_averages("Switch")).input[1] = SCALE + "skip/pred_id"


def flag_waits_for_more(graph):
    graph.nodes[SCALE + "flat"].input.append("^first/kernel/Assign")


def forward_value_dies(graph):
    """The loss is computed only where the step is not skipped."""
    graph.add("graphmp/dies", "Switch", ["x", SCALE + "skip/pred_id"], T=tf.AttrValue(type=1))
    graph.nodes["x_graphmp_float16"].input[0] = "graphmp/dies:1"


def initialiser_by_a_flag(graph):
    """It would be left out where a step is skipped, and need what a step is fed."""
    node = graph.nodes["twice/weight/Assign"]
    switch = graph.update("twice/weight").input[0]
    assert node.input[0] == "twice/weight"
    node.input[0] = switch


def group_lacks_a_gradient(graph):
    group = graph.nodes["gradients/graphmp/loss_scale/scaled_loss_grad/tuple/group_deps"]
    group.input.remove("^gradients/graphmp/loss_scale/scaled_loss_grad/Mul")


def copy_waits_for_no_group(graph):
    copy = graph.nodes["gradients/graphmp/loss_scale/scaled_loss_grad/tuple/control_dependency"]
    del copy.input[1]


def conditional_is_not_listed(graph):
    del graph.meta_graph.collection_def["cond_context"].bytes_list.value[0]


def conditionals_in_another_order(graph):
    listed = graph.meta_graph.collection_def["cond_context"].bytes_list.value
    listed.append(listed.pop(0))


def another_seed(graph):
    node = next(node for node in graph.nodes.values() if node.op == "RandomUniform")
    node.attr["seed2"].i += 1


FAULTS = [
    each
    for each in list(globals().values())
    if callable(each)
    and getattr(each, "__code__", None)
    and each.__code__.co_varnames[:1] == ("graph",)
]


@pytest.mark.unit
def test_unspoilt(graphs):
    assert not open_claims(*graphs, {"loss_scale": "dynamic", "clip_norm": 1.0})


@pytest.mark.unit
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault(graphs, fault):
    """A fault is found."""
    original, converted = graphs
    graph = Spoilt(converted)
    fault(graph)
    assert graph.meta_graph != converted
    assert not verify(original, graph.meta_graph, {"loss_scale": "dynamic", "clip_norm": 1.0}).ok


@pytest.mark.unit
def test_a_write_that_reads_past_its_conditional(graphs):
    """TensorFlow's conditional brings in all that it reads, as the mark of the recipe says."""
    original, converted = graphs
    graph = Spoilt(converted)
    mark(graph.meta_graph, Config.make(clip_norm=1.0), "recipe")
    assert not open_claims(original, graph.meta_graph)
    gradient = graph.update("first/kernel")
    switch = graph.nodes[gradient.input[3].split(":")[0]]
    assert switch.op == "Switch"
    gradient.input[3] = switch.input[0]
    assert "past the conditional" in open_claims(original, graph.meta_graph)["same graph"]
