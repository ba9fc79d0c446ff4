"""Making `import tensorflow` mean `tensorflow.compat.v1`, with `tf.contrib`, in this process."""

from __future__ import annotations

import importlib
import operator
import sys
import types
from typing import Any, List

import tensorflow.compat.v1 as tf

from graphmp.legacy import contrib_modules, finder, internals, left, stand_ins, supplied
from graphmp.legacy.libraries import keras_2

_INTERFACE = "tensorflow._api.v2.compat.v1."


def install(strict: bool = False) -> None:
    """Turn TensorFlow 2 behaviour off and install TensorFlow 1's interface as `tensorflow`.

    This includes contrib. Modules that imported `tensorflow` before keep what they have. Calling it
    again does nothing. On TensorFlow 1 it only serves what `left` serves.

    Args:
        strict: an import of a part of contrib that nothing serves is an error, though it may never
            be used.
    """
    stand_ins.Settings.strict = strict
    left.serve_what_left()
    real = sys.modules["tensorflow"]
    if internals.on_tensorflow_1() or isinstance(real, LegacyTensorFlow):
        return
    tf.disable_v2_behavior()
    supplied.supply()
    _forget_interface_of_version_2()
    sys.modules["tensorflow"] = LegacyTensorFlow(real)
    sys.meta_path.insert(0, finder.LegacyFinder())
    for name in sorted(_interface_modules()):
        sys.modules["tensorflow." + name] = operator.attrgetter(name)(tf)
    keras_2.serve()
    internals.note(
        "`import tensorflow` now means tensorflow.compat.v1 of TensorFlow %s", tf.VERSION
    )


class LegacyTensorFlow(types.ModuleType):
    """The module `tensorflow` of a TensorFlow 1 script: a live view of `tensorflow.compat.v1`.

    It shows patches there too. `tf.compat` is the real one, so that `import tensorflow.compat.v2 as
    tf` in a library still works.
    """

    def __init__(self, real: types.ModuleType):
        super().__init__("tensorflow", real.__doc__)
        super().__setattr__("__path__", real.__path__)
        super().__setattr__("__file__", real.__file__)
        super().__setattr__("__spec__", real.__spec__)
        super().__setattr__("compat", sys.modules["tensorflow.compat"])

    def __getattr__(self, name: str) -> Any:
        if name == "contrib":
            return importlib.import_module(contrib_modules.NAME)
        if name == "Tensor" and not tf.executing_eagerly():
            return supplied.graph_tensor()
        if hasattr(tf, name):
            return getattr(tf, name)
        if "tensorflow." + name in sys.modules:
            return sys.modules["tensorflow." + name]
        raise AttributeError("module 'tensorflow' has no attribute %r" % name)

    def __setattr__(self, name: str, value: Any) -> None:
        if sys.modules.get("tensorflow." + name) is not value:
            setattr(tf, name, value)
        elif not hasattr(
            tf, name
        ):  # the import system sets a submodule: no change to the interface
            super().__setattr__(name, value)

    def __dir__(self) -> List[str]:
        return sorted({"contrib", *dir(tf)})

    @property
    def __all__(self) -> List[str]:
        """The names for `from tensorflow import *`."""
        return [name for name in dir(self) if not name.startswith("_")]


def _forget_interface_of_version_2() -> None:
    for name in [name for name in sys.modules if name.startswith("tensorflow.")]:
        if name.split(".")[1] not in finder.SOURCE_PACKAGES:
            del sys.modules[name]


def _interface_modules() -> List[str]:
    """Dotted names of loaded modules of `tensorflow.compat.v1`, for lookups in `sys.modules`."""
    names = [name[len(_INTERFACE) :] for name in sys.modules if name.startswith(_INTERFACE)]
    return [name for name in names if name.split(".")[0] not in finder.SOURCE_PACKAGES]
