"""Where tests of Estimators run."""

import importlib.util

import pytest
import tensorflow.compat.v1 as tf

SERVED = hasattr(tf, "estimator") or importlib.util.find_spec("tensorflow_estimator") is not None
needs_estimator = pytest.mark.skipif(
    not SERVED, reason="no tensorflow-estimator here: pip install '.[estimator]'"
)
