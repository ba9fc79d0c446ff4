"""A loss scale at the places where values are multiplied or divided by it: outside, or in loops."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope
from graphmp.graph.structure.view import Port
from graphmp.loss_scale import scales
from graphmp.loss_scale.gradients import unscale
from graphmp.scaling.insertion.carried import entered
from graphmp.scaling.insertion.places import Places
from graphmp.scaling.losses.training_graph import TrainingGraph


class ScaleInPlace:
    """Multiplies and divides by the scale of one loss."""

    def __init__(self, graph: TrainingGraph, places: Places, scale: scales.NoLossScale, scope: str):
        """`scope`: the loss scale's name scope below `graphmp/`."""
        self._graph, self._places, self._scale, self._scope = graph, places, scale, scope
        self._in_loops: Dict[Tuple[str, ...], scales.NoLossScale] = {}

    def at(self, port: Port) -> scales.NoLossScale:
        """The scale for consumers of an output: behind an Enter if they are in a while loop."""
        loops = self._graph.loops(port.node)
        if not loops or not isinstance(self._scale, scales.FixedLossScale):
            return self._scale
        if loops not in self._in_loops:
            tensor = entered(self._places.frames(loops), self._scale.in_step, self._scope)
            self._in_loops[loops] = scales.EnteredLossScale(self._scale.scope, tensor)
        return self._in_loops[loops]

    def times(self, port: Port, tensor: Any, power: int, name: str = "rescaled") -> Any:
        """A tensor at an output, times a power of the scale, in its dtype."""
        scale = self.at(port)
        for _ in range(abs(power)):
            dtype = tensor.dtype
            tensor = (
                scale.scale(tensor, name=name)
                if power > 0
                else self.cast(scale.unscale(tensor), dtype)
            )
        return tensor

    def divided(self, port: Port, tensor: Any, degree: int) -> Any:
        """A tensor at an output, unscaled: divided in float32 by a power of the scale."""
        if degree <= 0:
            return self.times(port, tensor, -degree, "unscale")
        for _ in range(degree):
            tensor = unscale(self.at(port), [tensor])[0]
        return tensor

    def cast(self, tensor: Any, dtype: Any) -> Any:
        """A tensor in a dtype."""
        if tensor.dtype == dtype:
            return tensor
        with own_scope(self._scope):
            return tf.cast(tensor, dtype)
