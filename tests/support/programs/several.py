"""Programs with several losses: in turn, at once, or one inside the other."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tests.support.programs.registry import (
    apply,
    data,
    error,
    net,
    program,
    sgd,
    two_weights,
    weights,
)


@program()
def maml(clip):
    """Two inner steps, differentiated through."""
    x, y = data()
    variables = two_weights()
    fast = list(variables)
    for n in range(2):
        inner = tf.gradients(error(net(x[:4], *fast), y[:4], "inner_%d" % n), fast)
        fast = [v - 0.2 * g for v, g in zip(fast, inner)]
    apply(clip(tf.gradients(error(net(x[4:], *fast), y[4:], "outer"), variables)), variables)


@program()
def maml_of_first_order(clip):
    """Two inner steps without gradients through their gradients."""
    x, y = data()
    variables = two_weights()
    fast = list(variables)
    for n in range(2):
        inner = tf.gradients(error(net(x[:4], *fast), y[:4], "inner_%d" % n), fast)
        fast = [v - 0.2 * tf.stop_gradient(g) for v, g in zip(fast, inner)]
    apply(clip(tf.gradients(error(net(x[4:], *fast), y[4:], "outer"), variables)), variables)


@program(train=["train_rates", "train"], scales=2, clips=False)
def gradient_norms(clip):
    """GradNorm: the weights of two losses are trained by the norms of the losses' gradients."""
    x, y = data()
    variables, shares = (
        two_weights(),
        tf.get_variable("shares", (2,), initializer=tf.initializers.constant([1.0, 0.5])),
    )
    output = net(x, *variables)
    losses = [
        shares[n] * error(output, target, "loss_%d" % n) for n, target in enumerate((y, -2 * y))
    ]
    norms = [tf.norm(tf.gradients(loss, variables[0])[0]) for loss in losses]
    mean = tf.stop_gradient(tf.add_n(norms) / 2)
    of_norms = tf.add_n([tf.abs(norm - mean) for norm in norms], name="of_norms")
    apply(clip(tf.gradients(of_norms, [shares])), [shares], "train_rates")
    apply(clip(tf.gradients(tf.add_n(losses), variables)), variables)


@program(scales=2, exceptions=["shares", "first second"], clips=False)
def gradient_norms_at_once(clip):
    """GradNorm, a group of two updates that can be run separately."""
    x, y = data()
    variables, shares = (
        two_weights(),
        tf.get_variable("shares", (2,), initializer=tf.initializers.constant([1.0, 0.5])),
    )
    output = net(x, *variables)
    losses = [
        shares[n] * error(output, target, "loss_%d" % n) for n, target in enumerate((y, -2 * y))
    ]
    norms = [tf.norm(tf.gradients(loss, variables[0])[0]) for loss in losses]
    mean = tf.stop_gradient(tf.add_n(norms) / 2)
    by_shares = tf.gradients(
        tf.add_n([tf.abs(norm - mean) for norm in norms], name="of_norms"), [shares]
    )
    gradients = clip(by_shares + tf.gradients(tf.add_n(losses), variables))
    tf.group(
        apply(gradients[:1], [shares], "of_shares"),
        apply(gradients[1:], variables, "step"),
        name="train",
    )


@program(train=["train_mixture", "train"], scales=2, clips=False)
def architecture_search(clip):
    """DARTS: a mixture of two operations is trained through a step of the weights."""
    x, y = data()
    variables, mixture = two_weights(), weights("mixture", 2)

    def mixed(first, second):
        share = tf.nn.softmax(mixture)
        hidden = tf.matmul(x, first)
        return tf.matmul(share[0] * tf.tanh(hidden) + share[1] * tf.nn.relu(hidden), second)

    gradients = tf.gradients(error(mixed(*variables), y, "training"), variables)
    ahead = [v - 0.2 * g for v, g in zip(variables, gradients)]
    apply(
        clip(tf.gradients(error(mixed(*ahead), y + 0.1, "validation"), [mixture])),
        [mixture],
        "train_mixture",
    )
    apply(clip(gradients), variables)


