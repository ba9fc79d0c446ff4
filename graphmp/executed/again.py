"""The original of a conversion converted again, by the options that the converted graph claims."""

from __future__ import annotations

from typing import List

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.conversion.built_graph import Identity, convert_graph
from graphmp.conversion.conversion import Conversion
from graphmp.conversion.stages import Stages
from graphmp.graph.edit.mark import flags_that_held, read_mark
from graphmp.graph.io.stored import stored
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView
from graphmp.tf_hooks.op_defs import OpDefs

# A wrong power of the scale appears with each; an overflow or a subnormal value may with one only.
SCALES = (4.0**7, 4.0**4, 4.0)


class Again:
    """Conversions of an original by the options in the mark of a converted graph.

    Attributes:
        is_marked: whether the converted graph claims anything.
        is_recipe: whether the recipe made the converted graph.
        is_half: whether the converted graph has a half precision.
        counts_skipped: whether its skipped steps count.
    """

    def __init__(self, original: tf.MetaGraphDef, converted: tf.MetaGraphDef):
        """Nothing is converted yet."""
        self._original = original
        mark = read_mark(converted) or {}
        self._flags = flags_that_held(mark) if mark else {}
        self.is_marked = bool(mark)
        self.is_recipe = mark.get("engine") == "recipe"
        self.is_half = self._flags.get("compute_dtype") != "float32"
        self.counts_skipped = bool(self._flags.get("count_skipped_steps"))

    @property
    def config(self) -> Config:
        """The claimed options; defaults if there are none, or some that only Python can give."""
        flags = dict(self._flags, engine="rewrite", engine_strict=False)
        if str(flags.get("loss_scale", "")).startswith("<"):
            flags["loss_scale"] = SCALES[0]
        return Config.make(**flags)

    def as_claimed(self) -> Conversion:
        """The conversion by the claimed options.

        Raises:
            GraphmpError: as `graphmp.convert`; likewise the other conversions.
        """
        return self._convert(self.config)

    def in_float32(self, scale: float) -> Conversion:
        """The same conversion in float32, without a clip, the loss multiplied by `scale`."""
        return self._convert(_in_float32(self.config, scale))

    def unscaled(self) -> Conversion:
        """The same conversion in float32, without a clip and without a loss scale."""
        flags = _in_float32(self.config, 1.0).as_flags()
        return self._convert(Config.make(**dict(flags, loss_scale="none")))

    def _convert(self, config: Config) -> Conversion:
        return convert_graph(
            stored(self._original),
            Identity("", "", "verify"),
            config,
            Stages(lambda stage: None),
            [],
        )


def _in_float32(config: Config, scale: float) -> Config:
    options = dict(
        config.as_flags(),
        compute_dtype="float32",
        clip_norm=0.0,
        keep_float32=(),
        force_compute=(),
        op_policy="",
        ranges="",
    )
    if config.loss_scale == "dynamic":
        options.update(
            loss_scale_initial=scale,
            loss_scale_min=min(1.0, scale),
            loss_scale_growth_interval=Config.loss_scale_growth_interval,
        )
    else:
        options.update(loss_scale=scale)
    return Config.make(**options)


def train_ops(again: Conversion) -> List[str]:
    """The ops of a step of the original, in order of creation.

    Among ops that write the same, or less, only one is kept.

    Args:
        again: a conversion of the original, whose report names the ops that train.
    """
    named = {name for loss in again.report["losses"] for name in loss["train_ops"]}
    view = GraphView(again.original.graph_def)
    state = State(again.original, view, OpDefs(again.original).get)
    writes = {
        name: view.ancestors([name]) & set(state.writes) for name in view.nodes if name in named
    }
    largest = sorted(writes, key=lambda name: len(writes[name]), reverse=True)
    kept = [
        name
        for place, name in enumerate(largest)
        if not any(writes[name] <= writes[other] for other in largest[:place])
    ]
    return [name for name in writes if name in kept]
