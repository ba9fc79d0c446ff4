"""JSON files of graphmp's own, checked when they are read."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict

from graphmp.errors import GraphmpError
from graphmp.files import schemas
from graphmp.files.reading import Path, read_bytes

LIMIT = 128 << 20  # bytes
_LONGEST_NUMBER = 64  # characters


def read_json(
    path: Path, schema: str, accepted: str, label: str = "", no_json: str = "GMP002"
) -> Dict[str, Any]:
    """The value in a JSON file that its schema accepts.

    Args:
        path: the file.
        schema: a name of `schemas`.
        accepted: the accepted file, in words.
        label: the file in an error's words; its path by default.
        no_json: the code of the error for what isn't JSON.

    Raises:
        GraphmpError: GMP003 if it can't be read, `no_json` if it isn't JSON, GMP002 if its schema
            refuses it.
    """
    label = label or os.fspath(path)
    data = read_bytes(path, LIMIT, label)
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(
            text, parse_int=_whole, parse_float=_fraction, parse_constant=_no_constant
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # not with half a surrogate pair
    except RecursionError:
        raise _refused(no_json, label, "not JSON (nested too deeply)", accepted) from None
    except UnicodeEncodeError:
        raise _refused(no_json, label, "not JSON (text that is not Unicode)", accepted) from None
    except ValueError as error:
        raise _refused(no_json, label, "not JSON (%s)" % error, accepted) from None
    problem = schemas.first_problem(value, schema)
    if problem:
        raise _refused("GMP002", label, "not of schema %s: %s" % (schema, problem), accepted)
    return dict(value)


def _refused(code: str, label: str, found: str, accepted: str) -> GraphmpError:
    return GraphmpError(code, "%s: %s; accepted is %s" % (label, found, accepted))


def _whole(text: str) -> int:
    return int(_short(text))


def _fraction(text: str) -> float:
    number = float(_short(text))
    if not math.isfinite(number):
        raise ValueError("%s is too large" % text)
    return number


def _short(text: str) -> str:
    """The same text. Raises ValueError for a number whose conversion would take long."""
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("a number of %d digits" % len(text))
    return text


def _no_constant(text: str) -> Any:
    raise ValueError("%s is no number" % text)
