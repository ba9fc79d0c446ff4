"""Values computed on first use (functools.cached_property was added in Python 3.8)."""

from __future__ import annotations

import functools
from typing import Any, Callable, Generic, TypeVar

_Subject = TypeVar("_Subject")
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


def remembered(function: Callable[[_Subject], _Value]) -> Callable[[_Subject], _Value]:
    """A function of an object that doesn't change; its value is stored in the object.

    In its attribute `facts` if it has one, a dictionary that several objects may share. Callers
    must not change the value.
    """
    key = "%s.%s" % (function.__module__, function.__qualname__)

    @functools.wraps(function)
    def found(subject: _Subject) -> _Value:
        known = subject.__dict__
        known = known.get("facts", known)
        if key not in known:
            known[key] = function(subject)
        value: _Value = known[key]
        return value

    return found
