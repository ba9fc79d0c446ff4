"""TensorFlow as the tests run it: one thread a session, TensorFlow 1's behaviour, and nothing of what it writes while it starts."""

from __future__ import annotations

import os

os.environ.setdefault(
    "TF_NUM_INTRAOP_THREADS", "1"
)  # a worker a core: sessions with more threads wait for each other
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # NumPy's: threads that wait for each other turn meanwhile

import graphmp.environment  # noqa: F401  # first: TensorFlow reads its settings when it is imported
from graphmp.conversion.quiet import quiet_stderr

with quiet_stderr():
    import tensorflow.compat.v1 as tf

if tf.__version__ > "2":
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.ERROR)  # it warns of what is asked for
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(verbosity)
