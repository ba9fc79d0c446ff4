"""One run of a task in one precision, with the same initial values and batches in each."""

import functools
import importlib
import itertools
import time

import graphmp  # before TensorFlow, which reads its settings on import
from graphmp.audit.pair.simulate import simulated

# isort: split
import numpy as np
import tensorflow.compat.v1 as tf

TASKS = ("cnn", "resnet", "char_lstm", "transformer", "vae")
FLOAT32 = "float32"
COLUMNS = {
    FLOAT32: None,
    "float16_128": {"compute_dtype": "float16", "loss_scale": 128.0},
    "float16_dynamic": {"compute_dtype": "float16", "loss_scale": "dynamic"},
    "bfloat16": {"compute_dtype": "bfloat16"},
}
SKIPPED = "graphmp/loss_scale/skipped"


def task(name):
    """The module of a task: `build`, `batches`, `validation`, and constants in capitals."""
    return importlib.import_module(name)


def settings(name):
    """A task's constants except the margin, which doesn't affect runs.

    Runs with equal settings are the same run.
    """
    constants = {
        key: value for key, value in vars(task(name)).items() if key.isupper() and key != "MARGIN"
    }
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in constants.items()
    }


def arithmetic(wanted):
    """`native` or `simulated`; `auto` is native if there is a GPU."""
    if wanted != "auto":
        return wanted
    return "native" if tf.config.experimental.list_physical_devices("GPU") else "simulated"


def exact_float32():
    """Disable TF32, the default of TensorFlow 2.4 and later: float32 with 10 bits of mantissa."""
    switch = getattr(tf.config.experimental, "enable_tensor_float_32_execution", None)
    if switch is not None:
        switch(False)


def train(name, column, seed, how, steps):
    """Train a task and measure it.

    Args:
        name: of the task.
        column: of COLUMNS.
        seed: of the initial values, the batches and the graph's own random numbers.
        how: `native`, or `simulated` for half precision computed in float32 and rounded.
        steps: the number of training steps.

    Returns:
        A dict: `value` is the measure after training, `first_loss` the loss of the first step,
        `half` the number of matmuls and convolutions in half precision, of all, `skipped` the
        number of steps skipped for an overflow, and the seconds.
    """
    start = time.time()
    config = _session_config(how)
    meta_graph, fetches, values = _built(name, seed)
    half = ""
    if COLUMNS[column] is not None:
        meta_graph, half = _converted(meta_graph, COLUMNS[column], how)
    batches = itertools.islice(task(name).batches(seed), steps)
    result = _run(meta_graph, config, fetches, values, batches, task(name).validation())
    result.update(half=half, seconds=round(time.time() - start, 1))
    return result


@functools.lru_cache(maxsize=1)
def _built(name, seed):
    """The float32 graph, the names of the values returned by `build`, and the initial values.

    The initial values are by the op name of the variable.
    """
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.set_random_seed(seed)
        fetches = [node.name for node in task(name).build()]
        session.run(tf.global_variables_initializer())
        variables = tf.global_variables()
        values = dict(zip([variable.op.name for variable in variables], session.run(variables)))
        return tf.train.export_meta_graph(), fetches, values


def _session_config(how):
    """The session configuration; without graph optimisations for simulated arithmetic.

    Every rounding in the graph is then executed.
    """
    config = graphmp.session_config()
    config.graph_options.rewrite_options.disable_meta_optimizer = how == "simulated"
    return config


def _converted(meta_graph, options, how):
    conversion = graphmp.convert(meta_graph, **options)
    coverage = conversion.report["coverage"]
    converted = (
        simulated(conversion.meta_graph).meta_graph if how == "simulated" else conversion.meta_graph
    )
    return converted, "%d of %d" % (coverage["converted_ops"], coverage["tensor_core_ops"])


def _run(meta_graph, config, fetches, values, batches, validation):
    loss, train_op, measure = fetches
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(meta_graph)
        with tf.Session(graph=graph, config=config) as session:
            variables = [
                variable for variable in tf.global_variables() if variable.op.name in values
            ]
            given = {
                variable.initializer.inputs[1]: values[variable.op.name] for variable in variables
            }
            session.run(tf.global_variables_initializer(), given)
            losses = [session.run([loss, train_op], batch)[0] for batch in batches]
            value = np.mean([session.run(measure, batch) for batch in validation])
            counted = SKIPPED in {op.name for op in graph.get_operations()}
            skipped = int(session.run(SKIPPED + ":0")) if counted else 0
    return {
        "value": float(value),
        "first_loss": float(losses[0]),
        "last_loss": float(losses[-1]),
        "skipped": skipped,
    }
