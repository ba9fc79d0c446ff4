"""The functions of `tf.contrib.rnn` that stack bidirectional layers.

Own code: `tf.nn` only has single layers.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

__all__ = ["stack_bidirectional_dynamic_rnn", "stack_bidirectional_rnn"]


def stack_bidirectional_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Sequence[tf.Tensor],
    initial_states_fw: Optional[Sequence[Any]] = None,
    initial_states_bw: Optional[Sequence[Any]] = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> Tuple[Any, Tuple[Any, ...], Tuple[Any, ...]]:
    """Layers of `tf.nn.static_bidirectional_rnn`, each on the previous one's outputs."""

    def layer(
        cell_fw: Any, cell_bw: Any, below: Any, state_fw: Any, state_bw: Any, layer_scope: Any
    ) -> Tuple[Any, Any, Any]:
        return tf.nn.static_bidirectional_rnn(
            cell_fw, cell_bw, below, state_fw, state_bw, dtype, sequence_length, layer_scope
        )

    return _stack(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: tf.Tensor,
    initial_states_fw: Optional[Sequence[Any]] = None,
    initial_states_bw: Optional[Sequence[Any]] = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: Optional[int] = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> Tuple[Any, Tuple[Any, ...], Tuple[Any, ...]]:
    """Layers of `tf.nn.bidirectional_dynamic_rnn`; see `stack_bidirectional_rnn`."""

    def layer(
        cell_fw: Any, cell_bw: Any, below: Any, state_fw: Any, state_bw: Any, _: Any
    ) -> Tuple[Any, Any, Any]:
        outputs, states = tf.nn.bidirectional_dynamic_rnn(
            cell_fw,
            cell_bw,
            below,
            sequence_length=sequence_length,
            initial_state_fw=state_fw,
            initial_state_bw=state_bw,
            dtype=dtype,
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
            time_major=time_major,
        )
        return (tf.concat(outputs, 2), *states)

    return _stack(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope)


def _stack(
    layer: Callable[..., Tuple[Any, Any, Any]],
    cells_fw: Any,
    cells_bw: Any,
    outputs: Any,
    initial_fw: Any,
    initial_bw: Any,
    scope: Any,
) -> Tuple[Any, Tuple[Any, ...], Tuple[Any, ...]]:
    _check(cells_fw, cells_bw, initial_fw, initial_bw)
    states_fw, states_bw = [], []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for index, (cell_fw, cell_bw) in enumerate(zip(cells_fw, cells_bw)):
            first_fw, first_bw = (
                states[index] if states else None for states in (initial_fw, initial_bw)
            )
            with tf.variable_scope("cell_%d" % index) as layer_scope:
                outputs, state_fw, state_bw = layer(
                    cell_fw, cell_bw, outputs, first_fw, first_bw, layer_scope
                )
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return outputs, tuple(states_fw), tuple(states_bw)


def _check(cells_fw: Any, cells_bw: Any, initial_fw: Any, initial_bw: Any) -> None:
    for name, cells, initial in (("fw", cells_fw, initial_fw), ("bw", cells_bw, initial_bw)):
        if not isinstance(cells, list) or not cells:
            raise ValueError("cells_%s must be a list of RNNCells (one per layer)." % name)
        if initial is not None and (not isinstance(initial, list) or len(initial) != len(cells)):
            raise ValueError(
                "initial_states_%s must be a list of state tensors (one per layer)." % name
            )
    if len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth.")
