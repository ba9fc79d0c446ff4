"""`tf.estimator` on TensorFlow 2.16 and later, from the package tensorflow-estimator.

TensorFlow 2.15 was the last to bring it. The package's last version, 2.15.0, imports five modules
of TensorFlow that are gone since; `gone` and the modules named in `loader.REPLACED` stand for them.
"""
