"""Checkpoints both ways: restoring one that lacks a converted graph's loss-scale state."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.naming import SCOPE


def restore(saver: Any, sess: Any, path: str) -> List[str]:
    """Restore a checkpoint like `saver.restore(sess, path)`.

    Missing loss-scale state starts afresh.

    Loads a float32 checkpoint into a converted graph, and a converted graph's checkpoint into
    either graph. Adds no node, so that it works on a finalised graph.

    Args:
        saver: a tf.train.Saver, also one returned by tf.train.import_meta_graph.
        sess: a session of the saver's graph.
        path: the checkpoint's prefix, as for `saver.restore`.

    Returns:
        Names of the loss-scale variables that the checkpoint lacks; they have their initial values.

    Raises:
        The errors of `saver.restore`; any other variable must be in the checkpoint.
    """
    reader = tf.train.NewCheckpointReader(
        tf.train.get_checkpoint_state(path).model_checkpoint_path
        if tf.gfile.IsDirectory(path)
        else path
    )
    present = reader.get_variable_to_shape_map()
    feeds, missing = {}, []  # type: Dict[Any, Any], List[str]
    for op in _restore_ops(saver, sess.graph):
        names = _strings(op.inputs[1])
        lacking = [name for name in names if name not in present and name.startswith(SCOPE + "/")]
        if lacking:
            missing += lacking
            feeds.update(_values(op, names, reader, lacking, sess.graph))
    if not missing:
        saver.restore(sess, path)
    else:
        filename = saver.saver_def.filename_tensor_name
        sess.run(saver.saver_def.restore_op_name, dict(feeds, **{filename: path}))
    return missing


def _restore_ops(saver: Any, graph: Any) -> List[Any]:
    """The RestoreV2 ops behind a saver's restore op."""
    stack, seen, found = [graph.get_operation_by_name(saver.saver_def.restore_op_name)], set(), []
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type == "RestoreV2":
            found.append(op)
        else:
            stack += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return found


def _values(
    op: Any, names: List[str], reader: Any, lacking: List[str], graph: Any
) -> Dict[Any, Any]:
    """The outputs of a RestoreV2 op; the op itself refuses a checkpoint that lacks a name."""
    slices = _strings(op.inputs[2])
    values = {}
    for tensor, name, spec in zip(op.outputs, names, slices):
        values[tensor] = (
            _initial_value(graph, name)
            if name in lacking
            else _sliced(reader.get_tensor(name), spec)
        )
    return values


def _initial_value(graph: Any, name: str) -> Any:
    """The value of the constant that initialises a loss-scale variable."""
    op = graph.get_operation_by_name(name + "/Assign").inputs[1].op
    while op.type != "Const":
        op = op.inputs[0].op
    return tf.make_ndarray(op.get_attr("value"))


def _sliced(value: Any, spec: str) -> Any:
    """The slice of a tensor named by a spec such as `10 4 0,5:-`.

    The spec is the full shape, then `start,length` or `-` for each axis.
    """
    if not spec:
        return value
    parts = spec.split()[-1].split(":")
    index = tuple(
        slice(None) if p == "-" else slice(int(p.split(",")[0]), sum(map(int, p.split(","))))
        for p in parts
    )
    return np.asarray(value)[index]


def _strings(tensor: Any) -> List[str]:
    return [tf.compat.as_str(s) for s in tf.make_ndarray(tensor.op.get_attr("value")).ravel()]
