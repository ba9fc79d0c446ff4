"""Names that tf-slim and scripts expect in TensorFlow and that no longer exist.

Those of PyPI's tf-slim 1.1.0 were found by importing every module of it and looking up each
attribute path that its source uses of a TensorFlow module. TensorFlow 2.15.1 and 2.21.0 lack the
same names. A name is only supplied if it is missing.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.legacy import internals, table


class Supplied(NamedTuple):
    """A name added to a module or class of TensorFlow, and the source of its value."""

    module: str
    name: str
    source: str
    reason: str


_CONTROL_FLOW = "tensorflow.python.ops.control_flow_ops"
_NORMALIZATION = "tensorflow.python.layers.normalization"
_OPS = "tensorflow.python.framework.ops"
_CELLS = "tensorflow.python.ops.rnn_cell_impl"
_LOWER_BOUND = "GDNLowerBound"
_OWN_CELLS = table.MODULES["rnn.python.ops.rnn_cell"][0] + ":"

# Missing in 2.15.1 and in 2.21.0, all of them.
SUPPLIED = (
    Supplied(
        _OPS,
        "IndexedSlices",
        "tf:IndexedSlices",
        "slim.learning, summaries of gradients; moved to framework.indexed_slices",
    ),
    Supplied(
        _OPS,
        "Tensor",
        "tf:Tensor",
        "slim.learning, optimize_loss, rev_block; moved to framework.tensor",
    ),
    Supplied(
        "tf:Operation",
        "_outputs",
        "graphmp.legacy.operations:OUTPUTS",
        "memory-saving gradients, which read it of the copies that graph_editor makes",
    ),
    Supplied(
        "tf:keras.mixed_precision",
        "experimental",
        "graphmp.legacy.keras_precision",
        "scripts with Keras' own mixed precision",
    ),
    Supplied(
        "tf:keras.layers.Layer",
        "apply",
        "graphmp.legacy.libraries.keras_2:apply",
        "scripts that use layers of Keras as those of tf.layers",
    ),
    Supplied(
        "tf:keras.utils",
        "multi_gpu_model",
        "graphmp.legacy.libraries.several_gpus:multi_gpu_model",
        "scripts that train a model of Keras on several GPUs; dropped in TensorFlow 2.4",
    ),
    Supplied(
        _NORMALIZATION,
        "BatchNorm",
        "tf:layers.BatchNormalization",
        "the module looks for tf_keras.legacy_tf_layers, which no tf-keras has",
    ),
    Supplied(
        _NORMALIZATION,
        "BatchNormalization",
        "tf:layers.BatchNormalization",
        "batch_norm when it is not fused; as BatchNorm",
    ),
    Supplied(_NORMALIZATION, "batch_norm", "tf:layers.batch_normalization", "as BatchNorm"),
    Supplied(
        _NORMALIZATION, "batch_normalization", "tf:layers.batch_normalization", "as BatchNorm"
    ),
    Supplied(
        "tensorflow.python.ops.array_ops",
        "stack",
        "tf:stack",
        "maxout's relatives and metrics; moved to ops.array_ops_stack",
    ),
    Supplied(
        "tensorflow.python.ops.array_ops",
        "unstack",
        "tf:unstack",
        "legacy_fully_connected; moved to ops.array_ops_stack",
    ),
    Supplied(
        _CONTROL_FLOW,
        "Assert",
        "tf:Assert",
        "auc_using_histogram; moved to ops.control_flow_assert",
    ),
    Supplied(
        _CONTROL_FLOW, "case", "tf:case", "tfexample_decoder.Image; moved to ops.control_flow_case"
    ),
    Supplied(_CONTROL_FLOW, "cond", "tf:cond", "metrics; moved to ops.cond"),
    Supplied(
        _CONTROL_FLOW, "while_loop", "tf:while_loop", "metric_learning; moved to ops.while_loop"
    ),
    Supplied(
        _CELLS,
        "_LayerRNNCell",
        _OWN_CELLS + "LayerRNNCell",
        "cells of scripts of TensorFlow 1.4 to 1.9",
    ),
    Supplied(_CELLS, "_Linear", _OWN_CELLS + "_Linear", "cells of scripts up to TensorFlow 1.10"),
    Supplied(_CELLS, "_linear", _OWN_CELLS + "_linear", "as _Linear, up to TensorFlow 1.3"),
    Supplied("tensorflow.python.ops.rnn_cell", "_linear", _OWN_CELLS + "_linear", "as _Linear"),
    Supplied(
        _CELLS,
        "_like_rnncell",
        "graphmp.legacy.operations:like_rnncell",
        "decoders of scripts up to TensorFlow 1.10",
    ),
    Supplied(
        "tensorflow.python.ops.variable_scope",
        "variable",
        "tf:Variable",
        "local_variable and global_variable; moved to ops.variables",
    ),
)


def graph_tensor() -> type:
    """The class of a graph's tensors, for `type(x) is tf.Tensor`.

    On TensorFlow 2.16 and later it is a class below `tf.Tensor`, which eager tensors share.
    """
    ops = internals.fetch(_OPS)
    return getattr(ops, "SymbolicTensor", tf.Tensor)


def supply() -> None:
    """Add each name of the table if missing, and the gradient that tf-slim forgot to register.

    The class of a graph's tensors gets the name that it had in TensorFlow 1.
    """
    graph_tensor().__name__ = graph_tensor().__qualname__ = "Tensor"
    for row in SUPPLIED:
        module = internals.fetch(row.module)
        if not _has(module, row.name):
            setattr(module, row.name, internals.fetch(row.source))
            internals.note(
                "supplied %s.%s from %s: %s", row.module, row.name, row.source, row.reason
            )
    _serve_gradient(_LOWER_BOUND, _lower_bound_gradient)


def _serve_gradient(op_type: str, gradient: Callable[..., Any]) -> None:
    """Give what looks a gradient up this one, unless the script registers its own.

    A second registration of a name would be an error.
    """
    registry = internals.fetch(_OPS + ":gradient_registry")
    registered = type(registry).lookup

    def lookup(self: Any, name: str) -> Callable[..., Any]:
        try:
            return registered(self, name)
        except LookupError:
            if self is not registry or tf.compat.as_str(name) != op_type:
                raise
            return gradient

    type(registry).lookup = lookup


def _lower_bound_gradient(op: tf.Operation, grad: tf.Tensor) -> List[Optional[tf.Tensor]]:
    """The gradient of max(x, bound) in the GDN layer, which tf-slim has but doesn't register.

    It also passes gradients that push an x below the bound up.
    """
    x, bound = op.inputs
    return [tf.where(tf.logical_or(x >= bound, grad < 0), grad, tf.zeros_like(grad)), None]


def _has(module: object, name: str) -> bool:
    try:
        getattr(module, name)
    except (AttributeError, ImportError):
        return False
    return True
