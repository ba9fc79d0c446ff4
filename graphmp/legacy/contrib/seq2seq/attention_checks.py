"""Checks of the arguments of `AttentionWrapper`: mechanisms, layers and batch sizes."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq import parts
from graphmp.legacy.contrib.seq2seq.mechanisms import AttentionMechanism

__all__: List[str] = []

_TILED = (
    "Are you using the BeamSearchDecoder?  You may need to tile your %s via the"
    " tf.contrib.seq2seq.tile_batch function with argument multiple=beam_width."
)
CONSTRUCTION = (
    "When constructing AttentionWrapper %s: Non-matching batch sizes between the memory (encoder"
    " output) and initial_cell_state.  " + _TILED.replace("%s", "initial state")
)
ZERO_STATE = (
    "When calling zero_state of AttentionWrapper %s: Non-matching batch sizes between the memory"
    " (encoder output) and the requested batch size.  Are you using the BeamSearchDecoder?  If so,"
    " make sure your encoder output has been tiled to beam_width via tf.contrib.seq2seq.tile_batch,"
    " and the batch_size= argument passed to zero_state is batch_size * beam_width."
)
CALL = (
    "When applying AttentionWrapper %s: Non-matching batch sizes between the memory (encoder"
    " output) and the query (decoder output).  " + _TILED.replace("%s", "memory input")
)


def batch_checks(mechanisms: Any, batch_size: Any, message: str) -> List[Any]:
    """Assertions that the memory of each mechanism has this batch size; known ones fail at once."""
    checks = []
    for mechanism in mechanisms:
        known = parts.static_value(mechanism.batch_size), parts.static_value(batch_size)
        if None not in known and known[0] != known[1]:
            raise ValueError("%s  Found: %s and %s." % (message, *known))
        if None in known:
            checks.append(tf.assert_equal(batch_size, mechanism.batch_size, message=message))
    return checks


def mechanisms_of(given: Any) -> Tuple[bool, Tuple[Any, ...]]:
    """Whether a list of mechanisms was given, and all of them.

    Raises:
        TypeError: one isn't an AttentionMechanism.
    """
    multiple = isinstance(given, (list, tuple))
    mechanisms = tuple(given) if multiple else (given,)
    for mechanism in mechanisms:
        if not isinstance(mechanism, AttentionMechanism):
            raise TypeError(
                "attention_mechanism must be an AttentionMechanism or list of multiple"
                " AttentionMechanism instances, saw type: %s" % type(mechanism)
            )
    return multiple, mechanisms


def layer_sizes(mechanisms: Any, size: Any, layer: Any) -> Tuple[Optional[List[int]], Any]:
    """The size of each mechanism's layer, and the layers, from one or several of either.

    Raises:
        ValueError: both are given, or not one for each mechanism.
    """
    if size is not None and layer is not None:
        raise ValueError("Only one of attention_layer_size and attention_layer should be set")
    sizes, layers = _each(size), _each(layer)
    for name, items in (("attention_layer_size", sizes), ("attention_layer", layers)):
        if items is not None and len(items) != len(mechanisms):
            raise ValueError(
                "If provided, %s must contain exactly one item per attention_mechanism, saw: %d vs"
                " %d" % (name, len(items), len(mechanisms))
            )
    return None if sizes is None else list(sizes), layers


def _each(value: Any) -> Optional[Tuple[Any, ...]]:
    if value is None:
        return None
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
