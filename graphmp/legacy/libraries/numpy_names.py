"""Names that TensorFlow 1 scripts use of NumPy, restored if later versions dropped them."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict

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
# Removed in NumPy 2.0, `rank` in 1.18 and `trapz` in 2.4: other names of existing functions.
_SPELLINGS = {
    "Inf": "inf",
    "Infinity": "inf",
    "NAN": "nan",
    "NINF": None,
    "NaN": "nan",
    "PINF": "inf",
    "alltrue": "all",
    "bool8": "bool_",
    "cfloat": "complex128",
    "clongfloat": "clongdouble",
    "complex_": "complex128",
    "cumproduct": "cumprod",
    "float_": "float64",
    "infty": "inf",
    "longcomplex": "clongdouble",
    "longfloat": "longdouble",
    "mat": "asmatrix",
    "product": "prod",
    "rank": "ndim",
    "round_": "round",
    "row_stack": "vstack",
    "singlecomplex": "complex64",
    "sometrue": "any",
    "string_": "bytes_",
    "trapz": "trapezoid",
    "unicode_": "str_",
}

_KINDS = "biufc"  # of dtypes, from the lowest
# Removed in NumPy 2.0.
_SCTYPES = {
    "int": [np.int8, np.int16, np.int32, np.int64],
    "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
    "float": [np.float16, np.float32, np.float64, np.longdouble],
    "complex": [np.complex64, np.complex128, np.clongdouble],
    "others": [bool, object, bytes, str, np.void],
}


@functools.lru_cache(maxsize=None)  # once a process
def restore() -> None:
    """Restore names, `newshape` of `np.reshape`, arrays of ragged rows, and `copy=False`."""
    for name, value in _PYTHON_TYPES.items():
        _put(name, value)
    for name, spelling in _SPELLINGS.items():
        _put(name, -np.inf if spelling is None else getattr(np, spelling, None))
    for function in (asfarray, asscalar, find_common_type, in1d, obj2sctype):
        _put(function.__name__, function)
    _put("sctypes", _SCTYPES)
    _put("cast", _Casts())
    if "newshape" not in inspect.signature(np.reshape).parameters:
        np.reshape = _with_newshape(np.reshape)
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        np.array = _with_needed_copies(np.array)
    if np.lib.NumpyVersion(np.__version__) >= "1.24.0":
        np.array, np.asarray = _with_objects(np.array), _with_objects(np.asarray)


def asfarray(a: Any, dtype: Any = np.float64) -> np.ndarray:
    """An array of floats; removed in NumPy 2.0."""
    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)


def asscalar(a: Any) -> Any:
    """An array of one element as a Python number; removed in NumPy 1.23."""
    return np.asarray(a).item()


def find_common_type(array_types: Any, scalar_types: Any) -> Any:
    """The dtype of arrays and scalars of some types, or None; removed in NumPy 2.0.

    Scalars count only if they are of a higher kind: complex, float, integer.
    """
    found = [np.result_type(*types) for types in (array_types, scalar_types) if len(types)]
    if len(found) == 2 and _KINDS.index(found[1].kind) > _KINDS.index(found[0].kind):
        return np.result_type(*found)
    return found[0] if found else None


def obj2sctype(rep: Any, default: Any = None) -> Any:
    """The scalar type of a type, a dtype or an array; removed in NumPy 2.0."""
    try:
        return (rep.dtype if isinstance(rep, (np.generic, np.ndarray)) else np.dtype(rep)).type
    except TypeError:
        return default


class _Casts(Dict[Any, Callable[[Any], Any]]):
    """`np.cast[dtype]`, a function that makes arrays of a dtype; removed in NumPy 2.0."""

    def __missing__(self, dtype: Any) -> Callable[[Any], Any]:
        return lambda values: np.asarray(values).astype(dtype)


def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> np.ndarray:
    """Which elements are among others, flat; removed in NumPy 2.4."""
    return np.isin(np.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert)


def _put(name: str, value: Any) -> None:
    if name not in vars(np):  # hasattr would warn, or raise, for deprecated names
        setattr(np, name, value)


def _with_newshape(original: Callable[..., Any]) -> Callable[..., Any]:
    """`np.reshape` with its argument names from before NumPy 2.4."""

    @functools.wraps(original)
    def reshape(*args: Any, **kwargs: Any) -> Any:
        if "newshape" in kwargs:
            kwargs["shape"] = kwargs.pop("newshape")
        return original(*([kwargs.pop("a")] if "a" in kwargs else []), *args, **kwargs)

    return reshape


def _with_needed_copies(original: Callable[..., Any]) -> Callable[..., Any]:
    """`np.array` for which `copy=False` means a copy where one is needed, as before NumPy 2."""

    @functools.wraps(original)
    def array(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except ValueError as error:
            if "Unable to avoid copy" not in str(error):
                raise
        return original(*args, **dict(kwargs, copy=None))

    return array


def _with_objects(original: Callable[..., Any]) -> Callable[..., Any]:
    """`np.array` that makes an array of objects from ragged rows, as before NumPy 1.24."""

    @functools.wraps(original)
    def array(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except ValueError as error:
            if (
                "inhomogeneous" not in str(error)
                or len(args) > 1
                or kwargs.get("dtype") is not None
            ):
                raise
        return original(*args, **dict(kwargs, dtype=object))

    return array
