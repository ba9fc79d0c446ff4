"""The costs that a conversion is given: --costs=FILE."""

from __future__ import annotations

import functools
import os
from typing import Optional

from graphmp.errors import GraphmpError
from graphmp.tuning.files import read
from graphmp.tuning.prediction import Prediction


def predicted(path: str, compute_dtype: str) -> Optional[Prediction]:
    """Times by a file of costs; None without one.

    Raises:
        GraphmpError: GMP003 if it can't be read, GMP002 if it holds no costs, GMP027 if they are
            of another half precision.
    """
    if not path or compute_dtype == "float32":
        return None
    found = _read(path, _version(path))
    if found.costs.compute_dtype != compute_dtype:
        raise GraphmpError(
            "GMP027",
            "--costs=%s: measured with --compute_dtype=%s, found --compute_dtype=%s; accepted is"
            " the same dtype" % (path, found.costs.compute_dtype, compute_dtype),
        )
    return found


def _version(path: str) -> object:
    """Another value if the file changes."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


@functools.lru_cache(maxsize=2)
def _read(path: str, version: object) -> Prediction:
    return Prediction(read(path))
