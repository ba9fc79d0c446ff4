"""Loading tensorflow-estimator beside a TensorFlow that it wasn't made for."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Dict, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.legacy.estimator import gone
from graphmp.legacy.existing import Existing

PACKAGE = "tensorflow_estimator"
CURE = "pip install tensorflow-estimator==2.15.0, which needs and changes no other package"
_INTERFACE = PACKAGE + "._api.%s.estimator"
_OLD_PATH = "tensorflow.python.estimator"  # of TensorFlow 1, for the package's own modules

# Modules that the package or a script for TPUs imports, and what stands for them. All but the
# export decorator are gone from TensorFlow 2.21; that one marks each name as deprecated and needs a
# constant that is gone.
REPLACED: Dict[str, str] = {
    PACKAGE + ".python.estimator.estimator_export": "graphmp.legacy.estimator.export",
    "tensorflow.python.distribute.estimator_training": "graphmp.legacy.estimator.distributed",
    "tensorflow.python.tpu.async_checkpoint": "",
    "tensorflow.python.tpu.session_support": "",
    "tensorflow.python.tpu.tpu_embedding": "",
    "tensorflow.python.tpu.tpu_embedding_gradient": "",
}


def missing() -> bool:
    """Whether this TensorFlow has no Estimator, of its own or served."""
    return not hasattr(tf, "estimator")


def serve() -> None:
    """Serve `tf.estimator` if TensorFlow lacks it and the package is installed.

    The package is imported at its first use. `tensorflow.compat.v1` gets version 1 of the
    interface, `tensorflow` and `tensorflow.compat.v2` version 2. Calling it again does nothing.
    """
    if not missing() or importlib.util.find_spec(PACKAGE) is None:
        return
    real = sys.modules["tensorflow"]
    sys.meta_path.insert(0, EstimatorFinder(real))
    tf.estimator = LazyInterface("v1")
    version_2 = LazyInterface("v2")
    for module in (real, sys.modules["tensorflow.compat.v2"]):
        module.estimator = version_2  # type: ignore[attr-defined]


class LazyInterface(types.ModuleType):
    """A version of the package's interface, imported when a name is looked up."""

    def __init__(self, version: str):
        super().__init__("tensorflow.estimator", "TensorFlow's Estimators, version %s." % version)
        self.__path__: List[str] = []
        self._source = _INTERFACE % version

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        return getattr(importlib.import_module(self._source), name)

    def __dir__(self) -> List[str]:
        return dir(importlib.import_module(self._source))


class EstimatorFinder(importlib.abc.MetaPathFinder):
    """Finds the package's modules, what they import, and TensorFlow 1's old path to them.

    Args:
        real: TensorFlow 2's own module `tensorflow`, which is what the package imports.
    """

    def __init__(self, real: types.ModuleType):
        self._real = real

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`."""
        if fullname in REPLACED:
            source = REPLACED[fullname]
            module = importlib.import_module(source) if source else gone.GoneModule(fullname)
            return importlib.util.spec_from_loader(fullname, Existing(module))
        if fullname == _OLD_PATH or fullname.startswith(_OLD_PATH + "."):
            module = importlib.import_module(PACKAGE + fullname[len("tensorflow") :])
            return importlib.util.spec_from_loader(fullname, Existing(module), is_package=True)
        if fullname.partition(".")[0] != PACKAGE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _WithVersion2(spec.loader, self._real)
        return spec


class _WithVersion2(importlib.abc.Loader):
    """Loads a module for which `import tensorflow` means TensorFlow 2, as it was written for."""

    def __init__(self, loader: Any, real: types.ModuleType):
        self._loader = loader
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module's code."""
        shown = sys.modules["tensorflow"]
        sys.modules["tensorflow"] = self._real
        try:
            self._loader.exec_module(module)
        finally:
            sys.modules["tensorflow"] = shown
