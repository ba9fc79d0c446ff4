"""Code shared by the examples: command line, made-up data, and the training loop.

It uses graphmp only with --mixed_precision. Import it before TensorFlow, which reads two of its
settings on import.
"""

import argparse
import contextlib
import itertools
import os
import sys
import time
import warnings

import numpy as np
from rich.progress import Progress

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault(
    "TF_USE_LEGACY_KERAS", "1"
)  # tf.layers and the RNN cells need Keras 2 on TensorFlow 2.16 and later
import plotting
import tensorflow.compat.v1 as tf

IMAGENET = {  # sizes of an ImageNet classifier, for `start`
    "batch_size": (64, 16, "images a step"),
    "steps": (100, 20, "training steps"),
    "image_size": (224, 32, "height and width of the images"),
    "classes": (1000, 10, "classes to tell apart"),
}
FIRST_TOKEN = 2  # of made-up sentences; lower ones are free for padding and the like
_PATTERN = 4  # height and width of the coarse pattern of a class of images
_BATCHES = 4  # reused batches of images: making images takes longer than training on a GPU


def start(description, sizes, data_format=False):
    """Parse the command line and set up TensorFlow.

    That is version 1 behaviour, the seed, and no deprecation warnings.

    Args:
        description: the example's docstring, for --help.
        sizes: the example's own flags, among them `batch_size` and `steps`: by name the default,
            the value for --smoke, a description and, if only a few values are accepted, these.
        data_format: whether the example takes --data_format.

    Returns:
        The flags.
    """
    flags = _parse_flags(description, sizes, data_format)
    warnings.filterwarnings("ignore", message="`tf[.].*is deprecated")
    tf.logging.set_verbosity(tf.logging.ERROR)
    if tf.__version__ >= "2":
        tf.disable_v2_behavior()
    tf.set_random_seed(flags.seed)
    return flags


def _parse_flags(description, sizes, data_format):
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="small sizes and few steps, for a laptop; other flags override it",
    )
    for name, (full, smoke, text, *accepted) in sizes.items():
        parser.add_argument(
            "--" + name,
            type=type(full),
            choices=accepted or None,
            help="%s (default %s; smoke %s)" % (text, full, smoke),
        )
    parser.set_defaults(data_format="channels_last")
    if data_format:
        parser.add_argument("--data_format", choices=["channels_last", "channels_first"])
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the initial values and the data (default 1)"
    )
    parser.add_argument(
        "--log_every",
        type=int,
        default=10,
        help="steps between printed losses (default 10)",
    )
    parser.add_argument(
        "--mixed_precision",
        action="store_true",
        help="build the model through graphmp.mixed_precision",
    )
    parser.add_argument(
        "--compute_dtype",
        choices=["float16", "bfloat16"],
        help="compute dtype of --mixed_precision (default float16)",
    )
    parser.add_argument(
        "--loss_scale", help="loss scale of --mixed_precision: dynamic, none or a number"
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the losses and loss scales of all steps: .png or .svg; needs matplotlib",
    )
    flags = parser.parse_args()
    for name, (full, smoke, *_) in sizes.items():
        if getattr(flags, name) is None:
            setattr(flags, name, smoke if flags.smoke else full)
    for name in list(sizes) + ["log_every"]:
        value = getattr(flags, name)
        if not isinstance(value, str) and value <= 0:
            parser.error("argument --%s: found %s, accepted is a number above 0" % (name, value))
    if (flags.compute_dtype or flags.loss_scale) and not flags.mixed_precision:
        parser.error("arguments --compute_dtype and --loss_scale: they need --mixed_precision")
    if flags.plot and plotting.obstacle(flags.plot):
        parser.error("argument --plot: %s" % plotting.obstacle(flags.plot))
    return flags


def refuse(text):
    """End the program with status 2 and one line on stderr: the problem, and what is accepted."""
    print("%s: error: %s" % (os.path.basename(sys.argv[0]), text), file=sys.stderr)
    raise SystemExit(2)


def precision(flags):
    """A decorator for the build function: graphmp's for --mixed_precision, else the identity."""
    if not flags.mixed_precision:
        return lambda build: build
    import graphmp

    given = {"compute_dtype": flags.compute_dtype, "loss_scale": flags.loss_scale}
    try:
        return graphmp.mixed_precision(**{name: value for name, value in given.items() if value})
    except graphmp.GraphmpError as error:
        print("graphmp: error %s" % error, file=sys.stderr)
        raise SystemExit(2) from None


def session_config():
    """A configuration for channels-first convolutions on the CPU of TensorFlow 2.

    1.15 lacks the option.
    """
    config = tf.ConfigProto()
    rewrites = config.graph_options.rewrite_options
    if hasattr(rewrites, "cpu_layout_conversion"):
        rewrites.cpu_layout_conversion = rewrites.NCHW_TO_NHWC
    return config


def weight_decay(rate):
    """The L2 loss of the kernels of the model, without biases and normalisations.

    It is `rate` times half the sum of their squares.
    """
    kernels = [
        variable for variable in tf.trainable_variables() if variable.op.name.endswith("/kernel")
    ]
    return rate * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])


