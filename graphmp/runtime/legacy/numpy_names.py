"""Names of NumPy's that scripts of TensorFlow 1's time use and later versions dropped: they are put back, where they are missing."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

# Removed in NumPy 1.24: aliases of Python's own types.
_PYTHON_TYPES: Dict[str, Any] = {
    "bool": bool,
    "complex": complex,
    "float": float,
    "int": int,
    "long": int,
    "object": object,
    "str": str,
    "unicode": str,
}
# Removed in NumPy 2.0: other spellings of what is still there.
_SPELLINGS = {
    "Inf": "inf",
    "Infinity": "inf",
    "NAN": "nan",
    "NINF": None,
    "NaN": "nan",
    "PINF": "inf",
    "alltrue": "all",
    "cfloat": "complex128",
    "complex_": "complex128",
    "cumproduct": "cumprod",
    "float_": "float64",
    "infty": "inf",
    "product": "prod",
    "row_stack": "vstack",
    "singlecomplex": "complex64",
    "sometrue": "any",
    "string_": "bytes_",
    "unicode_": "str_",
}


def restore() -> None:
    """Puts the names back that this NumPy lacks."""
    for name, value in _PYTHON_TYPES.items():
        _put(name, value)
    for name, spelling in _SPELLINGS.items():
        _put(name, -np.inf if spelling is None else getattr(np, spelling))
    _put("asscalar", _asscalar)


def _put(name: str, value: Any) -> None:
    if name not in vars(np):  # hasattr would warn, or raise, of names that are about to go
        setattr(np, name, value)


def _asscalar(array: Any) -> Any:
    """An array of one element as a Python number; removed in NumPy 1.23."""
    return np.asarray(array).item()
