"""`multi_gpu_model` of Keras 2, which TensorFlow dropped in 2.4."""

from __future__ import annotations

from typing import Any, Sequence, Union

import tensorflow.compat.v1 as tf


def multi_gpu_model(
    model: Any,
    gpus: Union[int, Sequence[int], None] = None,
    cpu_merge: bool = True,
    cpu_relocation: bool = False,
) -> Any:
    """A model that computes a part of each batch on each of some GPUs, on shared weights.

    Args:
        model: the model.
        gpus: how many, or which; all by default.
        cpu_merge: whether the CPU joins the outputs.
        cpu_relocation: whether the weights are made anew, on the CPU.

    Raises:
        ValueError: if there are fewer than two GPUs, or not all of those that are asked for.
    """
    found = len(tf.config.list_logical_devices("GPU"))
    gpus = found if gpus is None else gpus
    wanted = range(gpus) if isinstance(gpus, int) else gpus
    if len(wanted) < 2 or not set(wanted) <= set(range(found)):
        raise ValueError(
            "multi_gpu_model takes two GPUs or more: gpus is %s, and TensorFlow finds %d"
            % (gpus, found)
        )
    if cpu_relocation:
        with tf.device("/cpu:0"):
            model = tf.keras.models.clone_model(model)
    parts = []
    for number, gpu in enumerate(wanted):
        with tf.device("/gpu:%d" % gpu), tf.name_scope("replica_%d" % number):
            own = [_part(number, len(wanted))(each) for each in model.inputs]
            parts.append(_listed(model(own[0] if len(own) == 1 else own)))
    with tf.device("/cpu:0" if cpu_merge else "/gpu:%d" % wanted[0]):
        joined = [
            tf.keras.layers.concatenate(list(outputs), axis=0, name=name)
            for name, outputs in zip(model.output_names, zip(*parts))
        ]
    return tf.keras.models.Model(model.inputs, joined)


def _part(number: int, count: int) -> Any:
    """A layer that takes one of some parts of a batch; the last one has what is left over."""

    def taken(batch: Any) -> Any:
        rows = tf.shape(batch)[0]
        end = rows if number == count - 1 else (number + 1) * (rows // count)
        return batch[number * (rows // count) : end]

    return tf.keras.layers.Lambda(taken)


def _listed(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else [value]
