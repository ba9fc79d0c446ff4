"""The decoder that a helper gives its inputs."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.seq2seq import parts
from graphmp.legacy.contrib.seq2seq.decoder import Decoder
from graphmp.legacy.contrib.seq2seq.helper import Helper

__all__ = ["BasicDecoder", "BasicDecoderOutput"]


class BasicDecoderOutput(NamedTuple):
    """The cell's output at each step, after the output layer, and the sample drawn from it."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """A cell, after it an optional layer, and a helper that samples and chooses the next inputs."""

    def __init__(self, cell: Any, helper: Helper, initial_state: Any, output_layer: Any = None):
        parts.check_cell(cell)
        if not isinstance(helper, Helper):
            raise TypeError("helper must be a Helper, received: %s" % type(helper))
        parts.check_layer("output_layer", output_layer)
        self._cell, self._helper = cell, helper
        self._initial_state, self._output_layer = initial_state, output_layer

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    def _rnn_output_size(self) -> Any:
        return parts.layer_shape(self._output_layer, self._cell.output_size)

    @property
    def output_size(self) -> BasicDecoderOutput:
        return BasicDecoderOutput(self._rnn_output_size(), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> BasicDecoderOutput:
        """The dtype of the state, for all that the cell returns, and that of the samples."""
        dtype = tf.nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(
            tf.nest.map_structure(lambda _: dtype, self._rnn_output_size()),
            self._helper.sample_ids_dtype,
        )

    def initialize(self, name: Optional[str] = None) -> Tuple[Any, Any, Any]:
        return (*self._helper.initialize(), self._initial_state)

    def step(
        self, time: Any, inputs: Any, state: Any, name: Optional[str] = None
    ) -> Tuple[Any, Any, Any, Any]:
        with tf.name_scope(name, "BasicDecoderStep", (time, inputs, state)):
            outputs, new_state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            ids = self._helper.sample(time=time, outputs=outputs, state=new_state)
            finished, new_inputs, new_state = self._helper.next_inputs(
                time=time, outputs=outputs, state=new_state, sample_ids=ids
            )
        return BasicDecoderOutput(outputs, ids), new_state, new_inputs, finished
