"""The file of costs: written, read, refused; its schema."""

import dataclasses
import json
import math

import pytest

from graphmp.errors import GraphmpError
from graphmp.tuning import files
from graphmp.tuning.costs import (
    CastTime,
    Costs,
    Machine,
    NodeCost,
    OperationSignature,
    OperationTime,
    TensorType,
    Time,
    median_time,
)
from tests.support.costed import exactly
from tests.support.places import ROOT

pytestmark = pytest.mark.unit

COSTS = Costs(
    machine=Machine("CPU of a kind", "2.21.0", 2),
    compute_dtype="bfloat16",
    measurements=(
        OperationTime(
            OperationSignature(
                "MatMul",
                (("transpose_a", "True"),),
                (TensorType("float32", (8, 4)), TensorType("float32", (8, None))),
                (TensorType("float32"),),
            ),
            Time(41000.0, 40000.0, 42000.5, 20),
            Time(63000.0, 60000.0, math.inf, 1),
        ),
        OperationTime(
            OperationSignature("Neg", (), (TensorType("float32", ()),)), exactly(10.0), None
        ),
    ),
    casts=(CastTime("half", 1024, exactly(300.0)),),
    nodes={"a/MatMul": NodeCost(0, 2.0), "b": NodeCost(-1, 1.0, "a/MatMul")},
    overhead=900.0,
    steps={"float32": exactly(5e6)},
    source="model.meta",
    batch_size=8,
    complete=False,
    faster="float32",
    placement="0123",
    float32_nodes=("a/MatMul", "b"),
    half_scale=1.25,
)


def written(folder, **fields):
    """A file of costs with some fields of its JSON value changed."""
    path = folder / "x.costs"
    path.write_text(json.dumps(dict(files.to_json(COSTS), **fields)))
    return str(path)


def test_costs_survive_a_file(tmp_path):
    path = tmp_path / "x.costs"
    path.write_bytes(files.dumps(COSTS))
    assert files.read(str(path)) == COSTS


def test_the_same_costs_give_the_same_bytes():
    other = dataclasses.replace(COSTS, nodes=dict(reversed(list(COSTS.nodes.items()))))
    assert files.dumps(other) == files.dumps(COSTS)


def schema():
    name = "graphmp.costs-1.schema.json"
    return json.loads((ROOT / "graphmp" / "files" / "schema" / name).read_text("utf-8"))


def is_valid(value):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft7Validator.check_schema(schema())
    return jsonschema.Draft7Validator(schema()).is_valid(value)


def test_what_is_written_fits_the_schema():
    assert is_valid(json.loads(files.dumps(COSTS).decode("utf-8")))


def test_the_schema_names_every_field():
    value = files.to_json(COSTS)
    assert set(value) == set(schema()["properties"])
    later = {"float32_nodes", "half_scale"}  # missing in files of before
    assert set(value) - later == set(schema()["required"])
    old = files.from_json({name: value[name] for name in value if name not in later})
    assert (old.float32_nodes, old.half_scale) == ((), 1.0)
    assert not is_valid({name: value[name] for name in value if name != "casts"})
    assert not is_valid(dict(value, other=1))


@pytest.mark.parametrize(
    "fields, found",
    [
        ({"schema": "graphmp.audit/1"}, "schema is 'graphmp.audit/1'"),
        ({"compute_dtype": "float32"}, "compute_dtype is 'float32'"),
        ({"measurements": None}, "measurements is null"),
        ({"nodes": {"a": [7, 1]}}, "node a has no measurement 7"),
        ({"nodes": {"a": [0, -1]}}, "nodes.a[1] is -1"),
        ({"nodes": {"a": [0, 1, 2]}}, "nodes.a[2] is number"),
        ({"overhead": float("inf")}, "Infinity is no number"),
        ({"machine": {"device": "x"}}, "machine has no tensorflow"),
        ({"casts": [{"to": "half"}]}, "casts[0] has no elements"),
        ({"steps": []}, "steps is array"),
    ],
)
def test_what_is_no_costs_is_refused(tmp_path, fields, found):
    with pytest.raises(GraphmpError, match=r"GMP002: --costs=.*x\.costs: .*; accepted is") as error:
        files.read(written(tmp_path, **fields))
    assert found in error.value.message


@pytest.mark.parametrize("text", ["", "{", "\xff\xfe"])
def test_what_is_no_json(tmp_path, text):
    path = tmp_path / "x.costs"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(GraphmpError, match=r"GMP002: --costs=.*x\.costs: not JSON"):
        files.read(str(path))


def test_a_missing_file():
    with pytest.raises(GraphmpError, match="GMP003: --costs=gone: cannot be read"):
        files.read("gone")


@pytest.mark.parametrize(
    "samples, time",
    [
        ([5.0], Time(5.0, 5.0, 5.0, 1)),
        ([3.0, 1.0], Time(2.0, 1.0, 3.0, 2)),
        (list(range(5)), Time(2, 0, 4, 5)),
        (list(range(9)), Time(4, 1, 7, 9)),
        (list(range(100)), Time(49.5, 39, 60, 100)),
    ],
)
def test_a_median_and_its_interval(samples, time):
    """For 9 samples order statistics 2 and 8 are 96% sure, for 100 those of rank 40 and 61."""
    assert median_time(samples) == time
