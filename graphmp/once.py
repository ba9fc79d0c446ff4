"""Attributes computed on first use (functools.cached_property was added in Python 3.8)."""

from __future__ import annotations

from typing import Any, Callable, Generic, TypeVar

_Value = TypeVar("_Value")


class once(Generic[_Value]):  # noqa: N801 - a decorator, as property is
    """A method as an attribute, stored in the instance on first use."""

    def __init__(self, method: Callable[[Any], _Value]):
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: Any) -> _Value:
        value: _Value = self._method(instance)
        instance.__dict__[self._method.__name__] = value
        return value
