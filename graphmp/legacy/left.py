"""What left TensorFlow, or moved in it, for programs that ask for TensorFlow 1 themselves too."""

from __future__ import annotations

from graphmp.legacy import moved
from graphmp.legacy.estimator import loader


def serve_what_left() -> None:
    """Serve Estimators, and TensorFlow's own modules and names that have moved."""
    loader.serve()
    moved.serve()
