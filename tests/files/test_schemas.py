"""The published schemas, and the checker that is held to jsonschema."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.compare import kinds
from graphmp.errors import GraphmpError
from graphmp.files import schemas
from graphmp.files.json_file import read_json

pytestmark = pytest.mark.unit

NAMES = (schemas.REPORT, schemas.AUDIT, schemas.DIFF, schemas.COSTS)
REPORT = {
    "schema": "graphmp.report/1",
    "changes": [{"node": "x", "change": "node added", "kind": "cast down", "reason": "r"}],
    "float32_nodes": [{"body": "", "kind": "deny kept", "nodes": ["y"], "reason": "r"}],
    "losses": [{"loss": ["l"], "user_clips": [{"node": "c", "kind": "value", "norm": None}]}],
    "clip_norm": 1.5,
    "seconds": {},
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "allow", "graphmp.report/1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["node", "kind", "changes", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def jsonschema_accepts(value, name):
    return not list(jsonschema.Draft7Validator(schemas.schema(name)).iter_errors(value))


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one_and_uses_known_keywords(name):
    schema = schemas.schema(name)
    jsonschema.Draft7Validator.check_schema(schema)
    assert keywords(schema) <= {*schemas.KEYWORDS, *schemas._IGNORED, "$ref"}


def keywords(rule):
    """All keywords in a schema, or in a list of schemas."""
    if isinstance(rule, list):
        return set().union(*map(keywords, rule))
    if not isinstance(rule, dict):
        return set()
    found = set(rule)
    for keyword in ("properties", "definitions"):
        for inner in rule.get(keyword, {}).values():
            found |= keywords(inner)
    for keyword in ("anyOf", "items", "additionalProperties", "propertyNames"):
        found |= keywords(rule.get(keyword))
    return found


@pytest.mark.parametrize("row", ["change", "float32"])
def test_the_kinds_are_those_of_the_schema(row):
    kind = schemas.schema(schemas.REPORT)["definitions"][row]["properties"]["kind"]
    assert set(kind["enum"]) == {*kinds.KINDS, ""}


@settings(max_examples=150)
@given(st.data())
def test_the_checker_agrees_with_jsonschema(data):
    name = data.draw(st.sampled_from(NAMES))
    value = json.loads(json.dumps(REPORT))
    place = value
    while isinstance(place, (dict, list)) and place:
        key = data.draw(
            st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place)))
        )
        if not isinstance(place[key], (dict, list)) or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    assert (schemas.first_problem(value, name) == "") == jsonschema_accepts(value, name)


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"kind": 3}, "changes[0].kind is 3; accepted is one of "),
        ({"kind": "unknown"}, "changes[0].kind is 'unknown'; accepted is one of "),
        ({"reason": ["r"]}, "changes[0].reason is array; accepted is string"),
        ({"node": None}, "changes[0].node is null; accepted is string"),
    ],
)
def test_a_problem_is_named(change, problem):
    value = {"changes": [dict({"node": "x"}, **change)]}
    assert schemas.first_problem(value, schemas.REPORT).startswith(problem)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100000, "not JSON (nested too deeply)"),
        (b'{"changes": [], "clip_norm": NaN}', "NaN is no number"),
        (b'{"changes": [], "clip_norm": 1e999}', "is too large"),
        (b'{"changes": ' + b"9" * 100000 + b"}", "a number of 100000 digits"),
        (b'{"changes": [{"node": "\\ud800"}]}', "text that is not Unicode"),
        (b"[]", "the file is array; accepted is object"),
        (b"{}", "the file has no changes"),
    ],
)
def test_what_is_no_report(tmp_path, data, message):
    path = tmp_path / "report.json"
    path.write_bytes(data)
    with pytest.raises(GraphmpError) as caught:
        read_json(path, schemas.REPORT, "a report")
    assert caught.value.code == "GMP002" and message in caught.value.message
    assert caught.value.message.endswith("accepted is a report")


def test_a_report_is_read(tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(REPORT))
    assert read_json(tmp_path / "r.json", schemas.REPORT, "a report") == REPORT
