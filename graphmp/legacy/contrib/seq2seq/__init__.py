"""`tf.contrib.seq2seq`: decoders, helpers, attention, beam search and their loss.

Own code: TensorFlow 2 moved the package to TensorFlow Addons, which has ended, can't be imported on
TensorFlow 2.21, and names variables otherwise.
"""
