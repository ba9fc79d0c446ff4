"""A deep Q-network in float32, as TensorFlow 1 code: replay memory and a target network.

    python examples/dqn.py --smoke
    graphmp convert examples/dqn.py
    graphmp run --compute_dtype=bfloat16 examples/dqn.py --smoke

The network of Mnih et al. (2013, arXiv:1312.5602, section 4.1), which reads the last four screens,
with the target network and bounded errors of their later work. The game is Catch: a ball falls, and
a paddle at the bottom moves left, stays or moves right; a caught ball is worth 1, a missed one -1.
The network plays while it learns, in the session that trains it.
"""

import numpy as np
import training  # before TensorFlow: see training.py

# isort: split
import tensorflow.compat.v1 as tf

SIZES = {
    "batch_size": (32, 64, "moves a step"),
    "steps": (5000, 200, "training steps"),
    "screen_size": (84, 24, "height and width of a screen, 20 at least"),
    "fields": (12, 4, "fields of the game, in height and width"),
    "width": (16, 8, "channels of the first convolution"),
    "learning_rate": (2.5e-4, 3e-2, "of RMSProp"),
    "memory": (
        10000,
        1000,
        "moves that are remembered, and played at random before the first step",
    ),
    "copy_every": (500, 20, "steps from one copy of the network to the next"),
}
MOVES = 3  # left, none, right
SCREENS = 4  # read by the network, the last one last
DISCOUNT = 0.99
RANDOM = 0.1  # share of random moves


def build_training_model(screens, moves, rewards, following, ended, width, learning_rate):
    """Build the network and its target, its loss and its training op.

    Args:
        screens: float32 from 0 to 1, (batch, height, width, SCREENS).
        moves: the moves played, int32, (batch,).
        rewards: their rewards, float32, (batch,).
        following: the screens after the move, like `screens`.
        ended: 1.0 if the game was over then, else 0.0, (batch,).
        width: channels of the first convolution.
        learning_rate: of RMSProp.

    Returns:
        The estimated value of each move, (batch, MOVES), the op that copies the network into its
        target, the loss, and the op that trains one step.
    """
    values = network(screens, width, "network")
    targets = network(following, width, "target")
    wanted = rewards + DISCOUNT * (1.0 - ended) * tf.cast(
        tf.reduce_max(targets, axis=1), tf.float32
    )
    found = tf.reduce_sum(tf.one_hot(moves, MOVES, dtype=values.dtype) * values, axis=1)
    loss = tf.losses.huber_loss(tf.stop_gradient(wanted), found)
    learnt, copies = (tf.trainable_variables(scope) for scope in ("network", "target"))
    copy = tf.group(*(tf.assign(after, before) for after, before in zip(copies, learnt)))
    optimizer = tf.train.RMSPropOptimizer(learning_rate, decay=0.95, epsilon=0.01)
    return (
        values,
        copy,
        loss,
        optimizer.minimize(loss, tf.train.get_or_create_global_step(), var_list=learnt),
    )


def network(top, width, name):
    """The estimated value of each move on these screens."""
    with tf.variable_scope(name):
        top = tf.layers.conv2d(top, width, 8, 4, activation=tf.nn.relu)
        top = tf.layers.conv2d(top, 2 * width, 4, 2, activation=tf.nn.relu)
        return tf.layers.dense(
            tf.layers.dense(tf.layers.flatten(top), 16 * width, tf.nn.relu), MOVES
        )


class Catch:
    """The game; `screens` are its last four screens."""

    def __init__(self, fields, size, random):
        self._fields = fields
        self._shown = np.arange(size) * fields // size  # the field of a row or column of the screen
        self._random = random
        self._begin()

    def _begin(self):
        self._ball, self._paddle, self._height = *self._random.randint(0, self._fields, 2), 0
        self.screens = np.stack([self._screen()] * SCREENS, axis=2)

    def _screen(self):
        fields = np.zeros([self._fields, self._fields], np.bool_)
        fields[self._height, self._ball] = fields[-1, self._paddle] = True
        return fields[self._shown][:, self._shown]

    def play(self, move):
        """Play move 0, 1 or 2, and start a new game if this one ends.

        Returns:
            The reward, the screens after the move, and whether the game was over.
        """
        self._paddle = min(max(self._paddle + move - 1, 0), self._fields - 1)
        self._height += 1
        following = np.concatenate([self.screens[..., 1:], self._screen()[..., None]], axis=2)
        ended = self._height == self._fields - 1
        reward = float(ended) * (1.0 if self._ball == self._paddle else -1.0)
        self.screens = following
        if ended:
            self._begin()
        return reward, following, float(ended)


def batches(flags, screens, values, copy):
    """Endless batches of remembered moves.

    One move is played and remembered per step: the best one, or a random one.
    """
    random = np.random.RandomState(flags.seed)
    game, memory = Catch(flags.fields, flags.screen_size, random), []

    def play(move):
        memory.append((game.screens, move, *game.play(move)))

    while len(memory) < flags.memory:
        play(random.randint(MOVES))
    step = 0
    while True:
        session = tf.get_default_session()
        if step % flags.copy_every == 0:
            session.run(copy)
        chosen = zip(*(memory[place] for place in random.randint(0, len(memory), flags.batch_size)))
        yield tuple(map(np.array, chosen))
        best = (
            random.randint(MOVES)
            if random.uniform() < RANDOM
            else session.run(values, {screens: [game.screens]}).argmax()
        )
        memory.pop(0)
        play(best)
        step += 1


def main():
    """Play, and train on the moves."""
    flags = training.start(__doc__, SIZES)
    shape = [None, flags.screen_size, flags.screen_size, SCREENS]
    screens, following = (
        tf.placeholder(tf.float32, shape, name=name) for name in ("screens", "following")
    )
    moves = tf.placeholder(tf.int32, [None], name="moves")
    rewards, ended = (
        tf.placeholder(tf.float32, [None], name=name) for name in ("rewards", "ended")
    )
    inputs = screens, moves, rewards, following, ended
    build = training.precision(flags)(build_training_model)
    values, copy, loss, train_op = build(*inputs, flags.width, flags.learning_rate)
    training.train(
        flags,
        {"loss": loss},
        train_op,
        inputs,
        batches(flags, screens, values, copy),
        flags.batch_size,
        "moves",
    )


if __name__ == "__main__":
    main()
