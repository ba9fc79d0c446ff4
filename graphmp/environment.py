"""Environment variables: those that TensorFlow reads, and those of a build.

Besides `cli/`, this is the only module that uses the environment: TensorFlow takes these settings
from nowhere else.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Dict

LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
FAST_BATCH_NORM = "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT"


def prepare() -> None:
    """Request Keras 2 (tf-keras) and a quiet TensorFlow, unless the user has set otherwise."""
    if (
        importlib.util.find_spec("tf_keras") is not None
    ):  # without it TensorFlow could not load Keras at all (2.15.1)
        os.environ.setdefault(LEGACY_KERAS, "1")
    os.environ.setdefault(LOG_LEVEL, "3")


def prepare_training() -> None:
    """Request cuDNN's batch normalization without transposes, unless the user has set otherwise.

    TensorFlow reads this at its first batch normalization on a GPU (2.15, 2.21).
    """
    os.environ.setdefault(FAST_BATCH_NORM, "1")


def asks_for_legacy_keras() -> bool:
    """Whether TensorFlow 2.16 and later will use Keras 2; read when Keras is first used (2.21)."""
    return os.environ.get(LEGACY_KERAS, "").lower() in ("1", "true")


def of_builds() -> Dict[str, str]:
    """The environment of a process that builds a script's graph.

    Fixed hash seeds, for equal orders.
    """
    return dict(os.environ, PYTHONHASHSEED="0")


def without_devices() -> Dict[str, str]:
    """The environment of a process without GPUs, whose memory another one has."""
    return dict(os.environ, CUDA_VISIBLE_DEVICES="")


prepare()
