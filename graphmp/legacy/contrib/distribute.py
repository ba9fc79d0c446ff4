"""Strategies of `tf.contrib.distribute` that `tf.distribute` makes of other arguments."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

__all__ = ["CollectiveAllReduceStrategy", "MirroredStrategy", "ParameterServerStrategy"]


class MirroredStrategy(tf.distribute.MirroredStrategy):
    """`tf.distribute.MirroredStrategy`, on as many GPUs as a number says."""

    def __init__(
        self,
        devices: Any = None,
        num_gpus: Optional[int] = None,
        num_gpus_per_worker: Optional[int] = None,
        cross_device_ops: Any = None,
        auto_shard_dataset: bool = False,
        cross_tower_ops: Any = None,
    ):
        """Start on the given devices, or on GPUs by number; without GPUs on the CPU.

        Args:
            devices: names of devices.
            num_gpus: how many GPUs, instead of their names.
            num_gpus_per_worker: the same, of this machine.
            cross_device_ops: how replicas add their gradients.
            auto_shard_dataset: of more than one machine, so without effect here.
            cross_tower_ops: the old name of `cross_device_ops`.

        Raises:
            ValueError: devices and a number are given, or two numbers.
        """
        del auto_shard_dataset
        given = [value for value in (devices, num_gpus, num_gpus_per_worker) if value is not None]
        if len(given) > 1:
            raise ValueError("Give one of devices, num_gpus and num_gpus_per_worker")
        count = num_gpus if num_gpus_per_worker is None else num_gpus_per_worker
        if count is not None:
            devices = ["/device:GPU:%d" % place for place in range(count)] or ["/device:CPU:0"]
        super().__init__(devices, cross_device_ops or cross_tower_ops)


class ParameterServerStrategy(tf.distribute.experimental.ParameterServerStrategy):
    """The strategy of `tf.distribute`, which finds the GPUs of a worker itself."""

    def __init__(self, num_gpus_per_worker: int = 0):
        del num_gpus_per_worker
        super().__init__()


class CollectiveAllReduceStrategy(tf.distribute.experimental.MultiWorkerMirroredStrategy):
    """`MultiWorkerMirroredStrategy`, which finds the GPUs of a worker itself."""

    def __init__(self, num_gpus_per_worker: int = 0, communication: Any = None):
        del num_gpus_per_worker
        super().__init__(*([] if communication is None else [communication]))
