"""The packages of `tf.contrib` in TensorFlow 1.15.5, served or not; others are typing errors.

Dotted ones are modules reached through attributes
(`tf.contrib.learn.preprocessing.VocabularyProcessor`), listed so that the error can give the full
name.
"""

from __future__ import annotations

_PACKAGES = """
    all_reduce autograph batching bayesflow bigtable boosted_trees checkpoint cloud cluster_resolver
    compiler constrained_optimization copy_graph crf cudnn_rnn data decision_trees deprecated
    distribute distributions eager estimator factorization feature_column ffmpeg framework
    fused_conv graph_editor grid_rnn hadoop hooks ignite image input_pipeline integrate kafka keras
    kernel_methods kinesis labeled_tensor layers learn legacy_seq2seq libsvm linear_optimizer lookup
    losses memory_stats meta_graph_transform metrics mixed_precision model_pruning nearest_neighbor
    nn opt optimizer_v2 periodic_resample predictor proto quantization quantize receptive_field
    recurrent reduce_slice_ops remote_fused_graph resampler rnn rpc saved_model seq2seq
    session_bundle signal slim solvers sparsemax specs staging stat_summarizer stateless summary
    tensor_forest tensorboard tensorrt testing text tfprof timeseries tpu training util
    bayesflow.monte_carlo compiler.jit compiler.xla distributions.bijectors eager.metrics
    learn.datasets learn.datasets.base learn.datasets.mnist learn.datasets.synthetic
    learn.datasets.text_datasets learn.graph_actions learn.head learn.io learn.learn_runner
    learn.models learn.ops learn.preprocessing learn.utils solvers.lanczos solvers.least_squares
    solvers.linear_equations tensor_forest.client tensor_forest.client.random_forest
    tfprof.model_analyzer tpu.profiler
"""
PACKAGES = frozenset(_PACKAGES.split())
