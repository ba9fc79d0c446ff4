"""Small programs of `contrib.summary`, `tfprof`, `predictor` and `eager`: what they compute."""

from __future__ import annotations

import glob
import tempfile
from typing import Any, Dict, List

import tensorflow.compat.v1 as tf


def summary(contrib: Any) -> Dict[str, Any]:
    """Summaries of every second step, and of every step, read back from the file of events."""
    with tempfile.TemporaryDirectory() as folder:
        step = tf.train.get_or_create_global_step()
        writer = contrib.create_file_writer(folder, flush_millis=1000)
        with writer.as_default():
            with contrib.record_summaries_every_n_global_steps(2):
                contrib.scalar("second", tf.cast(step, tf.float32) * 10.0)
            with contrib.always_record_summaries():
                contrib.scalar("every", 1.5, step=step + 100)
                contrib.histogram("histogram", tf.constant([1.0, 2.0]))
                contrib.image("image", tf.ones([1, 2, 2, 3]))
            with contrib.never_record_summaries():
                contrib.scalar("never", 1.0)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                contrib.initialize(graph=session.graph, session=session)
                for _ in range(3):
                    session.run(contrib.all_summary_ops())
                    session.run(tf.assign_add(step, 1))
                session.run(contrib.flush())
        return {"ops": len(contrib.all_summary_ops()), "events": _events(folder)}


def deprecated(contrib: Any) -> Dict[str, Any]:
    """The summaries of `contrib.deprecated`, alone and merged."""
    made = [
        contrib.scalar_summary(["a", "b"], [1.5, 2.5]),
        contrib.histogram_summary("spread", [1.0, 2.0], collections=["others"]),
        contrib.image_summary("image", tf.ones([2, 2, 2, 3]), max_images=1),
        contrib.audio_summary("sound", tf.zeros([1, 4, 1]), 8000.0, max_outputs=1, name="audio"),
    ]
    merged = [contrib.merge_summary(made), contrib.merge_all_summaries()]
    merged.append(contrib.merge_all_summaries("others"))
    with tf.Session() as session:
        found = [tf.Summary.FromString(text) for text in session.run([*made, *merged])]
    tags = [[value.tag for value in summary.value] for summary in found]
    numbers = [value.simple_value for value in found[0].value]
    return {"tags": tags, "numbers": numbers, "names": [tensor.op.name for tensor in made]}


def _events(folder: str) -> List[str]:
    (path,) = glob.glob(folder + "/*tfevents*")
    found = []
    for event in tf.train.summary_iterator(path):
        found += ["graph"] if event.graph_def else []
        for value in event.summary.value:
            shown = "%g" % value.simple_value if value.HasField("simple_value") else ""
            found.append("%d %s %s" % (event.step, value.tag, shown))
    return sorted(found)


def tfprof(analyzer: Any) -> Dict[str, Any]:
    """Numbers of parameters and operations, counted by the profiler."""
    weights = tf.get_variable("weights", [3, 4], initializer=tf.zeros_initializer())
    product = tf.matmul(tf.ones([2, 3]), weights)
    quiet = {"output": "none"}
    options = dict(analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS, **quiet)
    flops = dict(analyzer.FLOAT_OPS_OPTIONS, **quiet)
    graph = product.graph
    return {
        "parameters": analyzer.print_model_analysis(graph, tfprof_options=options).total_parameters,
        "by_op": analyzer.print_model_analysis(graph, None, None, "op", options).total_parameters,
        "flops": analyzer.print_model_analysis(graph, tfprof_options=flops).total_float_ops,
    }


def predictor(contrib: Any) -> Dict[str, Any]:
    """Predictions by a signature, by another one, and by names."""
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder + "/model")
        usual = contrib.from_saved_model(folder + "/model")
        other = contrib.from_saved_model(folder + "/model", signature_def_key="half")
        named = contrib.from_saved_model(
            folder + "/model", input_names={"in": "x:0"}, output_names={"out": "half:0"}
        )
        return {
            "usual": usual({"x": [1.0, 3.0]})["y"].tolist(),
            "other": other({"x": [1.0, 3.0]})["h"].tolist(),
            "named": named({"in": [1.0, 3.0]})["out"].tolist(),
            "feeds": sorted(usual.feed_tensors),
            "fetches": sorted(t.name for t in usual.fetch_tensors.values()),
            "refused": [
                _error(lambda: usual({"z": 1})),
                _error(lambda: contrib.from_saved_model(folder + "/model", "half", object())),
            ],
        }


def save_model(folder: str) -> None:
    """Write a SavedModel with two signatures."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        scale = tf.get_variable("scale", initializer=2.0)
        y, half = tf.multiply(x, scale, name="y"), tf.multiply(x, 0.5, name="half")
        session.run(tf.global_variables_initializer())
        signature = tf.saved_model.signature_def_utils.predict_signature_def
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.tag_constants.SERVING],
            {
                "serving_default": signature({"x": x}, {"y": y}),
                "half": signature({"x": x}, {"h": half}),
            },
        )
        builder.save()


def _error(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "none"


def distribute(contrib: Any) -> Dict[str, Any]:
    """A mirrored strategy on the CPU, and what is refused."""
    strategy = contrib.MirroredStrategy(devices=["/cpu:0"])
    with strategy.scope():
        inside = contrib.get_distribution_strategy() is strategy
        variable = tf.get_variable("mirrored", initializer=3.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value = float(session.run(variable))
    one = contrib.OneDeviceStrategy("/cpu:0")
    return {
        "value": value,
        "known": [inside, contrib.has_distribution_strategy()],
        "replicas": [strategy.num_replicas_in_sync, one.num_replicas_in_sync],
        "refused": [_error(lambda: contrib.MirroredStrategy(["/cpu:0"], num_gpus=2))],
    }
