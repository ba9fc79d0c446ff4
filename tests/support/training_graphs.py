"""Training graphs of many shapes, each with the expected results, written by hand."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple

import tensorflow.compat.v1 as tf

from tests.support.control_flow import control_flow
from tests.support.models import two_layers


class Expected(NamedTuple):
    """One expected loss.

    Attributes:
        scopes: name scopes of its gradient code.
        gradients: the number of gradients that leave it for updates.
        updates: the number of updates of each op type.
        loss: the forward nodes from which gradients start.
    """

    scopes: List[str]
    gradients: int
    updates: Dict[str, int]
    loss: List[str]


class Shape(NamedTuple):
    """A form of training code, with the expected results."""

    build: Callable[[], Any]
    losses: List[Expected]


SHAPES: Dict[str, Shape] = {}


def shape(*losses: Expected) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a function that builds a graph."""

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        SHAPES[build.__name__] = Shape(build, list(losses))
        return build

    return register


def vectors(rows: Any = 8) -> Any:
    return tf.placeholder(tf.float32, (rows, 12), "x")


def square(x: Any, name: str = "loss") -> Any:
    return tf.reduce_mean(tf.square(x), name=name)


def net(x: Any, scope: str = "net", reuse: Any = None, width: int = 1) -> Any:
    """A net with four variables."""
    with tf.variable_scope(scope, reuse=reuse):
        return tf.layers.dense(
            tf.layers.dense(x, 16, activation=tf.nn.relu, name="a"), width, name="b"
        )


def adam() -> Any:
    return tf.train.AdamOptimizer(0.01)


def sgd() -> Any:
    return tf.train.GradientDescentOptimizer(0.01)


@shape(Expected(["gradients"], 4, {"ApplyAdam": 4}, ["loss"]))
def plain() -> None:
    adam().minimize(square(two_layers(vectors())), name="train")


@shape(Expected(["train/gradients"], 4, {"ApplyAdam": 4}, ["loss"]))
def in_a_name_scope() -> None:
    loss = square(two_layers(vectors()))
    with tf.name_scope("train"):
        adam().minimize(loss)


@shape(Expected(["derivatives"], 4, {"ApplyGradientDescent": 4}, ["loss"]))
def gradients_by_another_name() -> None:
    loss = square(two_layers(vectors()))
    variables = tf.trainable_variables()
    sgd().apply_gradients(
        zip(tf.tuple(tf.gradients(loss, variables, name="derivatives")), variables), name="train"
    )


@shape(Expected(["gradients"], 4, {"ApplyAdam": 4}, ["loss"]))
def clipped_by_the_user() -> None:
    loss = square(two_layers(vectors()))
    gradients, variables = zip(*adam().compute_gradients(loss))
    clipped, norm = tf.clip_by_global_norm(gradients, 0.1)
    tf.summary.scalar("norm", norm)
    adam().apply_gradients(zip(clipped, variables), name="train")


@shape(
    Expected(
        ["tower_0/gradients", "tower_1/gradients"],
        8,
        {"ApplyAdam": 4},
        ["tower_0/loss", "tower_1/loss"],
    )
)
def towers() -> None:
    gradients = []
    for number, x in enumerate(tf.split(vectors(), 2)):
        with tf.name_scope("tower_%d" % number):
            gradients.append(adam().compute_gradients(square(net(x, reuse=bool(number)))))
    pairs = [
        (tf.reduce_mean(tf.stack([g for g, _ in of_one]), 0), of_one[0][1])
        for of_one in zip(*gradients)
    ]
    adam().apply_gradients(pairs, name="train")


@shape(Expected(["gradients"], 4, {"ApplyAdam": 4, "AssignAdd": 4}, ["loss"]))
def summed_over_steps() -> None:
    loss = square(two_layers(vectors()))
    pairs = adam().compute_gradients(loss)
    sums = [tf.Variable(tf.zeros(v.shape), trainable=False, name="sum") for _, v in pairs]
    tf.group(*[s.assign_add(g) for s, (g, _) in zip(sums, pairs)], name="train")
    adam().apply_gradients([(s.read_value(), v) for s, (_, v) in zip(sums, pairs)], name="apply")


