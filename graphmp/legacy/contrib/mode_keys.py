"""`tf.contrib.learn.ModeKeys`: the modes of a model function, as contrib names them."""

from __future__ import annotations

__all__ = ["ModeKeys"]


class ModeKeys:
    """Names of modes. `INFER` has another value than `PREDICT` of `tf.estimator.ModeKeys`."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"
