"""`tf.contrib.learn.ExportStrategy`: how an Experiment exports what it has trained."""

from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Dict, NamedTuple, Optional

import tensorflow.compat.v1 as tf

__all__ = ["ExportStrategy", "make_export_strategy"]


class ExportStrategy(NamedTuple):
    """A name, which is a folder's too, and a function of an Estimator and a folder."""

    name: str
    export_fn: Callable[..., Any]
    strip_default_attrs: Optional[bool] = None

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: Optional[str] = None,
        eval_result: Any = None,
    ) -> Any:
        """Call the function, with those of the arguments that it has."""
        accepted = inspect.signature(self.export_fn).parameters
        values = {
            "checkpoint_path": checkpoint_path,
            "eval_result": eval_result,
            "strip_default_attrs": self.strip_default_attrs,
        }
        named = {name: values[name] for name in values if name in accepted}
        return self.export_fn(estimator, export_path, **named)


def make_export_strategy(
    serving_input_fn: Callable[..., Any],
    default_output_alternative_key: Optional[str] = None,
    assets_extra: Optional[Dict[str, str]] = None,
    as_text: bool = False,
    exports_to_keep: Optional[int] = 5,
    strip_default_attrs: Optional[bool] = None,
) -> ExportStrategy:
    """A strategy that writes SavedModels, of which the newest are kept."""

    def export(estimator: Any, export_dir_base: str, checkpoint_path: Optional[str] = None) -> Any:
        path = estimator.export_saved_model(
            export_dir_base, serving_input_fn, assets_extra, as_text, checkpoint_path
        )
        kept = sorted(name for name in os.listdir(export_dir_base) if name.isdigit())
        for name in kept[: -exports_to_keep or len(kept)] if exports_to_keep else ():
            tf.gfile.DeleteRecursively(os.path.join(export_dir_base, name))
        return path

    return ExportStrategy("Servo", export, strip_default_attrs)