@shape(Expected(["gradients"], 4, {"ApplyAdam": 4}, ["loss"]))
def accumulators() -> None:
    loss = square(two_layers(vectors()))
    pairs = adam().compute_gradients(loss)
    held = [tf.ConditionalAccumulator(tf.float32, v.shape) for _, v in pairs]
    pushed = tf.group(*[h.apply_grad(g, 1000) for h, (g, _) in zip(held, pairs)])
    with tf.control_dependencies([pushed]):
        adam().apply_gradients(
            [(h.take_grad(1), v) for h, (_, v) in zip(held, pairs)], name="train"
        )


@shape(Expected(["gradients"], 4, {"ApplyAdam": 4}, ["loss"]))
def queued() -> None:
    """Gradients go through a queue, beside the loss, which only shows."""
    loss = square(two_layers(vectors()))
    pairs = adam().compute_gradients(loss)
    queue = tf.FIFOQueue(9, 5 * [tf.float32], [*(v.shape for _, v in pairs), []])
    with tf.control_dependencies([queue.enqueue([*(g for g, _ in pairs), loss], name="put")]):
        *gradients, shown = queue.dequeue(name="take")
    tf.identity(shown, name="shown")
    adam().apply_gradients([(g, v) for g, (_, v) in zip(gradients, pairs)], name="train")


@shape(Expected(["gradients"], 4, {"ApplyAdam": 4}, ["loss"]))
def staged() -> None:
    """Gradients go through a staging area, as they do where a step applies those of the last."""
    pairs = adam().compute_gradients(square(two_layers(vectors())))
    put = tf.raw_ops.Stage(values=[g for g, _ in pairs], shared_name="gradients", name="put")
    with tf.control_dependencies([put]):
        gradients = tf.raw_ops.Unstage(dtypes=4 * [tf.float32], shared_name="gradients")
    for gradient, (_, v) in zip(gradients, pairs):
        gradient.set_shape(v.shape)
    adam().apply_gradients([(g, v) for g, (_, v) in zip(gradients, pairs)], name="train")


@shape(
    Expected(["D/gradients"], 4, {"ApplyAdam": 4}, ["D/loss"]),
    Expected(["G/gradients"], 4, {"ApplyAdam": 4}, ["G/loss"]),
)
def gan() -> None:
    fake = net(vectors(), "G", width=12)
    judged = net(fake, "D")
    with tf.name_scope("D/"):
        d = adam().minimize(square(judged - 1), var_list=tf.trainable_variables("D"))
    with tf.name_scope("G/"):
        g = adam().minimize(square(judged), var_list=tf.trainable_variables("G"))
    tf.group(d, g, name="train")


@shape(
    Expected(["D/gradients"], 4, {"ApplyAdam": 4}, ["D/loss"]),
    Expected(["G/gradients"], 4, {"ApplyAdam": 4}, ["G/loss"]),
)
def gan_in_turn() -> None:
    """The generator's losses and gradients are computed after the discriminator's update."""
    x, step = vectors(), tf.train.get_or_create_global_step()
    fake = net(x, "G", width=12)
    with tf.name_scope("D/"):
        d = adam().minimize(square(net(fake, "D") - 1), step, tf.trainable_variables("D"))
    with tf.control_dependencies([d]):
        judged = net(net(x, "G", True, 12), "D", True)
        with tf.name_scope("G/"):
            adam().minimize(square(judged), step, tf.trainable_variables("G"))
    with tf.control_dependencies([tf.get_default_graph().get_operation_by_name("G/Adam")]):
        tf.no_op("train")


@shape(
    Expected(["gradients"], 2, {"ApplyAdam": 2}, ["loss"]),
    Expected(["gradients_1"], 2, {"ApplyGradientDescent": 2}, ["loss"]),
)
def one_loss_with_two_optimizers() -> None:
    loss = square(net(vectors()))
    first = adam().minimize(loss, var_list=tf.trainable_variables("net/a"))
    tf.group(first, sgd().minimize(loss, var_list=tf.trainable_variables("net/b")), name="train")


@shape(Expected(["gradients"], 4, {"ApplyAdam": 2, "ApplyGradientDescent": 2}, ["loss"]))
def one_call_for_two_optimizers() -> None:
    loss = square(net(vectors()))
    pairs = list(
        zip(tf.tuple(tf.gradients(loss, tf.trainable_variables())), tf.trainable_variables())
    )
    tf.group(adam().apply_gradients(pairs[:2]), sgd().apply_gradients(pairs[2:]), name="train")


