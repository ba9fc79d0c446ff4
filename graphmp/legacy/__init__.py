"""Unmodified TensorFlow 1 training scripts on TensorFlow 2.

`install` makes `import tensorflow` mean `tensorflow.compat.v1` for the rest of the process and
serves `tf.contrib`; `written` tells whether a script needs that. `serve_estimators` serves
`tf.estimator`, and `install` calls it. On TensorFlow 1 `install` only restores names of NumPy,
SciPy and gym, and nothing needs it.
"""

from __future__ import annotations

from graphmp.legacy.alias import install
from graphmp.legacy.estimator.loader import serve as serve_estimators
from graphmp.legacy.script import ScriptFacts, written

__all__ = ["ScriptFacts", "install", "serve_estimators", "written"]
