"""The conversion flags, the same on every command that converts."""

from __future__ import annotations

from typing import Any, Dict

from absl import flags

from graphmp.config import Config


def conversion_flags() -> flags.FlagValues:
    """A fresh set of conversion flags; each keeps the default of its `Config` field."""
    values = flags.FlagValues()

    def text(name: str, default: Any, help_text: str) -> None:
        flags.DEFINE_string(name, default, help_text, flag_values=values)

    def repeated(name: str, help_text: str) -> None:
        flags.DEFINE_multi_string(name, [], help_text, flag_values=values)

    text(
        "engine",
        Config.engine,
        "auto|recipe|rewrite: how to convert; auto uses the recipe if there is a build function and"
        " the result is proved",
    )
    text(
        "compute_dtype",
        Config.compute_dtype,
        "float16|bfloat16|float32: dtype of matmuls and convolutions; float32 only adds scaling and"
        " clipping",
    )
    text(
        "loss_scale",
        "",
        "dynamic|none|NUMBER: default dynamic, with bfloat16 none; only a dynamic scale skips steps"
        " that are not finite",
    )
    text(
        "loss_scale_initial",
        "%g" % Config.loss_scale_initial,
        "initial value of a dynamic loss scale",
    )
    text(
        "loss_scale_growth_interval",
        "%d" % Config.loss_scale_growth_interval,
        "good steps before it grows",
    )
    text(
        "loss_scale_growth_factor",
        "%g" % Config.loss_scale_growth_factor,
        "its factor of growth",
    )
    text(
        "loss_scale_backoff_factor",
        "%g" % Config.loss_scale_backoff_factor,
        "its factor after an overflow",
    )
    text("loss_scale_min", "%g" % Config.loss_scale_min, "its minimum")
    text("clip_norm", "0", "clip gradients to this global norm; 0: no clip")
    repeated("keep_float32", "REGEX: node names that compute in float32; repeatable")
    repeated(
        "force_compute",
        "REGEX: node names that compute in half precision under any policy; repeatable",
    )
    text(
        "op_policy",
        "",
        "file of lines `allow|infer|clear|deny OpName`, `-OpName` and `keep_float32 REGEX`, on top"
        " of the shipped lists",
    )
    text(
        "ranges",
        "",
        "file of `graphmp audit -o`: nodes that overflowed there, and their consumers, stay"
        " float32",
    )
    text(
        "costs",
        "",
        "file of `graphmp tune -o`: place casts by the times measured there; what is slower in half"
        " precision stays float32",
    )
    repeated("fetch", "a tensor that keeps name and dtype; repeatable")
    repeated(
        "loss",
        "of a built graph: only scale the gradients of this tensor (default: found); repeatable",
    )
    repeated("train_op", "of a built graph: the op that trains (default: found); repeatable")
    repeated(
        "gradient_scope",
        "of a built graph: name scope of tf.gradients (default: found); repeatable",
    )
    flags.DEFINE_boolean(
        "count_skipped_steps",
        False,
        "let global_step count steps that a dynamic loss scale skips",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "allreduce_half",
        False,
        "of a built graph: all-reduces of half-precision gradients run in half, scaled",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "engine_strict", False, "no fallback to another engine, no repair", flag_values=values
    )
    return values


def options_of(values: flags.FlagValues) -> Dict[str, Any]:
    """The flags' values as options of `Config.make`, which checks them."""
    return {name: values[name].value for name in values if name in Config.__dataclass_fields__}
