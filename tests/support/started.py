"""TensorFlow set up for tests: one thread per session, version 1 behaviour, no startup output.

Random ops without a seed draw the same numbers in each run.
"""

from __future__ import annotations

import importlib
import os

os.environ.setdefault(
    "TF_NUM_INTRAOP_THREADS", "1"
)  # one worker per core: more threads per session would wait for each other
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for NumPy, whose waiting threads spin

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # tests read what scripts print

import graphmp.environment  # noqa: F401  # first: TensorFlow reads its settings on import
from graphmp.conversion.quiet import quiet_stderr

with quiet_stderr():
    import tensorflow.compat.v1 as tf

SEED = 20161123

if tf.__version__ > "2":
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.ERROR)  # it warns of settings made on purpose
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(verbosity)


def seeded(get_seed):
    """TensorFlow's `get_seed`, with a seed by the op's place in its graph where none is given.

    Weights that differ from run to run fail a test in one run of hundreds.
    """

    def found(op_seed):
        graph = tf.get_default_graph()
        if op_seed is not None or graph.seed is not None or tf.executing_eagerly():
            return get_seed(op_seed)
        graph.seed = SEED
        try:
            return get_seed(None)
        finally:
            graph.seed = None

    return found


random_seed = importlib.import_module("tensorflow.python.framework.random_seed")
random_seed.get_seed = seeded(random_seed.get_seed)
