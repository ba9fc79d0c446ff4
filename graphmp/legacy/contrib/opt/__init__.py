"""Optimizers of `tf.contrib.opt`.

Own code: TensorFlow 2 has none of them with TensorFlow 1's interface.
"""
