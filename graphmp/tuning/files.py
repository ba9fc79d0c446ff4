"""The file of costs: JSON of schema `graphmp.costs/1` (files/schema/graphmp.costs-1.schema.json).

A tensor is written `float32[8,?,3]`, one of unknown rank `float32`; a time `[median, low, high,
samples]` in nanoseconds, the interval null where a measurement was given up; a node `[measurement,
runs]`, or `[measurement, runs, node whose kernel it is part of]`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, List, Optional

from graphmp.errors import GraphmpError
from graphmp.files.json_file import read_json
from graphmp.files.schemas import COSTS
from graphmp.tuning.costs import (
    CastTime,
    Costs,
    Machine,
    NodeCost,
    OperationSignature,
    OperationTime,
    TensorType,
    Time,
)

SCHEMA = "graphmp.costs/1"
_TENSOR = re.compile(r"(\w+)(?:\[((?:\d+|\?)?(?:,(?:\d+|\?))*)\])?")
_DTYPES = ("float16", "bfloat16")


def read(path: str, label: str = "") -> Costs:
    """Read a file of costs.

    Args:
        path: the file.
        label: the file in an error's words; by default the flag that gives it.

    Raises:
        GraphmpError: GMP003 if it can't be read, GMP002 if it holds no costs.
    """
    label = label or "--costs=%s" % path
    accepted = "what `graphmp tune -o FILE` writes"
    value = read_json(path, COSTS, accepted, label)
    try:
        return from_json(value)
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        text = "%s: found no costs (%s); accepted is %s (schema %s)"
        raise GraphmpError("GMP002", text % (label, error, accepted, SCHEMA)) from None


def dumps(costs: Costs) -> bytes:
    """The contents of a file: a line for each measurement, cast and node."""
    value = to_json(costs)
    lines = []
    for name in sorted(value):
        lines.append('"%s": %s' % (name, _lines(value[name])))
    return ("{\n%s\n}\n" % ",\n".join(lines)).encode("utf-8")


def _lines(value: Any) -> str:
    """JSON with a line for each element of a long list or object."""
    if isinstance(value, dict) and value:
        rows = ["%s: %s" % (json.dumps(key), _line(value[key])) for key in sorted(value)]
        return "{\n %s\n}" % ",\n ".join(rows)
    if isinstance(value, list) and value:
        return "[\n %s\n]" % ",\n ".join(map(_line, value))
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def to_json(costs: Costs) -> Dict[str, Any]:
    """The JSON value of costs."""
    return {
        "schema": SCHEMA,
        "machine": dict(costs.machine._asdict()),
        "compute_dtype": costs.compute_dtype,
        "source": costs.source,
        "batch_size": costs.batch_size,
        "complete": costs.complete,
        "overhead": round(costs.overhead, 1),
        "faster": costs.faster,
        "placement": costs.placement,
        "float32_nodes": list(costs.float32_nodes),
        "half_scale": round(costs.half_scale, 4),
        "steps": {name: _time(time) for name, time in costs.steps.items()},
        "casts": [
            {"to": cast.to, "elements": cast.elements, "time": _time(cast.time)}
            for cast in costs.casts
        ],
        "measurements": [
            {
                "op": signature.op,
                "attributes": dict(signature.attributes),
                "inputs": list(map(tensor_text, signature.inputs)),
                "outputs": list(map(tensor_text, signature.outputs)),
                "float32": _time(float32),
                "half": _time(half),
            }
            for signature, float32, half in costs.measurements
        ],
        "nodes": {
            name: [node.measurement, node.runs, *filter(None, (node.within,))]
            for name, node in costs.nodes.items()
        },
    }


def from_json(value: Any) -> Costs:
    """Costs from their JSON value.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, IndexError: it isn't one.
    """
    if value["schema"] != SCHEMA:
        raise ValueError("schema %s" % value["schema"])
    if value["compute_dtype"] not in _DTYPES:
        raise ValueError("compute_dtype %s" % value["compute_dtype"])
    measurements = tuple(map(_measurement, value["measurements"]))
    nodes = {str(name): _node(*row) for name, row in value["nodes"].items()}
    for name, node in nodes.items():
        if not -1 <= node.measurement < len(measurements):
            raise ValueError("node %s has no measurement %d" % (name, node.measurement))
    return Costs(
        machine=_machine(**value["machine"]),
        compute_dtype=value["compute_dtype"],
        measurements=measurements,
        casts=tuple(_cast(**row) for row in value["casts"]),
        nodes=nodes,
        overhead=_number(value["overhead"]),
        steps={str(name): _timed(row) for name, row in value["steps"].items()},
        source=str(value["source"]),
        batch_size=None if value["batch_size"] is None else int(value["batch_size"]),
        complete=bool(value["complete"]),
        faster=str(value["faster"]),
        placement=str(value["placement"]),
        float32_nodes=tuple(map(str, value.get("float32_nodes", ()))),
        half_scale=_number(value.get("half_scale", 1.0)),
    )


def tensor_text(tensor: TensorType) -> str:
    """`float32[8,?,3]`."""
    if tensor.shape is None:
        return tensor.dtype
    dims = ",".join("?" if dim is None else str(dim) for dim in tensor.shape)
    return "%s[%s]" % (tensor.dtype, dims)


def _tensor(text: str) -> TensorType:
    found = _TENSOR.fullmatch(text)
    if found is None:
        raise ValueError("tensor %s" % text)
    dtype, dims = found.groups()
    if dims is None:
        return TensorType(dtype)
    return TensorType(
        dtype, tuple(None if dim == "?" else int(dim) for dim in dims.split(",") if dim)
    )


def _measurement(row: Any) -> OperationTime:
    signature = OperationSignature(
        str(row["op"]),
        tuple(sorted((str(name), str(text)) for name, text in row["attributes"].items())),
        tuple(map(_tensor, row["inputs"])),
        tuple(map(_tensor, row["outputs"])),
    )
    return OperationTime(signature, *(_time_or_none(row[name]) for name in ("float32", "half")))


def _machine(device: str, tensorflow: str, threads: int) -> Machine:
    return Machine(str(device), str(tensorflow), int(threads))


def _cast(to: str, elements: int, time: Any) -> CastTime:
    return CastTime(str(to), int(elements), _timed(time))


def _node(measurement: int, runs: float, within: str = "") -> NodeCost:
    return NodeCost(int(measurement), _number(runs), str(within))


def _time(time: Optional[Time]) -> Optional[List[Any]]:
    if time is None:
        return None
    values = [None if math.isinf(ns) else round(ns, 1) for ns in time[:3]]
    return [*values, time.samples]


def _time_or_none(row: Any) -> Optional[Time]:
    return None if row is None else _timed(row)


def _timed(row: Any) -> Time:
    median, low, high, count = row
    return Time(
        _number(median),
        _number(low),
        math.inf if high is None else _number(high),
        int(count),
    )


def _number(value: Any) -> float:
    """A finite number of at least 0."""
    number = float(value)
    if not 0 <= number < math.inf:
        raise ValueError("number %s" % value)
    return number
