"""TensorFlow set up for tests: one thread per session, version 1 behaviour, no startup output."""

from __future__ import annotations

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

if tf.__version__ > "2":
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.ERROR)  # it warns of settings made on purpose
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(verbosity)
