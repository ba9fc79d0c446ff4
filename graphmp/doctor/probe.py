"""Facts that need an imported TensorFlow, as JSON. `python -m graphmp.doctor.probe`

It runs in a process of its own: a TensorFlow that doesn't fit its protobuf, its numpy or the CPU
can crash the importing process. Kernels are tried, since builds of the same version differ.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any, Dict

import tensorflow.compat.v1 as tf


def facts() -> Dict[str, Any]:
    """The version, the Keras behind `tf.keras`, GPUs, and convolutions that train on the CPU."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    return {
        "version": tf.__version__,
        "cuda": tf.test.is_built_with_cuda(),
        "keras": keras(),
        "gpus": gpus(),
        "bfloat16": trains(tf.bfloat16, "NHWC"),
        "channels_first": trains(tf.float32, "NCHW"),
        "channels_first_float16": trains(tf.float16, "NCHW"),
    }


def keras() -> str:
    """The package behind `tf.keras`: tensorflow, tf_keras or keras; empty if there is none."""
    try:
        return str(tf.keras.layers.Layer.__module__).split(".")[0]
    except ImportError:  # TensorFlow 2.15.1 and later, asked for Keras 2, without tf-keras
        return ""


def gpus() -> Any:
    """The GPUs in TensorFlow's words.

    For example "device: 0, name: Tesla V100, ..., compute capability: 7.0".
    """
    library = importlib.import_module(
        "tensorflow.python.client.device_lib"
    )  # get_device_details was added after 1.15.5
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True  # else it takes all of the GPU's memory
    return [
        device.physical_device_desc
        for device in library.list_local_devices(config)
        if device.device_type == "GPU"
    ]


def trains(dtype: Any, data_format: str) -> bool:
    """Whether a convolution and its gradients run on the CPU with `graphmp.session_config`.

    Sums in float32 are fetched, as in a training step: layout conversion doesn't change a fetched
    convolution (2.21).
    """
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        images = tf.placeholder_with_default(tf.zeros([1, 8, 8, 8], dtype), [1, 8, 8, 8])
        filters = tf.placeholder_with_default(tf.zeros([3, 3, 8, 8], dtype), [3, 3, 8, 8])
        outputs = tf.nn.conv2d(
            images, filters, strides=[1, 1, 1, 1], padding="SAME", data_format=data_format
        )
        gradients = tf.gradients(outputs, [images, filters])
        config = tf.ConfigProto(device_count={"GPU": 0})
        rewrites = config.graph_options.rewrite_options
        if hasattr(rewrites, "cpu_layout_conversion"):
            rewrites.cpu_layout_conversion = rewrites.NCHW_TO_NHWC
        with tf.Session(config=config) as session:
            try:
                session.run(
                    [tf.reduce_sum(tf.cast(each, tf.float32)) for each in [outputs] + gradients]
                )
            except tf.errors.OpError:
                return False
    return True


if __name__ == "__main__":
    sys.stdout.write(json.dumps(facts()) + "\n")
