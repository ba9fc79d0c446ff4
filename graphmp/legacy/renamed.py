"""Modules of `tf.contrib` whose names are parts of TensorFlow's own modules now, name by name."""

from __future__ import annotations

from typing import Dict

_SUMMARY_OPS = "tensorflow.python.ops.summary_ops_v2:"
_BACKPROP = "tensorflow.python.eager.backprop:"
_CONTEXT = "tensorflow.python.eager.context:"

_SUMMARY = {
    "all_summary_ops": _SUMMARY_OPS + "all_v2_summary_ops",
    "flush": _SUMMARY_OPS + "legacy_raw_flush",
    "graph": _SUMMARY_OPS + "graph_v1",
}
_SUMMARY.update(
    {
        name: _SUMMARY_OPS + name
        for name in (
            "SummaryWriter",
            "always_record_summaries",
            "audio",
            "create_file_writer",
            "create_summary_file_writer",
            "eval_dir",
            "generic",
            "histogram",
            "image",
            "import_event",
            "initialize",
            "never_record_summaries",
            "record_summaries_every_n_global_steps",
            "scalar",
            "should_record_summaries",
            "summary_writer_initializer_op",
        )
    }
)

_EAGER = {
    "Checkpoint": "tf:train.Checkpoint",
    "Iterator": "tensorflow.python.data.ops.iterator_ops:OwnedIterator",
    "EagerVariableStore": "tensorflow.python.ops.variable_scope:EagerVariableStore",
    "GradientTape": "tf:GradientTape",
    "TensorSpec": "tf:TensorSpec",
    "Variable": "tensorflow.python.ops.resource_variable_ops:ResourceVariable",
    "async_wait": _CONTEXT + "async_wait",
    "custom_gradient": "tf:custom_gradient",
    "enable_eager_execution": "tf:enable_eager_execution",
    "executing_eagerly": "tf:executing_eagerly",
    "execution_mode": _CONTEXT + "execution_mode",
    "function": "tf:function",
    "gradients_function": _BACKPROP + "gradients_function",
    "implicit_gradients": _BACKPROP + "implicit_grad",
    "implicit_value_and_gradients": _BACKPROP + "implicit_val_and_grad",
    "in_eager_mode": "tf:executing_eagerly",
    "num_gpus": _CONTEXT + "num_gpus",
    "py_func": "tf:py_function",
    "set_execution_mode": _CONTEXT + "set_execution_mode",
    "value_and_gradients_function": _BACKPROP + "val_and_grad_function",
}

_STEPS = "tensorflow.python.distribute.step_fn:"
_DISTRIBUTE = {
    "AllReduceCrossDeviceOps": (
        "tensorflow.python.distribute.cross_device_ops:AllReduceCrossDeviceOps"
    ),
    "CrossDeviceOps": "tf:distribute.CrossDeviceOps",
    "DistributionStrategy": "tf:distribute.Strategy",
    "OneDeviceStrategy": "tf:distribute.OneDeviceStrategy",
    "ReplicaContext": "tf:distribute.ReplicaContext",
    "StandardInputStep": _STEPS + "StandardInputStep",
    "StandardSingleLossStep": _STEPS + "StandardSingleLossStep",
    "Step": _STEPS + "Step",
    "TPUStrategy": "tf:distribute.experimental.TPUStrategy",
    "UpdateContext": "tensorflow.python.distribute.distribute_lib:UpdateContext",
    "get_cross_replica_context": (
        "tensorflow.python.distribute.distribute_lib:get_cross_replica_context"
    ),
    "get_distribution_strategy": "tf:distribute.get_strategy",
    "get_loss_reduction": "tf:distribute.get_loss_reduction",
    "get_replica_context": "tf:distribute.get_replica_context",
    "get_strategy": "tf:distribute.get_strategy",
    "has_distribution_strategy": "tf:distribute.has_strategy",
    "has_strategy": "tf:distribute.has_strategy",
    "in_cross_replica_context": "tf:distribute.in_cross_replica_context",
    "initialize_tpu_system": "tf:tpu.experimental.initialize_tpu_system",
    "require_replica_context": (
        "tensorflow.python.distribute.distribute_lib:require_replica_context"
    ),
}

_OF_MODULES = {
    "distribute": _DISTRIBUTE,
    "eager": _EAGER,
    "eager.python.tfe": _EAGER,
    "summary": _SUMMARY,
    "summary.summary": _SUMMARY,
}
RENAMED: Dict[str, str] = {
    module + "." + name: source
    for module, names in _OF_MODULES.items()
    for name, source in names.items()
}
"""Sources by contrib path, as in `table.NAMES`."""
