"""Make the recorded graphs of this folder: training graphs of four kinds.

    python tests/data/make.py            # write those made by the installed TensorFlow
    python tests/data/make.py --check    # print which of them are stale

Each graph is made by one version of TensorFlow, which makes the same bytes in any process.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any, Callable, Dict, List, Tuple

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # TensorFlow reads it on import

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import control_flow_pb2

FOLDER = pathlib.Path(__file__).resolve().parent
OLD, NEW = "1.15.5", "2.21.0"
LATER = {
    "AssignVariableOp": ["validate_shape"],
    "MatMul": ["grad_a", "grad_b"],
    "VarHandleOp": ["debug_name"],
}  # attributes unknown to 1.15.5


def images() -> None:
    """Reference variables, batch normalisation with update ops, weight decay, Momentum.

    It has a summary and a Saver.
    """
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], "images")
    labels = tf.placeholder(tf.int32, [None], "labels")
    decay = tf.keras.regularizers.l2(1e-4)
    hidden = tf.layers.conv2d(x, 8, 3, use_bias=False, kernel_regularizer=decay, name="conv")
    hidden = tf.nn.relu(
        tf.layers.batch_normalization(hidden, training=True, fused=True, name="norm")
    )
    logits = tf.layers.dense(tf.layers.flatten(hidden), 10, kernel_regularizer=decay, name="logits")
    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = tf.losses.get_total_loss(name="total_loss")
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, step)
    tf.summary.scalar("loss", loss)
    tf.train.Saver()


def words() -> None:
    """Reference variables, a while loop of LSTM steps, and the gradient of an embedding's rows.

    It has clipping by the global norm, and Adam.
    """
    tokens = tf.placeholder(tf.int32, [None, 6], "tokens")
    embedding = tf.get_variable("embedding", [40, 8])
    inputs = tf.nn.embedding_lookup(embedding, tokens)
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(8), inputs, dtype=tf.float32)
    logits = tf.layers.dense(outputs, 40, name="logits")
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens, logits=logits), name="loss"
    )
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    tf.train.AdamOptimizer(0.001).apply_gradients(zip(gradients, variables), name="train")


def keras_layers() -> None:
    """Resource variables of Keras's layers, dropout, RMSProp."""
    layers = tf.keras.layers
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], "images")
    labels = tf.placeholder(tf.float32, [None, 4], "labels")
    hidden = layers.Conv2D(8, 3, activation="relu", name="conv")(x)
    hidden = layers.MaxPooling2D(2, name="pool")(hidden)
    hidden = layers.Dropout(0.25, seed=1, name="dropout")(
        layers.Flatten(name="flat")(hidden), training=True
    )
    logits = layers.Dense(4, name="logits")(
        layers.Dense(16, activation="relu", name="hidden")(hidden)
    )
    loss = tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits), name="loss"
    )
    tf.train.RMSPropOptimizer(0.001).minimize(loss, name="train")


def gan() -> None:
    """Resource variables, a data set's iterator, and two losses with an Adam each.

    No collection names the losses.
    """
    pictures = (
        tf.data.Dataset.from_tensor_slices([[0.0] * 16, [1.0] * 16])
        .repeat()
        .batch(4, drop_remainder=True)
    )
    real = tf.data.make_initializable_iterator(pictures).get_next("real")
    noise = tf.placeholder(tf.float32, [4, 8], "noise")

    def dense(x: Any, size: int, name: str) -> Any:
        weights = tf.get_variable(name + "/w", [x.shape[-1], size], use_resource=True)
        bias = tf.get_variable(
            name + "/b", [size], initializer=tf.zeros_initializer(), use_resource=True
        )
        return tf.nn.bias_add(tf.matmul(x, weights), bias)

    def judged(x: Any) -> Any:
        with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
            return dense(tf.nn.leaky_relu(dense(x, 16, "hidden")), 1, "logits")

    def entropy(target: float, logits: Any) -> Any:
        return tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(
                labels=target * tf.ones_like(logits), logits=logits
            )
        )

    with tf.variable_scope("generator"):
        made = tf.nn.sigmoid(dense(noise, 16, "pictures"))
    on_made = judged(made)
    losses = {
        "discriminator": entropy(1.0, judged(real)) + entropy(0.0, on_made),
        "generator": entropy(1.0, on_made),
    }
    for name, loss in losses.items():
        tf.train.AdamOptimizer(0.0002, 0.5).minimize(
            loss, var_list=tf.trainable_variables(name), name="train_" + name
        )


GRAPHS: Dict[str, Tuple[str, Callable[[], None]]] = {
    "images": (OLD, images),
    "words": (OLD, words),
    "keras_layers": (NEW, keras_layers),
    "gan": (NEW, gan),
}


def made_here() -> List[str]:
    """The names of the graphs made by the installed TensorFlow."""
    return [name for name, (version, _) in GRAPHS.items() if version == tf.__version__]


def built(name: str) -> tf.MetaGraphDef:
    """A graph, as exported by its TensorFlow, without attributes unknown to TensorFlow 1.15.5."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        GRAPHS[name][1]()
        meta_graph = tf.train.export_meta_graph(strip_default_attrs=True)
    meta_graph.meta_info_def.tensorflow_git_version = ""
    for node in meta_graph.graph_def.node:
        for name in LATER.get(node.op, ()):
            node.attr.pop(name, None)
    if tf.GraphKeys.WHILE_CONTEXT in meta_graph.collection_def:
        contexts = meta_graph.collection_def[tf.GraphKeys.WHILE_CONTEXT].bytes_list.value
        contexts[:] = [with_sorted_values(context) for context in contexts]
    return meta_graph


def with_sorted_values(context: bytes) -> bytes:
    """A WhileContextDef with its values sorted; TensorFlow keeps them in a set."""
    message = control_flow_pb2.WhileContextDef.FromString(context)
    message.values_def.values.sort()
    return message.SerializeToString(deterministic=True)


def main(flags: List[str]) -> int:
    """Write or check the graphs; return the exit status."""
    if tf.__version__ > "2":
        tf.disable_v2_behavior()
    stale = []
    for name in made_here():
        data, path = built(name).SerializeToString(deterministic=True), FOLDER / (name + ".meta")
        if flags == ["--check"]:
            stale += [] if path.read_bytes() == data else [path.name]
        else:
            path.write_bytes(data)
    print(
        "stale: %s" % ", ".join(stale)
        if stale
        else "%s: %s" % (tf.__version__, ", ".join(made_here()) or "makes none of them")
    )
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
