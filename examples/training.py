"""What the examples share: their command line, data made up to be learnt, and the loop that trains and prints.

It knows nothing of graphmp unless --mixed_precision is given. Import it before TensorFlow, which reads two of its
settings when it is imported.
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

IMAGENET = {  # sizes of a classifier of ImageNet's pictures, for `start`
    "batch_size": (64, 16, "images a step"),
    "steps": (100, 20, "training steps"),
    "image_size": (224, 32, "height and width of the images"),
    "classes": (1000, 10, "classes to tell apart"),
}
FIRST_TOKEN = 2  # of made-up sentences; those below are free for padding and the like
_PATTERN = 4  # height and width of the coarse pattern of a class of images
_BATCHES = 4  # of images, made once and used over and over: making them takes longer than a GPU's training on them


def start(description, sizes, data_format=False):
    """Reads the command line and makes TensorFlow ready: version 1 behaviour, the seed, no warnings that something is deprecated.

    Args:
        description: the example's docstring, for --help.
        sizes: the example's own flags; by name the value, the value for --smoke, what it is, and the values accepted if those are but a few.
            `batch_size` and `steps` are among them.
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
        help="small sizes and few steps, for a laptop; what is given beside it still counts",
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
        "--seed", type=int, default=1, help="of the initial values and the data (default 1)"
    )
    parser.add_argument(
        "--log_every",
        type=int,
        default=10,
        help="how many steps from one printed loss to the next (default 10)",
    )
    parser.add_argument(
        "--mixed_precision",
        action="store_true",
        help="build the model through graphmp.mixed_precision",
    )
    parser.add_argument(
        "--compute_dtype",
        choices=["float16", "bfloat16"],
        help="for --mixed_precision (default float16)",
    )
    parser.add_argument("--loss_scale", help="for --mixed_precision: dynamic, none or a number")
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
    """Ends the program with status 2 and one line on stderr: what was found, and what is accepted."""
    print("%s: error: %s" % (os.path.basename(sys.argv[0]), text), file=sys.stderr)
    raise SystemExit(2)


def precision(flags):
    """What to pass the build function through: graphmp's decorator for --mixed_precision, else nothing."""
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
    """A configuration under which TensorFlow 2's CPU runs channels-first convolutions; 1.15 lacks the option."""
    config = tf.ConfigProto()
    rewrites = config.graph_options.rewrite_options
    if hasattr(rewrites, "cpu_layout_conversion"):
        rewrites.cpu_layout_conversion = rewrites.NCHW_TO_NHWC
    return config


def weight_decay(rate):
    """The loss that pulls the kernels of the model to 0, its biases and normalisations not: `rate` times half the sum of their squares."""
    kernels = [
        variable for variable in tf.trainable_variables() if variable.op.name.endswith("/kernel")
    ]
    return rate * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])


def train(flags, losses, train_op, inputs, batches, items, unit="images", finish=None):
    """Trains --steps steps and prints, last of all, how many items a second the steps took, the first one left out.

    Args:
        flags: what `start` returned.
        losses: what to print every --log_every steps: scalar tensors by name.
        train_op: the operation, or a list of those, that trains one step.
        inputs: the placeholders to feed.
        batches: an endless iterator of tuples of arrays, one array for each placeholder.
        items: how many images, tokens or the like a step trains on.
        unit: what they are called.
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
    """Trains a classifier of images on made-up ones: the whole of an example's main program.

    Args:
        description: the example's docstring.
        sizes: its flags, as for `start`.
        build: called with images, labels, the flags of these names and `data_format`; returns images, labels, the loss and the train op.
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
    """Yields what to call after each step; shows a bar where the output is a terminal."""
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
    """Endless batches of images from -1.5 to 1.5 and their classes; an image is the coarse random pattern of its class, with noise."""
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
    """Endless batches of images from -1 to 1 and of float32 noise (batch_size, noise) of which as many are to be made."""
    random = np.random.RandomState(flags.seed)
    for images, _ in image_batches(flags):
        yield images / 1.5, random.normal(size=(flags.batch_size, flags.noise)).astype(np.float32)


def opponents(losses, optimizers):
    """The operation that trains networks one step, each against what the others are before it.

    Args:
        losses: by the scope of the variables that a loss is to train.
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
    """Endless int32 arrays (batch_size, length) of tokens from FIRST_TOKEN on; either of two may follow a token, and low ones are frequent."""
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
    """Endless pairs of int32 arrays (batch_size, length): sentences, and their words translated one by one, the last one first.

    Sentences have half of `length` tokens at least; zeros stand behind the end.
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