@program(clips=False)
def architecture_search_at_once(clip):
    """DARTS in one group: the inner gradient trains too."""
    x, y = data()
    variables, mixture = two_weights(), weights("mixture", 2)

    def mixed(first, second):
        share = tf.nn.softmax(mixture)
        hidden = tf.matmul(x, first)
        return tf.matmul(share[0] * tf.tanh(hidden) + share[1] * tf.nn.relu(hidden), second)

    gradients = tf.gradients(error(mixed(*variables), y, "training"), variables)
    ahead = [v - 0.2 * g for v, g in zip(variables, gradients)]
    by_mixture = tf.gradients(error(mixed(*ahead), y + 0.1, "validation"), [mixture])
    apply(clip(by_mixture + gradients), [mixture] + variables)


def adversaries():
    """The output of a generator, the critic's scores of data and of it, and the weights of both."""
    x, _ = data()
    noise = tf.placeholder(tf.float32, (8, 3), "z")
    generator = [weights("made/first", 3, 4), weights("made/second", 4, 6)]
    critic = two_weights("critic/")
    made = net(noise, *generator)
    return x, made, net(x, *critic), net(made, *critic), generator, critic


def cross_entropy(logits, of_data):
    target = tf.ones_like(logits) if of_data else tf.zeros_like(logits)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=logits))


@program(train=["train_critic", "train"], scales=2, clips=False)
def critic_with_gradient_penalty(clip):
    """WGAN-GP: updates in turn; both count the same global step."""
    x, made, of_data, of_made, generator, critic = adversaries()
    between = 0.25 * x + 0.75 * made
    (slope,) = tf.gradients(net(between, *critic), between)
    penalty = tf.reduce_mean(tf.square(tf.sqrt(tf.reduce_sum(tf.square(slope), 1) + 1e-6) - 1))
    of_critic = tf.add(
        tf.reduce_mean(of_made) - tf.reduce_mean(of_data), 10 * penalty, name="of_critic"
    )
    step = tf.train.get_or_create_global_step()
    sgd(0.05).apply_gradients(
        zip(clip(tf.gradients(of_critic, critic)), critic), step, "train_critic"
    )
    sgd(0.05).apply_gradients(
        zip(clip(tf.gradients(-tf.reduce_mean(of_made), generator)), generator), step, "train"
    )


@program(train=["train_critic", "train"], scales=2, clips=False)
def adversaries_in_turn(clip):
    """A GAN: two Adams; both count the same global step."""
    _, _, of_data, of_made, generator, critic = adversaries()
    step = tf.train.get_or_create_global_step()
    of_critic = cross_entropy(of_data, True) + cross_entropy(of_made, False)
    adam = tf.train.AdamOptimizer(0.1).apply_gradients(
        zip(clip(tf.gradients(of_critic, critic)), critic), step
    )
    tf.group(adam, name="train_critic")
    tf.train.AdamOptimizer(0.1).apply_gradients(
        zip(clip(tf.gradients(cross_entropy(of_made, True), generator)), generator), step, "train"
    )


@program(scales=2, exceptions=["critic/first critic/second", "made/first made/second"], clips=False)
def adversaries_at_once(clip):
    """A GAN: a group of two updates that can be run separately."""
    _, _, of_data, of_made, generator, critic = adversaries()
    of_critic = cross_entropy(of_data, True) + cross_entropy(of_made, False)
    by_critic, by_generator = (
        tf.gradients(of_critic, critic),
        tf.gradients(cross_entropy(of_made, True), generator),
    )
    gradients = clip(by_critic + by_generator)
    tf.group(
        apply(gradients[:2], critic, "of_critic"),
        apply(gradients[2:], generator, "of_generator"),
        name="train",
    )


