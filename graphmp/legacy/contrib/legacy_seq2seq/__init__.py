"""The models of `tf.contrib.legacy_seq2seq`.

Own code: TensorFlow 2 has none of them.
"""
