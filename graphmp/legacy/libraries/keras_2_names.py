"""The names of Keras 2, by what stands for them in tf-keras, TensorFlow or graphmp."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable, Dict, Tuple

import tensorflow.compat.v1 as tf

_LAYERS = (
    *("advanced_activations", "convolutional", "convolutional_recurrent", "core"),
    *("cudnn_recurrent", "embeddings", "local", "merge", "noise", "normalization", "pooling"),
    *("recurrent", "wrappers"),
)
_ENGINE = (
    *("base_layer", "input_layer", "network", "sequential", "topology", "training"),
    "training_utils",
)
_UTILITIES = (
    *("conv_utils", "data_utils", "generic_utils", "io_utils", "layer_utils", "np_utils"),
    *("multi_gpu_utils", "training_utils", "vis_utils"),
)
# Modules of Keras 2.3.1, with the modules of `tf.keras` that have their names.
MODULES: Dict[str, Tuple[str, ...]] = {
    "backend.common": ("backend",),
    "backend.load_backend": ("backend",),
    "backend.tensorflow_backend": ("backend",),
    "callbacks.callbacks": ("callbacks",),
    "engine": ("layers", "models"),
    "engine.saving": ("models",),
    "legacy": (),
    "legacy.interfaces": (),
    "legacy.layers": ("layers",),
    "objectives": ("losses",),
    **{"engine." + name: ("layers", "models") for name in _ENGINE},
    **{"layers." + name: ("layers",) for name in _LAYERS},
    **{"utils." + name: ("utils",) for name in _UTILITIES},
}

# Names of Keras 2 that no module of tf-keras has, by how they are made.
_BACKEND: Dict[str, Callable[[], Any]] = {
    "backend": lambda: lambda: "tensorflow",
    "Function": lambda: _inside("backend", "GraphExecutionFunction"),
    "control_dependencies": lambda: tf.control_dependencies,
    "get_variable_shape": lambda: tf.keras.backend.int_shape,
    "has_arg": lambda: _inside("utils.generic_utils", "has_arg"),
    "image_dim_ordering": lambda: _image_dim_ordering,
    "set_image_dim_ordering": lambda: _set_image_dim_ordering,
    "is_tensor": lambda: tf.is_tensor,
    "is_variable": lambda: _is_variable,
    "logsumexp": lambda: _logsumexp,
    "normalize_data_format": lambda: _inside("utils.conv_utils", "normalize_data_format"),
    "size": lambda: tf.size,
    "slice": lambda: tf.slice,
    "symbolic": lambda: _symbolic,
    "tf": lambda: sys.modules["tensorflow"],
}
_LAYERS_OF_KERAS_1: Dict[str, Callable[[], Any]] = {
    "Highway": lambda: _own("keras_1_layers", "Highway"),
    "MaxoutDense": lambda: _own("keras_1_layers", "MaxoutDense"),
}
_SEVERAL_GPUS = {"multi_gpu_model": lambda: _own("several_gpus", "multi_gpu_model")}
_INTERFACES = (
    *("add_weight", "batchnorm", "conv1d", "conv2d", "conv3d", "convlstm2d", "deconv2d", "dense"),
    *("dropout", "embedding", "gaussiandropout", "gaussiannoise", "generator_methods"),
    *("get_updates", "global_pooling", "input", "lambda", "model_constructor", "pooling1d"),
    *("pooling2d", "pooling3d", "prelu", "recurrent", "separable_conv2d", "spatialdropout1d"),
    *("spatialdropoutNd", "upsampling1d", "upsampling2d", "upsampling3d", "zeropadding2d"),
    *("zeropadding3d", "cropping2d", "cropping3d"),
)
SUPPLIED: Dict[str, Dict[str, Callable[[], Any]]] = {
    "": {"__version__": lambda: importlib.import_module("tf_keras").__version__},
    "backend": _BACKEND,
    "backend.tensorflow_backend": _BACKEND,
    "layers": _LAYERS_OF_KERAS_1,
    "layers.core": _LAYERS_OF_KERAS_1,
    "legacy.interfaces": dict.fromkeys(
        ["legacy_%s_support" % name for name in _INTERFACES], lambda: _symbolic
    ),
    "legacy.layers": _LAYERS_OF_KERAS_1,
    "utils": _SEVERAL_GPUS,
    "utils.multi_gpu_utils": _SEVERAL_GPUS,
    "utils.training_utils": _SEVERAL_GPUS,
    "optimizers": {"Optimizer": lambda: _inside("optimizers.optimizer_v1", "Optimizer")},
}
# Parts of tf-keras by the other names, or in the other modules, that Keras 2.3.1 has them under.
_OPTIMIZERS = ("SGD", "RMSprop", "Adagrad", "Adadelta", "Adam", "Adamax", "Nadam")
_INPUTS = {"Input": "layers.Input", "InputLayer": "layers.InputLayer"}
_SOURCE_INPUTS = {"get_source_inputs": "utils.get_source_inputs"}
_DECONVOLUTIONS = {
    "Deconv2D": "layers.Conv2DTranspose",
    "Deconv3D": "layers.Conv3DTranspose",
    "Deconvolution2D": "layers.Conv2DTranspose",
    "Deconvolution3D": "layers.Conv3DTranspose",
}
ALIASES: Dict[str, Dict[str, str]] = {
    "constraints": {
        "maxnorm": "constraints.MaxNorm",
        "nonneg": "constraints.NonNeg",
        "unitnorm": "constraints.UnitNorm",
    },
    "engine": _SOURCE_INPUTS,
    "engine.network": {**_SOURCE_INPUTS, "Network": "models.Model"},
    "engine.topology": {**_SOURCE_INPUTS, "Container": "models.Model", "Network": "models.Model"},
    "initializers": {"one": "initializers.ones", "zero": "initializers.zeros"},
    **dict.fromkeys(["layers", "layers.convolutional"], _DECONVOLUTIONS),
    "models": _INPUTS,
    "optimizers": {name.lower(): "optimizers." + name for name in _OPTIMIZERS},
}
# Modules of tf-keras's source that have names of a module of Keras 2 too, besides that of its path.
INSIDE: Dict[str, Tuple[str, ...]] = {
    "backend.tensorflow_backend": ("backend",),
    "engine.base_layer": ("engine.node",),
    "engine.network": ("engine.functional", "engine.node"),
    "engine.saving": ("saving.legacy.hdf5_format", "saving.legacy.save"),
    "engine.topology": (
        *("engine.base_layer", "engine.node", "saving.legacy.hdf5_format"),
        "utils.generic_utils",
    ),
    "engine.training": ("engine.training_v1", "engine.training_utils_v1"),
    "engine.training_utils": ("engine.training_utils_v1",),
    "layers.convolutional": ("utils.conv_utils",),
    "layers.convolutional_recurrent": ("layers.rnn.conv_lstm2d",),
    "layers.recurrent": ("layers.rnn.rnn_utils", "utils.generic_utils"),
    "models": ("utils.io_utils",),
    "utils.generic_utils": ("utils.tf_inspect",),
}
_ORDERINGS = {"channels_first": "th", "channels_last": "tf"}


def inside(module: str) -> Any:
    """A module of tf-keras's source; None if it isn't there."""
    try:
        return importlib.import_module("tf_keras.src." + module)
    except ImportError:
        return None


def _inside(module: str, name: str) -> Any:
    return getattr(inside(module), name)


def _own(module: str, name: str) -> Any:
    """A part that graphmp supplies."""
    return getattr(importlib.import_module("graphmp.legacy.libraries." + module), name)


def _symbolic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that changes nothing: of functions that TensorFlow 1 runs as they are."""
    return function


def _is_variable(x: Any) -> bool:
    """Whether a value is a variable of TensorFlow."""
    return isinstance(x, tf.Variable)


def _logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """As `tf.reduce_logsumexp`."""
    return tf.reduce_logsumexp(x, axis, keepdims)


def _image_dim_ordering() -> str:
    return _ORDERINGS[tf.keras.backend.image_data_format()]


def _set_image_dim_ordering(dim_ordering: str) -> None:
    formats = {ordering: name for name, ordering in _ORDERINGS.items()}
    tf.keras.backend.set_image_data_format(formats[dim_ordering])
