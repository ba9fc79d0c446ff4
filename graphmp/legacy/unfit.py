"""Scripts that graphmp can't help: the reason and the cure, in one line."""

from __future__ import annotations

import re
import sys
from typing import AbstractSet, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.legacy import internals, moved
from graphmp.legacy.contrib_modules import Listed
from graphmp.legacy.estimator import loader
from graphmp.legacy.libraries import keras_2
from graphmp.wording import some

POLICY = (
    "graphmp converts what TensorFlow 1 sessions train; for Keras and eager code:"
    " tf.keras.mixed_precision.set_global_policy('mixed_float16')"
)
_KERAS_2 = "if it is written for Keras 2, --legacy_imports=on runs it on tf-keras, in sessions"
_BOTH_WIDTHS = re.compile(r"(?s)\bfloat(32|64)\b.*\bfloat(?!\1)(32|64)\b")
_ONE_ELEMENT = "only 0-dimensional arrays can be converted to Python scalars"
_MISSING_NAME = re.compile(r"(?:cannot import name|has no attribute) '(\w+)'")
_OF_NEW_KERAS = (AttributeError, ImportError, NotImplementedError, TypeError, ValueError)
_OF_NAMES = (AttributeError, ImportError, KeyError, NameError)
_OTHERS = ("jax", "keras", "mxnet", "tf_keras", "torch")


def executes_eagerly(path: str, where: str) -> GraphmpError:
    """GMP025 for a file that executes eagerly, as seen at `where`."""
    return GraphmpError(
        "GMP025",
        "%s executes eagerly (%s): it is TensorFlow 2 code and builds no graph; %s"
        % (path, where, POLICY),
    )


def without_estimator(error: BaseException, place: str) -> Optional[GraphmpError]:
    """GMP026 for an error that TensorFlow has no Estimator; None for any other."""
    of_package = moved.successor("tensorflow." + _missing_part(error)).startswith(loader.PACKAGE)
    named = isinstance(error, (AttributeError, ImportError)) and "estimator" in str(error).lower()
    if not (of_package or named) or hasattr(tf, "estimator"):
        return None
    text = "%s: tf.estimator is not in TensorFlow %s, which dropped it in 2.16: %s"
    return GraphmpError("GMP026", text % (place, tf.__version__, loader.CURE))


def promoted(error: BaseException) -> str:
    """The hint for an error that NumPy 2 may have caused; else empty.

    NumPy 1 made float32 of `np.sqrt(2.0) * array` for a float32 array, NumPy 2 makes float64.
    NumPy up to 2.3 made a number of an array with one element by `float`, `int` or `%f`.
    """
    cause = error.__cause__  # a ValueError of `array[0] = ...` has the TypeError there
    if any(isinstance(each, TypeError) and _ONE_ELEMENT in str(each) for each in (error, cause)):
        text = (
            "NumPy %s makes no number of an array such as np.array([1.0]); NumPy up to 2.3 did: pip"
            " install 'numpy<2.4'"
        )
        return text % np.__version__
    if not isinstance(error, (TypeError, ValueError)) or int(np.__version__.split(".")[0]) < 2:
        return ""
    if not _BOTH_WIDTHS.search(str(error)):
        return ""
    text = (
        "NumPy %s makes float64 of a float32 array and a NumPy number, such as np.sqrt(2.0); NumPy"
        " 1 made float32: pip install 'numpy<2'"
    )
    return text % np.__version__


def of_version_1(error: BaseException) -> str:
    """The hint for an error that TensorFlow 2 lacks a part which TensorFlow 1 has; else empty."""
    part = _missing_part(error)
    is_version_1 = hasattr(sys.modules["tensorflow"], "placeholder")  # or runs as that
    if is_version_1 or not part or not internals.in_version_1(part):
        return ""
    text = (
        "tensorflow.%s is a part of TensorFlow 1, and not of TensorFlow %s: --legacy_imports=on"
        " runs the script as TensorFlow 1 code"
    )
    return text % (part, tf.__version__)


def of_listed_names(error: BaseException) -> str:
    """The hint for a missing name after a script listed those of modules of contrib; else empty."""
    if not isinstance(error, _OF_NAMES) or not Listed.paths:
        return ""
    text = (
        "the script listed the names of %s, which on TensorFlow %s are only those that have a"
        " successor: if it lacks one of the others, TensorFlow 1.15.5 has it"
    )
    return text % (some(["tf.contrib." + path for path in sorted(Listed.paths)]), tf.__version__)


def _missing_part(error: BaseException) -> str:
    """The part of `tensorflow` that an error says is missing, as `train.AdamOptimizer`."""
    if isinstance(error, AttributeError):
        place = getattr(getattr(error, "obj", None), "__name__", "")  # Python 3.10 has it
    elif isinstance(error, ImportError):
        place = error.name or ""
    else:
        return ""
    package, _, part = place.replace("._api.v2", "").partition(".")
    named = _MISSING_NAME.search(str(error))
    path = [part] * bool(part) + ([named.group(1)] if named else [])
    return ".".join(path) if package == "tensorflow" else ""


def ran_as_version_1(path: str) -> str:
    """The hint for a script that failed with TensorFlow 1's interface without asking for it."""
    text = (
        "%s ran as TensorFlow 1 code (tensorflow.compat.v1), though TensorFlow %s has all it uses:"
        " --legacy_imports=off runs it as python does"
    )
    return text % (path, tf.__version__)


BY_HAND = (
    "a graph is converted where a gradient that tf.gradients computed in this process trains;"
    " `graphmp convert` converts this one, or its .meta file, and tells whether it is scaled"
)


def why_nothing_trained(imports: AbstractSet[str], eagerly: bool, sessions: bool) -> str:
    """Why a script that ended normally trained nothing in a session; empty if unknown.

    Args:
        imports: packages that the script's source imports.
        eagerly: whether TensorFlow executed eagerly.
        sessions: whether any session ran.
    """
    if sessions:
        return (
            "sessions ran, and none of their runs wrote what depends on a gradient; a script that"
            " fetches gradients and computes updates in Python trains in float32: have the graph"
            " compute them, by apply_gradients of what tf.gradients returned or of fed placeholders"
        )
    if "tensorflow" in imports:
        return "TensorFlow executed eagerly; " + POLICY if eagerly else "no session ran"
    others = [name for name in _OTHERS if name in imports]
    if "keras" in others and keras_2.available():
        return "the script ran on Keras 3, without TensorFlow 1; %s; %s" % (_KERAS_2, POLICY)
    return "the script uses %s, not TensorFlow 1; %s" % (others[0], POLICY) if others else ""


def newer_keras(error: BaseException, imports: AbstractSet[str]) -> str:
    """The hint for a script of Keras that failed on Keras 3; empty if it didn't run on that."""
    if not isinstance(error, _OF_NEW_KERAS) or "keras" not in imports or not keras_2.available():
        return ""
    return "the script ran on Keras 3; " + _KERAS_2
