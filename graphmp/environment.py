"""Environment variables: those that TensorFlow reads at its first import, and those of a build.

Besides `cli/`, this is the only module that uses the environment: TensorFlow takes its two settings
from nowhere else, and only before its first import.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Dict

LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def prepare() -> None:
    """Request Keras 2 (tf-keras) and a quiet TensorFlow, unless the user has set otherwise."""
    if (
        importlib.util.find_spec("tf_keras") is not None
    ):  # without it TensorFlow could not load Keras at all (2.15.1)
        os.environ.setdefault(LEGACY_KERAS, "1")
    os.environ.setdefault(LOG_LEVEL, "3")


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
