"""Small graphs of `tf.contrib.image`, and of the loss scales of `tf.contrib.mixed_precision`."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf


def image(contrib: Any) -> Dict[str, Any]:
    """Transforms, moves, turns and warps, with the gradient of one."""
    random = np.random.RandomState(0)
    batch = tf.constant(random.rand(2, 5, 6, 3).astype("f"))
    flow = tf.constant(random.randn(2, 5, 6, 2).astype("f") * 2)
    rows = [[1, 0.1, 0.5, 0.2, 1, -1, 0.01, 0.02], [0.5, 0, 0, 0, 2, 0, 0, 0]]
    warped = contrib.dense_image_warp(batch, flow)
    turned = contrib.rotate(batch, 0.4, "BILINEAR")
    fetches = {
        "transform": contrib.transform(batch, rows, "BILINEAR"),
        "resized": contrib.transform(batch[0], rows[0], output_shape=[3, 4]),
        "plane": contrib.translate(batch[0, :, :, 0], [1, -2]),
        "translate": contrib.translate(batch, [[1, 0.5], [-1, 2]], interpolation="BILINEAR"),
        "rotate": contrib.rotate(batch, [0.3, -1.2]),
        "turned": turned,
        "slope": tf.gradients(turned, batch)[0],
        "angles": contrib.angles_to_projective_transforms([0.3, 1.0], 5, 6),
        "composed": contrib.compose_transforms(rows[0], rows[1]),
        "warped": warped,
        "warp_slope": tf.gradients(warped, batch)[0],
        "flow_slope": tf.gradients(warped, flow)[0],
    }
    with tf.Session() as session:
        return {name: value.tolist() for name, value in session.run(fetches).items()}


def mixed_precision(contrib: Any) -> Dict[str, Any]:
    """Steps with good and bad gradients: the variables after each."""
    manager = contrib.ExponentialUpdateLossScaleManager(8.0, 2, 2, 2.0, 0.5)
    weights = tf.get_variable("weights", initializer=[1.0, 2.0])
    factor = tf.placeholder(tf.float32, [])
    step = tf.train.get_or_create_global_step()
    optimizer = contrib.LossScaleOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), manager)
    train = optimizer.minimize(tf.reduce_sum(weights * weights) * factor, step)
    fixed = contrib.FixedLossScaleManager(4.0).get_loss_scale()
    found: Dict[str, Any] = {}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number, value in enumerate((1, 1, np.inf, 1, np.nan, 1, np.inf, np.inf)):
            session.run(train, {factor: value})
            for variable in tf.global_variables():
                found["%d/%s" % (number, variable.op.name)] = session.run(variable).tolist()
        return dict(found, fixed=float(session.run(fixed)))
