"""Names that `tf.contrib` had in earlier releases of TensorFlow 1, and no longer in 1.15.5.

The table of contrib on TensorFlow 2 has these rows; TensorFlow 1's own contrib gets them when a
script imports it. Keys and sources are those of the table.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Dict, Iterator, Tuple

from graphmp.legacy import internals
from graphmp.legacy.after_import import after_import

_CONTRIB = "tensorflow.contrib"
_LOADED = "tensorflow_core.contrib"  # in place of _CONTRIB, which loads it late
_CELLS = "tensorflow.python.ops.rnn_cell_impl"
_RNN = (_CONTRIB + ".rnn.python.ops.core_rnn_cell", "tf:nn.rnn_cell")

MODULES: Dict[str, Tuple[str, ...]] = {
    "linalg": ("tf:linalg",),
    "lite": ("tf:lite",),
    "nccl": ("tensorflow.python.ops.nccl_ops",),
    "rnn.core_rnn_cell": _RNN,
    "rnn.python.ops.core_rnn": ("tf:nn",),
    "rnn.python.ops.core_rnn_cell_impl": _RNN,
}
NAMES: Dict[str, str] = {
    "framework.CriticalSection": "tf:CriticalSection",
    **{
        "data." + name: "graphmp.legacy.contrib.datasets:" + name
        for name in (
            "Dataset",
            "FixedLengthRecordDataset",
            "Iterator",
            "TFRecordDataset",
            "TextLineDataset",
        )
    },
    **{
        "estimator." + name: "tf:estimator.experimental." + name
        for name in (
            "InMemoryEvaluatorHook",
            "make_early_stopping_hook",
            "make_stop_at_checkpoint_step_hook",
            "stop_if_higher_hook",
            "stop_if_lower_hook",
            "stop_if_no_decrease_hook",
            "stop_if_no_increase_hook",
        )
    },
    **{
        "estimator." + name: "tf:estimator." + name
        for name in (
            "BaselineEstimator",
            "DNNEstimator",
            "DNNLinearCombinedEstimator",
            "LinearEstimator",
        )
    },
}
_PRIVATE = {"_LayerRNNCell": "LayerRNNCell"}  # of _CELLS, by its name there now
_LINEAR = ("_Linear", "_linear")  # of _CELLS, now in contrib


def serve() -> None:
    """Add the names to TensorFlow 1, to contrib when it is imported; again does nothing."""
    if not internals.on_tensorflow_1():
        return
    cells = internals.fetch(_CELLS)
    for name, now in _PRIVATE.items():
        setattr(cells, name, getattr(cells, now))
    vars(cells).setdefault("__getattr__", _linear)
    packages = {path.rpartition(".")[0] for path in (*MODULES, *NAMES)}
    after_import(
        {
            "%s.%s" % (_CONTRIB, package) if package else _LOADED: functools.partial(_add, package)
            for package in packages
        }
    )


def _linear(name: str) -> object:
    """The `__getattr__` of the module of cells."""
    if name not in _LINEAR:
        raise AttributeError("module %r has no attribute %r" % (_CELLS, name))
    return getattr(internals.fetch(_RNN[0]), name)


def _add(package: str, module: types.ModuleType) -> None:
    """Add to a package of contrib, which may be imported twice, what it had."""
    for path, source in NAMES.items():
        above, _, name = path.rpartition(".")
        if above == package:
            setattr(module, name, internals.fetch(source))
    for path, sources in MODULES.items():
        above, _, name = path.rpartition(".")
        if above == package:
            made = types.ModuleType("%s.%s" % (_CONTRIB, path))
            for source in reversed(sources):
                vars(made).update(_names(internals.fetch(source)))
            sys.modules[made.__name__] = made
            setattr(module, name, made)


def _names(module: types.ModuleType) -> Iterator[Tuple[str, object]]:
    return ((name, getattr(module, name)) for name in dir(module) if not name.startswith("__"))
