"""Trains a converted graph on random batches, in a process that knows nothing of the model's source.

    graphmp convert examples/simple_cnn.py -o out -- --smoke
    python examples/run_converted.py out

It reads DIR/converted.meta and runs what the graph's collections call `train_op` and `losses`.
"""

import argparse
import pathlib
import time

import graphmp  # before TensorFlow, which reads its settings when it is imported

# isort: split
import numpy as np
import tensorflow.compat.v1 as tf

LOSS_SCALE = "graphmp/loss_scale/current:0"
CROSS_ENTROPY = ("SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits")


def parse_flags():
    """The command line."""
    parser = argparse.ArgumentParser(description="Trains a converted graph on random batches.")
    parser.add_argument("folder", metavar="DIR", type=pathlib.Path, help="what `graphmp convert` wrote")
    parser.add_argument("--batch_size", type=int, default=8, help="for dimensions that the graph leaves open (default 8)")
    parser.add_argument("--steps", type=int, default=20, help="training steps (default 20)")
    return parser.parse_args()


def number_of_classes(graph):
    """How many classes the loss tells apart; 2 where nothing says."""
    logits = [op.inputs[0] for op in graph.get_operations() if op.type in CROSS_ENTROPY]
    return min([tensor.shape[-1].value or 2 for tensor in logits], default=2)


def random_batch(placeholder, batch_size, classes, random):
    """Random values of a placeholder's shape and dtype: classes for integers, -1 to 1 for floats."""
    shape = [batch_size if size is None else size for size in placeholder.shape.as_list()]
    if placeholder.dtype.is_integer:
        return random.randint(0, classes, shape).astype(placeholder.dtype.as_numpy_dtype)
    return random.uniform(-1, 1, shape).astype(placeholder.dtype.as_numpy_dtype)


def collected(graph, name):
    """The entries of a collection; without any the graph cannot be trained by name."""
    entries = graph.get_collection(name)
    if not entries:
        raise SystemExit("run_converted: the graph has no collection %r" % name)
    return entries


def main():
    """Trains, and prints each step's loss and the images a second."""
    flags = parse_flags()
    if tf.__version__ >= "2":
        tf.disable_v2_behavior()
    tf.train.import_meta_graph(str(flags.folder / "converted.meta"))
    graph = tf.get_default_graph()
    train_ops, losses = collected(graph, tf.GraphKeys.TRAIN_OP), collected(graph, tf.GraphKeys.LOSSES)
    scales = [LOSS_SCALE] if LOSS_SCALE.split(":")[0] in {op.name for op in graph.get_operations()} else []
    placeholders = [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]
    random = np.random.RandomState(1)
    classes = number_of_classes(graph)
    feeds = {placeholder: random_batch(placeholder, flags.batch_size, classes, random) for placeholder in placeholders}
    with tf.Session(graph=graph, config=graphmp.session_config()) as session:
        session.run(tf.global_variables_initializer())
        for step in range(flags.steps):
            start = time.time()
            values, scale, _ = session.run([losses, scales, train_ops], feeds)
            speed = flags.batch_size / (time.time() - start)
            text = "step %2d  loss %.4f  %7.1f images/s" % (step + 1, sum(values), speed)
            print(text + "".join("  loss scale %g" % value for value in scale))


if __name__ == "__main__":
    main()
