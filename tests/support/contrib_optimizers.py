"""Training steps with optimizers of `tf.contrib`: the variables that they make and leave."""

from __future__ import annotations

from typing import Any, Callable, Dict

import numpy as np
import tensorflow.compat.v1 as tf


def opt(contrib: Any) -> Dict[str, Any]:
    """Three steps with each optimizer of `contrib.opt`, by kind of variable."""
    momentum = tf.train.MomentumOptimizer(0.1, 0.9)
    grown = contrib.extend_with_decoupled_weight_decay(tf.train.GradientDescentOptimizer)
    made = {
        "adamw": lambda: contrib.AdamWOptimizer(0.01, 0.1),
        "momentumw": lambda: contrib.MomentumWOptimizer(0.01, 0.1, 0.9, use_nesterov=True),
        "extended": lambda: grown(weight_decay=0.02, learning_rate=0.1),
        "lazy": lambda: contrib.LazyAdamOptimizer(0.1),
        "nadam": lambda: contrib.NadamOptimizer(0.1),
        "lars": lambda: contrib.LARSOptimizer(0.01, skip_list=["bias"], use_nesterov=True),
        "average": lambda: contrib.MovingAverageOptimizer(momentum, 0.5),
    }
    found = external(contrib)
    for name, make in made.items():
        for kind in (True, False):
            values = trained(make, kind)
            found.update(("%s/%d/%s" % (name, kind, key), value) for key, value in values.items())
    return found


def external(contrib: Any) -> Dict[str, Any]:
    """Minima that SciPy finds: with bounds, with conditions, and with feeds and callbacks."""
    with tf.Graph().as_default():
        point = tf.get_variable("point", initializer=[7.0, 7.0], use_resource=False)
        other = tf.get_variable("other", initializer=[[1.0], [3.0]], use_resource=False)
        wanted = tf.placeholder(tf.float32, [2])
        loss = tf.reduce_sum(tf.square(point - wanted))
        curved = tf.reduce_sum(tf.square(loss - 1.0) + tf.square(other - point[0]) ** 2)
        unused = tf.get_variable("unused", initializer=2.0, use_resource=False)
        bounds = {point: ([1, 2], np.inf)}
        conditions = {"equalities": [point[0] - 1.0], "inequalities": [point[1] - 1.5]}
        made = {
            "plain": contrib.ScipyOptimizerInterface(loss),
            "bounds": contrib.ScipyOptimizerInterface(loss, var_to_bounds=bounds),
            "conditions": contrib.ScipyOptimizerInterface(
                loss, [point, unused], method="SLSQP", **conditions
            ),
            "steps": contrib.ScipyOptimizerInterface(curved, options={"maxiter": 3}),
        }
        found: Dict[str, Any] = {}
        with tf.Session() as session:
            for name, optimizer in made.items():
                session.run(tf.global_variables_initializer())
                seen: Dict[str, Any] = {"losses": [], "steps": 0}

                def step(packed: Any, seen: Dict[str, Any] = seen) -> None:
                    seen["steps"] += len(packed) > 0

                optimizer.minimize(
                    session,
                    feed_dict={wanted: [0.5, 0.25]},
                    fetches=[loss],
                    step_callback=step,
                    loss_callback=lambda value, seen=seen: seen["losses"].append(float(value)),
                )
                values = session.run([point, other, unused])
                found.update(("%s/%d" % (name, k), v.tolist()) for k, v in enumerate(values))
                found[name + "/first"] = seen["losses"][0]
                found[name + "/called"] = [seen["steps"] > 0, len(seen["losses"]) >= seen["steps"]]
    return found


def trained(make: Callable[[], tf.train.Optimizer], resource: bool) -> Dict[str, Any]:
    """All variables, by name, after three steps with a dense and a sparse gradient."""
    random = np.random.RandomState(1)
    with tf.Graph().as_default():
        table, weights, bias = (
            tf.get_variable(
                name,
                initializer=tf.constant(random.randn(*shape), tf.float32),
                use_resource=resource,
            )
            for name, shape in (("table", (5, 3)), ("weights", (3, 2)), ("bias", (2,)))
        )
        rows = tf.gather(table, [[0, 1, 1], [3, 0, 4]])
        loss = tf.reduce_sum(tf.square(tf.tensordot(rows, weights, 1) + bias - 1))
        optimizer = make()
        pairs = optimizer.compute_gradients(loss)
        # Contrib's decay doesn't wait for the gradients, which read what it changes.
        with tf.control_dependencies([tf.convert_to_tensor(gradient) for gradient, _ in pairs]):
            train = optimizer.apply_gradients(pairs)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            variables = {variable.op.name: variable for variable in tf.global_variables()}
            return {name: value.tolist() for name, value in session.run(variables).items()}
