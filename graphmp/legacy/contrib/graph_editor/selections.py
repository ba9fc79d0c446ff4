"""Operations and tensors by regular expressions and filters."""

from __future__ import annotations

import re
from typing import Any, Callable, List, Tuple, Union

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.graph_editor import lists

__all__ = [
    "can_be_regex",
    "filter_ops",
    "filter_ops_from_regex",
    "filter_ts",
    "filter_ts_from_regex",
    "get_name_scope_ops",
    "make_regex",
    "select_ops",
    "select_ops_and_ts",
    "select_ts",
]

_REGEX = type(re.compile(""))
_FOR_OPS, _FOR_TENSORS = "(?#ops)", "(?#ts)"
Filter = Union[bool, Callable[[Any], bool]]


def can_be_regex(obj: Any) -> bool:
    """Whether an object is text or a compiled expression."""
    return isinstance(obj, (str, _REGEX))


def make_regex(obj: Any) -> Any:
    """An object as a compiled expression.

    Raises:
        ValueError: it can't be one.
    """
    if not can_be_regex(obj):
        raise ValueError("Expected a string or a regular expression, got: %s" % type(obj))
    return re.compile(obj)


def _passing(elements: List[Any], positive_filter: Filter) -> List[Any]:
    if positive_filter is True:
        return elements
    return [element for element in elements if positive_filter(element)]  # type: ignore[operator]


def filter_ops(ops: Any, positive_filter: Filter) -> List[tf.Operation]:
    """The operations that a function accepts; True for all."""
    return _passing(lists.make_list_of_op(ops), positive_filter)


def filter_ts(ops: Any, positive_filter: Filter) -> List[tf.Tensor]:
    """The tensors that operations read or make, as far as a function accepts them."""
    tensors = (t for op in lists.make_list_of_op(ops) for t in [*op.inputs, *op.outputs])
    return _passing(lists.unique(tensors), positive_filter)


def filter_ops_from_regex(ops: Any, regex: Any) -> List[tf.Operation]:
    """The operations with a match in their names."""
    search = make_regex(regex).search
    return filter_ops(ops, lambda op: search(op.name) is not None)


def filter_ts_from_regex(ops: Any, regex: Any) -> List[tf.Tensor]:
    """The tensors that operations read or make, with a match in their names."""
    search = make_regex(regex).search
    return filter_ts(ops, lambda t: search(t.name) is not None)


def get_name_scope_ops(ops: Any, scope: str) -> List[tf.Operation]:
    """The operations below a name scope."""
    scope = scope.rstrip("/")
    return filter_ops_from_regex(ops, "^%s(/.*)?$" % re.escape(scope)) if scope else list(ops)


def _graph(graph: Any) -> Any:
    if graph is not None and not isinstance(graph, tf.Graph):
        raise TypeError("Expected a tf.Graph, got: %s" % type(graph))
    return graph


def _pattern(regex: Any) -> str:
    return regex if isinstance(regex, str) else regex.pattern


def _selected(
    args: Any,
    listed: Callable[[Any], List[Any]],
    matching: Callable[[Any, Any], List[Any]],
    prefixes: Tuple[str, str],
    restricted: bool,
    graph: Any = None,
    positive_filter: Filter = True,
    **unexpected: Any,
) -> List[Any]:
    """Elements by themselves, and by expressions without the prefix of the other kind."""
    if unexpected:
        raise ValueError("Unexpected keyword arguments: %s" % ", ".join(sorted(unexpected)))
    graph = _graph(graph)
    own, other = prefixes
    found: List[Any] = []
    for arg in args:
        if not can_be_regex(arg):
            found += listed(arg)
        elif graph is None:
            raise ValueError("The expression %r needs the keyword graph" % _pattern(arg))
        elif _pattern(arg).startswith(own) or not (restricted or _pattern(arg).startswith(other)):
            found += matching(graph, arg)
    return _passing(lists.unique(found), positive_filter or True)


def select_ops(*args: Any, **kwargs: Any) -> List[tf.Operation]:
    """Operations by themselves, and by expressions with the keyword `graph`; tensors are ignored.

    With `restrict_ops_regex` only expressions that start with `(?#ops)` count.
    """
    restricted = kwargs.pop("restrict_ops_regex", False)

    def listed(ops: Any) -> List[tf.Operation]:
        return lists.make_list_of_op(ops, ignore_ts=True)

    prefixes = (_FOR_OPS, _FOR_TENSORS)
    return _selected(args, listed, filter_ops_from_regex, prefixes, restricted, **kwargs)


def select_ts(*args: Any, **kwargs: Any) -> List[tf.Tensor]:
    """Tensors by themselves, and by expressions with the keyword `graph`; operations are ignored.

    With `restrict_ts_regex` only expressions that start with `(?#ts)` count.
    """
    restricted = kwargs.pop("restrict_ts_regex", False)

    def listed(ts: Any) -> List[tf.Tensor]:
        return lists.make_list_of_t(ts, ignore_ops=True)

    prefixes = (_FOR_TENSORS, _FOR_OPS)
    return _selected(args, listed, filter_ts_from_regex, prefixes, restricted, **kwargs)


def select_ops_and_ts(*args: Any, **kwargs: Any) -> Tuple[List[tf.Operation], List[tf.Tensor]]:
    """Operations and tensors; an expression is for tensors if it starts with `(?#ts)`."""
    return select_ops(*args, **kwargs), select_ts(*args, restrict_ts_regex=True, **kwargs)