def train(flags, losses, train_op, inputs, batches, items, unit="images", finish=None):
    """Train --steps steps, and print losses and finally the throughput.

    The throughput is in items per second, without the first step.

    Args:
        flags: the value returned by `start`.
        losses: the scalar tensors to print every --log_every steps, by name.
        train_op: the operation, or a list of operations, that trains one step.
        inputs: the placeholders to feed.
        batches: an endless iterator of tuples of arrays, one array for each placeholder.
        items: the number of images, tokens or the like in a step.
        unit: the name of these items.
        finish: called with the session after the last step.
    """
    seconds = 0.0
    traces = plotting.Traces(losses) if flags.plot else None
    with tf.Session(config=session_config()) as session, _progress(flags.steps) as advance:
        session.run(tf.global_variables_initializer())
        for step, batch in zip(range(1, flags.steps + 1), batches):
            begin = time.perf_counter()
            values, summary, _ = session.run(
                [losses, traces.summary if traces else [], train_op], dict(zip(inputs, batch))
            )
            seconds += time.perf_counter() - begin if step > 1 else 0.0
            advance()
            if traces:
                traces.add(step, summary)
            if step % flags.log_every == 0 or step in (1, flags.steps):
                print(
                    "step %4d" % step + "".join("  %s %.4f" % item for item in values.items()),
                    flush=True,
                )
        if finish:
            finish(session)
    if traces:
        traces.draw(flags.plot)
    if seconds:
        print("%.1f %s/s" % ((flags.steps - 1) * items / seconds, unit))


def train_classifier(description, sizes, build, *names):
    """Train a classifier on made-up images: the whole main program of an example.

    Args:
        description: the example's docstring.
        sizes: its flags, as for `start`.
        build: called with images, labels, the flags of these names and `data_format`; returns
            images, labels, the loss and the train op.
        *names: of flags.
    """
    flags = start(description, sizes, data_format=True)
    chosen = [getattr(flags, name) for name in names]
    images, labels, loss, train_op = precision(flags)(build)(
        *image_placeholders(flags), *chosen, data_format=flags.data_format
    )
    train(flags, {"loss": loss}, train_op, (images, labels), image_batches(flags), flags.batch_size)


@contextlib.contextmanager
def _progress(total):
    """Yield a function to call after each step; show a progress bar on a terminal."""
    if not sys.stdout.isatty():
        yield lambda: None
        return
    with Progress(transient=True) as bar:
        task = bar.add_task("training", total=total)
        yield lambda: bar.advance(task)


def image_placeholders(flags):
    """Placeholders for float32 images in --data_format and for their int32 classes."""
    size = flags.image_size
    shape = (3, size, size) if flags.data_format == "channels_first" else (size, size, 3)
    return tf.placeholder(tf.float32, (None,) + shape, name="inputs"), tf.placeholder(
        tf.int32, (None,), name="labels"
    )


def image_batches(flags):
    """Endless batches of images from -1.5 to 1.5 and their classes.

    An image is the coarse random pattern of its class, with noise.
    """
    random = np.random.RandomState(flags.seed)
    patterns = random.uniform(-1, 1, (flags.classes, _PATTERN, _PATTERN, 3)).astype(np.float32)
    rows = np.arange(flags.image_size) * _PATTERN // flags.image_size
    shape = (flags.batch_size, flags.image_size, flags.image_size, 3)

    def batch():
        labels = random.randint(0, flags.classes, flags.batch_size).astype(np.int32)
        images = patterns[labels][:, rows][:, :, rows] + random.uniform(-0.5, 0.5, shape).astype(
            np.float32
        )
        return (
            images if flags.data_format == "channels_last" else images.transpose(0, 3, 1, 2)
        ), labels

    return itertools.cycle(batch() for _ in range(_BATCHES))


def images_and_noise(flags):
    """Endless batches of images from -1 to 1 and of float32 noise, (batch_size, noise)."""
    random = np.random.RandomState(flags.seed)
    for images, _ in image_batches(flags):
        yield images / 1.5, random.normal(size=(flags.batch_size, flags.noise)).astype(np.float32)


def opponents(losses, optimizers):
    """The op that trains networks one step, each against the others before the step.

    Args:
        losses: the losses by the scope of the variables that each trains.
        optimizers: one for each; steps of the first are counted.
    """
    gradients = [
        optimizer.compute_gradients(loss, tf.trainable_variables(scope))
        for optimizer, (scope, loss) in zip(optimizers, losses.items())
    ]
    before = [gradient for pairs in gradients for gradient, _ in pairs] + tf.get_collection(
        tf.GraphKeys.UPDATE_OPS
    )
    counts = [tf.train.get_or_create_global_step()] + [None] * (len(losses) - 1)
    with tf.control_dependencies(before):
        return tf.group(
            [
                optimizer.apply_gradients(pairs, count)
                for optimizer, pairs, count in zip(optimizers, gradients, counts)
            ]
        )


def sentences(flags, length):
    """Endless int32 arrays (batch_size, length) of tokens from FIRST_TOKEN on.

    Each token has two possible successors; low tokens are frequent.
    """
    random = np.random.RandomState(flags.seed)

    def draw(*shape):
        return (
            FIRST_TOKEN + (flags.vocabulary - FIRST_TOKEN) * random.uniform(size=shape) ** 3
        ).astype(np.int32)

    followers = draw(flags.vocabulary, 2)
    while True:
        tokens = [draw(flags.batch_size)]
        while len(tokens) < length:
            tokens.append(followers[tokens[-1], random.randint(0, 2, flags.batch_size)])
        yield np.stack(tokens, axis=1)


def translations(flags):
    """Endless pairs of int32 arrays (batch_size, length): sentences and their translations.

    A translation has the translated words in reverse. Sentences have at least half of `length`
    tokens, followed by zeros.
    """
    random = np.random.RandomState(flags.seed)
    dictionary = np.arange(flags.vocabulary)
    random.shuffle(dictionary[FIRST_TOKEN:])
    for sentence in sentences(flags, flags.length):
        ends = random.randint(flags.length // 2, flags.length + 1, (flags.batch_size, 1))
        places = np.arange(flags.length)
        translation = np.take_along_axis(
            dictionary[sentence], np.maximum(ends - 1 - places, 0), axis=1
        )
        yield (
            np.where(places < ends, sentence, 0),
            np.where(places < ends, translation, 0).astype(np.int32),
        )
