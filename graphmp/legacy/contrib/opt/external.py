"""`tf.contrib.opt`'s optimizers outside the graph: SciPy minimizes a loss over variables.

Own code: TensorFlow 2 has none. The graph computes losses and gradients, each time with the
variables fed; the variables are written once, at the end. SciPy's algorithms take float64 only.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from absl import logging
from scipy import optimize

__all__ = ["ExternalOptimizerInterface", "ScipyOptimizerInterface"]

_Function = Callable[[Any], Any]
_Bounds = List[Tuple[float, float]]
# Arguments of scipy.optimize.minimize that come from this class.
_GIVEN = {
    "bounds": "Bounds must be set using the var_to_bounds argument",
    "constraints": "Constraints must be set using the equalities and inequalities arguments",
    "jac": "The jacobian is computed automatically",
    "callback": "The callback must be set using the step_callback argument of minimize",
}


class ExternalOptimizerInterface:
    """Minimizes a loss by an algorithm outside the graph; a subclass has `_minimize`.

    Args:
        loss: a scalar.
        var_list: the variables to change; the trainable ones if None.
        equalities: tensors that are to become zero.
        inequalities: tensors that are not to become negative.
        var_to_bounds: lower and upper bounds of variables, as broadcast to their shapes.
        **optimizer_kwargs: arguments of the algorithm.
    """

    def __init__(
        self,
        loss: tf.Tensor,
        var_list: Optional[Sequence[Any]] = None,
        equalities: Optional[Sequence[tf.Tensor]] = None,
        inequalities: Optional[Sequence[tf.Tensor]] = None,
        var_to_bounds: Optional[Dict[Any, Tuple[Any, Any]]] = None,
        **optimizer_kwargs: Any,
    ):
        self.optimizer_kwargs = optimizer_kwargs
        self._loss = loss
        self._equalities, self._inequalities = list(equalities or ()), list(inequalities or ())
        self._vars = list(tf.trainable_variables() if var_list is None else var_list)
        sizes = [int(np.prod(variable.shape.as_list())) for variable in self._vars]
        self._ends = np.cumsum(sizes)[:-1]
        self._fed = [tf.placeholder(variable.dtype.base_dtype) for variable in self._vars]
        self._updates = [
            variable.assign(tf.reshape(fed, variable.shape))
            for variable, fed in zip(self._vars, self._fed)
        ]
        self._packed = _packed(self._vars)
        self._gradients = [
            self._gradient(value) for value in (loss, *self._equalities, *self._inequalities)
        ]
        self._bounds = None if var_to_bounds is None else self._packed_bounds(var_to_bounds)

    def minimize(
        self,
        session: Optional[tf.Session] = None,
        feed_dict: Optional[Dict[Any, Any]] = None,
        fetches: Optional[Sequence[Any]] = None,
        step_callback: Optional[_Function] = None,
        loss_callback: Optional[Callable[..., Any]] = None,
        **run_kwargs: Any,
    ) -> None:
        """Minimize the loss, and write the variables.

        Args:
            session: the session; the default one if None.
            feed_dict: the feeds of all runs.
            fetches: what else to fetch with the loss, for `loss_callback`.
            step_callback: is called with the packed variables after each step.
            loss_callback: is called with the fetched values after each evaluation of the loss.
            **run_kwargs: arguments of the run that writes the variables.
        """
        session = session or tf.get_default_session()
        feeds, more = dict(feed_dict or {}), list(fetches or ())

        def evaluated(tensors: List[Any], callback: Optional[Callable[..., Any]] = None) -> Any:
            def values(packed: Any) -> Any:
                fed = {**feeds, **dict(zip(self._vars, self._unpacked(packed)))}
                found = session.run(tensors + more, fed)
                if callback is not None:
                    callback(*found[len(tensors) :])
                return [np.asarray(value, np.float64) for value in found[: len(tensors)]]

            return values

        conditions = [*self._equalities, *self._inequalities]
        functions = [_first(evaluated([value])) for value in conditions]
        slopes = [_first(evaluated([slope])) for slope in self._gradients[1:]]
        equal = len(self._equalities)
        final = self._minimize(
            initial_val=session.run(self._packed),
            loss_grad_func=evaluated([self._loss, self._gradients[0]], loss_callback),
            equality_funcs=functions[:equal],
            equality_grad_funcs=slopes[:equal],
            inequality_funcs=functions[equal:],
            inequality_grad_funcs=slopes[equal:],
            packed_bounds=self._bounds,
            step_callback=step_callback or (lambda packed: None),
            optimizer_kwargs=self.optimizer_kwargs,
        )
        session.run(self._updates, dict(zip(self._fed, self._unpacked(final))), **run_kwargs)

    def _minimize(self, **kwargs: Any) -> Any:
        """The packed variables where the loss is least."""
        raise NotImplementedError("To use ExternalOptimizerInterface, subclass it")

    def _gradient(self, value: tf.Tensor) -> tf.Tensor:
        """The packed gradient of a scalar, or of each element of a vector."""
        value = tf.convert_to_tensor(value)
        if value.shape.rank == 0:
            return _packed(_slopes(value, self._vars))
        rows = [_packed(_slopes(each, self._vars)) for each in tf.unstack(value)]
        return tf.stack(rows)

    def _unpacked(self, packed: Any) -> List[Any]:
        parts = np.split(np.asarray(packed), self._ends)
        return [
            part.reshape(variable.shape.as_list()).astype(variable.dtype.base_dtype.as_numpy_dtype)
            for part, variable in zip(parts, self._vars)
        ]

    def _packed_bounds(self, bounds: Dict[Any, Tuple[Any, Any]]) -> _Bounds:
        by_name = {variable.name: pair for variable, pair in bounds.items()}
        packed: _Bounds = []
        for variable in self._vars:
            ends = by_name.get(variable.name, (-np.inf, np.inf))
            shape = variable.shape.as_list()
            lower, upper = (np.broadcast_to(end, shape).ravel().tolist() for end in ends)
            packed += zip(lower, upper)
        return packed


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """Minimizes by `scipy.optimize.minimize`; `method` and `options` are its arguments."""

    _DEFAULT_METHOD = "L-BFGS-B"

    def _minimize(self, **kwargs: Any) -> Any:
        options = dict(kwargs["optimizer_kwargs"])
        for name, text in _GIVEN.items():
            if name in options:
                raise ValueError("%s; %r is no argument of the optimizer" % (text, name))
        constraints = [
            {"type": kind, "fun": function, "jac": slope}
            for kind, name in (("eq", "equality"), ("ineq", "inequality"))
            for function, slope in zip(kwargs[name + "_funcs"], kwargs[name + "_grad_funcs"])
        ]
        result = optimize.minimize(
            kwargs["loss_grad_func"],
            kwargs["initial_val"].astype(np.float64),
            jac=True,
            callback=lambda packed: kwargs["step_callback"](packed),
            method=options.pop("method", self._DEFAULT_METHOD),
            constraints=constraints,
            bounds=kwargs["packed_bounds"],
            **options,
        )
        text = "Optimization terminated: %s; loss %g after %s evaluations"
        logging.info(text, result.message, float(result.fun), result.get("nfev", "?"))
        return result.x


def _first(function: _Function) -> _Function:
    return lambda packed: function(packed)[0]


def _packed(tensors: Sequence[Any]) -> tf.Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


def _slopes(value: tf.Tensor, variables: Sequence[Any]) -> List[tf.Tensor]:
    found = tf.gradients(value, variables)
    return [
        tf.zeros_like(variable) if slope is None else tf.convert_to_tensor(slope)
        for variable, slope in zip(variables, found)
    ]
