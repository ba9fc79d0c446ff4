"""Replacements of functions and classes of `tf.contrib`, under the names that contrib has for their modules."""
