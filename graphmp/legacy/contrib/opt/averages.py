"""An optimizer with moving averages of the variables that it trains."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy import internals

__all__ = ["MovingAverageOptimizer"]

Gradients = Sequence[Tuple[Any, tf.Variable]]


class MovingAverageOptimizer(tf.train.Optimizer):
    """Another optimizer, with moving averages of the variables that it trains.

    Args:
        opt: the optimizer that is used.
        average_decay: decay of the averages.
        num_updates: see `tf.train.ExponentialMovingAverage`.
        sequential_update: whether averages are taken after the variables are updated.
    """

    def __init__(
        self,
        opt: tf.train.Optimizer,
        average_decay: float = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ):
        super().__init__(False, "MovingAverageOptimizer")
        self._optimizer = opt
        self._ema = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential_update = sequential_update
        self._swapped: Dict[str, Any] = {}

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Tuple[Any, tf.Variable]]:
        """See the optimizer that is used."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Gradients, global_step: Any = None, name: Optional[str] = None
    ) -> tf.Operation:
        """Update the variables, and their averages."""
        grads_and_vars = list(grads_and_vars)
        train = self._optimizer.apply_gradients(grads_and_vars, global_step, name)
        variables = [variable for gradient, variable in grads_and_vars if gradient is not None]
        with tf.control_dependencies([train] if self._sequential_update else []):
            average = self._ema.apply(variables)
        self._swapped = {}
        for variable in variables:
            shadow = self._ema.average(variable)
            self._swapped.update({variable.op.name: shadow, shadow.op.name: variable})
        return tf.group(train, average, name="train_with_avg")

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
    ) -> tf.train.Saver:
        """A saver that writes each average under its variable's name, and the reverse.

        Raises:
            RuntimeError: before `apply_gradients` or `minimize`.
            ValueError: if the averages of the variables are not saved with them.
        """
        if not self._swapped:
            raise RuntimeError(
                "Must call apply_gradients or minimize before creating the swapping_saver"
            )
        names = var_list if isinstance(var_list, dict) else _by_name(var_list)
        saved = {saved_as: self._other(value, names) for saved_as, value in names.items()}
        return tf.train.Saver(saved, name=name, **kwargs)

    def _other(self, value: Any, names: Dict[str, Any]) -> Any:
        """The variable saved in place of another one, or of the parts of one."""
        if isinstance(value, (list, tuple)):
            return [self._other(part, names) for part in value]
        other = self._swapped.get(_op_of(value).name, value)
        if other is not value and not any(_has(entry, other) for entry in names.values()):
            raise ValueError("Variable to swap %s is not in variables to save." % other.op.name)
        return other


def _by_name(variables: Any) -> Dict[str, Any]:
    """Variables by the names under which a Saver writes them."""
    given = tf.global_variables() if variables is None else variables
    return internals.fetch(_BY_NAME)(given)


_BY_NAME = "tensorflow.python.training.saving.saveable_object_util:op_list_to_dict"


def _has(entry: Any, variable: tf.Variable) -> bool:
    parts = entry if isinstance(entry, (list, tuple)) else [entry]
    return any(_op_of(part) is variable.op for part in parts)


def _op_of(saved: Any) -> Any:
    """The op of a variable that may be given as its reference, or as what was read from it."""
    is_read = saved.op.type == "ReadVariableOp"
    return saved.op.inputs[0].op if is_read else saved.op
