"""Intercepting op creation: of every op made through a generated function in Python.

The listener sees the arguments before TensorFlow checks their dtypes, so that it can cast them; and
it can return other tensors to Python than the op's own outputs.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.tf_hooks import internals, patch


class Creation(NamedTuple):
    """An op about to be created: `make(arguments)` returns its `Made`."""

    op_type: str
    name: Optional[str]
    arguments: Dict[str, Any]
    make: Callable[[Dict[str, Any]], Made]

    def full_name(self) -> str:
        """The name that the op will have."""
        name = self.name or self.op_type
        return (
            name[:-1]
            if name.endswith("/")
            else tf.get_default_graph().unique_name(name, mark_as_used=False)
        )


class Made:
    """The result of TensorFlow's op creation: the op, and the tensors returned to Python."""

    def __init__(self, result: tuple):
        self._result = result

    @property
    def op(self) -> Any:
        """The tf.Operation."""
        return self._result[2]

    def result(self, outputs: Optional[List[Any]] = None) -> tuple:
        """The result that the generated function expects, containing `outputs`."""
        if outputs is None:
            return self._result
        if len(self._result) > 3:  # TensorFlow 2: outputs are passed separately from the op
            return self._result[:3] + (outputs,)
        return self._result[:2] + (_OpWithOutputs(self.op, outputs),)


class _OpWithOutputs:
    """An op with other outputs: 1.15.5's generated functions read `op.outputs`."""

    def __init__(self, op: Any, outputs: List[Any]):
        self._op = op
        self.outputs = outputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)


Listener = Callable[[Creation], Optional[tuple]]


def install(listener: Listener) -> None:
    """Call `listener(creation)` for every op; it returns a `Made.result`, or None to do nothing."""
    owner, leading = internals.op_creation()
    patch.wrap(owner, "_apply_op_helper", _ListeningWrapper(listener, leading))


class _ListeningWrapper:
    """Equal if the listeners are, so that installing twice wraps once."""

    def __init__(self, listener: Listener, leading: int):
        self._listener = listener
        self._leading = leading

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ListeningWrapper) and other._listener == self._listener

    def __hash__(self) -> int:
        return hash(self._listener)

    def __call__(self, original: Callable[..., tuple], *args: Any, **arguments: Any) -> tuple:
        before, rest = args[: self._leading], args[self._leading :]
        op_type = rest[0] if rest else arguments.pop("op_type_name")
        name = rest[1] if len(rest) > 1 else arguments.pop("name", None)

        def make(changed: Dict[str, Any]) -> Made:
            return Made(original(*before, op_type, name=name, **changed))

        result = self._listener(Creation(op_type, name, arguments, make))
        return make(arguments).result() if result is None else result
