"""What left TensorFlow, or moved in it, on both versions.

On TensorFlow 2 for programs that ask for TensorFlow 1 themselves too.
"""

from __future__ import annotations

from graphmp.legacy import moved
from graphmp.legacy.estimator import loader
from graphmp.legacy.libraries import flags


def serve_what_left() -> None:
    """Serve Estimators, modules and names that have moved, and the flags of TensorFlow 1.4."""
    flags.restore()
    loader.serve()
    moved.serve()
