"""Names that left TensorFlow, Python and libraries, or moved, whatever a program asks for."""

from __future__ import annotations

from graphmp.legacy import earlier, moved
from graphmp.legacy.estimator import loader
from graphmp.legacy.libraries import flags, later, numpy_names, python_names, scipy_and_gym


def serve_what_left() -> None:
    """Serve Estimators, the flags of TensorFlow 1.4, and names that were dropped or moved."""
    python_names.restore()
    later.restore()
    numpy_names.restore()
    scipy_and_gym.restore()
    flags.restore()
    loader.serve()
    moved.serve()
    earlier.serve()
