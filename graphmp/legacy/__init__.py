"""TensorFlow 1 training scripts, unmodified, on TensorFlow 2.

`install` makes `import tensorflow` mean `tensorflow.compat.v1` for the rest of the process and serves
`tf.contrib`; `written` says whether a script is one that wants that. On TensorFlow 1 `install` is about NumPy, SciPy and gym alone, and
nothing needs it.
"""

from __future__ import annotations

from graphmp.legacy.alias import install
from graphmp.legacy.script import Written, written

__all__ = ["Written", "install", "written"]
