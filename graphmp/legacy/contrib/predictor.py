"""Predictions with a SavedModel in a session of its own, as `tf.contrib.predictor` makes them."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import tensorflow.compat.v1 as tf

__all__ = ["from_saved_model"]

_DEFAULT_KEY = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
Names = Optional[Dict[str, str]]


class SavedModelPredictor:
    """A SavedModel in a session: called with values for its inputs, it returns its outputs."""

    def __init__(self, export_dir: str, tags: Any, graph: Optional[tf.Graph], config: Any):
        self.graph = graph or tf.Graph()
        self.feed_tensors: Dict[str, tf.Tensor] = {}
        self.fetch_tensors: Dict[str, tf.Tensor] = {}
        with self.graph.as_default():
            self.session = tf.Session(config=config)
            self.meta_graph = tf.saved_model.loader.load(self.session, tags, export_dir)

    def set_names(self, inputs: Dict[str, str], outputs: Dict[str, str]) -> None:
        """Set the tensors to feed and to fetch, by the names that calls use."""
        self.feed_tensors = {key: self._tensor(name) for key, name in inputs.items()}
        self.fetch_tensors = {key: self._tensor(name) for key, name in outputs.items()}

    def _tensor(self, name: str) -> tf.Tensor:
        return self.graph.get_tensor_by_name(name)

    def __call__(self, input_dict: Dict[str, Any]) -> Dict[str, Any]:
        """The outputs for values of the inputs.

        Raises:
            ValueError: the signature has no such input.
        """
        unexpected = sorted(set(input_dict) - set(self.feed_tensors))
        if unexpected:
            raise ValueError(
                "The signature has no inputs %s; it has %s"
                % (", ".join(unexpected), ", ".join(sorted(self.feed_tensors)))
            )
        feeds = {self.feed_tensors[key]: value for key, value in input_dict.items()}
        return self.session.run(self.fetch_tensors, feeds)


def from_saved_model(
    export_dir: str,
    signature_def_key: Optional[str] = None,
    signature_def: Any = None,
    input_names: Names = None,
    output_names: Names = None,
    tags: Any = None,
    graph: Optional[tf.Graph] = None,
    config: Any = None,
) -> SavedModelPredictor:
    """A predictor with a SavedModel's signature, or with tensors by name.

    Raises:
        ValueError: a signature is given twice, or names beside it, or the model lacks it.
    """
    if signature_def_key is not None and signature_def is not None:
        raise ValueError("Give signature_def_key or signature_def, not both")
    if (signature_def_key or signature_def) and (input_names or output_names):
        raise ValueError("Give a signature or names of tensors, not both")
    tags = tags.split(",") if isinstance(tags, str) else tags or [tf.saved_model.SERVING]
    made = SavedModelPredictor(export_dir, tags, graph, config)
    inputs, outputs = input_names, output_names
    if not inputs or not outputs:
        if signature_def is None:
            signature_def = _signature(made.meta_graph, signature_def_key or _DEFAULT_KEY)
        of_signature = _names(signature_def)
        inputs, outputs = inputs or of_signature[0], outputs or of_signature[1]
    made.set_names(inputs, outputs)
    return made


def _signature(meta_graph: Any, key: str) -> Any:
    if key not in meta_graph.signature_def:
        raise ValueError(
            "The model has no signature %s; it has %s"
            % (key, ", ".join(sorted(meta_graph.signature_def)))
        )
    return meta_graph.signature_def[key]


def _names(signature: Any) -> Tuple[Dict[str, str], Dict[str, str]]:
    return (
        {key: info.name for key, info in signature.inputs.items()},
        {key: info.name for key, info in signature.outputs.items()},
    )
