"""`tf.contrib.opt.MovingAverageOptimizer`: its Saver exchanges variables and averages."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.opt.averages import MovingAverageOptimizer


@pytest.mark.parametrize("resource", [False, True])
def test_averages_are_saved_as_the_variables(tmp_path, resource):
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=resource)
        optimizer = MovingAverageOptimizer(tf.train.MomentumOptimizer(0.5, 0.9), 0.5)
        train = optimizer.minimize(tf.reduce_sum(variable * variable))
        saver = optimizer.swapping_saver()
        with pytest.raises(ValueError, match="is not in variables to save"):
            optimizer.swapping_saver([variable])
        session.run(tf.global_variables_initializer())
        session.run(train)
        before, average = session.run([variable, optimizer._ema.average(variable)])
        saver.save(session, str(tmp_path / "model"))
        saved = tf.train.load_checkpoint(str(tmp_path / "model"))
        np.testing.assert_array_equal(saved.get_tensor("v"), average)
        saver.restore(session, str(tmp_path / "model"))
        np.testing.assert_array_equal(session.run(variable), before)
    assert not np.array_equal(before, average)
