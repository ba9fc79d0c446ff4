"""The recipe of NVIDIA's talks on mixed precision, step by step, by hand.

    python examples/talk_steps.py -o talk_steps

Writes six graphs of one small model as .meta files and the five diffs between them as pages, and
prints short diffs. The steps, which `graphmp convert` does automatically, are: float16 (the images
are cast, and the model is float16), float32_loss (the logits are cast back), float32_storage (the
variables are float32 again and cast where they are read), loss_scale (the loss is multiplied, the
gradients are divided) and clip (of the gradients, by their global norm). The model is that of
simple_cnn.py.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault(
    "TF_USE_LEGACY_KERAS", "1"
)  # tf.layers needs Keras 2 on TensorFlow 2.16 and later
import tensorflow.compat.v1 as tf

import graphmp

STEPS = ("original", "float16", "float32_loss", "float32_storage", "loss_scale", "clip")
LOSS_SCALE = 128.0
CLIP_NORM = 5.0
MOST_LINES = 12  # printed lines per category of changes


def build_training_model(inputs, labels, nlabel, step, data_format="channels_first"):
    """Build the model, its loss and its training op, after a step of the recipe.

    Args:
        inputs: float32 images, (batch, 3, height, width), or (batch, height, width, 3) for channels
            last.
        labels: int32 classes, (batch,).
        nlabel: the number of classes.
        step: one of STEPS, applied with all steps before it.
        data_format: channels_first or channels_last.

    Returns:
        `inputs`, `labels`, the mean loss, and the op that trains one step.
    """
    done = STEPS[: STEPS.index(step) + 1]
    images = tf.cast(inputs, tf.float16) if "float16" in done else inputs
    getter = float32_variable_storage_getter if "float32_storage" in done else None
    with tf.variable_scope(tf.get_variable_scope(), custom_getter=getter):
        logits = forward(images, nlabel, data_format)
    logits = tf.cast(logits, tf.float32) if "float32_loss" in done else logits
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = tf.train.MomentumOptimizer(0.01, 0.9)
    if "loss_scale" in done:
        gradients, variables = zip(*optimizer.compute_gradients(loss * LOSS_SCALE))
        gradients = [gradient / LOSS_SCALE for gradient in gradients]
    else:
        gradients, variables = zip(*optimizer.compute_gradients(loss))
    if "clip" in done:
        gradients, _ = tf.clip_by_global_norm(gradients, CLIP_NORM)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.apply_gradients(zip(gradients, variables))
    return inputs, labels, loss, train_op


def forward(images, nlabel, data_format):
    """The logits, in the dtype of the images."""
    axis = 1 if data_format == "channels_first" else 3
    top = tf.layers.conv2d(
        images, 64, 7, padding="SAME", use_bias=False, data_format=data_format, name="conv"
    )
    top = tf.layers.batch_normalization(top, axis=axis, training=True, fused=True, name="norm")
    top = tf.layers.max_pooling2d(top, 2, 2, data_format=data_format, name="pool")
    top = tf.layers.flatten(top, name="flatten")
    top = tf.layers.dense(top, 128, activation=tf.nn.relu, name="hidden")
    return tf.layers.dense(top, nlabel, name="logits")


def float32_variable_storage_getter(
    getter, name, shape=None, dtype=None, trainable=None, **options
):
    """Store a trainable float16 variable in float32, and cast it where it is read."""
    is_half = (
        dtype == tf.float16 and trainable is not False
    )  # None, the default of tf.get_variable, means trainable
    variable = getter(
        name, shape, dtype=tf.float32 if is_half else dtype, trainable=trainable, **options
    )
    return tf.cast(variable, tf.float16, name=name + "/float16") if is_half else variable


def step_graph(step, flags):
    """The MetaGraphDef of a step."""
    size = flags.image_size
    shape = (3, size, size) if flags.data_format == "channels_first" else (size, size, 3)
    with tf.Graph().as_default():
        inputs = tf.placeholder(tf.float32, (None,) + shape, name="inputs")
        labels = tf.placeholder(tf.int32, (None,), name="labels")
        build_training_model(inputs, labels, flags.nlabel, step, flags.data_format)
        return tf.train.export_meta_graph(clear_extraneous_savers=True)


def in_short(diff):
    """The diff as text, with at most a few lines per category."""
    for paragraph in diff.to_text().split("\n\n"):
        lines = paragraph.splitlines()
        left = len(lines) - MOST_LINES
        yield "\n".join(lines[:MOST_LINES] + (["  and %d more lines" % left] if left > 0 else []))


def parse_flags():
    """The parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-o", "--output", default="talk_steps", help="folder to write to (default talk_steps)"
    )
    parser.add_argument(
        "--data_format", choices=["channels_first", "channels_last"], default="channels_first"
    )
    parser.add_argument(
        "--image_size", type=int, default=224, help="height and width of the images (default 224)"
    )
    parser.add_argument("--nlabel", type=int, default=1000, help="classes (default 1000)")
    return parser.parse_args()


def main():
    """Write graphs and pages, and print the diffs."""
    flags = parse_flags()
    if tf.__version__ >= "2":
        tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    os.makedirs(flags.output, exist_ok=True)
    graphs = [step_graph(step, flags) for step in STEPS]
    for number, (step, graph) in enumerate(zip(STEPS, graphs)):
        tf.train.write_graph(graph, flags.output, "%d_%s.meta" % (number, step), as_text=False)
        if number:
            diff = graphmp.diff(graphs[number - 1], graph, names=(STEPS[number - 1], step))
            diff.to_html(os.path.join(flags.output, "%d_%s.html" % (number, step)))
            print("\n== %s -> %s\n" % (STEPS[number - 1], step) + "\n\n".join(in_short(diff)))
    print(
        "\nwrote %d graphs and %d pages into %s; next: graphmp diff %s/0_original.meta "
        "%s/5_clip.meta" % (len(graphs), len(graphs) - 1, *[flags.output] * 3)
    )


if __name__ == "__main__":
    main()
