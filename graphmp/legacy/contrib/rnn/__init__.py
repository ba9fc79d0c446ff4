"""The cells, wrappers and loops of `tf.contrib.rnn` that `tf.nn` lacks."""
