"""Checks of JSON values against the published schemas in `schema/`.

The schemas use a small part of JSON Schema draft 7: `KEYWORDS`. A test holds this checker to the
package jsonschema, which a plain conversion shouldn't need.
"""

from __future__ import annotations

import functools
import itertools
import json
import pathlib
import re
from typing import Any, Callable, Dict, Iterator

FOLDER = pathlib.Path(__file__).parent / "schema"
REPORT, AUDIT, DIFF = "graphmp.report-1", "graphmp.audit-1", "graphmp.diff-1"
COSTS = "graphmp.costs-1"
_NAMES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
}
_IGNORED = ("$schema", "$id", "title", "description", "definitions")


@functools.lru_cache(maxsize=None)
def schema(name: str) -> Dict[str, Any]:
    """A published schema."""
    text = (FOLDER / (name + ".schema.json")).read_text(encoding="utf-8")
    return dict(json.loads(text))


def first_problem(value: Any, name: str) -> str:
    """The first part of a value that its schema doesn't accept, in words; empty if all is well."""
    whole = schema(name)
    return next(_problems(value, whole, whole, ""), "")


def _problems(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if rule is True:
        return
    if "$ref" in rule:
        rule = whole["definitions"][rule["$ref"].rsplit("/", 1)[1]]
    for keyword in rule:
        if keyword not in _IGNORED:
            yield from KEYWORDS[keyword](value, rule, whole, path)


def _type(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    accepted = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
    if not any(_is(value, name) for name in accepted):
        yield "%s is %s; accepted is %s" % (_place(path), _kind(value), " or ".join(accepted))


def _is(value: Any, name: str) -> bool:
    if name in _NAMES:
        return isinstance(value, _NAMES[name])
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and (name == "number" or value == value // 1)


def _kind(value: Any) -> str:
    return next((name for name in _NAMES if _is(value, name)), "number")


def _const(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if value != rule["const"]:
        yield "%s is %s; accepted is %r" % (_place(path), _shown(value), rule["const"])


def _enum(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if value not in rule["enum"]:
        yield "%s is %s; accepted is one of %s" % (
            _place(path),
            _shown(value),
            ", ".join(map(str, rule["enum"])),
        )


def _required(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in rule["required"]:
            if name not in value:
                yield "%s has no %s" % (_place(path), name)


def _properties(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in rule["properties"].items():
            if name in value:
                yield from _problems(value[name], inner, whole, _inside(path, name))


def _others(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    inner = rule["additionalProperties"]
    for name in value:
        if name in rule.get("properties", ()):
            continue
        if inner is False:
            yield "%s has a field %s, which is not accepted" % (_place(path), _shown(name))
        else:
            yield from _problems(value[name], inner, whole, _inside(path, name))


def _names(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in value:
            yield from _problems(name, rule["propertyNames"], whole, _inside(path, name))


def _items(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, list):
        inner = rule["items"]
        rules = inner if isinstance(inner, list) else itertools.repeat(inner)
        for number, (item, each) in enumerate(zip(value, rules)):
            yield from _problems(item, each, whole, "%s[%d]" % (path, number))


def _any_of(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    found = [next(_problems(value, each, whole, path), "") for each in rule["anyOf"]]
    if all(found):
        yield found[0]


def _pattern(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(rule["pattern"], value):
        yield "%s is %s; accepted is what matches %s" % (
            _place(path),
            _shown(value),
            rule["pattern"],
        )


def _fewest(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, list) and len(value) < rule["minItems"]:
        yield "%s has %d items; accepted are %d or more" % (
            _place(path),
            len(value),
            rule["minItems"],
        )


def _most(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, list) and len(value) > rule["maxItems"]:
        yield "%s has %d items; accepted are at most %d" % (
            _place(path),
            len(value),
            rule["maxItems"],
        )


def _least(value: Any, rule: Any, whole: Dict[str, Any], path: str) -> Iterator[str]:
    if _is(value, "number") and not value >= rule["minimum"]:
        yield "%s is %s; accepted is at least %s" % (_place(path), _shown(value), rule["minimum"])


def _place(path: str) -> str:
    return path or "the file"


def _inside(path: str, name: str) -> str:
    return "%s.%s" % (path, name) if path else name


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an %s" % _kind(value)
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


KEYWORDS: Dict[str, Callable[[Any, Any, Dict[str, Any], str], Iterator[str]]] = {
    "type": _type,
    "const": _const,
    "enum": _enum,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _others,
    "propertyNames": _names,
    "items": _items,
    "anyOf": _any_of,
    "pattern": _pattern,
    "minItems": _fewest,
    "maxItems": _most,
    "minimum": _least,
}
