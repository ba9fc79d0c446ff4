"""Training code with the step or the gradients in a function, a loop or a branch.

Each builds a graph with an init op and a Saver.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Callable, Dict, List

import tensorflow.compat.v1 as tf

from tests.support.control_flow import control_flow

Defun = importlib.import_module("tensorflow.python.framework.function").Defun
ROWS = 8


class Model:
    """Two layers, and a batch."""

    def __init__(self, use_resource: bool = True):
        self.x = tf.placeholder(tf.float32, (ROWS, 12), "x")
        with tf.variable_scope("net", use_resource=use_resource):
            self.variables = [tf.get_variable("w", (12, 6)), tf.get_variable("v", (6, 1))]
            self.momentum = tf.get_variable(
                "momentum", (12, 6), initializer=tf.zeros_initializer(), trainable=False
            )
            self.steps = tf.get_variable(
                "steps", (), tf.int64, tf.zeros_initializer(), trainable=False
            )

    def gradients(self, x: Any) -> List[Any]:
        w, v = map(tf.identity, self.variables)
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(x, w)), v) - 1.0))
        return list(tf.gradients(loss, [w, v]))

    def write(self, gradients: List[Any]) -> List[Any]:
        """A step of momentum, one of gradient descent, and a counter; returns the ops."""
        (w, v), (dw, dv) = self.variables, gradients
        moved = tf.raw_ops.ResourceApplyMomentum(
            var=w.handle, accum=self.momentum.handle, lr=0.1, grad=dw, momentum=0.9
        )
        moved = (
            moved or tf.get_default_graph().get_operations()[-1]
        )  # in a function of 2.21 it returns nothing
        return [moved, v.assign_sub(0.1 * dv).op, self.steps.assign_add(1).op]

    def step(self, x: Any) -> List[Any]:
        return self.write(self.gradients(x))

    def apply(self, gradients: List[Any]) -> None:
        """A step in the main graph."""
        shaped = [tf.reshape(g, v.shape) for g, v in zip(gradients, self.variables)]
        tf.train.MomentumOptimizer(0.1, 0.9).apply_gradients(
            zip(shaped, self.variables), tf.train.get_or_create_global_step(), name="train"
        )

    def taking(self, clipped: bool = False) -> Callable[[Any], List[Any]]:
        """A function that computes gradients; with `clipped`, its results are always finite."""
        limit = (lambda g: tf.clip_by_value(g, -10.0, 10.0)) if clipped else tf.identity
        function = tf.function(lambda x: tuple(map(limit, self.gradients(x))))
        return lambda x: [tf.reshape(g, v.shape) for g, v in zip(function(x), self.variables)]


def step_in_a_function() -> None:
    """A tf.function that trains."""
    model = Model()

    @tf.function
    def step(x: Any) -> Any:
        model.step(x)
        return tf.reduce_sum(x)

    tf.identity(step(model.x), name="train")


def step_in_a_legacy_function() -> None:
    """A Defun that trains."""
    model = Model()

    @Defun(tf.float32, func_name="OneStep")
    def step(x: Any) -> Any:
        with tf.control_dependencies(model.step(x)):
            return tf.constant(1.0)

    tf.identity(step(model.x), name="train")


def step_in_a_function_counted_outside() -> None:
    """A tf.function that trains, with a global step after it."""
    model, count = Model(), tf.train.get_or_create_global_step()
    step = tf.function(lambda x: [model.step(x), tf.reduce_sum(x)][1])
    with tf.control_dependencies([step(model.x)]):
        tf.identity(count.assign_add(1), name="train")


def step_in_a_branch() -> None:
    """A branch of a functional tf.cond, in a function."""
    model = Model()

    def yes(x: Any) -> Any:
        with tf.control_dependencies(model.step(x)):
            return tf.constant(1)

    @tf.function
    def step(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: yes(x), lambda: tf.constant(0))

    tf.identity(step(model.x), name="train")


def _steps(model: Model) -> None:
    def body(i: Any) -> Any:
        with tf.control_dependencies(model.step(model.x)):
            return i + 1

    tf.identity(tf.while_loop(lambda i: i < 3, body, [0]), name="train")


def steps_in_a_while_loop() -> None:
    """A while loop of TensorFlow 1."""
    _steps(Model())


def steps_in_a_loop_of_functions() -> None:
    """A while loop of TensorFlow 2."""
    with control_flow(functions=True):
        _steps(Model())


def step_of_another_functions_gradients() -> None:
    """A tf.function that applies the gradients computed by another."""
    model = Model()
    gradients = model.taking(clipped=True)

    @tf.function
    def step(x: Any) -> Any:
        with tf.control_dependencies(model.write(gradients(x))):
            return tf.constant(True)

    tf.identity(step(model.x), name="train")


def gradients_in_a_function() -> None:
    """A tf.function that computes gradients."""
    model = Model()
    model.apply(model.taking()(model.x))


def gradients_in_functions() -> None:
    """A function in a function, with gradients clipped by value."""
    model = Model()
    inner = model.taking(clipped=True)
    model.apply(list(tf.function(lambda x: tuple(inner(x)))(model.x)))


def gradients_in_a_loop_of_functions() -> None:
    """tf.map_fn of TensorFlow 2, clipped by value."""
    model = Model(use_resource=False)

    def of_row(row: Any) -> Any:
        return tuple(
            tf.clip_by_value(g, -10.0, 10.0) for g in model.gradients(tf.expand_dims(row, 0))
        )

    with control_flow(functions=True):
        found = tf.map_fn(of_row, model.x, dtype=(tf.float32, tf.float32))
    model.apply([tf.reduce_mean(g, 0) for g in found])


def function_in_a_while_loop() -> None:
    """A tf.function that computes gradients of selected rows, in a while loop of TensorFlow 1."""
    model = Model(use_resource=False)
    gradients = model.taking(clipped=True)

    def of_row(row: Any) -> Any:
        zeros = functools.partial(list, [tf.zeros(v.shape) for v in model.variables])
        return tuple(tf.cond(row[0] > 0, lambda: gradients(tf.expand_dims(row, 0)), zeros))

    found = tf.map_fn(of_row, model.x, dtype=(tf.float32, tf.float32))
    model.apply([tf.reduce_mean(g, 0) for g in found])


def gradients_on_one_side() -> None:
    """In a tf.cond of TensorFlow 1, clipped by value."""
    model = Model(use_resource=False)
    zeros = functools.partial(list, [tf.zeros(v.shape) for v in model.variables])
    model.apply(
        tf.cond(
            model.x[0, 0] > 0,
            lambda: [tf.clip_by_value(g, -10.0, 10.0) for g in model.gradients(model.x)],
            zeros,
        )
    )


def function_on_either_side() -> None:
    """A tf.function that computes gradients, called in both branches of a functional tf.cond."""
    model = Model(use_resource=False)
    gradients = model.taking(clipped=True)
    with control_flow(functions=True):
        found = tf.cond(model.x[0, 0] > 0, lambda: gradients(model.x), lambda: gradients(-model.x))
    model.apply(found)


STEPS = [
    step_in_a_function,
    step_in_a_legacy_function,
    step_in_a_function_counted_outside,
    step_in_a_branch,
    steps_in_a_while_loop,
    steps_in_a_loop_of_functions,
    step_of_another_functions_gradients,
]
GRADIENTS = [
    gradients_in_a_function,
    gradients_in_functions,
    gradients_in_a_loop_of_functions,
    function_in_a_while_loop,
    gradients_on_one_side,
    function_on_either_side,
]
INSIDE: Dict[str, Callable[[], None]] = {build.__name__: build for build in (*STEPS, *GRADIENTS)}


def built(name: str) -> tf.MetaGraphDef:
    """The graph built by a function of this module."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        INSIDE[name]()
        tf.global_variables_initializer()
        saver = tf.train.Saver()
        return tf.train.export_meta_graph(saver_def=saver.as_saver_def())