@program()
def adversaries_in_one_group(clip):
    """A GAN: all writes in one group, none of which runs without the others."""
    _, _, of_data, of_made, generator, critic = adversaries()
    of_critic = cross_entropy(of_data, True) + cross_entropy(of_made, False)
    by_critic, by_generator = (
        tf.gradients(of_critic, critic),
        tf.gradients(cross_entropy(of_made, True), generator),
    )
    gradients = clip(by_critic + by_generator)
    tf.group(
        *[tf.assign_sub(v, 0.25 * g) for v, g in zip(critic + generator, gradients)], name="train"
    )


@program(scales=2, exceptions=["critic/first critic/second", "made/first made/second"], clips=False)
def adversaries_one_after_the_other(clip):
    """A GAN in one train op, in which the generator's gradients wait for the critic's update.

    Each of the two losses thus has its own scale.
    """
    _, made, of_data, of_made, generator, critic = adversaries()
    of_critic = cross_entropy(of_data, True) + cross_entropy(of_made, False)
    first = apply(clip(tf.gradients(of_critic, critic)), critic, "of_critic")
    with tf.control_dependencies([first]):
        opinion = net(made, *[v.read_value() for v in critic])
        gradients = tf.gradients(cross_entropy(opinion, True), generator)
        apply(clip(gradients), generator)


@program()
def adversaries_with_consensus(clip):
    """Consensus optimisation of a GAN: each gradient plus that of the squared norm of both."""
    _, _, of_data, of_made, generator, critic = adversaries()
    of_critic = cross_entropy(of_data, True) + cross_entropy(of_made, False)
    gradients = tf.gradients(of_critic, critic) + tf.gradients(
        cross_entropy(of_made, True), generator
    )
    more = tf.gradients(
        tf.add_n([tf.reduce_sum(tf.square(g)) for g in gradients]) / 2, critic + generator
    )
    apply(clip([g + 0.1 * m for g, m in zip(gradients, more)]), critic + generator)


@program(train=["train_head", "train"], scales=2, clips=False)
def gradients_of_another_in_gradient_code(clip):
    """A custom gradient adds, compares and multiplies gradients of a loss with its own scale."""
    x, y = data()
    first, second = two_weights()
    head = weights("head", 4, 2)
    hidden = tf.tanh(tf.matmul(x, first))
    of_head = error(tf.matmul(hidden, head), -2 * y, "of_head")
    by_head, theirs = tf.gradients(of_head, [head, hidden])
    apply(clip([by_head]), [head], "train_head")

    @tf.custom_gradient
    def with_theirs(value):
        return tf.identity(value), lambda g: tf.maximum(g + theirs, -theirs) * (1 + theirs * theirs)

    output = tf.matmul(with_theirs(hidden), second)
    apply(clip(tf.gradients(error(output, y), [first, second])), [first, second])


@program(train=["train_critic", "train"], scales=2, clips=False)
def actor_by_its_critics_gradient(clip):
    """DDPG: the critic's gradient by the action is what the actor's gradients start from."""
    x, y = data()
    first, second = two_weights("critic/")
    actor = weights("actor", 6, 6)
    action = tf.tanh(tf.matmul(x, actor))
    of_critic = error(net(x + tf.stop_gradient(action), first, second), y, "of_critic")
    apply(clip(tf.gradients(of_critic, [first, second])), [first, second], "train_critic")
    (by_action,) = tf.gradients(net(x + action, first, second), action)
    apply(clip(tf.gradients(action, [actor], grad_ys=[-by_action])), [actor])


@program(train=["train_head", "train"], clips=False)
def started_by_anothers_gradient(clip):
    """What one step is trained by starts the gradients of another, as it is: they are one loss."""
    x, y = data()
    first, second = two_weights()
    hidden = tf.tanh(tf.matmul(x, first))
    by_second, by_hidden = tf.gradients(
        error(tf.matmul(hidden, second), y, "of_head"), [second, hidden]
    )
    apply(clip([by_second]), [second], "train_head")
    apply(clip(tf.gradients(hidden, [first], grad_ys=[by_hidden])), [first])
