"""`tf.contrib.learn` beside its preprocessing: own code on `tf.estimator`, as scripts use it."""
