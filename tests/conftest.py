"""Shared by all tests."""

import graphmp.environment  # noqa: F401  # before TensorFlow
import tensorflow.compat.v1 as tf

if tf.__version__ > "2":
    tf.disable_v2_behavior()
