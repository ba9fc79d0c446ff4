"""The table of `tf.contrib` on TensorFlow 2: the source of each module and name.

Keys are contrib paths without `tensorflow.contrib.`; values are sources (see `internals`). A name
is looked up in `NAMES` first, then in each source of its module's row in `MODULES`, in order. The
modules below `graphmp/legacy/contrib/` are only loaded through this table, when a script uses a
name.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Tuple

from graphmp.legacy import earlier
from graphmp.legacy.packages import PACKAGES
from graphmp.legacy.renamed import RENAMED

_OWN = "graphmp.legacy.contrib."
_MNIST = "graphmp.legacy.examples_mnist"
_LEARNING = tuple(
    _OWN + "learning." + name
    for name in ("metric_spec", "estimator", "exports", "experiment", "runs")
)
_FRAMEWORK = (
    _OWN + "framework",
    "tf_slim.ops.arg_scope",
    "tf_slim.ops.variables",
    "tf_slim.ops.framework_ops",
)
_LAYERS = (_OWN + "layers", "tf_slim.layers")
_EDITOR = tuple(
    _OWN + "graph_editor." + name
    for name in ("copies", "lists", "routes", "selections", "views", "walks")
)
_RNN_OWN = (
    "cells",
    "conv",
    "coupled",
    "exotic",
    "fused",
    "independent",
    "loops",
    "wrappers",
)
_RNN = (*(_OWN + "rnn." + name for name in _RNN_OWN), "tf:nn.rnn_cell")

_SEQ2SEQ = tuple(
    _OWN + "legacy_seq2seq." + name
    for name in ("attention", "buckets", "decoders", "embedding", "models", "tied")
)
_OPTIMIZERS = tuple(
    _OWN + "opt." + name for name in ("adam", "averages", "external", "lars", "weight_decay")
)
_DECODING = {
    "attention_wrapper": (
        "attention_wrapper",
        "attention_state",
        "attention",
        "monotonic",
        "mechanisms",
        "parts",
    ),
    "basic_decoder": ("basic_decoder", "parts"),
    "beam_search_decoder": (
        "beam_search_decoder",
        "beam_step",
        "beam_scores",
        "beam_trees",
        "beam_batches",
    ),
    "beam_search_ops": ("beam_trees",),
    "decoder": ("decoder", "parts"),
    "helper": ("helper", "inference", "scheduled", "sampling", "parts"),
    "loss": ("losses",),
}
_SEQ2SEQ_PUBLIC = tuple(
    _OWN + "seq2seq." + name
    for name in (
        "attention",
        "attention_state",
        "attention_wrapper",
        "basic_decoder",
        "beam_search_decoder",
        "beam_step",
        "beam_trees",
        "decoder",
        "helper",
        "inference",
        "losses",
        "mechanisms",
        "monotonic",
        "scheduled",
    )
)

_SLIM_DATA = (
    "data_decoder",
    "data_provider",
    "dataset",
    "dataset_data_provider",
    "parallel_reader",
    "prefetch_queue",
    "tfexample_decoder",
)
_SLIM_LAYERS = (
    "initializers",
    "layers",
    "normalization",
    "optimizers",
    "regularizers",
    "rev_block_lib",
    "summaries",
    "utils",
)
_SLIM_NETS = (
    "alexnet",
    "inception",
    "inception_v1",
    "inception_v2",
    "inception_v3",
    "overfeat",
    "resnet_utils",
    "resnet_v1",
    "resnet_v2",
    "vgg",
)
_SLIM_TOP = ("evaluation", "learning", "model_analyzer", "queues", "summaries")

MODULES: Dict[str, Tuple[str, ...]] = {
    **earlier.MODULES,
    "autograph": ("tf:autograph",),
    "cluster_resolver": ("tf:distribute.cluster_resolver",),
    "crf": (_OWN + "crf",),
    "crf.python.ops.crf": (_OWN + "crf",),
    "cudnn_rnn": (_OWN + "cudnn_rnn",),
    "cudnn_rnn.python.layers.cudnn_rnn": (_OWN + "cudnn_rnn",),
    "cudnn_rnn.python.ops.cudnn_rnn_ops": (_OWN + "cudnn_rnn",),
    "data": (_OWN + "data", "tf:data.experimental"),
    "deprecated": (_OWN + "deprecated",),
    "distribute": (_OWN + "distribute",),
    "distributions": ("tf:distributions",),
    "eager": (),
    "eager.python": (),
    "eager.python.tfe": (),
    "estimator": ("tf:estimator.experimental", "tf:estimator"),
    "framework": _FRAMEWORK,
    "framework.nest": ("tensorflow.python.util.nest",),
    "framework.python.framework": _FRAMEWORK,
    "framework.python.ops": _FRAMEWORK,
    "framework.python.ops.arg_scope": ("tf_slim.ops.arg_scope",),
    "framework.python.ops.variables": ("tf_slim.ops.variables",),
    "graph_editor": _EDITOR,
    "graph_editor.edit": _EDITOR,
    "graph_editor.reroute": _EDITOR,
    "graph_editor.select": _EDITOR,
    "graph_editor.subgraph": _EDITOR,
    "graph_editor.transform": _EDITOR,
    "graph_editor.util": _EDITOR,
    "image": (_OWN + "image",),
    "image.python.ops.dense_image_warp": (_OWN + "image",),
    "image.python.ops.image_ops": (_OWN + "image",),
    "keras": ("tf:keras",),
    "layers": _LAYERS,
    "layers.python.layers": _LAYERS,
    "layers.python.layers.embedding_ops": (_OWN + "layers",),
    "layers.python.layers.encoders": (_OWN + "layers",),
    "learn": _LEARNING,
    "learn.datasets": (_OWN + "learning.datasets",),
    "learn.datasets.mnist": (_MNIST, _OWN + "learning.datasets"),
    "learn.estimators": _LEARNING,
    "learn.estimators.run_config": _LEARNING,
    "learn.learn_runner": (_OWN + "learning.runs",),
    "learn.monitors": (_OWN + "learning.monitors",),
    "learn.preprocessing": (_OWN + "learn",),
    "learn.python.learn": _LEARNING,
    "learn.python.learn.datasets": (_OWN + "learning.datasets",),
    "learn.python.learn.datasets.mnist": (_MNIST, _OWN + "learning.datasets"),
    "learn.python.learn.estimators": _LEARNING,
    "learn.python.learn.estimators.estimator": _LEARNING,
    "learn.python.learn.estimators.model_fn": _LEARNING,
    "learn.python.learn.estimators.prediction_key": _LEARNING,
    "learn.python.learn.estimators.run_config": _LEARNING,
    "learn.python.learn.experiment": _LEARNING,
    "learn.python.learn.export_strategy": _LEARNING,
    "learn.python.learn.learn_runner": (_OWN + "learning.runs",),
    "learn.python.learn.metric_spec": _LEARNING,
    "learn.python.learn.monitors": (_OWN + "learning.monitors",),
    "learn.python.learn.utils.saved_model_export_utils": (_OWN + "learning.exports",),
    "learn.utils": (_OWN + "learning.exports",),
    "learn.utils.saved_model_export_utils": (_OWN + "learning.exports",),
    "legacy_seq2seq": _SEQ2SEQ,
    "legacy_seq2seq.python.ops.seq2seq": _SEQ2SEQ,
    "lookup": (_OWN + "lookup", "tensorflow.python.ops.lookup_ops"),
    "losses": ("tf_slim.losses",),
    "losses.metric_learning": ("tf_slim.losses.metric_learning",),
    "losses.python.losses": ("tf_slim.losses",),
    "losses.python.losses.loss_ops": ("tf_slim.losses.loss_ops",),
    "losses.python.metric_learning": ("tf_slim.losses.metric_learning",),
    "memory_stats": (_OWN + "memory_stats",),
    "metrics": ("tf_slim.metrics",),
    "metrics.python.ops": ("tf_slim.metrics",),
    "metrics.python.ops.metric_ops": ("tf_slim.metrics.metric_ops",),
    "predictor": (_OWN + "predictor",),
    "rnn": _RNN,
    "rnn.python.ops.core_rnn_cell": (_OWN + "rnn.base", *_RNN),
    "rnn.python.ops.fused_rnn_cell": _RNN,
    "rnn.python.ops.gru_ops": _RNN,
    "rnn.python.ops.lstm_ops": _RNN,
    "rnn.python.ops.rnn": _RNN,
    "rnn.python.ops.rnn_cell": (_OWN + "rnn.base", *_RNN),
    "mixed_precision": (_OWN + "mixed_precision",),
    "opt": _OPTIMIZERS,
    "opt.python.training.external_optimizer": (_OWN + "opt.external",),
    "seq2seq": _SEQ2SEQ_PUBLIC,
    "signal": ("tf:signal",),
    "slim": ("tf_slim", _OWN + "layers"),
    "slim.losses": ("tf_slim.losses",),
    "slim.metrics": ("tf_slim.metrics",),
    "slim.nets": ("tf_slim.nets",),
    "slim.python.slim": ("tf_slim",),
    "slim.python.slim.data": ("tf_slim.data",),
    "slim.python.slim.nets": ("tf_slim.nets",),
    "summary": (),
    "summary.summary": (),
    "tensorboard.plugins.projector": ("tensorboard.plugins.projector",),
    "tfprof.tfprof_logger": (),
    "tfprof.model_analyzer": (_OWN + "tfprof",),
    "tpu": ("tf:tpu",),
    "tpu.python.tpu.tpu_config": ("tf:estimator.tpu",),
    "tpu.python.tpu.tpu_estimator": ("tf:estimator.tpu",),
    "tpu.python.tpu.tpu_optimizer": ("tf:tpu",),
    "training": (_OWN + "training", "tf_slim.training.training", "tf_slim.training.evaluation"),
    "training.python.training.hparam": (_OWN + "training",),
    "training.python.training.training": ("tf_slim.training.training",),
}
MODULES.update(
    {"layers.python.layers." + name: ("tf_slim.layers." + name,) for name in _SLIM_LAYERS}
)
MODULES.update(
    {
        "seq2seq.python.ops." + name: tuple(_OWN + "seq2seq." + source for source in sources)
        for name, sources in _DECODING.items()
    }
)
MODULES.update({"slim." + name: ("tf_slim." + name,) for name in _SLIM_TOP})
MODULES.update({"slim." + name: ("tf_slim.data." + name,) for name in _SLIM_DATA})
MODULES.update({"slim.nets." + name: ("tf_slim.nets." + name,) for name in _SLIM_NETS})
MODULES.update({"slim.python.slim." + name: ("tf_slim." + name,) for name in _SLIM_TOP})
MODULES.update({"slim.python.slim.data." + name: ("tf_slim.data." + name,) for name in _SLIM_DATA})
MODULES.update({"slim.python.slim.nets." + name: ("tf_slim.nets." + name,) for name in _SLIM_NETS})

# Single names: moved, renamed, or out of modules too large to offer whole.
NAMES: Dict[str, str] = {
    **RENAMED,
    **earlier.NAMES,
    "compiler.jit.experimental_jit_scope": "tf:xla.experimental.jit_scope",
    "compiler.xla.compile": "tf:xla.experimental.compile",
    "framework.BoundedTensorSpec": "tensorflow.python.framework.tensor_spec:BoundedTensorSpec",
    "framework.RecordInput": "tensorflow.python.ops.data_flow_ops:RecordInput",
    "framework.TensorSpec": "tf:TensorSpec",
    "framework.argsort": "tf:argsort",
    "framework.assert_same_float_dtype": "tf:debugging.assert_same_float_dtype",
    "framework.assert_scalar": "tf:debugging.assert_scalar",
    "framework.convert_to_tensor_or_sparse_tensor": "tf:convert_to_tensor_or_sparse_tensor",
    "framework.convolutional_delta_orthogonal": (
        "tensorflow.python.ops.init_ops:convolutional_delta_orthogonal"
    ),
    "framework.convolutional_orthogonal_1d": (
        "tensorflow.python.ops.init_ops:convolutional_orthogonal_1d"
    ),
    "framework.convolutional_orthogonal_2d": (
        "tensorflow.python.ops.init_ops:convolutional_orthogonal_2d"
    ),
    "framework.convolutional_orthogonal_3d": (
        "tensorflow.python.ops.init_ops:convolutional_orthogonal_3d"
    ),
    "framework.deprecated": "tensorflow.python.util.deprecation:deprecated",
    "framework.deprecated_arg_values": "tensorflow.python.util.deprecation:deprecated_arg_values",
    "framework.deprecated_args": "tensorflow.python.util.deprecation:deprecated_args",
    "framework.init_from_checkpoint": "tf:train.init_from_checkpoint",
    "framework.is_non_decreasing": "tf:debugging.is_non_decreasing",
    "framework.is_numeric_tensor": "tf:debugging.is_numeric_tensor",
    "framework.is_strictly_increasing": "tf:debugging.is_strictly_increasing",
    "framework.is_tensor": "tf:is_tensor",
    "framework.list_variables": "tf:train.list_variables",
    "framework.load_checkpoint": "tf:train.load_checkpoint",
    "framework.load_variable": "tf:train.load_variable",
    "framework.nest.is_sequence": "tensorflow.python.util.nest:is_nested",
    "framework.prepend_name_scope": "tensorflow.python.framework.ops:prepend_name_scope",
    "framework.smart_case": "tensorflow.python.framework.smart_cond:smart_case",
    "framework.smart_cond": "tensorflow.python.framework.smart_cond:smart_cond",
    "framework.smart_constant_value": "tensorflow.python.framework.smart_cond:smart_constant_value",
    "framework.sort": "tf:sort",
    "framework.strip_name_scope": "tensorflow.python.framework.ops:strip_name_scope",
    "layers.safe_embedding_lookup_sparse": "tf:nn.safe_embedding_lookup_sparse",
    "layers.summaries": "tf_slim.layers.summaries",
    "learn.ModeKeys": _OWN + "mode_keys:ModeKeys",
    "learn.python.learn.ModeKeys": _OWN + "mode_keys:ModeKeys",
    "learn.estimators.ModeKeys": _OWN + "mode_keys:ModeKeys",
    "learn.python.learn.estimators.model_fn.ModeKeys": _OWN + "mode_keys:ModeKeys",
    "metrics.confusion_matrix": "tf:math.confusion_matrix",
    "metrics.set_difference": "tf:sets.difference",
    "metrics.set_intersection": "tf:sets.intersection",
    "metrics.set_size": "tf:sets.size",
    "metrics.set_union": "tf:sets.union",
    "rnn.LayerRNNCell": _OWN + "rnn.base:LayerRNNCell",
    "rnn.best_effort_input_batch_size": "tensorflow.python.ops.rnn:_best_effort_input_batch_size",
    "rnn.static_bidirectional_rnn": "tf:nn.static_bidirectional_rnn",
    "rnn.static_rnn": "tf:nn.static_rnn",
    "rnn.static_state_saving_rnn": "tf:nn.static_state_saving_rnn",
    "rnn.transpose_batch_time": "tensorflow.python.ops.rnn:_transpose_batch_time",
    "slim.safe_embedding_lookup_sparse": "tf:nn.safe_embedding_lookup_sparse",
    "staging.StagingArea": "tensorflow.python.ops.data_flow_ops:StagingArea",
    "stateless.stateless_multinomial": "tf:random.stateless_multinomial",
    "stateless.stateless_random_normal": "tf:random.stateless_normal",
    "stateless.stateless_random_uniform": "tf:random.stateless_uniform",
    "stateless.stateless_truncated_normal": "tf:random.stateless_truncated_normal",
    "tfprof.tfprof_logger.write_op_log": "tf:profiler.write_op_log",
    "tpu.InputPipelineConfig": "tf:estimator.tpu.InputPipelineConfig",
    "tpu.RunConfig": "tf:estimator.tpu.RunConfig",
    "tpu.TPUConfig": "tf:estimator.tpu.TPUConfig",
    "tpu.TPUEstimator": "tf:estimator.tpu.TPUEstimator",
    "tpu.TPUEstimatorSpec": "tf:estimator.tpu.TPUEstimatorSpec",
    "util.constant_value": "tf:get_static_value",
    "util.make_ndarray": "tf:make_ndarray",
    "util.make_tensor_proto": "tf:make_tensor_proto",
    "util.ops_used_by_graph_def": "tensorflow.python.framework.meta_graph:ops_used_by_graph_def",
    "util.stripped_op_list_for_graph": (
        "tensorflow.python.framework.meta_graph:stripped_op_list_for_graph"
    ),
}


def _importable() -> FrozenSet[str]:
    parts = [key.split(".") for key in MODULES]
    prefixes = {".".join(path[:length]) for path in parts for length in range(len(path) + 1)}
    return frozenset(prefixes | PACKAGES)


IMPORTABLE = _importable()
# Names that a package has in place of its module of that name; all that 1.15.5's contrib has.
IN_PLACE_OF_MODULES = frozenset(
    ("framework.python.framework.experimental", "framework.python.ops.arg_scope")
)
