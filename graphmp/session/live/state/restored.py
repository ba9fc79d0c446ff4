"""Loss scales of checkpoints restored before the conversion, without a variable to take them."""

from __future__ import annotations

import weakref
from typing import Any, Dict, Mapping

import tensorflow.compat.v1 as tf

from graphmp.naming import SCOPE


class RestoredScales:
    """The state of the loss scale in each session's restored checkpoint; false if there is none."""

    def __init__(self) -> None:
        self._values: weakref.WeakKeyDictionary[Any, Dict[str, Any]] = weakref.WeakKeyDictionary()

    def __bool__(self) -> bool:
        return bool(self._values)

    def read(self, session: Any, path: str) -> None:
        """Read a checkpoint that a session restored, at once.

        MonitoredSession saves under the same name before the first step.
        """
        reader = tf.train.NewCheckpointReader(path)
        names = [
            name for name in reader.get_variable_to_shape_map() if name.startswith(SCOPE + "/")
        ]
        self._values[session] = {name: reader.get_tensor(name) for name in sorted(names)}

    def assign(self, session: Any, clones: Mapping[str, str]) -> None:
        """Set a session's loss scale to the state read, once.

        Args:
            session: the session, which trains the converted graph.
            clones: original name to the clone's.
        """
        for name, value in self._values.pop(session, {}).items():
            if name in clones:
                assign = session.graph.get_operation_by_name(clones[name + "/Assign"])
                session.run(assign, {assign.inputs[1]: value})