@shape(Expected(["gradients_1"], 3, {"ApplyAdam": 3}, ["loss"]))
def gradient_penalty() -> None:
    """The penalty's gradient is a value inside the loss, in which the last bias has no gradient."""
    x = vectors()
    with tf.variable_scope("net"):
        hidden = tf.layers.dense(x, 16, activation=tf.nn.tanh)
        y = tf.layers.dense(hidden, 1, use_bias=False)
    inner = tf.gradients(y, x)[0]
    penalty = tf.square(tf.sqrt(tf.reduce_sum(tf.square(inner), 1)) - 1)
    adam().minimize(tf.add(tf.reduce_mean(y), tf.reduce_mean(penalty), name="loss"), name="train")


@shape(
    Expected(
        ["gradients", "gradients_1"], 4, {"ApplyAdam": 4}, ["critic/b/BiasAdd", "net/b/BiasAdd"]
    )
)
def given_by_another_gradient() -> None:
    """DDPG: the critic's gradient with respect to the action seeds the actor's gradients."""
    action = net(vectors())
    value = net(action, "critic")
    by_action = tf.gradients(value, action)[0]
    actor = tf.trainable_variables("net")
    adam().apply_gradients(
        zip(tf.tuple(tf.gradients(action, actor, -by_action)), actor), name="train"
    )


@shape(Expected(["gradients"], 4, {"Assign": 4}, ["loss"]))
def assigned_by_hand() -> None:
    loss = square(two_layers(vectors()))
    variables = tf.trainable_variables()
    tf.group(
        *[
            tf.assign(v, v - 0.01 * g)
            for v, g in zip(variables, tf.tuple(tf.gradients(loss, variables)))
        ],
        name="train",
    )


@shape(Expected(["gradients"], 4, {"AssignSubVariableOp": 4}, ["net/loss"]))
def resource_variables_assigned_by_hand() -> None:
    with tf.variable_scope("net", use_resource=True):
        loss = square(two_layers(vectors()))
    variables = tf.trainable_variables()
    tf.group(
        *[
            v.assign_sub(0.01 * g, read_value=False)
            for v, g in zip(variables, tf.tuple(tf.gradients(loss, variables)))
        ],
        name="train",
    )


@shape(Expected(["gradients"], 4, {"ApplyGradientDescent": 4}, ["loss"]))
def applied_in_a_branch() -> None:
    """Every second step, by the model's own conditional."""
    steps = tf.get_variable(
        "steps", (), tf.int32, tf.zeros_initializer(), trainable=False, use_resource=False
    )
    loss = square(two_layers(vectors()))
    pairs = sgd().compute_gradients(loss)
    applied = tf.cond(tf.equal(steps % 2, 0), lambda: sgd().apply_gradients(pairs), tf.no_op)
    with tf.control_dependencies([applied]):
        tf.group(tf.assign_add(steps, 1), name="train")


@shape(Expected(["gradients"], 1, {"ScatterSub": 1}, ["loss"]))
def scattered_by_hand() -> None:
    table = tf.get_variable("table", [20, 8], use_resource=False)
    loss = square(tf.gather(table, tf.placeholder(tf.int32, (4,), "ids")))
    gradient = tf.gradients(loss, table)[0]
    tf.group(tf.scatter_sub(table, gradient.indices, gradient.values), name="train")


@shape(Expected(["gradients"], 4, {"ApplyAdam": 4}, ["loss"]))
def fed_back() -> None:
    """Gradients are fetched, processed in Python, and fed."""
    loss = square(two_layers(vectors()))
    pairs = adam().compute_gradients(loss)
    fed = [tf.placeholder(tf.float32, v.shape, "fed_%d" % i) for i, (_, v) in enumerate(pairs)]
    adam().apply_gradients([(f, v) for f, (_, v) in zip(fed, pairs)], name="train")


@shape(Expected(["gradients", "gradients_1"], 8, {"ApplyAdam": 4}, ["loss", "loss_1"]))
def fed_to_another_copy() -> None:
    """A3C: two workers' gradients are fetched, and fed to the update of a net without gradients."""
    x = vectors()
    net(x, "shared")
    fed = [
        tf.placeholder(tf.float32, v.shape, "fed_%d" % i)
        for i, v in enumerate(tf.trainable_variables("shared"))
    ]
    for name in ("worker_0", "worker_1"):
        loss = square(net(x, name))
        tf.gradients(loss, tf.trainable_variables(name))
    adam().apply_gradients(zip(fed, tf.trainable_variables("shared")), name="train")


