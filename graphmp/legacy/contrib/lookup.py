"""The table of `tf.contrib.lookup` that has another interface in `tf.lookup`."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

__all__ = ["HashTable"]


class HashTable(tf.lookup.StaticHashTable):
    """A table that doesn't change once it is initialised."""

    @property
    def init(self) -> tf.Operation:
        """The initializer, under its old name."""
        return self.initializer
