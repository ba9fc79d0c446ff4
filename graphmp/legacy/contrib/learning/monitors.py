"""`tf.contrib.learn.monitors`: hooks where monitors may stand. There are no monitors any more."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import tensorflow.compat.v1 as tf

__all__ = ["replace_monitors_with_hooks"]


def replace_monitors_with_hooks(
    monitors_or_hooks: Optional[Sequence[Any]], estimator: Any
) -> List[tf.train.SessionRunHook]:
    """The hooks of a list, as they are.

    Raises:
        TypeError: another object is among them: no code can have made a monitor here.
    """
    hooks = list(monitors_or_hooks or ())
    for hook in hooks:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(
                "%r is no SessionRunHook; TensorFlow 1.15.5 has monitors for %r" % (hook, estimator)
            )
    return hooks
