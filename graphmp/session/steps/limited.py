"""A session whose runs end within the time limit."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from graphmp.time_limit import alarmed, limit, too_long


class LimitedSession(tf.Session):
    """A tf.Session whose runs raise GMP030 at the limit; without one it is a plain session."""

    def __init__(self, graph: tf.Graph, config: tf.ConfigProto):
        """`config` is copied."""
        self._seconds = limit()
        limited = tf.ConfigProto()
        limited.CopyFrom(config)
        if self._seconds:
            limited.operation_timeout_in_ms = int(1000 * self._seconds)
        super().__init__(graph=graph, config=limited)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Like tf.Session's.

        Raises:
            GraphmpError: GMP030 at the limit.
        """
        try:
            with alarmed():
                return super().run(*args, **kwargs)
        except tf.errors.DeadlineExceededError:
            if not self._seconds:
                raise
            raise too_long(self._seconds) from None
