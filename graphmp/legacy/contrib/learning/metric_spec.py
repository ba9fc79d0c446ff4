"""`tf.contrib.learn.MetricSpec`: a metric function, and the tensors that it takes."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, Optional, Tuple

__all__ = ["MetricSpec"]

# The names under which metric functions take their tensors.
_LABELS = ("label", "labels", "target", "targets")
_PREDICTIONS = ("logits", "prediction", "predictions")
_WEIGHTS = ("weight", "weights")


class MetricSpec:
    """A metric function that is applied to predictions, labels and weights.

    Args:
        metric_fn: a function with arguments of the usual names; predictions are its first argument
            but for labels if none has their name.
        prediction_key: the prediction to take, if there are several.
        label_key: the label to take, if there are several.
        weight_key: the feature that has the weights.
    """

    def __init__(
        self,
        metric_fn: Callable[..., Any],
        prediction_key: Optional[str] = None,
        label_key: Optional[str] = None,
        weight_key: Optional[str] = None,
    ):
        self.metric_fn = metric_fn
        self.prediction_key = prediction_key
        self.label_key = label_key
        self.weight_key = weight_key

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """The result of the function on its tensors.

        Raises:
            KeyError: a key is not among the tensors.
            ValueError: a key is needed and missing, or given for a single tensor, or the function
                has no argument, or several, for what it is to take.
        """
        prediction = _one("prediction", predictions, self.prediction_key)
        label = _one("label", labels, self.label_key)
        weights = inputs[self.weight_key] if self.weight_key else None
        arguments = _arguments(self.metric_fn)
        named: Dict[str, Any] = {}
        for names, value, required in (
            (_LABELS, label, self.label_key is not None),
            (_PREDICTIONS, prediction, False),
            (_WEIGHTS, weights, weights is not None),
        ):
            name = self._named(arguments, names, required)
            if name and (value is not None or names is not _WEIGHTS):
                named[name] = value
        if any(name in named for name in _PREDICTIONS):
            return self.metric_fn(**named)
        if arguments and arguments[0] in named:  # labels first, predictions second
            return self.metric_fn(named.pop(arguments[0]), prediction, **named)
        return self.metric_fn(prediction, **named)

    def _named(self, arguments: Tuple[str, ...], names: Tuple[str, ...], required: bool) -> str:
        found = [name for name in arguments if name in names]
        if len(found) > 1 or (required and not found):
            raise ValueError(
                "metric %s has the arguments %s: accepted is one of %s"
                % (self.metric_fn, ", ".join(arguments), ", ".join(names))
            )
        return found[0] if found else ""


def _arguments(function: Callable[..., Any]) -> Tuple[str, ...]:
    """The names of arguments that are not bound yet."""
    if isinstance(function, functools.partial):
        bound = set(function.keywords or ())
        return tuple(name for name in _arguments(function.func) if name not in bound)[
            len(function.args) :
        ]
    return tuple(inspect.signature(function).parameters)


def _one(kind: str, values: Any, key: Optional[str]) -> Any:
    if key and not isinstance(values, dict):
        raise ValueError("%s_key=%r needs a dict of %ss, found %r" % (kind, key, kind, values))
    if key:
        return values[key]
    if not isinstance(values, dict):
        return values
    if len(values) != 1:
        raise ValueError(
            "no %s_key was given, and there are %s: accepted is one" % (kind, sorted(values))
        )
    return next(iter(values.values()))
