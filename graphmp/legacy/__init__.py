"""Unmodified TensorFlow 1 training scripts on TensorFlow 2.

`install` makes `import tensorflow` mean `tensorflow.compat.v1` for the rest of the process and
serves `tf.contrib`; `written`, or a `Program`, tells whether a script needs that, and `watch` does
for what it runs later. `serve_what_left`, which `install` calls, serves `tf.estimator` and names
that TensorFlow, Python and libraries have dropped, to programs that ask for TensorFlow 1 themselves
too. On TensorFlow 1 `install` does no more than that, and nothing needs it.
"""

from __future__ import annotations

from graphmp.legacy.alias import install
from graphmp.legacy.left import serve_what_left
from graphmp.legacy.script import Program, written
from graphmp.legacy.watch import watch

__all__ = ["WHERE_NEEDED", "Program", "install", "serve_what_left", "watch", "written"]

WHERE_NEEDED = ("auto", "strict")  # values of --legacy_imports by which the program decides
