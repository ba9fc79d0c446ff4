"""Arguments of an op's creation: tensors, variables and lists of them, by name."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import as_list, is_tensor
from graphmp.graph.state.state_kinds import kind
from graphmp.policy.traits import EXACT_INTEGERS
from graphmp.tf_hooks.internals import op_def
from graphmp.tf_hooks.op_creation import Creation


def whole(value: Any) -> Any:
    """A partitioned variable as a single tensor."""
    return value.as_tensor() if hasattr(value, "as_tensor") else value


def same_dtype(op_type: str) -> List[List[str]]:
    """Names of an op's inputs, grouped by their type attribute."""
    groups: Dict[str, List[str]] = {}
    for argument in op_def(op_type).input_arg:
        groups.setdefault(argument.type_attr, []).append(argument.name)
    groups.pop("", None)
    return list(groups.values())


def tensors_of(arguments: Dict[str, Any]) -> List[Any]:
    """The tensors among arguments and in their lists."""
    return [t for v in arguments.values() for t in as_list(v) if is_tensor(t)]


def mapped(arguments: Dict[str, Any], change: Callable[[Any], Any]) -> Dict[str, Any]:
    """The arguments with each tensor and variable changed, in lists too."""

    def of(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [of(v) for v in value]
        return (
            change(value)
            if is_tensor(value) or hasattr(value, "initializer") or hasattr(value, "as_tensor")
            else value
        )

    return {key: of(value) for key, value in arguments.items()}


def float32_attribute(creation: Creation, half: Any) -> Optional[str]:
    """The attribute of an op's dtype if it casts or draws what half has no room for, or None."""
    arguments = creation.arguments
    if creation.op_type == "Cast":
        x: Any = arguments.get("x")
        types = {tf.as_dtype(each) for each in (x.dtype, arguments["DstT"])} if is_tensor(x) else {}
        return "DstT" if half in types and any(map(_is_whole, types)) else None
    return "dtype" if draws(creation.op_type) and arguments.get("dtype") == half else None


def draws(op_type: str) -> bool:
    """Whether an op draws random numbers."""
    return kind(op_type) == "random" or op_type.startswith("StatelessRandom")


def _is_whole(dtype: Any) -> bool:
    """Whether a dtype is of whole numbers that half precision may have no room for."""
    return dtype.is_integer and dtype.as_datatype_enum not in EXACT_INTEGERS
