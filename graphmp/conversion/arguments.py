"""Arguments for a build function without a caller: `--input` and `--arg`.

Their forms are `name=float32[2,3]` and `name=value`.
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError

_INPUT = re.compile(r"^(\w+)=(\w+)(?:\[([^\]]*)\])?$")
Shape = Optional[Tuple[Optional[int], ...]]


def parse_input(text: str) -> Tuple[str, str, Shape]:
    """Parse `name=float32[128,224,224,3]` into name, dtype name and shape.

    `?` is an unknown dimension, `[]` a scalar, no brackets an unknown shape.

    Raises:
        GraphmpError: GMP002, saying what is accepted.
    """
    match = _INPUT.match(text.replace(" ", ""))
    if match:
        name, dtype, dims = match.groups()
        try:
            tf.as_dtype(dtype)
            return (
                name,
                dtype,
                None
                if dims is None
                else tuple(
                    None if d in ("?", "None", "-1") else int(d) for d in dims.split(",") if d
                ),
            )
        except (TypeError, ValueError):
            pass
    raise GraphmpError(
        "GMP002",
        "--input=%s: accepted is name=dtype[dimensions], for example inputs=float32[?,224,224,3]"
        % text,
    )


def parse_arg(text: str) -> Tuple[str, Any]:
    """Parse `name=value`; the value is a Python literal, or else text.

    Raises:
        GraphmpError: GMP002 if there is no `=`.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise GraphmpError(
            "GMP002", "--arg=%s: accepted is name=value, for example nlabel=1000" % text
        )
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return name, value


def make_arguments(
    function: Callable[..., Any], label: str, inputs: Sequence[str], args: Sequence[str]
) -> Dict[str, Any]:
    """Keyword arguments for `function`: a placeholder for each input, a value for each arg.

    Placeholders are made in the default graph.

    Raises:
        GraphmpError: GMP007, naming each argument that is missing or that the function doesn't
            have.
    """
    tensors = [parse_input(text) for text in inputs]
    values = dict(parse_arg(text) for text in args)
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    given = [name for name, _, _ in tensors] + list(values)
    if not any(p.kind == p.VAR_KEYWORD for p in parameters):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise GraphmpError(
                "GMP007",
                "%s has no argument %s; it takes %s"
                % (label, ", ".join(unknown), ", ".join(names)),
            )
    if names[:1] == ["self"]:
        raise GraphmpError(
            "GMP007",
            "%s is a method that the file never calls; name a function, or pass the file arguments"
            " that make it call it" % label,
        )
    required = [
        p.name
        for p in parameters
        if p.default is p.empty and p.name in names and p.name not in given
    ]
    if required:
        raise GraphmpError(
            "GMP007",
            "%s is never called by the file and needs %s: pass %s"
            % (label, ", ".join(required), _example(required)),
        )
    values.update((name, tf.placeholder(dtype, shape, name=name)) for name, dtype, shape in tensors)
    return values


def _example(names: List[str]) -> str:
    return " ".join("--input %s=float32[?,...] or --arg %s=VALUE" % (name, name) for name in names)
