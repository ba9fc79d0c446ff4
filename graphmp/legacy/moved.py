"""TensorFlow's own modules and names that public scripts import, under their names of TensorFlow 1.

Found by `tensorflow.python` imports of 264 public repositories that TensorFlow 2.21 can't follow.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Dict, Optional

import tensorflow.compat.v1 as tf

from graphmp.legacy import internals
from graphmp.legacy.existing import Existing

_PYTHON = "tensorflow.python."
_OPS = _PYTHON + "ops."
_ESTIMATOR_TPU = "tensorflow_estimator.python.estimator.tpu."
_HERE = "graphmp.legacy.moved:"

# Modules by the source of their successors; what is below one is below its successor too.
MODULES: Dict[str, str] = {
    _PYTHON + "keras._impl": _PYTHON + "keras",
    _PYTHON + "keras._impl.keras": "tf:keras",
    _PYTHON + "keras.applications": "tf:keras.applications",
    _PYTHON + "keras.datasets": "tf:keras.datasets",
    _PYTHON + "keras.preprocessing": "tf:keras.preprocessing",
    _PYTHON + "keras.wrappers": "tf:keras.wrappers",
    _OPS + "constant_op": _PYTHON + "framework.constant_op",
    _PYTHON + "distribute.distribution_strategy_context": _PYTHON + "distribute.distribute_lib",
    **{
        _PYTHON + "tpu." + name: _ESTIMATOR_TPU + name
        for name in ("error_handling", "tpu_config", "tpu_context", "tpu_estimator", "util")
    },
    _PYTHON + "training.distribution_strategy_context": _PYTHON + "distribute.distribute_lib",
    _PYTHON + "training.tracking": _PYTHON + "trackable",
    _PYTHON + "training.tracking.graph_view": _PYTHON + "checkpoint.graph_view",
    _PYTHON + "training.tracking.tracking": _PYTHON + "trackable.autotrackable",
    _PYTHON + "training.tracking.util": _PYTHON + "checkpoint.checkpoint",
    _PYTHON + "training.training_ops": _OPS + "gen_training_ops",
}

NAMES: Dict[str, Dict[str, str]] = {
    _PYTHON + "eager.context": {"in_graph_mode": _HERE + "in_graph_mode"},
    _PYTHON + "framework.graph_util": {
        name: "tf:graph_util." + name
        for name in (
            "convert_variables_to_constants",
            "extract_sub_graph",
            "must_run_on_cpu",
            "remove_training_nodes",
            "tensor_shape_from_node_def_name",
        )
    },
    _PYTHON + "framework.ops": {
        "register_tensor_conversion_function": "tf:register_tensor_conversion_function"
    },
    _PYTHON + "framework.tensor_shape": {
        name: _HERE + name for name in ("matrix", "scalar", "vector")
    },
    _PYTHON + "pywrap_tensorflow": {
        "EventsWriter": _PYTHON + "client._pywrap_events_writer:EventsWriter",
        "NewCheckpointReader": "tf:train.NewCheckpointReader",
    },
    _PYTHON + "util.nest": {
        "is_sequence": _PYTHON + "util.nest:is_nested",
        "is_sequence_or_composite": _PYTHON + "util.nest:is_nested_or_composite",
    },
}
# Modules of generated functions, hidden ones of which began with an underscore up to 1.5.
_GENERATED = ("array", "data_flow", "image", "io", "logging", "math", "nn", "random", "state")


def serve() -> None:
    """Serve the modules and names that TensorFlow 2 lacks; calling it again does nothing."""
    if internals.on_tensorflow_1() or any(isinstance(each, _Finder) for each in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for module, names in NAMES.items():
        place = internals.fetch(module)
        for name, source in names.items():
            if not hasattr(place, name):
                setattr(place, name, internals.fetch(source))
    for kind in _GENERATED:
        place = internals.fetch(_OPS + "gen_%s_ops" % kind)
        vars(place).setdefault("__getattr__", _without_underscore(place))


def successor(path: str) -> str:
    """The source of a module that has moved, or is below one that has; else empty."""
    if path in MODULES:
        return MODULES[path]
    above, _, name = path.rpartition(".")
    source = successor(above) if above.startswith(_PYTHON) else ""
    return source and source + "." + name


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that have moved."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`."""
        source = successor(fullname)
        try:
            module = internals.fetch(source) if source else None
        except (AttributeError, ImportError):
            return None
        if not isinstance(module, types.ModuleType):
            return None
        loader = Existing(internals.loaded(module))
        return importlib.util.spec_from_loader(fullname, loader, is_package=True)


def in_graph_mode() -> bool:
    """Whether TensorFlow builds graphs."""
    return not tf.executing_eagerly()


def matrix(rows: Any, cols: Any) -> tf.TensorShape:
    """The shape of a matrix."""
    return tf.TensorShape([rows, cols])


def scalar() -> tf.TensorShape:
    """The shape of a scalar."""
    return tf.TensorShape([])


def vector(length: Any) -> tf.TensorShape:
    """The shape of a vector."""
    return tf.TensorShape([length])


def _without_underscore(module: Any) -> Any:
    """The `__getattr__` of a module: a function under its name of then."""

    def get(name: str) -> Any:
        if name.startswith("_") and name[1:] in vars(module):
            return vars(module)[name[1:]]
        raise AttributeError("module %r has no attribute %r" % (module.__name__, name))

    return get