@shape(Expected(["gradients"], 1, {"ApplyGradientDescent": 1}, ["loss"]))
def summed_in_a_scope_of_its_own() -> None:
    """A weight used four times, with its gradients summed as a tree."""
    h, w = vectors(), tf.get_variable("w", (12, 12))
    for _ in range(4):
        h = tf.tanh(tf.matmul(h, w))
    sgd().minimize(
        square(h), aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE, name="train"
    )


@shape(Expected(["gradients"], 1, {"ResourceApplyGradientDescent": 1}, ["loss"]))
def functions_for_loops() -> None:
    """Control flow of TensorFlow 2: the loop's gradient passes through a list of tensors."""
    x = vectors()
    w = tf.get_variable("w", (12, 12), use_resource=True)
    with control_flow(functions=True):
        h = tf.map_fn(lambda row: tf.tanh(tf.linalg.matvec(w, row)), x)
        h = tf.cond(tf.reduce_sum(h) > 0, lambda: tf.matmul(h, w), lambda: 2 * h)
        sgd().minimize(square(h), name="train")


@shape(
    *[
        Expected(["agent_%d/gradients" % i], 2, {"ApplyAdam": 2}, ["agent_%d/loss" % i])
        for i in range(8)
    ]
)
def many_agents() -> None:
    x = vectors()
    trains = []
    for i in range(8):
        with tf.variable_scope("agent_%d" % i):
            loss = square(tf.layers.dense(x, 4))
            trains.append(adam().minimize(loss, var_list=tf.trainable_variables("agent_%d/" % i)))
    tf.group(*trains, name="train")


@shape(Expected(["imported/gradients"], 4, {"ApplyAdam": 4}, ["imported/loss"]))
def below_an_import_scope() -> None:
    with tf.Graph().as_default():
        plain()
        meta_graph = tf.train.export_meta_graph()
    tf.train.import_meta_graph(meta_graph, import_scope="imported")


@shape(Expected(["imported/derivatives"], 4, {"ApplyGradientDescent": 4}, ["imported/loss"]))
def another_name_below_an_import_scope() -> None:
    """No name relates `imported/derivatives/loss_grad` to `imported/loss`."""
    with tf.Graph().as_default():
        gradients_by_another_name()
        meta_graph = tf.train.export_meta_graph()
    tf.train.import_meta_graph(meta_graph, import_scope="imported")


@shape(Expected(["gradients"], 2, {"ApplyGradientDescent": 2}, ["net/BiasAdd"]))
def grad_ys() -> None:
    y = tf.layers.dense(vectors(), 4, name="net")
    variables = tf.trainable_variables()
    sgd().apply_gradients(
        zip(tf.gradients(y, variables, tf.random_uniform(tf.shape(y))), variables), name="train"
    )


@shape(Expected(["gradients_1"], 4, {"ApplyAdam": 4}, ["loss"]))
def inner_steps() -> None:
    """MAML: a step of gradient descent inside the loss."""
    x = vectors()
    w = [tf.get_variable("w%d" % i, s) for i, s in enumerate([(12, 16), (16,), (16, 1), (1,)])]

    def forward(w: Any) -> Any:
        return tf.matmul(tf.tanh(tf.matmul(x, w[0]) + w[1]), w[2]) + w[3]

    inner = tf.gradients(square(forward(w), "inner"), w)
    adam().minimize(square(forward([v - 0.1 * g for v, g in zip(w, inner)])), name="train")


@shape(Expected(["gradients"], 4, {"ApplyAdam": 4}, ["loss"]))
def averages_of_losses_and_weights() -> None:
    loss = square(two_layers(vectors()))
    averages = tf.train.ExponentialMovingAverage(0.9)
    of_losses = averages.apply([loss])
    with tf.control_dependencies([of_losses]):
        step = adam().minimize(loss)
    with tf.control_dependencies([step]):
        tf.group(
            tf.train.ExponentialMovingAverage(0.99).apply(tf.trainable_variables()), name="train"
        )


@shape()
def inference() -> None:
    tf.nn.softmax(two_layers(vectors()))


@shape()
def gradients_for_a_picture() -> None:
    x = vectors()
    tf.identity(tf.gradients(square(two_layers(x)), x)[0], name="saliency")


@shape()
def gradients_into_an_average() -> None:
    """A variable with the average of gradient norms is not trained."""
    x = vectors()
    norm = tf.norm(tf.gradients(square(two_layers(x)), x)[0])
    tf.train.ExponentialMovingAverage(0.9).apply([norm])
