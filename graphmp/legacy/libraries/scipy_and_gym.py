"""Names that other libraries dropped since TensorFlow 1's time: `scipy.misc` and `gym`.

SciPy's modules that became private are served by the public ones. `scipy.misc` can be imported with
any SciPy. Functions that SciPy keeps under another name are served, and those for images where
Pillow is installed; other removed ones raise an error with the version that removed them and what
to use. So does `import gym` if it isn't installed; an installed gym isn't changed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import warnings
from typing import Any, Dict, Optional, Tuple

import scipy

_MISC = "scipy.misc"
# Aliases that SciPy 1.3.0 removed, and the modules that have the functions.
_MOVED = {
    "comb": "scipy.special",
    "factorial": "scipy.special",
    "factorial2": "scipy.special",
    "factorialk": "scipy.special",
    "logsumexp": "scipy.special",
    "pade": "scipy.interpolate",
}
_PICTURES = "graphmp.legacy.libraries.pictures"
_WITH_PILLOW = frozenset(
    ("bytescale", "fromimage", "imread", "imresize", "imrotate", "imsave", "pilutil", "toimage")
)
_REMOVED: Dict[str, Dict[str, str]] = {
    "1.3.0": {
        "bytescale": "numpy.clip and astype(numpy.uint8)",
        "fromimage": "numpy.asarray",
        "imfilter": "PIL.Image.Image.filter (pip install pillow)",
        "imread": "imageio.v2.imread",
        "imresize": "PIL.Image.fromarray(image).resize((width, height))",
        "imrotate": "scipy.ndimage.rotate",
        "imsave": "imageio.v2.imwrite, which doesn't scale floats to 0..255",
        "imshow": "matplotlib.pyplot.imshow (pip install matplotlib)",
        "pilutil": "imageio.v2 and PIL.Image",
        "toimage": "PIL.Image.fromarray, which doesn't scale floats to 0..255",
    },
    "1.12.0": {
        "ascent": "scipy.datasets.ascent",
        "central_diff_weights": "numpy.gradient",
        "derivative": "numpy.gradient",
        "electrocardiogram": "scipy.datasets.electrocardiogram",
        "face": "scipy.datasets.face",
    },
}
# Modules that SciPy 1.8.0 made private, and the public ones that have their functions.
_PRIVATE = {
    "scipy.sparse.linalg.eigen.arpack": "scipy.sparse.linalg",
    "scipy.sparse.linalg.isolve": "scipy.sparse.linalg",
    "scipy.ndimage.filters": "scipy.ndimage",
    "scipy.ndimage.interpolation": "scipy.ndimage",
}
_GYM = (
    "No module named 'gym': scripts of TensorFlow 1's time want gym before 0.26, whose reset"
    " returns the observation alone and whose step four values: pip install 'gym<0.26'. Its"
    " successor gymnasium returns more: a script for that imports gymnasium"
)


@functools.lru_cache(maxsize=None)  # once a process
def restore() -> None:
    """Make `scipy.misc` importable and install the errors."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # SciPy 1.12 and later: the module is empty and deprecated
        misc = _misc()
    vars(misc).setdefault("__getattr__", _attribute_of_misc)
    if _has_pillow() and _version() >= (1, 3):
        sys.modules.setdefault(_MISC + ".pilutil", _standing_for(_MISC + ".pilutil", _PICTURES))
    if _version() >= (1, 8):
        for name, public in _PRIVATE.items():
            sys.modules.setdefault(name, _standing_for(name, public))
    sys.meta_path.append(AbsentFinder())


def _version() -> Tuple[int, ...]:
    return tuple(map(int, scipy.__version__.split(".")[:2]))


def _has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def _standing_for(name: str, public: str) -> types.ModuleType:
    """A module of another's functions, which is imported when one is asked for."""
    module = types.ModuleType(name)

    def attribute(text: str) -> Any:
        if text.startswith("__"):  # Python's own, such as a package's path
            raise AttributeError("module %r has no attribute %r" % (name, text))
        return getattr(importlib.import_module(public), text)

    vars(module)["__getattr__"] = attribute
    return module


class AbsentFinder(importlib.abc.MetaPathFinder):
    """The last of all finders: modules that it is asked for don't exist."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`. A mere query whether a module exists is answered.

        Raises:
            ImportError: for an import statement of a removed module, saying what to do.
        """
        package, _, name = fullname.rpartition(".")
        if (
            sys._getframe(2).f_code.co_name == "_find_and_load_unlocked"
        ):  # importlib.util.find_spec uses another path
            if fullname == "gym":
                raise ModuleNotFoundError(_GYM, name="gym")
            if package == _MISC and _removed(name):
                raise ImportError(_removed(name), name=fullname)
        return None


def _misc() -> types.ModuleType:
    try:
        return importlib.import_module(_MISC)
    except ModuleNotFoundError:
        module = types.ModuleType(_MISC)
        module.__path__ = []
        sys.modules[_MISC] = scipy.misc = module
        return module


def _attribute_of_misc(name: str) -> Any:
    if name in _MOVED:
        return getattr(importlib.import_module(_MOVED[name]), name)
    if name in _WITH_PILLOW and _has_pillow():
        pictures = importlib.import_module(_PICTURES)
        return sys.modules[_MISC + ".pilutil"] if name == "pilutil" else getattr(pictures, name)
    raise AttributeError(_removed(name) or "module %r has no attribute %r" % (_MISC, name))


def _removed(name: str) -> str:
    """The error for a name of `scipy.misc`; empty if SciPy never had it."""
    for version, names in _REMOVED.items():
        if name in names:
            text = "SciPy %s removed scipy.misc.%s (this is SciPy %s): " % (
                version,
                name,
                scipy.__version__,
            )
            if name in _WITH_PILLOW:
                return text + "pip install pillow, by which it is served, or use " + names[name]
            return text + "use " + names[name]
    return ""
