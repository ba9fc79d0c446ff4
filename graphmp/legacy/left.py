"""Names that left TensorFlow, Python and libraries, or moved, whatever a program asks for."""

from __future__ import annotations

from graphmp.legacy import earlier, moved
from graphmp.legacy.estimator import loader
from graphmp.legacy.libraries import flags, later, python_names


def serve_what_left() -> None:
    """Serve Estimators, the flags of TensorFlow 1.4, and names that were dropped or moved."""
    python_names.restore()
    later.restore()
    flags.restore()
    loader.serve()
    moved.serve()
    earlier.serve()
