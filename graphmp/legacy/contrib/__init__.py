"""Replacements of functions and classes of `tf.contrib`, in modules named as in contrib."""
