"""The JSON object beside a program, with all that time_hlo.py needs."""

from __future__ import annotations

from typing import Any, Dict, List

import tensorflow.compat.v1 as tf

from graphmp.version import __version__
from hlo.flops import work
from hlo.lowering import Lowered
from hlo.values import described

SCHEMA = "graphmp.hlo/1"


def describe(lowered: Lowered) -> Dict[str, Any]:
    """The parameters and results in order, the work of a step, the constant feeds, the versions."""
    done = work(lowered.module)
    return {
        "schema": SCHEMA,
        "graphmp": __version__,
        "tensorflow": tf.__version__,
        "parameters": [_parameter(parameter) for parameter in lowered.parameters],
        "results": _results(lowered),
        "constants": lowered.constants,
        "flops": done.flops,
        "products": done.products,
    }


def column(flops: Dict[str, int], allow_tf32: bool) -> str:
    """The column of a program: the dtype of most of its products.

    It is tf32 for float32 products that a GPU may round.
    """
    dtype = max(sorted(flops), key=lambda name: flops[name]) if flops else "float32"
    return "tf32" if dtype == "float32" and allow_tf32 else dtype


def _parameter(parameter: Any) -> Dict[str, Any]:
    role = "variable" if parameter.is_variable else "feed"
    array = parameter.first
    return {
        "name": parameter.name,
        "role": role,
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "values": described(array),
    }


def _results(lowered: Lowered) -> List[Dict[str, Any]]:
    """The results; a variable's new value has the number of the parameter that takes it next."""
    losses = [{"name": name, "role": "loss"} for name in lowered.losses]
    return losses + [
        {"name": lowered.parameters[number].name, "role": "variable", "parameter": number}
        for number in lowered.written
    ]
